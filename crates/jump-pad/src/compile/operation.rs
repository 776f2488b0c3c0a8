//! The instructions of agent expressions, except the jumps.

use iced_x86::code_asm::*;
use tracewire_agent_expr::{EvaluationErrorKind, Instruction, Opcode};
use tracewire_model::VariableNumber;

use super::cells::{Cell, pool};
use super::code::{Code, Gpr, Made, Mode, OUT, Slot};
use super::expression::{Expression, Purpose, variable};
use super::frame::VARIABLE;
use super::memory::Length;
use super::registers::{Value, value};
use crate::pad::{CannotCompile, PadVariable};

impl Expression<'_, '_> {
    pub(super) fn instruction(
        &mut self,
        code: &mut Code<'_>,
        instruction: Instruction<'_>,
    ) -> Made {
        let operand = instruction.operand.number();
        match instruction.opcode {
            Opcode::Const8 | Opcode::Const16 | Opcode::Const32 | Opcode::Const64 => {
                self.cells.push(Cell::Number(operand));
            }
            Opcode::Dup => self.pick(0),
            Opcode::Pick => self.pick(operand as usize),
            Opcode::Pop => _ = self.cells.pop(),
            Opcode::Swap => self.rotate(2),
            Opcode::Rot => self.rotate(3),
            Opcode::Add
            | Opcode::Sub
            | Opcode::Mul
            | Opcode::BitAnd
            | Opcode::BitOr
            | Opcode::BitXor => self.arithmetic(code, instruction.opcode)?,
            Opcode::Lsh | Opcode::RshSigned | Opcode::RshUnsigned => {
                self.shift(code, instruction.opcode)?;
            }
            Opcode::Equal | Opcode::LessSigned | Opcode::LessUnsigned => {
                self.compare(code, instruction.opcode)?;
            }
            Opcode::DivSigned | Opcode::DivUnsigned | Opcode::RemSigned | Opcode::RemUnsigned => {
                self.divide(code, instruction)?;
            }
            Opcode::LogNot | Opcode::BitNot => self.negate(code, instruction.opcode)?,
            Opcode::Ext => self.extend(code, operand, true)?,
            Opcode::ZeroExt => self.extend(code, operand, false)?,
            Opcode::Ref8 => self.load(code, instruction.offset, 1)?,
            Opcode::Ref16 => self.load(code, instruction.offset, 2)?,
            Opcode::Ref32 => self.load(code, instruction.offset, 4)?,
            Opcode::Ref64 => self.load(code, instruction.offset, 8)?,
            Opcode::Reg => self.register(code, instruction.offset, operand as u16)?,
            Opcode::GetV => self.get_variable(code, operand)?,
            Opcode::SetV => self.set_variable(code, operand)?,
            Opcode::TraceV => self.trace_variable(code, operand)?,
            Opcode::Trace => {
                let length = self.cells.pop();
                let address = self.cells.pop();
                self.trace(code, address, length)?;
            }
            Opcode::TraceQuick | Opcode::Trace16 => {
                let address = self.cells.pop();
                self.cells.push(address);
                self.trace(code, address, Cell::Number(operand))?;
            }
            Opcode::TraceNz => {
                let limit = self.cells.pop();
                let address = self.cells.pop();
                self.trace_text(code, address, limit)?;
            }
            Opcode::Printf => return Err(CannotCompile::Prints),
            // Jumps and ends are none of this module's, reserved ones are not in a program that was verified.
            _ => {}
        }
        Ok(())
    }

    fn pick(&mut self, below: usize) {
        let place = self.cells.list.len().checked_sub(below + 1);
        let cell = place.and_then(|place| self.cells.list.get(place)).copied();
        self.cells.push(cell.unwrap_or(Cell::Number(0)));
    }

    /// Moves the top down by this many cells, including itself.
    fn rotate(&mut self, count: usize) {
        let start = self.cells.list.len().saturating_sub(count);
        if let Some(cells) = self.cells.list.get_mut(start..) {
            cells.rotate_right(1);
        }
    }

    fn arithmetic(&mut self, code: &mut Code<'_>, opcode: Opcode) -> Made {
        let b = self.cells.pop();
        let a = self.cells.pop();
        if let (Cell::Number(a), Cell::Number(b)) = (a, b) {
            self.cells.push(Cell::Number(match opcode {
                Opcode::Add => a.wrapping_add(b),
                Opcode::Sub => a.wrapping_sub(b),
                Opcode::Mul => a.wrapping_mul(b),
                Opcode::BitAnd => a & b,
                Opcode::BitOr => a | b,
                _ => a ^ b,
            }));
            return Ok(());
        }
        self.cells.pin(b);
        let place = code.changeable(&mut self.cells, a)?;
        let to = pool(place).wide();
        let small = match b {
            Cell::Number(number) => i32::try_from(number.cast_signed()).ok(),
            _ => None,
        };
        if let Some(number) = small {
            match opcode {
                Opcode::Add => code.asm.add(to, number)?,
                Opcode::Sub => code.asm.sub(to, number)?,
                Opcode::Mul => code.asm.imul_3(to, to, number)?,
                Opcode::BitAnd => code.asm.and(to, number)?,
                Opcode::BitOr => code.asm.or(to, number)?,
                _ => code.asm.xor(to, number)?,
            }
        } else {
            let from = code.in_register(b, Gpr(2))?;
            match opcode {
                Opcode::Add => code.asm.add(to, from)?,
                Opcode::Sub => code.asm.sub(to, from)?,
                Opcode::Mul => code.asm.imul_2(to, from)?,
                Opcode::BitAnd => code.asm.and(to, from)?,
                Opcode::BitOr => code.asm.or(to, from)?,
                _ => code.asm.xor(to, from)?,
            }
        }
        self.cells.push(Cell::Pool(place));
        Ok(())
    }

    fn shift(&mut self, code: &mut Code<'_>, opcode: Opcode) -> Made {
        let b = self.cells.pop();
        let a = self.cells.pop();
        self.cells.pin(b);
        let place = code.changeable(&mut self.cells, a)?;
        let to = pool(place).wide();
        match (b, opcode) {
            (Cell::Number(by), Opcode::RshSigned) => code.asm.sar(to, by.min(63) as i32)?,
            (Cell::Number(64..), _) => code.asm.xor(pool(place).half(), pool(place).half())?,
            (Cell::Number(by), Opcode::Lsh) => code.asm.shl(to, by as i32)?,
            (Cell::Number(by), _) => code.asm.shr(to, by as i32)?,
            (b, Opcode::RshSigned) => {
                code.load(b, Gpr(2))?;
                code.asm.mov(eax, 63)?;
                code.asm.cmp(rcx, rax)?;
                code.asm.cmova(rcx, rax)?;
                code.asm.sar(to, cl)?;
            }
            (b, _) => {
                code.load(b, Gpr(2))?;
                if opcode == Opcode::Lsh {
                    code.asm.shl(to, cl)?;
                } else {
                    code.asm.shr(to, cl)?;
                }
                // The result is zero from 64 bits on, where the machine uses the count modulo 64.
                code.asm.cmp(rcx, 64)?;
                code.asm.sbb(rax, rax)?;
                code.asm.and(to, rax)?;
            }
        }
        self.cells.push(Cell::Pool(place));
        Ok(())
    }

    fn compare(&mut self, code: &mut Code<'_>, opcode: Opcode) -> Made {
        let b = self.cells.pop();
        let a = self.cells.pop();
        self.cells.pin(a);
        self.cells.pin(b);
        let place = code.take(&mut self.cells)?;
        // The chosen register may have held an operand only if it was no operand's own.
        let left = code.in_register(a, Gpr(3))?;
        let small = match b {
            Cell::Number(number) => i32::try_from(number.cast_signed()).ok(),
            _ => None,
        };
        match small {
            Some(number) => code.asm.cmp(left, number)?,
            None => {
                let right = code.in_register(b, Gpr(2))?;
                code.asm.cmp(left, right)?;
            }
        }
        match opcode {
            Opcode::Equal => code.asm.sete(al)?,
            Opcode::LessSigned => code.asm.setl(al)?,
            _ => code.asm.setb(al)?,
        }
        code.asm.movzx(pool(place).half(), al)?;
        self.cells.push(Cell::Pool(place));
        Ok(())
    }

    fn divide(&mut self, code: &mut Code<'_>, instruction: Instruction<'_>) -> Made {
        self.count_steps(code)?;
        let b = self.cells.pop();
        let a = self.cells.pop();
        self.cells.pin(a);
        self.cells.pin(b);
        let place = code.take(&mut self.cells)?;
        code.uses(&[r11, rax, rdx]);
        code.load(a, Gpr(0))?;
        let by = code.in_register(b, Gpr(11))?;
        let opcode = instruction.opcode;
        let done = code.label();
        if !matches!(b, Cell::Number(1..)) {
            let zero = code.label();
            code.asm.test(by, by)?;
            code.asm.je(code.to(zero))?;
            let fail = self.evaluation_error(
                code,
                instruction.offset,
                EvaluationErrorKind::DivisionByZero,
            );
            code.later(move |code| {
                code.place(zero)?;
                fail(code)
            });
        }
        let to = pool(place).wide();
        let rest = matches!(opcode, Opcode::RemSigned | Opcode::RemUnsigned);
        if matches!(opcode, Opcode::DivUnsigned | Opcode::RemUnsigned) {
            code.asm.xor(edx, edx)?;
            code.asm.div(by)?;
        } else {
            // The machine faults where the smallest number is divided by -1.
            let minus_one = code.label();
            code.asm.cmp(by, -1)?;
            code.asm.je(code.to(minus_one))?;
            code.asm.cqo()?;
            code.asm.idiv(by)?;
            code.later(move |code| {
                code.place(minus_one)?;
                if rest {
                    code.asm.xor(edx, edx)?;
                } else {
                    code.asm.neg(rax)?;
                }
                code.asm.mov(to, if rest { rdx } else { rax })?;
                code.asm.jmp(code.to(done))?;
                Ok(())
            });
        }
        code.asm.mov(to, if rest { rdx } else { rax })?;
        code.place(done)?;
        self.cells.push(Cell::Pool(place));
        Ok(())
    }

    fn negate(&mut self, code: &mut Code<'_>, opcode: Opcode) -> Made {
        let cell = self.cells.pop();
        if let Cell::Number(number) = cell {
            self.cells.push(Cell::Number(match opcode {
                Opcode::LogNot => u64::from(number == 0),
                _ => !number,
            }));
            return Ok(());
        }
        let place = code.changeable(&mut self.cells, cell)?;
        let register = pool(place);
        if opcode == Opcode::LogNot {
            code.asm.test(register.wide(), register.wide())?;
            code.asm.sete(al)?;
            code.asm.movzx(register.half(), al)?;
        } else {
            code.asm.not(register.wide())?;
        }
        self.cells.push(Cell::Pool(place));
        Ok(())
    }

    fn extend(&mut self, code: &mut Code<'_>, bits: u64, signed: bool) -> Made {
        if bits >= 64 {
            return Ok(());
        }
        let cell = self.cells.pop();
        let by = 64 - bits as u32;
        let cell = match cell {
            _ if bits == 0 => Cell::Number(0),
            Cell::Number(number) if signed => Cell::Number(
                (number << by)
                    .cast_signed()
                    .wrapping_shr(by)
                    .cast_unsigned(),
            ),
            Cell::Number(number) => Cell::Number(number << by >> by),
            cell => {
                let place = code.changeable(&mut self.cells, cell)?;
                let register = pool(place);
                match (bits, signed) {
                    (32, true) => code.asm.movsxd(register.wide(), register.half())?,
                    (32, false) => code.asm.mov(register.half(), register.half())?,
                    _ => {
                        code.asm.shl(register.wide(), by as i32)?;
                        if signed {
                            code.asm.sar(register.wide(), by as i32)?;
                        } else {
                            code.asm.shr(register.wide(), by as i32)?;
                        }
                    }
                }
                Cell::Pool(place)
            }
        };
        self.cells.push(cell);
        Ok(())
    }

    fn load(&mut self, code: &mut Code<'_>, offset: usize, size: u8) -> Made {
        self.count_steps(code)?;
        let cell = self.cells.pop();
        self.cells.pin(cell);
        let place = code.take(&mut self.cells)?;
        code.uses(&[r11]);
        let address = code.in_register(cell, Gpr(11))?;
        let to = pool(place);
        let bad = code.label();
        match code.mode {
            Mode::Direct => {
                code.may_fault(bad);
                match size {
                    1 => code.asm.movzx(to.half(), byte_ptr(address))?,
                    2 => code.asm.movzx(to.half(), word_ptr(address))?,
                    4 => code.asm.mov(to.half(), dword_ptr(address))?,
                    _ => code.asm.mov(to.wide(), qword_ptr(address))?,
                }
            }
            Mode::Kernel => {
                let number = code.slot(Slot::Scratch(0));
                code.asm.mov(number, 0)?;
                code.asm.lea(rax, number)?;
                code.asm.mov(rsi, address)?;
                code.asm.mov(edx, u32::from(size))?;
                code.read_by_kernel()?;
                code.asm.cmp(eax, i32::from(size))?;
                code.asm.jne(code.to(bad))?;
                code.asm.mov(to.wide(), number)?;
            }
        }
        self.cells.push(Cell::Pool(place));
        let exit = match &self.purpose {
            Purpose::Condition { .. } | Purpose::Value { .. } => {
                let kind = EvaluationErrorKind::BadMemory { address: 0, size };
                let fail = self.evaluation_error(code, offset, kind);
                code.later(move |code| {
                    code.place(bad)?;
                    code.asm.mov(rax, address)?;
                    fail(code)
                });
                return Ok(());
            }
            Purpose::Action(frame) => **frame,
        };
        code.later(move |code| {
            code.place(bad)?;
            code.asm.mov(r11, address)?;
            code.count_piece(&exit)?;
            code.asm.mov(rax, r11)?;
            code.note_missing(exit.block)?;
            let mut exit = exit;
            code.flush(&mut exit)?;
            if let Some(label) = exit.exit {
                code.asm.jmp(code.to(label))?;
            }
            Ok(())
        });
        Ok(())
    }

    fn register(&mut self, code: &mut Code<'_>, offset: usize, register: u16) -> Made {
        match value(register, code.options.features) {
            Value::General(general) => {
                code.uses_program(general);
                self.cells.push(Cell::Program(general));
            }
            Value::Other(source) => {
                let place = code.take(&mut self.cells)?;
                code.other_register(source, register, pool(place))?;
                self.cells.push(Cell::Pool(place));
            }
            Value::None => {
                self.count_steps(code)?;
                let fail =
                    self.evaluation_error(code, offset, EvaluationErrorKind::BadRegister(register));
                let none = code.label();
                code.asm.jmp(code.to(none))?;
                code.later(move |code| {
                    code.place(none)?;
                    fail(code)
                });
                self.cells.push(Cell::Number(0));
            }
        }
        Ok(())
    }

    fn get_variable(&mut self, code: &mut Code<'_>, number: u64) -> Made {
        let cell = match variable(code, number)? {
            PadVariable::Slot(slot) => {
                let place = code.take(&mut self.cells)?;
                let at = shared_variable(code, number, slot)?;
                code.asm.mov(pool(place).wide(), at)?;
                Cell::Pool(place)
            }
            PadVariable::Timestamp => Cell::Slot(Slot::Microseconds),
            PadVariable::Thread => Cell::Slot(Slot::Thread),
            PadVariable::Cpu => Cell::Slot(Slot::Cpu),
            PadVariable::Duration => Cell::Slot(Slot::Duration),
        };
        self.cells.push(cell);
        Ok(())
    }

    fn set_variable(&mut self, code: &mut Code<'_>, number: u64) -> Made {
        self.count_steps(code)?;
        let cell = self.cells.pop();
        self.cells.push(cell);
        // A builtin variable keeps its own value.
        if let PadVariable::Slot(slot) = variable(code, number)? {
            let value = code.in_register(cell, Gpr(0))?;
            let at = shared_variable(code, number, slot)?;
            code.asm.mov(at, value)?;
        }
        Ok(())
    }

    fn trace_variable(&mut self, code: &mut Code<'_>, number: u64) -> Made {
        self.count_steps(code)?;
        let Purpose::Action(frame) = &mut self.purpose else {
            return Ok(());
        };
        code.count_piece(frame)?;
        frame.bound.bytes += u64::from(VARIABLE);
        frame.bound.pieces += 1;
        if frame.unbounded {
            code.asm.lea(rax, OUT + (frame.at + VARIABLE))?;
            code.check_room(frame)?;
        }
        match variable(code, number)? {
            PadVariable::Slot(slot) => {
                let at = shared_variable(code, number, slot)?;
                code.asm.mov(rax, at)?;
            }
            PadVariable::Timestamp => {
                code.note_stamp(frame.at)?;
                code.load(Cell::Slot(Slot::Microseconds), Gpr(0))?;
            }
            PadVariable::Thread => code.load(Cell::Slot(Slot::Thread), Gpr(0))?,
            PadVariable::Cpu => code.load(Cell::Slot(Slot::Cpu), Gpr(0))?,
            PadVariable::Duration => code.load(Cell::Slot(Slot::Duration), Gpr(0))?,
        }
        code.variable_block(frame.at, VariableNumber(number as i32), rax)?;
        frame.at += VARIABLE;
        Ok(())
    }

    fn trace(&mut self, code: &mut Code<'_>, address: Cell, length: Cell) -> Made {
        self.count_steps(code)?;
        self.cells.pin(address);
        self.cells.pin(length);
        let Purpose::Action(frame) = &mut self.purpose else {
            return Ok(());
        };
        code.uses(&[r11]);
        let address = code.in_register(address, Gpr(11))?;
        let length = match length {
            Cell::Number(number) if number <= u64::from(u16::MAX) => Length::Known(number as u32),
            length => Length::In(code.in_register(length, Gpr(4))?),
        };
        code.memory_piece(frame, address, length)
    }

    fn trace_text(&mut self, code: &mut Code<'_>, address: Cell, limit: Cell) -> Made {
        self.count_steps(code)?;
        self.cells.pin(address);
        self.cells.pin(limit);
        let Purpose::Action(frame) = &mut self.purpose else {
            return Ok(());
        };
        code.uses(&[r11]);
        let address = code.in_register(address, Gpr(11))?;
        let limit = match limit {
            Cell::Number(number) if number <= u64::from(u16::MAX) => Length::Known(number as u32),
            limit => Length::In(code.in_register(limit, Gpr(4))?),
        };
        code.text_piece(frame, address, limit)
    }
}

fn shared_variable(code: &Code<'_>, number: u64, slot: u32) -> Made<AsmMemoryOperand> {
    let at = code.layout().variable(slot);
    let at = at.ok_or(CannotCompile::Variable(VariableNumber(number as i32)))?;
    Ok(qword_ptr(code.shared(at)))
}

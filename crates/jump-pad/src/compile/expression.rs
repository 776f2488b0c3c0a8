//! Agent expressions as machine code.

use std::collections::BTreeMap;

use iced_x86::code_asm::*;
use tracewire_agent_expr::{
    EvaluationErrorKind, Instruction, Opcode, STEP_LIMIT, Verified, instructions,
};
use tracewire_model::VariableNumber;

use super::cells::{Cell, Cells, pool};
use super::code::{Code, Gpr, Label, Made, OUT, Slot};
use super::cost::Picoseconds;
use super::frame::Frame;
use crate::pad::{CannotCompile, ErrorKind, PadVariable};

/// The purpose of an expression.
pub(super) enum Purpose<'f> {
    /// The condition, with the jump targets for true, false, and failure.
    Condition {
        yes: Label,
        no: Label,
        failed: Label,
    },
    /// An action; on an error the code continues after it.
    Action(&'f mut Frame),
    /// A number for a slot, with the jump target for failure.
    Value { into: Slot, failed: Label },
}

/// An expression that is being compiled.
pub(super) struct Expression<'e, 'f> {
    pub(super) program: Vec<Instruction<'e>>,
    pub(super) purpose: Purpose<'f>,
    pub(super) cells: Cells,
    /// The targets of jumps, with the depth of the stack there.
    targets: BTreeMap<usize, (Label, usize)>,
    /// Whether steps are counted.
    loops: bool,
    /// The instructions since steps were counted last.
    pending: Vec<usize>,
    /// After the expression, for an action.
    exit: Label,
    /// The cost of each instruction's code.
    costs: Vec<Picoseconds>,
}

/// How deep the stack is before each instruction that is reached.
fn depths(program: &[Instruction<'_>]) -> BTreeMap<usize, usize> {
    let mut depths = BTreeMap::new();
    let mut pending = vec![(0_usize, 0_usize)];
    while let Some((index, depth)) = pending.pop() {
        let Some(instruction) = program.get(index) else {
            continue;
        };
        if depths.insert(instruction.offset, depth).is_some() {
            continue;
        }
        let opcode = instruction.opcode;
        let after = (depth + opcode.pushes()).saturating_sub(opcode.pops());
        if matches!(opcode, Opcode::Goto | Opcode::IfGoto) {
            let target = instruction.operand.number() as usize;
            if let Ok(index) = program.binary_search_by_key(&target, |other| other.offset) {
                pending.push((index, after));
            }
        }
        if !matches!(opcode, Opcode::Goto | Opcode::End) {
            pending.push((index + 1, after));
        }
    }
    depths
}

pub(super) fn decode(program: &Verified) -> Vec<Instruction<'_>> {
    instructions(program.code()).flatten().collect()
}

impl<'o> Code<'o> {
    /// Compiles an expression.
    pub(super) fn expression(&mut self, verified: &Verified, mut purpose: Purpose<'_>) -> Made {
        let program = decode(verified);
        let depths = depths(&program);
        let mut targets = BTreeMap::new();
        for instruction in &program {
            let target = instruction.operand.number() as usize;
            if matches!(instruction.opcode, Opcode::Goto | Opcode::IfGoto)
                && depths.contains_key(&instruction.offset)
                && !targets.contains_key(&target)
            {
                let depth = depths.get(&target).copied().unwrap_or(0);
                targets.insert(target, (self.label(), depth));
            }
        }
        let exit = self.label();
        let costs = vec![0; program.len()];
        if let Purpose::Action(frame) = &mut purpose {
            frame.exit = Some(exit);
        }
        let mut expression = Expression {
            program,
            purpose,
            cells: Cells::default(),
            targets,
            loops: verified.has_loops(),
            pending: Vec::new(),
            exit,
            costs,
        };
        if expression.loops {
            let steps = self.slot(Slot::Steps);
            self.asm.mov(steps, 0)?;
        }
        expression.emit(self, &depths)?;
        let here = self.here();
        (self.costs).end_expression(here, &expression.program, &expression.costs);
        self.place(exit)
    }
}

impl<'e> Expression<'e, '_> {
    fn emit(&mut self, code: &mut Code<'_>, depths: &BTreeMap<usize, usize>) -> Made {
        // Whether the instruction is reached from the one before.
        let mut reached = true;
        let mut index = 0;
        while let Some(instruction) = self.program.get(index).copied() {
            let start = code.here();
            let of_this = index;
            if let Some((label, depth)) = self.targets.get(&instruction.offset).copied() {
                if reached {
                    self.meet(code)?;
                }
                code.place(label)?;
                self.cells = Cells::joined(depth);
                reached = true;
            }
            if !reached || !depths.contains_key(&instruction.offset) {
                reached = false;
                index += 1;
                continue;
            }
            if self.loops {
                self.pending.push(instruction.offset);
            }
            self.cells.unpin();
            let last = index + 1 == self.program.len();
            match instruction.opcode {
                Opcode::Goto => {
                    self.meet(code)?;
                    if let Some((label, _)) = self.target(instruction) {
                        code.asm.jmp(code.to(label))?;
                    }
                    reached = false;
                }
                Opcode::IfGoto => self.choose(code, instruction)?,
                Opcode::End => {
                    self.end(code, last)?;
                    reached = false;
                }
                _ => match self.counting(code, index)? {
                    0 => self.instruction(code, instruction)?,
                    counted => index += counted - 1,
                },
            }
            if let Some(cost) = self.costs.get_mut(of_this) {
                *cost = (code.costs).time_of(code.asm.instructions(), start..code.here());
            }
            index += 1;
        }
        Ok(())
    }

    fn target(&self, instruction: Instruction<'_>) -> Option<(Label, usize)> {
        let target = instruction.operand.number() as usize;
        self.targets.get(&target).copied()
    }

    /// Moves all cells to where they are expected at a join of paths.
    fn meet(&mut self, code: &mut Code<'_>) -> Made {
        self.count_steps(code)?;
        if let Purpose::Action(frame) = &mut self.purpose {
            code.flush(frame)?;
        }
        code.join(&mut self.cells)
    }

    fn choose(&mut self, code: &mut Code<'_>, instruction: Instruction<'_>) -> Made {
        let cell = self.cells.pop();
        code.load(cell, Gpr(3))?;
        self.meet(code)?;
        code.asm.test(rdx, rdx)?;
        if let Some((label, _)) = self.target(instruction) {
            code.asm.jne(code.to(label))?;
        }
        Ok(())
    }

    fn end(&mut self, code: &mut Code<'_>, last: bool) -> Made {
        self.count_steps(code)?;
        match &mut self.purpose {
            Purpose::Condition { yes, no, .. } => {
                let (yes, no) = (*yes, *no);
                let cell = self.cells.pop();
                let register = code.in_register(cell, Gpr(0))?;
                code.asm.test(register, register)?;
                code.asm.je(code.to(no))?;
                if !last {
                    code.asm.jmp(code.to(yes))?;
                }
            }
            Purpose::Value { into, .. } => {
                let into = *into;
                let cell = self.cells.pop();
                let register = code.in_register(cell, Gpr(0))?;
                let slot = code.slot(into);
                code.asm.mov(slot, register)?;
                if !last {
                    code.asm.jmp(code.to(self.exit))?;
                }
            }
            Purpose::Action(frame) => {
                code.flush(frame)?;
                if !last {
                    code.asm.jmp(code.to(self.exit))?;
                }
            }
        }
        Ok(())
    }

    /// Counts the steps so far, before an effect that is not allowed beyond the limit.
    pub(super) fn count_steps(&mut self, code: &mut Code<'_>) -> Made {
        if self.pending.is_empty() {
            return Ok(());
        }
        let offsets = std::mem::take(&mut self.pending);
        let steps = dword_ptr(code.slot(Slot::Steps));
        code.asm.add(steps, offsets.len() as i32)?;
        code.asm.cmp(steps, STEP_LIMIT as i32)?;
        let too_many = code.label();
        code.asm.ja(code.to(too_many))?;
        let fail = self.failure(code, ErrorKind::Steps { offsets });
        code.later(move |code| {
            code.place(too_many)?;
            let steps = code.slot(Slot::Steps);
            code.asm.mov(rax, steps)?;
            fail(code)
        });
        Ok(())
    }

    pub(super) const fn is_condition(&self) -> bool {
        matches!(self.purpose, Purpose::Condition { .. })
    }

    /// Code for an error here, whose detail is in `rax`.
    pub(super) fn failure<'o>(
        &self,
        code: &mut Code<'o>,
        kind: ErrorKind,
    ) -> impl FnOnce(&mut Code<'o>) -> Made + 'static {
        let site = code.site(self.is_condition(), kind);
        let exit = self.exit;
        let (at, failed, is_value) = match &self.purpose {
            Purpose::Condition { failed, .. } => (0, Some(*failed), false),
            Purpose::Value { failed, .. } => (0, Some(*failed), true),
            Purpose::Action(frame) => (frame.at, None, false),
        };
        move |code: &mut Code<'o>| match failed {
            Some(failed) if is_value => Ok(code.asm.jmp(code.to(failed))?),
            Some(failed) => code.condition_error(site, failed),
            None => code.action_error(site, at, exit),
        }
    }

    pub(super) fn evaluation_error<'o>(
        &self,
        code: &mut Code<'o>,
        offset: usize,
        kind: EvaluationErrorKind,
    ) -> impl FnOnce(&mut Code<'o>) -> Made + 'static {
        self.failure(code, ErrorKind::Evaluation { offset, kind })
    }

    /// `$n = $n + 1` in one instruction that no other thread gets between. How many instructions of the expression that is.
    fn counting(&mut self, code: &mut Code<'_>, index: usize) -> Made<usize> {
        let Some([get, number, operation, rest @ ..]) = self.program.get(index..) else {
            return Ok(0);
        };
        let by = match (number.opcode, operation.opcode) {
            (Opcode::Const8 | Opcode::Const16 | Opcode::Const32 | Opcode::Const64, Opcode::Add) => {
                number.operand.number()
            }
            (Opcode::Const8 | Opcode::Const16 | Opcode::Const32 | Opcode::Const64, Opcode::Sub) => {
                number.operand.number().wrapping_neg()
            }
            _ => return Ok(0),
        };
        let wide = rest
            .iter()
            .take_while(|other| {
                matches!(other.opcode, Opcode::Ext | Opcode::ZeroExt)
                    && other.operand.number() >= 64
            })
            .count();
        let set = rest.get(wide).filter(|set| {
            get.opcode == Opcode::GetV
                && set.opcode == Opcode::SetV
                && get.operand.number() == set.operand.number()
        });
        let (Some(set), Some(between)) =
            (set.copied(), self.program.get(index + 1..index + 4 + wide))
        else {
            return Ok(0);
        };
        let offsets: Vec<_> = between.iter().map(|other| other.offset).collect();
        let PadVariable::Slot(slot) = variable(code, set.operand.number())? else {
            return Ok(0);
        };
        if offsets
            .iter()
            .any(|offset| self.targets.contains_key(offset))
        {
            return Ok(0);
        }
        if self.loops {
            self.pending.extend(offsets);
        }
        self.count_steps(code)?;
        let place = code.take(&mut self.cells)?;
        let register = pool(place);
        code.number(register, by)?;
        code.uses(&[rax]);
        code.asm.mov(rax, register.wide())?;
        let at = code.layout().variable(slot);
        let at = at.ok_or(CannotCompile::Variable(VariableNumber(
            set.operand.number() as i32,
        )))?;
        let cell = code.shared(at);
        code.asm.lock().xadd(qword_ptr(cell), rax)?;
        code.asm.add(register.wide(), rax)?;
        self.cells.push(Cell::Pool(place));
        Ok(4 + wide)
    }
}

/// The place of a variable.
pub(super) fn variable(code: &Code<'_>, number: u64) -> Made<PadVariable> {
    let number = VariableNumber(number as i32);
    let found = code.options.variables.get(&number);
    found.copied().ok_or(CannotCompile::Variable(number))
}

impl Code<'_> {
    /// Notes an error of an action whose detail is in `rax`, unless there is one already, and continues after the action.
    pub(super) fn action_error(&mut self, site: u32, at: u32, exit: Label) -> Made {
        let later = self.label();
        let (error, detail) = (self.slot(Slot::Error), self.slot(Slot::ErrorDetail));
        if at > 0 {
            self.asm.add(OUT, at as i32)?;
        }
        self.asm.cmp(error, 0)?;
        self.asm.jne(self.to(later))?;
        self.asm.mov(error, (site + 1) as i32)?;
        self.asm.mov(detail, rax)?;
        self.place(later)?;
        self.asm.jmp(self.to(exit))?;
        Ok(())
    }

    fn condition_error(&mut self, site: u32, failed: Label) -> Made {
        let (error, detail) = (self.slot(Slot::Error), self.slot(Slot::ErrorDetail));
        self.asm.mov(error, (site + 1) as i32)?;
        self.asm.mov(detail, rax)?;
        self.asm.jmp(self.to(failed))?;
        Ok(())
    }
}

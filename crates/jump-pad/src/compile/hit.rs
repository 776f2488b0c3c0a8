//! A whole pad: entry, tracepoints, exit.

use iced_x86::code_asm::*;
use tracewire_tracefile::{FRACTION, SET_HEADER, SET_LETTER, mask_variable};

use super::code::{Code, Gpr, Label, Made, Mode, OUT, RED_ZONE, SHARED, Slot};
use super::cost::Part;
use super::expression::Purpose;
use super::frame::{FRAME_HEADER, Frame, Needs, VARIABLE};
use super::memory::Length;
use super::plan::{Bound, Planned, PlannedAction, Registers};
use super::registers::{Value, value};
use super::walk::Collected;
use crate::layout::{header, tracepoint};
use crate::pad::ErrorKind;
use crate::shared::stop;
use tracewire_experiment::FaultKind;

/// Of a robust futex: the owner has died, and who owns it.
const OWNER: u32 = 0x3fff_ffff;
const WAITERS: u32 = 0x8000_0000;

/// The alignment check flag, and its byte and its bit in that.
pub(super) const ALIGNMENT_CHECK: i32 = 1 << 18;
const ALIGNMENT_CHECK_BYTE: u32 = 2;
const ALIGNMENT_CHECK_BIT: i32 = 1 << 2;

/// Compares the owner of the tracer's futex, in `eax`: the result is above or equal if the tracer is dead.
pub(super) fn compare_owner(asm: &mut CodeAssembler) -> Made {
    asm.and(eax, !WAITERS as i32)?;
    asm.dec(eax)?;
    asm.cmp(eax, OWNER as i32)?;
    Ok(())
}

impl<'o> Code<'o> {
    /// Makes the pad. Returns the limits of frames for each tracepoint.
    pub(super) fn pad(&mut self, tracepoints: &'o [Planned]) -> Made<Vec<Bound>> {
        let (finish, orphan, no_stack, end) =
            (self.label(), self.label(), self.label(), self.label());
        let start = self.here();
        self.enter(no_stack)?;
        self.asm.cmp(dword_ptr(SHARED + header::STOP), 0)?;
        self.asm.jne(self.to(finish))?;
        self.tracer_is_gone(orphan)?;
        self.end_part(Part::Entry, start);
        let bounds = self.tracepoints(tracepoints, finish)?;
        self.asm.jmp(self.to(finish))?;

        self.emit_later()?;
        self.place(no_stack)?;
        let room = RED_ZONE + self.room();
        self.asm.lea(rsp, rsp + room)?;
        self.asm.jmp(self.to(end))?;

        if self.options.goes_on {
            self.mode = Mode::Kernel;
            self.place(orphan)?;
            self.asm.cmp(dword_ptr(SHARED + header::ORPHAN), 0)?;
            self.asm.je(self.to(finish))?;
            self.ask_for_thread()?;
            let thread = self.slot(Slot::Thread);
            self.asm.mov(thread, rax)?;
            self.tracepoints(tracepoints, finish)?;
            self.asm.jmp(self.to(finish))?;
            self.emit_later()?;
        } else {
            self.place(orphan)?;
        }

        let checked = self.label();
        self.place(checked)?;
        self.restore_registers()?;
        // All flags, the alignment check among them.
        let whole = self.slot(Slot::WholeFlags);
        self.asm.push(whole)?;
        self.asm.popfq()?;
        self.give_stack_back()?;
        self.asm.jmp(self.to(end))?;

        let start = self.here();
        self.place(finish)?;
        self.checks_alignment()?;
        self.asm.jne(self.to(checked))?;
        self.leave()?;
        self.end_part(Part::Leave, start);
        self.place(end)?;
        Ok(bounds)
    }

    /// Jumps to a label if the tracer is dead. Changes `rax`.
    pub(super) fn tracer_is_gone(&mut self, gone: Label) -> Made {
        // The tracer holds the futex while it lives.
        self.asm.mov(eax, dword_ptr(SHARED + header::OWNER))?;
        compare_owner(&mut self.asm)?;
        self.asm.jae(self.to(gone))?;
        Ok(())
    }

    fn enter(&mut self, no_stack: Label) -> Made {
        self.uses(&[rax, SHARED]);
        let down = RED_ZONE + self.room();
        self.asm.lea(rsp, rsp - down)?;
        // The lowest byte is touched first: if it is writable, all bytes are.
        self.deeper = self.deeper.max(8);
        if self.deeper > 8 {
            self.may_fault_for(no_stack, FaultKind::Stack);
            self.asm.mov(qword_ptr(rsp - self.deeper), rax)?;
        }
        let whole = self.slot(Slot::WholeFlags);
        self.may_fault_for(no_stack, FaultKind::Stack);
        self.asm.pushfq()?;
        self.asm.pop(whole)?;
        let first = self.slot(Slot::Saved(Gpr(0)));
        self.asm.mov(first, rax)?;
        let flags = self.slot(Slot::Flags);
        self.asm.lahf()?;
        self.asm.seto(al)?;
        self.asm.mov(flags, rax)?;
        for register in self.saved().into_iter().filter(|register| register.0 != 0) {
            let slot = self.slot(Slot::Saved(register));
            self.asm.mov(slot, register.wide())?;
        }
        let (checks, goes_on) = (self.label(), self.label());
        self.checks_alignment()?;
        self.asm.jne(self.to(checks))?;
        self.place(goes_on)?;
        self.later(move |code| {
            code.place(checks)?;
            code.asm.pushfq()?;
            code.asm.and(dword_ptr(rsp), !ALIGNMENT_CHECK)?;
            code.asm.popfq()?;
            code.asm.jmp(code.to(goes_on))?;
            Ok(())
        });
        self.number(Gpr(1), self.options.shared.0)
    }

    /// Whether the program has alignment checks enabled, with which the accesses of frames would fault. The check is cheaper than
    /// setting the flags at every hit.
    fn checks_alignment(&mut self) -> Made {
        let whole = self.place_of(Slot::WholeFlags);
        let byte = byte_ptr(rsp + (whole + ALIGNMENT_CHECK_BYTE));
        self.asm.test(byte, ALIGNMENT_CHECK_BIT)?;
        Ok(())
    }

    fn leave(&mut self) -> Made {
        let flags = self.slot(Slot::Flags);
        self.asm.mov(rax, flags)?;
        // Overflows when `seto` has seen an overflow.
        self.asm.add(al, 0x7f)?;
        self.asm.sahf()?;
        self.restore_registers()?;
        self.give_stack_back()
    }

    fn restore_registers(&mut self) -> Made {
        for register in self.saved() {
            let slot = self.slot(Slot::Saved(register));
            self.asm.mov(register.wide(), slot)?;
        }
        Ok(())
    }

    fn give_stack_back(&mut self) -> Made {
        let up = RED_ZONE + self.room();
        self.asm.lea(rsp, rsp + up)?;
        Ok(())
    }

    fn tracepoints(&mut self, tracepoints: &'o [Planned], finish: Label) -> Made<Vec<Bound>> {
        tracepoints
            .iter()
            .map(|tracepoint| self.tracepoint(tracepoint, finish))
            .collect()
    }

    fn tracepoint(&mut self, planned: &'o Planned, finish: Label) -> Made<Bound> {
        let (next, failed) = (self.label(), self.label());
        let index = planned.index;
        let start = self.here();
        let enabled = SHARED + (planned.block + tracepoint::ENABLED) as i64;
        self.asm.cmp(dword_ptr(enabled), 0)?;
        self.asm.je(self.to(next))?;
        if let Some(condition) = &planned.condition {
            self.hit_needs(planned.condition_needs)?;
            let (yes, unmet) = (self.label(), self.label());
            let is_charged = self.options.has_budget;
            let no = if is_charged { unmet } else { next };
            let purpose = Purpose::Condition { yes, no, failed };
            self.expression(condition, purpose)?;
            self.place(yes)?;
            if is_charged {
                self.later(move |code| {
                    code.place(unmet)?;
                    code.charge_unmet(planned, next)
                });
            }
            self.later(move |code| {
                code.place(failed)?;
                code.report(index, finish)
            });
        }
        self.end_part(Part::Condition(index), start);
        let start = self.here();
        if planned.pass_count > 0 {
            self.count_pass(planned.block, planned.pass_count, next)?;
        }
        let made = self.label();
        if let Some(counting) = &planned.counting {
            let skipped = self.label();
            self.counting(counting, planned.block, skipped)?;
            if counting.picks() {
                self.later(move |code| {
                    code.place(skipped)?;
                    code.skip(planned, made)
                });
            }
        }
        self.end_part(Part::Counting(index), start);
        let is_charged = self.options.has_budget;
        let bound = match planned.makes_frames {
            true => {
                let framed = self.label();
                let start = self.here();
                if is_charged {
                    self.keep_budget(planned, made)?;
                }
                if let Some(rate) = &planned.rate {
                    self.keep_rate(rate, planned, made)?;
                }
                self.end_part(Part::Admission(index), start);
                let start = self.here();
                let full = is_charged.then(|| self.label());
                if let Some(full) = full {
                    self.later(move |code| {
                        code.place(full)?;
                        code.skip(planned, made)
                    });
                }
                let bound = self.frame(planned, framed, full, finish)?;
                self.place(framed)?;
                if is_charged {
                    self.charge_frame(planned)?;
                }
                self.end_part(Part::Frame(index), start);
                bound
            }
            false => {
                let start = self.here();
                if is_charged {
                    self.charge_number(planned, planned.prices.hit)?;
                }
                self.end_part(Part::Frame(index), start);
                Bound::default()
            }
        };
        let start = self.here();
        self.place(made)?;
        if planned.pass_count > 0 {
            let met = self.label();
            let passes = self.slot(Slot::Passes);
            self.number(Gpr(0), planned.pass_count - 1)?;
            self.asm.cmp(passes, rax)?;
            self.asm.je(self.to(met))?;
            self.later(move |code| {
                code.place(met)?;
                code.stop_run(stop::PASS_COUNT, index)?;
                code.asm.jmp(code.to(finish))?;
                Ok(())
            });
        }
        self.end_part(Part::Rest(index), start);
        self.place(next)?;
        Ok(bound)
    }

    /// Finds the facts about the hit that expressions need.
    pub(super) fn hit_needs(&mut self, needs: Needs) -> Made {
        if needs.cpu {
            self.cpu()?;
            let cpu = self.slot(Slot::Cpu);
            self.asm.mov(cpu, rax)?;
        }
        if needs.thread {
            self.thread()?;
        }
        if needs.time {
            self.counter()?;
            self.microseconds()?;
        }
        Ok(())
    }

    /// Makes the frame of a hit.
    fn frame(
        &mut self,
        planned: &'o Planned,
        next: Label,
        full: Option<Label>,
        finish: Label,
    ) -> Made<Bound> {
        let give_up = self.label();
        let mut frame = Frame {
            index: planned.index,
            block: planned.block,
            reserved: planned.reserved,
            at: self.layout().header_bytes() as u32,
            unbounded: planned.unbounded,
            shrinks: planned.shrinks,
            give_up,
            next,
            full,
            exit: None,
            bound: Bound::default(),
        };
        let needs = planned.frame_needs;
        self.reserve(&frame, needs.cpu)?;
        let stamp = self.stamp_offset(planned);
        self.begin_record(stamp, needs)?;
        self.asm
            .mov(word_ptr(OUT + frame.at), i32::from(planned.number))?;
        frame.at += FRAME_HEADER;
        self.frame_registers(&planned.registers, &mut frame)?;
        if let Some(numbers) = self.options.stamp {
            let slots = [Slot::Microseconds, Slot::Thread, Slot::Cpu, Slot::Fraction];
            for (number, slot) in numbers.into_iter().chain([FRACTION]).zip(slots) {
                let value = self.slot(slot);
                self.asm.mov(rax, value)?;
                self.variable_block(frame.at, number, rax)?;
                frame.at += VARIABLE;
            }
        }
        let can_fail = self.can_fail(planned);
        if can_fail {
            let error = self.slot(Slot::Error);
            self.asm.mov(error, 0)?;
        }
        self.actions(planned, &mut frame)?;
        self.commit(&frame)?;
        let index = planned.index;
        if can_fail {
            let failed = self.label();
            let error = self.slot(Slot::Error);
            self.asm.cmp(error, 0)?;
            self.asm.jne(self.to(failed))?;
            self.later(move |code| {
                code.place(failed)?;
                code.report(index, finish)
            });
        }
        let bound = frame.bound;
        self.later(move |code| {
            code.place(give_up)?;
            code.give_up(&frame)
        });
        Ok(bound)
    }

    fn frame_registers(&mut self, registers: &Registers, frame: &mut Frame) -> Made {
        let (start, give_up) = (OUT + frame.at, frame.give_up);
        match registers {
            Registers::None => {}
            Registers::Block => {
                self.asm.mov(byte_ptr(start), i32::from(b'R'))?;
                self.registers(frame.at + 1, |_| true, give_up)?;
            }
            Registers::Withheld(withheld) => {
                self.asm.mov(byte_ptr(start), i32::from(b'R'))?;
                let block = frame.at + 1;
                self.registers_but(block, |register| !withheld.keeps(register), give_up)?;
                let mut at = block + self.options.registers.layout_64().size();
                for (place, mask) in withheld.masks().iter().enumerate() {
                    if let Some(number) = mask_variable(place).filter(|_| *mask != 0) {
                        self.number(Gpr(0), *mask)?;
                        self.variable_block(at, number, rax)?;
                        at += VARIABLE;
                    }
                }
            }
            Registers::Set(number, mask) => {
                self.asm.mov(byte_ptr(start), i32::from(SET_LETTER))?;
                self.asm.mov(dword_ptr(start + 1), number.cast_signed())?;
                let at = frame.at + SET_HEADER as u32;
                self.registers(at, |register| mask.contains(register), give_up)?;
            }
        }
        frame.at += registers.bytes(self.options);
        Ok(())
    }

    fn can_fail(&self, planned: &Planned) -> bool {
        planned.actions.iter().any(|action| match action {
            PlannedAction::Expression(_) => true,
            PlannedAction::Memory { base, .. } => base.is_some(),
        })
    }

    /// The offset of `$trace_timestamp` in the frame; 0 if there is none.
    fn stamp_offset(&self, planned: &Planned) -> u32 {
        let registers = planned.registers.bytes(self.options);
        self.options
            .stamp
            .map_or(0, |_| FRAME_HEADER + registers + 5)
    }

    fn actions(&mut self, planned: &'o Planned, frame: &mut Frame) -> Made {
        if planned.unbounded {
            // Pieces without an evaluation are counted first.
            let pieces = self.slot(Slot::Pieces);
            let memory = planned
                .actions
                .iter()
                .filter(|action| matches!(action, PlannedAction::Memory { .. }));
            self.asm.mov(pieces, memory.count() as i32)?;
        }
        for action in &planned.actions {
            frame.exit = None;
            match action {
                PlannedAction::Memory {
                    base,
                    offset,
                    length,
                } => self.memory_action(frame, base.map(|base| base.0), *offset, *length)?,
                PlannedAction::Expression(program) => {
                    let before = frame.bound;
                    self.expression(program, Purpose::Action(frame))?;
                    let collects = frame.bound.bytes > before.bytes;
                    // An unreadable value is a piece too.
                    frame.bound.pieces += 1;
                    frame.bound.varies |= collects && has_jumps(program);
                    frame.bound.unbounded |= program.has_loops() && collects;
                }
            }
        }
        Ok(())
    }

    fn memory_action(
        &mut self,
        frame: &mut Frame,
        base: Option<u16>,
        offset: u64,
        length: u32,
    ) -> Made {
        self.uses(&[r11]);
        let copied = (self.costs).time_to_collect(Collected::Memory(Some(u64::from(length))));
        let here = self.here();
        self.costs.takes_longer(here, copied.cast_signed());
        let Some(base) = base else {
            self.number(Gpr(11), offset)?;
            return self.memory_piece(frame, r11, Length::Known(length));
        };
        let address = match value(base, self.options.features) {
            Value::General(general) => {
                self.uses_program(general);
                self.program_register(general, r11)?;
                r11
            }
            Value::Other(source) => {
                self.other_register(source, base, Gpr(11))?;
                r11
            }
            Value::None => {
                // The action fails at every hit.
                let skip = self.label();
                let register = tracewire_model::RegisterNumber(base);
                let site = self.site(false, ErrorKind::Register(register));
                self.flush(frame)?;
                self.action_error(site, 0, skip)?;
                return self.place(skip);
            }
        };
        if offset != 0 {
            match i32::try_from(offset.cast_signed()) {
                Ok(small) => self.asm.add(address, small)?,
                Err(_) => {
                    self.uses(&[rax]);
                    self.number(Gpr(0), offset)?;
                    self.asm.add(address, rax)?;
                }
            }
        }
        self.memory_piece(frame, address, Length::Known(length))
    }

    /// Ends the run with the error in the slots.
    fn report(&mut self, index: u32, finish: Label) -> Made {
        let (error, detail) = (self.slot(Slot::Error), self.slot(Slot::ErrorDetail));
        self.uses(&[rax, rdx]);
        self.asm.xor(eax, eax)?;
        self.asm.mov(edx, 1)?;
        self.asm
            .lock()
            .cmpxchg(qword_ptr(SHARED + header::ERROR), rdx)?;
        self.asm.jne(self.to(finish))?;
        self.asm.mov(rax, error)?;
        self.asm.dec(rax)?;
        self.asm.mov(qword_ptr(SHARED + header::ERROR_SITE), rax)?;
        self.asm.mov(rax, detail)?;
        self.asm
            .mov(qword_ptr(SHARED + header::ERROR_DETAIL), rax)?;
        self.counter()?;
        self.asm.mov(qword_ptr(SHARED + header::ERROR_TIME), rax)?;
        self.stop_run(stop::ERROR, index)?;
        self.asm.jmp(self.to(finish))?;
        Ok(())
    }
}

/// Whether a path through the program can skip a part of it.
fn has_jumps(program: &tracewire_agent_expr::Verified) -> bool {
    super::expression::decode(program).iter().any(|each| {
        use tracewire_agent_expr::Opcode::{Goto, IfGoto};
        matches!(each.opcode, Goto | IfGoto)
    })
}

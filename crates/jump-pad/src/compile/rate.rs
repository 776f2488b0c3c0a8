//! Whether a hit makes a frame, if its tracepoint has a rate; [`Pace::admit`] in machine code.

use iced_x86::code_asm::*;
use tracewire_experiment::Pace;

use super::code::{Code, Gpr, Label, Made, SHARED};
use super::plan::Planned;
use crate::layout::tracepoint;
use crate::pad::{CannotCompile, PadOptions, PadTracepoint};

/// A rate, and its place in the shared memory.
pub(super) struct PlannedRate {
    pace: Pace,
    /// The offset in the shared memory of the time when the next frame is due.
    due: u64,
}

impl PlannedRate {
    pub(super) fn new(
        tracepoint: &PadTracepoint<'_>,
        options: &PadOptions<'_>,
    ) -> Made<Option<Self>> {
        let Some(rate) = tracepoint.rate else {
            return Ok(None);
        };
        let block = options
            .layout
            .tracepoint(rate.block)
            .ok_or(CannotCompile::Block(rate.block))?;
        Ok(Some(Self {
            pace: rate.pace,
            due: block + tracepoint::DUE,
        }))
    }
}

impl<'o> Code<'o> {
    /// Jumps to `over` with a hit that is too early for a frame, and counts it.
    pub(super) fn keep_rate(
        &mut self,
        rate: &PlannedRate,
        planned: &'o Planned,
        over: Label,
    ) -> Made {
        let (again, too_soon, late) = (self.label(), self.label(), self.label());
        self.uses(&[rax, rcx, rdx, rsi, rdi, r11]);
        self.counter()?;
        self.asm.mov(rsi, rax)?;
        self.number(Gpr(5), rate.pace.interval)?;
        self.number(Gpr(11), rate.pace.slack)?;
        let due = qword_ptr(SHARED + rate.due as i64);
        self.asm.mov(rax, due)?;
        self.place(again)?;
        self.asm.mov(rcx, rsi)?;
        self.asm.mov(rdx, rax)?;
        self.asm.sub(rdx, rsi)?;
        // It was due before now, or is due now.
        self.asm.jbe(self.to(late))?;
        self.asm.cmp(rdx, r11)?;
        self.asm.ja(self.to(too_soon))?;
        self.asm.mov(rcx, rax)?;
        self.place(late)?;
        self.asm.add(rcx, rdi)?;
        self.asm.lock().cmpxchg(due, rcx)?;
        self.asm.jne(self.to(again))?;
        self.later(move |code| {
            code.place(too_soon)?;
            code.skip(planned, over)
        });
        Ok(())
    }
}

//! The cost of hits, charged to the budget of their cpu, and the check whether the budget allows another frame.
//!
//! Each ring has one number: the counter at which all work on its cpu is paid for, if the budget pays evenly. It is changed
//! without a lock. A thread that moves to another cpu in between may change the number of its previous one, and a charge at the
//! same moment is lost. That loses no hit, and is much less than the error of the numbers.

use iced_x86::code_asm::*;

use super::code::{Code, Gpr, Label, Made, SHARED, Slot};
use super::cost::Part;
use super::plan::Planned;
use crate::layout::{header, ring};
use crate::pad::{CannotCompile, PadOptions};

/// The offsets of a tracepoint's counts in each ring.
#[derive(Clone, Copy, Debug)]
pub(super) struct RingCounts {
    /// The hits that are skipped.
    pub(super) skipped: u64,
    /// The ticks that its hits have cost.
    pub(super) spent: u64,
}

impl RingCounts {
    pub(super) fn new(index: u32, options: &PadOptions<'_>) -> Made<Self> {
        let missing = CannotCompile::Block(index);
        Ok(Self {
            skipped: options.layout.skipped(index).ok_or(missing.clone())?,
            spent: options.layout.spent(index).ok_or(missing)?,
        })
    }
}

impl<'o> Code<'o> {
    /// Jumps to `over` with a hit for whose frame the budget of its cpu has no room, and counts it.
    pub(super) fn keep_budget(&mut self, planned: &'o Planned, over: Label) -> Made {
        let (room, none) = (self.label(), self.label());
        self.uses(&[rax, rcx, rdx, rsi]);
        self.counter()?;
        let begun = self.slot(Slot::Begun);
        self.asm.mov(begun, rax)?;
        self.asm.mov(rsi, rax)?;
        self.cpu()?;
        self.ring_of_cpu(rcx)?;
        let charged = self.slot(Slot::Charged);
        self.asm.mov(charged, rcx)?;
        self.asm.mov(rdx, qword_ptr(rcx + ring::PAID))?;
        self.asm.sub(rdx, rsi)?;
        self.asm.jbe(self.to(room))?;
        self.asm
            .cmp(rdx, qword_ptr(SHARED + header::BUDGET_SLACK))?;
        self.asm.ja(self.to(none))?;
        self.place(room)?;
        self.later(move |code| {
            code.place(none)?;
            code.skip(planned, over)
        });
        Ok(())
    }

    /// Counts and charges a hit that makes no frame, and jumps to `over`.
    pub(super) fn skip(&mut self, planned: &Planned, over: Label) -> Made {
        self.uses(&[rax, rcx]);
        let start = self.here();
        // A count of each cpu: all of them would wait for one. The thread may go to another cpu meanwhile, so it is locked.
        self.cpu()?;
        self.ring_of_cpu(rcx)?;
        let skipped = planned.in_ring.skipped as i64;
        self.asm.lock().inc(qword_ptr(rcx + skipped))?;
        self.number(Gpr(0), planned.prices.skipped)?;
        self.charge(planned)?;
        self.asm.jmp(self.to(over))?;
        self.end_part(Part::Skip(planned.index), start);
        Ok(())
    }

    /// Charges a hit whose condition is false, and jumps to `next`.
    pub(super) fn charge_unmet(&mut self, planned: &Planned, next: Label) -> Made {
        let start = self.here();
        self.charge_number(planned, planned.prices.unmet)?;
        self.asm.jmp(self.to(next))?;
        self.end_part(Part::Unmet(planned.index), start);
        Ok(())
    }

    /// Charges this many ticks to the cpu of the thread.
    pub(super) fn charge_number(&mut self, planned: &Planned, ticks: u64) -> Made {
        self.uses(&[rax, rcx]);
        self.cpu()?;
        self.ring_of_cpu(rcx)?;
        self.number(Gpr(0), ticks)?;
        self.charge(planned)
    }

    /// Charges a hit that has made its frame, or tried to: the time since [`keep_budget`](Self::keep_budget), limited to the most
    /// that it can take, since the thread may have waited for a cpu.
    pub(super) fn charge_frame(&mut self, planned: &Planned) -> Made {
        self.uses(&[rax, rcx, rdx]);
        self.counter()?;
        let begun = self.slot(Slot::Begun);
        self.asm.sub(rax, begun)?;
        if planned.prices.around > 0 {
            self.number(Gpr(3), planned.prices.around)?;
            self.asm.add(rax, rdx)?;
        }
        self.number(Gpr(3), planned.prices.hit)?;
        self.asm.cmp(rax, rdx)?;
        self.asm.cmova(rax, rdx)?;
        let charged = self.slot(Slot::Charged);
        self.asm.mov(rcx, charged)?;
        self.charge(planned)
    }

    /// Charges the ticks in `rax` to the cpu whose ring is in `rcx`. Changes `rax`.
    fn charge(&mut self, planned: &Planned) -> Made {
        if !self.options.has_budget {
            return Ok(());
        }
        let spent = planned.in_ring.spent as i64;
        self.asm.add(qword_ptr(rcx + spent), rax)?;
        self.asm
            .imul_2(rax, qword_ptr(SHARED + header::BUDGET_FACTOR))?;
        self.asm.shr(rax, header::BUDGET_FACTOR_BITS)?;
        self.asm.add(qword_ptr(rcx + ring::PAID), rax)?;
        Ok(())
    }
}

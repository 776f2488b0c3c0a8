//! A frame: space is reserved, filled, and marked as finished.

use iced_x86::code_asm::*;
use tracewire_model::VariableNumber;

use super::code::{Code, Gpr, Label, Made, OUT, SHARED, Slot};
use super::plan::Bound;
use crate::layout::{WhenFull, header, record, ring, tracepoint};
use crate::shared::stop;

/// The bit of the reserved length that means that some of it may be freed.
const MAY_SHRINK: u32 = 1;

/// A frame's tracepoint number and size, before its blocks.
pub(super) const FRAME_HEADER: u32 = 6;

/// The bytes of a cache line.
const CACHE_LINE: usize = 64;

/// How much of a frame is fetched ahead: the processor has room for about as many lines on their way to it.
const FETCHED: u32 = 8 * CACHE_LINE as u32;

/// A variable's block.
pub(super) const VARIABLE: u32 = 13;

/// The compile-time state of the frame under construction.
#[derive(Clone, Copy)]
pub(super) struct Frame {
    /// The tracepoint's block.
    pub(super) index: u32,
    pub(super) block: u64,
    /// How long the record may get, header included.
    pub(super) reserved: u32,
    /// The number of bytes that are written from `OUT` on.
    pub(super) at: u32,
    /// Its length has no limit, so space and pieces are counted at run time.
    pub(super) unbounded: bool,
    /// It may be shorter than its reserved space.
    pub(super) shrinks: bool,
    /// The jump target when it gets too long.
    pub(super) give_up: Label,
    /// The jump target when there is no frame.
    pub(super) next: Label,
    /// Where to jump when a ring has no space and the hit must not wait: in a run with a budget, which a wait would exceed.
    pub(super) full: Option<Label>,
    /// After the expression that is being made.
    pub(super) exit: Option<Label>,
    /// The limits of its contents, as far as it is made.
    pub(super) bound: Bound,
}

/// The facts about the hit that parts of a tracepoint need.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Needs {
    pub(super) time: bool,
    pub(super) thread: bool,
    pub(super) cpu: bool,
}

impl<'o> Code<'o> {
    /// Moves `OUT` after what was written.
    pub(super) fn flush(&mut self, frame: &mut Frame) -> Made {
        if frame.at > 0 {
            self.asm.add(OUT, frame.at as i32)?;
            frame.at = 0;
        }
        Ok(())
    }

    /// Puts the number of the cpu into `eax`.
    pub(super) fn cpu(&mut self) -> Made {
        self.uses(&[rax]);
        if self.options.features.rdpid {
            self.asm.rdpid(rax)?;
        } else {
            // The kernel keeps it, for its vdso, in the limit of a segment.
            self.asm.mov(eax, 0x7b)?;
            self.asm.lsl(eax, eax)?;
        }
        // The node is above.
        self.asm.and(eax, 0xfff)?;
        Ok(())
    }

    /// Reserves the record of a frame; `OUT` is then its start. The counter before that is in its slot.
    pub(super) fn reserve(&mut self, frame: &Frame, keep_cpu: bool) -> Made {
        self.uses(&[rax, rcx, rdx, rsi, rdi]);
        self.cpu()?;
        if keep_cpu {
            let cpu = self.slot(Slot::Cpu);
            self.asm.mov(cpu, rax)?;
        }
        if self.layout().sizes.when_full.overwrites() {
            self.claim(frame)?;
            self.fetch_ahead(frame)
        } else {
            self.append(frame)
        }
    }

    /// Has the processor fetch what later hits will write, so that they do not wait for it. A ring is larger than the nearest caches,
    /// and the locked instruction of a hit waits until the frame before it is written. Not in a ring whose reader frees space: what is
    /// ahead there may be what the reader looks at.
    fn fetch_ahead(&mut self, frame: &Frame) -> Made {
        let fetched = frame.reserved.min(FETCHED);
        // The frame after the next one, where both are as long as this one; what was there is looked at when it is freed.
        let following = if frame.shrinks {
            fetched
        } else {
            frame.reserved
        };
        let ahead = following + fetched + self.freed_at_once() as u32;
        for line in (0..fetched).step_by(CACHE_LINE) {
            self.asm.prefetchw(byte_ptr(OUT + (ahead + line)))?;
        }
        Ok(())
    }

    /// Puts the start of the ring of the cpu in `eax` into a register.
    pub(super) fn ring_of_cpu(&mut self, ring: AsmRegister64) -> Made {
        let rings = self.layout().rings as i64;
        let cpus = self.layout().sizes.cpus;
        if cpus > 1 {
            self.asm.and(eax, (cpus - 1) as i32)?;
            self.asm
                .imul_3(rax, rax, self.layout().ring_stride as i32)?;
            self.asm.lea(ring, SHARED + rax + rings)?;
        } else {
            self.asm.lea(ring, SHARED + rings)?;
        }
        Ok(())
    }

    /// Reserves after the last record, in a ring whose reader frees space.
    fn append(&mut self, frame: &Frame) -> Made {
        let ring_bytes = self.layout().sizes.ring_bytes as i32;
        let mask = self.layout().ring_mask() as i32;
        let (again, lap, lapped, full) = (self.label(), self.label(), self.label(), self.label());
        self.ring_of_cpu(rcx)?;
        let size = frame.reserved;
        self.place(again)?;
        self.asm.mov(rdi, qword_ptr(rcx + ring::HEAD))?;
        self.counter_before_reserving()?;
        self.asm.mov(rax, rdi)?;
        self.asm.and(edi, mask)?;
        self.asm.lea(esi, dword_ptr(rdi + size))?;
        self.asm.lea(rdx, rax + size)?;
        self.asm.cmp(esi, ring_bytes)?;
        self.asm.jae(self.to(lap))?;
        self.place(lapped)?;
        self.asm.mov(rsi, rdx)?;
        self.asm.sub(rsi, qword_ptr(rcx + ring::TAIL))?;
        self.asm.cmp(rsi, ring_bytes)?;
        self.asm.ja(self.to(full))?;
        self.asm.lock().cmpxchg(qword_ptr(rcx + ring::HEAD), rdx)?;
        self.asm.jne(self.to(again))?;

        self.asm.lea(rdi, rcx + rdi + ring::DATA)?;
        let may_shrink = if frame.shrinks { MAY_SHRINK } else { 0 };
        self.begin_header(frame, may_shrink)?;
        if frame.shrinks {
            for (slot, register) in [(Slot::Position, rax), (Slot::Reserved, rdx)] {
                let slot = self.slot(slot);
                self.asm.mov(slot, register)?;
            }
        }
        for (slot, register) in [(Slot::Ring, rcx), (Slot::Record, rdi)] {
            let slot = self.slot(slot);
            self.asm.mov(slot, register)?;
        }
        self.asm.mov(rdx, !self.layout().salt)?;
        self.asm.xor(rax, rdx)?;
        self.asm.mov(qword_ptr(rdi + record::STATE), rax)?;

        let frame = *frame;
        self.later(move |code| {
            code.place(lap)?;
            code.asm.mov(rdx, rax)?;
            code.asm.or(rdx, mask)?;
            code.asm.inc(rdx)?;
            code.asm.jmp(code.to(lapped))?;
            code.place(full)?;
            code.no_room(again, &frame)
        });
        Ok(())
    }

    /// Writes the header of the record in `rdi` except its state.
    pub(super) fn begin_header(&mut self, frame: &Frame, may_shrink: u32) -> Made {
        let reserved = frame.reserved | may_shrink;
        let at = dword_ptr(rdi + record::RESERVED);
        self.asm.mov(at, reserved as i32)?;
        let at = dword_ptr(rdi + record::TRACEPOINT);
        self.asm.mov(at, frame.index as i32)?;
        Ok(())
    }

    /// The code for a full ring, whose start is in `rcx`.
    fn no_room(&mut self, again: Label, frame: &Frame) -> Made {
        let stops = self.layout().sizes.when_full == WhenFull::Stop;
        let lost = self.label();
        if let Some(full) = frame.full.filter(|_| !stops) {
            return Ok(self.asm.jmp(self.to(full))?);
        }
        if !stops {
            self.wait_for_room(again, lost, frame.reserved)?;
        }
        self.place(lost)?;
        self.asm.lock().inc(qword_ptr(rcx + ring::LOST))?;
        if stops {
            // As for a trap whose frame does not fit in the buffer: the run ends, and the hit does not count.
            self.stop_run(stop::FULL, frame.index)?;
        } else {
            self.count_lost(frame)?;
        }
        self.asm.jmp(self.to(frame.next))?;
        Ok(())
    }

    /// Counts a hit that has no frame.
    pub(super) fn count_lost(&mut self, frame: &Frame) -> Made {
        let count = SHARED + (frame.block + tracepoint::LOST) as i64;
        self.asm.lock().inc(qword_ptr(count))?;
        Ok(())
    }

    /// Waits until the reader has freed `size` bytes. It makes no system call, which the program may have forbidden itself, and
    /// no trap, which would end the program if the tracer were killed now. There may be no reader to wait for: the tracer is
    /// dead, or this is a signal handler that has interrupted a pad before its record was finished. So it does not wait where an
    /// earlier wait was in vain.
    fn wait_for_room(&mut self, again: Label, lost: Label, size: u32) -> Made {
        let waiting = self.label();
        self.asm.mov(rsi, qword_ptr(rcx + ring::TAIL))?;
        self.end_of_wait(rcx, rsi, rdi, lost)?;
        self.asm.mov(rsi, qword_ptr(rcx + ring::GIVEN_UP))?;
        self.place(waiting)?;
        self.asm.mov(rdx, qword_ptr(rcx + ring::TAIL))?;
        self.asm.mov(rax, qword_ptr(rcx + ring::HEAD))?;
        self.asm.sub(rax, rdx)?;
        self.asm.add(rax, size as i32)?;
        self.asm.cmp(rax, self.layout().sizes.ring_bytes as i32)?;
        self.asm.jbe(self.to(again))?;
        self.asm.cmp(rdx, rsi)?;
        self.asm.je(self.to(lost))?;
        self.asm.cmp(dword_ptr(SHARED + header::STOP), 0)?;
        self.asm.jne(self.to(lost))?;
        self.tracer_is_gone(lost)?;
        self.asm.pause()?;
        self.may_fault(lost);
        self.asm.rdtsc()?;
        self.asm.shl(rdx, 32)?;
        self.asm.or(rax, rdx)?;
        self.asm.cmp(rax, rdi)?;
        self.asm.jb(self.to(waiting))?;
        self.asm.mov(rdx, qword_ptr(rcx + ring::TAIL))?;
        self.asm.mov(qword_ptr(rcx + ring::GIVEN_UP), rdx)?;
        self.asm.jmp(self.to(lost))?;
        Ok(())
    }

    /// Puts into `end` until when a hit waits for the reader to move a ring's tail, counted from the first hit's wait for it.
    /// Jumps to a label where the counter may not be read. Changes `rax` and `rdx`.
    pub(super) fn end_of_wait(
        &mut self,
        ring: AsmRegister64,
        tail: AsmRegister64,
        end: AsmRegister64,
        forbidden: Label,
    ) -> Made {
        let known = self.label();
        self.may_fault(forbidden);
        self.asm.rdtsc()?;
        self.asm.shl(rdx, 32)?;
        self.asm.lea(end, rax + rdx)?;
        self.asm.lea(rax, tail + 1)?;
        self.asm.cmp(qword_ptr(ring + ring::WAITED), rax)?;
        self.asm.je(self.to(known))?;
        self.asm.mov(qword_ptr(ring + ring::SINCE), end)?;
        self.asm.mov(qword_ptr(ring + ring::WAITED), rax)?;
        self.place(known)?;
        self.asm.mov(end, qword_ptr(ring + ring::SINCE))?;
        self.asm.add(end, qword_ptr(SHARED + header::PATIENCE))?;
        Ok(())
    }

    /// Ends the run for all pads, if it has not ended. Changes `rax` and `rdx`.
    pub(super) fn stop_run(&mut self, reason: u32, index: u32) -> Made {
        self.asm.xor(eax, eax)?;
        self.asm.mov(edx, reason | index << 8)?;
        let word = dword_ptr(SHARED + header::STOP);
        self.asm.lock().cmpxchg(word, edx)?;
        Ok(())
    }

    /// Puts the counter into its slot, when the head of the ring has been read; changes `rax` and `rdx`. After the locked
    /// instruction that reserves the record, `rdtsc` would wait for it. Another record that is reserved meanwhile makes that
    /// instruction fail, so the records of a ring are in the order of their times.
    pub(super) fn counter_before_reserving(&mut self) -> Made {
        let before = self.slot(Slot::Counter);
        self.counter()?;
        self.asm.mov(before, rax)?;
        Ok(())
    }

    /// Puts the time of a record into `rax`, when it is reserved; changes `rdx`. It is the counter before that, unless the reader
    /// has looked at the rings since. The thread may have lost the cpu meanwhile, and the reader may have given out later frames.
    fn time_of_record(&mut self) -> Made {
        let (late, known) = (self.label(), self.label());
        let before = self.slot(Slot::Counter);
        self.asm.mov(rax, before)?;
        self.asm.cmp(rax, qword_ptr(SHARED + header::CLOCK_SEEN))?;
        self.asm.jb(self.to(late))?;
        self.place(known)?;
        self.later(move |code| {
            code.place(late)?;
            code.counter()?;
            code.asm.jmp(code.to(known))?;
            Ok(())
        });
        Ok(())
    }

    /// Writes the rest of the record's header, when the record is reserved.
    pub(super) fn begin_record(&mut self, stamp: u32, needs: Needs) -> Made {
        self.uses(&[rax, rdx]);
        self.time_of_record()?;
        self.asm.mov(qword_ptr(OUT + record::TIME), rax)?;
        if needs.time {
            self.microseconds()?;
        }
        self.asm.mov(dword_ptr(OUT + record::STAMP), stamp as i32)?;
        if needs.thread {
            self.thread()?;
        }
        Ok(())
    }

    /// Puts the time stamp counter into `rax`; changes `rdx`.
    pub(super) fn counter(&mut self) -> Made {
        let (forbidden, have) = (self.label(), self.label());
        self.uses(&[rax, rdx]);
        // A thread can have itself forbidden to read it, as strict seccomp does.
        self.may_fault(forbidden);
        self.asm.rdtsc()?;
        self.asm.shl(rdx, 32)?;
        self.asm.or(rax, rdx)?;
        self.place(have)?;
        self.later(move |code| {
            code.place(forbidden)?;
            // While a record is claimed, its register has something else.
            code.shared_again()?;
            code.asm.mov(rax, qword_ptr(SHARED + header::CLOCK_SEEN))?;
            code.asm.jmp(code.to(have))?;
            Ok(())
        });
        Ok(())
    }

    /// Makes a counter in `rax` the time of the hit.
    pub(super) fn microseconds(&mut self) -> Made {
        let time = self.slot(Slot::Microseconds);
        self.asm.sub(rax, qword_ptr(SHARED + header::CLOCK_BASE))?;
        self.asm.mul(qword_ptr(SHARED + header::CLOCK_RATE))?;
        self.asm.add(rdx, qword_ptr(SHARED + header::CLOCK_START))?;
        self.asm.mov(time, rdx)?;
        if self.options.stamp.is_some() {
            let fraction = self.slot(Slot::Fraction);
            self.asm.mov(fraction, rax)?;
        }
        Ok(())
    }

    /// Writes a variable's block with the value in a register at `OUT + at`.
    pub(super) fn variable_block(
        &mut self,
        at: u32,
        number: VariableNumber,
        value: AsmRegister64,
    ) -> Made {
        let number = number.0;
        if let 0..0x80_0000 = number {
            // The letter and the number are written as one word; the value overwrites its upper part.
            let word = number << 8 | i32::from(b'V');
            self.asm.mov(qword_ptr(OUT + at), word)?;
        } else {
            self.asm.mov(byte_ptr(OUT + at), i32::from(b'V'))?;
            self.asm.mov(dword_ptr(OUT + (at + 1)), number)?;
        }
        self.asm.mov(qword_ptr(OUT + (at + 5)), value)?;
        Ok(())
    }

    /// Notes in the record where the time is in its frame, whose block is at `OUT + at`: of several the last one counts.
    pub(super) fn note_stamp(&mut self, at: u32) -> Made {
        self.uses(&[rax, rcx]);
        let start = self.slot(Slot::Record);
        let header = self.layout().header_bytes() as i64;
        self.asm.mov(rcx, start)?;
        self.asm.lea(rax, OUT + (i64::from(at) + 5 - header))?;
        self.asm.sub(rax, rcx)?;
        self.asm.mov(dword_ptr(rcx + record::STAMP), eax)?;
        Ok(())
    }

    /// Marks the frame as finished.
    pub(super) fn commit(&mut self, frame: &Frame) -> Made {
        let start = self.slot(Slot::Record);
        self.asm.mov(rax, start)?;
        let header = self.layout().header_bytes();
        let before = header as i64 - i64::from(frame.at);
        self.asm.lea(rdx, OUT - before)?;
        self.asm.sub(rdx, rax)?;
        self.asm.lea(ecx, dword_ptr(rdx - FRAME_HEADER))?;
        self.asm.mov(dword_ptr(rax + (header as u32 + 2)), ecx)?;
        self.asm.mov(dword_ptr(rax + record::LENGTH), edx)?;
        let overwrites = self.layout().sizes.when_full.overwrites();
        match (frame.shrinks, overwrites) {
            (true, true) => self.shrink_claim()?,
            (true, false) => self.shrink(frame)?,
            (false, _) => {}
        }
        self.finish_record()
    }

    /// Marks the record in `rax` as finished.
    fn finish_record(&mut self) -> Made {
        self.asm.not(qword_ptr(rax + record::STATE))?;
        if self.layout().sizes.when_full.overwrites() {
            self.release_claim()?;
        }
        Ok(())
    }

    /// Frees the part of the record in `rax`, with a frame of `edx` bytes, that was not needed.
    fn shrink(&mut self, frame: &Frame) -> Made {
        let sizes = self.layout().sizes;
        let mask = self.layout().ring_mask() as i32;
        let (lap, lapped, kept) = (self.label(), self.label(), self.label());
        let (position, reserved, ring) = (
            self.slot(Slot::Position),
            self.slot(Slot::Reserved),
            self.slot(Slot::Ring),
        );
        self.asm.mov(rdi, rax)?;
        self.asm.add(edx, (record::FRAME + 7) as i32)?;
        self.asm.and(edx, -8)?;
        self.asm.mov(rsi, position)?;
        self.asm.mov(ecx, esi)?;
        self.asm.and(ecx, mask)?;
        self.asm.add(ecx, edx)?;
        self.asm.cmp(ecx, sizes.ring_bytes as i32)?;
        self.asm.lea(rcx, rsi + rdx)?;
        self.asm.jae(self.to(lap))?;
        self.place(lapped)?;
        self.asm.mov(rax, reserved)?;
        self.asm.mov(rsi, ring)?;
        // No other hit may have reserved after this record.
        self.asm.lock().cmpxchg(qword_ptr(rsi + ring::HEAD), rcx)?;
        self.asm.mov(eax, frame.reserved)?;
        self.asm.cmovne(edx, eax)?;
        self.place(kept)?;
        self.asm.mov(dword_ptr(rdi + record::RESERVED), edx)?;
        self.asm.mov(rax, rdi)?;
        self.later(move |code| {
            code.place(lap)?;
            code.asm.mov(rcx, rsi)?;
            code.asm.or(rcx, mask)?;
            code.asm.inc(rcx)?;
            code.asm.jmp(code.to(lapped))?;
            Ok(())
        });
        Ok(())
    }

    /// Makes the record one of no frame, for it would be too long.
    pub(super) fn give_up(&mut self, frame: &Frame) -> Made {
        let (start, ring) = (self.slot(Slot::Record), self.slot(Slot::Ring));
        self.asm.mov(rax, start)?;
        self.asm.mov(dword_ptr(rax + record::LENGTH), 0)?;
        self.asm
            .mov(dword_ptr(rax + record::RESERVED), frame.reserved as i32)?;
        self.finish_record()?;
        self.asm.mov(rax, ring)?;
        self.asm.lock().inc(qword_ptr(rax + ring::TOO_LONG))?;
        self.count_lost(frame)?;
        self.asm.jmp(self.to(frame.next))?;
        Ok(())
    }

    /// Counts a hit for the pass count; jumps to `frame.next` if the pass count was reached before.
    pub(super) fn count_pass(&mut self, block: u64, limit: u64, next: Label) -> Made {
        let passes = self.slot(Slot::Passes);
        self.uses(&[rax, rcx]);
        self.asm.mov(eax, 1)?;
        let count = qword_ptr(SHARED + (block + tracepoint::PASSES) as i64);
        self.asm.lock().xadd(count, rax)?;
        self.asm.mov(passes, rax)?;
        self.number(Gpr(2), limit)?;
        self.asm.cmp(rax, rcx)?;
        self.asm.jae(self.to(next))?;
        Ok(())
    }
}

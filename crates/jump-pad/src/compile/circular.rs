//! Space in a ring that overwrites its oldest frames. A pad does not wait, or waits only for the reader.
//!
//! A hit *claims* its record by moving the head. The same exchange of 16 bytes stores the place of its *token* on the stack of
//! its thread. The token is a word that names the record from before the claim until the record is finished. The thread that
//! claims the next record first checks whether that one has begun; if not, its claim goes into the ring's table of unfinished
//! records. So the end and the owner of each record can be found, wherever its thread has lost the cpu.
//!
//! Space is made in two steps. First the tail is moved over the oldest record, which is given up and counted, finished or not.
//! Then its space becomes free, if its owner cannot write to it any more: the record is finished, or the token is not in its
//! place. Then the hit is over, and something else has used its part of the stack (a signal handler has left it by `longjmp`).
//! While the token is there, the record goes into the table and the head is moved after its space: the ring is smaller by that
//! much until the owner returns. The space in between is a gap that is not written; readers and writers continue at the next
//! position that belongs to a record.
//!
//! Each word with several writers is changed by an exchange of values that do not come again. So a thread may lose the cpu, or
//! leave, between any two instructions.

use iced_x86::code_asm::*;

use super::code::{Code, Gpr, Label, Made, Mode, SHARED, Slot};
use super::frame::Frame;
use crate::layout::{WhenFull, header, record, ring, tracepoint, unfinished};

/// The start of the ring.
const RING: AsmRegister64 = rsi;
/// Registers of the program that only making space uses.
const KEPT: [(AsmRegister64, u8); 3] = [(r8, 0), (r9, 1), (r10, 2)];
/// The slots of the head and the newest claim while space is made.
const HEAD: u8 = 3;
const NEWEST: u8 = 4;
/// The slots of the second tracepoint whose records are given up together, and of their number.
const SECOND: u8 = 5;
const OF_SECOND: u8 = 6;
/// No tracepoint's block.
const NO_BLOCK: i32 = -1;

/// How many bytes of a ring are freed at a time, but at most 1/64 of the ring: not every hit has to. The records that are freed were
/// fetched before.
const AT_ONCE: u64 = 4 << 10;

/// The jump targets of making space.
#[derive(Clone, Copy)]
struct Ways {
    /// To the claim.
    again: Label,
    /// There is no space.
    lost: Label,
    /// To examine the oldest record.
    next: Label,
}

impl<'o> Code<'o> {
    /// Claims a record: `rdi` is its start then. The cpu is in `eax`.
    pub(super) fn claim(&mut self, frame: &Frame) -> Made {
        self.uses(&[r11]);
        let ring_bytes = self.layout().sizes.ring_bytes as i32;
        let mask = self.layout().ring_mask() as i32;
        let salt = self.layout().salt;
        let (again, known, newest) = (self.label(), self.label(), self.label());
        let (lap, lapped, full) = (self.label(), self.label(), self.label());
        let (far, near) = (self.label(), self.label());
        let (token, of) = (self.slot(Slot::Token), self.slot(Slot::TokenTracepoint));
        self.ring_of_cpu(RING)?;
        self.asm.mov(of, frame.index as i32)?;
        self.place(again)?;
        self.asm.mov(rdi, qword_ptr(RING + ring::HEAD))?;
        self.asm.mov(r11, qword_ptr(RING + ring::NEWEST))?;
        self.counter_before_reserving()?;
        self.asm.mov(rax, rdi)?;
        self.asm.mov(rdx, r11)?;
        // The newest record must have begun, or be in the table, before there is a newer one.
        self.asm.movzx(ecx, dx)?;
        self.asm.neg(rcx)?;
        self.asm.lea(r11, rax + rcx * 8)?;
        self.place_in_ring(rdi, r11)?;
        self.asm.mov(rbx, salt)?;
        self.asm.xor(r11, rbx)?;
        self.asm
            .cmp(qword_ptr(RING + rdi + (ring::DATA + record::STATE)), r11)?;
        self.asm.jne(self.to(newest))?;
        self.place(known)?;
        let size = frame.reserved;
        self.place_in_ring(rdi, rax)?;
        self.asm.lea(ecx, dword_ptr(rdi + size))?;
        self.asm.lea(rbx, rax + size)?;
        self.asm.cmp(ecx, ring_bytes)?;
        self.asm.jae(self.to(lap))?;
        self.place(lapped)?;
        self.asm.mov(r11, rbx)?;
        self.asm.sub(r11, qword_ptr(RING + ring::FREE))?;
        self.asm.cmp(r11, ring_bytes)?;
        self.asm.ja(self.to(full))?;
        self.asm.mov(r11, salt)?;
        self.asm.xor(r11, rax)?;
        self.asm.mov(token, r11)?;
        self.asm.mov(rcx, rbx)?;
        self.asm.sub(rcx, rax)?;
        self.asm.shr(ecx, 3)?;
        self.asm.lea(r11, token)?;
        self.asm.rol(r11, unfinished::SPAN_BITS)?;
        self.asm.test(r11w, r11w)?;
        self.asm.jne(self.to(far))?;
        self.place(near)?;
        self.asm.or(rcx, r11)?;
        self.asm.lock().cmpxchg16b(xmmword_ptr(RING + ring::HEAD))?;
        self.asm.jne(self.to(again))?;

        self.asm.lea(rdi, RING + rdi + ring::DATA)?;
        self.asm.mov(qword_ptr(rdi + record::OWNER), rcx)?;
        self.begin_header(frame, 0)?;
        self.asm.mov(rdx, token)?;
        self.asm.not(rdx)?;
        self.asm.mov(qword_ptr(rdi + record::STATE), rdx)?;
        if frame.shrinks {
            // The claim, for `rdi` has lost its length by then.
            for (slot, register) in [
                (Slot::Position, rax),
                (Slot::Reserved, rbx),
                (Slot::Claim, rcx),
            ] {
                let slot = self.slot(slot);
                self.asm.mov(slot, register)?;
            }
        }
        for (slot, register) in [(Slot::Ring, RING), (Slot::Record, rdi)] {
            let slot = self.slot(slot);
            self.asm.mov(slot, register)?;
        }
        self.shared_again()?;

        let frame = *frame;
        self.later(move |code| {
            code.place(lap)?;
            code.asm.mov(rbx, rax)?;
            code.asm.or(rbx, mask)?;
            code.asm.inc(rbx)?;
            code.asm.jmp(code.to(lapped))?;
            code.place(far)?;
            // A token cannot be read there: the record keeps its space.
            code.asm.xor(r11d, r11d)?;
            code.asm.jmp(code.to(near))?;
            let lost = code.label();
            code.place(newest)?;
            code.note_newest(again, known, lost)?;
            code.place(full)?;
            code.make_room(&frame, again, lost)
        });
        Ok(())
    }

    /// Ends the claim: the old content of the record's space is not taken for a token.
    pub(super) fn release_claim(&mut self) -> Made {
        let token = self.slot(Slot::Token);
        self.asm.mov(token, 0)?;
        Ok(())
    }

    /// Frees the part of the record in `rax`, with a frame of `edx` bytes, that was not needed. If it cannot be freed, it is a
    /// gap.
    pub(super) fn shrink_claim(&mut self) -> Made {
        let ring_bytes = self.layout().sizes.ring_bytes as i32;
        let mask = self.layout().ring_mask() as i32;
        let (lap, lapped) = (self.label(), self.label());
        let (position, reserved, claim, ring) = (
            self.slot(Slot::Position),
            self.slot(Slot::Reserved),
            self.slot(Slot::Claim),
            self.slot(Slot::Ring),
        );
        self.asm.mov(rdi, rax)?;
        self.asm
            .add(edx, (self.layout().header_bytes() + 7) as i32)?;
        self.asm.and(edx, -8)?;
        self.asm.mov(rsi, position)?;
        self.place_in_ring(rcx, rsi)?;
        self.asm.add(ecx, edx)?;
        self.asm.cmp(ecx, ring_bytes)?;
        self.asm.lea(rbx, rsi + rdx)?;
        self.asm.jae(self.to(lap))?;
        self.place(lapped)?;
        self.asm.mov(dword_ptr(rdi + record::RESERVED), edx)?;
        self.asm.mov(rax, reserved)?;
        self.asm.mov(rdx, claim)?;
        self.asm.xor(ecx, ecx)?;
        self.asm.mov(RING, ring)?;
        self.asm.lock().cmpxchg16b(xmmword_ptr(RING + ring::HEAD))?;
        self.asm.mov(rax, rdi)?;
        self.shared_again()?;
        self.later(move |code| {
            code.place(lap)?;
            code.asm.mov(rbx, rsi)?;
            code.asm.or(rbx, mask)?;
            code.asm.inc(rbx)?;
            code.asm.jmp(code.to(lapped))?;
            Ok(())
        });
        Ok(())
    }

    /// Notes the newest record, which prevents a claim because it is not finished. Its end and claim are in `rax` and `rdx`;
    /// `r11` is its state word if it were finished.
    fn note_newest(&mut self, again: Label, known: Label, lost: Label) -> Made {
        let (noted, none) = (self.label(), self.label());
        self.asm.not(r11)?;
        self.asm
            .cmp(qword_ptr(RING + rdi + (ring::DATA + record::STATE)), r11)?;
        self.asm.je(self.to(known))?;
        self.asm.test(rdx, rdx)?;
        self.asm.je(self.to(known))?;
        // Unless the two were read before and after a change.
        self.asm.cmp(qword_ptr(RING + ring::HEAD), rax)?;
        self.asm.jne(self.to(again))?;
        self.keep_registers()?;
        self.asm.mov(r8, rax)?;
        self.asm.mov(r9, rdx)?;
        self.note_unfinished(noted, none)?;
        self.place(noted)?;
        self.asm.mov(rax, r8)?;
        self.asm.mov(rdx, r9)?;
        self.give_registers_back()?;
        self.asm.jmp(self.to(known))?;
        self.place(none)?;
        self.give_registers_back()?;
        self.asm.jmp(self.to(lost))?;
        Ok(())
    }

    /// The ring is full: `rax` and `rdx` are its head and the newest claim.
    fn make_room(&mut self, frame: &Frame, again: Label, lost: Label) -> Made {
        let ring_bytes = self.layout().sizes.ring_bytes as i32;
        let mask = self.layout().ring_mask() as i32;
        let (head, newest) = (
            self.slot(Slot::Scratch(HEAD)),
            self.slot(Slot::Scratch(NEWEST)),
        );
        let (restored, none) = (self.label(), self.label());
        let (next, lap, lapped, given_up) =
            (self.label(), self.label(), self.label(), self.label());
        let ways = Ways {
            again: restored,
            lost: none,
            next,
        };
        self.keep_registers()?;
        self.asm.mov(head, rax)?;
        self.asm.mov(newest, rdx)?;
        self.place(next)?;
        self.asm.mov(r8, qword_ptr(RING + ring::FREE))?;
        self.asm.mov(r9, qword_ptr(RING + ring::TAIL))?;
        self.asm.mov(rax, qword_ptr(RING + ring::HEAD))?;
        self.place_in_ring(rdi, rax)?;
        self.asm.lea(ecx, dword_ptr(rdi + frame.reserved))?;
        self.asm.lea(rdx, rax + frame.reserved)?;
        self.asm.cmp(ecx, ring_bytes)?;
        self.asm.jae(self.to(lap))?;
        self.place(lapped)?;
        self.asm.sub(rdx, r8)?;
        self.asm.cmp(rdx, ring_bytes)?;
        self.asm.jbe(self.to(restored))?;
        self.asm.cmp(r8, r9)?;
        self.asm.jne(self.to(given_up))?;
        // A wait would exceed any budget.
        let waits = self.layout().sizes.when_full == WhenFull::WaitThenOverwrite
            && !self.options.has_budget;
        if waits && self.mode == Mode::Direct {
            self.wait_for_reader(ways)?;
        }
        self.drop_oldest(ways)?;
        self.place(given_up)?;
        self.free_oldest(ways)?;
        self.place(lap)?;
        self.asm.mov(rdx, rax)?;
        self.asm.or(rdx, mask)?;
        self.asm.inc(rdx)?;
        self.asm.jmp(self.to(lapped))?;

        self.place(restored)?;
        self.give_registers_back()?;
        self.asm.jmp(self.to(again))?;
        self.place(none)?;
        self.give_registers_back()?;
        self.place(lost)?;
        self.asm.lock().inc(qword_ptr(RING + ring::LOST))?;
        self.shared_again()?;
        self.count_lost(frame)?;
        self.asm.jmp(self.to(frame.next))?;
        Ok(())
    }

    /// Waits until the reader has taken the oldest record, at `r9`, if that is finished. Goes on when it takes too long, or when
    /// no reader is expected. An unfinished record may be the waiting thread's own, left by a signal handler.
    fn wait_for_reader(&mut self, ways: Ways) -> Made {
        let (waiting, over) = (self.label(), self.label());
        self.whole_at(r9)?;
        self.asm.jne(self.to(over))?;
        self.shared_again()?;
        self.end_of_wait(RING, r9, r11, over)?;
        self.place(waiting)?;
        self.asm.cmp(qword_ptr(RING + ring::TAIL), r9)?;
        self.asm.jne(self.to(ways.next))?;
        self.asm.mov(rdi, qword_ptr(SHARED + header::CLOCK_SEEN))?;
        self.asm.cmp(qword_ptr(RING + ring::IN_VAIN), rdi)?;
        self.asm.je(self.to(over))?;
        self.asm.cmp(dword_ptr(SHARED + header::STOP), 0)?;
        self.asm.jne(self.to(over))?;
        self.tracer_is_gone(over)?;
        self.asm.pause()?;
        self.may_fault(over);
        self.asm.rdtsc()?;
        self.asm.shl(rdx, 32)?;
        self.asm.or(rax, rdx)?;
        self.asm.cmp(rax, r11)?;
        self.asm.jb(self.to(waiting))?;
        self.asm.mov(qword_ptr(RING + ring::IN_VAIN), rdi)?;
        self.place(over)
    }

    /// How many bytes are freed at a time, before they are written.
    pub(super) fn freed_at_once(&self) -> u64 {
        AT_ONCE.min(self.layout().sizes.ring_bytes / 64)
    }

    /// Moves the tail, in `r9` and `r8`, over the oldest records that are finished and of one tracepoint or two, as the entries and
    /// returns of a span are, and frees their space; or over one that is not finished. The ring's count moves with the tail. If it
    /// cannot, it is counted before, so that a hit that a signal handler abandons in between is counted at most once.
    fn drop_oldest(&mut self, ways: Ways) -> Made {
        let at_once = self.freed_at_once() as i32;
        let dropped = self.layout().dropped(0).unwrap_or_default() as i64;
        let (walk, walk_second, passed, walked) =
            (self.label(), self.label(), self.label(), self.label());
        let (both, counted) = (self.label(), self.label());
        let (other, known, nothing, step) =
            (self.label(), self.label(), self.label(), self.label());
        let (second, of_second) = (
            self.slot(Slot::Scratch(SECOND)),
            self.slot(Slot::Scratch(OF_SECOND)),
        );
        let tracepoints = self.layout().sizes.tracepoints as i32;
        self.whole_at(r9)?;
        self.asm.jne(self.to(other))?;
        self.tracepoint_of_record(nothing)?;
        self.asm.xor(r10d, r10d)?;
        self.asm.mov(second, NO_BLOCK)?;
        self.asm.mov(of_second, 0)?;
        self.place(walk)?;
        self.end_of_record(r9, walked)?;
        self.place(passed)?;
        self.asm.mov(r9, rdx)?;
        self.asm.inc(r10)?;
        self.asm.sub(rdx, r8)?;
        self.asm.cmp(rdx, at_once)?;
        self.asm.jae(self.to(walked))?;
        self.whole_at(r9)?;
        self.asm.jne(self.to(walked))?;
        let block = dword_ptr(RING + rdi + (ring::DATA + record::TRACEPOINT));
        self.asm.mov(eax, block)?;
        self.asm.cmp(eax, r11d)?;
        self.asm.je(self.to(walk))?;
        self.asm.cmp(rax, second)?;
        self.asm.je(self.to(walk_second))?;
        self.asm.cmp(second, NO_BLOCK)?;
        self.asm.jne(self.to(walked))?;
        self.asm.cmp(eax, tracepoints)?;
        self.asm.jae(self.to(walked))?;
        self.asm.mov(second, rax)?;
        self.place(walk_second)?;
        self.end_of_record(r9, walked)?;
        self.asm.inc(of_second)?;
        self.asm.jmp(self.to(passed))?;
        self.place(walked)?;
        self.asm.test(r10, r10)?;
        self.asm.je(self.to(nothing))?;
        self.asm.mov(rax, r8)?;
        self.asm.mov(rdx, qword_ptr(RING + ring::DROPPED))?;
        self.asm.mov(rbx, r9)?;
        self.asm.lea(rcx, rdx + r10)?;
        self.asm.lock().cmpxchg16b(xmmword_ptr(RING + ring::TAIL))?;
        self.asm.jne(self.to(ways.next))?;
        self.asm.mov(rcx, of_second)?;
        self.asm.test(rcx, rcx)?;
        self.asm.jne(self.to(both))?;
        self.place(counted)?;
        self.asm
            .lock()
            .add(qword_ptr(RING + r11 * 8 + dropped), r10)?;
        self.asm.mov(rax, r8)?;
        self.asm.lock().cmpxchg(qword_ptr(RING + ring::FREE), r9)?;
        self.asm.jmp(self.to(ways.next))?;

        self.place(both)?;
        self.asm.sub(r10, rcx)?;
        self.asm.mov(rax, second)?;
        self.asm
            .lock()
            .add(qword_ptr(RING + rax * 8 + dropped), rcx)?;
        self.asm.jmp(self.to(counted))?;

        self.place(other)?;
        self.begun_at(r9)?;
        self.asm.jne(self.to(nothing))?;
        self.end_of_record(r9, nothing)?;
        self.tracepoint_of_record(nothing)?;
        self.place(known)?;
        self.shared_again()?;
        self.asm.shl(r11, tracepoint::SIZE.trailing_zeros())?;
        let of_it = SHARED + r11 + (self.layout().tracepoints + tracepoint::LOST) as i64;
        self.asm.lock().inc(qword_ptr(of_it))?;
        self.asm.lock().inc(qword_ptr(RING + ring::LOST))?;
        self.asm.mov(rax, r9)?;
        self.asm.lock().cmpxchg(qword_ptr(RING + ring::TAIL), rdx)?;
        self.asm.je(self.to(ways.next))?;
        self.asm.lock().dec(qword_ptr(RING + ring::LOST))?;
        self.asm.lock().dec(qword_ptr(of_it))?;
        self.asm.jmp(self.to(ways.next))?;

        // A record that has not begun, or a gap: as far as the next record of either kind.
        self.place(nothing)?;
        self.asm.mov(r10, qword_ptr(RING + ring::HEAD))?;
        self.each_unfinished(None, |code, following| {
            code.start_of_entry(r11)?;
            code.asm.cmp(r11, r9)?;
            code.asm.je(code.to(step))?;
            code.asm.jb(code.to(following))?;
            code.asm.cmp(r11, r10)?;
            code.asm.cmovb(r10, r11)?;
            Ok(())
        })?;
        self.asm.mov(rdx, r9)?;
        self.next_record(rdx, r10)?;
        self.asm.cmp(rdx, r9)?;
        self.asm.je(self.to(ways.lost))?;
        self.asm.mov(rax, r9)?;
        self.asm.lock().cmpxchg(qword_ptr(RING + ring::TAIL), rdx)?;
        self.asm.jmp(self.to(ways.next))?;

        // Its end is in `rax`. Its owner stores its tracepoint beside the token.
        let unknown = self.label();
        self.place(step)?;
        self.asm.mov(r10, rax)?;
        if self.mode == Mode::Direct {
            self.owner_is_gone(unknown)?;
            self.may_fault(unknown);
            self.asm.mov(r11d, dword_ptr(rcx + 8))?;
            self.asm.cmp(r11d, tracepoints)?;
            self.asm.jae(self.to(unknown))?;
            self.asm.mov(rdx, r10)?;
            self.asm.jmp(self.to(known))?;
        }
        self.place(unknown)?;
        self.asm.mov(rdx, r10)?;
        self.asm.lock().inc(qword_ptr(RING + ring::LOST))?;
        self.asm.mov(rax, r9)?;
        self.asm.lock().cmpxchg(qword_ptr(RING + ring::TAIL), rdx)?;
        self.asm.je(self.to(ways.next))?;
        self.asm.lock().dec(qword_ptr(RING + ring::LOST))?;
        self.asm.jmp(self.to(ways.next))?;
        Ok(())
    }

    /// Frees the space at `r8`, before the tail, in `r9`: of a record, or up to one that has an owner; in that case it moves the
    /// head after it.
    fn free_oldest(&mut self, ways: Ways) -> Made {
        let ring_bytes = self.layout().sizes.ring_bytes as i32;
        let mask = self.layout().ring_mask() as i32;
        let (other, nothing, free, over) = (self.label(), self.label(), self.label(), self.label());
        self.whole_at(r8)?;
        self.asm.jne(self.to(other))?;
        self.end_of_record(r8, nothing)?;
        self.place(free)?;
        self.asm.mov(rax, r8)?;
        self.asm.lock().cmpxchg(qword_ptr(RING + ring::FREE), rdx)?;
        self.asm.jmp(self.to(ways.next))?;

        self.place(other)?;
        self.begun_at(r8)?;
        self.asm.jne(self.to(nothing))?;
        self.end_of_record(r8, nothing)?;
        // As an entry of the table.
        let noted = self.label();
        self.asm.mov(r10, r8)?;
        self.asm.mov(r8, rdx)?;
        self.asm
            .mov(r9, qword_ptr(RING + rdi + (ring::DATA + record::OWNER)))?;
        self.asm.sub(rdx, r10)?;
        self.asm.shr(edx, 3)?;
        self.asm.mov(r9w, dx)?;
        let gone = self.label();
        self.asm.mov(rax, r8)?;
        self.asm.mov(rdx, r9)?;
        self.owner_is_gone(gone)?;
        self.note_unfinished(noted, ways.lost)?;
        self.place(gone)?;
        self.asm.mov(rdx, r8)?;
        self.asm.mov(r8, r10)?;
        self.asm.jmp(self.to(free))?;
        self.place(noted)?;
        self.asm.jmp(self.to(over))?;

        self.place(nothing)?;
        self.asm.mov(r10, r8)?;
        self.next_record(r10, r9)?;
        self.each_unfinished(None, |code, following| {
            let covers = code.label();
            code.start_of_entry(r11)?;
            code.asm.mov(rbx, r8)?;
            code.asm.sub(rbx, r11)?;
            code.asm.and(rbx, mask)?;
            code.asm.cmp(rbx, rcx)?;
            code.asm.jb(code.to(covers))?;
            code.asm.neg(rbx)?;
            code.asm.and(rbx, mask)?;
            code.asm.add(rbx, r8)?;
            code.asm.cmp(rbx, r10)?;
            code.asm.jae(code.to(following))?;
            code.owner_is_gone(following)?;
            code.asm.mov(r10, rbx)?;
            code.asm.jmp(code.to(following))?;
            code.place(covers)?;
            code.asm.sub(rcx, rbx)?;
            code.asm.lea(rbx, r8 + rcx)?;
            // The space of a record that was claimed later is certain.
            code.asm.cmp(rbx, r10)?;
            code.asm.cmova(rbx, r10)?;
            code.owner_is_gone(following)?;
            code.asm.mov(r10, r8)?;
            code.asm.mov(r8, rbx)?;
            code.asm.jmp(code.to(over))?;
            Ok(())
        })?;
        self.asm.mov(rdx, r10)?;
        self.asm.jmp(self.to(free))?;

        // A record with an owner is at `r10` to `r8`. The newest record was checked with this head.
        let (head, newest) = (
            self.slot(Slot::Scratch(HEAD)),
            self.slot(Slot::Scratch(NEWEST)),
        );
        let past = self.label();
        self.place(over)?;
        self.asm.mov(rax, head)?;
        self.asm.mov(rdx, newest)?;
        self.asm.lea(rbx, r8 + ring_bytes)?;
        self.asm.xor(ecx, ecx)?;
        self.asm.cmp(rax, rbx)?;
        self.asm.jae(self.to(past))?;
        self.asm.lock().cmpxchg16b(xmmword_ptr(RING + ring::HEAD))?;
        self.asm.jne(self.to(ways.again))?;
        self.place(past)?;
        self.asm.mov(rax, r10)?;
        self.asm.lock().cmpxchg(qword_ptr(RING + ring::FREE), r8)?;
        self.asm.jmp(self.to(ways.again))?;
        Ok(())
    }

    /// Puts the end `r8` and the claim `r9` of a record into the table, if they are not there. Keeps these and `r10`.
    fn note_unfinished(&mut self, noted: Label, none: Label) -> Made {
        let take = self.label();
        self.each_unfinished(Some(take), |code, following| {
            let (other, again) = (code.label(), code.label());
            code.place(again)?;
            code.asm.cmp(rax, r8)?;
            code.asm.jne(code.to(other))?;
            code.asm.cmp(rdx, r9)?;
            code.asm.je(code.to(noted))?;
            code.place(other)?;
            code.owner_is_gone(take)?;
            code.asm.jmp(code.to(following))?;
            code.place(take)?;
            code.asm.mov(rbx, r8)?;
            code.asm.mov(rcx, r9)?;
            code.asm.lock().cmpxchg16b(xmmword_ptr(rdi))?;
            code.asm.je(code.to(noted))?;
            // As it is now.
            code.asm.jmp(code.to(again))?;
            Ok(())
        })?;
        self.asm.jmp(self.to(none))?;
        Ok(())
    }

    /// Loops over the ring's table, up to the first empty entry: `rdi` is the place of each, `rax` and `rdx` its content. The
    /// body's label leads to the next one. From an empty entry it jumps to a label, or falls through.
    fn each_unfinished(
        &mut self,
        empty: Option<Label>,
        body: impl FnOnce(&mut Code<'o>, Label) -> Made,
    ) -> Made {
        let (each, following, end) = (self.label(), self.label(), self.label());
        let (start, behind) = self.layout().unfinished();
        self.asm.lea(rdi, RING + start as i64)?;
        self.place(each)?;
        self.asm.mov(rax, qword_ptr(rdi))?;
        self.asm.mov(rdx, qword_ptr(rdi + unfinished::CLAIM))?;
        self.asm.test(rdx, rdx)?;
        self.asm.je(self.to(empty.unwrap_or(end)))?;
        body(self, following)?;
        self.place(following)?;
        self.asm.add(rdi, unfinished::ENTRY as i32)?;
        self.asm.lea(rcx, RING + behind as i64)?;
        self.asm.cmp(rdi, rcx)?;
        self.asm.jb(self.to(each))?;
        self.place(end)
    }

    /// The start of the entry in `rax` and `rdx`; `rcx` is its length.
    fn start_of_entry(&mut self, start: AsmRegister64) -> Made {
        self.asm.movzx(ecx, dx)?;
        self.asm.shl(ecx, 3)?;
        self.asm.mov(start, rax)?;
        self.asm.sub(start, rcx)?;
        Ok(())
    }

    /// Jumps to a label if the owner of the entry in `rax` and `rdx` cannot write to the record any more. Changes `rcx` and
    /// `r11`.
    fn owner_is_gone(&mut self, gone: Label) -> Made {
        let stays = self.label();
        // Without a tracer, memory of other threads is not read: it may be unmapped.
        if self.mode == Mode::Direct {
            self.start_of_entry(r11)?;
            self.asm.mov(rcx, self.layout().salt)?;
            self.asm.xor(r11, rcx)?;
            self.asm.mov(rcx, rdx)?;
            self.asm.shr(rcx, unfinished::SPAN_BITS)?;
            self.asm.je(self.to(stays))?;
            self.may_fault(gone);
            self.asm.cmp(qword_ptr(rcx), r11)?;
            self.asm.jne(self.to(gone))?;
        }
        self.place(stays)
    }

    /// Moves a position, at which there is none, to the next record that has begun, or to the limit. Changes `rcx`, `rdi` and `r11`.
    fn next_record(&mut self, position: AsmRegister64, limit: AsmRegister64) -> Made {
        let (each, found) = (self.label(), self.label());
        self.place(each)?;
        self.asm.add(position, 8)?;
        self.asm.cmp(position, limit)?;
        self.asm.jae(self.to(found))?;
        self.whole_at(position)?;
        self.asm.je(self.to(found))?;
        self.begun_at(position)?;
        self.asm.jne(self.to(each))?;
        self.place(found)?;
        self.asm.cmp(position, limit)?;
        self.asm.cmova(position, limit)?;
        Ok(())
    }

    /// Compares the word at a position with the state of a finished record; `rdi` is then its place in the ring.
    fn whole_at(&mut self, position: AsmRegister64) -> Made {
        self.place_in_ring(rdi, position)?;
        self.asm.mov(rcx, self.layout().salt)?;
        self.asm.xor(rcx, position)?;
        let state = qword_ptr(RING + rdi + (ring::DATA + record::STATE));
        self.asm.cmp(state, rcx)?;
        Ok(())
    }

    /// As [`whole_at`](Self::whole_at), after it, with the state of a record that has begun.
    fn begun_at(&mut self, position: AsmRegister64) -> Made {
        self.whole_at(position)?;
        self.asm.not(rcx)?;
        let state = qword_ptr(RING + rdi + (ring::DATA + record::STATE));
        self.asm.cmp(state, rcx)?;
        Ok(())
    }

    /// Puts the end of the record at a position, whose place is in `rdi`, into `rdx`. Jumps to a label if the length is
    /// impossible: a program may overwrite the ring. Changes `rax` and `rcx`.
    fn end_of_record(&mut self, position: AsmRegister64, strange: Label) -> Made {
        let ring_bytes = self.layout().sizes.ring_bytes as i32;
        let mask = self.layout().ring_mask() as i32;
        let longest = (self.layout().sizes.frame_limit + 7) & !7;
        let inside = self.label();
        let header = self.layout().header_bytes();
        let reserved = dword_ptr(RING + rdi + (ring::DATA + record::RESERVED));
        self.asm.mov(eax, reserved)?;
        self.asm.lea(ecx, dword_ptr(rax - header))?;
        self.asm.cmp(ecx, longest as i32)?;
        self.asm.ja(self.to(strange))?;
        self.asm.lea(ecx, dword_ptr(rdi + rax))?;
        self.asm.lea(rdx, position + rax)?;
        self.asm.cmp(ecx, ring_bytes)?;
        self.asm.jb(self.to(inside))?;
        self.asm.mov(rdx, position)?;
        self.asm.or(rdx, mask)?;
        self.asm.inc(rdx)?;
        self.place(inside)
    }

    /// Puts the tracepoint's block of the record whose place is in `rdi` into `r11`. Jumps to a label if there is none.
    fn tracepoint_of_record(&mut self, strange: Label) -> Made {
        let block = dword_ptr(RING + rdi + (ring::DATA + record::TRACEPOINT));
        self.asm.mov(r11d, block)?;
        self.asm.cmp(r11d, self.layout().sizes.tracepoints as i32)?;
        self.asm.jae(self.to(strange))?;
        Ok(())
    }

    fn place_in_ring(&mut self, place: AsmRegister64, position: AsmRegister64) -> Made {
        let mask = self.layout().ring_mask() as i32;
        self.asm.mov(place, position)?;
        self.asm.and(place, mask)?;
        Ok(())
    }

    /// `rbx` was used for an exchange of 16 bytes.
    pub(super) fn shared_again(&mut self) -> Made {
        let shared = self.options.shared.0;
        self.number(Gpr(1), shared)
    }

    fn keep_registers(&mut self) -> Made {
        for (register, slot) in KEPT {
            let slot = self.slot(Slot::Scratch(slot));
            self.asm.mov(slot, register)?;
        }
        Ok(())
    }

    fn give_registers_back(&mut self) -> Made {
        for (register, slot) in KEPT {
            let slot = self.slot(Slot::Scratch(slot));
            self.asm.mov(register, slot)?;
        }
        Ok(())
    }
}

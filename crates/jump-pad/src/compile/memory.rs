//! Reading the program's memory into a frame.

use iced_x86::code_asm::*;

use super::code::{Code, Label, Made, Mode, OUT, SHARED, Slot};
use super::frame::Frame;
use crate::layout::tracepoint;
use crate::pad::ErrorKind;

/// The letter, the address and the length of a block of memory.
pub(super) const BLOCK: u32 = 11;

/// Up to this many bytes are copied by moves of eight.
const SHORT: u32 = 64;

/// The most pieces of a hit, as for the trap mechanism.
pub(super) const PIECES: u32 = 4096;

const PROCESS_VM_READV: u32 = 310;
const PAGE: u32 = 4096;

/// How many bytes of a piece are to be collected.
#[derive(Clone, Copy)]
pub(super) enum Length {
    Known(u32),
    /// Not in `rax`, `rcx` or `rdx`.
    In(AsmRegister64),
}

impl<'o> Code<'o> {
    /// Collects memory at the address in a register that is none of `rax`, `rcx`, `rdx`, `rsi`, `rdi`.
    pub(super) fn memory_piece(
        &mut self,
        frame: &mut Frame,
        address: AsmRegister64,
        length: Length,
    ) -> Made {
        self.uses(&[rax, rcx, rdx, rsi]);
        self.count_piece(frame)?;
        frame.bound.pieces += 1;
        match length {
            Length::Known(0) => Ok(()),
            Length::Known(length) => self.known_piece(frame, address, length),
            Length::In(length) => self.unknown_piece(frame, address, length),
        }
    }

    fn block_header(&mut self, at: u32, address: AsmRegister64) -> Made {
        self.asm.mov(byte_ptr(OUT + at), i32::from(b'M'))?;
        self.asm.mov(qword_ptr(OUT + (at + 1)), address)?;
        Ok(())
    }

    fn known_piece(&mut self, frame: &mut Frame, address: AsmRegister64, length: u32) -> Made {
        let at = frame.at;
        frame.bound.bytes += u64::from(BLOCK + length);
        if frame.unbounded {
            self.asm.lea(rax, OUT + (at + BLOCK + length))?;
            self.check_room(frame)?;
        }
        self.block_header(at, address)?;
        self.asm.mov(word_ptr(OUT + (at + 9)), length as i32)?;
        let done = self.label();
        frame.at += BLOCK + length;
        let (block, full) = (frame.block, BLOCK + length);
        if self.mode == Mode::Direct && length <= SHORT {
            let careful = self.label();
            self.short_copy(address, at + BLOCK, length, careful)?;
            self.later(move |code| {
                code.place(careful)?;
                code.careful_copy(address, at, Length::Known(length))?;
                code.cut_short(address, at, full, block, done)
            });
        } else {
            self.careful_copy(address, at, Length::Known(length))?;
            let cut = self.label();
            self.asm.test(rcx, rcx)?;
            self.asm.jne(self.to(cut))?;
            self.later(move |code| {
                code.place(cut)?;
                code.cut_short(address, at, full, block, done)
            });
        }
        self.place(done)
    }

    /// Copies by moves that may overlap.
    fn short_copy(&mut self, from: AsmRegister64, to: u32, length: u32, careful: Label) -> Made {
        let mut done = 0;
        while done < length {
            let left = length - done;
            let (width, start) = match left {
                8.. => (8, done),
                4..8 if length >= 8 => (8, length - 8),
                4.. => (4, done),
                2..4 if length >= 4 => (4, length - 4),
                2.. => (2, done),
                _ if length >= 8 => (8, length - 8),
                _ if length >= 4 => (4, length - 4),
                _ if length >= 2 => (2, length - 2),
                _ => (1, done),
            };
            // Two registers by turns.
            let odd = done / 8 % 2 == 1;
            self.may_fault(careful);
            let (from, to) = (from + start, OUT + (to + start));
            match (width, odd) {
                (8, false) => {
                    self.asm.mov(rax, qword_ptr(from))?;
                    self.asm.mov(qword_ptr(to), rax)?;
                }
                (8, true) => {
                    self.asm.mov(rcx, qword_ptr(from))?;
                    self.asm.mov(qword_ptr(to), rcx)?;
                }
                (4, _) => {
                    self.asm.mov(edx, dword_ptr(from))?;
                    self.asm.mov(dword_ptr(to), edx)?;
                }
                (2, _) => {
                    self.asm.movzx(edx, word_ptr(from))?;
                    self.asm.mov(word_ptr(to), dx)?;
                }
                _ => {
                    self.asm.movzx(edx, byte_ptr(from))?;
                    self.asm.mov(byte_ptr(to), dl)?;
                }
            }
            done = start + width;
        }
        Ok(())
    }

    /// Copies up to the first byte that cannot be read. Then `rcx` is the number of bytes left, `rdx` the number read. A length
    /// that is not known at compile time is in `Scratch(1)`.
    fn careful_copy(&mut self, address: AsmRegister64, at: u32, length: Length) -> Made {
        let wanted = self.slot(Slot::Scratch(1));
        self.asm.mov(rsi, address)?;
        match self.mode {
            Mode::Direct => {
                let faulted = self.label();
                let kept = self.slot(Slot::Scratch(0));
                match length {
                    Length::Known(length) => self.asm.mov(ecx, length)?,
                    Length::In(_) => self.asm.mov(rcx, wanted)?,
                }
                self.asm.mov(rdx, rcx)?;
                self.asm.mov(kept, OUT)?;
                self.asm.add(OUT, (at + BLOCK) as i32)?;
                // The program may have set the direction.
                self.deeper = self.deeper.max(8);
                self.asm.pushfq()?;
                self.asm.cld()?;
                self.may_fault(faulted);
                self.asm.rep().movsb()?;
                self.place(faulted)?;
                self.asm.popfq()?;
                self.asm.mov(OUT, kept)?;
                self.asm.sub(rdx, rcx)?;
            }
            Mode::Kernel => {
                match length {
                    Length::Known(length) => self.asm.mov(edx, length)?,
                    Length::In(_) => self.asm.mov(rdx, wanted)?,
                }
                self.asm.lea(rax, OUT + (at + BLOCK))?;
                self.read_by_kernel()?;
                match length {
                    Length::Known(length) => self.asm.mov(ecx, length)?,
                    Length::In(_) => self.asm.mov(rcx, wanted)?,
                }
                self.asm.mov(rdx, rax)?;
                self.asm.sub(rcx, rdx)?;
            }
        }
        Ok(())
    }

    /// Corrects a block at `at` of which `rcx` bytes are missing and `rdx` were read.
    fn cut_short(
        &mut self,
        address: AsmRegister64,
        at: u32,
        full: u32,
        block: u64,
        done: Label,
    ) -> Made {
        let (none, note) = (self.label(), self.label());
        self.asm.test(rcx, rcx)?;
        self.asm.je(self.to(done))?;
        self.asm.lea(rax, address + rdx)?;
        self.asm.test(rdx, rdx)?;
        self.asm.je(self.to(none))?;
        self.asm.mov(word_ptr(OUT + (at + 9)), dx)?;
        self.asm.sub(OUT, rcx)?;
        self.asm.jmp(self.to(note))?;
        self.place(none)?;
        self.asm.sub(OUT, full as i32)?;
        self.place(note)?;
        self.note_missing(block)?;
        self.asm.jmp(self.to(done))?;
        Ok(())
    }

    fn unknown_piece(
        &mut self,
        frame: &mut Frame,
        address: AsmRegister64,
        length: AsmRegister64,
    ) -> Made {
        self.flush(frame)?;
        frame.bound.unbounded = true;
        let (done, short, note) = (self.label(), self.label(), self.label());
        self.asm.cmp(length, i32::from(u16::MAX))?;
        self.asm.ja(self.to(frame.give_up))?;
        self.asm.test(length, length)?;
        self.asm.je(self.to(done))?;
        let wanted = self.slot(Slot::Scratch(1));
        self.asm.mov(wanted, length)?;
        self.asm.lea(rax, OUT + length + BLOCK)?;
        self.check_room(frame)?;
        self.block_header(0, address)?;
        self.careful_copy(address, 0, Length::In(length))?;
        self.asm.test(rdx, rdx)?;
        self.asm.je(self.to(short))?;
        self.asm.mov(word_ptr(OUT + 9), dx)?;
        self.asm.lea(OUT, OUT + rdx + BLOCK)?;
        self.asm.test(rcx, rcx)?;
        self.asm.jne(self.to(short))?;
        self.place(done)?;
        let block = frame.block;
        self.later(move |code| {
            code.place(short)?;
            code.asm.lea(rax, address + rdx)?;
            code.place(note)?;
            code.note_missing(block)?;
            code.asm.jmp(code.to(done))?;
            Ok(())
        });
        Ok(())
    }

    /// Collects a string up to its NUL, at most `limit` bytes.
    pub(super) fn text_piece(
        &mut self,
        frame: &mut Frame,
        address: AsmRegister64,
        limit: Length,
    ) -> Made {
        self.uses(&[rax, rcx, rdx, rsi]);
        self.count_piece(frame)?;
        self.flush(frame)?;
        let (done, end, unreadable) = (self.label(), self.label(), self.label());
        let most = self.slot(Slot::Scratch(1));
        // The rest of the limit when the space ends, which distinguishes the two ends.
        let behind = self.slot(Slot::Scratch(2));
        frame.bound.pieces += 1;
        frame.bound.varies = true;
        match limit {
            Length::Known(limit) => {
                frame.bound.bytes += u64::from(BLOCK + limit);
                self.asm.mov(edx, limit)?;
            }
            Length::In(limit) => {
                frame.bound.unbounded = true;
                self.asm.mov(rdx, limit)?;
            }
        }
        if frame.unbounded {
            let fits = self.label();
            let record = self.slot(Slot::Record);
            self.asm.mov(rax, record)?;
            self.asm.add(rax, (frame.reserved - BLOCK) as i32)?;
            self.asm.sub(rax, OUT)?;
            self.asm.jbe(self.to(frame.give_up))?;
            self.asm.xor(ecx, ecx)?;
            self.asm.cmp(rdx, rax)?;
            self.asm.jbe(self.to(fits))?;
            self.asm.mov(rdx, rax)?;
            self.asm.inc(ecx)?;
            self.place(fits)?;
            self.asm.mov(behind, rcx)?;
        }
        self.asm.mov(most, rdx)?;
        self.asm.xor(ecx, ecx)?;
        self.asm.test(rdx, rdx)?;
        self.asm.je(self.to(done))?;
        match self.mode {
            Mode::Direct => self.scan(address, end, unreadable)?,
            Mode::Kernel => self.scan_by_kernel(address, end, unreadable)?,
        }
        // Here, and at `end`, `rcx` bytes have been read.
        if frame.unbounded {
            self.asm.cmp(behind, 0)?;
            self.asm.jne(self.to(frame.give_up))?;
        }
        self.place(end)?;
        self.block_header(0, address)?;
        self.asm.mov(word_ptr(OUT + 9), cx)?;
        self.asm.lea(OUT, OUT + rcx + BLOCK)?;
        self.place(done)?;
        let block = frame.block;
        self.later(move |code| {
            let none = code.label();
            code.place(unreadable)?;
            code.asm.lea(rax, address + rcx)?;
            code.asm.test(rcx, rcx)?;
            code.asm.je(code.to(none))?;
            code.block_header(0, address)?;
            code.asm.mov(word_ptr(OUT + 9), cx)?;
            code.asm.lea(OUT, OUT + rcx + BLOCK)?;
            code.place(none)?;
            code.note_missing(block)?;
            code.asm.jmp(code.to(done))?;
            Ok(())
        });
        Ok(())
    }

    /// Copies `rdx` bytes after a block's header, up to a NUL. Falls through at the limit. Eight bytes are read at once where they are
    /// in one page and below the limit: they can be read if the first one can. Those after the NUL are not stored: they may be
    /// secret.
    fn scan(&mut self, address: AsmRegister64, end: Label, unreadable: Label) -> Made {
        const WORD: u32 = 8;
        const ONES: u64 = u64::MAX / 0xff;
        let (again, single, found) = (self.label(), self.label(), self.label());
        // First the highest bit of each byte, and at `found` those of the bytes that are 0.
        let bits = self.slot(Slot::Scratch(3));
        self.asm.mov(rax, ONES << 7)?;
        self.asm.mov(bits, rax)?;
        self.place(again)?;
        self.asm.lea(rsi, address + rcx)?;
        self.asm.and(esi, (PAGE - 1) as i32)?;
        self.asm.cmp(esi, (PAGE - WORD) as i32)?;
        self.asm.ja(self.to(single))?;
        self.asm.lea(rsi, rcx + WORD)?;
        self.asm.cmp(rsi, rdx)?;
        self.asm.ja(self.to(single))?;
        self.may_fault(unreadable);
        self.asm.mov(rax, qword_ptr(address + rcx))?;
        // The highest bit of each byte that is 0; of those behind the first one perhaps, too.
        self.asm.mov(rsi, ONES.wrapping_neg())?;
        self.asm.add(rsi, rax)?;
        self.asm.not(rax)?;
        self.asm.and(rsi, rax)?;
        self.asm.not(rax)?;
        self.asm.and(rsi, bits)?;
        self.asm.jne(self.to(found))?;
        self.asm.mov(qword_ptr(OUT + rcx + BLOCK), rax)?;
        self.asm.add(rcx, WORD as i32)?;
        self.asm.cmp(rcx, rdx)?;
        self.asm.jb(self.to(again))?;
        let enough = self.label();
        self.asm.jmp(self.to(enough))?;
        self.place(single)?;
        self.may_fault(unreadable);
        self.asm.movzx(eax, byte_ptr(address + rcx))?;
        self.asm.mov(byte_ptr(OUT + rcx + BLOCK), al)?;
        self.asm.inc(rcx)?;
        self.asm.test(al, al)?;
        self.asm.je(self.to(end))?;
        self.asm.cmp(rcx, rdx)?;
        self.asm.jb(self.to(again))?;
        self.place(enough)?;
        self.later(move |code| {
            code.place(found)?;
            // All bits up to that of the first NUL.
            code.asm.mov(bits, rsi)?;
            code.asm.dec(rsi)?;
            code.asm.xor(rsi, bits)?;
            code.asm.and(rax, rsi)?;
            code.asm.mov(qword_ptr(OUT + rcx + BLOCK), rax)?;
            code.asm.bsf(rsi, bits)?;
            code.asm.shr(esi, 3)?;
            code.asm.lea(rcx, rcx + rsi + 1)?;
            code.asm.jmp(code.to(end))?;
            Ok(())
        });
        Ok(())
    }

    /// As `scan`, a page at a time. What was read behind the NUL is overwritten.
    fn scan_by_kernel(&mut self, address: AsmRegister64, end: Label, unreadable: Label) -> Made {
        let most = self.slot(Slot::Scratch(1));
        let read = self.slot(Slot::Scratch(3));
        let (again, next, enough) = (self.label(), self.label(), self.label());
        let found = self.label();
        self.place(again)?;
        self.asm.lea(rsi, address + rcx)?;
        self.asm.mov(eax, esi)?;
        self.asm.and(eax, (PAGE - 1) as i32)?;
        self.asm.mov(edx, PAGE)?;
        self.asm.sub(edx, eax)?;
        self.asm.mov(rax, most)?;
        self.asm.sub(rax, rcx)?;
        self.asm.cmp(rdx, rax)?;
        self.asm.jbe(self.to(enough))?;
        self.asm.mov(rdx, rax)?;
        self.place(enough)?;
        self.asm.lea(rax, OUT + rcx + BLOCK)?;
        self.asm.mov(read, rcx)?;
        self.read_by_kernel()?;
        self.asm.mov(rcx, read)?;
        self.asm.test(rax, rax)?;
        self.asm.je(self.to(unreadable))?;
        self.asm.add(rax, rcx)?;
        self.place(next)?;
        self.asm.inc(rcx)?;
        self.asm.cmp(byte_ptr(OUT + rcx + (BLOCK - 1)), 0)?;
        self.asm.je(self.to(found))?;
        self.asm.cmp(rcx, rax)?;
        self.asm.jb(self.to(next))?;
        self.asm.cmp(rcx, most)?;
        self.asm.jb(self.to(again))?;
        self.later(move |code| {
            let wipe = code.label();
            code.place(found)?;
            code.asm.mov(rsi, rcx)?;
            code.place(wipe)?;
            code.asm.cmp(rsi, rax)?;
            code.asm.jae(code.to(end))?;
            code.asm.mov(byte_ptr(OUT + rsi + BLOCK), 0)?;
            code.asm.inc(rsi)?;
            code.asm.jmp(code.to(wipe))?;
            Ok(())
        });
        Ok(())
    }

    /// Has the kernel read `rdx` bytes at `rsi` into `rax`; `rax` is how many it could. `rcx` and `rdx` are changed.
    pub(super) fn read_by_kernel(&mut self) -> Made {
        self.deeper = self.deeper.max(96);
        let thread = self.slot_below(Slot::Thread, 96);
        let good = self.label();
        self.asm.sub(rsp, 96)?;
        // Two vectors of one piece, then the registers that the call takes and changes.
        self.asm.mov(qword_ptr(rsp), rax)?;
        self.asm.mov(qword_ptr(rsp + 8), rdx)?;
        self.asm.mov(qword_ptr(rsp + 16), rsi)?;
        self.asm.mov(qword_ptr(rsp + 24), rdx)?;
        let kept = [rsi, rdi, r8, r9, r10, r11];
        for (register, place) in kept.into_iter().zip((32_u32..).step_by(8)) {
            self.asm.mov(qword_ptr(rsp + place), register)?;
        }
        self.asm.mov(rdi, thread)?;
        self.asm.mov(rsi, rsp)?;
        self.asm.mov(edx, 1)?;
        self.asm.lea(r10, rsp + 16)?;
        self.asm.mov(r8d, 1)?;
        self.asm.xor(r9d, r9d)?;
        self.asm.mov(eax, PROCESS_VM_READV)?;
        self.asm.syscall()?;
        for (register, place) in kept.into_iter().zip((32_u32..).step_by(8)) {
            self.asm.mov(register, qword_ptr(rsp + place))?;
        }
        self.asm.add(rsp, 96)?;
        self.asm.test(rax, rax)?;
        self.asm.jns(self.to(good))?;
        self.asm.xor(eax, eax)?;
        self.place(good)?;
        self.uses(&[rax, rcx, rdx, rsi, rdi, r8, r9, r10, r11]);
        Ok(())
    }

    /// Counts a value that could not be read at the address in `rax`. Changes `rax`, `rcx` and `rdx`.
    pub(super) fn note_missing(&mut self, block: u64) -> Made {
        let known = self.label();
        let at = |field| SHARED + (block + field) as i64;
        self.asm.lock().inc(qword_ptr(at(tracepoint::MISSING)))?;
        self.asm.mov(rcx, rax)?;
        self.asm.xor(eax, eax)?;
        self.asm.mov(edx, 1)?;
        self.asm
            .lock()
            .cmpxchg(qword_ptr(at(tracepoint::MISSING_KNOWN)), rdx)?;
        self.asm.jne(self.to(known))?;
        self.asm
            .mov(qword_ptr(at(tracepoint::MISSING_FIRST)), rcx)?;
        self.asm.mov(qword_ptr(at(tracepoint::MISSING_KNOWN)), 2)?;
        self.place(known)
    }

    /// Gives the frame up if `rax` is beyond the reserved space.
    pub(super) fn check_room(&mut self, frame: &Frame) -> Made {
        let record = self.slot(Slot::Record);
        self.asm.mov(rcx, record)?;
        self.asm.add(rcx, frame.reserved as i32)?;
        self.asm.cmp(rax, rcx)?;
        self.asm.ja(self.to(frame.give_up))?;
        Ok(())
    }

    /// Counts a piece, if their number is not known at compile time.
    pub(super) fn count_piece(&mut self, frame: &Frame) -> Made {
        if let Some(exit) = frame.exit.filter(|_| frame.unbounded) {
            let too_many = self.label();
            let pieces = dword_ptr(self.slot(Slot::Pieces));
            self.asm.inc(pieces)?;
            self.asm.cmp(pieces, PIECES as i32)?;
            self.asm.ja(self.to(too_many))?;
            let site = self.site(false, ErrorKind::Pieces);
            let at = frame.at;
            self.later(move |code| {
                code.place(too_many)?;
                code.action_error(site, at, exit)
            });
        }
        Ok(())
    }
}

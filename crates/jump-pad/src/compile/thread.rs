//! Which thread it is, without asking the kernel.

use iced_x86::code_asm::*;
use tracewire_experiment::FaultKind;

use super::code::{Code, Gpr, Made, Mode, SHARED, Slot};
use crate::layout::{header, threads};

const GETTID: u32 = 186;

impl<'o> Code<'o> {
    /// Puts the thread's number into its slot. Changes `rax`, `rcx`, `rdx`, `rsi` and `r11`.
    ///
    /// A thread is identified by its `fs` base, the address of its own memory. The tracer enters the pairs into a table. A thread
    /// that the tracer has not seen asks the kernel once and enters itself. The base is the first word of that memory, unless the tracer
    /// knows a thread where it is not.
    pub(super) fn thread(&mut self) -> Made {
        let slot = self.slot(Slot::Thread);
        if self.mode == Mode::Kernel {
            // The kernel was asked at the start.
            return Ok(());
        }
        self.uses(&[rax, rcx, rdx, rsi, r11]);
        let (found, known, probe) = (self.label(), self.label(), self.label());
        if self.options.features.fsgsbase {
            let (foreign, have) = (self.label(), self.label());
            let is_foreign = dword_ptr(SHARED + header::FOREIGN_BASES);
            self.asm.cmp(is_foreign, 0)?;
            self.asm.jne(self.to(foreign))?;
            self.may_fault_for(foreign, FaultKind::ThreadPointer);
            self.asm.mov(rsi, qword_ptr(0).fs())?;
            self.place(have)?;
            self.later(move |code| {
                code.place(foreign)?;
                code.asm.rdfsbase(rsi)?;
                code.asm.jmp(code.to(have))?;
                Ok(())
            });
            self.hash()?;
            self.asm
                .cmp(qword_ptr(SHARED + rdx + threads::START), rsi)?;
            self.asm.jne(self.to(probe))?;
            self.place(found)?;
            let thread = qword_ptr(SHARED + rdx + (threads::START + 8));
            self.asm.mov(rax, thread)?;
            self.asm.test(rax, rax)?;
            let ask = self.label();
            self.asm.je(self.to(ask))?;
            self.place(known)?;
            self.asm.mov(slot, rax)?;
            self.later(move |code| {
                let again = code.label();
                code.place(probe)?;
                code.asm.mov(ecx, (threads::PROBES - 1) as u32)?;
                code.place(again)?;
                code.asm.add(edx, threads::SLOT as i32)?;
                code.asm
                    .cmp(qword_ptr(SHARED + rdx + threads::START), rsi)?;
                code.asm.je(code.to(found))?;
                code.asm.dec(ecx)?;
                code.asm.jne(code.to(again))?;
                code.place(ask)?;
                code.ask_for_thread()?;
                code.enter_thread()?;
                code.asm.jmp(code.to(known))?;
                Ok(())
            });
        } else {
            self.ask_for_thread()?;
            self.asm.mov(slot, rax)?;
        }
        Ok(())
    }

    /// Puts the start of the search for the base in `rsi` into `rdx`, as an offset from the table's start.
    fn hash(&mut self) -> Made {
        self.number(Gpr(3), threads::FACTOR)?;
        self.asm.imul_2(rdx, rsi)?;
        self.asm.shr(rdx, (64 - threads::BITS) as i32)?;
        // Slots have 16 bytes.
        self.asm.shl(edx, 4)?;
        Ok(())
    }

    /// Puts the thread into `rax`. Where the program may not make our system calls, that is the only thread, or 0. Changes `rcx`
    /// and `r11`.
    pub(super) fn ask_for_thread(&mut self) -> Made {
        let quiet = self.label();
        self.uses(&[rax, rcx, r11]);
        self.asm.mov(rax, qword_ptr(SHARED + header::SOLE_THREAD))?;
        self.asm.cmp(dword_ptr(SHARED + header::ORPHAN), 0)?;
        self.asm.je(self.to(quiet))?;
        self.asm.mov(eax, GETTID)?;
        self.asm.syscall()?;
        self.place(quiet)
    }

    /// Enters the thread in `rax`, with the base in `rsi`, in the table, if there is space.
    fn enter_thread(&mut self) -> Made {
        let (again, settle, next, done) = (self.label(), self.label(), self.label(), self.label());
        self.asm.test(rax, rax)?;
        self.asm.je(self.to(done))?;
        // A base of 0 identifies no thread.
        self.asm.test(rsi, rsi)?;
        self.asm.je(self.to(done))?;
        self.asm.mov(r11, rax)?;
        self.hash()?;
        self.asm.mov(ecx, threads::PROBES as u32)?;
        self.place(again)?;
        let base = qword_ptr(SHARED + rdx + threads::START);
        self.asm.cmp(base, rsi)?;
        self.asm.je(self.to(settle))?;
        self.asm.xor(eax, eax)?;
        self.asm.cmp(base, 0)?;
        self.asm.jne(self.to(next))?;
        self.asm.lock().cmpxchg(base, rsi)?;
        self.asm.je(self.to(settle))?;
        self.place(next)?;
        self.asm.add(edx, threads::SLOT as i32)?;
        self.asm.dec(ecx)?;
        self.asm.jne(self.to(again))?;
        self.asm.mov(rax, r11)?;
        self.asm.jmp(self.to(done))?;
        self.place(settle)?;
        self.asm
            .mov(qword_ptr(SHARED + rdx + (threads::START + 8)), r11)?;
        self.asm.mov(rax, r11)?;
        self.place(done)
    }
}

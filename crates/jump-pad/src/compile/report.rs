//! A pad that reports to the tracer: it sends its own thread a signal, for which the thread stops as long as it is traced.
//!
//! Unlike a breakpoint it is harmless when the tracer is dead. `SIGURG` is ignored where the program has no handler for it, and
//! the pad sends nothing once the tracer's futex is marked.

use iced_x86::code_asm::*;
use tracewire_model::Address;

use super::code::RED_ZONE;
use super::hit::{ALIGNMENT_CHECK, compare_owner};
use crate::pad::CannotCompile;

/// The signal that [`report`] sends.
pub const REPORT_SIGNAL: i32 = 23;

/// The numbers of the system calls, on x86-64 Linux.
mod call {
    pub(super) const RT_SIGPROCMASK: u32 = 14;
    pub(super) const GETPID: u32 = 39;
    pub(super) const GETTID: u32 = 186;
    pub(super) const TGKILL: u32 = 234;
}

/// Makes the code of such a pad, which is position-independent. `owner` is the program's address of the tracer's robust futex
/// ([`SharedLayout::owner`](crate::SharedLayout::owner)).
///
/// # Errors
/// When it cannot be encoded.
pub fn report(owner: Address) -> Result<Vec<u8>, CannotCompile> {
    const UNBLOCK: u32 = 1;
    const SET: u32 = 2;
    const SET_SIZE: u32 = 8;
    const SET_OF_SIGNAL: i32 = 1 << (REPORT_SIGNAL - 1);
    let saved = [rax, rcx, rdx, rsi, rdi, r8, r9, r10, r11];
    let mut asm = CodeAssembler::new(64)?;
    let mut gone = asm.create_label();
    asm.lea(rsp, ptr(rsp - RED_ZONE))?;
    asm.pushfq()?;
    for register in saved {
        asm.push(register)?;
    }
    asm.pushfq()?;
    asm.and(dword_ptr(rsp), !ALIGNMENT_CHECK)?;
    asm.popfq()?;
    asm.mov(rax, owner.0)?;
    asm.mov(eax, dword_ptr(rax))?;
    compare_owner(&mut asm)?;
    asm.jae(gone)?;
    // The thread may block the signal: not for that long.
    asm.push(SET_OF_SIGNAL)?;
    asm.push(0)?;
    asm.mov(eax, call::RT_SIGPROCMASK)?;
    asm.mov(edi, UNBLOCK)?;
    asm.lea(rsi, ptr(rsp + 8))?;
    asm.mov(rdx, rsp)?;
    asm.mov(r10d, SET_SIZE)?;
    asm.syscall()?;
    asm.mov(eax, call::GETPID)?;
    asm.syscall()?;
    asm.mov(r8, rax)?;
    asm.mov(eax, call::GETTID)?;
    asm.syscall()?;
    asm.mov(rdi, r8)?;
    asm.mov(rsi, rax)?;
    asm.mov(edx, REPORT_SIGNAL)?;
    asm.mov(eax, call::TGKILL)?;
    asm.syscall()?;
    asm.mov(eax, call::RT_SIGPROCMASK)?;
    asm.mov(edi, SET)?;
    asm.mov(rsi, rsp)?;
    asm.xor(edx, edx)?;
    asm.mov(r10d, SET_SIZE)?;
    asm.syscall()?;
    asm.add(rsp, 16)?;
    asm.set_label(&mut gone)?;
    for register in saved.into_iter().rev() {
        asm.pop(register)?;
    }
    asm.popfq()?;
    asm.lea(rsp, ptr(rsp + RED_ZONE))?;
    Ok(asm.assemble(0)?)
}

//! The code that makes a call event.
//!
//! It uses three registers and the flags. Only the number of the site differs between sites, so it is assembled once.

use std::rc::Rc;

use iced_x86::BlockEncoderOptions;
use iced_x86::code_asm::*;
use tracewire_experiment::{Fault, FaultKind, PadCode};
use tracewire_model::Address;

use super::SiteNumber;
use super::layout::{EVENT, SITE_BITS, STACK_BITS, header, ring, threads};
use crate::compile::RED_ZONE;
use crate::pad::CannotCompile;

/// The bytes below the red zone: three registers, the flags and the time.
const ROOM: u32 = 48;
/// Where the time is among them.
const TIME: u32 = 32;
/// How far the stack pointer is moved.
const DOWN: u32 = RED_ZONE + ROOM;
/// A placeholder for a site's number in the code: it makes the assembler use an immediate of 32 bits.
const PLACEHOLDER: i32 = 0x7fff_ffff;

/// Makes the pads of sites.
#[derive(Clone, Debug)]
pub struct CallPad {
    code: Rc<PadCode>,
    /// The offset of the four bytes with the site's number.
    site: usize,
}

impl CallPad {
    /// The pads that write to memory which the program has at this address.
    ///
    /// # Errors
    /// When the code cannot be encoded.
    pub fn new(memory: Address) -> Result<Self, CannotCompile> {
        let mut asm = CodeAssembler::new(64)?;
        let [
            mut found,
            mut again,
            mut finish,
            mut probe,
            mut next,
            mut full,
        ] = std::array::from_fn(|_| asm.create_label());
        let [
            mut foreign,
            mut have_base,
            mut has_ring,
            mut stamped,
            mut no_clock,
            mut no_stack,
            mut end,
        ] = std::array::from_fn(|_| asm.create_label());
        asm.lea(rsp, ptr(rsp - DOWN))?;
        // The lowest address comes first: if it is writable, the rest is.
        let touched = asm.instructions().len();
        asm.mov(qword_ptr(rsp), rax)?;
        asm.mov(qword_ptr(rsp + 8), rcx)?;
        asm.mov(qword_ptr(rsp + 16), rdx)?;
        asm.lahf()?;
        asm.seto(al)?;
        asm.mov(qword_ptr(rsp + 24), rax)?;
        // The ring of the thread with this base, which is the first word of its memory.
        asm.mov(rax, memory.0)?;
        asm.cmp(dword_ptr(rax + header::FOREIGN_BASES as i32), 0)?;
        asm.jne(foreign)?;
        let based = asm.instructions().len();
        asm.mov(rcx, qword_ptr(0).fs())?;
        asm.set_label(&mut have_base)?;
        asm.mov(rdx, threads::FACTOR)?;
        asm.imul_2(rdx, rcx)?;
        asm.shr(rdx, (64 - threads::BITS) as i32)?;
        asm.shl(edx, threads::SLOT.ilog2() as i32)?;
        asm.lea(rdx, ptr(rdx + rax + threads::START as i32))?;
        asm.cmp(qword_ptr(rdx), rcx)?;
        asm.jne(probe)?;
        asm.set_label(&mut found)?;
        asm.mov(rcx, qword_ptr(rdx + 8))?;
        asm.set_label(&mut has_ring)?;
        // The time comes first: after the exchange, `rdtsc` would wait for it.
        let timed = asm.instructions().len();
        asm.rdtsc()?;
        asm.set_label(&mut stamped)?;
        asm.shl(rdx, 32)?;
        asm.or(rdx, rax)?;
        asm.mov(qword_ptr(rsp + TIME), rdx)?;
        // One instruction takes the space: only the thread itself can interrupt.
        asm.mov(rax, qword_ptr(rcx + ring::HEAD as i32))?;
        asm.set_label(&mut again)?;
        asm.cmp(rax, qword_ptr(rcx + ring::LIMIT as i32))?;
        asm.jae(full)?;
        asm.lea(rdx, ptr(rax + EVENT as i32))?;
        asm.cmpxchg(qword_ptr(rcx + ring::HEAD as i32), rdx)?;
        asm.jne(again)?;
        asm.and(eax, (ring::BYTES - 1) as i32)?;
        asm.lea(rcx, ptr(rcx + rax + ring::DATA as i32))?;
        asm.mov(rax, qword_ptr(rsp + TIME))?;
        asm.mov(qword_ptr(rcx), rax)?;
        asm.lea(rax, ptr(rsp + DOWN))?;
        asm.shr(rax, STACK_BITS as i32)?;
        asm.shl(rax, SITE_BITS as i32)?;
        asm.or(rax, PLACEHOLDER)?;
        let numbered = asm.instructions().len();
        // The second word finishes the event.
        asm.mov(qword_ptr(rcx + 8), rax)?;
        asm.set_label(&mut finish)?;
        asm.mov(rax, qword_ptr(rsp + 24))?;
        // Overflows when `seto` has seen an overflow.
        asm.add(al, 0x7f)?;
        asm.sahf()?;
        asm.mov(rax, qword_ptr(rsp))?;
        asm.mov(rcx, qword_ptr(rsp + 8))?;
        asm.mov(rdx, qword_ptr(rsp + 16))?;
        asm.set_label(&mut no_stack)?;
        asm.lea(rsp, ptr(rsp + DOWN))?;
        asm.jmp(end)?;

        asm.set_label(&mut probe)?;
        asm.mov(eax, (threads::PROBES - 1) as u32)?;
        asm.set_label(&mut next)?;
        asm.add(rdx, threads::SLOT as i32)?;
        asm.cmp(qword_ptr(rdx), rcx)?;
        asm.je(found)?;
        asm.dec(eax)?;
        asm.jne(next)?;
        asm.mov(rdx, memory.0)?;
        asm.mov(rcx, qword_ptr(rdx + header::SOLE as i32))?;
        asm.test(rcx, rcx)?;
        asm.jne(has_ring)?;
        asm.lock().inc(qword_ptr(rdx + header::STRANGERS as i32))?;
        asm.jmp(finish)?;

        asm.set_label(&mut foreign)?;
        asm.rdfsbase(rcx)?;
        asm.jmp(have_base)?;

        // A program may have forbidden itself the clock.
        asm.set_label(&mut no_clock)?;
        asm.mov(eax, 0)?;
        asm.mov(edx, 0)?;
        asm.jmp(stamped)?;

        asm.set_label(&mut full)?;
        asm.inc(qword_ptr(rcx + ring::LOST as i32))?;
        asm.jmp(finish)?;
        asm.set_label(&mut end)?;
        asm.zero_bytes()?;

        let options = BlockEncoderOptions::RETURN_NEW_INSTRUCTION_OFFSETS;
        let assembled = asm.assemble_options(0, options)?;
        let offsets = &assembled.inner.new_instruction_offsets;
        let missing = || CannotCompile::Encoding("an instruction has no offset".to_owned());
        let after = *offsets.get(numbered).ok_or_else(missing)? as usize;
        let fault = |instruction: usize, label, kind| {
            Ok::<_, CannotCompile>(Fault {
                at: *offsets.get(instruction).ok_or_else(missing)?,
                resume: u32::try_from(assembled.label_ip(label)?).map_err(|_| missing())?,
                kind,
            })
        };
        let faults = vec![
            fault(touched, &no_stack, FaultKind::Stack)?,
            fault(based, &foreign, FaultKind::ThreadPointer)?,
            fault(timed, &no_clock, FaultKind::Memory)?,
        ];
        let code = assembled.inner.code_buffer;
        let site = after.checked_sub(4).ok_or_else(missing)?;
        if code.get(site..after) != Some(&PLACEHOLDER.to_le_bytes()) {
            return Err(missing());
        }
        let code = Rc::new(PadCode { code, faults });
        Ok(Self { code, site })
    }

    /// The pad of all sites, with a placeholder for the number.
    #[must_use]
    pub fn code(&self) -> Rc<PadCode> {
        Rc::clone(&self.code)
    }

    /// The bytes of a site's number, and their offset in the code.
    #[must_use]
    pub const fn number(&self, site: SiteNumber) -> (usize, [u8; 4]) {
        (self.site, (site.index() as u32).to_le_bytes())
    }
}

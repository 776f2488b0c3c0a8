//! The program's registers: as values, and as the register block of a frame.

use iced_x86::code_asm::*;
use tracewire_arch::is_x87;
use tracewire_model::RegisterNumber;

use super::code::{Code, Gpr, Label, Made, OUT, RED_ZONE, Slot};
use crate::pad::{CannotCompile, Features};
use tracewire_experiment::FaultKind;

/// Where a register's value is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Source {
    General(Gpr),
    /// The tracepoint's address.
    Rip,
    Flags,
    Segment(AsmRegisterSegment),
    /// Not in a system call.
    OrigRax,
    FsBase,
    GsBase,
    Mxcsr,
    Mask(u8),
    Xmm(u8),
    YmmHigh(u8),
    ZmmHigh(u8),
    /// The x87 unit's, which are written together.
    X87,
}

/// GDB's number of the first register of the x87 unit; the block has 8 of 10 bytes and 8 of 4 bytes.
const X87_BYTES: usize = 8 * 10 + 8 * 4;

/// The space for `fxsave`, and for its alignment.
const FXSAVE: u32 = 512 + 16;

pub(super) fn source(name: &str) -> Option<Source> {
    const GENERAL: [&str; 16] = [
        "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "rsp", "r8", "r9", "r10", "r11", "r12",
        "r13", "r14", "r15",
    ];
    if let Some(number) = GENERAL.iter().position(|general| *general == name) {
        return Some(Source::General(Gpr(number as u8)));
    }
    let fixed = match name {
        "rip" => Source::Rip,
        "eflags" => Source::Flags,
        "cs" => Source::Segment(cs),
        "ss" => Source::Segment(ss),
        "ds" => Source::Segment(ds),
        "es" => Source::Segment(es),
        "fs" => Source::Segment(fs),
        "gs" => Source::Segment(gs),
        "orig_rax" => Source::OrigRax,
        "fs_base" => Source::FsBase,
        "gs_base" => Source::GsBase,
        "mxcsr" => Source::Mxcsr,
        name if is_x87(name) => Source::X87,
        _ => {
            let number = |prefix: &str, suffix: &str| {
                name.strip_prefix(prefix)?
                    .strip_suffix(suffix)?
                    .parse()
                    .ok()
            };
            return number("xmm", "")
                .map(Source::Xmm)
                .or_else(|| number("ymm", "h").map(Source::YmmHigh))
                .or_else(|| number("zmm", "h").map(Source::ZmmHigh))
                .or_else(|| number("k", "").map(Source::Mask));
        }
    };
    Some(fixed)
}

/// The value of a register number in an expression.
pub(super) enum Value {
    General(Gpr),
    Other(Source),
    /// The machine has no such register, or it is wider than 64 bits and no vector register.
    None,
}

pub(super) fn value(register: u16, features: Features) -> Value {
    let layout = features.registers().layout_64();
    let found = layout.by_number(RegisterNumber(register));
    let Some(register) = found.filter(|register| register.bits <= 64 || register.is_vector())
    else {
        return Value::None;
    };
    match source(&register.name) {
        Some(Source::General(general)) => Value::General(general),
        Some(source) => Value::Other(source),
        None => Value::None,
    }
}

fn xmm(number: u8) -> AsmRegisterXmm {
    const ALL: [AsmRegisterXmm; 32] = [
        xmm0, xmm1, xmm2, xmm3, xmm4, xmm5, xmm6, xmm7, xmm8, xmm9, xmm10, xmm11, xmm12, xmm13,
        xmm14, xmm15, xmm16, xmm17, xmm18, xmm19, xmm20, xmm21, xmm22, xmm23, xmm24, xmm25, xmm26,
        xmm27, xmm28, xmm29, xmm30, xmm31,
    ];
    ALL.get(usize::from(number)).copied().unwrap_or(xmm0)
}

fn ymm(number: u8) -> AsmRegisterYmm {
    const ALL: [AsmRegisterYmm; 16] = [
        ymm0, ymm1, ymm2, ymm3, ymm4, ymm5, ymm6, ymm7, ymm8, ymm9, ymm10, ymm11, ymm12, ymm13,
        ymm14, ymm15,
    ];
    ALL.get(usize::from(number)).copied().unwrap_or(ymm0)
}

fn zmm(number: u8) -> AsmRegisterZmm {
    const ALL: [AsmRegisterZmm; 32] = [
        zmm0, zmm1, zmm2, zmm3, zmm4, zmm5, zmm6, zmm7, zmm8, zmm9, zmm10, zmm11, zmm12, zmm13,
        zmm14, zmm15, zmm16, zmm17, zmm18, zmm19, zmm20, zmm21, zmm22, zmm23, zmm24, zmm25, zmm26,
        zmm27, zmm28, zmm29, zmm30, zmm31,
    ];
    ALL.get(usize::from(number)).copied().unwrap_or(zmm0)
}

fn mask(number: u8) -> AsmRegisterK {
    const ALL: [AsmRegisterK; 8] = [k0, k1, k2, k3, k4, k5, k6, k7];
    ALL.get(usize::from(number)).copied().unwrap_or(k0)
}

impl Code<'_> {
    /// Puts the program's value of a general register into another.
    pub(super) fn program_register(&mut self, from: Gpr, into: AsmRegister64) -> Made {
        if from == Gpr::RSP {
            let above = self.room() + RED_ZONE;
            self.asm.lea(into, rsp + above)?;
        } else if from.is_clobbered() {
            let slot = self.slot(Slot::Saved(from));
            self.asm.mov(into, slot)?;
        } else {
            self.asm.mov(into, from.wide())?;
        }
        Ok(())
    }

    /// Puts the value of a register into `into`, as an expression gets it. `register` is its number for an error.
    pub(super) fn other_register(&mut self, source: Source, register: u16, into: Gpr) -> Made {
        let cannot = Err(CannotCompile::Register(RegisterNumber(register)));
        let features = self.options.features;
        match source {
            Source::General(general) => self.program_register(general, into.wide())?,
            Source::Rip => self.number(into, self.site)?,
            Source::Flags => {
                let flags = self.slot(Slot::WholeFlags);
                self.asm.mov(into.wide(), flags)?;
            }
            Source::Segment(segment) => self.asm.mov(into.half(), segment)?,
            Source::OrigRax => self.number(into, u64::MAX)?,
            Source::FsBase if features.fsgsbase => self.asm.rdfsbase(into.wide())?,
            Source::GsBase if features.fsgsbase => self.asm.rdgsbase(into.wide())?,
            Source::Mxcsr => {
                let slot = self.slot(Slot::Scratch(0));
                self.asm.stmxcsr(dword_ptr(slot))?;
                self.asm.mov(into.half(), dword_ptr(slot))?;
            }
            Source::Mask(number) if features.avx512 => {
                self.asm.kmovq(into.wide(), mask(number))?;
            }
            Source::Mask(_) => self.number(into, 0)?,
            // Its lowest 64 bits.
            Source::Xmm(number) if number < 16 => self.asm.movq(into.wide(), xmm(number))?,
            Source::Xmm(number) if features.avx512 => {
                // VEX has no encoding for those from 16 on.
                self.asm.set_prefer_vex(false);
                self.asm.vmovq(into.wide(), xmm(number))?;
                self.asm.set_prefer_vex(true);
            }
            _ => return cannot,
        }
        Ok(())
    }

    /// Writes consecutive registers of the register block, from `OUT + start` on.
    pub(super) fn registers(
        &mut self,
        start: u32,
        is_kept: impl Fn(RegisterNumber) -> bool,
        give_up: Label,
    ) -> Made {
        self.some_registers(start, is_kept, |_| false, give_up)
    }

    /// Writes the whole register block, with zeros instead of some registers.
    pub(super) fn registers_but(
        &mut self,
        start: u32,
        is_withheld: impl Fn(RegisterNumber) -> bool,
        give_up: Label,
    ) -> Made {
        self.some_registers(start, |_| true, is_withheld, give_up)
    }

    fn some_registers(
        &mut self,
        start: u32,
        is_kept: impl Fn(RegisterNumber) -> bool,
        is_withheld: impl Fn(RegisterNumber) -> bool,
        give_up: Label,
    ) -> Made {
        let layout = self.options.registers.layout_64();
        self.uses(&[rax, rcx, rdx]);
        let mut next = start;
        let kept = layout.registers().iter();
        for register in kept.filter(|register| is_kept(register.number)) {
            let offset = next;
            next += register.size();
            let at = OUT + offset;
            if is_withheld(register.number) {
                self.zeros(offset, register.size())?;
                continue;
            }
            let source = source(&register.name);
            match source {
                None => return Err(CannotCompile::Register(register.number)),
                Some(Source::General(general))
                    if !general.is_clobbered() && general != Gpr::RSP =>
                {
                    self.asm.mov(qword_ptr(at), general.wide())?;
                }
                Some(Source::OrigRax) => self.asm.mov(qword_ptr(at), -1)?,
                Some(Source::Mxcsr) => self.asm.stmxcsr(dword_ptr(at))?,
                Some(Source::X87) => {
                    if register.name == "st0" {
                        self.x87_block(offset, give_up)?;
                    }
                }
                Some(Source::Xmm(number)) if number < 16 => {
                    self.asm.movups(xmmword_ptr(at), xmm(number))?;
                }
                Some(vector @ (Source::Xmm(_) | Source::YmmHigh(_) | Source::ZmmHigh(_))) => {
                    self.vector_part(vector, at, register.size())?;
                }
                Some(source) => {
                    self.other_register(source, register.number.0, Gpr(0))?;
                    if register.size() == 4 {
                        self.asm.mov(dword_ptr(at), eax)?;
                    } else {
                        self.asm.mov(qword_ptr(at), rax)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Writes zeros at `OUT + start`.
    fn zeros(&mut self, start: u32, size: u32) -> Made {
        let mut at = start;
        let end = start + size;
        while at < end {
            match end - at {
                8.. => self.asm.mov(qword_ptr(OUT + at), 0)?,
                4.. => self.asm.mov(dword_ptr(OUT + at), 0)?,
                2.. => self.asm.mov(word_ptr(OUT + at), 0)?,
                _ => self.asm.mov(byte_ptr(OUT + at), 0)?,
            }
            at += match end - at {
                8.. => 8,
                4.. => 4,
                2.. => 2,
                _ => 1,
            };
        }
        Ok(())
    }

    fn vector_part(&mut self, part: Source, at: AsmMemoryOperand, size: u32) -> Made {
        let features = self.options.features;
        match part {
            Source::Xmm(number) if features.avx512 => {
                self.asm.vmovdqu64(xmmword_ptr(at), xmm(number))?;
            }
            Source::YmmHigh(number) if number < 16 && features.avx => {
                self.asm.vextractf128(xmmword_ptr(at), ymm(number), 1)?;
            }
            Source::YmmHigh(number) if features.avx512 => {
                self.asm.vextractf32x4(xmmword_ptr(at), zmm(number), 1)?;
            }
            Source::ZmmHigh(number) if features.avx512 => {
                self.asm.vextractf64x4(ymmword_ptr(at), zmm(number), 1)?;
            }
            _ => {
                // The machine has no such register.
                for offset in (0..size).step_by(8) {
                    self.asm.mov(qword_ptr(at + offset), 0)?;
                }
            }
        }
        Ok(())
    }

    /// Writes the registers of the x87 unit, from `st0` to `fop`.
    fn x87_block(&mut self, start: u32, give_up: Label) -> Made {
        let in_use = self.label();
        let done = self.label();
        self.uses(&[rax, rcx, rdx, rsi, r11]);
        if self.options.features.xgetbv1 {
            // Whether the unit is in its initial state, as in most programs.
            self.asm.mov(ecx, 1)?;
            self.asm.xgetbv()?;
            self.asm.test(al, 1)?;
            self.asm.jne(self.to(in_use))?;
            let mut first = [0; X87_BYTES];
            first[80..82].copy_from_slice(&0x37f_u16.to_le_bytes());
            first[88..90].copy_from_slice(&u16::MAX.to_le_bytes());
            for (index, word) in first.chunks(8).enumerate() {
                let number = word
                    .iter()
                    .rev()
                    .fold(0_u64, |all, byte| all << 8 | u64::from(*byte));
                let at = qword_ptr(OUT + (start + 8 * index as u32));
                // Both numbers fit into 32 bits.
                self.asm.mov(at, number as i32)?;
            }
        } else {
            self.asm.jmp(self.to(in_use))?;
        }
        self.place(done)?;
        self.later(move |code| code.x87_in_use(start, in_use, done, give_up));
        Ok(())
    }

    /// As `x87_block`, from the image of `fxsave`.
    fn x87_in_use(&mut self, start: u32, entry: Label, done: Label, give_up: Label) -> Made {
        let no_room = self.label();
        self.place(entry)?;
        self.asm.mov(rsi, rsp)?;
        self.asm.sub(rsp, FXSAVE as i32)?;
        self.asm.and(rsp, -16)?;
        self.may_fault_for(no_room, FaultKind::Stack);
        self.asm.fxsave64(ptr(rsp))?;
        for register in 0..8_u32 {
            let at = start + 10 * register;
            self.asm.mov(rax, qword_ptr(rsp + (32 + 16 * register)))?;
            self.asm.mov(qword_ptr(OUT + at), rax)?;
            self.asm.mov(ax, word_ptr(rsp + (40 + 16 * register)))?;
            self.asm.mov(word_ptr(OUT + (at + 8)), ax)?;
        }
        // fctrl, fstat, then ftag, then fiseg, fioff, foseg, fooff, fop.
        for (place, offset, bits) in [
            (0_u32, 0_u32, 0xffff),
            (1, 2, 0xffff),
            (3, 12, 0xffff),
            (5, 20, 0xffff),
            (7, 6, 0x7ff),
        ] {
            self.asm.movzx(eax, word_ptr(rsp + offset))?;
            self.asm.and(eax, bits)?;
            self.asm
                .mov(dword_ptr(OUT + (start + 80 + 4 * place)), eax)?;
        }
        for (place, offset) in [(4_u32, 8_u32), (6, 16)] {
            self.asm.mov(eax, dword_ptr(rsp + offset))?;
            self.asm
                .mov(dword_ptr(OUT + (start + 80 + 4 * place)), eax)?;
        }
        self.x87_tags(start + 88)?;
        self.asm.mov(rsp, rsi)?;
        self.asm.jmp(self.to(done))?;
        self.place(no_room)?;
        self.asm.mov(rsp, rsi)?;
        self.asm.jmp(self.to(give_up))?;
        Ok(())
    }

    /// Writes the tag word with two bits a register, where `fxsave` has one: 0 valid, 1 zero, 2 special, 3 empty.
    fn x87_tags(&mut self, at: u32) -> Made {
        let (next, empty, special, zero, put) = (
            self.label(),
            self.label(),
            self.label(),
            self.label(),
            self.label(),
        );
        // ecx counts registers down from 7, esi is kept by the caller, edx collects.
        self.asm.xor(edx, edx)?;
        self.asm.mov(ecx, 7)?;
        self.place(next)?;
        self.asm.movzx(eax, byte_ptr(rsp + 4))?;
        self.asm.bt(eax, ecx)?;
        self.asm.jae(self.to(empty))?;
        // The values are ordered by their distance from the top of the stack.
        self.asm.movzx(eax, word_ptr(rsp + 2))?;
        self.asm.shr(eax, 11)?;
        self.asm.neg(eax)?;
        self.asm.add(eax, ecx)?;
        self.asm.and(eax, 7)?;
        self.asm.shl(eax, 4)?;
        // The exponent, then the fraction.
        self.asm.movzx(r11d, word_ptr(rsp + rax + 40))?;
        self.asm.and(r11d, 0x7fff)?;
        self.asm.mov(rax, qword_ptr(rsp + rax + 32))?;
        self.asm.cmp(r11d, 0x7fff)?;
        self.asm.je(self.to(special))?;
        self.asm.test(r11d, r11d)?;
        self.asm.je(self.to(zero))?;
        self.asm.test(rax, rax)?;
        self.asm.jns(self.to(special))?;
        self.asm.xor(eax, eax)?;
        self.asm.jmp(self.to(put))?;
        self.place(zero)?;
        self.asm.test(rax, rax)?;
        self.asm.jne(self.to(special))?;
        self.asm.mov(eax, 1)?;
        self.asm.jmp(self.to(put))?;
        self.place(special)?;
        self.asm.mov(eax, 2)?;
        self.asm.jmp(self.to(put))?;
        self.place(empty)?;
        self.asm.mov(eax, 3)?;
        self.place(put)?;
        self.asm.lea(edx, dword_ptr(rax + rdx * 4))?;
        self.asm.dec(ecx)?;
        self.asm.jns(self.to(next))?;
        self.asm.mov(dword_ptr(OUT + at), edx)?;
        Ok(())
    }
}

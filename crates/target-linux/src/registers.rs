//! A thread's registers as a register block.

use libc::user_regs_struct;
use tracewire_arch::{RegisterLayout, X86Registers};
use tracewire_model::RegisterNumber;

use crate::abi::Abi;
use crate::xstate::{Component, XstateLayout};

/// Where the kernel keeps the value of one register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Source {
    /// One of the general registers.
    General(General),
    /// Bytes of the extended state, which are zero while the component has its initial values.
    Extended(Component, usize),
    /// A 16-bit word of the x87 unit at this offset of the extended state, and the mask of its valid bits.
    Word(usize, u16),
    /// The x87 tag word, which the state holds in a short form.
    TagWord,
    /// The machine has no such register.
    Absent,
}

macro_rules! general_registers {
    ($($variant:ident $name:literal $field:ident;)*) => {
        /// A register that `PTRACE_GETREGS` reads.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        enum General { $($variant,)* }

        impl General {
            fn named(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$variant),)*
                    _ => None,
                }
            }

            fn value(self, registers: &user_regs_struct) -> u64 {
                match self { $(Self::$variant => registers.$field,)* }
            }

            fn set(self, registers: &mut user_regs_struct, value: u64) {
                match self { $(Self::$variant => registers.$field = value,)* }
            }
        }
    };
}

general_registers! {
    Rax "rax" rax; Rbx "rbx" rbx; Rcx "rcx" rcx; Rdx "rdx" rdx; Rsi "rsi" rsi; Rdi "rdi" rdi;
    Rbp "rbp" rbp; Rsp "rsp" rsp; R8 "r8" r8; R9 "r9" r9; R10 "r10" r10; R11 "r11" r11;
    R12 "r12" r12; R13 "r13" r13; R14 "r14" r14; R15 "r15" r15; Rip "rip" rip;
    Eflags "eflags" eflags; Cs "cs" cs; Ss "ss" ss; Ds "ds" ds; Es "es" es; Fs "fs" fs; Gs "gs" gs;
    OrigRax "orig_rax" orig_rax; FsBase "fs_base" fs_base; GsBase "gs_base" gs_base;
}

impl General {
    /// By the name of its lower half: `eax` is in `rax`.
    fn narrow(name: &str) -> Option<Self> {
        if name == "orig_eax" {
            return Some(Self::OrigRax);
        }
        let rest = name.strip_prefix('e').filter(|rest| rest.len() == 2)?;
        Self::named(&format!("r{rest}"))
    }
}

/// The plan by which the registers of one set are read.
#[derive(Clone, Debug)]
pub(crate) struct RegisterPlan {
    steps: Vec<Step>,
    size: usize,
    /// Whether all registers of the set are in `user_regs_struct`.
    is_general: bool,
    xstate: &'static XstateLayout,
}

#[derive(Clone, Copy, Debug)]
struct Step {
    number: RegisterNumber,
    offset: usize,
    size: usize,
    source: Source,
    /// Whether it is a vector register ([`tracewire_arch::Register::is_vector`]).
    is_vector: bool,
}

impl RegisterPlan {
    pub(crate) fn new(abi: Abi, set: X86Registers) -> Self {
        Self::with_layout(abi.layout(set), XstateLayout::of_this_machine())
    }

    fn with_layout(layout: &RegisterLayout, xstate: &'static XstateLayout) -> Self {
        let steps: Vec<Step> = layout
            .registers()
            .iter()
            .map(|register| Step {
                number: register.number,
                offset: register.offset as usize,
                size: register.size() as usize,
                source: source(&register.name),
                is_vector: register.is_vector(),
            })
            .collect();
        Self {
            is_general: (steps.iter()).all(|step| matches!(step.source, Source::General(_))),
            steps,
            size: layout.size() as usize,
            xstate,
        }
    }

    /// Whether all registers of the set are general ones: a block of them needs no extended state.
    pub(crate) const fn is_general(&self) -> bool {
        self.is_general
    }

    /// The value of a register of up to 64 bits, where the general registers hold it.
    pub(crate) fn general(
        &self,
        number: RegisterNumber,
        registers: &user_regs_struct,
    ) -> Option<u64> {
        let step = self.step(number)?;
        match step.source {
            Source::General(general) => {
                let value = general.value(registers);
                Some(if step.size < 8 {
                    value & u64::from(u32::MAX)
                } else {
                    value
                })
            }
            _ => None,
        }
    }

    /// The value of a register of up to 64 bits, where the extended state holds it; the lowest 64 bits of a vector register.
    pub(crate) fn extended(&self, number: RegisterNumber, state: &[u8]) -> Option<u64> {
        let step = self.step(number)?;
        if step.size > 8 && !step.is_vector {
            return None;
        }
        let mut bytes = [0; 16];
        self.fill(step, None, state, bytes.get_mut(..step.size)?);
        bytes.first_chunk().copied().map(u64::from_le_bytes)
    }

    /// The whole block, in the order and sizes of the set.
    pub(crate) fn block(&self, registers: &user_regs_struct, state: &[u8], block: &mut Vec<u8>) {
        block.clear();
        block.resize(self.size, 0);
        for step in &self.steps {
            if let Some(bytes) = block.get_mut(step.offset..step.offset + step.size) {
                self.fill(step, Some(registers), state, bytes);
            }
        }
    }

    /// The offset and size of a register in the block.
    pub(crate) fn place(&self, number: RegisterNumber) -> Option<(usize, usize)> {
        self.step(number).map(|step| (step.offset, step.size))
    }

    /// Writes the difference between two blocks into the registers and the extended state. Returns whether the extended
    /// state has changed.
    pub(crate) fn apply(
        &self,
        before: &[u8],
        after: &[u8],
        registers: &mut user_regs_struct,
        state: &mut [u8],
    ) -> bool {
        let mut extended = false;
        for step in &self.steps {
            let range = step.offset..step.offset + step.size;
            let (Some(old), Some(new)) = (before.get(range.clone()), after.get(range)) else {
                continue;
            };
            if old == new {
                continue;
            }
            let mut number = [0; 8];
            put(&mut number, new);
            let number = u64::from_le_bytes(number);
            match step.source {
                // The kernel reads the result of a system call there, which may be negative.
                Source::General(general @ (General::Rax | General::OrigRax)) if step.size == 4 => {
                    general.set(registers, i64::from(number as i32).cast_unsigned());
                }
                Source::General(general) => general.set(registers, number),
                Source::Extended(component, offset) => {
                    if let Some(bytes) = self.xstate.bytes_mut(state, component, offset, new.len())
                    {
                        bytes.copy_from_slice(new);
                        extended = true;
                    }
                }
                Source::Word(offset, mask) => {
                    let number = number as u16 & mask;
                    if let Some(bytes) = self.xstate.bytes_mut(state, Component::Legacy, offset, 2)
                    {
                        bytes.copy_from_slice(&number.to_le_bytes());
                        extended = true;
                    }
                }
                Source::TagWord => {
                    // The state only has one bit a register: empty or not.
                    let short = (0..8).fold(0_u8, |short, register| {
                        short | u8::from(number >> (2 * register) & 3 != 3) << register
                    });
                    if let Some(bytes) =
                        self.xstate
                            .bytes_mut(state, Component::Legacy, fxsave::FTW, 1)
                    {
                        bytes.fill(short);
                        extended = true;
                    }
                }
                Source::Absent => {}
            }
        }
        extended
    }

    fn step(&self, number: RegisterNumber) -> Option<&Step> {
        // Numbers rise without gaps in all the sets.
        self.steps
            .get(usize::from(number.0))
            .filter(|step| step.number == number)
    }

    fn fill(
        &self,
        step: &Step,
        registers: Option<&user_regs_struct>,
        state: &[u8],
        bytes: &mut [u8],
    ) {
        match step.source {
            Source::General(general) => {
                if let Some(registers) = registers {
                    put(bytes, &general.value(registers).to_le_bytes());
                }
            }
            Source::Extended(component, offset) => {
                if let Some(found) = self.xstate.bytes(state, component, offset, bytes.len()) {
                    bytes.copy_from_slice(found);
                }
            }
            Source::Word(offset, mask) => put(bytes, &(word(state, offset) & mask).to_le_bytes()),
            Source::TagWord => put(bytes, &full_tag_word(state).to_le_bytes()),
            Source::Absent => {}
        }
    }
}

/// Copies as many bytes as fit; the rest of the target keeps its zeros.
fn put(target: &mut [u8], bytes: &[u8]) {
    for (target, byte) in target.iter_mut().zip(bytes) {
        *target = *byte;
    }
}

fn word(state: &[u8], offset: usize) -> u16 {
    state
        .get(offset..offset + 2)
        .and_then(|bytes| bytes.try_into().ok())
        .map_or(0, u16::from_le_bytes)
}

/// The offsets of the FXSAVE area, which starts the extended state (Intel's manual, volume 1, 10.5.1).
mod fxsave {
    pub(super) const FCW: usize = 0;
    pub(super) const FSW: usize = 2;
    pub(super) const FTW: usize = 4;
    pub(super) const FOP: usize = 6;
    pub(super) const FIP: usize = 8;
    pub(super) const FIP_SELECTOR: usize = 12;
    pub(super) const FDP: usize = 16;
    pub(super) const FDP_SELECTOR: usize = 20;
    pub(super) const MXCSR: usize = 24;
    pub(super) const ST: usize = 32;
    pub(super) const XMM: usize = 160;
}

/// Where the register of this name is kept, by GDB's names.
fn source(name: &str) -> Source {
    if let Some(general) = General::named(name).or_else(|| General::narrow(name)) {
        return Source::General(general);
    }
    match name {
        "fctrl" => return Source::Word(fxsave::FCW, u16::MAX),
        "fstat" => return Source::Word(fxsave::FSW, u16::MAX),
        "ftag" => return Source::TagWord,
        "fiseg" => return Source::Word(fxsave::FIP_SELECTOR, u16::MAX),
        "fioff" => return Source::Extended(Component::Legacy, fxsave::FIP),
        "foseg" => return Source::Word(fxsave::FDP_SELECTOR, u16::MAX),
        "fooff" => return Source::Extended(Component::Legacy, fxsave::FDP),
        // Only eleven bits are valid.
        "fop" => return Source::Word(fxsave::FOP, 0x7ff),
        "mxcsr" => return Source::Extended(Component::Legacy, fxsave::MXCSR),
        _ => {}
    }
    let numbered = |prefix: &str, suffix: &str| -> Option<usize> {
        name.strip_prefix(prefix)?
            .strip_suffix(suffix)?
            .parse()
            .ok()
    };
    let extended = |component, offset| Source::Extended(component, offset);
    if let Some(number) = numbered("st", "") {
        extended(Component::Legacy, fxsave::ST + 16 * number)
    } else if let Some(number) = numbered("xmm", "") {
        match number.checked_sub(16) {
            None => extended(Component::Legacy, fxsave::XMM + 16 * number),
            Some(high) => extended(Component::HighZmm, 64 * high),
        }
    } else if let Some(number) = numbered("ymm", "h") {
        match number.checked_sub(16) {
            None => extended(Component::Avx, 16 * number),
            Some(high) => extended(Component::HighZmm, 64 * high + 16),
        }
    } else if let Some(number) = numbered("zmm", "h") {
        match number.checked_sub(16) {
            None => extended(Component::ZmmHalves, 32 * number),
            Some(high) => extended(Component::HighZmm, 64 * high + 32),
        }
    } else if let Some(number) = numbered("k", "") {
        extended(Component::Masks, 8 * number)
    } else {
        Source::Absent
    }
}

/// Expands the tag word, one bit a register in the state, to two bits a register as x87 instructions and GDB
/// have it: 0 valid, 1 zero, 2 special, 3 empty.
fn full_tag_word(state: &[u8]) -> u16 {
    let short = word(state, fxsave::FTW);
    let top = usize::from(word(state, fxsave::FSW) >> 11 & 7);
    (0..8_usize).fold(0, |full, register| {
        let tag = if short & (1 << register) == 0 {
            3
        } else {
            // The state keeps the values by their distance from the top of the stack.
            let start = fxsave::ST + 16 * ((register + 8 - top) % 8);
            state.get(start..start + 10).map_or(3, tag_of)
        };
        full | tag << (2 * register)
    })
}

/// The tag of an 80-bit number.
fn tag_of(value: &[u8]) -> u16 {
    let exponent = word(value, 8) & 0x7fff;
    let fraction_is_zero = value.iter().take(8).all(|byte| *byte == 0);
    let integer_bit = value.get(7).is_some_and(|byte| byte & 0x80 != 0);
    match exponent {
        0x7fff => 2,
        0 => {
            if fraction_is_zero {
                1
            } else {
                2
            }
        }
        _ => {
            if integer_bit {
                0
            } else {
                2
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_register_of_every_set_has_a_source() {
        for set in X86Registers::ALL {
            for layout in [set.layout_64(), set.layout_32()] {
                for register in layout.registers() {
                    assert_ne!(source(&register.name), Source::Absent, "{}", register.name);
                }
            }
        }
    }

    #[test]
    fn the_tag_word_tells_zero_valid_and_empty() {
        let mut state = vec![0; 512];
        // Two values pushed: 1.0, then 0.0, so that the top is register 6.
        state[fxsave::FSW + 1] = 6 << 3;
        state[fxsave::FTW] = 0b1100_0000;
        state[fxsave::ST + 16 + 7] = 0x80;
        state[fxsave::ST + 16 + 8..fxsave::ST + 16 + 10].copy_from_slice(&[0xff, 0x3f]);
        assert_eq!(full_tag_word(&state), 0b0001_1111_1111_1111);
    }
}

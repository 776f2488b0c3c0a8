//! The registers that `$name` may name.

use tracewire_arch::{Architecture, Register};
use tracewire_model::RegisterNumber;

use crate::machine_registers;

/// A register, or a part of one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NamedRegister {
    pub(crate) number: RegisterNumber,
    /// Where the part starts, in bytes from the register's first.
    pub(crate) offset: u64,
    pub(crate) size: u64,
    pub(crate) kind: RegisterKind,
}

/// What a register holds, which settles how GDB shows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RegisterKind {
    Integer,
    CodePointer,
    DataPointer,
    Flags,
    Float,
    X87,
    Vector,
}

/// Numbers as in GDB's `i386/64bit-core.xml`, `64bit-sse.xml`, `64bit-linux.xml`, `64bit-segments.xml`, in this
/// order, which is also gdbserver's.
const X86_64: &[&str] = &[
    "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "rsp", "r8", "r9", "r10", "r11", "r12", "r13",
    "r14", "r15", "rip", "eflags", "cs", "ss", "ds", "es", "fs", "gs", "st0", "st1", "st2", "st3",
    "st4", "st5", "st6", "st7", "fctrl", "fstat", "ftag", "fiseg", "fioff", "foseg", "fooff",
    "fop", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",
    "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "mxcsr", "orig_rax", "fs_base", "gs_base",
];
/// As in GDB's `i386/32bit-core.xml`, `32bit-sse.xml`, `32bit-linux.xml`.
const I386: &[&str] = &[
    "eax", "ecx", "edx", "ebx", "esp", "ebp", "esi", "edi", "eip", "eflags", "cs", "ss", "ds",
    "es", "fs", "gs", "st0", "st1", "st2", "st3", "st4", "st5", "st6", "st7", "fctrl", "fstat",
    "ftag", "fiseg", "fioff", "foseg", "fooff", "fop", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4",
    "xmm5", "xmm6", "xmm7", "mxcsr", "orig_eax",
];

fn table(architecture: Architecture) -> &'static [&'static str] {
    match architecture {
        Architecture::X86_64 => X86_64,
        Architecture::I386 => I386,
        _ => &[],
    }
}

/// The register called `name`, or the part of one, in GDB's names: `rax`, `eax`, `ax`, `ah`, `pc`, `sp`, `fp`; or one of
/// another machine by its name in the target description or in the assembler.
pub(crate) fn named_register(architecture: Architecture, name: &str) -> Option<NamedRegister> {
    if let Some(layout) = machine_registers::layout(architecture) {
        let register = match layout.by_name(name) {
            Some(register) => register,
            None => layout.by_name(&machine_registers::alias(architecture, name)?)?,
        };
        return described(register);
    }
    let names = table(architecture);
    let name = match (name, architecture) {
        ("pc", Architecture::X86_64) => "rip",
        ("sp", Architecture::X86_64) => "rsp",
        ("fp", Architecture::X86_64) => "rbp",
        ("pc", Architecture::I386) => "eip",
        ("sp", Architecture::I386) => "esp",
        ("fp", Architecture::I386) => "ebp",
        ("ps", _) => "eflags",
        (name, _) => name,
    };
    if let Some(index) = names.iter().position(|candidate| *candidate == name) {
        let (size, kind) = shape(name, architecture);
        return Some(NamedRegister {
            number: RegisterNumber(u16::try_from(index).ok()?),
            offset: 0,
            size,
            kind,
        });
    }
    let (whole, offset, size) = part(architecture, name)?;
    let index = names.iter().position(|candidate| *candidate == whole)?;
    Some(NamedRegister {
        number: RegisterNumber(u16::try_from(index).ok()?),
        offset,
        size,
        kind: RegisterKind::Integer,
    })
}

/// A register of a target description; none for one that is wider than a number.
fn described(register: &Register) -> Option<NamedRegister> {
    let kind = match register.type_name.as_str() {
        "code_ptr" => RegisterKind::CodePointer,
        "data_ptr" => RegisterKind::DataPointer,
        "ieee_single" | "ieee_double" => RegisterKind::Float,
        _ => RegisterKind::Integer,
    };
    (register.bits <= 64).then_some(NamedRegister {
        number: register.number,
        offset: 0,
        size: u64::from(register.size()),
        kind,
    })
}

fn shape(name: &str, architecture: Architecture) -> (u64, RegisterKind) {
    let word = u64::from(architecture.pointer_size());
    match name {
        "rip" | "eip" => (word, RegisterKind::CodePointer),
        "rsp" | "rbp" | "esp" | "ebp" => (word, RegisterKind::DataPointer),
        "eflags" => (4, RegisterKind::Flags),
        "cs" | "ss" | "ds" | "es" | "fs" | "gs" | "mxcsr" => (4, RegisterKind::Integer),
        _ if name.starts_with("xmm") => (16, RegisterKind::Vector),
        _ if name.starts_with("st") => (10, RegisterKind::X87),
        _ if name.starts_with('f') && !name.ends_with("base") => (4, RegisterKind::Integer),
        _ => (word, RegisterKind::Integer),
    }
}

/// (register, offset, size) of `eax`, `ax`, `al`, `ah`, `r8d`, `r8w`, `r8l`, `sil`.
fn part(architecture: Architecture, name: &str) -> Option<(String, u64, u64)> {
    let long = architecture == Architecture::X86_64;
    let prefix = if long { "r" } else { "e" };
    let two = ["ax", "bx", "cx", "dx", "si", "di", "bp", "sp"];
    if two.contains(&name) {
        return Some((format!("{prefix}{name}"), 0, 2));
    }
    if long && name.starts_with('e') && two.contains(&name.get(1..)?) {
        return Some((format!("r{}", name.get(1..)?), 0, 4));
    }
    let (stem, last) = name.split_at_checked(name.len().checked_sub(1)?)?;
    match (stem, last) {
        ("a" | "b" | "c" | "d", "l") => Some((format!("{prefix}{stem}x"), 0, 1)),
        ("a" | "b" | "c" | "d", "h") => Some((format!("{prefix}{stem}x"), 1, 1)),
        ("si" | "di" | "bp" | "sp", "l") if long => Some((format!("r{stem}"), 0, 1)),
        (_, "d" | "w" | "l") if long && stem.strip_prefix('r')?.parse::<u8>().is_ok() => {
            let size = match last {
                "d" => 4,
                "w" => 2,
                _ => 1,
            };
            Some((stem.to_owned(), 0, size))
        }
        _ => None,
    }
}

/// The name of a register.
pub(crate) fn register_name(
    architecture: Architecture,
    register: RegisterNumber,
) -> Option<&'static str> {
    match machine_registers::layout(architecture) {
        Some(layout) => Some(layout.by_number(register)?.name.as_str()),
        None => table(architecture).get(usize::from(register.0)).copied(),
    }
}

/// Whether a name is no register's in GDB, but one that its user may write for one. MIPS's registers have the names of
/// the calling convention there.
pub(crate) fn is_only_alias(architecture: Architecture, name: &str) -> bool {
    let mips = matches!(
        architecture,
        Architecture::Mips
            | Architecture::MipsLittle
            | Architecture::Mips64
            | Architecture::Mips64Little
    );
    machine_registers::layout(architecture).is_some_and(|layout| {
        let numeric = name
            .strip_prefix('r')
            .is_some_and(|rest| rest.parse::<u8>().is_ok());
        match layout.by_name(name) {
            Some(_) => mips && numeric,
            None => !mips && machine_registers::alias(architecture, name).is_some(),
        }
    })
}

/// Whether a register is one of the x87's, of 80 bits.
pub(crate) fn is_x87(architecture: Architecture, register: RegisterNumber) -> bool {
    register_name(architecture, register)
        .and_then(|name| named_register(architecture, name))
        .is_some_and(|register| register.kind == RegisterKind::X87)
}

/// How many bytes a register has.
pub(crate) fn register_size(architecture: Architecture, register: RegisterNumber) -> Option<u64> {
    let name = register_name(architecture, register)?;
    Some(named_register(architecture, name)?.size)
}

/// Whether a register has more than 64 bits.
pub(crate) fn is_wide(architecture: Architecture, register: RegisterNumber) -> bool {
    register_name(architecture, register).is_some_and(|name| {
        named_register(architecture, name).is_none_or(|register| register.size > 8)
    })
}

/// Whether a register is a vector register of 128 bits, whose lowest 64 agent expressions read.
pub(crate) fn is_low_vector(architecture: Architecture, register: RegisterNumber) -> bool {
    register_name(architecture, register)
        .and_then(|name| named_register(architecture, name))
        .is_some_and(|register| register.kind == RegisterKind::Vector && register.size == 16)
}

/// The register that holds the thread pointer.
pub(crate) fn thread_pointer(architecture: Architecture) -> Option<RegisterNumber> {
    match architecture {
        Architecture::X86_64 => Some(RegisterNumber(58)),
        Architecture::Riscv32 | Architecture::Riscv64 => Some(RegisterNumber(4)),
        _ => None,
    }
}

/// The registers of the machine's core feature, which `$regs` stands for: on x86 general, segment, flags, x87.
pub(crate) fn core_registers(architecture: Architecture) -> Vec<RegisterNumber> {
    match architecture {
        Architecture::X86_64 => (0..40).map(RegisterNumber).collect(),
        Architecture::I386 => (0..32).map(RegisterNumber).collect(),
        _ => machine_registers::core(architecture)
            .into_iter()
            .map(|register| register.number)
            .collect(),
    }
}

/// The program counter.
pub(crate) fn program_counter(architecture: Architecture) -> Option<RegisterNumber> {
    named_register(architecture, "pc").map(|register| register.number)
}

//! The registers that `$name` may name.

use tracewire_tracefile::{Architecture, RegisterNumber};

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

/// The register called `name`, or the part of one, in GDB's names: `rax`, `eax`, `ax`, `ah`, `pc`, `sp`, `fp`.
pub(crate) fn named_register(architecture: Architecture, name: &str) -> Option<NamedRegister> {
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
    table(architecture).get(usize::from(register.0)).copied()
}

/// The register that holds the thread pointer.
pub(crate) fn thread_pointer(architecture: Architecture) -> Option<RegisterNumber> {
    match architecture {
        Architecture::X86_64 => Some(RegisterNumber(58)),
        _ => None,
    }
}

/// The registers of the machine's core feature, which `$regs` stands for: general, segment, flags, x87.
pub(crate) fn core_registers(architecture: Architecture) -> impl Iterator<Item = RegisterNumber> {
    let count = match architecture {
        Architecture::X86_64 => 40,
        Architecture::I386 => 32,
        _ => 0,
    };
    (0..count).map(RegisterNumber)
}

/// The program counter.
pub(crate) fn program_counter(architecture: Architecture) -> Option<RegisterNumber> {
    named_register(architecture, "pc").map(|register| register.number)
}

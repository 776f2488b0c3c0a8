//! The registers that `$name` may name.

use tracewire_arch::{Architecture, Machine};
use tracewire_model::RegisterNumber;

/// A register, or a part of one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NamedRegister {
    pub(crate) number: RegisterNumber,
    /// Where the part starts, in bytes from the register's first.
    pub(crate) offset: u64,
    pub(crate) size: u64,
    pub(crate) kind: RegisterKind,
}

/// The contents of a register, which decide how GDB shows it.
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

/// The register called `name`, or the part of one, in GDB's names: `rax`, `eax`, `ax`, `ah`, `pc`, `sp`, `fp`; or one of
/// another machine by its name in the target description, in the assembler or in the calling convention. None for one that is
/// wider than a number, except x86's.
pub(crate) fn named_register(architecture: Architecture, name: &str) -> Option<NamedRegister> {
    let machine = Machine::with_linux(architecture);
    let part = machine.named(name)?;
    let register = machine.layout().by_number(part.register)?;
    let is_x86 = matches!(architecture, Architecture::X86_64 | Architecture::I386);
    let is_whole = u32::from(part.bits) == register.bits;
    let kind = match register.type_name.as_str() {
        _ if !is_whole => RegisterKind::Integer,
        "code_ptr" => RegisterKind::CodePointer,
        "data_ptr" => RegisterKind::DataPointer,
        "ieee_single" | "ieee_double" => RegisterKind::Float,
        "i386_eflags" => RegisterKind::Flags,
        "i387_ext" => RegisterKind::X87,
        "vec128" if is_x86 => RegisterKind::Vector,
        _ if register.bits > 64 => return None,
        _ => RegisterKind::Integer,
    };
    Some(NamedRegister {
        number: part.register,
        offset: u64::from(part.register_bit / 8),
        size: u64::from(part.bits.div_ceil(8)),
        kind,
    })
}

/// The name of a register.
pub(crate) fn register_name(
    architecture: Architecture,
    register: RegisterNumber,
) -> Option<&'static str> {
    let layout = Machine::with_linux(architecture).layout();
    Some(layout.by_number(register)?.name.as_str())
}

/// Whether a name is no register's in GDB, but one that its user may write for one. MIPS's registers have the names of
/// the calling convention there.
pub(crate) fn is_only_alias(architecture: Architecture, name: &str) -> bool {
    let machine = Machine::with_linux(architecture);
    let is_described = machine.layout().by_name(name).is_some();
    match architecture {
        Architecture::X86_64 | Architecture::I386 => false,
        Architecture::Mips
        | Architecture::MipsLittle
        | Architecture::Mips64
        | Architecture::Mips64Little => {
            let numeric = name.strip_prefix('r');
            is_described && numeric.is_some_and(|rest| rest.parse::<u8>().is_ok())
        }
        _ => !is_described && machine.named(name).is_some(),
    }
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

/// The program counter.
pub(crate) fn program_counter(architecture: Architecture) -> RegisterNumber {
    Machine::with_linux(architecture).program_counter().number
}

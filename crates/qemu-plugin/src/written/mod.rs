//! Which registers an instruction can write, by its code.
//!
//! A register costs about 20 ns to read, and a machine has up to a hundred; an instruction writes one or two. Each machine's file
//! maps a code to the registers that are compared after it. These may be too many, but never too few: for an unknown code it is
//! [`Written::All`].

mod aarch64;
mod arm;
mod mips;
mod power;
mod riscv;
mod x86;

use tracewire_arch::Architecture;

/// The registers that an instruction can write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Written {
    /// Any.
    All,
    /// These, by GDB's names. A name that the machine does not have means nothing; one may be there twice.
    Only(Vec<String>),
}

impl Written {
    fn none() -> Self {
        Self::Only(Vec::new())
    }
}

/// Collects names.
#[derive(Default)]
struct Names(Vec<String>);

impl Names {
    fn add(&mut self, name: &str) -> &mut Self {
        self.0.push(name.to_owned());
        self
    }

    fn numbered(&mut self, prefix: &str, numbers: impl IntoIterator<Item = u32>) -> &mut Self {
        (self.0).extend(
            numbers
                .into_iter()
                .map(|number| format!("{prefix}{number}")),
        );
        self
    }

    fn done(&mut self) -> Written {
        Written::Only(std::mem::take(&mut self.0))
    }
}

/// The registers that the instruction of a code can write if it is one of Thumb of four bytes, and none if it cannot be one.
pub fn written_in_thumb(architecture: Architecture, code: &[u8]) -> Option<Written> {
    if architecture != Architecture::Arm {
        return None;
    }
    let [a, b, c, d] = *<&[u8; 4]>::try_from(code).ok()?;
    let [first, second] = [[a, b], [c, d]].map(u16::from_le_bytes);
    arm::is_thumb_32(first).then(|| arm::thumb_32(first, second))
}

/// The registers that the instruction of a code can write; the bytes are in the order of memory. Four bytes of Arm are taken for one of
/// A32 ([`written_in_thumb`]).
pub fn written(architecture: Architecture, code: &[u8]) -> Written {
    let word = || -> Option<u32> {
        let bytes = code.try_into().ok()?;
        Some(match architecture.byte_order() {
            tracewire_model::ByteOrder::Little => u32::from_le_bytes(bytes),
            tracewire_model::ByteOrder::Big => u32::from_be_bytes(bytes),
        })
    };
    // Instructions of these are little-endian for both data orders.
    let halves = || -> Option<(u16, Option<u16>)> {
        match code {
            [a, b] => Some((u16::from_le_bytes([*a, *b]), None)),
            [a, b, c, d] => Some((
                u16::from_le_bytes([*a, *b]),
                Some(u16::from_le_bytes([*c, *d])),
            )),
            _ => None,
        }
    };
    let found = match architecture {
        Architecture::X86_64 => Some(x86::written(code, &[64, 32, 16])),
        Architecture::I386 => Some(x86::written(code, &[32, 16])),
        Architecture::Aarch64 => word().map(aarch64::written),
        Architecture::Riscv32 | Architecture::Riscv64 => halves().map(|halves| match halves {
            (half, None) => riscv::compressed(half),
            (low, Some(high)) => riscv::written(u32::from(high) << 16 | u32::from(low)),
        }),
        Architecture::Arm => halves().map(|halves| match halves {
            (half, None) => arm::thumb_16(half),
            (low, Some(high)) => arm::a32(u32::from(high) << 16 | u32::from(low)),
        }),
        Architecture::Mips
        | Architecture::MipsLittle
        | Architecture::Mips64
        | Architecture::Mips64Little => word().map(mips::written),
        Architecture::PowerPc | Architecture::PowerPc64 | Architecture::PowerPc64Little => {
            word().map(power::written)
        }
        _ => None,
    };
    found.unwrap_or(Written::All)
}

//! The machines that have names on the command line, and their byte orders.

use std::fmt;
use std::str::FromStr;

use tracewire_model::ByteOrder;

macro_rules! architectures {
    ($($(#[$doc:meta])* $variant:ident $name:literal $order:ident $pointer:literal;)*) => {
        /// A machine, as `--architecture` names it. The name settles the byte order.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[non_exhaustive]
        pub enum Architecture {
            $($(#[$doc])* $variant,)*
        }

        impl Architecture {
            /// Every machine, in the order in which help lists them.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The name on the command line.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The byte order of the machine's data.
            #[must_use]
            pub const fn byte_order(self) -> ByteOrder {
                match self { $(Self::$variant => ByteOrder::$order,)* }
            }

            /// The size of a pointer, in bytes.
            #[must_use]
            pub const fn pointer_size(self) -> u8 {
                match self { $(Self::$variant => $pointer,)* }
            }
        }
    };
}

architectures! {
    /// 64-bit x86.
    X86_64 "x86_64" Little 8;
    /// 32-bit x86.
    I386 "i386" Little 4;
    /// 32-bit Arm.
    Arm "arm" Little 4;
    /// 32-bit Arm, big-endian.
    ArmBig "armeb" Big 4;
    /// 64-bit Arm.
    Aarch64 "aarch64" Little 8;
    /// 32-bit MIPS, big-endian.
    Mips "mips" Big 4;
    /// 32-bit MIPS, little-endian.
    MipsLittle "mipsel" Little 4;
    /// 64-bit MIPS, big-endian.
    Mips64 "mips64" Big 8;
    /// 64-bit MIPS, little-endian.
    Mips64Little "mips64el" Little 8;
    /// 32-bit RISC-V.
    Riscv32 "riscv32" Little 4;
    /// 64-bit RISC-V.
    Riscv64 "riscv64" Little 8;
    /// 32-bit PowerPC, big-endian.
    PowerPc "ppc" Big 4;
    /// 64-bit PowerPC, big-endian.
    PowerPc64 "ppc64" Big 8;
    /// 64-bit PowerPC, little-endian.
    PowerPc64Little "ppc64le" Little 8;
    /// Nios II.
    Nios2 "nios2" Little 4;
}

impl Architecture {
    /// The same machine with this byte order; `None` where it has no name.
    #[must_use]
    pub fn in_order(self, order: ByteOrder) -> Option<Self> {
        const PAIRS: [[Architecture; 2]; 4] = [
            [Architecture::Arm, Architecture::ArmBig],
            [Architecture::MipsLittle, Architecture::Mips],
            [Architecture::Mips64Little, Architecture::Mips64],
            [Architecture::PowerPc64Little, Architecture::PowerPc64],
        ];
        let pair = PAIRS.into_iter().find(|pair| pair.contains(&self));
        let pair = pair.unwrap_or([self, self]);
        pair.into_iter().find(|one| one.byte_order() == order)
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that no machine has.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("unknown architecture `{0}`")]
pub struct UnknownArchitecture(pub String);

impl FromStr for Architecture {
    type Err = UnknownArchitecture;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .iter()
            .copied()
            .find(|architecture| architecture.name() == name)
            .ok_or_else(|| UnknownArchitecture(name.to_owned()))
    }
}

//! The register sets of x86 Linux, with the target descriptions from which GDB reads them.
//!
//! A register block in a trace file cannot mark a register as missing, so a file should have the smallest set that covers its data.
//! GDB accepts a description of the core set alone, and of each larger one here. It accepts blocks that end before the last register of
//! the description, too, and shows the registers behind the end as unavailable.
//! Names, order and numbers are those of GDB's own descriptions of Linux on x86 (features
//! `org.gnu.gdb.i386.core`, `.sse`, `.linux`, `.segments`, `.avx`, `.avx512`).

use std::sync::OnceLock;

use super::feature::{self, Feature, Row, counted, flags, numbered, row, vector_union};
use super::layout::RegisterLayout;
use tracewire_model::RegisterNumber;

/// A register set of x86-64 or i386. Each holds those before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum X86Registers {
    /// General registers, flags and segments: 164 bytes on x86-64, 64 on i386. It has the target description of [`Self::Core`].
    General,
    /// And the x87 unit: 276 bytes on x86-64, 176 on i386.
    Core,
    /// And `xmm` registers, `mxcsr`, the number of a system call, and on x86-64 the segment bases: 560 bytes
    /// on x86-64, 312 on i386.
    Sse,
    /// And the upper halves of `ymm` registers: 816 bytes on x86-64, 440 on i386.
    Avx,
    /// And `zmm`, `xmm16` and on, and mask registers: 2416 bytes on x86-64, 760 on i386.
    Avx512,
}

/// Whether a register of x86 is one of the x87 unit's, by its name.
#[must_use]
pub fn is_x87(name: &str) -> bool {
    let stack = name.strip_prefix("st");
    let control = [
        "fctrl", "fstat", "ftag", "fiseg", "fioff", "foseg", "fooff", "fop",
    ];
    stack.is_some_and(|number| number.parse::<u8>().is_ok()) || control.contains(&name)
}

/// The word size.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Width {
    Bits32,
    Bits64,
}

/// The features of a set's description, in order, each with the first set that has it.
const FEATURES: [(&str, X86Registers); 6] = [
    ("core", X86Registers::General),
    ("sse", X86Registers::Sse),
    ("linux", X86Registers::Sse),
    ("segments", X86Registers::Sse),
    ("avx", X86Registers::Avx),
    ("avx512", X86Registers::Avx512),
];

impl X86Registers {
    /// Every set, smallest first.
    pub const ALL: [Self; 5] = [
        Self::General,
        Self::Core,
        Self::Sse,
        Self::Avx,
        Self::Avx512,
    ];

    /// The target description for a 64-bit program.
    #[must_use]
    pub fn target_xml_64(self) -> String {
        self.target_xml(Width::Bits64).to_owned()
    }

    /// The target description for a 32-bit program.
    #[must_use]
    pub fn target_xml_32(self) -> String {
        self.target_xml(Width::Bits32).to_owned()
    }

    /// The layout for a 64-bit program.
    #[must_use]
    pub fn layout_64(self) -> &'static RegisterLayout {
        self.layout(Width::Bits64)
    }

    /// The layout for a 32-bit program.
    #[must_use]
    pub fn layout_32(self) -> &'static RegisterLayout {
        self.layout(Width::Bits32)
    }

    /// The smallest set that covers all the requested registers of the layout of [`Self::Avx512`]. Numbers are those of that
    /// layout; no set covers another number.
    #[must_use]
    pub fn covering_64(registers: impl IntoIterator<Item = RegisterNumber>) -> Option<Self> {
        Self::covering(Width::Bits64, registers)
    }

    /// The same for a 32-bit program.
    #[must_use]
    pub fn covering_32(registers: impl IntoIterator<Item = RegisterNumber>) -> Option<Self> {
        Self::covering(Width::Bits32, registers)
    }

    fn covering(width: Width, registers: impl IntoIterator<Item = RegisterNumber>) -> Option<Self> {
        registers
            .into_iter()
            .try_fold(Self::General, |set, register| {
                let covers = |candidate: &Self| {
                    let count: usize = candidate
                        .features(width)
                        .iter()
                        .map(|feature| feature.registers.len())
                        .sum();
                    usize::from(register.0) < count
                };
                Some(set.max(Self::ALL.into_iter().find(covers)?))
            })
    }

    /// The features with the registers of the set, which are the first ones of its description.
    fn features(self, width: Width) -> Vec<Feature> {
        let mut features = self.described(width);
        if self == Self::General {
            for feature in &mut features {
                feature.registers.retain(|register| !is_x87(&register.name));
            }
        }
        features
    }

    /// The features of the description.
    fn described(self, width: Width) -> Vec<Feature> {
        self.features_with(width, &|_| true)
    }

    /// The wanted features of the description, by their short names.
    pub(super) fn features_with(self, width: Width, wanted: &dyn Fn(&str) -> bool) -> Vec<Feature> {
        let mut next = 0;
        FEATURES
            .into_iter()
            .filter(|(_, first)| *first <= self)
            // GDB 13 fails on the segment bases in a description of i386, and never sends them itself.
            .filter(|(name, _)| width == Width::Bits64 || *name != "segments")
            .filter(|(name, _)| wanted(name))
            .map(|(name, _)| {
                let registers = numbered(next, feature_registers(name, width));
                next += registers.len() as u16;
                Feature {
                    name: format!("org.gnu.gdb.i386.{name}"),
                    types: feature_types(name, width),
                    registers,
                }
            })
            .collect()
    }

    fn layout(self, width: Width) -> &'static RegisterLayout {
        /// Each is made once: it takes a while, and each process and each site of a tracepoint needs one.
        static LAYOUTS: [[OnceLock<RegisterLayout>; 2]; X86Registers::ALL.len()] =
            [const { [const { OnceLock::new() }; 2] }; X86Registers::ALL.len()];
        LAYOUTS[self as usize][width as usize]
            .get_or_init(|| feature::layout(width.architecture(), &self.features(width)))
    }

    fn target_xml(self, width: Width) -> &'static str {
        /// Each is made once: each description of a trace file has one.
        static TEXTS: [[OnceLock<String>; 2]; X86Registers::ALL.len()] =
            [const { [const { OnceLock::new() }; 2] }; X86Registers::ALL.len()];
        TEXTS[self as usize][width as usize].get_or_init(|| {
            let features = self.described(width);
            feature::target_xml(width.architecture(), Some("GNU/Linux"), &features)
        })
    }
}

impl Width {
    pub(super) const fn architecture(self) -> &'static str {
        match self {
            Self::Bits32 => "i386",
            Self::Bits64 => "i386:x86-64",
        }
    }

    const fn word(self) -> u32 {
        match self {
            Self::Bits32 => 32,
            Self::Bits64 => 64,
        }
    }

    /// How many vector registers there are without AVX-512, and with it.
    const fn vectors(self) -> (u32, u32) {
        match self {
            Self::Bits32 => (8, 8),
            Self::Bits64 => (16, 32),
        }
    }
}

fn feature_registers(feature: &str, width: Width) -> Vec<Row> {
    let (vectors, all_vectors) = width.vectors();
    match feature {
        "core" => core_registers(width),
        "sse" => counted("xmm", "", 0..vectors, 128, "vec128")
            .into_iter()
            .chain([Row {
                group: Some("vector"),
                ..row("mxcsr", 32, "i386_mxcsr")
            }])
            .collect(),
        "linux" => {
            let name = if width == Width::Bits64 {
                "orig_rax"
            } else {
                "orig_eax"
            };
            vec![row(name, width.word(), "int")]
        }
        "segments" => vec![
            row("fs_base", width.word(), "int"),
            row("gs_base", width.word(), "int"),
        ],
        "avx" => counted("ymm", "h", 0..vectors, 128, "uint128"),
        _ => [
            counted("xmm", "", vectors..all_vectors, 128, "vec128"),
            counted("ymm", "h", vectors..all_vectors, 128, "uint128"),
            counted("k", "", 0..8, 64, "uint64"),
            counted("zmm", "h", 0..all_vectors, 256, "v2ui128"),
        ]
        .concat(),
    }
}

fn core_registers(width: Width) -> Vec<Row> {
    let general: &[&str] = match width {
        Width::Bits64 => &[
            "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "rsp", "r8", "r9", "r10", "r11",
            "r12", "r13", "r14", "r15", "rip",
        ],
        Width::Bits32 => &[
            "eax", "ecx", "edx", "ebx", "esp", "ebp", "esi", "edi", "eip",
        ],
    };
    let word = width.word();
    let integer = if width == Width::Bits64 {
        "int64"
    } else {
        "int32"
    };
    let mut rows = Vec::new();
    for name in general {
        let kind = match *name {
            "rip" | "eip" => "code_ptr",
            "rbp" | "rsp" | "ebp" | "esp" => "data_ptr",
            _ => integer,
        };
        rows.push(row(*name, word, kind));
    }
    rows.push(row("eflags", 32, "i386_eflags"));
    rows.extend(["cs", "ss", "ds", "es", "fs", "gs"].map(|name| row(name, 32, "int32")));
    rows.extend((0..8).map(|n| row(format!("st{n}"), 80, "i387_ext")));
    let control = [
        "fctrl", "fstat", "ftag", "fiseg", "fioff", "foseg", "fooff", "fop",
    ];
    rows.extend(control.map(|name| Row {
        group: Some("float"),
        ..row(name, 32, "int")
    }));
    rows
}

/// The flags of `eflags` by name and bit, as GDB's `i386_eflags` has them. The bit without a name is always 1.
pub const EFLAGS: &[(&str, u32)] = &[
    ("CF", 0),
    ("", 1),
    ("PF", 2),
    ("AF", 4),
    ("ZF", 6),
    ("SF", 7),
    ("TF", 8),
    ("IF", 9),
    ("DF", 10),
    ("OF", 11),
    ("NT", 14),
    ("RF", 16),
    ("VM", 17),
    ("AC", 18),
    ("VIF", 19),
    ("VIP", 20),
    ("ID", 21),
];

fn feature_types(feature: &str, width: Width) -> String {
    let vec128 = || {
        vector_union(
            "vec128",
            &[
                ("v8_bfloat16", "v8bf16", "bfloat16", 8),
                ("v8_half", "v8h", "ieee_half", 8),
                ("v4_float", "v4f", "ieee_single", 4),
                ("v2_double", "v2d", "ieee_double", 2),
                ("v16_int8", "v16i8", "int8", 16),
                ("v8_int16", "v8i16", "int16", 8),
                ("v4_int32", "v4i32", "int32", 4),
                ("v2_int64", "v2i64", "int64", 2),
            ],
        )
    };
    match feature {
        "core" => flags("i386_eflags", EFLAGS),
        "sse" => {
            vec128()
                + &flags(
                    "i386_mxcsr",
                    &[
                        ("IE", 0),
                        ("DE", 1),
                        ("ZE", 2),
                        ("OE", 3),
                        ("UE", 4),
                        ("PE", 5),
                        ("DAZ", 6),
                        ("IM", 7),
                        ("DM", 8),
                        ("ZM", 9),
                        ("OM", 10),
                        ("UM", 11),
                        ("PM", 12),
                        ("FZ", 15),
                    ],
                )
        }
        "avx512" => {
            let vectors = if width == Width::Bits64 {
                vec128()
            } else {
                String::new()
            };
            vectors + "<vector id=\"v2ui128\" type=\"uint128\" count=\"2\"/>\n"
        }
        _ => String::new(),
    }
}

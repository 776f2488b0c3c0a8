//! The register sets of GDB, gdbserver and QEMU for each machine, for files without a target description.
//!
//! Names, numbers and order are those of GDB 13's own target descriptions. A file without one is read with the
//! set whose size is that of its register blocks.

use super::bfd::bfd_name;
use super::feature::{self, Feature, Row, counted, numbered, row, vector_union};
use super::layout::RegisterLayout;
use super::x86::{Width, X86Registers};
use crate::architecture::Architecture;
use tracewire_model::ByteOrder;

/// A register set of a machine.
pub struct StandardRegisters {
    architecture: Architecture,
    features: Vec<Feature>,
}

impl std::fmt::Debug for StandardRegisters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<_> = self.features.iter().map(|feature| &feature.name).collect();
        f.debug_tuple("StandardRegisters")
            .field(&self.architecture)
            .field(&names)
            .finish()
    }
}

impl StandardRegisters {
    /// Every set of a machine, smallest first; each has another size.
    #[must_use]
    pub fn all(architecture: Architecture) -> Vec<Self> {
        let mut sets: Vec<_> = feature_sets(architecture)
            .into_iter()
            .map(|features| Self {
                architecture,
                features,
            })
            .collect();
        sets.sort_by_key(Self::size);
        sets
    }

    /// The set of a machine whose register block has this many bytes.
    #[must_use]
    pub fn of_size(architecture: Architecture, size: u32) -> Option<Self> {
        Self::all(architecture)
            .into_iter()
            .find(|set| set.size() == size)
    }

    /// The set of a machine for register blocks of this many bytes: that of exactly this size, else the smallest one with a
    /// register that ends there. A block may end before the last registers, which are then unavailable.
    #[must_use]
    pub fn fitting(architecture: Architecture, size: u32) -> Option<Self> {
        let ends_there = |set: &Self| {
            let mut end = 0;
            let mut registers = set.features.iter().flat_map(|feature| &feature.registers);
            registers.any(|register| {
                end += register.bits.div_ceil(8);
                end == size
            })
        };
        let smallest = || Self::all(architecture).into_iter().find(ends_there);
        Self::of_size(architecture, size).or_else(smallest)
    }

    /// The set of any machine of this byte order whose register block has this many bytes, where there is just
    /// one.
    #[must_use]
    pub fn only_of_size(order: ByteOrder, size: u32) -> Option<Self> {
        let machines = Architecture::ALL
            .iter()
            .filter(|machine| machine.byte_order() == order);
        let mut sets = machines.filter_map(|machine| Self::of_size(*machine, size));
        sets.next().filter(|_| sets.next().is_none())
    }

    /// The first machine that has a set whose first feature has this name and registers of so many bits. Others of its family
    /// may differ in the byte order.
    pub(super) fn machine_of_feature(name: &str, bits: u32) -> Option<Architecture> {
        let begins_so = |set: &Self| {
            let first = set.features.first();
            first.is_some_and(|feature| {
                let register = feature.registers.first();
                feature.name == name && register.is_some_and(|register| register.bits == bits)
            })
        };
        let mut machines = Architecture::ALL.iter().copied();
        machines.find(|machine| Self::all(*machine).iter().any(begins_so))
    }

    /// The machine.
    #[must_use]
    pub const fn architecture(&self) -> Architecture {
        self.architecture
    }

    /// The size of the register block, in bytes.
    #[must_use]
    pub fn size(&self) -> u32 {
        let registers = self.features.iter().flat_map(|feature| &feature.registers);
        registers.map(|register| register.bits.div_ceil(8)).sum()
    }

    /// Which register is where.
    #[must_use]
    pub fn layout(&self) -> RegisterLayout {
        feature::layout(bfd_name(self.architecture), &self.features)
    }

    /// Its target description. It does not contain the byte order: GDB needs `set endian` if the machine has two.
    #[must_use]
    pub fn target_xml(&self) -> String {
        feature::target_xml(bfd_name(self.architecture), None, &self.features)
    }
}

fn feature(name: &str, first: u16, registers: Vec<Row>) -> Feature {
    Feature {
        name: format!("org.gnu.gdb.{name}"),
        types: String::new(),
        registers: numbered(first, registers),
    }
}

/// The sets of a machine: each the list of its features.
fn feature_sets(architecture: Architecture) -> Vec<Vec<Feature>> {
    match architecture {
        Architecture::X86_64 => x86(Width::Bits64),
        Architecture::I386 => x86(Width::Bits32),
        Architecture::Arm | Architecture::ArmBig => arm(),
        Architecture::Aarch64 => vec![vec![aarch64_core()], vec![aarch64_core(), aarch64_fpu()]],
        Architecture::Mips | Architecture::MipsLittle => mips(32),
        Architecture::Mips64 | Architecture::Mips64Little => mips(64),
        Architecture::Riscv32 => riscv(32),
        Architecture::Riscv64 => riscv(64),
        Architecture::PowerPc => power(32),
        Architecture::PowerPc64 | Architecture::PowerPc64Little => power(64),
        Architecture::Nios2 => vec![vec![nios2()]],
    }
}

/// With and without what Linux adds: bare machines have neither system call numbers nor segment bases.
fn x86(width: Width) -> Vec<Vec<Feature>> {
    let mut sets: Vec<Vec<Feature>> = Vec::new();
    for set in X86Registers::ALL {
        for without in [&["linux", "segments"][..], &["segments"], &[]] {
            let features = set.features_with(width, &|name| !without.contains(&name));
            if sets.last().is_none_or(|last| last.len() != features.len()) {
                sets.push(features);
            }
        }
    }
    sets
}

fn arm() -> Vec<Vec<Feature>> {
    let core = || {
        let mut registers = counted("r", "", 0..13, 32, "uint32");
        registers.push(row("sp", 32, "data_ptr"));
        registers.push(row("lr", 32, "int"));
        registers.push(row("pc", 32, "code_ptr"));
        let mut core = feature("arm.core", 0, registers);
        core.registers
            .extend(numbered(25, vec![row("cpsr", 32, "int")]));
        core
    };
    let vfp = |count| {
        let mut registers = counted("d", "", 0..count, 64, "ieee_double");
        registers.push(Row {
            group: Some("float"),
            ..row("fpscr", 32, "int")
        });
        feature("arm.vfp", 26, registers)
    };
    let fpa = || {
        let mut registers = counted("f", "", 0..8, 96, "arm_fpa_ext");
        registers.push(row("fps", 32, "int"));
        feature("arm.fpa", 16, registers)
    };
    vec![
        vec![core()],
        vec![core(), fpa()],
        vec![core(), vfp(16)],
        vec![core(), vfp(32)],
    ]
}

fn aarch64_core() -> Feature {
    let mut registers = counted("x", "", 0..31, 64, "int");
    registers.push(row("sp", 64, "data_ptr"));
    registers.push(row("pc", 64, "code_ptr"));
    registers.push(row("cpsr", 32, "int"));
    feature("aarch64.core", 0, registers)
}

fn aarch64_fpu() -> Feature {
    let types = vector_union(
        "aarch64v",
        &[
            ("d", "v2d", "ieee_double", 2),
            ("s", "v4f", "ieee_single", 4),
            ("b", "v16i8", "int8", 16),
            ("h", "v8i16", "int16", 8),
            ("w", "v4i32", "int32", 4),
            ("l", "v2i64", "int64", 2),
        ],
    );
    let mut registers = counted("v", "", 0..32, 128, "aarch64v");
    registers.extend(["fpsr", "fpcr"].map(|name| row(name, 32, "int")));
    Feature {
        types,
        ..feature("aarch64.fpu", 34, registers)
    }
}

fn mips(bits: u32) -> Vec<Vec<Feature>> {
    let single = |name: &str, number| numbered(number, vec![row(name, bits, "int")]);
    let cpu = || {
        let mut cpu = feature("mips.cpu", 0, counted("r", "", 0..32, bits, "int"));
        let rest = [("lo", 33), ("hi", 34), ("pc", 37)];
        cpu.registers
            .extend(rest.iter().flat_map(|(name, number)| single(name, *number)));
        cpu
    };
    let cp0 = || {
        let mut cp0 = feature("mips.cp0", 32, Vec::new());
        let registers = [("status", 32), ("badvaddr", 35), ("cause", 36)];
        cp0.registers.extend(
            registers
                .iter()
                .flat_map(|(name, number)| single(name, *number)),
        );
        cp0
    };
    let fpu = || {
        let float = if bits == 32 {
            "ieee_single"
        } else {
            "ieee_double"
        };
        let mut registers = counted("f", "", 0..32, bits, float);
        let control = ["fcsr", "fir"];
        registers.extend(control.map(|name| Row {
            group: Some("float"),
            ..row(name, bits, "int")
        }));
        feature("mips.fpu", 38, registers)
    };
    let linux = || {
        let restart = Row {
            group: Some("system"),
            ..row("restart", bits, "int")
        };
        feature("mips.linux", 72, vec![restart])
    };
    vec![
        vec![cpu(), cp0(), fpu()],
        vec![cpu(), cp0(), fpu(), linux()],
    ]
}

fn riscv(bits: u32) -> Vec<Vec<Feature>> {
    let cpu = || {
        let pointer = |name: &str| match name {
            "ra" | "pc" => "code_ptr",
            "sp" | "gp" | "tp" | "fp" => "data_ptr",
            _ => "int",
        };
        let names = [
            "zero", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "fp", "s1", "a0", "a1", "a2", "a3",
            "a4", "a5", "a6", "a7", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11",
            "t3", "t4", "t5", "t6", "pc",
        ];
        feature(
            "riscv.cpu",
            0,
            names
                .iter()
                .map(|name| row(*name, bits, pointer(name)))
                .collect(),
        )
    };
    let fpu = |bits| {
        let float = if bits == 32 {
            "ieee_single"
        } else {
            "ieee_double"
        };
        let names = [
            counted("ft", "", 0..8, bits, float),
            counted("fs", "", 0..2, bits, float),
            counted("fa", "", 0..8, bits, float),
            counted("fs", "", 2..12, bits, float),
            counted("ft", "", 8..12, bits, float),
        ];
        let mut fpu = feature("riscv.fpu", 33, names.concat());
        // The control and status register N has the number 65 + N; these have N from 1 to 3.
        let control = ["fflags", "frm", "fcsr"]
            .map(|name| row(name, 32, "int"))
            .to_vec();
        fpu.registers.extend(numbered(66, control));
        fpu
    };
    let without_parts = |bits| {
        let mut fpu = fpu(bits);
        fpu.registers
            .retain(|register| register.name != "fflags" && register.name != "frm");
        fpu
    };
    let mut sets = vec![vec![cpu()]];
    for float in [32, 64].into_iter().filter(|float| *float >= bits) {
        sets.push(vec![cpu(), without_parts(float)]);
        sets.push(vec![cpu(), fpu(float)]);
    }
    sets
}

fn power(bits: u32) -> Vec<Vec<Feature>> {
    let integer = if bits == 32 { "uint32" } else { "uint64" };
    let core = || {
        let mut core = feature("power.core", 0, counted("r", "", 0..32, bits, integer));
        let rest = vec![
            row("pc", bits, "code_ptr"),
            row("msr", bits, integer),
            row("cr", 32, "uint32"),
            row("lr", bits, "code_ptr"),
            row("ctr", bits, integer),
            row("xer", 32, "uint32"),
        ];
        core.registers.extend(numbered(64, rest));
        core
    };
    let fpu = || {
        let mut fpu = feature("power.fpu", 32, counted("f", "", 0..32, 64, "ieee_double"));
        let status = Row {
            group: Some("float"),
            ..row("fpscr", 32, "int")
        };
        fpu.registers.extend(numbered(70, vec![status]));
        fpu
    };
    let linux = || {
        feature(
            "power.linux",
            71,
            vec![row("orig_r3", bits, "int"), row("trap", bits, "int")],
        )
    };
    let altivec = |first| {
        let types = vector_union(
            "vec128",
            &[
                ("v4_float", "v4f", "ieee_single", 4),
                ("v4_int32", "v4i32", "int32", 4),
                ("v8_int16", "v8i16", "int16", 8),
                ("v16_int8", "v16i8", "int8", 16),
            ],
        );
        let mut registers = counted("vr", "", 0..32, 128, "vec128");
        let control = ["vscr", "vrsave"];
        registers.extend(control.map(|name| Row {
            group: Some("vector"),
            ..row(name, 32, "int")
        }));
        Feature {
            types,
            ..feature("power.altivec", first, registers)
        }
    };
    vec![
        vec![core()],
        vec![core(), fpu()],
        vec![core(), fpu(), linux()],
        vec![core(), fpu(), altivec(71)],
        vec![core(), fpu(), linux(), altivec(73)],
    ]
}

fn nios2() -> Feature {
    let pointer = |name: &str| match name {
        "ea" | "ra" | "pc" => "code_ptr",
        "gp" | "sp" | "fp" => "data_ptr",
        _ => "uint32",
    };
    let names = [
        "zero",
        "at",
        "r2",
        "r3",
        "r4",
        "r5",
        "r6",
        "r7",
        "r8",
        "r9",
        "r10",
        "r11",
        "r12",
        "r13",
        "r14",
        "r15",
        "r16",
        "r17",
        "r18",
        "r19",
        "r20",
        "r21",
        "r22",
        "r23",
        "et",
        "bt",
        "gp",
        "sp",
        "fp",
        "ea",
        "sstatus",
        "ra",
        "pc",
        "status",
        "estatus",
        "bstatus",
        "ienable",
        "ipending",
        "cpuid",
        "ctl6",
        "exception",
        "pteaddr",
        "tlbacc",
        "tlbmisc",
        "eccinj",
        "badaddr",
        "config",
        "mpubase",
        "mpuacc",
    ];
    feature(
        "nios2.cpu",
        0,
        names
            .iter()
            .map(|name| row(*name, 32, pointer(name)))
            .collect(),
    )
}

//! The names that traces, assemblers and processors' manuals have for each machine's registers.

use std::collections::HashMap;

use tracewire_arch::{Architecture, RegisterLayout};

use super::{Part, Rest};

struct Names<'a> {
    layout: &'a RegisterLayout,
    map: HashMap<String, Vec<Part>>,
}

/// Every name of a machine, lower-case.
pub(super) fn all(
    architecture: Architecture,
    layout: &RegisterLayout,
) -> HashMap<String, Vec<Part>> {
    let mut names = Names {
        layout,
        map: HashMap::new(),
    };
    for register in layout.registers() {
        names.whole(&register.name, &register.name);
    }
    match architecture {
        Architecture::X86_64 => names.x86_64(),
        Architecture::I386 => names.i386(),
        Architecture::Arm | Architecture::ArmBig => names.arm(),
        Architecture::Aarch64 => names.aarch64(),
        Architecture::Mips | Architecture::MipsLittle => names.mips(),
        Architecture::Mips64 | Architecture::Mips64Little => {
            names.mips();
            names.in_order("a", 4..8, |n| format!("r{}", n + 4));
        }
        Architecture::Riscv32 | Architecture::Riscv64 => names.riscv(),
        Architecture::PowerPc | Architecture::PowerPc64 | Architecture::PowerPc64Little => {
            names.power();
        }
        Architecture::Nios2 => names.nios2(),
        _ => {}
    }
    names.map
}

/// How the cores of Arm call banked registers and stacks; the trace writes the one of the mode it is in.
const ARM_BANKS: [&str; 9] = [
    "usr", "svc", "irq", "fiq", "mon", "abt", "und", "hyp", "sys",
];

/// Which stack pointer of a Cortex-M a name stands for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum StackBank {
    /// The one after reset, and of every exception handler.
    Main,
    /// The one that CONTROL.SPSEL selects for threads.
    Process,
}

/// What traces of Cortex-M cores call its stack pointers; those with the security extension have each twice.
const ARM_STACKS: [(&str, StackBank); 18] = [
    ("msp", StackBank::Main),
    ("msp_s", StackBank::Main),
    ("msp_ns", StackBank::Main),
    ("sp_main", StackBank::Main),
    ("sp_main_s", StackBank::Main),
    ("sp_main_ns", StackBank::Main),
    ("r13_main", StackBank::Main),
    ("r13_main_s", StackBank::Main),
    ("r13_main_ns", StackBank::Main),
    ("psp", StackBank::Process),
    ("psp_s", StackBank::Process),
    ("psp_ns", StackBank::Process),
    ("sp_process", StackBank::Process),
    ("sp_process_s", StackBank::Process),
    ("sp_process_ns", StackBank::Process),
    ("r13_process", StackBank::Process),
    ("r13_process_s", StackBank::Process),
    ("r13_process_ns", StackBank::Process),
];

/// The stack pointer of a Cortex-M that a name stands for.
pub(crate) fn stack_bank(name: &str) -> Option<StackBank> {
    let mut all = ARM_STACKS.iter();
    all.find(|(of, _)| of.eq_ignore_ascii_case(name))
        .map(|(_, bank)| *bank)
}

impl Names<'_> {
    /// Part of a register, from `bit` on; names of registers that the set does not have are left out.
    fn part(&self, register: &str, bit: u16, bits: u16, rest: Rest) -> Option<Part> {
        let register = self.layout.by_name(register)?;
        Some(Part {
            register: register.number,
            register_bit: bit,
            value_bit: 0,
            bits,
            rest,
        })
    }

    fn add(&mut self, name: &str, part: Option<Part>) {
        if let Some(part) = part {
            self.map.insert(name.to_ascii_lowercase(), vec![part]);
        }
    }

    fn whole(&mut self, name: &str, register: &str) {
        let bits = self.layout.by_name(register).map_or(0, |one| one.bits);
        let bits = u16::try_from(bits).unwrap_or(u16::MAX);
        self.add(name, self.part(register, 0, bits, Rest::Zero));
    }

    fn wholes(&mut self, pairs: &[(&str, &str)]) {
        for (name, register) in pairs {
            self.whole(name, register);
        }
    }

    /// `prefix0`, `prefix1` and so on.
    fn in_order(
        &mut self,
        prefix: &str,
        range: std::ops::Range<u32>,
        register: impl Fn(u32) -> String,
    ) {
        for number in range {
            self.whole(&format!("{prefix}{number}"), &register(number));
        }
    }

    fn parts_in_order(
        &mut self,
        prefix: &str,
        range: std::ops::Range<u32>,
        register: impl Fn(u32) -> String,
        (bit, bits, rest): (u16, u16, Rest),
    ) {
        for number in range {
            let part = self.part(&register(number), bit, bits, rest);
            self.add(&format!("{prefix}{number}"), part);
        }
    }

    fn mips(&mut self) {
        // The names of the 32-bit calling convention; the 64-bit ones have a4 to a7 besides.
        let names = [
            "zero", "at", "v0", "v1", "a0", "a1", "a2", "a3", "t0", "t1", "t2", "t3", "t4", "t5",
            "t6", "t7", "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "t8", "t9", "k0", "k1",
            "gp", "sp", "fp", "ra",
        ];
        for (number, name) in names.iter().enumerate() {
            self.whole(name, &format!("r{number}"));
        }
        self.in_order("", 0..32, |n| format!("r{n}"));
        self.in_order("gpr", 0..32, |n| format!("r{n}"));
        self.in_order("fpr", 0..32, |n| format!("f{n}"));
        self.wholes(&[
            ("s8", "r30"),
            ("hi0", "hi"),
            ("lo0", "lo"),
            ("fcr31", "fcsr"),
            ("fcr0", "fir"),
            ("fsr", "fcsr"),
            ("sr", "status"),
            ("cp0_status", "status"),
            ("c0_status", "status"),
            ("cp0_cause", "cause"),
            ("c0_cause", "cause"),
            ("cp0_badvaddr", "badvaddr"),
            ("c0_badvaddr", "badvaddr"),
            ("bad", "badvaddr"),
        ]);
    }

    /// Registers by their numbers; the set has them by the names of the calling convention.
    fn riscv(&mut self) {
        for register in self.layout.registers() {
            match register.number.0 {
                number @ 0..=31 => self.whole(&format!("x{number}"), &register.name),
                number @ 33..=64 => self.whole(&format!("f{}", number - 33), &register.name),
                _ => {}
            }
        }
        self.whole("s0", "fp");
    }

    fn arm(&mut self) {
        for (name, number) in ["sp", "lr", "pc"].iter().zip(13..) {
            self.whole(&format!("r{number}"), name);
        }
        let conventions = [
            ("a1", "r0"),
            ("a2", "r1"),
            ("a3", "r2"),
            ("a4", "r3"),
            ("sb", "r9"),
            ("sl", "r10"),
            ("fp", "r11"),
            ("ip", "r12"),
            ("xpsr", "cpsr"),
            ("psr", "cpsr"),
            ("apsr", "cpsr"),
        ];
        self.wholes(&conventions);
        self.in_order("v", 1..9, |n| format!("r{}", n + 3));
        for (name, _) in ARM_STACKS {
            self.whole(name, "sp");
        }
        for bank in ARM_BANKS {
            for (number, name) in (8..13).map(|n| (n, format!("r{n}"))) {
                self.whole(&format!("r{number}_{bank}"), &name);
            }
            for (number, name) in [(13, "sp"), (14, "lr")] {
                self.whole(&format!("{name}_{bank}"), name);
                self.whole(&format!("r{number}_{bank}"), name);
            }
        }
        for number in 0..32u16 {
            let part = self.part(&format!("d{}", number / 2), number % 2 * 32, 32, Rest::Kept);
            self.add(&format!("s{number}"), part);
        }
        for number in 0..16 {
            let halves = [0u16, 1].map(|half| {
                let part = self.part(&format!("d{}", number * 2 + half), 0, 64, Rest::Kept)?;
                Some(Part {
                    value_bit: half * 64,
                    ..part
                })
            });
            if let [Some(low), Some(high)] = halves {
                self.map.insert(format!("q{number}"), vec![low, high]);
            }
        }
    }

    fn aarch64(&mut self) {
        self.parts_in_order("w", 0..31, |n| format!("x{n}"), (0, 32, Rest::Zero));
        // The 32-bit state's registers are the lower halves.
        self.parts_in_order("r", 0..15, |n| format!("x{n}"), (0, 32, Rest::Zero));
        let stack = self.part("sp", 0, 32, Rest::Zero);
        self.add("wsp", stack);
        self.wholes(&[
            ("xsp", "sp"),
            ("lr", "x30"),
            ("fp", "x29"),
            ("pstate", "cpsr"),
        ]);
        self.in_order("sp_el", 0..4, |_| "sp".to_owned());
        for (prefix, bits) in [("q", 128), ("d", 64), ("s", 32), ("h", 16), ("b", 8)] {
            self.parts_in_order(prefix, 0..32, |n| format!("v{n}"), (0, bits, Rest::Zero));
        }
    }

    fn x86_64(&mut self) {
        let old = ["ax", "bx", "cx", "dx", "si", "di", "bp", "sp"];
        for name in old {
            let whole = format!("r{name}");
            self.add(&format!("e{name}"), self.part(&whole, 0, 32, Rest::Zero));
            self.add(name, self.part(&whole, 0, 16, Rest::Kept));
            let byte = match name.strip_suffix('x') {
                Some(letter) => format!("{letter}l"),
                None => format!("{name}l"),
            };
            self.add(&byte, self.part(&whole, 0, 8, Rest::Kept));
            if let Some(letter) = name.strip_suffix('x') {
                self.add(&format!("{letter}h"), self.part(&whole, 8, 8, Rest::Kept));
            }
        }
        for number in 8..16 {
            let whole = format!("r{number}");
            for (suffix, bits, rest) in [
                ("d", 32, Rest::Zero),
                ("w", 16, Rest::Kept),
                ("b", 8, Rest::Kept),
                ("l", 8, Rest::Kept),
            ] {
                self.add(
                    &format!("{whole}{suffix}"),
                    self.part(&whole, 0, bits, rest),
                );
            }
        }
        // The stack pointer that every machine has by this name.
        self.whole("sp", "rsp");
        self.wholes(&[("pc", "rip"), ("rflags", "eflags")]);
        self.vectors(16);
    }

    fn i386(&mut self) {
        for name in ["ax", "bx", "cx", "dx"] {
            let whole = format!("e{name}");
            self.add(name, self.part(&whole, 0, 16, Rest::Kept));
            let letter = name.trim_end_matches('x');
            self.add(&format!("{letter}l"), self.part(&whole, 0, 8, Rest::Kept));
            self.add(&format!("{letter}h"), self.part(&whole, 8, 8, Rest::Kept));
        }
        for name in ["si", "di", "bp"] {
            self.add(name, self.part(&format!("e{name}"), 0, 16, Rest::Kept));
        }
        self.whole("sp", "esp");
        self.whole("pc", "eip");
        self.vectors(8);
    }

    /// `ymm`, each of them two registers for GDB.
    fn vectors(&mut self, count: u32) {
        for number in 0..count {
            let low = self.part(&format!("xmm{number}"), 0, 128, Rest::Kept);
            let high = self.part(&format!("ymm{number}h"), 0, 128, Rest::Kept);
            if let (Some(low), Some(high)) = (low, high) {
                let high = Part {
                    value_bit: 128,
                    ..high
                };
                self.map.insert(format!("ymm{number}"), vec![low, high]);
            }
        }
    }

    fn power(&mut self) {
        self.in_order("gpr", 0..32, |n| format!("r{n}"));
        self.in_order("fpr", 0..32, |n| format!("f{n}"));
        self.in_order("v", 0..32, |n| format!("vr{n}"));
        self.wholes(&[
            ("sp", "r1"),
            ("nip", "pc"),
            ("cia", "pc"),
            ("iar", "pc"),
            ("link", "lr"),
        ]);
        // Fields of the condition register count from the most significant bit.
        for field in 0..8u16 {
            let part = self.part("cr", 28 - 4 * field, 4, Rest::Kept);
            for prefix in ["cr", "crf"] {
                self.add(&format!("{prefix}{field}"), part);
            }
        }
    }

    fn nios2(&mut self) {
        self.in_order("r", 0..32, |number| {
            let name = match number {
                0 => "zero",
                1 => "at",
                24 => "et",
                25 => "bt",
                26 => "gp",
                27 => "sp",
                28 => "fp",
                29 => "ea",
                30 => "sstatus",
                31 => "ra",
                _ => return format!("r{number}"),
            };
            name.to_owned()
        });
        self.whole("ba", "sstatus");
        let control = [
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
        for (number, name) in control.iter().enumerate() {
            self.whole(&format!("ctl{number}"), name);
        }
    }
}

//! The names that assemblers, calling conventions, traces and processors' manuals have for each machine's registers.

use std::collections::HashMap;

use crate::architecture::Architecture;
use crate::layout::RegisterLayout;
use crate::machine::{RegisterPart, UpperBits};

/// The names of a machine's registers and of parts of them, lower-case.
#[derive(Debug, Default)]
pub(crate) struct RegisterNames {
    /// The names of the target description, of assemblers and calling conventions: those that a user may write.
    pub(crate) usual: HashMap<String, Vec<RegisterPart>>,
    /// Names that only traces and manuals use.
    pub(crate) in_traces: HashMap<String, Vec<RegisterPart>>,
}

struct Names<'a> {
    layout: &'a RegisterLayout,
    names: RegisterNames,
    /// Whether the names that are added next are in traces only.
    only_in_traces: bool,
}

/// Every name of a machine.
pub(crate) fn all(architecture: Architecture, layout: &RegisterLayout) -> RegisterNames {
    let mut names = Names {
        layout,
        names: RegisterNames::default(),
        only_in_traces: false,
    };
    for register in layout.registers() {
        names.whole(&register.name, &register.name);
    }
    match architecture {
        Architecture::X86_64 => names.x86_64(),
        Architecture::I386 => names.i386(),
        Architecture::Arm | Architecture::ArmBig => names.arm(),
        Architecture::Aarch64 => names.aarch64(),
        Architecture::Mips
        | Architecture::MipsLittle
        | Architecture::Mips64
        | Architecture::Mips64Little => names.mips(architecture.pointer_size() == 8),
        Architecture::Riscv32 | Architecture::Riscv64 => names.riscv(),
        Architecture::PowerPc | Architecture::PowerPc64 | Architecture::PowerPc64Little => {
            names.power();
        }
        Architecture::Nios2 => names.nios2(),
    }
    names.names
}

/// How the cores of Arm call banked registers and stacks; the trace writes the one of the mode it is in.
const ARM_BANKS: [&str; 9] = [
    "usr", "svc", "irq", "fiq", "mon", "abt", "und", "hyp", "sys",
];

/// The stack pointer of a Cortex-M for a name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum StackBank {
    /// The one after reset, and of every exception handler.
    Main,
    /// The one that CONTROL.SPSEL selects for threads.
    Process,
}

/// The names of stack pointers in traces of Cortex-M cores; those with the security extension have each twice.
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

/// The stack pointer of a Cortex-M for a name.
#[must_use]
pub fn stack_bank(name: &str) -> Option<StackBank> {
    let mut all = ARM_STACKS.iter();
    all.find(|(of, _)| of.eq_ignore_ascii_case(name))
        .map(|(_, bank)| *bank)
}

impl Names<'_> {
    /// RegisterPart of a register, from `bit` on; names of registers that the set does not have are left out.
    fn part(&self, register: &str, bit: u16, bits: u16, upper: UpperBits) -> Option<RegisterPart> {
        let register = self.layout.by_name(register)?;
        Some(RegisterPart {
            register: register.number,
            register_bit: bit,
            value_bit: 0,
            bits,
            upper,
        })
    }

    fn add(&mut self, name: &str, part: Option<RegisterPart>) {
        self.add_parts(name, part.map(|part| vec![part]));
    }

    fn add_parts(&mut self, name: &str, parts: Option<Vec<RegisterPart>>) {
        let map = if self.only_in_traces {
            &mut self.names.in_traces
        } else {
            &mut self.names.usual
        };
        if let Some(parts) = parts {
            map.insert(name.to_ascii_lowercase(), parts);
        }
    }

    fn whole(&mut self, name: &str, register: &str) {
        let bits = self.layout.by_name(register).map_or(0, |one| one.bits);
        let bits = u16::try_from(bits).unwrap_or(u16::MAX);
        self.add(name, self.part(register, 0, bits, UpperBits::Zero));
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
        (bit, bits, rest): (u16, u16, UpperBits),
    ) {
        for number in range {
            let part = self.part(&register(number), bit, bits, rest);
            self.add(&format!("{prefix}{number}"), part);
        }
    }

    fn mips(&mut self, is_64: bool) {
        let names = [
            "zero", "at", "v0", "v1", "a0", "a1", "a2", "a3", "t0", "t1", "t2", "t3", "t4", "t5",
            "t6", "t7", "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "t8", "t9", "k0", "k1",
            "gp", "sp", "fp", "ra",
        ];
        for (number, name) in names.iter().enumerate() {
            // The 64-bit conventions pass eight arguments, and have four temporaries less; traces have the names of both.
            self.only_in_traces = is_64 && (8..16).contains(&number);
            self.whole(name, &format!("r{number}"));
        }
        self.only_in_traces = false;
        self.whole("s8", "r30");
        if is_64 {
            self.in_order("a", 4..8, |n| format!("r{}", n + 4));
            self.in_order("t", 0..4, |n| format!("r{}", n + 12));
        }
        self.only_in_traces = true;
        self.in_order("", 0..32, |n| format!("r{n}"));
        self.in_order("gpr", 0..32, |n| format!("r{n}"));
        self.in_order("fpr", 0..32, |n| format!("f{n}"));
        self.wholes(&[
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
        self.whole("s0", "fp");
        for register in self.layout.registers() {
            if let number @ 0..=31 = register.number.0 {
                self.whole(&format!("x{number}"), &register.name);
            }
        }
        self.only_in_traces = true;
        for register in self.layout.registers() {
            if let number @ 33..=64 = register.number.0 {
                self.whole(&format!("f{}", number - 33), &register.name);
            }
        }
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
            ("ps", "cpsr"),
        ];
        self.wholes(&conventions);
        self.in_order("v", 1..9, |n| format!("r{}", n + 3));
        self.only_in_traces = true;
        self.wholes(&[("xpsr", "cpsr"), ("psr", "cpsr"), ("apsr", "cpsr")]);
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
            let part = self.part(
                &format!("d{}", number / 2),
                number % 2 * 32,
                32,
                UpperBits::Kept,
            );
            self.add(&format!("s{number}"), part);
        }
        for number in 0..16 {
            let halves = [0u16, 1].map(|half| {
                let part = self.part(&format!("d{}", number * 2 + half), 0, 64, UpperBits::Kept)?;
                Some(RegisterPart {
                    value_bit: half * 64,
                    ..part
                })
            });
            if let [Some(low), Some(high)] = halves {
                self.add_parts(&format!("q{number}"), Some(vec![low, high]));
            }
        }
    }

    fn aarch64(&mut self) {
        self.wholes(&[
            ("fp", "x29"),
            ("lr", "x30"),
            ("ip0", "x16"),
            ("ip1", "x17"),
            ("ps", "cpsr"),
        ]);
        self.only_in_traces = true;
        self.parts_in_order("w", 0..31, |n| format!("x{n}"), (0, 32, UpperBits::Zero));
        // The 32-bit state's registers are the lower halves.
        self.parts_in_order("r", 0..15, |n| format!("x{n}"), (0, 32, UpperBits::Zero));
        let stack = self.part("sp", 0, 32, UpperBits::Zero);
        self.add("wsp", stack);
        self.wholes(&[("xsp", "sp"), ("pstate", "cpsr")]);
        self.in_order("sp_el", 0..4, |_| "sp".to_owned());
        for (prefix, bits) in [("q", 128), ("d", 64), ("s", 32), ("h", 16), ("b", 8)] {
            self.parts_in_order(
                prefix,
                0..32,
                |n| format!("v{n}"),
                (0, bits, UpperBits::Zero),
            );
        }
    }

    fn x86_64(&mut self) {
        let old = ["ax", "bx", "cx", "dx", "si", "di", "bp", "sp"];
        for name in old {
            let whole = format!("r{name}");
            self.add(
                &format!("e{name}"),
                self.part(&whole, 0, 32, UpperBits::Zero),
            );
            self.add(name, self.part(&whole, 0, 16, UpperBits::Kept));
            let byte = match name.strip_suffix('x') {
                Some(letter) => format!("{letter}l"),
                None => format!("{name}l"),
            };
            self.add(&byte, self.part(&whole, 0, 8, UpperBits::Kept));
            if let Some(letter) = name.strip_suffix('x') {
                self.add(
                    &format!("{letter}h"),
                    self.part(&whole, 8, 8, UpperBits::Kept),
                );
            }
        }
        for number in 8..16 {
            let whole = format!("r{number}");
            for (suffix, bits, rest) in [
                ("d", 32, UpperBits::Zero),
                ("w", 16, UpperBits::Kept),
                ("l", 8, UpperBits::Kept),
                ("b", 8, UpperBits::Kept),
            ] {
                // The low byte is `r8l` to GDB and `r8b` to the assembler.
                self.only_in_traces = suffix == "b";
                self.add(
                    &format!("{whole}{suffix}"),
                    self.part(&whole, 0, bits, rest),
                );
            }
        }
        self.only_in_traces = false;
        self.wholes(&[
            ("pc", "rip"),
            ("sp", "rsp"),
            ("fp", "rbp"),
            ("ps", "eflags"),
        ]);
        self.only_in_traces = true;
        self.whole("rflags", "eflags");
        self.vectors(16);
    }

    fn i386(&mut self) {
        for name in ["ax", "bx", "cx", "dx"] {
            let whole = format!("e{name}");
            self.add(name, self.part(&whole, 0, 16, UpperBits::Kept));
            let letter = name.trim_end_matches('x');
            self.add(
                &format!("{letter}l"),
                self.part(&whole, 0, 8, UpperBits::Kept),
            );
            self.add(
                &format!("{letter}h"),
                self.part(&whole, 8, 8, UpperBits::Kept),
            );
        }
        for name in ["si", "di", "bp"] {
            self.add(name, self.part(&format!("e{name}"), 0, 16, UpperBits::Kept));
        }
        self.wholes(&[
            ("pc", "eip"),
            ("sp", "esp"),
            ("fp", "ebp"),
            ("ps", "eflags"),
        ]);
        self.only_in_traces = true;
        self.vectors(8);
    }

    /// `ymm`, each of them two registers for GDB.
    fn vectors(&mut self, count: u32) {
        for number in 0..count {
            let low = self.part(&format!("xmm{number}"), 0, 128, UpperBits::Kept);
            let high = self.part(&format!("ymm{number}h"), 0, 128, UpperBits::Kept);
            if let (Some(low), Some(high)) = (low, high) {
                let high = RegisterPart {
                    value_bit: 128,
                    ..high
                };
                self.add_parts(&format!("ymm{number}"), Some(vec![low, high]));
            }
        }
    }

    fn power(&mut self) {
        self.whole("sp", "r1");
        self.only_in_traces = true;
        self.in_order("gpr", 0..32, |n| format!("r{n}"));
        self.in_order("fpr", 0..32, |n| format!("f{n}"));
        self.in_order("v", 0..32, |n| format!("vr{n}"));
        self.wholes(&[("nip", "pc"), ("cia", "pc"), ("iar", "pc"), ("link", "lr")]);
        // Fields of the condition register count from the most significant bit.
        for field in 0..8u16 {
            let part = self.part("cr", 28 - 4 * field, 4, UpperBits::Kept);
            for prefix in ["cr", "crf"] {
                self.add(&format!("{prefix}{field}"), part);
            }
        }
    }

    fn nios2(&mut self) {
        for register in self.layout.registers() {
            if let number @ 0..=31 = register.number.0 {
                self.whole(&format!("r{number}"), &register.name);
            }
        }
        self.only_in_traces = true;
        self.whole("ba", "sstatus");
        // The control registers follow the program counter.
        for register in self.layout.registers() {
            if let number @ 33..=48 = register.number.0 {
                self.whole(&format!("ctl{}", number - 33), &register.name);
            }
        }
    }
}

//! The plugin's facts about each machine besides its registers' names and instructions.

use tracewire_arch::Architecture;

/// How QEMU calls its machines: those of both byte orders have one name each.
const MACHINES: [(&str, Architecture); 15] = [
    ("x86_64", Architecture::X86_64),
    ("i386", Architecture::I386),
    ("arm", Architecture::Arm),
    ("armeb", Architecture::ArmBig),
    ("aarch64", Architecture::Aarch64),
    ("mips", Architecture::Mips),
    ("mipsel", Architecture::MipsLittle),
    ("mips64", Architecture::Mips64),
    ("mips64el", Architecture::Mips64Little),
    ("riscv32", Architecture::Riscv32),
    ("riscv64", Architecture::Riscv64),
    ("ppc", Architecture::PowerPc),
    ("ppc64", Architecture::PowerPc64),
    ("ppc64le", Architecture::PowerPc64Little),
    ("nios2", Architecture::Nios2),
];

/// The machine of one of QEMU's names.
pub fn architecture(target_name: &str) -> Option<Architecture> {
    let mut machines = MACHINES.iter();
    machines
        .find(|(name, _)| *name == target_name)
        .map(|(_, architecture)| *architecture)
}

/// The mode for the value of a register.
type ModeOf = fn(u64) -> Mode;

/// Changes that a machine makes without an instruction, and the place of its mode.
#[derive(Clone, Copy, Debug)]
pub struct Peculiarities {
    /// The register that has the mode, and what its value means.
    pub mode: Option<(&'static str, ModeOf)>,
    /// The mode in the trace for a machine whose mode register cannot be read.
    pub usual_mode: &'static [u8; 3],
    /// The registers that an interrupt or an exception changes, beside the one that has the mode, where the mode stays the same.
    pub at_exceptions: &'static [&'static str],
    /// Those that it changes where no register has the mode.
    pub at_exceptions_without_mode: &'static [&'static str],
    /// The registers that QEMU does not keep up to date while the guest runs: they are left out.
    pub unavailable: &'static [&'static str],
    /// The number of digits of an address.
    pub address_digits: usize,
}

/// The mode of a cpu.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mode {
    /// As the trace names it: the one of QEMU4V's modes that has the same rights.
    pub name: &'static [u8; 3],
    /// The letter of the instruction set.
    pub set: u8,
    /// Whether the registers are those of another machine, so that an instruction's code does not show which it writes.
    pub is_foreign: bool,
    /// Whether the first instruction of a block changes the register that has the mode, whatever its code is.
    pub is_changed_at_once: bool,
    /// Other registers may be in use where this differs.
    pub bank: u64,
}

const fn usual(name: &'static [u8; 3], bank: u64) -> Mode {
    Mode {
        name,
        set: b'A',
        is_foreign: false,
        is_changed_at_once: false,
        bank,
    }
}

impl Peculiarities {
    /// Those of a machine.
    pub fn of(architecture: Architecture) -> Self {
        let none = Self {
            mode: None,
            usual_mode: b"svc",
            at_exceptions: &[],
            at_exceptions_without_mode: &[],
            unavailable: &[],
            address_digits: usize::from(architecture.pointer_size()) * 2,
        };
        match architecture {
            Architecture::X86_64 | Architecture::I386 => Self {
                mode: Some(("cs", x86)),
                at_exceptions: &["rsp", "esp", "ss"],
                // The flags of arithmetic are computed when QEMU stops, and are zero until then.
                unavailable: &["eflags"],
                ..none
            },
            Architecture::Arm | Architecture::ArmBig => Self {
                mode: Some(("cpsr", arm)),
                // The stack pointer is that of the mode.
                at_exceptions: &["lr"],
                // The M profile has no modes. An exception puts registers on the stack, and the return from one takes them back.
                at_exceptions_without_mode: &["r0", "r1", "r2", "r3", "r12", "sp", "lr", "xpsr"],
                ..none
            },
            Architecture::Aarch64 => Self {
                // The stack pointer is that of the mode.
                mode: Some(("cpsr", aarch64)),
                ..none
            },
            Architecture::Mips
            | Architecture::MipsLittle
            | Architecture::Mips64
            | Architecture::Mips64Little => Self {
                mode: Some(("status", mips)),
                at_exceptions: &["cause", "badvaddr"],
                ..none
            },
            Architecture::Riscv32 | Architecture::Riscv64 => Self {
                mode: Some(("priv", riscv)),
                ..none
            },
            Architecture::PowerPc | Architecture::PowerPc64 | Architecture::PowerPc64Little => {
                Self {
                    mode: Some(("msr", power)),
                    ..none
                }
            }
            _ => none,
        }
    }
}

fn x86(cs: u64) -> Mode {
    usual(if cs & 3 == 3 { b"usr" } else { b"svc" }, cs)
}

fn arm(cpsr: u64) -> Mode {
    let name = match cpsr & 31 {
        0x10 => b"usr",
        0x11 => b"fiq",
        0x12 => b"irq",
        0x16 => b"mon",
        0x17 => b"abt",
        0x1b => b"und",
        0x1f => b"sys",
        _ => b"svc",
    };
    let set = if cpsr >> 5 & 1 == 1 { b'T' } else { b'A' };
    Mode {
        set,
        ..usual(name, cpsr & 31)
    }
}

fn aarch64(cpsr: u64) -> Mode {
    if cpsr >> 4 & 1 == 1 {
        return Mode {
            is_foreign: true,
            ..arm(cpsr)
        };
    }
    let name = match cpsr >> 2 & 3 {
        0 => b"usr",
        3 => b"mon",
        _ => b"svc",
    };
    Mode {
        // BTYPE: how an indirect branch came here.
        is_changed_at_once: cpsr >> 10 & 3 != 0,
        ..usual(name, cpsr & 31)
    }
}

fn mips(status: u64) -> Mode {
    // In user mode unless there is an exception or an error.
    let is_user = status & 0x18 == 0x10 && status & 6 == 0;
    usual(if is_user { b"usr" } else { b"svc" }, status)
}

fn riscv(privilege: u64) -> Mode {
    let name = match privilege & 3 {
        0 => b"usr",
        3 => b"mon",
        _ => b"svc",
    };
    usual(name, privilege)
}

fn power(msr: u64) -> Mode {
    usual(if msr >> 14 & 1 == 1 { b"usr" } else { b"svc" }, msr)
}

//! Machines by table: their registers, and which register a name means.
//!
//! A machine's registers are those of the target description that GDB gets, by GDB's names and numbers. Assemblers and traces may
//! call them otherwise, and may write a part of one: `t0` is `r8` on MIPS and `x5` on RISC-V, `w3` is the lower half
//! of `x3` and clears the upper one, `q1` is two registers of Arm.

use std::collections::HashMap;
use std::sync::OnceLock;

use tracewire_model::{ByteOrder, RegisterNumber};

use crate::architecture::Architecture;
use crate::layout::{Register, RegisterLayout};
use crate::names::{self, RegisterNames};
use crate::standard::StandardRegisters;

/// The effect of a partial write on the bits of a register above it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum UpperBits {
    /// They are unchanged.
    Kept,
    /// They become zero.
    Zero,
}

/// A part of a register that has a name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RegisterPart {
    /// The register of the target description.
    pub register: RegisterNumber,
    /// The lowest bit of the register that is meant.
    pub register_bit: u16,
    /// Which bit of the written value goes there.
    pub value_bit: u16,
    /// How many bits.
    pub bits: u16,
    /// The effect on the bits above.
    pub upper: UpperBits,
}

type Machines = HashMap<&'static str, OnceLock<Machine>>;

/// A machine.
#[derive(Debug)]
pub struct Machine {
    architecture: Architecture,
    layout: RegisterLayout,
    target_xml: String,
    core: Vec<RegisterNumber>,
    names: RegisterNames,
    zero: Option<Register>,
}

/// Registers that only Linux has, or only some processors.
const NOT_EVERYWHERE: [&str; 6] = ["orig_rax", "orig_eax", "orig_r3", "restart", "k0h", "k7"];

impl Machine {
    /// The machine of this architecture without an operating system, as simulators have it: with the largest set of registers, without what only
    /// Linux and only some processors have.
    #[must_use]
    pub fn of(architecture: Architecture) -> &'static Self {
        static MACHINES: OnceLock<Machines> = OnceLock::new();
        Self::kept(&MACHINES, architecture, |sets| {
            let is_everywhere = |set: &&StandardRegisters| {
                let layout = set.layout();
                (NOT_EVERYWHERE.iter()).all(|name| layout.by_name(name).is_none())
            };
            sets.iter().rev().find(is_everywhere).or(sets.first())
        })
    }

    /// The machine of this architecture that runs Linux, with the registers that expressions name: on x86 those of every processor.
    #[must_use]
    pub fn with_linux(architecture: Architecture) -> &'static Self {
        static MACHINES: OnceLock<Machines> = OnceLock::new();
        Self::kept(&MACHINES, architecture, |sets| {
            let has_avx = |set: &StandardRegisters| set.layout().by_name("ymm0h").is_some();
            sets.iter().rev().find(|set| !has_avx(set))
        })
    }

    fn kept(
        machines: &'static OnceLock<Machines>,
        architecture: Architecture,
        choose: fn(&[StandardRegisters]) -> Option<&StandardRegisters>,
    ) -> &'static Self {
        let machines = machines.get_or_init(|| {
            let all = Architecture::ALL.iter();
            all.map(|one| (one.name(), OnceLock::new())).collect()
        });
        machines[architecture.name()].get_or_init(|| Self::new(architecture, choose))
    }

    fn new(
        architecture: Architecture,
        choose: fn(&[StandardRegisters]) -> Option<&StandardRegisters>,
    ) -> Self {
        let sets = StandardRegisters::all(architecture);
        let set = choose(&sets).expect("every machine has a set of registers");
        let layout = set.layout();
        let core = sets.first().map(StandardRegisters::layout);
        let core = core.iter().flat_map(RegisterLayout::registers);
        Self {
            architecture,
            core: core.map(|register| register.number).collect(),
            zero: zero_name(architecture).and_then(|name| layout.by_name(name).cloned()),
            names: names::all(architecture, &layout),
            target_xml: set.target_xml(),
            layout,
        }
    }

    /// Its name and byte order.
    #[must_use]
    pub const fn architecture(&self) -> Architecture {
        self.architecture
    }

    /// The byte order of its data.
    #[must_use]
    pub const fn byte_order(&self) -> ByteOrder {
        self.architecture.byte_order()
    }

    /// The size of a pointer, in bytes.
    #[must_use]
    pub const fn pointer_size(&self) -> u8 {
        self.architecture.pointer_size()
    }

    /// The registers, by GDB's names and numbers.
    #[must_use]
    pub const fn layout(&self) -> &RegisterLayout {
        &self.layout
    }

    /// The target description of the registers. It does not contain the byte order, which GDB takes from the program or `set
    /// endian`.
    #[must_use]
    pub fn target_xml(&self) -> &str {
        &self.target_xml
    }

    /// The program counter.
    #[must_use]
    pub fn program_counter(&self) -> &Register {
        self.layout
            .program_counter()
            .expect("every set of registers has a program counter")
    }

    /// The register that points to the top of the stack, by calling convention.
    #[must_use]
    pub fn stack_pointer(&self) -> RegisterNumber {
        self.number(b"sp")
    }

    /// The register that holds the return address at the start of a function; none where that is on the stack.
    #[must_use]
    pub fn return_address(&self) -> Option<RegisterNumber> {
        let name: &[u8] = match self.architecture {
            Architecture::X86_64 | Architecture::I386 => return None,
            Architecture::Arm | Architecture::ArmBig | Architecture::Aarch64 => b"lr",
            Architecture::PowerPc | Architecture::PowerPc64 | Architecture::PowerPc64Little => {
                b"lr"
            }
            _ => b"ra",
        };
        Some(self.number(name))
    }

    /// The register that holds the thread pointer; none where that is not a register of the table.
    #[must_use]
    pub fn thread_pointer(&self) -> Option<RegisterNumber> {
        let name = match self.architecture {
            Architecture::X86_64 => "fs_base",
            Architecture::Riscv32 | Architecture::Riscv64 => "tp",
            _ => return None,
        };
        self.layout.by_name(name).map(|register| register.number)
    }

    /// The registers of the core feature, which every processor of the machine has: on x86 general, segment, flags, x87.
    #[must_use]
    pub fn core_registers(&self) -> &[RegisterNumber] {
        &self.core
    }

    /// The register that is always zero; none where the machine has no such register.
    #[must_use]
    pub const fn zero(&self) -> Option<&Register> {
        self.zero.as_ref()
    }

    fn number(&self, name: &[u8]) -> RegisterNumber {
        self.locate(name)
            .and_then(|parts| parts.first())
            .map_or(RegisterNumber(0), |part| part.register)
    }

    /// The registers, or parts of them, for a name in a trace. Case is ignored, and so are a `$` or `%` before it and a bank after
    /// it (`R1 (USR)`). `None` for a name that is not in the table: a register that GDB does not have.
    #[must_use]
    pub fn locate(&self, name: &[u8]) -> Option<&[RegisterPart]> {
        let name = name.split(|byte| *byte == b'(').next()?.trim_ascii();
        let name = name
            .strip_prefix(b"$")
            .or(name.strip_prefix(b"%"))
            .unwrap_or(name);
        let name = std::str::from_utf8(name).ok()?.to_ascii_lowercase();
        let names = [&self.names.in_traces, &self.names.usual];
        let found = names.iter().find_map(|names| names.get(&name));
        found.map(Vec::as_slice)
    }

    /// The register, or the part of one, that a user means by a name: one of the target description, of the assembler or of the calling
    /// convention.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<RegisterPart> {
        match self.names.usual.get(name)?.as_slice() {
            [part] => Some(*part),
            _ => None,
        }
    }
}

const fn zero_name(architecture: Architecture) -> Option<&'static str> {
    match architecture {
        Architecture::Mips
        | Architecture::MipsLittle
        | Architecture::Mips64
        | Architecture::Mips64Little => Some("r0"),
        Architecture::Riscv32 | Architecture::Riscv64 | Architecture::Nios2 => Some("zero"),
        _ => None,
    }
}

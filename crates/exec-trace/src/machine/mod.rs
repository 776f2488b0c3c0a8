//! Machines by table: their registers and the names traces have for them, and which machine a trace is of.
//!
//! A machine's registers are those of the target description that GDB gets, by GDB's names and numbers. A trace may
//! call them otherwise, and may write a part of one: `t0` is `r8` on MIPS and `x5` on RISC-V, `w3` is the lower half
//! of `x3` and clears the upper one, `q1` is two registers of Arm.
//!
//! ```
//! use tracewire_exec_trace::machine::Machine;
//! use tracewire_arch::Architecture;
//!
//! let mips = Machine::of(Architecture::Mips);
//! let part = mips.locate(b"t0").expect("every MIPS has it")[0];
//! assert_eq!(mips.layout().by_number(part.register).expect("a register").name, "r8");
//! ```

mod data_order;
mod elf;
mod flow;
mod guess;
mod names;
mod stores;

use std::collections::HashMap;
use std::sync::OnceLock;

use tracewire_arch::{Architecture, Register, RegisterLayout, StandardRegisters};
use tracewire_model::{ByteOrder, RegisterNumber};

pub use data_order::{DataOrderEvidence, DataOrderObserver};
pub use elf::of_elf;
pub use flow::{DelaySlot, Flow, FlowKind};
pub use guess::{Settled, guess, settle};
pub(crate) use names::{StackBank, stack_bank};
pub use stores::Stores;

/// What happens to the bits of a register above the part that is written.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Rest {
    /// They stay.
    Kept,
    /// They become zero.
    Zero,
}

/// A part of a register that a name stands for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Part {
    /// The register of the target description.
    pub register: RegisterNumber,
    /// The lowest bit of the register that is meant.
    pub register_bit: u16,
    /// Which bit of the written value goes there.
    pub value_bit: u16,
    /// How many bits.
    pub bits: u16,
    /// What becomes of the bits above.
    pub rest: Rest,
}

/// A machine.
#[derive(Debug)]
pub struct Machine {
    architecture: Architecture,
    layout: RegisterLayout,
    target_xml: String,
    names: HashMap<String, Vec<Part>>,
    zero: Option<Register>,
}

impl Machine {
    /// The machine of this architecture.
    #[must_use]
    pub fn of(architecture: Architecture) -> &'static Self {
        static MACHINES: OnceLock<HashMap<&'static str, OnceLock<Machine>>> = OnceLock::new();
        let machines = MACHINES.get_or_init(|| {
            let all = Architecture::ALL.iter();
            all.map(|one| (one.name(), OnceLock::new())).collect()
        });
        machines[architecture.name()].get_or_init(|| Self::new(architecture))
    }

    fn new(architecture: Architecture) -> Self {
        // The largest set, without what only Linux and only some processors have: nothing of it is made up, for
        // what the trace does not tell is unavailable.
        let sets = StandardRegisters::all(architecture);
        let set = sets
            .iter()
            .rev()
            .find(|set| {
                let layout = set.layout();
                ["orig_rax", "orig_eax", "orig_r3", "restart", "k0h", "k7"]
                    .iter()
                    .all(|name| layout.by_name(name).is_none())
            })
            .or(sets.first());
        let set = set.expect("every machine has a set of registers");
        let layout = set.layout();
        Self {
            architecture,
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

    /// The target description of the registers. It does not tell the byte order, which GDB takes from the program or
    /// `set endian`.
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

    /// The registers, or parts of them, that a trace means by a name. Upper and lower case are the same; a `$` or `%`
    /// before it and a bank behind it (`R1 (USR)`) mean nothing. None for a name that is not in the table: a
    /// register that GDB does not know of.
    #[must_use]
    pub fn locate(&self, name: &[u8]) -> Option<&[Part]> {
        let name = name.split(|byte| *byte == b'(').next()?.trim_ascii();
        let name = name
            .strip_prefix(b"$")
            .or(name.strip_prefix(b"%"))
            .unwrap_or(name);
        let name = std::str::from_utf8(name).ok()?.to_ascii_lowercase();
        self.names.get(&name).map(Vec::as_slice)
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

//! Fields that can be read but that the format does not allow.
//!
//! Readers are tolerant, since a trace that is not quite in its format is better than none. QEMU4V's documentation is stricter: it
//! lists the modes, an opcode has 16, 32 or 64 bits, data has the digits of its size, and names of registers are lower-case. An
//! access of 3 bytes is one of MIPS's unaligned loads and stores. MicroTESK's tracer has sizes of any number of bytes and other
//! names of registers.

use std::fmt;

use tracewire_arch::{Architecture, InstructionSet, Machine};
use tracewire_exec_trace::record::{Access, Instruction, Owner, RegisterWrite, Scale};
use tracewire_exec_trace::text::Format;

use super::{Fault, Findings, Here};

/// QEMU4V's modes.
const MODES: [&str; 8] = ["svc", "irq", "fiq", "usr", "mon", "sys", "abt", "und"];

/// A field that the format does not allow.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Field {
    /// Data of fewer digits than its size has.
    Data {
        /// How many hex digits it has.
        digits: u32,
        /// The size of the access, in bytes.
        size: u32,
    },
    /// An access of a size that no access has.
    Size(u32),
    /// A code of a width that no instruction has, in bits.
    Opcode(u32),
    /// An instruction set of another format.
    Set(InstructionSet),
    /// A mode that there is not.
    Mode(String),
    /// A security state that there is not.
    Security(String),
    /// A register whose name is not lower-case.
    Register(String),
    /// Another unit of time than that of the lines above.
    Unit {
        /// That of the trace's first lines.
        before: Scale,
        /// This one.
        now: Scale,
    },
}

impl Field {
    /// How many kinds there are.
    pub(super) const KINDS: usize = 8;

    /// Which kind it is.
    pub(super) const fn kind(&self) -> usize {
        match self {
            Self::Data { .. } => 0,
            Self::Size(_) => 1,
            Self::Opcode(_) => 2,
            Self::Set(_) => 3,
            Self::Mode(_) => 4,
            Self::Security(_) => 5,
            Self::Register(_) => 6,
            Self::Unit { .. } => 7,
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Data { digits, size } => write!(
                f,
                "too little data: {digits} hex digits for {size} bytes, expected {}",
                size * 2
            ),
            Self::Size(size) => write!(
                f,
                "an access of {size} bytes: expected 1, 2, 4, 8 or another power of 2"
            ),
            Self::Opcode(bits) => {
                write!(f, "an opcode of {bits} bits: expected 16, 32 or 64")
            }
            Self::Set(set) => write!(
                f,
                "the instruction set `{}`: expected A, T or X",
                set.name()
            ),
            Self::Mode(mode) => {
                write!(f, "the mode `{mode}`: expected one of {}", MODES.join(" "))
            }
            Self::Security(security) => {
                write!(f, "the security state `{security}`: expected s or ns")
            }
            Self::Register(name) => {
                write!(f, "the register `{name}`: expected a name in lower case")
            }
            Self::Unit { before, now } => write!(
                f,
                "the unit of time changes: expected {} as above, not {}",
                before.name(),
                now.name()
            ),
        }
    }
}

/// Looks at the fields of records.
pub(super) struct Fields {
    is_qemu4v: bool,
    /// MicroTESK's too.
    is_either: bool,
    /// Instructions of x86 have any number of bytes.
    has_any_width: bool,
    is_mips: bool,
    /// The latest instruction loads or stores a part of a word, which may have 3 bytes.
    is_unaligned: bool,
    /// The unit of the first line that has one, and that of the latest.
    units: Option<(Scale, Scale)>,
}

impl Fields {
    pub(super) fn new(format: Format, machine: Option<&Machine>) -> Self {
        let is_x86 = |machine: &Machine| {
            matches!(
                machine.architecture(),
                Architecture::X86_64 | Architecture::I386
            )
        };
        let is_mips = |machine: &Machine| {
            matches!(
                machine.architecture(),
                Architecture::Mips
                    | Architecture::MipsLittle
                    | Architecture::Mips64
                    | Architecture::Mips64Little
            )
        };
        Self {
            is_qemu4v: format == Format::Qemu4v,
            is_either: matches!(format, Format::Qemu4v | Format::Microtesk),
            has_any_width: machine.is_some_and(is_x86),
            is_mips: machine.is_some_and(is_mips),
            is_unaligned: false,
            units: None,
        }
    }

    /// The unit of a line's time.
    fn unit(&mut self, here: Here, now: Scale, findings: &mut Findings) {
        if now == Scale::None {
            return;
        }
        let (first, latest) = self.units.get_or_insert((now, now));
        let before = std::mem::replace(latest, now);
        // For lines with a constant other unit only the first is reported.
        if now != *first && now != before {
            let before = *first;
            findings.add(here, Fault::Field(Field::Unit { before, now }));
        }
    }

    pub(super) fn instruction(
        &mut self,
        here: Here,
        instruction: &Instruction<'_>,
        findings: &mut Findings,
    ) {
        self.unit(here, instruction.time.scale, findings);
        if !self.is_either {
            return;
        }
        // lwl, lwr, swl, swr, and those of double words.
        self.is_unaligned = self.is_mips
            && instruction.opcode.is_some_and(|opcode| {
                matches!(
                    opcode.value >> 26,
                    0x1a | 0x1b | 0x22 | 0x26 | 0x2a | 0x2c | 0x2d | 0x2e
                )
            });
        let mut add = |field| findings.add(here, Fault::Field(field));
        if let Some(opcode) = instruction.opcode
            && !matches!(opcode.digits, 4 | 8 | 16)
            && !self.has_any_width
        {
            add(Field::Opcode(opcode.bits()));
        }
        if let Some(set) = instruction.set
            && !matches!(
                set,
                InstructionSet::A | InstructionSet::T | InstructionSet::X
            )
        {
            add(Field::Set(set));
        }
        // If the state is one of the two, the mode is the part before it.
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut parts = instruction.mode.splitn(2, |byte| *byte == b'_');
        let (mode, security) = (parts.next().unwrap_or_default(), parts.next());
        if !MODES.iter().any(|known| known.as_bytes() == mode) {
            add(Field::Mode(text(mode)));
        }
        if let Some(security) = security {
            add(Field::Security(text(security)));
        }
    }

    pub(super) fn access(
        &mut self,
        here: Here,
        owner: Owner,
        access: &Access<'_>,
        findings: &mut Findings,
    ) {
        self.unit(here, access.time.scale, findings);
        if !self.is_either {
            return;
        }
        let (digits, size) = (access.data.digits(), access.size);
        if digits < size.saturating_mul(2) {
            findings.add(here, Fault::Field(Field::Data { digits, size }));
        }
        let may_be_part = self.is_mips && (self.is_unaligned || owner != Owner::Latest) && size < 8;
        if self.is_qemu4v && !size.is_power_of_two() && !may_be_part {
            findings.add(here, Fault::Field(Field::Size(size)));
        }
    }

    pub(super) fn register(
        &mut self,
        here: Here,
        write: &RegisterWrite<'_>,
        findings: &mut Findings,
    ) {
        self.unit(here, write.time.scale, findings);
        if self.is_qemu4v && write.register.iter().any(u8::is_ascii_uppercase) {
            let name = String::from_utf8_lossy(write.register).into_owned();
            findings.add(here, Fault::Field(Field::Register(name)));
        }
    }
}

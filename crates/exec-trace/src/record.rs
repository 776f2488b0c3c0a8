//! What one line of an execution trace says: an instruction, an access to memory, a write to a register, or
//! something else that is kept as text.
//!
//! Records borrow from the line they were read from. They keep how wide a number was written, so that a writer
//! can print the same line again.

use std::fmt;
use tracewire_arch::{InstructionCode, InstructionSet, Opcode};

pub use tracewire_model::{Address, ByteOrder};

pub use crate::value::{Value, ValueByte};

/// An instruction, by its place among the instruction records of the trace, from 0. Skipped instructions count.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct InstructionNumber(pub u64);

impl fmt::Display for InstructionNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A processor of the trace, by the number the trace gives it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct CpuNumber(pub u32);

impl fmt::Display for CpuNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a time counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Scale {
    /// No scale was written.
    None = 0,
    /// `clk`: QEMU4V and MicroTESK count instructions with it, Tarmac cycles.
    Clk = 1,
    /// `ns`, nanoseconds.
    Nanoseconds = 2,
    /// `ps`, picoseconds.
    Picoseconds = 3,
    /// `us`, microseconds.
    Microseconds = 4,
    /// `ms`, milliseconds.
    Milliseconds = 5,
    /// `cs`, of Arm's cycle models.
    Cs = 6,
    /// `cyc`, cycles.
    Cycles = 7,
    /// `tic`, of register transfer simulators.
    Ticks = 8,
}

impl Scale {
    /// Every scale that has a name.
    pub const NAMED: [Self; 8] = [
        Self::Clk,
        Self::Nanoseconds,
        Self::Picoseconds,
        Self::Microseconds,
        Self::Milliseconds,
        Self::Cs,
        Self::Cycles,
        Self::Ticks,
    ];

    /// As it is written; nothing for [`Scale::None`].
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Clk => "clk",
            Self::Nanoseconds => "ns",
            Self::Picoseconds => "ps",
            Self::Microseconds => "us",
            Self::Milliseconds => "ms",
            Self::Cs => "cs",
            Self::Cycles => "cyc",
            Self::Ticks => "tic",
        }
    }

    /// The scale of this name.
    #[must_use]
    pub const fn of_name(name: &[u8]) -> Option<Self> {
        match name {
            b"clk" => Some(Self::Clk),
            b"ns" => Some(Self::Nanoseconds),
            b"ps" => Some(Self::Picoseconds),
            b"us" => Some(Self::Microseconds),
            b"ms" => Some(Self::Milliseconds),
            b"cs" => Some(Self::Cs),
            b"cyc" => Some(Self::Cycles),
            b"tic" => Some(Self::Ticks),
            _ => None,
        }
    }
}

impl fmt::Display for Scale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A time as the trace has it: `ticks / 10^decimals` of its scale.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Time {
    /// The digits, the decimal point left out.
    pub ticks: u64,
    /// How many of the digits are after the decimal point, at most 18.
    pub decimals: u8,
    /// What it counts.
    pub scale: Scale,
}

impl Time {
    /// The time before any was given.
    pub const ZERO: Self = Self {
        ticks: 0,
        decimals: 0,
        scale: Scale::None,
    };

    /// A whole number of a scale.
    #[must_use]
    pub const fn whole(ticks: u64, scale: Scale) -> Self {
        Self {
            ticks,
            decimals: 0,
            scale,
        }
    }

    /// Reads a time: a decimal number, perhaps with a fraction, and perhaps a scale after it.
    ///
    /// ```
    /// use tracewire_exec_trace::record::{Scale, Time};
    ///
    /// let time = Time::parse("12.50 ns").expect("a time");
    /// assert_eq!((time.ticks, time.decimals, time.scale), (1250, 2, Scale::Nanoseconds));
    /// assert!(Time::parse("12.").is_none());
    /// ```
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let end = text.find(|of: char| !of.is_ascii_digit() && of != '.');
        let (number, scale) = text.split_at(end.unwrap_or(text.len()));
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        let is_number = |digits: &str| digits.bytes().all(|of| of.is_ascii_digit());
        if whole.is_empty() || fraction.is_empty() || !is_number(fraction) {
            return None;
        }
        let fraction = match number.contains('.') {
            true => fraction,
            false => "",
        };
        let scale = match scale.trim() {
            "" => Scale::None,
            name => Scale::of_name(name.as_bytes())?,
        };
        Some(Self {
            ticks: format!("{whole}{fraction}").parse().ok()?,
            decimals: u8::try_from(fraction.len()).ok().filter(|of| *of <= 18)?,
            scale,
        })
    }

    /// The ticks of this time, or the next after it, where so many of their digits are after the decimal point; none
    /// where these are too many for a number.
    #[must_use]
    pub fn ticks_with(self, decimals: u8) -> Option<u64> {
        match decimals.checked_sub(self.decimals) {
            Some(more) => self.ticks.checked_mul(10u64.checked_pow(more.into())?),
            None => {
                let fewer = u32::from(self.decimals - decimals);
                Some(self.ticks.div_ceil(10u64.checked_pow(fewer)?))
            }
        }
    }

    /// The order of two times of one trace; scales are taken to be the same.
    #[must_use]
    pub fn compare(self, other: Self) -> std::cmp::Ordering {
        if self.decimals == other.decimals {
            return self.ticks.cmp(&other.ticks);
        }
        let scaled =
            |time: Self| u128::from(time.ticks) * 10u128.pow(18 - u32::from(time.decimals).min(18));
        scaled(self).cmp(&scaled(other))
    }
}

/// The number and, after a blank, the scale.
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.decimals == 0 {
            write!(f, "{}", self.ticks)?;
        } else {
            let unit = 10u64.pow(u32::from(self.decimals).min(18));
            let (whole, part) = (self.ticks / unit, self.ticks % unit);
            let digits = usize::from(self.decimals);
            write!(f, "{whole}.{part:0digits$}")?;
        }
        if self.scale != Scale::None {
            write!(f, " {}", self.scale)?;
        }
        Ok(())
    }
}

/// Whether the processor was in its secure state.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Security {
    /// `s`.
    Secure = 0,
    /// `ns`.
    NonSecure = 1,
}

impl Security {
    /// As it is written after the mode: `s` or `ns`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Secure => "s",
            Self::NonSecure => "ns",
        }
    }
}

/// An instruction record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Instruction<'a> {
    /// When; where the line has no time, that of the line before.
    pub time: Time,
    /// Which processor, where the line says.
    pub cpu: Option<CpuNumber>,
    /// Whether it was executed (`IT`) and not skipped because its condition failed (`IS`).
    pub taken: bool,
    /// The number the trace gives it.
    pub id: Option<u64>,
    /// Its virtual address.
    pub address: Address,
    /// With how many hex digits the address was written.
    pub address_digits: u8,
    /// Its code, where the line has it.
    pub opcode: Option<Opcode>,
    /// The instruction set, where the line says.
    pub set: Option<InstructionSet>,
    /// The mode, such as `svc` or `EL1h`; empty where the line has none.
    pub mode: &'a [u8],
    /// The security state, where the line says.
    pub security: Option<Security>,
    /// The disassembly, the blanks around it left out.
    pub disassembly: &'a [u8],
}

impl Instruction<'_> {
    /// Its code and where it is; none where the line has no code.
    #[must_use]
    pub fn code(&self) -> Option<InstructionCode> {
        Some(InstructionCode {
            address: self.address,
            address_digits: self.address_digits,
            opcode: self.opcode?,
            set: self.set,
        })
    }
}

/// Whether memory is read or written.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum AccessKind {
    /// `MR`.
    Read,
    /// `MW`.
    Write,
}

/// How an access was made, where the line says.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum AccessAttribute {
    /// `X`: privileged in QEMU4V, exclusive in Tarmac.
    X,
    /// `T`: non-privileged (translated).
    T,
}

impl AccessAttribute {
    /// As it is written after the size.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::X => "X",
            Self::T => "T",
        }
    }
}

/// How the digits of an access's data go to memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum DataOrder {
    /// They are one number; its bytes are in memory in the target's byte order.
    Number,
    /// The last byte written is at the lowest address, on every target.
    HighestAddressFirst,
    /// The first byte written is at the lowest address, on every target.
    LowestAddressFirst,
}

impl DataOrder {
    /// The order that holds where it is known better than from the type of the line: `known`, but for accesses whose form leaves
    /// no doubt.
    #[must_use]
    pub const fn settled(self, known: Option<Self>) -> Self {
        match (self, known) {
            (Self::Number | Self::LowestAddressFirst, Some(known)) => known,
            _ => self,
        }
    }
}

/// A memory access record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access<'a> {
    /// When; where the line has no time, that of the line before.
    pub time: Time,
    /// Which processor, where the line says. QEMU4V's never do.
    pub cpu: Option<CpuNumber>,
    /// Read or written.
    pub kind: AccessKind,
    /// How many bytes.
    pub size: u32,
    /// The attribute after the size.
    pub attribute: Option<AccessAttribute>,
    /// The virtual address of the first byte.
    pub address: Address,
    /// With how many hex digits the address was written.
    pub address_digits: u8,
    /// The data, of at most twice `size` digits; missing ones at the front are zeros.
    pub data: Value<'a>,
    /// How the data goes to memory.
    pub order: DataOrder,
}

impl Access<'_> {
    /// The bytes as they are in the memory of a target of this byte order, from the lowest address on: `size` of
    /// them, put into `bytes` in place of what is there.
    pub fn memory_bytes(&self, order: ByteOrder, bytes: &mut Vec<ValueByte>) {
        const ZERO: ValueByte = ValueByte {
            bits: 0,
            known: 0xff,
        };
        bytes.clear();
        bytes.extend(self.data.bytes().take(self.size as usize));
        bytes.resize(self.size as usize, ZERO);
        let is_reversed = match self.order {
            DataOrder::Number => order == ByteOrder::Big,
            DataOrder::HighestAddressFirst => false,
            DataOrder::LowestAddressFirst => true,
        };
        if is_reversed {
            bytes.reverse();
        }
    }
}

/// Part of a register: the bits from `high` down to `low`, both included.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BitRange {
    /// The most significant bit.
    pub high: u16,
    /// The least significant bit, at most `high`.
    pub low: u16,
}

/// A register write record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RegisterWrite<'a> {
    /// When; where the line has no time, that of the line before.
    pub time: Time,
    /// Which processor, where the line says. QEMU4V's never do.
    pub cpu: Option<CpuNumber>,
    /// The register's name as it was written; Tarmac's may have a bank after it: `R1 (USR)`.
    pub register: &'a [u8],
    /// The part of the register that is written, where the line says `<hi:lo>`; the value is of these bits.
    pub part: Option<BitRange>,
    /// The value; unknown digits stay as they were.
    pub value: Value<'a>,
}

/// Something else that the trace says: an exception, an event, a header, a branch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event<'a> {
    /// When; where the line has no time, that of the line before.
    pub time: Time,
    /// Which processor, where the line says.
    pub cpu: Option<CpuNumber>,
    /// What it is.
    pub kind: EventKind,
    /// The line's text after time and cpu, its first word included.
    pub text: &'a [u8],
}

/// What kind of event a line says.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum EventKind {
    /// An exception, an interrupt or a reset: the next instruction may be anywhere.
    Exception,
    /// A line of the file's head.
    Header,
    /// Anything else.
    Other,
}

/// Any record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Record<'a> {
    /// An instruction was executed, or skipped.
    Instruction(Instruction<'a>),
    /// Memory was accessed.
    Access(Access<'a>),
    /// A register was written.
    Register(RegisterWrite<'a>),
    /// Something else.
    Event(Event<'a>),
}

impl Record<'_> {
    /// When.
    #[must_use]
    pub const fn time(&self) -> Time {
        match self {
            Self::Instruction(Instruction { time, .. })
            | Self::Access(Access { time, .. })
            | Self::Register(RegisterWrite { time, .. })
            | Self::Event(Event { time, .. }) => *time,
        }
    }

    /// Which processor, where the line says.
    #[must_use]
    pub const fn cpu(&self) -> Option<CpuNumber> {
        match self {
            Self::Instruction(Instruction { cpu, .. })
            | Self::Access(Access { cpu, .. })
            | Self::Register(RegisterWrite { cpu, .. })
            | Self::Event(Event { cpu, .. }) => *cpu,
        }
    }
}

/// A line of the trace's text: its number, from 1, and its bytes without the end of the line.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Line {
    /// The number, from 1; a reader of a piece counts from the number it was given.
    pub number: u64,
    /// Offset of the first byte in the text.
    pub start: u64,
    /// Offset after the last byte, the line's end not included.
    pub end: u64,
}

/// To which instruction a memory access or a register write belongs, found when its line is read.
///
/// QEMU4V's lines carry no cpu: they belong to the instruction of their time where there is one near, else to the
/// latest before them. See [`crate::text`] for the whole rule.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Owner {
    /// The latest instruction that was read.
    Latest,
    /// An earlier one: so many before the latest, at least 1.
    Earlier(u32),
    /// The instruction that comes next.
    Next,
    /// None: the line is before every instruction and gives the state at the start.
    Start,
}

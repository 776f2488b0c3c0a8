//! The definitions of a trace run: tracepoints, their actions, trace state variables.
//!
//! These are the records of a qTfP/qTsP and a qTfV/qTsV reply, which are also the `tp` and `tsv` lines of a
//! trace file.

use std::borrow::Cow;

use crate::aggregate::Aggregate;
use crate::counting::Counting;
use crate::number::{Address, RegisterNumber, TracepointNumber, VariableNumber};
use crate::span::SpanPoint;
use crate::watch::WatchedObject;

/// One location of one tracepoint. Several locations of one tracepoint are several definitions of the same
/// number: the key is (number, address) everywhere.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TracepointDefinition {
    /// GDB's number for the tracepoint.
    pub number: TracepointNumber,
    /// Where it is.
    pub address: Address,
    /// Whether it collects.
    pub enabled: bool,
    /// How it is to be installed.
    pub kind: TracepointKind,
    /// How many instructions `while-stepping` collects after a hit; 0 without `while-stepping`.
    pub step_count: u64,
    /// After how many hits the run stops; 0 means never.
    pub pass_count: u64,
    /// The condition, as agent expression bytecode.
    pub condition: Option<Vec<u8>>,
    /// The actions of a hit, in order.
    pub actions: Vec<Action>,
    /// The actions of each step of `while-stepping`, in order.
    pub step_actions: Vec<Action>,
    /// The aggregates of a hit. It is in no packet and no line of a file; `source` has the text for a reader.
    pub counting: Counting,
    /// Whether its frames have only the registers that its actions request, in a run whose frames have all. It is in no packet and
    /// no line of a file.
    pub withholds_registers: bool,
    /// How many bytes below the stack pointer a pad may use there, if that is few and other memory is below them. It is in no packet
    /// and no line of a file.
    pub free_stack: Option<u32>,
    /// The user's own words.
    pub source: SourceStrings,
}

impl TracepointDefinition {
    /// An enabled tracepoint by a trap, without condition, steps, pass count and actions.
    #[must_use]
    pub fn new(number: TracepointNumber, address: Address) -> Self {
        Self {
            number,
            address,
            enabled: true,
            kind: TracepointKind::Trap,
            step_count: 0,
            pass_count: 0,
            condition: None,
            actions: Vec::new(),
            step_actions: Vec::new(),
            counting: Counting::default(),
            withholds_registers: false,
            free_stack: None,
            source: SourceStrings::default(),
        }
    }

    /// The key of this location of this tracepoint, which no other has.
    #[must_use]
    pub const fn key(&self) -> (TracepointNumber, Address) {
        (self.number, self.address)
    }

    /// Whether a hit makes a frame: a tracepoint with aggregates does only if it also collects.
    #[must_use]
    pub fn makes_frames(&self) -> bool {
        !self.actions.is_empty() || self.step_count > 0 || self.source.counts.is_empty()
    }
}

/// How a tracepoint is to be installed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TracepointKind {
    /// With a trap.
    Trap,
    /// With a jump; `length` bytes of the program are displaced.
    Fast {
        /// The length of the displaced instruction, in bytes.
        length: u64,
    },
    /// At a marker that the program's authors left.
    Static,
}

/// The user's own words for a tracepoint, which a reader shows and GDB merges by.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SourceStrings {
    /// The location, as given.
    pub at: Option<String>,
    /// The condition, as given.
    pub condition: Option<String>,
    /// The action lines, in order, `while-stepping` and `end` included.
    pub commands: Vec<String>,
    /// The name of the USDT probe at the location. `at` is its address then: GDB 13 stops reading a file whose location is `-m
    /// NAME`, though it writes that itself.
    pub marker: Option<String>,
    /// The level of the frame that the location means, a number as GDB numbers frames; none for the innermost. GDB 13 reads
    /// conditions and actions in the innermost frame.
    pub frame: Option<String>,
    /// The condition, as given, where GDB 13 cannot read it: it ends its reading of a file at such a one. There is no
    /// `condition` then.
    pub own_condition: Option<String>,
    /// The location, as given, where GDB 13 would take it for another place, or would not find it. `at` is what GDB finds the
    /// place by.
    pub own_location: Option<String>,
    /// The location's role in the function of a span, in the form of [`SpanPoint`](crate::SpanPoint).
    pub span: Option<String>,
    /// The watched object, in the form of [`WatchedObject`]; `None` for a tracepoint on code.
    pub watch: Option<String>,
    /// The aggregates, as [`Aggregate`] writes each, in order.
    pub counts: Vec<String>,
}

impl SourceStrings {
    /// The condition for a reader, as given.
    #[must_use]
    pub fn condition(&self) -> Option<&str> {
        self.condition.as_deref().or(self.own_condition.as_deref())
    }

    /// The location's role in the function of a span; `None` for another tracepoint.
    #[must_use]
    pub fn span_point(&self) -> Option<SpanPoint> {
        self.span.as_deref()?.parse().ok()
    }

    /// The watched object; `None` for a tracepoint on code.
    #[must_use]
    pub fn watched_object(&self) -> Option<WatchedObject> {
        self.watch.as_deref()?.parse().ok()
    }

    /// The aggregates.
    pub fn aggregates(&self) -> impl Iterator<Item = Aggregate> {
        self.counts.iter().filter_map(|text| text.parse().ok())
    }

    /// The pick, which decides which hits make frames.
    #[must_use]
    pub fn pick(&self) -> Option<Aggregate> {
        self.aggregates().find(|one| one.function.is_pick())
    }

    /// The level of the frame that the location means: 0 for the innermost.
    #[must_use]
    pub fn frame_level(&self) -> u32 {
        let level = self.frame.as_deref().and_then(|text| text.parse().ok());
        level.unwrap_or(0)
    }

    /// The location for a reader: a marker by its name, as `-m NAME`, else as given.
    #[must_use]
    pub fn location(&self) -> Option<Cow<'_, str>> {
        match &self.marker {
            Some(marker) => Some(format!("-m {marker}").into()),
            None => {
                let given = self.own_location.as_deref().or(self.at.as_deref());
                given.map(Cow::Borrowed)
            }
        }
    }
}

/// One action of a hit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// `R`: collect registers.
    Registers(RegisterMask),
    /// `M`: collect memory.
    Memory {
        /// The register whose value `offset` is added to; none for an absolute address.
        base: Option<RegisterNumber>,
        /// Two's complement offset from the base, or the address itself.
        offset: u64,
        /// How many bytes.
        length: u64,
    },
    /// `X`: evaluate an agent expression, which collects data itself.
    Expression(Vec<u8>),
    /// `L`: collect the static tracepoint's data.
    StaticData,
}

/// A set of registers; bit i is register i.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RegisterMask {
    /// Least significant byte first; no trailing zero bytes.
    bytes: Vec<u8>,
}

impl RegisterMask {
    /// A set from its bytes, least significant first.
    pub fn from_bytes(mut bytes: Vec<u8>) -> Self {
        while bytes.last() == Some(&0) {
            bytes.pop();
        }
        Self { bytes }
    }

    /// Least significant byte first, no trailing zero bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Adds a register to the set.
    pub fn insert(&mut self, register: RegisterNumber) {
        let index = usize::from(register.0 / 8);
        if self.bytes.len() <= index {
            self.bytes.resize(index + 1, 0);
        }
        self.bytes[index] |= 1 << (register.0 % 8);
    }

    /// Whether the set holds the register.
    #[must_use]
    pub fn contains(&self, register: RegisterNumber) -> bool {
        self.bytes
            .get(usize::from(register.0 / 8))
            .is_some_and(|byte| byte & (1 << (register.0 % 8)) != 0)
    }

    /// Whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The registers in the set, in rising order.
    pub fn iter(&self) -> impl Iterator<Item = RegisterNumber> + '_ {
        (0..=u16::MAX)
            .take(self.bytes.len() * 8)
            .map(RegisterNumber)
            .filter(|register| self.contains(*register))
    }
}

impl FromIterator<RegisterNumber> for RegisterMask {
    fn from_iter<T: IntoIterator<Item = RegisterNumber>>(registers: T) -> Self {
        let mut mask = Self::default();
        registers
            .into_iter()
            .for_each(|register| mask.insert(register));
        mask
    }
}

/// A trace state variable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VariableDefinition {
    /// GDB's number for it.
    pub number: VariableNumber,
    /// Its value when a run starts.
    pub initial: i64,
    /// Whether its value comes from the target.
    pub builtin: bool,
    /// Its name, without the `$`.
    pub name: String,
}

/// The counts of a tracepoint at one of its addresses so far, as in a qTP reply and a `tp V` line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TracepointUsage {
    /// How many times it was hit; steps of `while-stepping` do not count.
    pub hits: u64,
    /// How many bytes of the trace buffer its frames took, those of steps included.
    pub bytes: u64,
}

//! The state of a trace run: a qTStatus reply, and the `status` line of a trace file.

mod refused;

use std::fmt;

use crate::hex::{Hex, decode, number};
use crate::number::TracepointNumber;
use crate::text::{Expected, Scanner, TextError};

/// How many fields are read at most; GDB's own status lines have some fifteen.
const MAX_FIELDS: usize = 1000;

/// The state of a trace run. What was read is printed byte for byte as it was, as long as no field is changed.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// The fields.
    pub fields: StatusFields,
    /// The text the fields were read from, and the fields as they were then.
    read: Option<(String, StatusFields)>,
}

/// The fields of a [`Status`]. One that is `None` is not given.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StatusFields {
    /// Whether the run is going on.
    pub running: bool,
    /// Why it is not, or `Unknown`.
    pub stop_reason: Option<StopReason>,
    /// The user's note at `tstop`, or the error.
    pub stop_text: Option<String>,
    /// The tracepoint whose pass count or whose error ended the run.
    pub stopping_tracepoint: Option<TracepointNumber>,
    /// Frames that are there.
    pub frames: Option<u64>,
    /// Frames that were made, those discarded since included.
    pub frames_created: Option<u64>,
    /// Bytes the buffer has.
    pub buffer_size: Option<u64>,
    /// Bytes of it that are not used.
    pub buffer_free: Option<u64>,
    /// Whether oldest frames make room for new ones.
    pub circular: Option<bool>,
    /// Whether the run goes on without a debugger.
    pub disconnected: Option<bool>,
    /// When the run started, in microseconds; the clock is the target's.
    pub start_time: Option<u64>,
    /// When it stopped, in microseconds.
    pub stop_time: Option<u64>,
    /// The user's notes on the run.
    pub notes: Option<String>,
    /// The user of the run.
    pub user: Option<String>,
    /// Whether a checksum ends the file: the field `checksum:crc32`, our own, which GDB passes over.
    pub sealed: bool,
    /// Unknown fields, and fields with an invalid value: the name, and the text after the colon.
    pub other: Vec<(String, String)>,
}

/// Why a trace run is not going on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StopReason {
    /// `tunknown`: for some other reason, or for none.
    Unknown,
    /// `tnotrun`: there was no run yet.
    NotRun,
    /// `tstop`: by the user.
    Command,
    /// `tfull`: the buffer is full.
    Full,
    /// `tdisconnected`: the debugger disconnected.
    Disconnected,
    /// `tpasscount`: a tracepoint has reached its pass count.
    PassCount,
    /// `terror`: a tracepoint had an error.
    Error,
}

impl StopReason {
    const ALL: [Self; 7] = [
        Self::Unknown,
        Self::NotRun,
        Self::Command,
        Self::Full,
        Self::Disconnected,
        Self::PassCount,
        Self::Error,
    ];

    /// GDB's name for it in a qTStatus reply.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unknown => "tunknown",
            Self::NotRun => "tnotrun",
            Self::Command => "tstop",
            Self::Full => "tfull",
            Self::Disconnected => "tdisconnected",
            Self::PassCount => "tpasscount",
            Self::Error => "terror",
        }
    }
}

impl From<StatusFields> for Status {
    fn from(fields: StatusFields) -> Self {
        Self { fields, read: None }
    }
}

impl PartialEq for Status {
    fn eq(&self, other: &Self) -> bool {
        self.fields == other.fields
    }
}

impl Eq for Status {}

impl Status {
    /// Reads what follows `status` in a trace file. GDB's documentation has the whole qTStatus reply there, with its
    /// leading `T`; GDB writes it without.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn parse_line(text: &[u8]) -> Result<Self, TextError> {
        let Some(body) = text.strip_prefix(b"T") else {
            return Self::parse(text);
        };
        let mut status = Self::parse(body)?;
        if let Some((read, _)) = &mut status.read {
            read.insert(0, 'T');
        }
        Ok(status)
    }

    /// Reads the body of a qTStatus reply without its leading `T`: `1` or `0`, then fields.
    ///
    /// # Errors
    /// When it starts with neither digit, is no text or has more than a thousand fields. A field that cannot be understood goes to
    /// [`StatusFields::other`].
    pub fn parse(text: &[u8]) -> Result<Self, TextError> {
        Self::scan(text).map_err(|expected| expected.in_text(text))
    }

    fn scan(text: &[u8]) -> Result<Self, Expected> {
        let mut scanner = Scanner::new(text);
        let start = scanner;
        let running = match scanner.byte() {
            Some(b'1') => true,
            Some(b'0') => false,
            _ => return Err(start.expected("1 (running) or 0 (not running)")),
        };
        let whole = std::str::from_utf8(text).map_err(|_| start.expected("UTF-8 text"))?;
        let mut fields = StatusFields {
            running,
            ..StatusFields::default()
        };
        if !scanner.is_at_end() {
            scanner.expect(";", "a semicolon")?;
        }
        if memchr::memchr_iter(b';', text).count() > MAX_FIELDS {
            return Err(start.expected("at most 1000 fields"));
        }
        for field in whole.split(';').skip(1) {
            let (name, value) = field.split_once(':').unwrap_or((field, ""));
            if fields.set(name, value).is_none() {
                fields.other.push((name.to_owned(), value.to_owned()));
            }
        }
        Ok(Self {
            read: Some((whole.to_owned(), fields.clone())),
            fields,
        })
    }
}

impl Status {
    /// The field that marks a file with a checksum at its end.
    pub const SEALED: &str = "checksum:crc32";

    /// The same without that field.
    pub fn unsealed(self) -> Self {
        if !self.fields.sealed {
            return self;
        }
        let fields = StatusFields {
            sealed: false,
            ..self.fields.clone()
        };
        // The other fields keep the text that was read.
        let read = self.read.filter(|(_, read)| *read == self.fields);
        let read = read.map(|(text, _)| {
            let others: Vec<&str> = text
                .split(';')
                .filter(|field| *field != Self::SEALED)
                .collect();
            (others.join(";"), fields.clone())
        });
        Self { read, fields }
    }

    /// Whether GDB reads a field of this name, and may refuse the whole file for its value.
    pub fn is_known(name: &str) -> bool {
        let names = [
            "tframes",
            "tcreated",
            "tsize",
            "tfree",
            "circular",
            "disconn",
            "starttime",
            "stoptime",
            "notes",
            "username",
        ];
        names.contains(&name) || StopReason::ALL.iter().any(|reason| reason.name() == name)
    }

    /// The fields of the input, with their values, for which GDB refuses the whole file. There are none in the output of changed
    /// fields.
    pub fn refused_fields(&self) -> Vec<&str> {
        let read = self.read.as_ref().filter(|(_, read)| *read == self.fields);
        read.map_or_else(Vec::new, |(text, _)| refused::refused_fields(text))
    }

    /// Whether the line began with the reply's `T`, and which field GDB then ignores: it takes one byte for the digit, and skips
    /// the next.
    pub fn unread_by_gdb(&self) -> Option<&str> {
        let (text, read) = self.read.as_ref()?;
        let rest = text.strip_prefix('T').filter(|_| *read == self.fields)?;
        rest.split(';').nth(1)
    }

    /// The reliable part, in a form that GDB reads: without the unknown fields, and without those whose value was not understood.
    #[must_use]
    pub fn understood(self) -> Self {
        if self.fields.other.is_empty() && self.refused_fields().is_empty() {
            return self;
        }
        Self::from(StatusFields {
            other: Vec::new(),
            ..self.fields
        })
    }
}

impl StatusFields {
    /// Takes one field; none when it is not known or its value is not good.
    fn set(&mut self, name: &str, value: &str) -> Option<()> {
        let hex = || number(value.as_bytes());
        let text = || {
            // gdbserver ends a text with a colon.
            let digits = value.strip_suffix(':').unwrap_or(value);
            decode(digits.as_bytes()).map(|text| String::from_utf8_lossy(&text).into_owned())
        };
        match name {
            "tframes" => self.frames = Some(hex()?),
            "tcreated" => self.frames_created = Some(hex()?),
            "tsize" => self.buffer_size = Some(hex()?),
            "tfree" => self.buffer_free = Some(hex()?),
            "circular" => self.circular = Some(hex()? != 0),
            "disconn" => self.disconnected = Some(hex()? != 0),
            "starttime" => self.start_time = Some(hex()?),
            "stoptime" => self.stop_time = Some(hex()?),
            "notes" => self.notes = Some(text()?),
            "username" => self.user = Some(text()?),
            "checksum" => self.sealed = (value == "crc32").then_some(true)?,
            _ => {
                let reason = StopReason::ALL
                    .into_iter()
                    .find(|reason| reason.name() == name)?;
                // `tstop:0` is older than `tstop:<text>:0`.
                let (text, at) = match value.split_once(':') {
                    Some((text, at)) => (Some(text), at),
                    None => (None, value),
                };
                let text = match text {
                    Some(text) => {
                        Some(String::from_utf8_lossy(&decode(text.as_bytes())?).into_owned())
                    }
                    None => None,
                };
                let at = i32::try_from(number(at.as_bytes())?).ok()?;
                self.stop_reason = Some(reason);
                self.stop_text = text.filter(|text| !text.is_empty());
                self.stopping_tracepoint = (at != 0).then_some(TracepointNumber(at));
            }
        }
        Some(())
    }
}

/// As a qTStatus reply without its leading `T`.
impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.read {
            Some((text, fields)) if *fields == self.fields => {
                f.write_str(text.strip_prefix('T').unwrap_or(text))
            }
            _ => self.fields.fmt(f),
        }
    }
}

/// In the order of GDB's own writer.
impl fmt::Display for StatusFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", u8::from(self.running))?;
        if let Some(reason) = self.stop_reason {
            write!(f, ";{}", reason.name())?;
            if matches!(reason, StopReason::Command | StopReason::Error) || self.stop_text.is_some()
            {
                write!(
                    f,
                    ":{}",
                    Hex(self.stop_text.as_deref().unwrap_or_default().as_bytes())
                )?;
            }
            write!(f, ":{:x}", self.stopping_tracepoint.unwrap_or_default().0)?;
        }
        let numbers = [
            ("tframes", self.frames),
            ("tcreated", self.frames_created),
            ("tfree", self.buffer_free),
            ("tsize", self.buffer_size),
            ("disconn", self.disconnected.map(u64::from)),
            ("circular", self.circular.map(u64::from)),
            ("starttime", self.start_time),
            ("stoptime", self.stop_time),
        ];
        for (name, value) in numbers {
            if let Some(value) = value {
                write!(f, ";{name}:{value:x}")?;
            }
        }
        for (name, text) in [("notes", &self.notes), ("username", &self.user)] {
            if let Some(text) = text {
                write!(f, ";{name}:{}", Hex(text.as_bytes()))?;
            }
        }
        if self.sealed {
            write!(f, ";{}", Status::SEALED)?;
        }
        self.other
            .iter()
            .try_for_each(|(name, value)| write!(f, ";{name}:{value}"))
    }
}

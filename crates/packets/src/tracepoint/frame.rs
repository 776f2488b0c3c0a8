//! Selecting a frame: `QTFrame` and its reply.

use tracewire_model::{Address, FrameNumber, TracepointNumber};

use crate::field::Field;
use tracewire_model::hex;
use tracewire_model::text::{Expected, Scanner};

/// Which frame to select. All but [`Self::Number`] start after the selected frame, or at the first one when none is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameSelection {
    /// No frame: back to the program. GDB writes it as the frame numbered ffffffff, and -1 is accepted too.
    None,
    /// The frame with this number.
    Number(FrameNumber),
    /// `pc`: the next frame whose pc is this.
    Pc(Address),
    /// `tdp`: the next frame of this tracepoint.
    Tracepoint(TracepointNumber),
    /// `range`: the next frame whose pc is within these addresses. GDB's `tfind range` includes both ends, contrary to the manual.
    Within {
        /// The lowest.
        start: Address,
        /// The highest.
        end: Address,
    },
    /// `outside`: the next frame whose pc is not within these addresses.
    Outside {
        /// The lowest.
        start: Address,
        /// The highest.
        end: Address,
    },
}

fn range(scanner: &mut Scanner<'_>) -> Result<(Address, Address), Expected> {
    let start = Field::scan(scanner)?;
    scanner.literal(":")?;
    Ok((start, Field::scan(scanner)?))
}

impl Field for FrameSelection {
    fn scan(scanner: &mut Scanner<'_>) -> Result<Self, Expected> {
        if scanner.take("pc:") {
            return Field::scan(scanner).map(Self::Pc);
        }
        if scanner.take("tdp:") {
            // A number that no tracepoint can have is one that has no frames.
            let number: u32 = Field::scan(scanner)?;
            return Ok(Self::Tracepoint(TracepointNumber(number.cast_signed())));
        }
        if scanner.take("range:") {
            let (start, end) = range(scanner)?;
            return Ok(Self::Within { start, end });
        }
        if scanner.take("outside:") {
            let (start, end) = range(scanner)?;
            return Ok(Self::Outside { start, end });
        }
        if scanner.take("-1") {
            return Ok(Self::None);
        }
        match scanner.hex()? {
            0xffff_ffff => Ok(Self::None),
            number => Ok(Self::Number(FrameNumber(number))),
        }
    }

    fn print(&self, out: &mut Vec<u8>) {
        let text = match self {
            Self::None => "ffffffff".to_owned(),
            Self::Number(number) => format!("{:x}", number.0),
            Self::Pc(address) => format!("pc:{:x}", address.0),
            Self::Tracepoint(number) => format!("tdp:{:x}", number.0),
            Self::Within { start, end } => format!("range:{:x}:{:x}", start.0, end.0),
            Self::Outside { start, end } => format!("outside:{:x}:{:x}", start.0, end.0),
        };
        out.extend_from_slice(text.as_bytes());
    }
}

impl FrameSelection {
    pub(crate) fn explain(&self) -> String {
        match self {
            Self::None => "look at the program again, at no trace frame".to_owned(),
            Self::Number(number) => format!("select trace frame {number}"),
            Self::Pc(address) => format!("select the next trace frame at {address}"),
            Self::Tracepoint(number) => {
                format!("select the next trace frame of tracepoint {number}")
            }
            Self::Within { start, end } => {
                format!("select the next trace frame from {start} to {end}")
            }
            Self::Outside { start, end } => {
                format!("select the next trace frame outside {start} to {end}")
            }
        }
    }
}

/// The reply to `QTFrame`: `FfTt`, or `F-1` when there is no such frame. gdbserver answers `OK` to a selection of none, and `F-1`
/// works as well.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SelectedFrame {
    /// The selected frame; `None` when there is no such frame, and the selection is unchanged.
    pub frame: Option<FrameNumber>,
    /// The tracepoint of the hit.
    pub tracepoint: Option<TracepointNumber>,
}

/// Parts in any order, without separators.
impl Field for SelectedFrame {
    fn scan(scanner: &mut Scanner<'_>) -> Result<Self, Expected> {
        let mut selected = Self {
            frame: None,
            tracepoint: None,
        };
        while !scanner.is_at_end() {
            let start = *scanner;
            match scanner.byte() {
                Some(b'F') if scanner.take("-1") => selected.frame = None,
                Some(b'F') => selected.frame = Some(FrameNumber(scanner.hex()?)),
                Some(b'T') => selected.tracepoint = Some(Field::scan(scanner)?),
                _ => return Err(start.expected("F or T")),
            }
        }
        Ok(selected)
    }

    fn print(&self, out: &mut Vec<u8>) {
        out.push(b'F');
        match self.frame {
            Some(frame) => hex::put_number(frame.0, out),
            None => out.extend_from_slice(b"-1"),
        }
        if let Some(tracepoint) = self.tracepoint {
            out.push(b'T');
            tracepoint.print(out);
        }
    }
}

//! What a run has come to, as text.

use std::fmt::Write as _;

use tracewire_model::{
    Address, Status, StatusFields, TracepointNumber, TracepointUsage, VariableNumber,
};

use crate::missing::Missing;
use crate::stepping::TracepointKey;

/// The state of a run, without its frames.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Progress {
    /// The status, with the number of frames made.
    pub status: StatusFields,
    /// The counts of each location.
    pub counts: Vec<LocationCounts>,
    /// The variables that have a stored value.
    pub variables: Vec<(VariableNumber, i64)>,
    /// Which bytes of the register blocks are known, from the frame of each number on
    /// ([`known_registers_of_frames`](crate::Experiment::known_registers_of_frames)).
    pub known_registers: Vec<(u64, Option<Vec<bool>>)>,
}

/// The counts of one location of a tracepoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LocationCounts {
    /// Its number and address.
    pub key: TracepointKey,
    /// Its hits, and the bytes of its frames.
    pub usage: TracepointUsage,
    /// The values that could not be read.
    pub missing: Missing,
}

/// Why a text is not the state of a run.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the progress of a run: line {line}: expected {expected}")]
pub struct ProgressError {
    line: usize,
    expected: &'static str,
}

/// The word for registers all of which are known, and for no address.
const ALL: &str = "all";
const NONE: &str = "none";

impl Progress {
    /// The text.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = format!("status {}\n", Status::from(self.status.clone()));
        // Writing to a string does not fail.
        for LocationCounts {
            key: (number, address),
            usage,
            missing,
        } in &self.counts
        {
            let _ = write!(
                text,
                "counts {number} {:x} {} {} {} ",
                address.0, usage.hits, usage.bytes, missing.count
            );
            let _ = match missing.first {
                Some(first) => writeln!(text, "{:x}", first.0),
                None => writeln!(text, "{NONE}"),
            };
        }
        for (number, value) in &self.variables {
            let _ = writeln!(text, "variable {} {value}", number.0);
        }
        for (frame, known) in &self.known_registers {
            let _ = write!(text, "registers {frame} ");
            match known {
                Some(known) => {
                    text.extend(known.iter().map(|known| if *known { '1' } else { '0' }))
                }
                None => text.push_str(ALL),
            }
            text.push('\n');
        }
        text
    }

    /// Reads a text.
    ///
    /// # Errors
    /// When a line is not understood.
    pub fn parse(text: &[u8]) -> Result<Self, ProgressError> {
        let mut progress = Self::default();
        for (place, line) in text.split_inclusive(|byte| *byte == b'\n').enumerate() {
            let wrong = |expected| ProgressError {
                line: place + 1,
                expected,
            };
            let line = line.strip_suffix(b"\n").ok_or(wrong("a whole line"))?;
            let line = std::str::from_utf8(line).map_err(|_| wrong("UTF-8"))?;
            let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
            match kind {
                "status" => {
                    let status = Status::parse(rest.as_bytes());
                    progress.status = status.map_err(|_| wrong("a status"))?.fields;
                }
                "counts" => progress.counts.push(
                    counts(rest)
                        .ok_or(wrong("`counts NUMBER ADDRESS HITS BYTES MISSING FIRST`"))?,
                ),
                "variable" => progress
                    .variables
                    .push(variable(rest).ok_or(wrong("`variable NUMBER VALUE`"))?),
                "registers" => progress
                    .known_registers
                    .push(registers(rest).ok_or(wrong("`registers FRAME DIGITS`"))?),
                _ => return Err(wrong("`status`, `counts`, `variable` or `registers`")),
            }
        }
        Ok(progress)
    }
}

fn counts(text: &str) -> Option<LocationCounts> {
    let words: Vec<&str> = text.split(' ').collect();
    let [number, address, hits, bytes, missing, first] = words[..] else {
        return None;
    };
    let hexadecimal = |text| u64::from_str_radix(text, 16).ok().map(Address);
    Some(LocationCounts {
        key: (
            TracepointNumber(number.parse().ok()?),
            hexadecimal(address)?,
        ),
        usage: TracepointUsage {
            hits: hits.parse().ok()?,
            bytes: bytes.parse().ok()?,
        },
        missing: Missing {
            count: missing.parse().ok()?,
            first: match first {
                NONE => None,
                first => Some(hexadecimal(first)?),
            },
        },
    })
}

fn variable(text: &str) -> Option<(VariableNumber, i64)> {
    let (number, value) = text.split_once(' ')?;
    Some((VariableNumber(number.parse().ok()?), value.parse().ok()?))
}

fn registers(text: &str) -> Option<(u64, Option<Vec<bool>>)> {
    let (frame, digits) = text.split_once(' ')?;
    let known = if digits == ALL {
        None
    } else {
        let known = digits.bytes().map(|digit| match digit {
            b'0' => Some(false),
            b'1' => Some(true),
            _ => None,
        });
        Some(known.collect::<Option<_>>()?)
    };
    Some((frame.parse().ok()?, known))
}

#[cfg(test)]
mod tests {
    use tracewire_model::StopReason;

    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let progress = Progress {
            status: StatusFields {
                stop_reason: Some(StopReason::Error),
                stop_text: Some("a division by zero; here".to_owned()),
                stopping_tracepoint: Some(TracepointNumber(2)),
                frames: Some(3),
                frames_created: Some(5),
                circular: Some(true),
                ..StatusFields::default()
            },
            counts: vec![
                LocationCounts {
                    key: (TracepointNumber(2), Address(0xffff_ffff_8011_0000)),
                    usage: TracepointUsage {
                        hits: 5,
                        bytes: 500,
                    },
                    missing: Missing {
                        count: 1,
                        first: Some(Address(8)),
                    },
                },
                LocationCounts {
                    key: (TracepointNumber(3), Address(0)),
                    usage: TracepointUsage::default(),
                    missing: Missing::default(),
                },
            ],
            variables: vec![(VariableNumber(4), -7), (VariableNumber(5), i64::MAX)],
            known_registers: vec![(0, Some(vec![true, false])), (3, None)],
        };
        let text = progress.to_text();
        assert_eq!(Progress::parse(text.as_bytes()), Ok(progress));
    }

    #[test]
    fn other_lines_are_refused_by_their_number() {
        for wrong in [
            "counts 1 0 0 0 0",
            "counts 1 0 0 0 0 none",
            "counts 1 0 0 0 0 x\n",
            "variable 1\n",
            "registers 0 012\n",
            "status 2\n",
            "frames 3\n",
            "\n",
        ] {
            let text = format!("status 1\n{wrong}");
            let error = Progress::parse(text.as_bytes()).expect_err(wrong);
            assert_eq!(error.line, 2, "{wrong}: {error}");
        }
    }
}

//! From JSON lines back to a trace file.

use std::io::{BufRead, Read, Write};

use serde::Deserialize;
use tracewire_arch::RegisterLayout;
use tracewire_model::ByteOrder;
use tracewire_tracefile::{Description, HEADER, MAX_DESCRIPTION};

use super::{MAX_LINE, NO_BYTES, frame, named_registers, problem};
use crate::error::ConvertError;
use crate::hex;

/// The kinds of lines.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    TraceFile,
    Line,
    Frame,
    Rest,
}

impl Kind {
    /// The kind of a line, anywhere in it; it decides the other fields.
    fn of(line: &[u8]) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct OfKind {
            kind: Kind,
        }
        // A long line has its kind first, as we write it, and need not be parsed for that.
        if line.starts_with(br#"{"kind":"frame","#) {
            return Ok(Self::Frame);
        }
        Ok(whole::<OfKind>(line)?.kind)
    }
}

/// The fields that are read of a line. Others are views and ignored.
fn whole<'l, T: Deserialize<'l>>(line: &'l [u8]) -> Result<T, String> {
    serde_json::from_slice(line).map_err(|error| problem(&error))
}

#[derive(Deserialize)]
struct Head {
    byte_order: String,
    #[serde(default = "yes")]
    closed: bool,
}

#[derive(Deserialize)]
struct LineRecord {
    text: Option<String>,
    bytes: Option<String>,
    #[serde(default = "yes")]
    newline: bool,
}

#[derive(Deserialize)]
struct RestRecord {
    bytes: String,
}

const fn yes() -> bool {
    true
}

/// Makes the trace file again from its JSON lines. One frame at a time is in memory.
///
/// # Errors
/// When a line is in another form, with its number; when the source cannot be read or the sink refuses.
pub fn read(source: &mut impl BufRead, out: &mut impl Write) -> Result<(), ConvertError> {
    let mut reader = Reader {
        stage: Stage::Start,
        description: Vec::new(),
        frame: Vec::new(),
    };
    let mut text = Vec::new();
    let mut line = 0;
    loop {
        text.clear();
        source
            .by_ref()
            .take(MAX_LINE)
            .read_until(b'\n', &mut text)
            .map_err(ConvertError::Read)?;
        if text.is_empty() {
            break;
        }
        line += 1;
        let error = |problem: String| ConvertError::Json { line, problem };
        if text.len() as u64 >= MAX_LINE {
            return Err(error(format!(
                "expected a line of less than {MAX_LINE} bytes"
            )));
        }
        if text.trim_ascii().is_empty() {
            continue;
        }
        let bytes = reader.take(&text).map_err(error)?;
        out.write_all(bytes)?;
    }
    let bytes = reader
        .end()
        .map_err(|problem| ConvertError::Json { line, problem })?;
    out.write_all(bytes)?;
    Ok(out.flush()?)
}

/// How far the file has come.
enum Stage {
    Start,
    Description {
        order: ByteOrder,
        closed: bool,
    },
    Frames {
        order: ByteOrder,
        layout: Option<RegisterLayout>,
    },
    Rest,
}

struct Reader {
    stage: Stage,
    /// Header and description, until they are returned.
    description: Vec<u8>,
    frame: Vec<u8>,
}

impl Reader {
    /// Takes one line, and gives the bytes that it adds to the file.
    fn take(&mut self, line: &[u8]) -> Result<&[u8], String> {
        self.frame.clear();
        match Kind::of(line)? {
            Kind::TraceFile => {
                let Head { byte_order, closed } = whole(line)?;
                if !matches!(self.stage, Stage::Start) {
                    return Err("expected `trace-file` only as the first line".to_owned());
                }
                let order = match byte_order.as_str() {
                    "little" => ByteOrder::Little,
                    "big" => ByteOrder::Big,
                    other => {
                        return Err(format!("expected byte order little or big, not `{other}`"));
                    }
                };
                self.stage = Stage::Description { order, closed };
                self.frame.extend_from_slice(HEADER);
            }
            Kind::Line => {
                let LineRecord {
                    text,
                    bytes,
                    newline,
                } = whole(line)?;
                if !matches!(self.stage, Stage::Description { .. }) {
                    return Err(
                        "expected `line` after `trace-file` and before the frames".to_owned()
                    );
                }
                let line = match (text, bytes) {
                    (Some(text), None) => text.into_bytes(),
                    (None, Some(bytes)) => decode(&bytes)?,
                    _ => return Err("expected either `text` or `bytes` in a `line`".to_owned()),
                };
                if line.is_empty() || line.contains(&b'\n') {
                    return Err("expected one line, not empty".to_owned());
                }
                if self.description.len() + line.len() >= MAX_DESCRIPTION {
                    return Err(format!("expected at most {MAX_DESCRIPTION} bytes of lines"));
                }
                self.description.extend_from_slice(&line);
                if newline {
                    self.description.push(b'\n');
                }
            }
            Kind::Frame => {
                self.begin_frames()?;
                let Stage::Frames { order, layout } = &self.stage else {
                    return Err("expected no frame after the `rest`".to_owned());
                };
                frame::push(&mut self.frame, *order, layout.as_ref(), line)?;
            }
            Kind::Rest => {
                let RestRecord { bytes } = whole(line)?;
                self.begin_frames()?;
                self.frame.extend(decode(&bytes)?);
                self.stage = Stage::Rest;
            }
        }
        Ok(&self.frame)
    }

    fn begin_frames(&mut self) -> Result<(), String> {
        match self.stage {
            Stage::Start => Err("expected `trace-file` as the first line".to_owned()),
            Stage::Description { closed: false, .. } => {
                Err("expected no frames, as the description is not closed".to_owned())
            }
            Stage::Description {
                order,
                closed: true,
            } => {
                let description = std::mem::take(&mut self.description);
                self.frame.extend_from_slice(&description);
                self.frame.push(b'\n');
                let layout = named_registers(&Description::parse(description));
                self.stage = Stage::Frames { order, layout };
                Ok(())
            }
            Stage::Frames { .. } | Stage::Rest => Ok(()),
        }
    }

    /// The rest of the output when there are no more lines.
    fn end(&mut self) -> Result<&[u8], String> {
        self.frame.clear();
        match self.stage {
            Stage::Description { closed: false, .. } => Ok(&self.description),
            _ => {
                self.begin_frames()?;
                Ok(&self.frame)
            }
        }
    }
}

fn decode(digits: &str) -> Result<Vec<u8>, String> {
    hex::decode(digits.as_bytes()).ok_or_else(|| NO_BYTES.to_owned())
}

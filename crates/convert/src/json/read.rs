//! From JSON lines back to a trace file.

use std::collections::HashMap;
use std::fmt;
use std::io::{BufRead, Read, Write};

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use tracewire_tracefile::{ByteOrder, Description, RegisterLayout};

use super::{MAX_FRAME, named_registers};
use crate::error::ConvertError;
use crate::hex;

/// The longest line that is read, in bytes: what the largest frame that is written can take.
const MAX_LINE: u64 = 16 * MAX_FRAME as u64;

/// The longest description that is read, in bytes, which is the trace file reader's own limit.
const MAX_DESCRIPTION: usize = 32 << 20;

/// What is read of a line. Names that are not here are views and left alone.
enum Record {
    TraceFile(Head),
    Line(LineRecord),
    Frame(FrameRecord),
    Rest(RestRecord),
}

#[derive(Deserialize)]
struct Kind {
    kind: String,
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
struct FrameRecord {
    tracepoint: i16,
    blocks: Vec<BlockRecord>,
}

#[derive(Deserialize)]
struct RestRecord {
    bytes: String,
}

const fn yes() -> bool {
    true
}

#[derive(Deserialize)]
struct BlockRecord {
    registers: Option<Registers>,
    memory: Option<String>,
    bytes: Option<String>,
    variable: Option<i32>,
    value: Option<i64>,
    static_data: Option<String>,
    unknown: Option<String>,
}

enum Registers {
    Bytes(String),
    /// Names and values, in the line's order.
    Named(Vec<(String, String)>),
}

impl<'de> Deserialize<'de> for Registers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = Registers;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a register block as bytes, or an object of registers")
            }

            fn visit_str<E>(self, bytes: &str) -> Result<Registers, E> {
                Ok(Registers::Bytes(bytes.to_owned()))
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Registers, M::Error> {
                let mut named = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    named.push(entry);
                }
                Ok(Registers::Named(named))
            }
        }

        deserializer.deserialize_any(Either)
    }
}

impl Record {
    /// The kind first, wherever it stands in the line; it says what else there must be.
    fn parse(line: &[u8]) -> Result<Self, String> {
        fn whole<'l, T: Deserialize<'l>>(line: &'l [u8]) -> Result<T, String> {
            serde_json::from_slice(line).map_err(|error| error.to_string())
        }
        let Kind { kind } = whole(line)?;
        Ok(match kind.as_str() {
            "trace-file" => Self::TraceFile(whole(line)?),
            "line" => Self::Line(whole(line)?),
            "frame" => Self::Frame(whole(line)?),
            "rest" => Self::Rest(whole(line)?),
            other => {
                return Err(format!(
                    "expected kind trace-file, line, frame or rest, not `{other}`"
                ));
            }
        })
    }
}

/// Makes the trace file again from its JSON lines. One frame at a time is in memory.
///
/// # Errors
/// When a line is none of ours, with its number; when the source cannot be read or the sink refuses.
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
        let record = Record::parse(&text).map_err(error)?;
        let bytes = reader.take(record).map_err(error)?;
        out.write_all(bytes).map_err(ConvertError::Write)?;
    }
    let bytes = reader
        .end()
        .map_err(|problem| ConvertError::Json { line, problem })?;
    out.write_all(bytes).map_err(ConvertError::Write)?;
    out.flush().map_err(ConvertError::Write)
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
    /// Header and description, until they are handed out.
    description: Vec<u8>,
    frame: Vec<u8>,
}

impl Reader {
    /// Takes one record, and gives the bytes that it adds to the file.
    fn take(&mut self, record: Record) -> Result<&[u8], String> {
        self.frame.clear();
        match record {
            Record::TraceFile(Head { byte_order, closed }) => {
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
                self.frame.extend_from_slice(b"\x7fTRACE0\n");
            }
            Record::Line(LineRecord {
                text,
                bytes,
                newline,
            }) => {
                if !matches!(self.stage, Stage::Description { .. }) {
                    return Err(
                        "expected `line` behind `trace-file` and before the frames".to_owned()
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
            Record::Frame(FrameRecord { tracepoint, blocks }) => {
                self.begin_frames()?;
                let Stage::Frames { order, layout } = &self.stage else {
                    return Err("expected no frame behind the `rest`".to_owned());
                };
                push_frame(
                    &mut self.frame,
                    *order,
                    layout.as_ref(),
                    tracepoint,
                    &blocks,
                )?;
            }
            Record::Rest(RestRecord { bytes }) => {
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

    /// What is still to be written when there are no more lines.
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
    hex::decode(digits).ok_or_else(|| "expected bytes of two hexadecimal digits each".to_owned())
}

fn push_frame(
    out: &mut Vec<u8>,
    order: ByteOrder,
    layout: Option<&RegisterLayout>,
    tracepoint: i16,
    blocks: &[BlockRecord],
) -> Result<(), String> {
    if tracepoint == 0 {
        return Err("expected a tracepoint other than 0, which ends a trace file".to_owned());
    }
    out.extend(order.u16_bytes(tracepoint.cast_unsigned()));
    let size_at = out.len();
    out.extend([0; 4]);
    let start = out.len();
    for block in blocks {
        push_block(out, order, layout, block)?;
    }
    let size = u32::try_from(out.len() - start)
        .map_err(|_| "expected a frame of less than 4 GiB".to_owned())?;
    if let Some(field) = out.get_mut(size_at..start) {
        field.copy_from_slice(&order.u32_bytes(size));
    }
    Ok(())
}

fn push_block(
    out: &mut Vec<u8>,
    order: ByteOrder,
    layout: Option<&RegisterLayout>,
    block: &BlockRecord,
) -> Result<(), String> {
    let short = |bytes: &[u8]| {
        u16::try_from(bytes.len()).map_err(|_| "expected a block of at most 65535 bytes".to_owned())
    };
    match block {
        BlockRecord {
            registers: Some(Registers::Bytes(digits)),
            ..
        } => {
            out.push(b'R');
            out.extend(decode(digits)?);
        }
        BlockRecord {
            registers: Some(Registers::Named(values)),
            ..
        } => {
            let layout =
                layout.ok_or("expected registers as bytes: the `tdesc` lines tell none")?;
            out.push(b'R');
            // They stand in the layout's order unless someone has written them by hand.
            let mut by_name: Option<HashMap<&String, &String>> = None;
            for (index, register) in layout.registers().iter().enumerate() {
                let name = &register.name;
                let value = match values.get(index) {
                    Some((here, value)) if here == name => Some(value),
                    _ => by_name
                        .get_or_insert_with(|| {
                            values.iter().map(|(name, value)| (name, value)).collect()
                        })
                        .get(name)
                        .copied(),
                };
                let mut bytes = value
                    .and_then(|value| hex::decode_number(value, register.size() as usize))
                    .ok_or_else(|| {
                        format!("expected register {name} of {} bits as 0x…", register.bits)
                    })?;
                if order == ByteOrder::Little {
                    bytes.reverse();
                }
                out.extend(bytes);
            }
        }
        BlockRecord {
            memory: Some(address),
            bytes: Some(digits),
            ..
        } => {
            let address = address
                .strip_prefix("0x")
                .and_then(|digits| u64::from_str_radix(digits, 16).ok())
                .ok_or_else(|| format!("expected an address as 0x…, not `{address}`"))?;
            let bytes = decode(digits)?;
            out.push(b'M');
            out.extend(order.u64_bytes(address));
            out.extend(order.u16_bytes(short(&bytes)?));
            out.extend(bytes);
        }
        BlockRecord {
            variable: Some(number),
            value: Some(value),
            ..
        } => {
            out.push(b'V');
            out.extend(order.u32_bytes(number.cast_unsigned()));
            out.extend(order.u64_bytes(value.cast_unsigned()));
        }
        BlockRecord {
            static_data: Some(digits),
            ..
        } => {
            let bytes = decode(digits)?;
            out.push(b'S');
            out.extend(order.u16_bytes(short(&bytes)?));
            out.extend(bytes);
        }
        BlockRecord {
            unknown: Some(digits),
            ..
        } => out.extend(decode(digits)?),
        _ => {
            return Err(
                "expected a block: registers, memory and bytes, variable and value, \
                        static_data, or unknown"
                    .to_owned(),
            );
        }
    }
    Ok(())
}

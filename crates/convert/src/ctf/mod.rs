//! Common Trace Format 1.8, as babeltrace2 and Trace Compass read it.
//!
//! A trace is a directory: `metadata`, which declares everything in plain TSDL, and a data stream for each cpu (`cpu_N`), or one
//! (`stream`) for frames without a cpu. Readers merge the streams by time.
//!
//! - A frame is an event. Its name is `tracepoint_N`. The contents of a frame differ from hit to hit, and CTF has no optional
//!   fields, so a tracepoint has one event declaration for each different set of registers and variables in its frames,
//!   all of the same name.
//! - Fields: `frame`; `pc`, `thread`, `cpu`, `stepping` where they are known; `registers`; each variable under its name;
//!   `static_data`; `memory`, a sequence of `address`, `length`, `bytes`; `unknown`, from a block that cannot be read to
//!   the end. Integers and memory keep the target's byte order, which is that of the whole trace, so a register block
//!   is copied as it is. A register of more than 64 bits is an array of bytes.
//! - `values` has the caller's values of the frame's expressions: integers, floating-point numbers, strings, structures, and a list
//!   as `length` and `items`. For a missing value it has the reason, as a string. Values whose types differ from frame to frame
//!   have separate declarations, too; if there are very many, values are strings.
//! - Names that are no identifiers have `_` in place of other characters. Every field name starts with an underscore in the
//!   metadata, which both readers remove (so that no name is a TSDL keyword).
//! - The clock counts nanoseconds of `$trace_timestamp`, which are whole microseconds, from 0: babeltrace2 converts a clock of any
//!   other frequency through a floating-point number, and its times are then wrong by up to 128 ns. A frame without a time has that
//!   of the last frame with one. Events are sorted by time within a stream.
//! - The frames that a circular buffer dropped are discarded events before the first one.

mod metadata;
mod packet;
mod value;

use std::collections::HashMap;
use std::io::{self, Write};

use tracewire_model::{FrameNumber, VariableNumber};
use tracewire_tracefile::{Block, Frame, TraceFile};

use crate::error::ConvertError;
use crate::time::frame_times;
use packet::PacketWriter;
use tracewire_expr::Datum;
use value::ValueType;

/// The most event declarations: as many as there are numbers of events.
const MAX_SHAPES: usize = 1 << 16;

/// The most blocks of one frame with separate fields.
const MAX_FIELDS: usize = 1024;

/// How many fields all declarations may have together: each is a line of metadata.
const MAX_ALL_FIELDS: usize = 1 << 19;

/// How many event declarations there may be before values of new types are strings.
const MAX_TYPED_SHAPES: usize = 1 << 12;

/// From how many cpus on the numbers are believed to be none, and all frames go into one stream.
const MAX_CPUS: usize = 1024;

/// The common contents of the frames of one event declaration.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Shape {
    tracepoint: i32,
    stream: StreamClass,
    has_pc: bool,
    has_thread: bool,
    has_cpu: bool,
    has_step: bool,
    /// The blocks with separate fields, in order.
    fields: Vec<Field>,
    /// The values of expressions.
    values: Vec<(String, ValueType)>,
}

impl Shape {
    /// How many fields it declares, but for those that all have.
    fn field_count(&self) -> usize {
        let values = self.values.iter().map(|(_, one)| one.parts());
        self.fields.len() + values.sum::<usize>()
    }
}

/// A block that is a field.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Field {
    Registers,
    Variable(VariableNumber),
    StaticData,
    Unknown,
}

/// Streams of frames with a cpu have its number in each packet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum StreamClass {
    WithoutCpu,
    WithCpu,
}

impl StreamClass {
    const fn id(self) -> u32 {
        match self {
            Self::WithoutCpu => 0,
            Self::WithCpu => 1,
        }
    }
}

/// Where a frame goes: ordered by stream, time, number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Placed {
    cpu: Option<u32>,
    nanoseconds: u64,
    frame: u64,
}

/// Writes a trace file as a CTF trace. `values` gives the values of a frame's expressions, and `create` makes a file of the trace's directory by its name. 24 bytes a frame and one
/// packet are in memory.
///
/// # Errors
/// When a file cannot be made or written, or the frames are too different to be declared: of more than 65536 shapes,
/// with more than 1024 register blocks and variables, or with more than 524288 of them in all shapes together.
pub fn write<'f, W: Write>(
    file: &'f TraceFile,
    mut values: impl FnMut(Frame<'f>) -> Vec<(String, Datum)>,
    mut create: impl FnMut(&str) -> io::Result<W>,
) -> Result<(), ConvertError> {
    let placed = place(file);
    let mut shapes = Shapes {
        ids: HashMap::new(),
        list: Vec::new(),
        fields: 0,
    };
    let mut payload = Vec::new();
    let discarded = discarded_frames(file);
    let streams = || placed.chunk_by(|one, other| one.cpu == other.cpu);
    // The frames that a circular buffer dropped have no cpu: they count in the stream that starts first.
    let earliest = streams()
        .filter_map(<[Placed]>::first)
        .min_by_key(|place| place.nanoseconds)
        .copied();
    if earliest.is_none() {
        let out = create("stream")?;
        PacketWriter::new(out, file.byte_order(), None, 0, discarded).finish()?;
    }
    for stream in streams() {
        let Some(first) = stream.first() else {
            continue;
        };
        let name = first
            .cpu
            .map_or_else(|| "stream".to_owned(), |cpu| format!("cpu_{cpu}"));
        let out = create(&name)?;
        let lost = if earliest == Some(*first) {
            discarded
        } else {
            0
        };
        let mut packets =
            PacketWriter::new(out, file.byte_order(), first.cpu, first.nanoseconds, lost);
        for place in stream {
            let Some(frame) = file.frame(FrameNumber(place.frame)) else {
                continue;
            };
            let values = values(frame);
            let typed = |type_of: &dyn Fn(&Datum) -> ValueType| {
                let values = values.iter();
                let typed = values.map(|(name, datum)| (name.clone(), type_of(datum)));
                typed.collect::<Vec<_>>()
            };
            payload.clear();
            let types = typed(&ValueType::of);
            let mut shape = encode(&frame, place.cpu, &values, types, &mut payload);
            if shapes.list.len() >= MAX_TYPED_SHAPES && !shapes.ids.contains_key(&shape) {
                payload.clear();
                let texts = typed(&|_| ValueType::Text);
                shape = encode(&frame, place.cpu, &values, texts, &mut payload);
            }
            let id = shapes.id(shape)?;
            packets.event(id, place.nanoseconds, &payload)?;
        }
        packets.finish()?;
    }
    let with_cpu = placed.last().is_some_and(|place| place.cpu.is_some());
    let without_cpu = placed.first().is_none_or(|place| place.cpu.is_none());
    let mut classes = Vec::new();
    if without_cpu {
        classes.push(StreamClass::WithoutCpu);
    }
    if with_cpu {
        classes.push(StreamClass::WithCpu);
    }
    let text = metadata::write(file, &classes, &shapes.list);
    let mut out = create("metadata")?;
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

fn place(file: &TraceFile) -> Vec<Placed> {
    let mut placed: Vec<_> = file
        .frames()
        .zip(frame_times(file))
        .map(|(frame, time)| Placed {
            cpu: frame.cpu(),
            // Times that this would be too much for are not given.
            nanoseconds: time.saturating_mul(1000),
            frame: frame.number().0,
        })
        .collect();
    placed.sort_unstable();
    let cpus = placed.chunk_by(|one, other| one.cpu == other.cpu).count();
    if cpus > MAX_CPUS {
        placed.iter_mut().for_each(|place| place.cpu = None);
        placed.sort_unstable();
    }
    placed
}

fn discarded_frames(file: &TraceFile) -> u64 {
    let fields = file.description().status().map(|status| &status.fields);
    let circular = fields.filter(|fields| fields.circular == Some(true));
    let created = circular
        .and_then(|fields| fields.frames_created)
        .unwrap_or(0);
    created.saturating_sub(file.frame_count())
}

/// The event declarations so far.
struct Shapes {
    ids: HashMap<Shape, u16>,
    list: Vec<Shape>,
    /// Of all of them.
    fields: usize,
}

impl Shapes {
    fn id(&mut self, shape: Shape) -> Result<u16, ConvertError> {
        if let Some(id) = self.ids.get(&shape) {
            return Ok(*id);
        }
        self.fields += shape.field_count();
        if self.list.len() >= MAX_SHAPES
            || shape.field_count() > MAX_FIELDS
            || self.fields > MAX_ALL_FIELDS
        {
            return Err(ConvertError::TooManyShapes {
                shapes: MAX_SHAPES,
                fields: MAX_FIELDS,
                all_fields: MAX_ALL_FIELDS,
            });
        }
        let id = self.list.len() as u16;
        self.ids.insert(shape.clone(), id);
        self.list.push(shape);
        Ok(id)
    }
}

/// Adds the fields of a frame's event, in the order that `metadata` declares, and gives its shape.
fn encode(
    frame: &Frame<'_>,
    stream_cpu: Option<u32>,
    values: &[(String, Datum)],
    types: Vec<(String, ValueType)>,
    out: &mut Vec<u8>,
) -> Shape {
    let order = frame.byte_order();
    let (pc, thread, cpu, step) = (
        frame.program_counter(),
        frame.thread(),
        frame.cpu(),
        frame.is_step(),
    );
    out.extend(order.u64_bytes(frame.number().0));
    if let Some(pc) = pc {
        out.extend(order.u64_bytes(pc.0));
    }
    if let Some(thread) = thread {
        out.extend(order.u32_bytes(thread.0));
    }
    if let Some(cpu) = cpu {
        out.extend(order.u32_bytes(cpu));
    }
    if let Some(step) = step {
        out.push(u8::from(step));
    }
    let mut fields = Vec::new();
    let sequence = |out: &mut Vec<u8>, bytes: &[u8]| {
        // A frame's own size has 32 bits.
        out.extend(order.u32_bytes(bytes.len() as u32));
        out.extend_from_slice(bytes);
    };
    for block in frame.blocks() {
        match block {
            Block::Registers(bytes) => {
                out.extend_from_slice(bytes);
                fields.push(Field::Registers);
            }
            Block::Variable { number, value } => {
                out.extend(order.u64_bytes(value.cast_unsigned()));
                fields.push(Field::Variable(number));
            }
            Block::StaticData(bytes) => {
                sequence(out, bytes);
                fields.push(Field::StaticData);
            }
            Block::Unknown(bytes) => {
                sequence(out, bytes);
                fields.push(Field::Unknown);
            }
            Block::Memory { .. } => {}
        }
    }
    for ((_, datum), (_, value_type)) in values.iter().zip(&types) {
        value_type.encode(datum, order, out);
    }
    out.extend(order.u32_bytes(frame.memory_blocks().count() as u32));
    for (address, bytes) in frame.memory_blocks() {
        out.extend(order.u64_bytes(address.0));
        // The length of a block has 16 bits.
        out.extend(order.u16_bytes(bytes.len() as u16));
        out.extend_from_slice(bytes);
    }
    Shape {
        tracepoint: frame.tracepoint().0,
        stream: match stream_cpu {
            Some(_) => StreamClass::WithCpu,
            None => StreamClass::WithoutCpu,
        },
        has_pc: pc.is_some(),
        has_thread: thread.is_some(),
        has_cpu: cpu.is_some(),
        has_step: step.is_some(),
        fields,
        values: types,
    }
}

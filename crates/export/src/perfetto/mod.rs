//! Perfetto's own format: a sequence of protocol buffer packets, for `ui.perfetto.dev` and `trace_processor`.
//!
//! | of the run | in the trace |
//! |---|---|
//! | a process, a thread | a track, as in Perfetto for any process and thread |
//! | a span | a slice on its thread's track; one that overlaps the others is on a track below that |
//! | a span that is open at the end of the run | a slice without an end |
//! | a hit, and a span whose end is not known | an instant, which is a slice without a length |
//! | collected values | debug annotations, with types and parts |
//! | a collected number | also a counter of its process |
//! | `$stack` | a call stack of the slice |
//! | equal values of an expression that the user names | a flow from slice to slice |
//! | the times | the time of day; the file has no other clock, so the clock snapshot gives the boot time the same numbers |

mod annotation;
mod interned;
mod messages;

use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;

use prost::Message as _;
use tracewire_expr::Datum;
use tracewire_views::RunPart;

use crate::error::ExportError;
use crate::event::{Event, EventValue};
use crate::lanes::{Closed, Extent, Placed};
use crate::run::Run;
use crate::threads::{LaneWriter, ThreadKey, process_number, write_lanes};
use crate::words::program_name;

use interned::Interner;
use messages::{
    BOOTTIME, COUNTER, Clock, ClockSnapshot, CounterDescriptor, CounterValue, Data,
    INCREMENTAL_STATE_CLEARED, INSTANT, NEEDS_INCREMENTAL_STATE, ProcessDescriptor, REALTIME,
    SLICE_BEGIN, SLICE_END, ThreadDescriptor, TracePacket, TrackDescriptor, TrackEvent,
    UNIT_TIME_NS,
};

/// The key of `Trace.packet`, the only field of a trace.
const PACKET: u8 = 1 << 3 | 2;

/// The sequence that all packets are of.
const SEQUENCE: u32 = 1;

/// Options of a trace in Perfetto's format.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PerfettoOptions {
    /// Collected expressions: the hits and spans that have an equal value of one are connected.
    pub flows: Vec<String>,
}

/// Writes a run as a trace of Perfetto. One event, names and a limited number of stacks are in memory.
///
/// # Errors
/// When the sink refuses.
pub fn write(
    parts: &[RunPart<'_>],
    options: &PerfettoOptions,
    out: &mut impl Write,
) -> Result<(), ExportError> {
    let run = Run::new(parts);
    let mut writer = Writer {
        parts,
        options,
        out,
        buffer: Vec::new(),
        interner: Interner::default(),
        tracks: Tracks::default(),
        is_first: true,
        is_cleared: true,
    };
    writer.clocks(run.first_time())?;
    writer.processes()?;
    write_lanes(&run, &mut writer)?;
    Ok(writer.out.flush()?)
}

/// The tracks that are described.
#[derive(Debug, Default)]
struct Tracks {
    processes: Vec<u64>,
    lanes: HashMap<(ThreadKey, usize), u64>,
    /// By the part, the tracepoint and the expression.
    counters: HashMap<(usize, i32, String), u64>,
    last: u64,
}

impl Tracks {
    /// A number that no track has. 0 is that of the whole trace.
    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }
}

struct Writer<'p, 'a, W> {
    parts: &'p [RunPart<'a>],
    options: &'p PerfettoOptions,
    out: W,
    buffer: Vec<u8>,
    interner: Interner,
    tracks: Tracks,
    is_first: bool,
    /// Whether the next packet clears the interned items.
    is_cleared: bool,
}

impl<W: Write> LaneWriter for Writer<'_, '_, W> {
    fn put_ends(&mut self, key: ThreadKey, closed: &mut Vec<Closed>) -> Result<(), ExportError> {
        for one in closed.drain(..) {
            let track_event = TrackEvent {
                r#type: Some(SLICE_END),
                track_uuid: Some(self.lane(key, one.lane)?),
                ..TrackEvent::default()
            };
            self.packet(Some(one.end), Data::TrackEvent(track_event))?;
        }
        Ok(())
    }

    fn put(
        &mut self,
        event: &Event<'_>,
        placed: Placed,
        key: ThreadKey,
    ) -> Result<(), ExportError> {
        let track = self.lane(key, placed.lane)?;
        let begins = match placed.extent {
            Extent::Instant => INSTANT,
            Extent::Until(_) | Extent::Open => SLICE_BEGIN,
        };
        self.event(event, track, begins, placed.start)?;
        self.counters(event)
    }
}

impl<W: Write> Writer<'_, '_, W> {
    fn packet(&mut self, timestamp: Option<u64>, data: Data) -> Result<(), ExportError> {
        let flags = match std::mem::take(&mut self.is_cleared) {
            true => INCREMENTAL_STATE_CLEARED,
            false => NEEDS_INCREMENTAL_STATE,
        };
        let packet = TracePacket {
            timestamp,
            trusted_packet_sequence_id: Some(SEQUENCE),
            interned_data: self.interner.take_new(),
            sequence_flags: Some(flags),
            first_packet_on_sequence: std::mem::take(&mut self.is_first).then_some(true),
            data: Some(data),
        };
        self.buffer.clear();
        self.buffer.push(PACKET);
        // The buffer grows as it has to.
        let encoded = packet.encode_length_delimited(&mut self.buffer);
        debug_assert!(encoded.is_ok(), "a Vec has room");
        self.out.write_all(&self.buffer)?;
        if self.interner.is_full() {
            self.interner = Interner::default();
            self.is_cleared = true;
        }
        Ok(())
    }

    fn clocks(&mut self, first: Option<u64>) -> Result<(), ExportError> {
        let clock = |id| Clock {
            clock_id: Some(id),
            timestamp: Some(first.unwrap_or(0)),
        };
        let snapshot = ClockSnapshot {
            clocks: vec![clock(BOOTTIME), clock(REALTIME)],
            primary_trace_clock: i32::try_from(BOOTTIME).ok(),
        };
        self.packet(first, Data::ClockSnapshot(snapshot))
    }

    fn processes(&mut self) -> Result<(), ExportError> {
        for (index, part) in self.parts.iter().enumerate() {
            let uuid = self.tracks.next();
            self.tracks.processes.push(uuid);
            self.packet(
                None,
                Data::TrackDescriptor(TrackDescriptor {
                    uuid: Some(uuid),
                    process: Some(ProcessDescriptor {
                        pid: Some(self.process(index)),
                        process_name: Some(program_name(part.file)),
                    }),
                    ..TrackDescriptor::default()
                }),
            )?;
        }
        Ok(())
    }

    fn process(&self, part: usize) -> i32 {
        process_number(self.parts, part).cast_signed()
    }

    /// The track of a thread's row, described the first time.
    fn lane(&mut self, key: ThreadKey, lane: usize) -> Result<u64, ExportError> {
        if let Some(track) = self.tracks.lanes.get(&(key, lane)) {
            return Ok(*track);
        }
        let process = self.tracks.processes.get(key.part).copied();
        let descriptor = match (lane, key.thread) {
            // 0 is a thread of the kernel to Perfetto.
            (0, 0) => TrackDescriptor {
                name: Some("unknown thread".to_owned()),
                parent_uuid: process,
                ..TrackDescriptor::default()
            },
            (0, thread) => TrackDescriptor {
                parent_uuid: process,
                thread: Some(ThreadDescriptor {
                    pid: Some(self.process(key.part)),
                    tid: Some(thread.into()),
                }),
                ..TrackDescriptor::default()
            },
            (lane, _) => TrackDescriptor {
                name: Some(format!("overlapping {lane}")),
                parent_uuid: Some(self.lane(key, 0)?),
                ..TrackDescriptor::default()
            },
        };
        let uuid = self.tracks.next();
        self.tracks.lanes.insert((key, lane), uuid);
        let descriptor = TrackDescriptor {
            uuid: Some(uuid),
            ..descriptor
        };
        self.packet(None, Data::TrackDescriptor(descriptor))?;
        Ok(uuid)
    }

    fn event(
        &mut self,
        event: &Event<'_>,
        track: u64,
        begins: i32,
        start: u64,
    ) -> Result<(), ExportError> {
        let interner = &mut self.interner;
        let part = self.parts.get(event.part);
        let stack = event.stack.as_ref().zip(part);
        let stack = stack.filter(|(stack, _)| !stack.entries.is_empty());
        let callstack_iid = stack
            .map(|(stack, part)| interner.stack(event.part, part.file, event.time / 1000, stack));
        let track_event = TrackEvent {
            category_iids: vec![interner.category(event.kind)],
            debug_annotations: annotation::annotations(event, interner),
            r#type: Some(begins),
            name_iid: Some(interner.name(&event.name)),
            track_uuid: Some(track),
            flow_ids: flows(&event.values, &self.options.flows),
            callstack_iid,
            counter_value: None,
        };
        self.packet(Some(start), Data::TrackEvent(track_event))
    }

    /// The numbers of an event as points of counters.
    fn counters(&mut self, event: &Event<'_>) -> Result<(), ExportError> {
        for value in &event.values {
            let Some(number) = counter_value(&value.datum) else {
                continue;
            };
            let key = (event.part, event.tracepoint, value.name.clone());
            let track = match self.tracks.counters.get(&key) {
                Some(track) => *track,
                None => self.counter_track(event, value, key)?,
            };
            let track_event = TrackEvent {
                r#type: Some(COUNTER),
                track_uuid: Some(track),
                counter_value: Some(number),
                ..TrackEvent::default()
            };
            self.packet(Some(event.time), Data::TrackEvent(track_event))?;
        }
        Ok(())
    }

    fn counter_track(
        &mut self,
        event: &Event<'_>,
        value: &EventValue,
        key: (usize, i32, String),
    ) -> Result<u64, ExportError> {
        let uuid = self.tracks.next();
        let unit = (value.name == "$duration").then_some(UNIT_TIME_NS);
        let descriptor = TrackDescriptor {
            uuid: Some(uuid),
            name: Some(format!(
                "{} ({}): {}",
                event.name, event.tracepoint, value.name
            )),
            parent_uuid: self.tracks.processes.get(event.part).copied(),
            counter: Some(CounterDescriptor { unit }),
            ..TrackDescriptor::default()
        };
        self.tracks.counters.insert(key, uuid);
        self.packet(None, Data::TrackDescriptor(descriptor))?;
        Ok(uuid)
    }
}

/// A number as a counter has it. One that is not finite cannot be drawn.
fn counter_value(datum: &Datum) -> Option<CounterValue> {
    match datum {
        Datum::Integer(value) => Some(match i64::try_from(*value) {
            Ok(value) => CounterValue::Integer(value),
            Err(_) => CounterValue::Double(*value as f64),
        }),
        Datum::LargeInteger(value) => Some(CounterValue::Double(*value as f64)),
        Datum::Float(value) => value.is_finite().then_some(CounterValue::Double(*value)),
        _ => None,
    }
}

/// The flows that an event is in: one for each value of an expression of `flows`.
fn flows(values: &[EventValue], flows: &[String]) -> Vec<u64> {
    let values = values
        .iter()
        .filter(|value| flows.contains(&value.name) && !matches!(value.datum, Datum::Missing(_)));
    let mut ids: BTreeSet<u64> = BTreeSet::new();
    for value in values {
        let mut hasher = DefaultHasher::new();
        (&value.name, value.datum.text()).hash(&mut hasher);
        ids.insert(hasher.finish());
    }
    ids.into_iter().collect()
}

//! The processed profile format of the Firefox Profiler, for `profiler.firefox.com`.
//!
//! A hit with `$stack` is a sample of its thread, so that the call tree and the flame graph count hits. Every hit and every span is a marker, with what was
//! collected as `show` has it. The whole profile is in memory, as it is in the profiler.

use std::collections::HashMap;
use std::io::Write;

use fxprof_processed_profile::{
    CategoryColor, CategoryHandle, CpuDelta, Frame, FrameFlags, FrameInfo, MarkerFieldFlags,
    MarkerFieldFormat, MarkerTiming, ProcessHandle, Profile, ReferenceTimestamp, SamplingInterval,
    StackHandle, StaticSchemaMarker, StaticSchemaMarkerField, StringHandle, ThreadHandle,
    Timestamp,
};
use tracewire_views::{RunPart, Stack};

use crate::error::ExportError;
use crate::event::{Event, EventEnd};
use crate::run::{Needs, Run};
use crate::threads::{ThreadKey, process_number};
use crate::words::program_name;

/// A hit or a span.
#[derive(Clone, Debug)]
struct EventMarker {
    name: StringHandle,
    category: CategoryHandle,
    values: StringHandle,
    place: StringHandle,
    ended: StringHandle,
    tracepoint: i32,
    frame: u64,
}

const fn field(
    key: &'static str,
    label: &'static str,
    format: MarkerFieldFormat,
) -> StaticSchemaMarkerField {
    StaticSchemaMarkerField {
        key,
        label,
        format,
        flags: MarkerFieldFlags::SEARCHABLE,
    }
}

impl StaticSchemaMarker for EventMarker {
    const UNIQUE_MARKER_TYPE_NAME: &'static str = "tracewire";

    const DESCRIPTION: Option<&'static str> =
        Some("A hit of a tracepoint, or a call of a function");

    const CHART_LABEL: Option<&'static str> = Some("{marker.data.values}");

    const TABLE_LABEL: Option<&'static str> = Some("{marker.data.values}");

    const FIELDS: &'static [StaticSchemaMarkerField] = &[
        field("values", "Values", MarkerFieldFormat::String),
        field("place", "Place", MarkerFieldFormat::FilePath),
        field("ended", "Ended", MarkerFieldFormat::String),
        field("tracepoint", "Tracepoint", MarkerFieldFormat::Integer),
        field("frame", "Frame", MarkerFieldFormat::Integer),
    ];

    fn name(&self, _profile: &mut Profile) -> StringHandle {
        self.name
    }

    fn category(&self, _profile: &mut Profile) -> CategoryHandle {
        self.category
    }

    fn string_field_value(&self, field_index: u32) -> StringHandle {
        match field_index {
            0 => self.values,
            1 => self.place,
            _ => self.ended,
        }
    }

    fn number_field_value(&self, field_index: u32) -> f64 {
        match field_index {
            3 => self.tracepoint.into(),
            _ => self.frame as f64,
        }
    }
}

/// Writes a run as a profile, and gives how many of its hits have a stack.
///
/// # Errors
/// When the sink refuses.
pub fn write(parts: &[RunPart<'_>], out: &mut impl Write) -> Result<u64, ExportError> {
    let run = Run::new(parts);
    let first = run.first_time().unwrap_or(0);
    let name = parts.first().map(|part| program_name(part.file));
    let reference = ReferenceTimestamp::from_millis_since_unix_epoch(first as f64 / 1e6);
    // Hits are no samples of a clock: the interval is the width with which the profiler draws one.
    let interval = SamplingInterval::from_millis(1);
    let mut profile = Profile::new(&name.unwrap_or_default(), reference, interval);
    profile.set_symbolicated(true);
    let hits = profile.add_category("Hits", CategoryColor::Blue);
    let spans = profile.add_category("Spans", CategoryColor::Green);
    let mut builder = Builder {
        parts,
        first,
        profile,
        hits,
        spans,
        processes: HashMap::new(),
        threads: HashMap::new(),
        samples: 0,
    };
    let needs = Needs {
        values: true,
        stack: true,
    };
    run.for_each(needs, |event| -> Result<(), ExportError> {
        builder.add(&event);
        Ok(())
    })?;
    serde_json::to_writer(&mut *out, &builder.profile)
        .map_err(|error| ExportError::Write(error.into()))?;
    out.flush()?;
    Ok(builder.samples)
}

struct Builder<'p, 'a> {
    parts: &'p [RunPart<'a>],
    first: u64,
    profile: Profile,
    hits: CategoryHandle,
    spans: CategoryHandle,
    processes: HashMap<usize, ProcessHandle>,
    threads: HashMap<ThreadKey, ThreadHandle>,
    samples: u64,
}

impl Builder<'_, '_> {
    fn time(&self, time: u64) -> Timestamp {
        Timestamp::from_nanos_since_reference(time.saturating_sub(self.first))
    }

    fn thread(&mut self, event: &Event<'_>) -> ThreadHandle {
        let key = ThreadKey::of(event);
        if let Some(thread) = self.threads.get(&key) {
            return *thread;
        }
        let start = self.time(event.start);
        let number = process_number(self.parts, key.part);
        let name = self.parts.get(key.part);
        let name = name.map_or_else(String::new, |part| program_name(part.file));
        let profile = &mut self.profile;
        let process = self.processes.entry(key.part);
        let process = *process.or_insert_with(|| profile.add_process(&name, number, start));
        let is_main = key.thread == number;
        let thread = profile.add_thread(process, key.thread, start, is_main);
        let name = match key.thread {
            0 => "unknown thread".to_owned(),
            number => format!("thread {number}"),
        };
        profile.set_thread_name(thread, &name);
        profile.set_thread_show_markers_in_timeline(thread, true);
        self.threads.insert(key, thread);
        thread
    }

    fn stack(&mut self, thread: ThreadHandle, stack: &Stack) -> Option<StackHandle> {
        let category_pair = self.hits.into();
        // The outermost first.
        let frames: Vec<FrameInfo> = stack
            .entries
            .iter()
            .rev()
            .map(|entry| {
                let name = entry.function.as_deref().unwrap_or(&entry.pc);
                FrameInfo {
                    frame: Frame::Label(self.profile.intern_string(name)),
                    category_pair,
                    flags: FrameFlags::empty(),
                }
            })
            .collect();
        self.profile.intern_stack_frames(thread, frames.into_iter())
    }

    fn add(&mut self, event: &Event<'_>) {
        let thread = self.thread(event);
        let stack = event.stack.as_ref();
        let stack = stack.and_then(|stack| self.stack(thread, stack));
        let start = self.time(event.start);
        let timing = match event.span.as_ref().map(|span| span.end()) {
            None | Some(EventEnd::Unknown) => MarkerTiming::Instant(start),
            Some(EventEnd::At(end)) => {
                MarkerTiming::Interval(start, self.time(end.max(event.start)))
            }
            Some(EventEnd::Open) => MarkerTiming::IntervalStart(start),
        };
        let values = event.values.iter();
        let values: Vec<String> = values
            .map(|value| format!("{} = {}", value.name, value.text))
            .collect();
        let place = event.place.as_ref().and_then(|place| {
            let file = place.file.as_ref()?;
            Some(format!("{file}:{}", place.line))
        });
        let ended = event.span.as_ref().map_or("", |span| span.ended().name());
        let marker = EventMarker {
            name: self.profile.intern_string(&event.name),
            category: match event.span {
                Some(_) => self.spans,
                None => self.hits,
            },
            values: self.profile.intern_string(&values.join(", ")),
            place: self.profile.intern_string(&place.unwrap_or_default()),
            ended: self.profile.intern_string(ended),
            tracepoint: event.tracepoint,
            frame: event.frame,
        };
        let marker = self.profile.add_marker(thread, timing, marker);
        if stack.is_some() {
            self.samples += 1;
            self.profile.set_marker_stack(thread, marker, stack);
            let time = self.time(event.time);
            self.profile
                .add_sample(thread, time, stack, CpuDelta::ZERO, 1);
        }
    }
}

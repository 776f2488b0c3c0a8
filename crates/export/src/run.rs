//! The events of a run, by their times: the common input of all formats.

use std::collections::HashMap;
use std::rc::Rc;

use tracewire_expr::Datum;
use tracewire_model::{Address, TracepointNumber};
use tracewire_tracefile::{Frame, TraceFile};
use tracewire_views::{Map, RunPart, TypedValue, Viewer, by_time, table};

use crate::event::{Event, EventSpan, EventValue};

/// The latest time that is believed, in nanoseconds: what 63 bits hold. A value over it is no time, and tools refuse it.
const LATEST: u64 = i64::MAX as u64;

/// How much of a location is an event's name, in characters.
const LONGEST_NAME: usize = 200;

/// The trace files of a run and their programs.
#[derive(Debug)]
pub(crate) struct Run<'p, 'a> {
    parts: &'p [RunPart<'a>],
    viewers: Vec<Viewer<'a>>,
    names: Vec<Names>,
}

/// The parts of each event that a format needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Needs {
    pub(crate) values: bool,
    pub(crate) stack: bool,
}

/// The names of a file's tracepoints.
#[derive(Debug)]
struct Names(HashMap<(TracepointNumber, Address), Rc<str>>);

impl Names {
    fn of(file: &TraceFile) -> Self {
        let mut names = HashMap::new();
        for tracepoint in file.description().tracepoints() {
            let definition = &tracepoint.definition;
            if let Some(at) = definition.source.location() {
                let name: String = at.chars().take(LONGEST_NAME).collect();
                names.insert(definition.key(), name.into());
            }
        }
        Self(names)
    }

    fn name(&self, frame: Frame<'_>) -> Rc<str> {
        let number = frame.tracepoint();
        let named = frame
            .program_counter()
            .and_then(|pc| self.0.get(&(number, pc)));
        // A step is at another address than its tracepoint, and so is a hit of a watch.
        let named = named.or_else(|| {
            let mut all = self.0.iter().filter(|((known, _), _)| *known == number);
            all.next().map(|(_, name)| name)
        });
        named.map_or_else(|| format!("tracepoint {number}").into(), Rc::clone)
    }
}

/// When a frame was made, in nanoseconds.
fn time_ns(frame: Frame<'_>) -> Option<u64> {
    let from_microseconds = || frame.timestamp().and_then(|time| time.checked_mul(1000));
    let time = frame.nanoseconds().or_else(from_microseconds);
    time.filter(|time| *time <= LATEST)
}

impl<'p, 'a> Run<'p, 'a> {
    pub(crate) fn new(parts: &'p [RunPart<'a>]) -> Self {
        Self {
            parts,
            viewers: parts
                .iter()
                .map(|part| Viewer::new(part.file, part.program).with_process(part.process))
                .collect(),
            names: parts.iter().map(|part| Names::of(part.file)).collect(),
        }
    }

    /// The first time of any frame, in nanoseconds.
    pub(crate) fn first_time(&self) -> Option<u64> {
        let firsts = self.parts.iter();
        firsts
            .filter_map(|part| part.file.frames().find_map(time_ns))
            .min()
    }

    /// The last time of any frame, in nanoseconds.
    pub(crate) fn last_time(&self) -> Option<u64> {
        let frames = self.parts.iter().flat_map(|part| part.file.frames());
        frames.filter_map(time_ns).max()
    }

    /// Gives the events by their times: a span when it begins. One is in memory at a time.
    pub(crate) fn for_each<E>(
        &self,
        needs: Needs,
        mut take: impl FnMut(Event<'a>) -> Result<(), E>,
    ) -> Result<(), E> {
        let by_viewer: HashMap<*const Viewer<'a>, usize> = self
            .viewers
            .iter()
            .map(std::ptr::from_ref)
            .zip(0..)
            .collect();
        // A frame without a time has that of the one before it, and one before the first time has that.
        let mut latest: Vec<u64> = self
            .parts
            .iter()
            .map(|part| part.file.frames().find_map(time_ns).unwrap_or(0))
            .collect();
        for (viewer, frame) in by_time(&self.viewers) {
            let Some(part) = by_viewer.get(&std::ptr::from_ref(viewer)).copied() else {
                debug_assert!(false, "a viewer is of a part");
                continue;
            };
            let Some(latest) = latest.get_mut(part) else {
                continue;
            };
            let time = time_ns(frame).unwrap_or(*latest);
            *latest = time;
            let spans = viewer.file().spans();
            let shown = if spans.point(&frame).is_none() {
                frame
            } else {
                // A span is one event, at its beginning, whichever of its frames represents it.
                let span = spans.at(frame.number());
                let span = span.filter(|span| span.entry == frame.number());
                let Some(shown) = span.and_then(|span| viewer.file().frame(span.frame())) else {
                    continue;
                };
                shown
            };
            if viewer.is_listed(shown) {
                take(self.event(part, viewer, shown, time, needs))?;
            }
        }
        Ok(())
    }

    fn event(
        &self,
        part: usize,
        viewer: &Viewer<'a>,
        frame: Frame<'a>,
        start: u64,
        needs: Needs,
    ) -> Event<'a> {
        let row = viewer.typed_row(frame);
        let spans = viewer.file().spans();
        let span = row.span.and_then(|span| spans.at(span.entry));
        let function = row.place.as_ref().and_then(|place| place.function.clone());
        let name = match (span, function) {
            (Some(_), Some(function)) => {
                let name: String = function.chars().take(LONGEST_NAME).collect();
                name.into()
            }
            _ => self
                .names
                .get(part)
                .map_or_else(|| "".into(), |names| names.name(frame)),
        };
        let values = match needs.values {
            true => values(viewer.typed_values(frame)),
            false => Vec::new(),
        };
        let raw = (needs.values && values.is_empty()).then(|| Box::new(viewer.view(frame)));
        Event {
            part,
            frame: frame.number().0,
            tracepoint: frame.tracepoint().0,
            name,
            kind: row.kind,
            thread: frame.thread().map(|thread| thread.0),
            cpu: frame.cpu(),
            pc: row.pc,
            place: row.place,
            marker: viewer.marker(frame),
            start,
            time: time_ns(frame).unwrap_or(start),
            span: span.map(|span| EventSpan::new(span, spans, row.parent)),
            values,
            variables: variables(viewer.variables(frame)),
            raw,
            stack: needs.stack.then(|| viewer.stack(frame)).flatten(),
        }
    }
}

/// The variables but for those that say when and where the hit was, which an event has anyway.
fn variables(all: Map<i64>) -> Map<i64> {
    let all = all.0.into_iter();
    Map(all.filter(|(name, _)| !table::is_builtin(name)).collect())
}

/// The values with names that differ.
fn values(values: Vec<TypedValue>) -> Vec<EventValue> {
    let mut named: Vec<EventValue> = Vec::with_capacity(values.len());
    for value in values {
        let datum = match (&value.view.error, value.datum) {
            (Some(_), Datum::Missing(reason)) => Datum::Missing(reason),
            (Some(_), _) => Datum::Missing(value.view.value.clone()),
            (None, datum) => datum,
        };
        let is_known = |name: &str| named.iter().any(|known| known.name == name);
        let mut name = value.view.expression.clone();
        // The entry and the return of a span may collect the same expression.
        for number in 2.. {
            if !is_known(&name) {
                break;
            }
            name = format!("{}#{number}", value.view.expression);
        }
        named.push(EventValue {
            name,
            datum,
            text: value.view.value,
        });
    }
    named
}

//! A run, read for its report: one pass over the frames.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, HashSet};

use tracewire_expr::Datum;
use tracewire_model::Address;
use tracewire_tracefile::Frame;
use tracewire_views::{
    AggregateView, Info, RunPart, Stack, TypedRow, TypedValue, ValueView, Viewer, by_time, table,
};

use crate::data::{Columns, Data, DataPlace, DataTracepoint};
use crate::distribution::Distributions;
use crate::numbers::{Number, Numbers};
use crate::source::{Excerpt, Sources, built};
use crate::words;

/// How many bars the hits over time have.
const TIMES: usize = 120;

/// How many tracepoints have charts.
const CHARTED: usize = 60;

/// How many of the slowest spans are listed.
const SLOWEST: usize = 20;

/// How many spans around one are named.
const PARENTS: usize = 16;

/// How many places have their source lines shown, those with the most hits.
const PLACES: usize = 30;

/// How many lines before and after a place are shown.
const AROUND: u64 = 6;

/// How many bytes are shown of a piece of memory without an expression.
const MEMORY_SHOWN: usize = 64;

/// Options of a report.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunOptions {
    /// The name of the run.
    pub title: String,
    /// How many hits its table has at most.
    pub most_rows: u64,
    /// Whether source files are read.
    pub with_source: bool,
}

/// The page's data for a run.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) title: String,
    pub(crate) parts: Vec<Part>,
    pub(crate) hits: u64,
    /// The first and the last time, in nanoseconds.
    pub(crate) times: Option<(u64, u64)>,
    pub(crate) threads: usize,
    pub(crate) tracepoints: Vec<TracepointReport>,
    pub(crate) slowest: Vec<SlowSpan>,
    pub(crate) aggregates: Vec<AggregateView>,
    pub(crate) source: Vec<SourceReport>,
    pub(crate) data: Data,
}

/// A trace file.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) name: String,
    pub(crate) process: Option<u32>,
    pub(crate) parent: Option<u32>,
    pub(crate) info: Info,
    /// The missing parts of its program.
    pub(crate) notes: Vec<String>,
}

/// A tracepoint of all processes.
#[derive(Debug, Default)]
pub(crate) struct TracepointReport {
    pub(crate) number: i32,
    /// Its locations, as the user wrote them.
    pub(crate) locations: Vec<String>,
    pub(crate) addresses: BTreeSet<String>,
    pub(crate) conditions: Vec<String>,
    pub(crate) commands: Vec<String>,
    pub(crate) mechanisms: BTreeSet<String>,
    pub(crate) is_disabled: bool,
    pub(crate) pass_count: u64,
    /// Where its hits were, most of them first.
    pub(crate) place: Option<String>,
    pub(crate) hits: u64,
    /// How many more hits made no frame, because the run limited how often it may make one.
    pub(crate) skipped: u64,
    /// Whether it has aggregates, which count hits that have no frame.
    pub(crate) has_counts: bool,
    /// Hits in equal stretches of the run's time.
    pub(crate) over_time: Vec<u64>,
    pub(crate) values: Distributions,
    pub(crate) durations: Numbers,
    pub(crate) endings: BTreeMap<&'static str, u64>,
    /// The source places of its hits.
    places: HashMap<SourceKey, PlaceHits>,
}

/// A line of a file.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct SourceKey {
    file: String,
    line: u64,
    function: String,
}

/// The hits at a source place, and where its code is.
#[derive(Clone, Copy, Debug)]
struct PlaceHits {
    hits: u64,
    /// The trace file of the first hit, its address and its time.
    part: usize,
    pc: Address,
    time: Option<u64>,
}

/// One of the slowest spans.
#[derive(Debug)]
pub(crate) struct SlowSpan {
    pub(crate) duration: u64,
    pub(crate) frame: u64,
    pub(crate) process: Option<u32>,
    pub(crate) thread: Option<u32>,
    pub(crate) place: String,
    pub(crate) ended: &'static str,
    pub(crate) values: Vec<ValueView>,
    /// The spans that it is in, the nearest first, with their times.
    pub(crate) parents: Vec<(String, Option<u64>)>,
    pub(crate) stack: Vec<String>,
}

/// Source lines with the tracepoints that are there.
#[derive(Debug)]
pub(crate) struct SourceReport {
    pub(crate) file: String,
    pub(crate) function: String,
    pub(crate) line: u64,
    pub(crate) tracepoints: Vec<i32>,
    pub(crate) hits: u64,
    pub(crate) excerpt: Option<Excerpt>,
}

/// When a frame was made, in nanoseconds.
fn time_ns(frame: Frame<'_>) -> Option<u64> {
    let from_microseconds = || frame.timestamp().map(|time| time.saturating_mul(1000));
    frame.nanoseconds().or_else(from_microseconds)
}

/// The first and the last time of any frame.
fn times<'a>(parts: &[RunPart<'a>]) -> Option<(u64, u64)> {
    let frames = parts.iter().flat_map(|part| part.file.frames());
    frames
        .filter_map(time_ns)
        .fold(None, |ends, time| match ends {
            None => Some((time, time)),
            Some((first, last)) => Some((time.min(first), time.max(last))),
        })
}

/// A place in words, as tables have it.
fn place_words(row: &TypedRow) -> String {
    let place = row.place.as_ref();
    let file = place.and_then(|place| Some((place.file.as_deref()?, place.line)));
    let file = file.map(|(file, line)| match line {
        0 => file.to_owned(),
        line => format!("{file}:{line}"),
    });
    let function = place.and_then(|place| place.function.clone());
    match (function, file) {
        (Some(function), Some(file)) => format!("{function} {file}"),
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) => row.pc.map_or_else(|| "?".to_owned(), |pc| pc.to_string()),
    }
}

fn stack_words(stack: &Stack) -> Vec<String> {
    let entries = stack.entries.iter().map(|entry| {
        let file = entry.file.as_ref().map(|file| match entry.line {
            Some(line) => format!(" {file}:{line}"),
            None => format!(" {file}"),
        });
        let name = entry.function.as_deref().unwrap_or(&entry.pc);
        let inlined = if entry.inlined { " (inlined)" } else { "" };
        format!("{name}{}{inlined}", file.unwrap_or_default())
    });
    let end = match stack.end {
        "unavailable" => Some("<more of the stack was not collected>".to_owned()),
        "no-information" => Some("<no call frame information says who called>".to_owned()),
        _ => None,
    };
    entries.chain(end).collect()
}

/// The values of a frame; if its program is not known, the contents of the frame.
fn values<'a>(viewer: &Viewer<'a>, frame: Frame<'a>) -> Vec<TypedValue> {
    let values = viewer.typed_values(frame);
    if !values.is_empty() {
        return values;
    }
    let view = viewer.view(frame);
    let value = |expression: String, datum: Datum, value: String| TypedValue {
        view: ValueView {
            expression,
            type_name: None,
            value,
            error: None,
        },
        datum,
    };
    let variables = view.variables.0.iter();
    let variables = variables.filter(|(name, _)| !table::is_builtin(name));
    let variables = variables.map(|(name, number)| {
        value(
            format!("${name}"),
            Datum::Integer((*number).into()),
            number.to_string(),
        )
    });
    let memory = view
        .memory
        .iter()
        .filter(|piece| !piece.is_stack)
        .map(|piece| {
            let bytes = &piece.bytes.0;
            let start = bytes.get(..MEMORY_SHOWN).unwrap_or(bytes);
            let cut = if bytes.len() > MEMORY_SHOWN {
                "…"
            } else {
                ""
            };
            let text = format!("{}{cut}", tracewire_model::hex::text(start));
            value(
                format!("memory at {}", piece.address),
                Datum::Text(text.clone()),
                text,
            )
        });
    variables.chain(memory).collect()
}

impl Run {
    /// Reads a run.
    pub(crate) fn read(parts: &[RunPart<'_>], options: &RunOptions) -> Self {
        let viewers: Vec<Viewer<'_>> = (parts.iter())
            .map(|part| Viewer::new(part.file, part.program).with_process(part.process))
            .collect();
        let times = times(parts);
        let mut reader = Reader {
            times,
            most_rows: options.most_rows,
            tracepoints: asked(parts),
            hits: 0,
            threads: HashSet::new(),
            data: Data {
                version: 1,
                time_origin_ns: times.map_or(0, |(first, _)| first).to_string(),
                ..Data::default()
            },
            columns: BTreeMap::new(),
            places: HashMap::new(),
            stacks: HashMap::new(),
            slowest: BinaryHeap::new(),
        };
        for (viewer, frame) in by_time(&viewers) {
            if viewer.is_listed(frame) {
                let part = parts
                    .iter()
                    .position(|part| std::ptr::eq(part.file, viewer.file()));
                reader.add(viewer, frame, part.unwrap_or(0));
            }
        }
        let mut slowest: Vec<_> = std::mem::take(&mut reader.slowest).into_vec();
        slowest.sort();
        let slowest =
            slowest
                .into_iter()
                .filter_map(|Reverse((duration, Reverse((part, number))))| {
                    let viewer = viewers.get(part)?;
                    let frame = viewer.file().frame(tracewire_model::FrameNumber(number))?;
                    Some(slow_span(viewer, frame, duration))
                });
        let slowest: Vec<_> = slowest.collect();
        let source = match options.with_source {
            true => source(parts, &reader.tracepoints),
            false => Vec::new(),
        };
        let Reader {
            mut data,
            columns,
            mut tracepoints,
            ..
        } = reader;
        data.hits = reader.hits;
        data.rows
            .retain(|_, cells| cells.iter().any(Option::is_some));
        for tracepoint in tracepoints.values_mut() {
            let most = tracepoint
                .places
                .iter()
                .max_by_key(|(key, place)| (place.hits, Reverse(*key)));
            tracepoint.place =
                most.map(|(key, _)| format!("{} {}:{}", key.function, key.file, key.line));
        }
        for (number, columns) in columns {
            let report = tracepoints.get(&number);
            data.tracepoints.push(DataTracepoint {
                number,
                name: report.map(TracepointReport::name).unwrap_or_default(),
            });
            data.columns.extend(columns.finish());
        }
        let descriptions = parts.iter().map(|part| part.file.description());
        let aggregates = AggregateView::of_all(descriptions, None);
        for view in &aggregates {
            let Some(report) = tracepoints.get_mut(&view.tracepoint()) else {
                continue;
            };
            report.has_counts = true;
            // The aggregates of a span are in none of its actions.
            if !report
                .commands
                .iter()
                .any(|command| command.contains(view.text()))
            {
                report.commands.push(format!("collect {}", view.text()));
            }
        }
        let times = times.map(|(first, last)| {
            // The run may begin before its first hit.
            let start = parts.iter().filter_map(|part| part.origin).min();
            let start = start.map_or(first, |start| start.saturating_mul(1000).min(first));
            data.time_start_ns = first - start;
            (start, last)
        });
        Self {
            title: options.title.clone(),
            parts: parts
                .iter()
                .map(|part| Part {
                    name: part.name.clone(),
                    process: part.process.map(|process| process.0),
                    parent: part.parent.map(|process| process.0),
                    info: Info::of(part.file),
                    notes: part.program.notes.clone(),
                })
                .collect(),
            hits: reader.hits,
            times,
            threads: reader.threads.len(),
            tracepoints: tracepoints.into_values().collect(),
            slowest,
            aggregates,
            source,
            data,
        }
    }
}

/// The tracepoints with their definitions, by number.
fn asked(parts: &[RunPart<'_>]) -> BTreeMap<i32, TracepointReport> {
    let mut all: BTreeMap<i32, TracepointReport> = BTreeMap::new();
    let add = |list: &mut Vec<String>, text: String| {
        if !list.contains(&text) {
            list.push(text);
        }
    };
    for part in parts {
        let mut infos = Info::of(part.file).tracepoints;
        infos.sort_by_key(|info| {
            u64::from_str_radix(info.address.trim_start_matches("0x"), 16).ok()
        });
        for info in infos {
            let one = all.entry(info.number).or_default();
            one.number = info.number;
            one.over_time.resize(TIMES, 0);
            one.addresses.insert(info.address);
            one.is_disabled |= !info.enabled;
            one.pass_count = one.pass_count.max(info.pass_count);
            one.mechanisms.extend(info.mechanism);
            one.skipped = one.skipped.saturating_add(info.skipped.unwrap_or(0));
            if let Some(location) = info.source.at {
                add(&mut one.locations, location);
            }
            if let Some(condition) = info.source.cond {
                add(&mut one.conditions, condition);
            }
            for command in info.source.cmds {
                add(&mut one.commands, command);
            }
        }
    }
    for one in all.values_mut() {
        // Places that Tracewire needs itself, as those that exceptions come by, have addresses for names.
        if one
            .locations
            .iter()
            .any(|location| !location.starts_with("*0x"))
        {
            one.locations
                .retain(|location| !location.starts_with("*0x"));
        }
    }
    all
}

impl TracepointReport {
    /// The name of the tracepoint.
    pub(crate) fn name(&self) -> String {
        match (self.locations.as_slice(), self.addresses.first()) {
            ([], Some(address)) => format!("*{address}"),
            ([], None) => String::new(),
            (locations, _) => locations.join(", "),
        }
    }
}

/// How long a span took, and which one it is: the part, and the number of its frame. Of equally long ones the first is the longest.
type Longest = (u64, Reverse<(usize, u64)>);

/// Goes over the frames.
struct Reader {
    times: Option<(u64, u64)>,
    most_rows: u64,
    tracepoints: BTreeMap<i32, TracepointReport>,
    hits: u64,
    threads: HashSet<(Option<u32>, u32)>,
    data: Data,
    columns: BTreeMap<i32, Columns>,
    places: HashMap<DataPlace, i64>,
    stacks: HashMap<Vec<u32>, i64>,
    /// The longest spans; of equal ones the first. The least is on top.
    slowest: BinaryHeap<Reverse<Longest>>,
}

impl Reader {
    fn add<'a>(&mut self, viewer: &Viewer<'a>, frame: Frame<'a>, part: usize) {
        self.hits += 1;
        let row = viewer.typed_row(frame);
        let values = values(viewer, frame);
        let number = frame.tracepoint().0;
        let time = time_ns(frame);
        let thread = frame.thread().map(|thread| thread.0);
        let process = viewer.process();
        if let Some(thread) = thread {
            self.threads.insert((process, thread));
        }
        let report = self
            .tracepoints
            .entry(number)
            .or_insert_with(|| TracepointReport {
                number,
                over_time: vec![0; TIMES],
                ..TracepointReport::default()
            });
        report.hits += 1;
        if let (Some(time), Some((first, last))) = (time, self.times) {
            let share = u128::from(time - first) * TIMES as u128 / (u128::from(last - first) + 1);
            if let Some(count) = report.over_time.get_mut(share as usize) {
                *count += 1;
            }
        }
        for value in &values {
            let datum = match (&value.view.error, &value.datum) {
                (Some(_), Datum::Missing(_)) | (None, _) => &value.datum,
                (Some(_), _) => &Datum::Missing(value.view.value.clone()),
            };
            // The duration has a separate chart.
            if value.view.expression != "$duration" {
                report
                    .values
                    .add(self.hits, &value.view.expression, datum, &value.view.value);
            }
        }
        let duration = row.span.and_then(|span| span.duration_ns());
        if let Some(span) = row.span {
            *report.endings.entry(span.end.name()).or_default() += 1;
        }
        if let Some(duration) = duration {
            report.durations.add(Number::Integer(duration.into()));
            self.slowest
                .push(Reverse((duration, Reverse((part, frame.number().0)))));
            if self.slowest.len() > SLOWEST {
                self.slowest.pop();
            }
        }
        if let Some(place) = &row.place
            && let (Some(file), Some(pc)) = (&place.file, row.pc)
            && place.line != 0
        {
            let key = SourceKey {
                file: file.clone(),
                line: place.line,
                function: place.function.clone().unwrap_or_default(),
            };
            let known = report.places.entry(key);
            let known = known.or_insert(PlaceHits {
                hits: 0,
                part,
                pc,
                time: frame.timestamp(),
            });
            known.hits += 1;
        }
        if self.hits <= self.most_rows {
            self.add_row(viewer, frame, &row, &values, time, duration);
        }
    }

    fn add_row<'a>(
        &mut self,
        viewer: &Viewer<'a>,
        frame: Frame<'a>,
        row: &TypedRow,
        values: &[TypedValue],
        time: Option<u64>,
        duration: Option<u64>,
    ) {
        let first = self.times.map_or(0, |(first, _)| first);
        let number = |number: u64| i64::try_from(number).ok();
        let place = DataPlace {
            pc: row.pc.map(|pc| pc.to_string()),
            function: row.place.as_ref().and_then(|place| place.function.clone()),
            file: row.place.as_ref().and_then(|place| place.file.clone()),
            line: row
                .place
                .as_ref()
                .map(|place| place.line)
                .filter(|line| *line != 0),
        };
        let next = self.places.len() as i64;
        let place_number = *self.places.entry(place.clone()).or_insert(next);
        if place_number == next {
            self.data.places.push(place);
        }
        let stack = viewer.stack(frame).map(|stack| {
            let texts = &mut self.data.texts;
            let entries = stack_words(&stack)
                .iter()
                .map(|entry| texts.number(entry))
                .collect::<Vec<_>>();
            let next = self.stacks.len() as i64;
            let at = *self.stacks.entry(entries.clone()).or_insert(next);
            if at == next {
                self.data.stacks.push(entries);
            }
            at
        });
        let tracepoint = frame.tracepoint().0;
        let kind = self.data.texts.number(row.kind);
        let ended = row
            .span
            .map(|span| self.data.texts.number(span.end.name()).into());
        let cells = [
            ("frame", number(frame.number().0)),
            ("process", viewer.process().map(Into::into)),
            ("tracepoint", Some(tracepoint.into())),
            ("time", time.and_then(|time| number(time - first))),
            ("thread", frame.thread().map(|thread| thread.0.into())),
            ("cpu", frame.cpu().map(Into::into)),
            ("place", Some(place_number)),
            ("kind", Some(kind.into())),
            ("duration", duration.and_then(number)),
            ("ended", ended),
            ("parent", row.parent.and_then(number)),
            ("stack", stack),
        ];
        for (name, cell) in cells {
            self.data.rows.entry(name).or_default().push(cell);
        }
        let columns = self.columns.entry(tracepoint).or_default();
        columns.add(tracepoint, values, &mut self.data.texts);
    }
}

fn slow_span<'a>(viewer: &Viewer<'a>, frame: Frame<'a>, duration: u64) -> SlowSpan {
    let row = viewer.typed_row(frame);
    let mut parents = Vec::new();
    let mut parent = row.parent;
    while let Some(number) = parent.filter(|_| parents.len() < PARENTS) {
        let Some(frame) = viewer.file().frame(tracewire_model::FrameNumber(number)) else {
            break;
        };
        let row = viewer.typed_row(frame);
        parents.push((
            place_words(&row),
            row.span.and_then(|span| span.duration_ns()),
        ));
        parent = row.parent;
    }
    let values = viewer
        .typed_values(frame)
        .into_iter()
        .map(|value| value.view);
    SlowSpan {
        duration,
        frame: frame.number().0,
        process: viewer.process(),
        thread: frame.thread().map(|thread| thread.0),
        place: place_words(&row),
        ended: row.span.map_or("", |span| span.end.name()),
        values: values
            .filter(|value| value.expression != "$duration")
            .collect(),
        parents,
        stack: viewer
            .stack(frame)
            .map(|stack| stack_words(&stack))
            .unwrap_or_default(),
    }
}

/// Source lines around the places of hits, those with the most hits, in the order of files and lines.
fn source(
    parts: &[RunPart<'_>],
    tracepoints: &BTreeMap<i32, TracepointReport>,
) -> Vec<SourceReport> {
    let mut all: BTreeMap<&SourceKey, (PlaceHits, Vec<i32>)> = BTreeMap::new();
    for tracepoint in tracepoints.values() {
        for (key, place) in &tracepoint.places {
            let (sum, numbers) = all
                .entry(key)
                .or_insert((PlaceHits { hits: 0, ..*place }, Vec::new()));
            sum.hits += place.hits;
            numbers.push(tracepoint.number);
        }
    }
    let mut places: Vec<_> = all.into_iter().collect();
    places.sort_by_key(|(key, (place, _))| (Reverse(place.hits), *key));
    places.truncate(PLACES);
    places.sort_by_key(|(key, _)| *key);
    let mut sources = Sources::default();
    let reports = places.into_iter().map(|(key, (place, tracepoints))| {
        let excerpt = parts.get(place.part).and_then(|part| {
            let symbols = part.program.symbols(place.time);
            let file = sources.file(symbols, place.pc, &key.file)?;
            let first = key.line.saturating_sub(AROUND);
            let last = key.line.saturating_add(AROUND);
            file.excerpt(first, last, built(symbols, place.pc))
        });
        SourceReport {
            file: key.file.clone(),
            function: key.function.clone(),
            line: key.line,
            tracepoints,
            hits: place.hits,
            excerpt,
        }
    });
    reports.collect()
}

impl Run {
    /// The tracepoints that have charts: those with the most hits.
    pub(crate) fn charted(&self) -> Vec<&TracepointReport> {
        let mut hit: Vec<_> = self.tracepoints.iter().collect();
        hit.retain(|tracepoint| tracepoint.hits > 0);
        hit.sort_by_key(|tracepoint| (Reverse(tracepoint.hits), tracepoint.number));
        hit.truncate(CHARTED);
        hit.sort_by_key(|tracepoint| tracepoint.number);
        hit
    }

    /// How many tracepoints were hit and have no charts.
    pub(crate) fn uncharted(&self) -> usize {
        let hit = self.tracepoints.iter().filter(|one| one.hits > 0);
        hit.count().saturating_sub(CHARTED)
    }

    /// The run's length, in words.
    pub(crate) fn length(&self) -> Option<String> {
        let (first, last) = self.times?;
        Some(words::time((last - first) as f64))
    }
}

//! The OpenTelemetry protocol as JSON: to a file, a message a line, or to the HTTP endpoint of a collector.
//!
//! | of the run | in OpenTelemetry |
//! |---|---|
//! | a process | a resource |
//! | a span | a span; a trace is an outermost span of a thread with those in it |
//! | a hit | a log record, of the span that it is in |
//! | hits and aggregates | metrics |
//! | what was collected | attributes, with types and parts |
//!
//! Identifiers are the same whenever the run is converted: a span that is sent twice is the same span.

mod endpoint;
mod message;
mod metrics;
mod value;

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;

use tracewire_model::FrameNumber;
use tracewire_tracefile::{SpanEnd, TraceFile};
use tracewire_views::RunPart;

use crate::error::ExportError;
use crate::event::{Event, EventEnd, EventSpan};
use crate::run::{Needs, Run};
use crate::threads::ThreadKey;
use crate::words::{program_name, program_path};

pub use endpoint::Endpoint;
use message::{
    AnyValue, KIND_INTERNAL, LogRecord, LogsData, MetricsData, Resource, ResourceLogs,
    ResourceMetrics, ResourceSpans, SEVERITY_INFO, STATUS_ERROR, Scope, ScopeLogs, ScopeMetrics,
    ScopeSpans, Span, Status, Text64, TracesData,
};
use metrics::{Period, metrics};
use value::{attributes, integer, text};

/// How many spans, log records or metrics a message has at most.
const BATCH: usize = 512;

/// Which kind of data a message has.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Signal {
    /// Spans.
    Traces,
    /// Hits.
    Logs,
    /// Numbers of hits, and aggregates.
    Metrics,
}

/// The number of written or sent items.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OtlpCounts {
    /// Spans.
    pub spans: u64,
    /// Hits.
    pub logs: u64,
    /// Metrics.
    pub metrics: u64,
}

/// Writes a run as lines, each a message of one kind: the form of OpenTelemetry's file exporter.
///
/// # Errors
/// When the sink refuses.
pub fn write(parts: &[RunPart<'_>], out: &mut impl Write) -> Result<OtlpCounts, ExportError> {
    let counts = messages(parts, |_, message| {
        out.write_all(message)?;
        Ok(out.write_all(b"\n")?)
    })?;
    out.flush()?;
    Ok(counts)
}

/// Sends a run to an endpoint.
///
/// # Errors
/// When the endpoint cannot be reached, or refuses the data.
pub fn send(parts: &[RunPart<'_>], endpoint: &mut Endpoint) -> Result<OtlpCounts, ExportError> {
    messages(parts, |signal, message| endpoint.send(signal, message))
}

/// Makes the messages, up to [`BATCH`] spans or hits at a time.
fn messages(
    parts: &[RunPart<'_>],
    mut take: impl FnMut(Signal, &[u8]) -> Result<(), ExportError>,
) -> Result<OtlpCounts, ExportError> {
    let run = Run::new(parts);
    let period = Period {
        start: run.first_time().unwrap_or(0),
        end: run.last_time().unwrap_or(0),
    };
    let resources: Vec<Resource> = parts.iter().map(resource).collect();
    let identities: Vec<u64> = parts.iter().map(|part| identity(part.file)).collect();
    let mut batches: Vec<Batch> = parts.iter().map(|_| Batch::default()).collect();
    let mut open: HashMap<ThreadKey, Vec<OpenSpan>> = HashMap::new();
    let mut counts = OtlpCounts::default();
    let needs = Needs {
        values: true,
        stack: true,
    };
    run.for_each(needs, |event| {
        let (Some(batch), Some(identity), Some(resource)) = (
            batches.get_mut(event.part),
            identities.get(event.part),
            resources.get(event.part),
        ) else {
            return Ok(());
        };
        let around = open.entry(ThreadKey::of(&event)).or_default();
        match &event.span {
            Some(span) => {
                counts.spans += 1;
                batch
                    .spans
                    .push(span_message(&event, span, *identity, period));
                around.push(OpenSpan::of(&event, span));
            }
            None => {
                counts.logs += 1;
                batch.logs.push(log_message(&event, around, *identity));
            }
        }
        if batch.spans.len() >= BATCH {
            batch.take_spans(resource, &mut take)?;
        }
        if batch.logs.len() >= BATCH {
            batch.take_logs(resource, &mut take)?;
        }
        Ok::<(), ExportError>(())
    })?;
    for ((batch, resource), part) in batches.iter_mut().zip(&resources).zip(parts) {
        batch.take_spans(resource, &mut take)?;
        batch.take_logs(resource, &mut take)?;
        let metrics = metrics(part, period);
        counts.metrics += metrics.len() as u64;
        for metrics in metrics.chunks(BATCH) {
            let message = MetricsData {
                resource_metrics: [ResourceMetrics {
                    resource: resource.clone(),
                    scope_metrics: [ScopeMetrics {
                        scope: Scope::TRACEWIRE,
                        metrics: metrics.to_vec(),
                    }],
                }],
            };
            take(Signal::Metrics, &json(&message)?)?;
        }
    }
    Ok(counts)
}

fn json(message: &impl serde::Serialize) -> Result<Vec<u8>, ExportError> {
    serde_json::to_vec(message).map_err(|error| ExportError::Write(error.into()))
}

/// The contents of the next messages of a part.
#[derive(Default)]
struct Batch {
    spans: Vec<Span>,
    logs: Vec<LogRecord>,
}

impl Batch {
    fn take_spans(
        &mut self,
        resource: &Resource,
        take: &mut impl FnMut(Signal, &[u8]) -> Result<(), ExportError>,
    ) -> Result<(), ExportError> {
        if self.spans.is_empty() {
            return Ok(());
        }
        let message = TracesData {
            resource_spans: [ResourceSpans {
                resource: resource.clone(),
                scope_spans: [ScopeSpans {
                    scope: Scope::TRACEWIRE,
                    spans: std::mem::take(&mut self.spans),
                }],
            }],
        };
        take(Signal::Traces, &json(&message)?)
    }

    fn take_logs(
        &mut self,
        resource: &Resource,
        take: &mut impl FnMut(Signal, &[u8]) -> Result<(), ExportError>,
    ) -> Result<(), ExportError> {
        if self.logs.is_empty() {
            return Ok(());
        }
        let message = LogsData {
            resource_logs: [ResourceLogs {
                resource: resource.clone(),
                scope_logs: [ScopeLogs {
                    scope: Scope::TRACEWIRE,
                    log_records: std::mem::take(&mut self.logs),
                }],
            }],
        };
        take(Signal::Logs, &json(&message)?)
    }
}

/// The program of a part, by the names of OpenTelemetry's semantic conventions.
fn resource(part: &RunPart<'_>) -> Resource {
    let mut attributes = vec![text("service.name", program_name(part.file))];
    if let Some(process) = part.process {
        attributes.push(integer("process.pid", process.0));
    }
    if let Some(parent) = part.parent {
        attributes.push(integer("process.parent_pid", parent.0));
    }
    if let Some(path) = program_path(part.file) {
        attributes.push(text("process.executable.path", path));
    }
    let module = part.file.description().modules().first();
    if let Some(module) = module.filter(|module| !module.build_id.is_empty()) {
        attributes.push(text(
            "process.executable.build_id.gnu",
            tracewire_model::hex::text(&module.build_id),
        ));
    }
    attributes.push(text("tracewire.file", part.name.as_str()));
    Resource { attributes }
}

/// The identity of a run: its tracepoints, its times, the addresses of its program and libraries.
fn identity(file: &TraceFile) -> u64 {
    let mut hasher = DefaultHasher::new();
    file.description().as_bytes().hash(&mut hasher);
    // Two files may have one description: the first frames differ.
    if let Some(frame) = file.frames().next() {
        (frame.nanoseconds(), frame.timestamp(), frame.thread()).hash(&mut hasher);
    }
    hasher.finish()
}

/// The identifier of a span. It is not zero, which would be none.
fn span_id(entry: FrameNumber) -> String {
    format!("{:016x}", entry.0.saturating_add(1))
}

fn trace_id(identity: u64, root: FrameNumber) -> String {
    format!("{identity:016x}{}", span_id(root))
}

fn span_message(event: &Event<'_>, span: &EventSpan<'_>, identity: u64, period: Period) -> Span {
    let end = match span.end() {
        EventEnd::At(end) => end,
        // A span must have an end: it ends where the run ends, and an attribute marks it as open.
        EventEnd::Open => period.end,
        EventEnd::Unknown => event.start,
    };
    let status = (span.ended() == SpanEnd::Exception).then_some(Status {
        code: STATUS_ERROR,
        message: "left by an exception",
    });
    Span {
        trace_id: trace_id(identity, span.root()),
        span_id: span_id(span.entry()),
        parent_span_id: span.ancestors().next().map(span_id),
        name: event.name.to_string(),
        kind: KIND_INTERNAL,
        start_time_unix_nano: Text64(event.start),
        end_time_unix_nano: Text64(end.max(event.start)),
        attributes: attributes(event),
        status,
    }
}

/// A span that hits may be in.
#[derive(Clone, Copy, Debug)]
struct OpenSpan {
    entry: FrameNumber,
    root: FrameNumber,
    end: Option<u64>,
}

impl OpenSpan {
    fn of(event: &Event<'_>, span: &EventSpan<'_>) -> Self {
        Self {
            entry: span.entry(),
            root: span.root(),
            end: match span.end() {
                EventEnd::At(end) => Some(end),
                EventEnd::Open => None,
                EventEnd::Unknown => Some(event.start),
            },
        }
    }
}

fn log_message(event: &Event<'_>, around: &mut Vec<OpenSpan>, identity: u64) -> LogRecord {
    around.retain(|open| open.end.is_none_or(|end| end >= event.start));
    let around = around.last();
    let mut body = event.name.to_string();
    for value in &event.values {
        body.push_str(&format!(" {} = {}", value.name, value.text));
    }
    LogRecord {
        time_unix_nano: Text64(event.start),
        severity_number: SEVERITY_INFO,
        severity_text: "INFO",
        body: AnyValue::StringValue(body),
        attributes: attributes(event),
        trace_id: around.map(|around| trace_id(identity, around.root)),
        span_id: around.map(|around| span_id(around.entry)),
    }
}

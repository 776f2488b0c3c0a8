//! The used messages of the OpenTelemetry protocol, as OTLP/JSON.
//!
//! Names are in camel case, 64-bit integers are strings, identifiers are hexadecimal, other bytes are in base 64. A test reads the
//! output with the descriptors of the Python package `opentelemetry-proto`.

use serde::{Serialize, Serializer};

/// An integer of 64 bits, which JSON has as a string.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Text64<T>(pub(super) T);

impl<T: ToString> Serialize for Text64<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0.to_string())
    }
}

/// A floating-point number; one that is not finite is a string.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Double(pub(super) f64);

impl Serialize for Double {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            value if value.is_nan() => serializer.serialize_str("NaN"),
            f64::INFINITY => serializer.serialize_str("Infinity"),
            f64::NEG_INFINITY => serializer.serialize_str("-Infinity"),
            value => serializer.serialize_f64(value),
        }
    }
}

/// `AnyValue`. One without a value is an empty object.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum AnyValue {
    StringValue(String),
    BoolValue(bool),
    IntValue(Text64<i64>),
    DoubleValue(Double),
    /// In base 64.
    BytesValue(String),
    ArrayValue(ArrayValue),
    KvlistValue(KeyValueList),
    #[serde(untagged)]
    Missing(Empty),
}

/// An object without fields.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub(super) struct Empty {}

#[derive(Clone, PartialEq, Debug, Serialize)]
pub(super) struct ArrayValue {
    pub(super) values: Vec<AnyValue>,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
pub(super) struct KeyValueList {
    pub(super) values: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
pub(super) struct KeyValue {
    pub(super) key: String,
    pub(super) value: AnyValue,
}

/// `Resource`: the program.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(super) struct Resource {
    pub(super) attributes: Vec<KeyValue>,
}

/// `InstrumentationScope`: Tracewire.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(super) struct Scope {
    pub(super) name: &'static str,
    pub(super) version: &'static str,
}

impl Scope {
    pub(super) const TRACEWIRE: Self = Self {
        name: "tracewire",
        version: env!("CARGO_PKG_VERSION"),
    };
}

/// `TracesData`, which is `ExportTraceServiceRequest` too.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TracesData {
    pub(super) resource_spans: [ResourceSpans; 1],
}

#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ResourceSpans {
    pub(super) resource: Resource,
    pub(super) scope_spans: [ScopeSpans; 1],
}

#[derive(Clone, PartialEq, Debug, Serialize)]
pub(super) struct ScopeSpans {
    pub(super) scope: Scope,
    pub(super) spans: Vec<Span>,
}

/// `Span`.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Span {
    pub(super) trace_id: String,
    pub(super) span_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) parent_span_id: Option<String>,
    pub(super) name: String,
    pub(super) kind: u32,
    pub(super) start_time_unix_nano: Text64<u64>,
    pub(super) end_time_unix_nano: Text64<u64>,
    pub(super) attributes: Vec<KeyValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) status: Option<Status>,
}

/// `Span.SpanKind`: a call within a program.
pub(super) const KIND_INTERNAL: u32 = 1;

#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(super) struct Status {
    pub(super) code: u32,
    pub(super) message: &'static str,
}

/// `Status.StatusCode`: an error.
pub(super) const STATUS_ERROR: u32 = 2;

/// `LogsData`, which is `ExportLogsServiceRequest` too.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LogsData {
    pub(super) resource_logs: [ResourceLogs; 1],
}

#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ResourceLogs {
    pub(super) resource: Resource,
    pub(super) scope_logs: [ScopeLogs; 1],
}

#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ScopeLogs {
    pub(super) scope: Scope,
    pub(super) log_records: Vec<LogRecord>,
}

/// `LogRecord`.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LogRecord {
    pub(super) time_unix_nano: Text64<u64>,
    pub(super) severity_number: u32,
    pub(super) severity_text: &'static str,
    pub(super) body: AnyValue,
    pub(super) attributes: Vec<KeyValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) trace_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) span_id: Option<String>,
}

/// `SeverityNumber`: information.
pub(super) const SEVERITY_INFO: u32 = 9;

/// `MetricsData`, which is `ExportMetricsServiceRequest` too.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MetricsData {
    pub(super) resource_metrics: [ResourceMetrics; 1],
}

#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ResourceMetrics {
    pub(super) resource: Resource,
    pub(super) scope_metrics: [ScopeMetrics; 1],
}

#[derive(Clone, PartialEq, Debug, Serialize)]
pub(super) struct ScopeMetrics {
    pub(super) scope: Scope,
    pub(super) metrics: Vec<Metric>,
}

/// `Metric`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(super) struct Metric {
    pub(super) name: &'static str,
    pub(super) description: String,
    pub(super) unit: &'static str,
    #[serde(flatten)]
    pub(super) data: MetricPoints,
}

/// `Metric.data`.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum MetricPoints {
    Gauge(Gauge),
    Sum(Sum),
    Histogram(Histogram),
}

#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Gauge {
    pub(super) data_points: Vec<NumberPoint>,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Sum {
    pub(super) aggregation_temporality: u32,
    pub(super) is_monotonic: bool,
    pub(super) data_points: Vec<NumberPoint>,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Histogram {
    pub(super) aggregation_temporality: u32,
    pub(super) data_points: Vec<HistogramPoint>,
}

/// `AggregationTemporality`: since the beginning of the run.
pub(super) const CUMULATIVE: u32 = 2;

/// `NumberDataPoint`.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NumberPoint {
    pub(super) attributes: Vec<KeyValue>,
    pub(super) start_time_unix_nano: Text64<u64>,
    pub(super) time_unix_nano: Text64<u64>,
    #[serde(flatten)]
    pub(super) value: Number,
}

/// `NumberDataPoint.value`.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Number {
    AsInt(Text64<i64>),
    AsDouble(Double),
}

/// `HistogramDataPoint`. A bucket has the numbers over the previous bound, up to and including its own.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct HistogramPoint {
    pub(super) attributes: Vec<KeyValue>,
    pub(super) start_time_unix_nano: Text64<u64>,
    pub(super) time_unix_nano: Text64<u64>,
    pub(super) count: Text64<u64>,
    pub(super) bucket_counts: Vec<Text64<u64>>,
    pub(super) explicit_bounds: Vec<f64>,
}

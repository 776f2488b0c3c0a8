//! Counts, as metrics.

use std::collections::BTreeMap;

use serde_json::Value;
use tracewire_model::{Aggregate, AggregateFunction};
use tracewire_views::{AggregateRow, AggregateView, Info, RunPart};

use super::message::{
    AnyValue, CUMULATIVE, Double, Gauge, Histogram, HistogramPoint, KeyValue, Metric, MetricPoints,
    Number, NumberPoint, Sum, Text64,
};
use super::value::{integer, text};

/// From when to when the numbers are, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Period {
    pub(super) start: u64,
    pub(super) end: u64,
}

/// The metrics of a part: the hits of its tracepoints, and its aggregates.
pub(super) fn metrics(part: &RunPart<'_>, period: Period) -> Vec<Metric> {
    let mut all: Vec<Metric> = hits(part, period).into_iter().collect();
    for (number, aggregate, table) in part.file.description().aggregates() {
        let view = AggregateView::new(number, aggregate.clone(), table);
        all.extend(metric(&aggregate, view.json(), period));
    }
    all
}

fn point(attributes: Vec<KeyValue>, period: Period, value: Number) -> NumberPoint {
    NumberPoint {
        attributes,
        start_time_unix_nano: Text64(period.start),
        time_unix_nano: Text64(period.end),
        value,
    }
}

/// How often each tracepoint was hit, if the file has it; hits without frames too.
fn hits(part: &RunPart<'_>, period: Period) -> Option<Metric> {
    let mut counts: BTreeMap<i32, (u64, Option<String>)> = BTreeMap::new();
    for info in Info::of(part.file).tracepoints {
        let Some(hits) = info.hits else { continue };
        let (count, at) = counts.entry(info.number).or_default();
        *count = count.saturating_add(hits);
        *at = at.take().or(info.source.at);
    }
    let points = counts.into_iter().map(|(number, (count, at))| {
        let mut attributes = vec![integer("tracewire.tracepoint", number)];
        attributes.extend(at.map(|at| text("tracewire.location", at)));
        point(attributes, period, whole(count.into()))
    });
    let data_points: Vec<_> = points.collect();
    (!data_points.is_empty()).then(|| Metric {
        name: "tracewire.hits",
        description: "How often tracepoints were hit".to_owned(),
        unit: "{hit}",
        data: MetricPoints::Sum(Sum {
            aggregation_temporality: CUMULATIVE,
            is_monotonic: true,
            data_points,
        }),
    })
}

fn whole(number: i128) -> Number {
    match i64::try_from(number) {
        Ok(number) => Number::AsInt(Text64(number)),
        Err(_) => Number::AsDouble(Double(number as f64)),
    }
}

/// A number of a row.
fn number(value: &Value) -> Option<Number> {
    let integer = value.as_i64().map(i128::from);
    let integer = integer.or_else(|| value.as_u64().map(i128::from));
    integer
        .map(whole)
        .or_else(|| Some(Number::AsDouble(Double(value.as_f64()?))))
}

fn key(index: usize, value: &Value) -> KeyValue {
    let name = format!("tracewire.key.{}", index + 1);
    match value {
        Value::String(key) => text(name, key.as_str()),
        Value::Bool(key) => KeyValue {
            key: name,
            value: AnyValue::BoolValue(*key),
        },
        other => match other
            .as_i64()
            .map(i128::from)
            .or(other.as_u64().map(i128::from))
        {
            Some(key) => integer(name, key),
            None => text(name, other.to_string()),
        },
    }
}

fn attributes(row: &AggregateRow) -> Vec<KeyValue> {
    let mut all = vec![
        integer("tracewire.tracepoint", row.tracepoint),
        text("tracewire.aggregate", row.aggregate.as_str()),
    ];
    let keys = row.key.iter().flatten().enumerate();
    all.extend(keys.map(|(index, value)| key(index, value)));
    all
}

/// An aggregate with its rows. Hits without a row, for lack of space or because of unreadable data, are in a separate metric.
fn metric(
    aggregate: &Aggregate,
    rows: impl Iterator<Item = AggregateRow>,
    period: Period,
) -> Vec<Metric> {
    let mut points = Vec::new();
    let mut histograms = Vec::new();
    let mut uncounted = Vec::new();
    for row in rows {
        let mut attributes = attributes(&row);
        for (why, count) in [
            ("no room", row.without_room),
            ("unreadable", row.unreadable),
        ] {
            if let Some(count) = count {
                let mut attributes = attributes.clone();
                attributes.push(text("tracewire.reason", why));
                uncounted.push(point(attributes, period, whole(count.into())));
            }
        }
        if let Some(buckets) = &row.buckets {
            histograms.push(histogram(attributes, buckets, period));
        } else if let Some(value) = row.value.as_ref().and_then(number) {
            let of = row.count.map(|count| integer("tracewire.hits", count));
            attributes.extend(of);
            points.push(point(attributes, period, value));
        }
    }
    let sum = |is_monotonic, data_points| {
        MetricPoints::Sum(Sum {
            aggregation_temporality: CUMULATIVE,
            is_monotonic,
            data_points,
        })
    };
    let gauge = |data_points| MetricPoints::Gauge(Gauge { data_points });
    let (name, data) = match aggregate.function {
        AggregateFunction::Count | AggregateFunction::Sample(_) | AggregateFunction::First(_) => {
            ("tracewire.count", sum(true, points))
        }
        AggregateFunction::Top(_) => ("tracewire.top", sum(true, points)),
        AggregateFunction::Sum => ("tracewire.sum", sum(false, points)),
        AggregateFunction::Minimum => ("tracewire.min", gauge(points)),
        AggregateFunction::Maximum => ("tracewire.max", gauge(points)),
        AggregateFunction::Average => ("tracewire.avg", gauge(points)),
        AggregateFunction::Histogram(_) => (
            "tracewire.hist",
            MetricPoints::Histogram(Histogram {
                aggregation_temporality: CUMULATIVE,
                data_points: histograms,
            }),
        ),
    };
    let unit = match (aggregate.is_time, aggregate.function) {
        (true, _) => "ns",
        (
            false,
            AggregateFunction::Count
            | AggregateFunction::Top(_)
            | AggregateFunction::Sample(_)
            | AggregateFunction::First(_),
        ) => "{hit}",
        (false, _) => "",
    };
    let uncounted = (!uncounted.is_empty()).then(|| Metric {
        name: "tracewire.uncounted",
        description: "Hits that are in no row of an aggregate".to_owned(),
        unit: "{hit}",
        data: sum(true, uncounted),
    });
    let counted = Metric {
        name,
        description: aggregate.text.clone(),
        unit,
        data,
    };
    std::iter::once(counted).chain(uncounted).collect()
}

/// Buckets have the integers from their first number up to the next one's, which is one more than their own bound.
fn histogram(
    attributes: Vec<KeyValue>,
    buckets: &[(Option<serde_json::Number>, Option<serde_json::Number>, u64)],
    period: Period,
) -> HistogramPoint {
    let bound = |number: &Option<serde_json::Number>| {
        let number = number.as_ref()?;
        let integer = number.as_i128()?;
        Some(integer - 1)
    };
    let mut bounds: Vec<i128> = Vec::new();
    let mut counts: Vec<u64> = vec![0];
    for (low, high, count) in buckets {
        if let Some(low) = bound(low)
            && bounds.last().is_none_or(|last| *last < low)
        {
            // The range between two buckets has no hits.
            bounds.push(low);
            counts.push(0);
        }
        if let Some(last) = counts.last_mut() {
            *last = last.saturating_add(*count);
        }
        if let Some(high) = bound(high) {
            bounds.push(high);
            counts.push(0);
        }
    }
    let count = counts
        .iter()
        .fold(0_u64, |sum, count| sum.saturating_add(*count));
    HistogramPoint {
        attributes,
        start_time_unix_nano: Text64(period.start),
        time_unix_nano: Text64(period.end),
        count: Text64(count),
        bucket_counts: counts.into_iter().map(Text64).collect(),
        explicit_bounds: bounds.into_iter().map(|bound| bound as f64).collect(),
    }
}

//! The aggregates of a file: rows for scripts, and the words that tables have for people.

use serde::Serialize;
use tracewire_model::{
    Aggregate, AggregateCell, AggregateFunction, AggregateTable, Buckets, Key, KeyKind,
    TracepointNumber,
};
use tracewire_tracefile::Description;

use crate::span::duration_words;
use crate::words::printable;

/// An aggregate with its rows, in display order.
#[derive(Clone, Debug)]
pub struct AggregateView {
    pub(crate) tracepoint: TracepointNumber,
    pub(crate) aggregate: Aggregate,
    pub(crate) rows: Vec<(Vec<Key>, AggregateCell)>,
    pub(crate) without_room: u64,
    pub(crate) unreadable: u64,
}

/// The lower bound, the upper bound, and the number of hits.
type Bucket = (Option<serde_json::Number>, Option<serde_json::Number>, u64);

/// A row as a JSON object.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct AggregateRow {
    /// `aggregate`.
    pub kind: &'static str,
    /// The tracepoint.
    pub tracepoint: i32,
    /// Its source text.
    pub aggregate: String,
    /// The keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<Vec<serde_json::Value>>,
    /// The number; in nanoseconds, where it is a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<serde_json::Value>,
    /// Of an average: of how many hits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// For a histogram: the lower bound, the upper bound, and the number of hits. `None` is unbounded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buckets: Option<Vec<Bucket>>,
    /// Hits whose key found no space; in a separate row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub without_room: Option<u64>,
    /// Hits whose key or value could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<u64>,
}

impl AggregateView {
    /// Those of a file, or of one of its tracepoints.
    #[must_use]
    pub fn of(description: &Description, tracepoint: Option<i32>) -> Vec<Self> {
        Self::of_all([description], tracepoint)
    }

    /// Those of several files, or of one tracepoint: the numbers of the same aggregate of the same tracepoint are added.
    #[must_use]
    pub fn of_all<'a>(
        descriptions: impl IntoIterator<Item = &'a Description>,
        tracepoint: Option<i32>,
    ) -> Vec<Self> {
        let tables = descriptions.into_iter().flat_map(Description::aggregates);
        Self::of_tables(
            tables.filter(|(number, ..)| tracepoint.is_none_or(|wanted| wanted == number.0)),
        )
    }

    /// The aggregates of tables, several of which may be of the same aggregate of the same tracepoint.
    #[must_use]
    pub fn of_tables(
        tables: impl IntoIterator<Item = (TracepointNumber, Aggregate, AggregateTable)>,
    ) -> Vec<Self> {
        let mut all: Vec<(TracepointNumber, Aggregate, AggregateTable)> = Vec::new();
        for (number, aggregate, table) in tables {
            match all
                .iter_mut()
                .find(|known| (known.0, &known.1) == (number, &aggregate))
            {
                Some((_, _, sum)) => sum.merge(&aggregate, table),
                None => all.push((number, aggregate, table)),
            }
        }
        let views = all.into_iter();
        views
            .map(|(number, aggregate, table)| Self::new(number, aggregate, table))
            .collect()
    }

    /// The view of a table.
    #[must_use]
    pub fn new(tracepoint: TracepointNumber, aggregate: Aggregate, table: AggregateTable) -> Self {
        let mut rows: Vec<_> = table.cells.into_iter().collect();
        // The largest first, and of equal ones by their keys.
        match aggregate.function {
            AggregateFunction::Histogram(_) => {}
            AggregateFunction::Top(most) => {
                rows.sort_by_key(|(keys, cell)| {
                    let group = keys.split_last().map(|(_, group)| group.to_vec());
                    (group, std::cmp::Reverse(rank(&aggregate, cell)))
                });
                let most = usize::try_from(most).unwrap_or(usize::MAX);
                let mut seen: (Option<Vec<Key>>, usize) = (None, 0);
                rows.retain(|(keys, _)| {
                    let group = keys.split_last().map(|(_, group)| group.to_vec());
                    if seen.0 != group {
                        seen = (group, 0);
                    }
                    seen.1 += 1;
                    seen.1 <= most
                });
            }
            AggregateFunction::Minimum => {
                rows.sort_by_key(|(_, cell)| rank(&aggregate, cell));
            }
            _ => rows.sort_by_key(|(_, cell)| std::cmp::Reverse(rank(&aggregate, cell))),
        }
        Self {
            tracepoint,
            aggregate,
            rows,
            without_room: table.without_room,
            unreadable: table.unreadable,
        }
    }

    /// The rows for scripts.
    pub fn json(&self) -> impl Iterator<Item = AggregateRow> + '_ {
        let empty = AggregateRow {
            kind: "aggregate",
            tracepoint: self.tracepoint.0,
            aggregate: self.aggregate.text.clone(),
            key: None,
            value: None,
            count: None,
            buckets: None,
            without_room: None,
            unreadable: None,
        };
        let uncounted = (self.without_room > 0 || self.unreadable > 0).then(|| AggregateRow {
            without_room: (self.without_room > 0).then_some(self.without_room),
            unreadable: (self.unreadable > 0).then_some(self.unreadable),
            ..empty.clone()
        });
        let rows = self.rows.iter().map(move |(keys, cell)| {
            let keys = keys.iter().zip(&self.aggregate.keys);
            let mut row = AggregateRow {
                key: Some(keys.map(|(key, kind)| key_json(key, kind)).collect()),
                ..empty.clone()
            };
            match cell {
                AggregateCell::Number(number) | AggregateCell::Extreme(number) => {
                    row.value = Some(self.number_json(*number));
                }
                AggregateCell::Average(sum, count) => {
                    row.value = Some(average(&self.aggregate, *sum, *count).into());
                    row.count = Some(*count);
                }
                AggregateCell::Histogram(counts) => {
                    let AggregateFunction::Histogram(buckets) = self.aggregate.function else {
                        return row;
                    };
                    let bound = |bound: Option<i128>| serde_json::Number::from_i128(bound?);
                    let counts = counts.iter().map(|(bucket, count)| {
                        let (low, high) = buckets.range(*bucket);
                        (bound(low), bound(high), *count)
                    });
                    row.buckets = Some(counts.collect());
                }
            }
            row
        });
        rows.chain(uncounted)
    }

    fn number_json(&self, number: u64) -> serde_json::Value {
        match self.is_signed() {
            true => number.cast_signed().into(),
            false => number.into(),
        }
    }

    fn is_signed(&self) -> bool {
        self.aggregate.function.has_value() && !self.aggregate.is_unsigned
    }

    /// The number of a row, for people.
    pub(crate) fn number(&self, cell: &AggregateCell) -> String {
        let words = |number: u64| match (self.aggregate.is_time, self.is_signed()) {
            (true, _) => duration_words(number),
            (false, true) => number.cast_signed().to_string(),
            (false, false) => number.to_string(),
        };
        match cell {
            AggregateCell::Number(number) | AggregateCell::Extreme(number) => words(*number),
            AggregateCell::Average(sum, count) => {
                let average = average(&self.aggregate, *sum, *count);
                match self.aggregate.is_time {
                    true => duration_words(average as u64),
                    false => format!("{average:.2}"),
                }
            }
            AggregateCell::Histogram(_) => String::new(),
        }
    }

    /// A range of a histogram, for people.
    pub(crate) fn range(&self, buckets: Buckets, bucket: u64) -> String {
        let words = |number: i128| match (self.aggregate.is_time, buckets) {
            (true, _) if number >= 0 => duration_words(u64::try_from(number).unwrap_or(u64::MAX)),
            (_, Buckets::Powers) => power_words(number),
            _ => number.to_string(),
        };
        match buckets.range(bucket) {
            (Some(low), Some(high)) if high == low + 1 && !self.aggregate.is_time => {
                format!("[{low}]")
            }
            (Some(low), Some(high)) => format!("[{}, {})", words(low), words(high)),
            (None, Some(high)) => format!("(..., {})", words(high)),
            (Some(low), None) => format!("[{}, ...)", words(low)),
            (None, None) => "(...)".to_owned(),
        }
    }
}

/// A power of two, as bpftrace writes it: 1K is 1024.
fn power_words(number: i128) -> String {
    let units = ["", "K", "M", "G", "T", "P", "E", "Z"];
    let mut rest = number;
    for unit in units {
        if rest < 1024 || rest % 1024 != 0 {
            return format!("{rest}{unit}");
        }
        rest /= 1024;
    }
    number.to_string()
}

fn average(aggregate: &Aggregate, sum: u64, count: u64) -> f64 {
    let sum = match aggregate.is_unsigned {
        true => sum as f64,
        false => sum.cast_signed() as f64,
    };
    sum / count.max(1) as f64
}

/// The sort key of a row.
fn rank(aggregate: &Aggregate, cell: &AggregateCell) -> i128 {
    let number = |number: u64| match aggregate.is_unsigned || !aggregate.function.has_value() {
        true => i128::from(number),
        false => i128::from(number.cast_signed()),
    };
    match cell {
        AggregateCell::Number(value) | AggregateCell::Extreme(value) => number(*value),
        AggregateCell::Average(sum, count) => average(aggregate, *sum, *count) as i128,
        AggregateCell::Histogram(_) => 0,
    }
}

fn key_json(key: &Key, kind: &KeyKind) -> serde_json::Value {
    match (key, kind) {
        (Key::Text(text), _) => String::from_utf8_lossy(text).into(),
        (Key::Number(number), KeyKind::Signed) => number.cast_signed().into(),
        (Key::Number(number), KeyKind::Address) => format!("{number:#x}").into(),
        (Key::Number(number), KeyKind::Truth) => (*number != 0).into(),
        (Key::Number(number), KeyKind::Named(names)) => match name(names, *number) {
            Some(name) => name.into(),
            None => number.cast_signed().into(),
        },
        (Key::Number(number), KeyKind::Unsigned | KeyKind::Text) => (*number).into(),
    }
}

fn name(names: &[(i64, String)], number: u64) -> Option<&str> {
    let known = names
        .iter()
        .find(|(known, _)| *known == number.cast_signed());
    known.map(|(_, name)| name.as_str())
}

/// A key, for people.
pub(crate) fn key_words(key: &Key, kind: &KeyKind) -> String {
    match key_json(key, kind) {
        serde_json::Value::String(text) if *kind == KeyKind::Text => {
            format!("\"{}\"", printable(&text))
        }
        serde_json::Value::String(text) => printable(&text),
        other => other.to_string(),
    }
}

//! The rows of aggregates in words, for people.

use tracewire_model::{AggregateCell, AggregateFunction, Key};

use crate::aggregate::{AggregateView, key_words};

/// A histogram in words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AggregateHistogram {
    /// The keys.
    pub key: Vec<String>,
    /// Each range, from the first to the last that has hits, and how many it has.
    pub ranges: Vec<(String, u64)>,
}

impl AggregateView {
    /// The tracepoint.
    #[must_use]
    pub const fn tracepoint(&self) -> i32 {
        self.tracepoint.0
    }

    /// Its source text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.aggregate.text
    }

    /// The rows that have a number: the keys and the number.
    pub fn numbers(&self) -> impl Iterator<Item = (Vec<String>, String)> + '_ {
        let has_number = !matches!(self.aggregate.function, AggregateFunction::Histogram(_));
        let rows = self.rows.iter().filter(move |_| has_number);
        rows.map(|(keys, cell)| (self.key_words(keys), self.number(cell)))
    }

    /// The rows that are histograms.
    pub fn histograms(&self) -> impl Iterator<Item = AggregateHistogram> + '_ {
        self.rows.iter().filter_map(|(keys, cell)| {
            let AggregateFunction::Histogram(buckets) = self.aggregate.function else {
                return None;
            };
            let AggregateCell::Histogram(counts) = cell else {
                return None;
            };
            let (first, last) = (counts.first_key_value()?.0, counts.last_key_value()?.0);
            let ranges = (*first..=*last).map(|bucket| {
                let count = counts.get(&bucket).copied().unwrap_or(0);
                (self.range(buckets, bucket), count)
            });
            Some(AggregateHistogram {
                key: self.key_words(keys),
                ranges: ranges.collect(),
            })
        })
    }

    fn key_words(&self, keys: &[Key]) -> Vec<String> {
        let keys = keys.iter().zip(&self.aggregate.keys);
        keys.map(|(key, kind)| key_words(key, kind)).collect()
    }
}

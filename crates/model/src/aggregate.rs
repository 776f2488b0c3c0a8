//! Aggregates: numbers that hits are added to, one for each key, instead of frames.
//!
//! A tracepoint may have several. A source string of our own (`count`) defines each, and `count` lines of the description have its
//! numbers. `docs/formats/trace-file-extensions.md` has the forms.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use crate::hex::{Hex, decode};

/// The most keys of an aggregate.
pub const MAX_KEYS: usize = 4;

/// How many bytes of a text are kept: a longer one is cut.
pub const KEY_TEXT: usize = 64;

/// The most buckets of a linear histogram, without those below and above.
pub const MAX_BUCKETS: u64 = 1000;

/// The function that is computed over the hits of a key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AggregateFunction {
    /// `count()`: how many they are.
    Count,
    /// `sum(E)`: modulo 2 to the 64th.
    Sum,
    /// `min(E)`.
    Minimum,
    /// `max(E)`.
    Maximum,
    /// `avg(E)`: the sum and how many they are.
    Average,
    /// `hist(E)`: how many have a value of each range.
    Histogram(Buckets),
    /// `top(K, E)`: the K values that come most often. The value is the last key.
    Top(u32),
    /// `sample 1/N`: a pick. The first hit of each N of a key makes a frame. The number is that of all hits.
    Sample(NonZeroU32),
    /// `first N`: a pick. The first N hits of a key make frames. The number is that of all hits.
    First(NonZeroU32),
}

impl AggregateFunction {
    /// Whether it needs a value in addition to the keys.
    #[must_use]
    pub const fn has_value(self) -> bool {
        !matches!(
            self,
            Self::Count | Self::Top(_) | Self::Sample(_) | Self::First(_)
        )
    }

    /// Whether it is a pick: it decides which hits make frames.
    #[must_use]
    pub const fn is_pick(self) -> bool {
        matches!(self, Self::Sample(_) | Self::First(_))
    }

    /// Whether a hit makes a frame, by the number of hits of its key before. Where there is no pick, every hit does.
    #[must_use]
    pub const fn picks(self, before: u64) -> bool {
        match self {
            Self::Sample(of) => before.is_multiple_of(of.get() as u64),
            Self::First(most) => before < most.get() as u64,
            _ => true,
        }
    }
}

/// The ranges of a histogram.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Buckets {
    /// From each power of two up to the next. Negative numbers are in one range, and zero is in another one.
    Powers,
    /// As wide as `step`, from `low` up to `high`; one range for lower numbers, and one for higher ones.
    Linear {
        /// Where the first begins.
        low: i64,
        /// Where the last ends.
        high: i64,
        /// How wide each is.
        step: u64,
    },
}

impl Buckets {
    /// Linear buckets; none where there would be no range, or too many.
    #[must_use]
    pub fn linear(low: i64, high: i64, step: u64) -> Option<Self> {
        let width = u64::try_from(i128::from(high) - i128::from(low)).ok()?;
        let is_good = step > 0 && width > 0 && width.div_ceil(step) <= MAX_BUCKETS;
        is_good.then_some(Self::Linear { low, high, step })
    }

    /// How many there are.
    #[must_use]
    pub fn count(self) -> u64 {
        match self {
            Self::Powers => 66,
            Self::Linear { low, high, step } => {
                (high.wrapping_sub(low)).cast_unsigned().div_ceil(step) + 2
            }
        }
    }

    /// The bucket of a number.
    #[must_use]
    pub fn of(self, number: u64, is_unsigned: bool) -> u64 {
        let is_negative = !is_unsigned && number.cast_signed() < 0;
        match self {
            Self::Powers if is_negative => 0,
            Self::Powers => number
                .checked_ilog2()
                .map_or(1, |power| u64::from(power) + 2),
            Self::Linear { low, high, step } => {
                let signed = number.cast_signed();
                if is_unsigned && signed < 0 || (signed >= high) {
                    self.count() - 1
                } else if signed < low {
                    0
                } else {
                    signed.wrapping_sub(low).cast_unsigned() / step + 1
                }
            }
        }
    }

    /// The range of a bucket: from the first number up to the one after the last. None is without end.
    #[must_use]
    pub fn range(self, bucket: u64) -> (Option<i128>, Option<i128>) {
        match self {
            Self::Powers => match bucket {
                0 => (None, Some(0)),
                1 => (Some(0), Some(1)),
                power => {
                    let low = 1_i128 << (power - 2).min(64);
                    (Some(low), Some(low * 2))
                }
            },
            Self::Linear { low, high, step } => {
                let last = self.count() - 1;
                let start = |bucket: u64| {
                    let start = i128::from(low) + i128::from(bucket - 1) * i128::from(step);
                    start.min(high.into())
                };
                match bucket {
                    0 => (None, Some(low.into())),
                    bucket if bucket >= last => (Some(high.into()), None),
                    bucket => (Some(start(bucket)), Some(start(bucket + 1))),
                }
            }
        }
    }
}

/// How a key is shown.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum KeyKind {
    /// A number.
    Signed,
    /// A number without a sign.
    Unsigned,
    /// A pointer.
    Address,
    /// True or false.
    Truth,
    /// A text, of which at most [`KEY_TEXT`] bytes are kept.
    Text,
    /// A number that has names: those of an enumeration.
    Named(Vec<(i64, String)>),
}

/// One of a tracepoint's aggregates.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Aggregate {
    /// Its index in the tracepoint's list, the same at all of its locations.
    pub index: u16,
    /// Its source text: `sum(bytes) by fd`.
    pub text: String,
    /// The function.
    pub function: AggregateFunction,
    /// Whether the value has no sign.
    pub is_unsigned: bool,
    /// Whether the value is in nanoseconds.
    pub is_time: bool,
    /// How the keys are shown, in order.
    pub keys: Vec<KeyKind>,
}

/// `INDEX FUNCTION UNSIGNED TIME KEYS TEXT`: `0 hist 0 1 s,t hist($duration) by route`.
impl fmt::Display for Aggregate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.index)?;
        match self.function {
            AggregateFunction::Count => f.write_str("count"),
            AggregateFunction::Sum => f.write_str("sum"),
            AggregateFunction::Minimum => f.write_str("min"),
            AggregateFunction::Maximum => f.write_str("max"),
            AggregateFunction::Average => f.write_str("avg"),
            AggregateFunction::Histogram(Buckets::Powers) => f.write_str("hist"),
            AggregateFunction::Histogram(Buckets::Linear { low, high, step }) => {
                write!(f, "hist:{low}:{high}:{step}")
            }
            AggregateFunction::Top(most) => write!(f, "top:{most}"),
            AggregateFunction::Sample(of) => write!(f, "sample:{of}"),
            AggregateFunction::First(most) => write!(f, "first:{most}"),
        }?;
        let (is_unsigned, is_time) = (u8::from(self.is_unsigned), u8::from(self.is_time));
        write!(f, " {is_unsigned} {is_time} ")?;
        for (place, key) in self.keys.iter().enumerate() {
            if place > 0 {
                f.write_str(",")?;
            }
            match key {
                KeyKind::Signed => f.write_str("s")?,
                KeyKind::Unsigned => f.write_str("u")?,
                KeyKind::Address => f.write_str("a")?,
                KeyKind::Truth => f.write_str("b")?,
                KeyKind::Text => f.write_str("t")?,
                KeyKind::Named(names) => {
                    f.write_str("n")?;
                    for (number, name) in names {
                        write!(f, ":{number}={}", Hex(name.as_bytes()))?;
                    }
                }
            }
        }
        write!(f, " {}", self.text)
    }
}

/// The text is no aggregate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("expected INDEX FUNCTION UNSIGNED TIME KEYS TEXT")]
pub struct AggregateError;

impl FromStr for Aggregate {
    type Err = AggregateError;

    fn from_str(text: &str) -> Result<Self, AggregateError> {
        Self::read(text).ok_or(AggregateError)
    }
}

impl Aggregate {
    fn read(text: &str) -> Option<Self> {
        let mut words = text.splitn(6, ' ');
        let index = words.next()?.parse().ok()?;
        let function = function(words.next()?)?;
        let is_unsigned = truth(words.next()?)?;
        let is_time = truth(words.next()?)?;
        let keys = match words.next()? {
            "" => Vec::new(),
            keys => keys.split(',').map(key).collect::<Option<_>>()?,
        };
        let least = usize::from(matches!(function, AggregateFunction::Top(_)));
        let is_good = (least..=MAX_KEYS).contains(&keys.len());
        is_good.then_some(())?;
        Some(Self {
            index,
            text: words.next()?.to_owned(),
            function,
            is_unsigned,
            is_time,
            keys,
        })
    }
}

fn truth(word: &str) -> Option<bool> {
    match word {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    }
}

fn function(word: &str) -> Option<AggregateFunction> {
    let mut parts = word.split(':');
    let function = match parts.next()? {
        "count" => AggregateFunction::Count,
        "sum" => AggregateFunction::Sum,
        "min" => AggregateFunction::Minimum,
        "max" => AggregateFunction::Maximum,
        "avg" => AggregateFunction::Average,
        "top" => AggregateFunction::Top(parts.next()?.parse().ok()?),
        "sample" => AggregateFunction::Sample(parts.next()?.parse().ok()?),
        "first" => AggregateFunction::First(parts.next()?.parse().ok()?),
        "hist" => AggregateFunction::Histogram(match parts.next() {
            None => Buckets::Powers,
            Some(low) => Buckets::linear(
                low.parse().ok()?,
                parts.next()?.parse().ok()?,
                parts.next()?.parse().ok()?,
            )?,
        }),
        _ => return None,
    };
    parts.next().is_none().then_some(function)
}

fn key(word: &str) -> Option<KeyKind> {
    Some(match word {
        "s" => KeyKind::Signed,
        "u" => KeyKind::Unsigned,
        "a" => KeyKind::Address,
        "b" => KeyKind::Truth,
        "t" => KeyKind::Text,
        names => {
            let names = names.strip_prefix('n')?;
            let parts = names.split(':').skip(1);
            let name = |part: &str| {
                let (number, name) = part.split_once('=')?;
                let name = String::from_utf8(decode(name.as_bytes())?).ok()?;
                Some((number.parse().ok()?, name))
            };
            if !names.is_empty() && !names.starts_with(':') {
                return None;
            }
            KeyKind::Named(parts.map(name).collect::<Option<_>>()?)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_in_the_range_of_its_bucket() {
        let linear = Buckets::linear(-10, 25, 10).unwrap();
        assert_eq!(linear.count(), 6);
        let wide = Buckets::linear(i64::MIN, i64::MAX, u64::MAX / 999).unwrap();
        for buckets in [Buckets::Powers, linear, wide] {
            for shift in 0..64 {
                for add in [-1_i64, 0, 1] {
                    for number in [
                        (1_i64 << shift).wrapping_add(add),
                        (add << shift).wrapping_neg(),
                    ] {
                        for is_unsigned in [false, true] {
                            let bucket = buckets.of(number.cast_unsigned(), is_unsigned);
                            assert!(bucket < buckets.count());
                            let (low, high) = buckets.range(bucket);
                            let number = if is_unsigned {
                                i128::from(number.cast_unsigned())
                            } else {
                                i128::from(number)
                            };
                            assert!(low.is_none_or(|low| low <= number), "{number} {low:?}");
                            assert!(high.is_none_or(|high| number < high), "{number} {high:?}");
                        }
                    }
                }
            }
        }
        assert_eq!(Buckets::linear(0, 10, 0), None);
        assert_eq!(Buckets::linear(10, 10, 1), None);
        assert_eq!(Buckets::linear(0, 1001, 1), None);
    }

    #[test]
    fn every_text_comes_back() {
        let functions = [
            AggregateFunction::Count,
            AggregateFunction::Sum,
            AggregateFunction::Minimum,
            AggregateFunction::Maximum,
            AggregateFunction::Average,
            AggregateFunction::Top(5),
            AggregateFunction::Histogram(Buckets::Powers),
            AggregateFunction::Histogram(Buckets::linear(-3, 100, 7).unwrap()),
        ];
        let keys = vec![
            KeyKind::Signed,
            KeyKind::Named(vec![(-1, "Bad: one".into()), (2, "Two".into())]),
            KeyKind::Text,
            KeyKind::Named(Vec::new()),
        ];
        for function in functions {
            for keys in [
                Vec::new(),
                vec![KeyKind::Address, KeyKind::Truth],
                keys.clone(),
            ] {
                if keys.is_empty() && matches!(function, AggregateFunction::Top(_)) {
                    continue;
                }
                let aggregate = Aggregate {
                    index: 3,
                    text: "sum(a, b) by  c".into(),
                    function,
                    is_unsigned: true,
                    is_time: false,
                    keys,
                };
                assert_eq!(aggregate.to_string().parse(), Ok(aggregate));
            }
        }
        for text in [
            "",
            "0 count 0 0  ",
            "0 counts 0 0  text",
            "0 count 2 0  text",
            "0 hist:0:10:0 0 0  text",
            "0 count 0 0 s,s,s,s,s text",
            "0 count 0 0 x text",
            "0 count 0 0 nope text",
            "0 top:3 0 0  text",
        ] {
            let read = text.parse::<Aggregate>();
            assert!(read.is_err() || text.ends_with(' '), "{text}: {read:?}");
        }
    }
}

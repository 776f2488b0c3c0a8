//! The numbers that an expression had: how often each, in memory that does not grow with the run.

use std::cmp::Ordering;
use std::collections::BTreeMap;

/// How many different numbers are kept apart. Where there are more, numbers that agree in their first digits are one.
const MOST_EXACT: usize = 1 << 16;

/// How many binary digits are kept then: one part in 1024.
const DIGITS: u32 = 11;

/// A number of the program.
#[derive(Clone, Copy, Debug)]
pub enum Number {
    /// An integer.
    Integer(i128),
    /// A finite number of a floating-point type.
    Float(f64),
}

impl Number {
    /// The nearest number of 64 bits.
    pub fn value(self) -> f64 {
        match self {
            Self::Integer(value) => value as f64,
            Self::Float(value) => value,
        }
    }

    /// Whether [`value`](Self::value) is the number itself.
    pub fn is_exact(self) -> bool {
        match self {
            Self::Integer(value) => value.unsigned_abs() <= 1 << f64::MANTISSA_DIGITS,
            Self::Float(_) => true,
        }
    }

    fn coarse(self) -> Self {
        match self {
            Self::Integer(value) => {
                let digits = u128::BITS - value.unsigned_abs().leading_zeros();
                let dropped = digits.saturating_sub(DIGITS);
                // Towards zero, as for the other kind.
                let kept = (value.unsigned_abs() >> dropped) << dropped;
                let kept = i128::try_from(kept).unwrap_or(i128::MAX);
                Self::Integer(if value < 0 { -kept } else { kept })
            }
            Self::Float(value) => {
                let dropped = f64::MANTISSA_DIGITS - DIGITS;
                Self::Float(f64::from_bits(value.to_bits() >> dropped << dropped))
            }
        }
    }
}

impl Ord for Number {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Integer(one), Self::Integer(other)) => one.cmp(other),
            (one, other) => one.value().total_cmp(&other.value()),
        }
    }
}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Number {}

/// Numbers, and how often each came.
#[derive(Clone, Debug, Default)]
pub struct Numbers {
    counts: BTreeMap<Number, u64>,
    is_coarse: bool,
    has_floats: bool,
    total: u64,
    sum: f64,
    ends: Option<(Number, Number)>,
}

/// A bar of a histogram: numbers from `low` up to, and without, `high`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Bin {
    /// The first number.
    pub low: f64,
    /// The end.
    pub high: f64,
    /// How many there are.
    pub count: u64,
}

/// How the bars of a histogram follow each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scale {
    /// All are as wide as the first.
    Linear,
    /// Each is wider than the one before it by the same factor.
    Logarithmic,
}

/// Numbers as bars.
#[derive(Clone, PartialEq, Debug)]
pub struct Histogram {
    /// Their scale.
    pub scale: Scale,
    /// At least one.
    pub bins: Vec<Bin>,
}

impl Numbers {
    /// Adds a number.
    pub fn add(&mut self, number: Number) {
        self.has_floats |= matches!(number, Number::Float(_));
        self.total += 1;
        self.sum += number.value();
        self.ends = Some(match self.ends {
            None => (number, number),
            Some((least, most)) => (least.min(number), most.max(number)),
        });
        let key = match self.is_coarse {
            true => number.coarse(),
            false => number,
        };
        *self.counts.entry(key).or_default() += 1;
        if self.counts.len() > MOST_EXACT && !self.is_coarse {
            self.is_coarse = true;
            let exact = std::mem::take(&mut self.counts);
            for (number, count) in exact {
                *self.counts.entry(number.coarse()).or_default() += count;
            }
        }
    }

    /// How many numbers there are.
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// How many different ones, where that is known.
    pub fn different(&self) -> Option<usize> {
        (!self.is_coarse).then_some(self.counts.len())
    }

    /// Whether numbers that are nearly equal count as one.
    pub const fn is_coarse(&self) -> bool {
        self.is_coarse
    }

    /// The least and the largest.
    pub const fn ends(&self) -> Option<(Number, Number)> {
        self.ends
    }

    /// The mean; 0 of none.
    pub fn mean(&self) -> f64 {
        self.sum / self.total.max(1) as f64
    }

    /// Each number with how often it came, the least first.
    pub fn counts(&self) -> impl Iterator<Item = (Number, u64)> + '_ {
        self.counts.iter().map(|(number, count)| (*number, *count))
    }

    /// The least number that at least this share of all numbers do not exceed.
    pub fn quantile(&self, share: f64) -> Option<Number> {
        let (_, most) = self.ends?;
        let rank = (share * self.total as f64).ceil().max(1.0) as u64;
        if rank >= self.total {
            return Some(most);
        }
        let mut seen = 0;
        let found = self.counts.iter().find(|(_, count)| {
            seen += **count;
            seen >= rank
        });
        found.map(|(number, _)| *number)
    }

    /// The numbers as about `bars` bars; `None` for integers that 64-bit floating-point numbers cannot distinguish. The scale is
    /// logarithmic if one bar of the linear one would have most of the numbers.
    pub fn histogram(&self, bars: usize) -> Option<Histogram> {
        let (least, most) = self.ends?;
        if !least.is_exact() || !most.is_exact() {
            return None;
        }
        let (least, most) = (least.value(), most.value());
        let middle = self.quantile(0.5)?.value();
        let is_skewed = least >= 0.0 && middle > 0.0 && most / middle > 50.0;
        let (scale, bounds) = match is_skewed {
            true => (
                Scale::Logarithmic,
                logarithmic(self.least_positive()?, most, bars),
            ),
            false => (Scale::Linear, linear(least, most, bars, !self.has_floats)),
        };
        let mut bins: Vec<Bin> = bounds
            .windows(2)
            .filter_map(|pair| match pair {
                [low, high] => Some(Bin {
                    low: *low,
                    high: *high,
                    count: 0,
                }),
                _ => None,
            })
            .collect();
        let mut at = 0;
        for (number, count) in &self.counts {
            // Numbers below the first bound, such as 0 on the logarithmic scale, are in the first bar.
            while bins.get(at).is_some_and(|bin| number.value() >= bin.high) && at + 1 < bins.len()
            {
                at += 1;
            }
            bins.get_mut(at)?.count += count;
        }
        if let (Scale::Logarithmic, Some(first)) = (scale, bins.first_mut()) {
            first.low = first.low.min(least);
        }
        Some(Histogram { scale, bins })
    }

    fn least_positive(&self) -> Option<f64> {
        let values = self.counts.keys().map(|number| number.value());
        values.into_iter().find(|value| *value > 0.0)
    }
}

/// The step of 1, 2 or 5 times a power of ten that is not smaller.
pub fn round_step(step: f64) -> f64 {
    let power = 10f64.powf(step.log10().floor());
    let factors = [1.0, 2.0, 5.0, 10.0];
    let factor = factors
        .iter()
        .find(|factor| **factor * power >= step * (1.0 - 1e-9));
    factor.unwrap_or(&10.0) * power
}

fn linear(least: f64, most: f64, bars: usize, of_integers: bool) -> Vec<f64> {
    let bars = bars.max(1) as f64;
    let width = most - least;
    if !width.is_finite() {
        return vec![least, 0.0, most, f64::INFINITY];
    }
    let mut step = round_step((width / bars).max(f64::MIN_POSITIVE * 1e16));
    if of_integers {
        step = step.max(1.0);
    }
    if width == 0.0 {
        step = if of_integers {
            1.0
        } else {
            round_step((least.abs() * 1e-3).max(1e-300))
        };
    }
    let first = (least / step).floor();
    let last = (most / step).floor();
    // A step that is lost in the rounding of large numbers leaves one bar.
    let count = ((last - first) as usize).min(4 * bars as usize);
    (0..=count + 1)
        .map(|at| (first + at as f64) * step)
        .collect()
}

fn logarithmic(least: f64, most: f64, bars: usize) -> Vec<f64> {
    let decades = (most / least).log10().max(0.1);
    // So many bars for each power of ten.
    let each = [1.0, 2.0, 4.0, 5.0, 10.0, 20.0];
    let wanted = bars as f64 / decades;
    let each = each
        .iter()
        .rev()
        .find(|each| **each <= wanted)
        .unwrap_or(&1.0);
    let first = (least.log10() * each + 1e-9).floor();
    let last = (most.log10() * each + 1e-9).floor();
    let count = ((last - first).max(0.0) as usize).min(700);
    (0..=count + 1)
        .map(|at| 10f64.powf((first + at as f64) / each))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(numbers: impl IntoIterator<Item = i128>) -> Numbers {
        let mut all = Numbers::default();
        for number in numbers {
            all.add(Number::Integer(number));
        }
        all
    }

    #[test]
    fn a_few_integers_have_a_bar_each() {
        let histogram = of([3, 4, 4, 7]).histogram(24).unwrap();
        assert_eq!(histogram.scale, Scale::Linear);
        let bins: Vec<_> = histogram
            .bins
            .iter()
            .map(|bin| (bin.low, bin.count))
            .collect();
        assert_eq!(bins, [(3.0, 1), (4.0, 2), (5.0, 0), (6.0, 0), (7.0, 1)]);
    }

    #[test]
    fn times_of_several_magnitudes_have_a_logarithmic_scale() {
        let histogram = of([100, 120, 200, 300, 1_000_000]).histogram(24).unwrap();
        assert_eq!(histogram.scale, Scale::Logarithmic);
        assert!(histogram.bins.first().unwrap().count > 0);
        assert_eq!(histogram.bins.last().unwrap().count, 1);
    }

    #[test]
    fn quantiles_of_a_hundred_numbers_are_their_ranks() {
        let numbers = of(1..=100);
        let at = |share| numbers.quantile(share).unwrap().value();
        assert_eq!(
            (at(0.5), at(0.9), at(0.99), at(1.0)),
            (50.0, 90.0, 99.0, 100.0)
        );
    }

    #[test]
    fn many_different_numbers_take_little_memory_and_stay_near() {
        let numbers = of((0..200_000).map(|number| number * 1_000_003));
        assert!(numbers.is_coarse() && numbers.counts.len() < 50_000);
        let middle = numbers.quantile(0.5).unwrap().value();
        assert!(
            (middle / 100_000.0 / 1_000_003.0 - 1.0).abs() < 2e-3,
            "{middle}"
        );
    }

    proptest! {
        #[test]
        fn every_number_is_in_a_bar(
            integers in prop::collection::vec(prop_oneof![any::<i64>().prop_map(|one| i128::from(one >> 12)), any::<i128>()], 0..4),
            small in prop::collection::vec(-1000i128..100_000, 0..40),
            floats in prop::collection::vec(any::<f64>().prop_filter("finite", |value| value.is_finite()), 0..40),
            bars in 1usize..60,
        ) {
            let mut numbers = of(integers.iter().chain(&small).copied());
            for float in &floats {
                numbers.add(Number::Float(*float));
            }
            let all = (integers.len() + small.len() + floats.len()) as u64;
            prop_assert_eq!(numbers.total(), all);
            let is_exact = numbers.ends().is_some_and(|(least, most)| least.is_exact() && most.is_exact());
            let Some(histogram) = numbers.histogram(bars) else {
                prop_assert!(!is_exact);
                return Ok(());
            };
            prop_assert_eq!(histogram.bins.iter().map(|bin| bin.count).sum::<u64>(), all);
            prop_assert!(histogram.bins.len() <= 4 * bars + 702);
        }
    }
}

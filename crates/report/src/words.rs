//! Numbers for people.

use tracewire_views::words;

use crate::numbers::Number;

/// A count, its digits in groups of three.
pub fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() * 2);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// A count with its noun.
pub fn counted(count: u64, noun: &str) -> String {
    let words = words::count(count, noun);
    match words.split_once(' ') {
        Some((_, noun)) => format!("{} {noun}", grouped(count)),
        None => words,
    }
}

/// A number of a program.
pub fn number(value: f64) -> String {
    let size = value.abs();
    if value.fract() == 0.0 && size < 1e15 {
        return format!("{value:.0}");
    }
    if size != 0.0 && !(1e-4..1e15).contains(&size) {
        return format!("{value:.3e}");
    }
    // Four digits that count.
    let decimals = (3 - size.log10().floor().max(-4.0) as i32).clamp(0, 8) as usize;
    let text = format!("{value:.decimals$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// A number as it is; of an integer all digits.
pub fn exact(value: Number) -> String {
    match value {
        Number::Integer(value) => value.to_string(),
        Number::Float(value) => number(value),
    }
}

/// A time in nanoseconds, with three digits.
pub fn time(nanoseconds: f64) -> String {
    let units = [("s", 1e9), ("ms", 1e6), ("µs", 1e3), ("ns", 1.0)];
    let size = nanoseconds.abs();
    let (unit, factor) = units
        .into_iter()
        .find(|(_, factor)| size >= *factor * (1.0 - 1e-9))
        .unwrap_or(("ns", 1.0));
    let value = nanoseconds / factor;
    let decimals = match value.abs() {
        value if value >= 99.95 || unit == "ns" => 0,
        value if value >= 9.995 => 1,
        _ => 2,
    };
    let text = format!("{value:.decimals$}");
    let text = match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => &text,
    };
    format!("{text} {unit}")
}

/// Formats times between two, in nanoseconds: all in one unit, with enough digits to distinguish them.
pub fn times_between(first: f64, last: f64) -> impl Fn(f64) -> String {
    let units = [("s", 1e9), ("ms", 1e6), ("µs", 1e3), ("ns", 1.0)];
    let (unit, factor) = units
        .into_iter()
        .find(|(_, factor)| last >= *factor)
        .unwrap_or(("ns", 1.0));
    let step = ((last - first) / 4.0 / factor).max(1e-9);
    let decimals = (1.0 - step.log10().floor()).clamp(0.0, 9.0) as usize;
    let decimals = if unit == "ns" { 0 } else { decimals };
    move |time| format!("{:.decimals$} {unit}", time / factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_digits_that_count() {
        assert_eq!(grouped(1_234_567), "1\u{202f}234\u{202f}567");
        assert_eq!(grouped(12), "12");
        assert_eq!(counted(1, "hit"), "1 hit");
        assert_eq!(number(0.0), "0");
        assert_eq!(number(-3.0), "-3");
        assert_eq!(number(0.125), "0.125");
        assert_eq!(number(12.3456), "12.35");
        assert_eq!(number(1e20), "1.000e20");
        assert_eq!(time(0.0), "0 ns");
        assert_eq!(time(1_282.0), "1.28 µs");
        assert_eq!(time(100_000.0), "100 µs");
        assert_eq!(time(2e9), "2 s");
        let between = times_between(415.2e6, 415.9e6);
        assert_eq!(
            (between(415.2e6), between(415.9e6)),
            ("415.20 ms".to_owned(), "415.90 ms".to_owned())
        );
        assert_eq!(times_between(0.0, 8e9)(4e9), "4.0 s");
    }
}

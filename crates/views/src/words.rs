//! Formats for numbers in text output.

/// A count with its noun, in the plural if needed.
#[must_use]
pub fn count(number: u64, noun: &str) -> String {
    if number == 1 {
        format!("1 {noun}")
    } else if noun.ends_with('s') {
        format!("{number} {noun}es")
    } else {
        format!("{number} {noun}s")
    }
}

/// A time from nanoseconds to seconds, in the largest unit in which it is not small.
#[must_use]
pub fn short(time: std::time::Duration) -> String {
    let units = [("ns", 1.0), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)];
    let nanoseconds = time.as_nanos() as f64;
    let (unit, size) = units
        .into_iter()
        .rev()
        .find(|(_, size)| nanoseconds >= *size)
        .unwrap_or(("ns", 1.0));
    let value = nanoseconds / size;
    if value < 10.0 && unit != "ns" {
        format!("{value:.1} {unit}")
    } else {
        format!("{value:.0} {unit}")
    }
}

/// A size in bytes, in the largest unit in which it is not small.
#[must_use]
pub fn bytes(size: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if size < 10 * 1024 {
        return count(size, "byte");
    }
    let mut value = size as f64 / 1024.0;
    let mut unit = 0;
    while value >= 10_000.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let unit = UNITS.get(unit).copied().unwrap_or_default();
    if value.fract() == 0.0 {
        format!("{value:.0} {unit}")
    } else {
        format!("{value:.1} {unit}")
    }
}

/// A stretch of time in microseconds.
#[must_use]
pub fn duration(microseconds: u64) -> String {
    match microseconds {
        0..1_000 => format!("{microseconds} µs"),
        1_000..1_000_000 => format!("{:.1} ms", microseconds as f64 / 1e3),
        1_000_000..120_000_000 => format!("{:.2} s", microseconds as f64 / 1e6),
        _ => {
            let seconds = microseconds / 1_000_000;
            let (minutes, seconds) = (seconds / 60, seconds % 60);
            match minutes {
                0..120 => format!("{minutes} min {seconds} s"),
                _ => format!("{} h {} min", minutes / 60, minutes % 60),
            }
        }
    }
}

/// A duration in nanoseconds, in the unit in which it has at most three digits before the point.
#[must_use]
pub fn nanoseconds(nanoseconds: u64) -> String {
    match nanoseconds {
        0..1_000 => format!("{nanoseconds} ns"),
        1_000..1_000_000 => format!("{:.2} µs", nanoseconds as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.2} ms", nanoseconds as f64 / 1e6),
        _ => format!("{:.2} s", nanoseconds as f64 / 1e9),
    }
}

/// A time in microseconds since 1970, in UTC; `None` for one that is no such time (a clock that started with the
/// machine).
#[must_use]
pub fn date(microseconds: u64) -> Option<String> {
    // 2001-09-09 to 2286-11-20.
    let seconds = microseconds / 1_000_000;
    if !(1_000_000_000..10_000_000_000).contains(&seconds) {
        return None;
    }
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Years from March to February make the leap day the last (the civil calendar's usual trick).
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    Some(format!(
        "{year}-{month:02}-{day:02} {:02}:{:02}:{:02} UTC",
        rest / 3600,
        rest / 60 % 60,
        rest % 60
    ))
}

/// Text from a file, made safe for a terminal: control characters are shown, not sent.
#[must_use]
pub fn printable(text: &str) -> String {
    if !text.chars().any(char::is_control) {
        return text.to_owned();
    }
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}

/// As [`printable`], for our own text of several lines with parts from a file.
#[must_use]
pub fn printable_lines(text: &str) -> String {
    let lines: Vec<String> = text.split('\n').map(printable).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times() {
        assert_eq!(bytes(1), "1 byte");
        assert_eq!(bytes(1000), "1000 bytes");
        assert_eq!(bytes(5 << 20), "5120 KiB");
        assert_eq!(bytes(1 << 30), "1024 MiB");
        assert_eq!(bytes(1_000_000), "976.6 KiB");
        assert_eq!(nanoseconds(12), "12 ns");
        assert_eq!(nanoseconds(1_500), "1.50 µs");
        assert_eq!(nanoseconds(2_000_000_000), "2.00 s");
        assert_eq!(duration(12), "12 µs");
        assert_eq!(duration(1_234_567), "1.23 s");
        assert_eq!(duration(3_600_000_000), "60 min 0 s");
        assert_eq!(date(0), None);
        assert_eq!(date(1_465_536_718), None);
        assert_eq!(date(951_782_400_000_000).as_deref(), None);
        assert_eq!(
            date(1_709_209_800_000_000).as_deref(),
            Some("2024-02-29 12:30:00 UTC")
        );
        assert_eq!(
            date(1_735_689_599_000_000).as_deref(),
            Some("2024-12-31 23:59:59 UTC")
        );
        assert_eq!(printable("a\u{1b}[31m\nb"), "a\\u{1b}[31m\\nb");
        assert_eq!(printable_lines("a\u{1b}\nb\n"), "a\\u{1b}\nb\n");
    }
}

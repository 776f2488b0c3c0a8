//! `--frame N[..M]` and `--time A..B`.

use std::ops::RangeInclusive;

/// The frames that `--frame` names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameRange {
    /// The first.
    pub start: u64,
    /// One past the last; `None` for all that follow.
    pub end: Option<u64>,
    /// Whether a single frame was named: it must be there.
    pub single: bool,
}

impl FrameRange {
    /// Reads `N`, `N..M`, `N..=M`, `N..` or `..M`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || "expected a frame number N, or N..M without M, or N..=M with it".to_owned();
        let number = |text: &str| {
            text.bytes()
                .all(|byte| byte.is_ascii_digit())
                .then(|| text.parse::<u64>().ok())
                .flatten()
                .ok_or_else(wrong)
        };
        let Some((start, end)) = text.split_once("..") else {
            let start = number(text)?;
            return Ok(Self {
                start,
                end: Some(start.saturating_add(1)),
                single: true,
            });
        };
        let start = if start.is_empty() { 0 } else { number(start)? };
        let end = match end.strip_prefix('=') {
            Some(last) => Some(number(last)?.saturating_add(1)),
            None if end.is_empty() => None,
            None => Some(number(end)?),
        };
        if end.is_some_and(|end| end < start) {
            return Err("the range ends before it starts".to_owned());
        }
        Ok(Self {
            start,
            end,
            single: false,
        })
    }
}

/// Reads `A..B`, `A..` or `..B`, in microseconds, both among them.
pub fn parse_time(text: &str) -> Result<RangeInclusive<u64>, String> {
    let wrong = || "expected microseconds as A..B, A.. or ..B".to_owned();
    let (start, end) = text.split_once("..").ok_or_else(wrong)?;
    let number = |text: &str, absent| match text {
        "" => Ok(absent),
        _ => text.parse().map_err(|_| wrong()),
    };
    let end = end.strip_prefix('=').unwrap_or(end);
    let range = number(start, 0)?..=number(end, u64::MAX)?;
    if range.is_empty() {
        return Err("the range ends before it starts".to_owned());
    }
    Ok(range)
}

#[cfg(test)]
mod tests {
    use super::{FrameRange, parse_time};

    #[test]
    fn times() {
        assert_eq!(parse_time("5..9"), Ok(5..=9));
        assert_eq!(parse_time("5..=9"), Ok(5..=9));
        assert_eq!(parse_time("5.."), Ok(5..=u64::MAX));
        assert_eq!(parse_time("..9"), Ok(0..=9));
        for wrong in ["", "5", "9..5", "a..b", "-1..5"] {
            assert!(parse_time(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn ranges() {
        let read = |text| FrameRange::parse(text).map(|r| (r.start, r.end, r.single));
        assert_eq!(read("3"), Ok((3, Some(4), true)));
        assert_eq!(read("3..5"), Ok((3, Some(5), false)));
        assert_eq!(read("3..=5"), Ok((3, Some(6), false)));
        assert_eq!(read("3.."), Ok((3, None, false)));
        assert_eq!(read("..2"), Ok((0, Some(2), false)));
        for wrong in [
            "",
            "x",
            "-1",
            "+1",
            "5..3",
            "1...3",
            "1..x",
            "99999999999999999999",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}

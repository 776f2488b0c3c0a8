//! How values of options are read: addresses, sizes, times.

/// An address: hexadecimal with `0x`, or decimal.
pub fn parse_address(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) if !digits.starts_with(['+', '-']) => u64::from_str_radix(digits, 16),
        _ => text.parse(),
    };
    parsed.map_err(|_| "expected an address such as 0x401000".to_owned())
}

/// A size in bytes, with an optional unit.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return Err("expected a size such as 65536, 512KiB, 5MiB or 2GiB".to_owned()),
    };
    number
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(1 << shift))
        .filter(|size| *size > 0)
        .ok_or_else(|| "expected a size such as 65536, 512KiB, 5MiB or 2GiB".to_owned())
}

/// A time in seconds, with a fraction if need be.
pub fn parse_seconds(text: &str) -> Result<std::time::Duration, String> {
    text.parse()
        .ok()
        .filter(|seconds| *seconds > 0.0)
        .and_then(|seconds| std::time::Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| "expected a number of seconds greater than 0, such as 2.5".to_owned())
}

/// A time with its unit.
pub fn parse_time(text: &str) -> Result<std::time::Duration, String> {
    let expected = || "expected a time such as 500ms, 30s, 10m or 2h".to_owned();
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let seconds = match unit {
        "ms" => 0.001,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        "d" => 86400.0,
        _ => return Err(expected()),
    };
    number
        .parse::<f64>()
        .ok()
        .filter(|number| *number > 0.0)
        .and_then(|number| std::time::Duration::try_from_secs_f64(number * seconds).ok())
        .ok_or_else(expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        for (text, milliseconds) in [
            ("500ms", 500),
            ("30s", 30_000),
            ("1.5m", 90_000),
            ("2h", 7_200_000),
        ] {
            let time = std::time::Duration::from_millis(milliseconds);
            assert_eq!(parse_time(text), Ok(time), "{text}");
        }
        for wrong in [
            "",
            "30",
            "s",
            "0s",
            "-1s",
            "1y",
            "1e3s",
            "1.2.3s",
            "999999999999999999999d",
        ] {
            assert!(parse_time(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes_and_seconds() {
        assert_eq!(parse_size("65536"), Ok(65536));
        assert_eq!(parse_size("5MiB"), Ok(5 << 20));
        assert_eq!(parse_size("2g"), Ok(2 << 30));
        for wrong in [
            "",
            "0",
            "MiB",
            "-1",
            "1.5G",
            "99999999999999999999",
            "99999999999TiB",
        ] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
        assert_eq!(
            parse_seconds("0.5"),
            Ok(std::time::Duration::from_millis(500))
        );
        for wrong in ["", "0", "-1", "NaN", "inf", "1e300", "x"] {
            assert!(parse_seconds(wrong).is_err(), "{wrong}");
        }
    }
}

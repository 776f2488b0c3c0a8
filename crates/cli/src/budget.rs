//! `--budget`: the limit of each cpu's time for hits.

use tracewire_recorder::Budget;

/// Reads `N%`, with two places after the point at most.
pub fn parse(text: &str) -> Result<Budget, String> {
    let expected = || "expected a percentage of each cpu, such as 1% or 0.5%".to_owned();
    let number = text.strip_suffix('%').ok_or_else(expected)?;
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |text: &str| {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| text.parse::<u32>().ok()).flatten()
    };
    let hundredths = match part.len() {
        1 => digits(part).map(|part| part * 10),
        2 => digits(part),
        _ => None,
    };
    let hundredths = (digits(whole).zip(hundredths))
        .and_then(|(whole, part)| whole.checked_mul(100)?.checked_add(part))
        .ok_or_else(expected)?;
    Budget::new(hundredths).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_are_percentages() {
        let read = |text| parse(text).unwrap().to_string();
        assert_eq!(read("1%"), "1%");
        assert_eq!(read("0.5%"), "0.5%");
        assert_eq!(read("12.25%"), "12.25%");
        assert_eq!(read("50.00%"), "50%");
    }

    #[test]
    fn what_is_no_budget_is_refused() {
        for wrong in [
            "",
            "%",
            "1",
            "1 %",
            " 1%",
            "-1%",
            "+1%",
            "1.%",
            ".5%",
            "0.125%",
            "1e1%",
            "x%",
            "1%%",
            "99999999999%",
        ] {
            let error = parse(wrong).unwrap_err();
            assert!(
                error.starts_with("expected a percentage"),
                "{wrong}: {error}"
            );
        }
        for (wrong, words) in [
            ("0%", "0%"),
            ("0.09%", "0.09%"),
            ("200%", "200%"),
            ("50.01%", "50.01%"),
        ] {
            let error = parse(wrong).unwrap_err();
            assert_eq!(
                error,
                format!("a budget of {words}: 0.1% to 50% are possible")
            );
        }
    }
}

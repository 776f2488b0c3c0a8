//! `--rate`: how many frames tracepoints may make.

use std::num::NonZeroU64;
use std::time::Duration;

use tracewire_experiment::{FrameRate, FrameRates};
use tracewire_model::TracepointNumber;

/// `N/s`, `N/s:NUMBER,NUMBER`; minutes and hours too.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RateArgument {
    rate: FrameRate,
    /// None where all tracepoints have it.
    of: Option<Vec<TracepointNumber>>,
}

/// Reads one.
pub fn parse(text: &str) -> Result<RateArgument, String> {
    let expected = || {
        "expected a number of frames and a time, such as 1000/s, 10/min or 1/h, and perhaps the numbers of tracepoints: 1000/s:1,3"
            .to_owned()
    };
    let (rate, numbers) = match text.split_once(':') {
        Some((rate, numbers)) => (rate, Some(numbers)),
        None => (text, None),
    };
    let (frames, unit) = rate.split_once('/').ok_or_else(expected)?;
    let frames: NonZeroU64 = frames.parse().map_err(|_| expected())?;
    let period = Duration::from_secs(match unit {
        "s" => 1,
        "m" | "min" => 60,
        "h" => 3600,
        _ => return Err(expected()),
    });
    let number = |text: &str| {
        let number: i32 = text.parse().map_err(|_| expected())?;
        match number {
            1.. => Ok(TracepointNumber(number)),
            _ => Err(expected()),
        }
    };
    let of = numbers.map(|numbers| numbers.split(',').map(number).collect());
    Ok(RateArgument {
        rate: FrameRate::new(frames, period).map_err(|error| error.to_string())?,
        of: of.transpose()?,
    })
}

/// The combination of several. For the same tracepoint the last one counts.
pub fn together(arguments: &[RateArgument]) -> FrameRates {
    let mut rates = FrameRates::default();
    for RateArgument { rate, of } in arguments {
        match of {
            None => rates.limit_all(*rate),
            Some(numbers) => {
                for number in numbers {
                    rates.limit(*number, *rate);
                }
            }
        }
    }
    rates
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_for_all_tracepoints_or_for_some() {
        let of = |number, arguments: &[&str]| {
            let arguments: Vec<_> = arguments.iter().map(|one| parse(one).unwrap()).collect();
            let rate = together(&arguments).of(TracepointNumber(number));
            rate.map_or_else(String::new, |rate| rate.to_string())
        };
        assert_eq!(of(7, &["1000/s"]), "1000 frames a second");
        assert_eq!(of(7, &["10/min:1,7", "5/s"]), "10 frames a minute");
        assert_eq!(of(2, &["10/min:1,7"]), "");
        assert_eq!(of(2, &["10/m:2", "1/h:2"]), "1 frame an hour");
    }

    #[test]
    fn what_is_no_rate_is_refused() {
        for wrong in [
            "",
            "1000",
            "/s",
            "0/s",
            "-1/s",
            "1.5/s",
            "1/d",
            "1/s:",
            "1/s:0",
            "1/s:-1",
            "1/s:1,",
            "1/s:x",
            "10000000000/s",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}

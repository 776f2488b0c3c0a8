//! Which tracepoints a command means: numbers, ranges, `$bpnum`.

use tracewire_model::TracepointNumber;

use crate::error::{Problem, ScriptError};
use crate::model::ScriptTracepoint;
use crate::parse::Script;
use crate::place::Located;

impl Script {
    pub(crate) fn all(&self) -> Vec<TracepointNumber> {
        self.tracepoints.iter().map(|t| t.number).collect()
    }

    pub(crate) fn find(&mut self, number: TracepointNumber) -> Option<&mut ScriptTracepoint> {
        self.tracepoints.iter_mut().find(|t| t.number == number)
    }

    /// The numbers in a list, each that of a tracepoint.
    pub(crate) fn tracepoint_numbers(
        &self,
        list: &Located,
    ) -> Result<Vec<TracepointNumber>, ScriptError> {
        let numbers = self.numbers(list)?;
        match numbers
            .iter()
            .find(|n| self.tracepoints.iter().all(|t| t.number != **n))
        {
            Some(stranger) => Err(ScriptError::new(
                list,
                Problem::NoSuchTracepoint(stranger.0.into()),
            )),
            None => Ok(numbers),
        }
    }

    /// One number, `$bpnum` or `$tpnum`.
    pub(crate) fn one_number(&self, word: &Located) -> Result<TracepointNumber, ScriptError> {
        match *self.numbers(word)? {
            [one] => Ok(one),
            _ => Err(ScriptError::new(
                word,
                Problem::NotANumber("one tracepoint number"),
            )),
        }
    }

    /// A list of numbers and ranges. Numbers that were never given out are an error; those of breakpoints and
    /// of deleted tracepoints are not.
    pub(crate) fn numbers(&self, list: &Located) -> Result<Vec<TracepointNumber>, ScriptError> {
        let mut numbers = Vec::new();
        let mut rest = list.clone();
        loop {
            let (word, more) = rest.word();
            let (from, to) = match word.text() {
                "$bpnum" | "$_" => (self.last_number, self.last_number),
                "$tpnum" => {
                    let last = self.last_tracepoint.map_or(0, |number| number.0);
                    (last, last)
                }
                text if text.contains('.') => {
                    return Err(ScriptError::new(&word, Problem::WholeTracepoint));
                }
                text => {
                    let (from, to) = range(text).ok_or_else(|| {
                        ScriptError::new(&word, Problem::NotANumber("a tracepoint number"))
                    })?;
                    let narrow = |number: usize| {
                        i32::try_from(number)
                            .ok()
                            .filter(|number| (1..=self.last_number).contains(number))
                            .ok_or_else(|| {
                                let number = i64::try_from(number).unwrap_or(i64::MAX);
                                ScriptError::new(&word, Problem::NoSuchTracepoint(number))
                            })
                    };
                    (narrow(from)?, narrow(to)?)
                }
            };
            if from < 1 {
                return Err(ScriptError::new(&word, Problem::NoTracepoint));
            }
            numbers.extend((from..=to).map(TracepointNumber));
            if more.is_empty() {
                return Ok(numbers);
            }
            rest = more;
        }
    }
}

/// `N` or `N-M`.
pub(crate) fn range(text: &str) -> Option<(usize, usize)> {
    let number = |text: &str| {
        text.parse::<usize>()
            .ok()
            .filter(|number| *number < 1 << 20)
    };
    match text.split_once('-') {
        None => number(text).map(|number| (number, number)),
        Some((from, to)) => {
            let (from, to) = (number(from)?, number(to)?);
            (from <= to).then_some((from, to))
        }
    }
}

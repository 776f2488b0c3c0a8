//! Picks: which hits of a tracepoint make frames. `sample 1/N` and `first N [by KEY]` follow the place and the condition.

use std::num::NonZeroU32;

use tracewire_model::{AggregateFunction, MAX_KEYS};

use crate::aggregate::ScriptAggregate;
use crate::error::{Problem, ScriptError};
use crate::place::Located;
use crate::scan::{commas, keyword};

/// Parts what follows `trace` and its relatives into the place with its condition, and the pick.
pub(crate) fn take(argument: &Located) -> Result<(Located, Option<ScriptAggregate>), ScriptError> {
    let mut start = 0;
    while let Some(at) = next(&argument.text()[start..]).map(|at| start + at) {
        let pick = argument.after(at);
        if at > 0
            && let Some(pick) = parse(&pick)?
        {
            return Ok((argument.part(0..at).trimmed(), Some(pick)));
        }
        // A variable or a function of that name.
        start = at + 1;
    }
    Ok((argument.clone(), None))
}

/// Where the next word is that a pick can begin with.
fn next(text: &str) -> Option<usize> {
    let places = ["sample", "first"].map(|word| keyword(text, word));
    places.into_iter().flatten().min()
}

/// The pick that a text is; none where a number does not follow its first word, which is a name then.
fn parse(text: &Located) -> Result<Option<ScriptAggregate>, ScriptError> {
    let by = keyword(text.text(), "by");
    let call = by.map_or(text.clone(), |at| text.part(0..at)).trimmed();
    let (word, number) = call.word();
    let is_sample = match word.text() {
        "sample" => true,
        "first" => false,
        _ => return Ok(None),
    };
    if !number.text().starts_with(|c: char| c.is_ascii_digit()) {
        return Ok(None);
    }
    if let Some(at) = keyword(text.text(), "if") {
        let pick = text.part(0..at).trimmed().text().to_owned();
        let problem = Problem::PickBeforeCondition(pick);
        return Err(ScriptError::new(&text.after(at), problem));
    }
    let digits = match is_sample {
        true => number.text().strip_prefix("1/").map(str::trim_start),
        false => Some(number.text()),
    };
    let count = digits.and_then(|digits| digits.parse::<NonZeroU32>().ok());
    let Some(count) = count else {
        let form = if is_sample { "sample 1/N" } else { "first N" };
        return Err(ScriptError::new(&number, Problem::Pick(form)));
    };
    let mut keys = Vec::new();
    if let Some(at) = by {
        let list = text.after(at + "by".len()).trimmed();
        let mut start = 0;
        for end in commas(list.text()).into_iter().chain([list.text().len()]) {
            keys.push(list.part(start..end).trimmed());
            start = end + 1;
        }
    }
    if let Some(empty) = keys.iter().find(|key| key.is_empty()) {
        return Err(ScriptError::new(
            empty,
            Problem::Missing("a key after `by`"),
        ));
    }
    if let Some(last) = keys.get(MAX_KEYS) {
        return Err(ScriptError::new(last, Problem::ManyKeys(MAX_KEYS)));
    }
    Ok(Some(ScriptAggregate {
        function: match is_sample {
            true => AggregateFunction::Sample(count),
            false => AggregateFunction::First(count),
        },
        call,
        value: None,
        keys,
    }))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn taken(text: &str) -> Result<(String, Option<String>), ScriptError> {
        let (place, pick) = take(&Located::line(&Arc::from("-t"), 1, text.to_owned()))?;
        Ok((
            place.text().to_owned(),
            pick.as_ref().map(ScriptAggregate::text),
        ))
    }

    #[test]
    fn a_pick_follows_the_place_and_the_condition() {
        for (text, place, pick) in [
            ("f sample 1/1000", "f", "sample 1/1000"),
            ("f  sample  1/ 10", "f", "sample  1/ 10"),
            ("f first 10", "f", "first 10"),
            (
                "f if x > 3 first 10 by a->b, c[1, 2]",
                "f if x > 3",
                "first 10 by a->b, c[1, 2]",
            ),
            (
                "f if sample(1) == 1 sample 1/5 by key",
                "f if sample(1) == 1",
                "sample 1/5 by key",
            ),
            ("first first 1", "first", "first 1"),
            ("/^a sample/ first 2", "/^a sample/", "first 2"),
        ] {
            let expected = (place.to_owned(), Some(pick.to_owned()));
            assert_eq!(taken(text).expect(text), expected, "{text}");
        }
    }

    #[test]
    fn other_words_are_names() {
        for text in [
            "first",
            "sample if first > sample",
            "f if sample / 2 > first",
            "f if s == \"sample 1/2\"",
            "ns::first",
        ] {
            assert_eq!(taken(text).expect(text), (text.to_owned(), None), "{text}");
        }
    }

    #[test]
    fn what_no_pick_can_be_is_an_error() {
        for text in [
            "f sample 1/0",
            "f sample 2/3",
            "f sample 10",
            "f first 0",
            "f first 4294967296",
            "f first 1 by",
            "f first 1 by a, ",
            "f first 1 by a, b, c, d, e",
            "f first 1 if a",
            "f first 1 by a if b",
        ] {
            assert!(taken(text).is_err(), "{text}");
        }
    }
}

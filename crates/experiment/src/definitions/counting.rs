//! A tracepoint's aggregates, as words of a line.

use std::fmt::Write as _;

use tracewire_model::hex::{Hex, decode};
use tracewire_model::{Aggregate, CallPart, Counted, Counting, MAX_KEYS, Operand};

/// The most operands that the entry of a call keeps, and the most aggregates of a tracepoint.
const MOST: usize = 1024;

/// The roles in calls, and their words.
const CALLS: [(CallPart, &str); 5] = [
    (CallPart::Begin { is_loop: false }, "begin"),
    (CallPart::Begin { is_loop: true }, "loop"),
    (CallPart::Within, "within"),
    (CallPart::End, "end"),
    (CallPart::Whole, "whole"),
];

/// The words for the aggregates of a location.
pub(super) fn words(counting: &Counting) -> String {
    let mut words = String::new();
    let mut put = |name: &str, value: &str| {
        let blank = if words.is_empty() { "" } else { " " };
        // Writing to a string does not fail.
        let _ = write!(words, "{blank}{name}={value}");
    };
    let call = CALLS.iter().find(|(call, _)| *call == counting.call);
    if let Some((_, word)) = call {
        put("call", word);
    }
    if counting.picks {
        put("frames", "picked");
    }
    if let Some(condition) = &counting.condition {
        put("if", &Hex(condition).to_string());
    }
    for operand in &counting.captures {
        put("keep", &operand_word(operand));
    }
    for counted in &counting.aggregates {
        let keys: Vec<String> = counted.keys.iter().map(operand_word).collect();
        let value = counted
            .value
            .as_ref()
            .map_or_else(String::new, operand_word);
        let index = counted.aggregate.index;
        put("count", &format!("{index}:{}:{value}", keys.join(",")));
    }
    words
}

/// Parses the words. Aggregates are given by their indices among those of the tracepoint's source strings.
pub(super) fn parse(words: &str, aggregates: &[Aggregate]) -> Option<Counting> {
    let mut counting = Counting::default();
    for word in words.split(' ') {
        match word.split_once('=')? {
            ("call", call) => {
                let (found, _) = CALLS.iter().find(|(_, word)| *word == call)?;
                counting.call = *found;
            }
            ("frames", "picked") => counting.picks = true,
            ("if", code) => counting.condition = Some(decode(code.as_bytes())?),
            ("keep", operand) if counting.captures.len() < MOST => {
                counting.captures.push(parse_operand(operand)?);
            }
            ("count", counted) if counting.aggregates.len() < MOST => {
                counting
                    .aggregates
                    .push(parse_counted(counted, aggregates)?);
            }
            _ => return None,
        }
    }
    Some(counting)
}

fn parse_counted(text: &str, aggregates: &[Aggregate]) -> Option<Counted> {
    let (index, rest) = text.split_once(':')?;
    let (keys, value) = rest.split_once(':')?;
    let index = index.parse().ok()?;
    let aggregate = aggregates.iter().find(|one| one.index == index)?.clone();
    let keys: Vec<Operand> = (keys.split(',').filter(|key| !key.is_empty()))
        .map(parse_operand)
        .collect::<Option<_>>()?;
    let value = match value {
        "" => None,
        value => Some(parse_operand(value)?),
    };
    let is_good = keys.len() <= MAX_KEYS && keys.len() == aggregate.keys.len();
    is_good.then_some(Counted {
        aggregate,
        keys,
        value,
    })
}

fn operand_word(operand: &Operand) -> String {
    match operand {
        Operand::Number(program) => format!("n{}", Hex(program)),
        Operand::Text {
            address,
            length: None,
        } => format!("t{}", Hex(address)),
        Operand::Text {
            address,
            length: Some(length),
        } => format!("t{}/{}", Hex(address), Hex(length)),
        Operand::Captured { at, is_text: false } => format!("c{at}"),
        Operand::Captured { at, is_text: true } => format!("s{at}"),
    }
}

fn parse_operand(word: &str) -> Option<Operand> {
    let code = |text: &str| decode(text.as_bytes());
    let (kind, rest) = word.split_at_checked(1)?;
    Some(match kind {
        "n" => Operand::Number(code(rest)?),
        "t" => match rest.split_once('/') {
            None => Operand::Text {
                address: code(rest)?,
                length: None,
            },
            Some((address, length)) => Operand::Text {
                address: code(address)?,
                length: Some(code(length)?),
            },
        },
        "c" | "s" => Operand::Captured {
            at: rest.parse().ok()?,
            is_text: kind == "s",
        },
        _ => return None,
    })
}

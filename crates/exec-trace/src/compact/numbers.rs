//! The numbers of a line that change: values, and what only the text has.

use std::ops::Range;

use tracewire_model::hex;

use super::effect::{Digits, ValueTemplate};
use super::group::{Group, Groups};
use super::grouping::{Grouping, Token};
use super::template::{Class, MOST_IN_GROUP, mark};
use super::token::{self, Letters};
use crate::text::{Format, gem5};
use crate::value::{MAX_DIGITS, Value};

impl<G: Groups> Grouping<'_, G> {
    /// The variables and tokens of a value.
    pub(super) fn value(&mut self, class: Class, value: &Value<'_>) -> ValueTemplate {
        let group = &mut self.group;
        let line = self.line.as_mut().filter(|line| line.apart.is_none());
        if let Some(line) = line {
            let content = &self.text[line.start..line.end];
            // The known ones of Nios II are in the middle of the line, and have no zeros before them.
            let is_nios2 = matches!(self.format, Format::Nios2V2 | Format::Nios2V3);
            let is_short = is_nios2 && value.known().is_some();
            if !is_short && token::value(content, line.at, value, &mut self.digit_rows) {
                let mut pieces = Vec::new();
                let single = self.digit_rows.len() == 1 && self.digit_rows[0].1;
                let mut template = None;
                for (range, known) in self.digit_rows.drain(..) {
                    let text = &content[range.clone()];
                    if !known {
                        pieces.push(Digits::Unknown(text.len() as u16));
                        continue;
                    }
                    let number = hex::number(text).unwrap_or(0);
                    let digits = text.len() as u8;
                    let (place, row) = group.variable(class, digits, number);
                    let mark = match Letters::of(text) {
                        Letters::None if self.is_upper => mark::UPPER,
                        Letters::None | Letters::Lower => mark::LOWER,
                        Letters::Upper => {
                            self.is_upper = true;
                            mark::UPPER
                        }
                        // The text stays as it is.
                        Letters::Both => 0,
                    };
                    if mark != 0 {
                        line.tokens.push(Token {
                            start: range.start,
                            end: range.end,
                            mark,
                            variable: place,
                        });
                    }
                    if single {
                        template = Some(ValueTemplate::One { row, digits });
                    } else {
                        pieces.push(Digits::Variable { row, digits });
                    }
                }
                return template.unwrap_or_else(|| ValueTemplate::Pieces(pieces.into()));
            }
            if let Some(known) = value.known()
                && let Some((range, true)) = token::number(content, line.at, known, 0)
            {
                let digits = value.digits() as u8;
                let (place, row) = group.variable(class, digits, known);
                line.tokens.push(Token {
                    start: range.start,
                    end: range.end,
                    mark: mark::SHORT,
                    variable: place,
                });
                return ValueTemplate::One { row, digits };
            }
        }
        // Not found in the text as it is: the value alone.
        if let Some(known) = value.known() {
            let digits = value.digits() as u8;
            let (_, row) = group.variable(class, digits, known);
            return ValueTemplate::One { row, digits };
        }
        let nibbles: Vec<_> = value.nibbles().take(MAX_DIGITS as usize).collect();
        let mut pieces = Vec::new();
        let mut rest = nibbles.as_slice();
        while let Some(last) = rest.last() {
            let most = if last.is_some() { 16 } else { usize::MAX };
            let count = rest
                .iter()
                .rev()
                .take_while(|nibble| nibble.is_some() == last.is_some())
                .count()
                .min(most);
            let (left, these) = rest.split_at(rest.len() - count);
            rest = left;
            pieces.push(if last.is_some() {
                let number = these.iter().rev().fold(0, |number, nibble| {
                    number << 4 | u64::from(nibble.unwrap_or(0))
                });
                let (_, row) = group.variable(class, count as u8, number);
                Digits::Variable {
                    row,
                    digits: count as u8,
                }
            } else {
                Digits::Unknown(count as u16)
            });
        }
        ValueTemplate::Pieces(pieces.into())
    }
}

/// How many digits a number of the text has at least.
const LEAST: usize = 3;

/// The numbers of a line that change and that no record gave are numbers of the text, in formats whose lines have many: all but
/// short ones, in the part of the line where they are.
pub(super) fn rest_numbers(
    format: Format,
    line: &[u8],
    tokens: &mut Vec<Token>,
    group: &mut Group,
) {
    match format {
        // The address and the code are among the first fields.
        Format::Nios2V2 | Format::Nios2V3 => {
            const FIRST: usize = 6;
            let Some(fields) = memchr::memchr(b':', line) else {
                return;
            };
            let mut commas = memchr::memchr_iter(b',', line);
            if let Some(from) = commas.nth(FIRST - 1).filter(|from| *from > fields) {
                numbers_in(line, from..line.len(), false, tokens, group);
            }
        }
        // The cycle, and what is after the code.
        Format::Rvfi => {
            // The time is the line's first number.
            let time = match tokens.first() {
                Some(token) if token.mark == mark::TIME => Some(token.end),
                _ => token::hex_runs(line, 0).next().map(|time| time.end),
            };
            let cycle = time.and_then(|end| token::hex_runs(line, end).next());
            let Some(cycle) = cycle else {
                return;
            };
            let from = cycle.end;
            put_numbers(line, std::iter::once(cycle), true, tokens, group);
            // Those of registers and memory are behind a sign; to look for others takes a tenth of the time of an index.
            let signs = memchr::memchr2_iter(b'=', b':', &line[from..]);
            let runs = signs.map(|sign| token::hex_run_at(line, from + sign + 1));
            put_numbers(line, runs, true, tokens, group);
        }
        // The results, after the class.
        Format::Gem5 => {
            if let Some(from) = gem5::separators(line).next_back() {
                numbers_in(line, from..line.len(), true, tokens, group);
            }
        }
        // The physical addresses, after the disassembly.
        Format::Execlog => {
            if let Some(from) = memchr::memrchr(b'"', line) {
                numbers_in(line, from..line.len(), true, tokens, group);
            }
        }
        _ => {}
    }
}

/// Makes the numbers in a part of a line numbers of the text; those with zeros in front only where `padded` says so.
fn numbers_in(
    line: &[u8],
    part: Range<usize>,
    padded: bool,
    tokens: &mut Vec<Token>,
    group: &mut Group,
) {
    let runs = token::hex_runs_of(&line[..part.end], part.start, LEAST);
    put_numbers(line, runs, padded, tokens, group);
}

/// Makes runs of hex digits numbers of the text; those with zeros in front only where `padded` says so.
fn put_numbers(
    line: &[u8],
    runs: impl Iterator<Item = Range<usize>>,
    padded: bool,
    tokens: &mut Vec<Token>,
    group: &mut Group,
) {
    for run in runs {
        if !(LEAST..=16).contains(&run.len()) {
            continue;
        }
        let text = &line[run.clone()];
        let overlaps = tokens
            .iter()
            .any(|token| token.start < run.end && run.start < token.end);
        let has_zeros = text[0] == b'0';
        if overlaps
            || (has_zeros && !padded)
            || !token::is_short(text)
            || group.variables.len() >= MOST_IN_GROUP
        {
            continue;
        }
        let number = hex::number(text).unwrap_or(0);
        let (mark, digits) = match has_zeros {
            true => (mark::LOWER, text.len() as u8),
            false => (mark::SHORT, 16),
        };
        let (place, _) = group.variable(Class::Text, digits, number);
        tokens.push(Token {
            start: run.start,
            end: run.end,
            mark,
            variable: place,
        });
    }
}

//! The fields of a line of `perf script`.
//!
//! Which fields there are and what they mean depends on `-F`; their order is always the same: the thread's name, its number, the cpu, the time,
//! the period, the event, flags, the accessed address, the instruction's address with its symbol and file, the branch stack, the
//! code. A name and a symbol may have blanks. An address is right-aligned in 16 columns, which tells it from other numbers.

use memchr::{memchr, memmem};
use tracewire_arch::Opcode;
use tracewire_model::hex;

use super::super::LineError;
use super::super::cursor::is_blank;
use crate::record::{AccessKind, Address, CpuNumber, Scale, Time};

/// In how many columns an address is written.
const ADDRESS: usize = 16;

/// The longest code of an instruction, in bytes.
pub(super) const LONGEST_CODE: u64 = 15;

/// What the number of the idle threads of a cpu has, besides the cpu.
const IDLE: u32 = 1 << 31;

/// A line up to its event, and what follows.
pub(super) struct Sample<'a> {
    pub(super) time: Time,
    /// The thread.
    pub(super) thread: CpuNumber,
    period: Option<u64>,
    /// The event without its colon; empty where there is none.
    event: &'a [u8],
    rest: &'a [u8],
    /// What follows the time.
    text: &'a [u8],
    /// Where the time begins in the line.
    time_start: usize,
}

/// How long the front of a line is that is remembered, at most.
const LONGEST_HEAD: usize = 96;

/// The front of a line, down to its event, and what it says. Many lines in a row have the same, or one that differs in the time only.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    text: [u8; LONGEST_HEAD],
    length: usize,
    time: Time,
    thread: CpuNumber,
    period: Option<u64>,
    /// Where the time begins, where the colon after it is, and where the event begins.
    time_start: usize,
    colon: usize,
    event: usize,
}

impl Head {
    /// Of no line.
    pub(super) const NONE: Self = Self {
        text: [0; LONGEST_HEAD],
        length: 0,
        time: Time::ZERO,
        thread: CpuNumber(0),
        period: None,
        time_start: 0,
        colon: 0,
        event: 0,
    };

    /// What a line says that begins so, or does but for the time, which is remembered then.
    #[inline]
    pub(super) fn sample<'a>(&mut self, line: &'a [u8]) -> Option<Sample<'a>> {
        let (head, rest) = line.split_at_checked(self.length)?;
        // The event may go on.
        if self.length == 0 || !rest.first().is_none_or(|byte| is_blank(*byte)) {
            return None;
        }
        let known = &self.text[..self.length];
        if head != known {
            self.take_time(head)?;
        }
        Some(Sample {
            time: self.time,
            thread: self.thread,
            period: self.period,
            event: &line[self.event..self.length - 1],
            rest,
            text: &line[self.colon + 1..],
            time_start: self.time_start,
        })
    }

    /// Takes the time of a head of the same length, where nothing else differs.
    fn take_time(&mut self, head: &[u8]) -> Option<()> {
        let known = &mut self.text[..self.length];
        let (times, colon) = (self.time_start..self.colon, self.colon);
        if head[..times.start] != known[..times.start] || head[colon..] != known[colon..] {
            return None;
        }
        let (start, time) = time_at_end(&head[..colon])?;
        if start != times.start {
            return None;
        }
        self.time = time;
        known[times.clone()].copy_from_slice(&head[times]);
        Some(())
    }

    /// Reads a line, and remembers how it begins.
    pub(super) fn read<'a>(&mut self, line: &'a [u8]) -> Result<Sample<'a>, LineError> {
        let sample = Sample::read(line)?;
        let length = sample.head(line).len();
        if !sample.event.is_empty()
            && let Some(text) = self.text.get_mut(..length)
        {
            text.copy_from_slice(&line[..length]);
            *self = Self {
                text: self.text,
                length,
                time: sample.time,
                thread: sample.thread,
                period: sample.period,
                time_start: sample.time_start,
                colon: line.len() - sample.text.len() - 1,
                event: length - 1 - sample.event.len(),
            };
        }
        Ok(sample)
    }
}

/// Where a sample was.
pub(super) struct Place<'a> {
    pub(super) address: u64,
    /// The address before it, of accessed memory.
    accessed: Option<u64>,
    /// What is before the addresses.
    before: &'a [u8],
    /// What is after the address: symbol, file, target, branch stack, code.
    after: &'a [u8],
    /// What is after the arrow to a target.
    target: Option<&'a [u8]>,
}

/// The words of a text: where each begins, and the word.
fn words(text: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let mut at = 0;
    std::iter::from_fn(move || {
        at += text.get(at..)?.iter().position(|byte| !is_blank(*byte))?;
        let rest = &text[at..];
        let length = rest
            .iter()
            .position(|byte| is_blank(*byte))
            .unwrap_or(rest.len());
        let word = (at, &rest[..length]);
        at += length;
        Some(word)
    })
}

/// A decimal number of at most 19 digits, which always fits.
fn decimal(digits: &[u8]) -> Option<u64> {
    let mut value = 0u64;
    let mut is_number = (1..=19).contains(&digits.len());
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        is_number &= digit <= 9;
        value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
    }
    is_number.then_some(value)
}

/// A time in seconds, with six or nine decimals, that ends a text: where it begins, and the time.
fn time_at_end(text: &[u8]) -> Option<(usize, Time)> {
    let digits_before = |end: usize| {
        let digits = text[..end].iter().rev();
        digits.take_while(|byte| byte.is_ascii_digit()).count()
    };
    let decimals = digits_before(text.len());
    let unit = match decimals {
        6 => 1_000_000,
        9 => 1_000_000_000,
        _ => return None,
    };
    let point = (text.len() - decimals).checked_sub(1)?;
    if text[point] != b'.' {
        return None;
    }
    let start = point - digits_before(point);
    if text[..start].last().is_some_and(|byte| !is_blank(*byte)) {
        return None;
    }
    let (whole, fraction) = (decimal(&text[start..point])?, decimal(&text[point + 1..])?);
    let time = Time {
        ticks: whole.checked_mul(unit)?.checked_add(fraction)?,
        decimals: decimals as u8,
        scale: Scale::None,
    };
    Some((start, time))
}

/// Where the time of a line begins; 0 where it has none.
pub(crate) fn time_start(line: &[u8]) -> usize {
    find_time(line).map_or(0, |(start, ..)| start)
}

/// Where the time of a line is: its start, its colon, and what it says.
fn find_time(line: &[u8]) -> Option<(usize, usize, Time)> {
    memchr::memchr_iter(b':', line)
        .filter(|colon| line.get(colon + 1).is_none_or(|next| is_blank(*next)))
        .find_map(|colon| {
            let (start, time) = time_at_end(&line[..colon])?;
            Some((start, colon, time))
        })
}

/// The last word of a text, and what is before it.
fn last_word(text: &[u8]) -> (&[u8], &[u8]) {
    let text = text.trim_ascii_end();
    let start = (text.iter().rposition(|byte| is_blank(*byte))).map_or(0, |blank| blank + 1);
    let (before, word) = text.split_at(start);
    (word, before)
}

/// The number of a thread: `1234` or `1230/1234`, -1 where it is not known.
fn thread(word: &[u8]) -> Option<u32> {
    let number = match memchr(b'/', word) {
        Some(slash) => {
            let process = word[..slash].strip_prefix(b"-").unwrap_or(&word[..slash]);
            decimal(process)?;
            &word[slash + 1..]
        }
        None => word,
    };
    match number {
        b"-1" => Some(u32::MAX),
        number => decimal(number).and_then(|number| u32::try_from(number).ok()),
    }
}

impl<'a> Sample<'a> {
    pub(super) fn read(line: &'a [u8]) -> Result<Self, LineError> {
        const TIME: &str = "the thread, and the time in seconds, such as 12.345678:";
        let (start, colon, time) = find_time(line).ok_or_else(|| LineError::at(line, 0, TIME))?;
        let (mut word, mut before) = last_word(&line[..start]);
        let cpu = (word
            .strip_prefix(b"[")
            .and_then(|word| word.strip_suffix(b"]")))
        .and_then(decimal)
        .and_then(|cpu| u32::try_from(cpu).ok());
        if cpu.is_some() {
            (word, before) = last_word(before);
        }
        let number = thread(word).filter(|_| !before.trim_ascii().is_empty());
        let Some(number) = number else {
            let position = start.saturating_sub(word.len() + 1);
            return Err(LineError::at(
                line,
                position,
                "the number of a thread, after its name",
            ));
        };
        let number = match (number, cpu) {
            (0, Some(cpu)) => IDLE | cpu,
            (number, _) => number,
        };
        let text = line.get(colon + 1..).unwrap_or_default();
        let mut next = words(text);
        let first = next.next();
        let name = |(at, word): (usize, &'a [u8])| match word {
            [name @ .., b':'] if !name.is_empty() => Some((name, at + word.len())),
            _ => None,
        };
        let (period, event) = match first {
            Some(word) => match name(word) {
                Some(event) => (None, Some(event)),
                None => decimal(word.1)
                    .and_then(|period| Some((Some(period), Some(name(next.next()?)?))))
                    .unwrap_or((None, None)),
            },
            None => (None, None),
        };
        let (event, end) = event.unwrap_or((b"", 0));
        Ok(Self {
            time,
            thread: CpuNumber(number),
            period,
            event,
            rest: text.get(end..).unwrap_or_default(),
            text,
            time_start: start,
        })
    }

    /// What follows the time.
    pub(super) const fn text(&self) -> &'a [u8] {
        self.text.trim_ascii()
    }

    /// The front of its line, up to the event and a blank.
    pub(super) fn head<'l>(&self, line: &'l [u8]) -> &'l [u8] {
        let end = line.len().saturating_sub(self.rest.len());
        &line[..end]
    }

    /// Where it was; none where the line has no address.
    #[inline]
    pub(super) fn place(&self) -> Option<Place<'a>> {
        if let Some(address) = lone_address(self.rest) {
            return Some(Place {
                address,
                accessed: None,
                before: b"",
                after: b"",
                target: None,
            });
        }
        self.place_in_row()
    }

    fn place_in_row(&self) -> Option<Place<'a>> {
        // How memory was accessed comes between the address of the memory and that of the instruction.
        let operation = memchr(b'|', self.rest).filter(|at| self.rest[*at..].starts_with(b"|OP "));
        let skipped = operation.unwrap_or(0);
        let row = Row::find(&self.rest[skipped..])?;
        let accessed = match operation {
            Some(operation) => Row::find(&self.rest[..operation]).map(|row| row.first),
            None => Some(row.first).filter(|_| row.count > 1),
        };
        let after = &self.rest[skipped + row.end..];
        let arrow = memchr::memchr_iter(b'=', after)
            .find(|at| after[*at..].starts_with(b"=> ") && after[..*at].ends_with(b" "));
        Some(Place {
            address: row.last,
            accessed,
            before: &self.rest[..skipped + row.start],
            after,
            target: arrow.map(|arrow| &after[arrow + 3..]),
        })
    }

    /// Whether it is one of a row of instructions.
    pub(super) fn is_instruction(&self, place: &Place<'_>) -> bool {
        if place.target().is_some() {
            return false;
        }
        match self.event {
            b"" => self.period.is_none() && place.has_code(),
            event => {
                event.starts_with(b"instructions")
                    && match self.period {
                        Some(period) => period <= 1,
                        None => place.has_code(),
                    }
            }
        }
    }

    /// Whether it is a branch.
    pub(super) fn is_branch(&self, place: &Place<'_>) -> bool {
        self.event.starts_with(b"branches") && self.period.is_none_or(|period| period <= 1)
            || place.target().is_some()
    }

    /// The memory that was accessed.
    pub(super) fn accessed(&self, place: &Place<'_>) -> Option<(AccessKind, u64)> {
        let address = place.accessed?;
        let has = |text: &[u8], part: &[u8]| memmem::find(text, part).is_some();
        let kind = if has(self.rest, b"|OP LOAD") {
            AccessKind::Read
        } else if has(self.rest, b"|OP STORE") {
            AccessKind::Write
        } else if has(self.event, b"mem-loads") || has(self.event, b"ldlat-loads") {
            AccessKind::Read
        } else if has(self.event, b"mem-stores") || has(self.event, b"ldlat-stores") {
            AccessKind::Write
        } else {
            return None;
        };
        Some((kind, address))
    }
}

/// The address in a text that has nothing else: most lines of a transcript end so.
fn lone_address(text: &[u8]) -> Option<u64> {
    let (before, columns) = text.split_last_chunk::<ADDRESS>()?;
    if !before.iter().all(|byte| is_blank(*byte)) {
        return None;
    }
    let blanks = columns.iter().position(|byte| !is_blank(*byte))?;
    hex::number(&columns[blanks..])
}

/// An address as a transcript has it: lower-case digits, right-aligned in the columns of an address, with spaces before them.
pub(super) fn columns(address: u64) -> [u8; ADDRESS] {
    let eight = |number: u64| u128::from(u64::from_be_bytes(hex::eight_digits(number as u32)));
    let text = eight(address >> 32) << 64 | eight(address);
    // What is in front of the first digit. The last digit is there also in zero.
    let blanks = (address | 1).leading_zeros() / 4;
    let is_blank = !(u128::MAX >> (8 * blanks));
    let spaces = u128::from_be_bytes([b' '; ADDRESS]);
    (text & !is_blank | spaces & is_blank).to_be_bytes()
}

/// Numbers side by side, each right-aligned in the columns of an address.
struct Row {
    first: u64,
    last: u64,
    count: usize,
    start: usize,
    end: usize,
}

impl Row {
    /// The first row of a text.
    fn find(text: &[u8]) -> Option<Self> {
        let mut row: Option<Self> = None;
        for (start, word) in words(text) {
            let end = start + word.len();
            let blanks = end
                .checked_sub(ADDRESS)
                .and_then(|column| text.get(column..start));
            let is_aligned = blanks.is_some_and(|blanks| blanks.iter().all(|byte| is_blank(*byte)));
            match (hex::number(word).filter(|_| is_aligned), &mut row) {
                (None, None) => {}
                (None, Some(_)) => break,
                (Some(value), None) => {
                    row = Some(Self {
                        first: value,
                        last: value,
                        count: 1,
                        start,
                        end,
                    });
                }
                (Some(value), Some(row)) => {
                    row.last = value;
                    row.count += 1;
                    row.end = end;
                }
            }
        }
        row
    }
}

impl<'a> Place<'a> {
    /// What the flags say the branch is, such as `call` or `tr end  return`.
    pub(super) fn flags(&self) -> &'a [u8] {
        self.before.trim_ascii()
    }

    /// Whether the trace begins or ends there.
    pub(super) fn is_gap(&self) -> bool {
        self.flags().starts_with(b"tr strt") || self.flags().starts_with(b"tr end")
    }

    /// Where a branch goes.
    pub(super) fn target(&self) -> Option<u64> {
        let (_, word) = words(self.target?).next()?;
        hex::number(word)
    }

    /// The bytes after `insn:`.
    fn code_text(&self) -> Option<&'a [u8]> {
        if self.after.is_empty() {
            return None;
        }
        let colon = memchr::memrchr_iter(b':', self.after)
            .find(|colon| self.after[..*colon].ends_with(b" insn"))?;
        Some(&self.after[colon + 1..])
    }

    /// The code, its bytes in the order of memory.
    pub(super) fn code(&self) -> Option<Opcode> {
        let mut value = 0u128;
        let mut bytes = 0u8;
        for (_, word) in words(self.code_text()?) {
            let byte = Some(word)
                .filter(|word| word.len() == 2)
                .and_then(hex::number);
            let Some(byte) = byte.filter(|_| u64::from(bytes) < LONGEST_CODE) else {
                break;
            };
            value = value << 8 | u128::from(byte);
            bytes += 1;
        }
        (bytes > 0).then_some(Opcode {
            value,
            digits: bytes * 2,
        })
    }

    /// The disassembly, which follows the file or the code.
    pub(super) fn disassembly(&self) -> &'a [u8] {
        if self.after.is_empty() || self.target.is_some() {
            return b"";
        }
        let text = match self.code_text() {
            Some(code) => {
                let end = words(code)
                    .take_while(|(_, word)| word.len() == 2 && hex::number(word).is_some())
                    .last()
                    .map_or(0, |(at, word)| at + word.len());
                &code[end..]
            }
            None => match file(self.after) {
                Some((_, end)) => &self.after[end..],
                None => return b"",
            },
        };
        let text = text.trim_ascii();
        // Of a sample, something else may be here.
        match text {
            [first, ..] if first.is_ascii_alphabetic() => text,
            _ => b"",
        }
    }

    fn has_code(&self) -> bool {
        self.code().is_some() || !self.disassembly().is_empty()
    }

    /// The branches of the stack of a sample, from and to, in the order of the line: newest first.
    pub(super) fn branch_stack(&self) -> impl Iterator<Item = (u64, u64)> + use<'a> {
        let after = self.after;
        let mut slashes = memchr::memchr_iter(b'/', after);
        let slash = slashes.find(|slash| after[slash + 1..].starts_with(b"0x"));
        let start = slash.map_or(after.len(), |slash| {
            (after[..slash].iter())
                .rposition(|byte| is_blank(*byte))
                .unwrap_or(0)
        });
        words(&after[start..]).map_while(|(_, word)| branch(word))
    }
}

/// A branch of a stack: `0xFROM/0xTO/P/-/-/0`.
fn branch(word: &[u8]) -> Option<(u64, u64)> {
    let (from, rest) = prefixed(word)?;
    let (to, rest) = prefixed(rest.strip_prefix(b"/")?)?;
    matches!(rest, [] | [b'/', ..]).then_some((from, to))
}

/// The number at the front of a text that begins with `0x`, and what follows it.
fn prefixed(text: &[u8]) -> Option<(u64, &[u8])> {
    let digits = text.strip_prefix(b"0x")?;
    let length = digits.iter().position(|byte| hex::digit(*byte) > 15);
    let (digits, rest) = digits.split_at(length.unwrap_or(digits.len()));
    Some((hex::number(digits)?, rest))
}

/// The file in parentheses after a symbol, and where it ends.
fn file(text: &[u8]) -> Option<(&[u8], usize)> {
    let open = memchr::memchr_iter(b'(', text).find(|open| {
        text[..*open].ends_with(b" ") && matches!(text.get(open + 1), Some(b'/' | b'['))
    })?;
    let rest = &text[open + 1..];
    let length = memchr::memchr_iter(b')', rest)
        .find(|end| rest.get(end + 1).is_none_or(|next| is_blank(*next)))?;
    Some((&rest[..length], open + 1 + length + 1))
}

/// A symbol that a line names, with its file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Symbol<'a> {
    /// The symbol's name.
    pub name: &'a [u8],
    /// Its address in the process.
    pub address: Address,
    /// The file that it is in.
    pub file: &'a [u8],
}

/// The symbols that the lines of a text name, those of lines that have an offset.
pub fn symbols(text: &[u8]) -> impl Iterator<Item = Symbol<'_>> {
    text.split(|byte| *byte == b'\n').filter_map(|line| {
        let place = Sample::read(line).ok()?.place()?;
        let (file, _) = file(place.after)?;
        let start = memmem::find(place.after, b" (")?;
        let named = place.after[..start].trim_ascii();
        let plus = memmem::rfind(named, b"+0x")?;
        let offset = hex::number(&named[plus + 3..])?;
        Some(Symbol {
            name: &named[..plus],
            address: Address(place.address.checked_sub(offset)?),
            file,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn columns_are_those_of_the_format(address: u64, bits in 0u32..64) {
            let address = address >> bits;
            let expected = format!("{address:16x}");
            prop_assert_eq!(&columns(address), expected.as_bytes());
            prop_assert_eq!(lone_address(expected.as_bytes()), Some(address));
        }

        #[test]
        fn an_address_is_read_as_digit_by_digit(text in "[ \t]{0,3}[ 0-9a-fA-Fg@`/:x]{16}") {
            let (before, columns) = text.as_bytes().split_last_chunk::<ADDRESS>().expect("columns");
            let is_alone = before.iter().all(|byte| is_blank(*byte));
            let expected = hex::number(columns.trim_ascii_start()).filter(|_| is_alone);
            prop_assert_eq!(lone_address(text.as_bytes()), expected);
        }

        #[test]
        fn a_branch_is_two_numbers(word in "(0x)?[0-9a-fA-F]{0,18}/?(0x)?[0-9a-fg]{0,18}(/P/-/-/0)?") {
            let mut parts = word.as_bytes().split(|byte| *byte == b'/');
            let mut address = || hex::number(parts.next()?.strip_prefix(b"0x")?);
            let expected = address().and_then(|from| Some((from, address()?)));
            prop_assert_eq!(branch(word.as_bytes()), expected);
        }

        #[test]
        fn an_address_alone_is_the_row_of_the_text(text in "[ \t]{0,20}[0-9a-fx]{0,18}[ x]{0,2}") {
            let text = text.as_bytes();
            if let Some(address) = lone_address(text) {
                let row = Row::find(text).expect("a row");
                prop_assert_eq!((row.first, row.last, row.count, row.end), (address, address, 1, text.len()));
            }
        }
    }

    /// What a line says, however it was read.
    fn meaning<'a>(
        line: &'a [u8],
        sample: &Sample<'a>,
    ) -> impl PartialEq + std::fmt::Debug + use<'a> {
        let Sample {
            time,
            thread,
            period,
            event,
            rest,
            text,
            time_start,
        } = *sample;
        (time, thread, period, event, rest, text, time_start, line)
    }

    #[test]
    fn a_line_that_begins_as_the_one_before_says_the_same_as_alone() {
        let long = format!("{} 7 [001] 9.000001: 5 cycles:u: 401009", "x".repeat(200));
        let lines = [
            "ls 7 [001] 9.000001: 100003 cycles:u:           401009 main+0x9 (/bin/ls)",
            "ls 7 [001] 9.000001: 100003 cycles:u:           401020",
            "ls 7 [001] 9.000001: 100003 cycles:u:",
            "ls 7 [001] 9.000002: 100003 cycles:u:           401020",
            "ls 7 [001] 8.999999: 100003 cycles:u:",
            "ls 7 [001] 9.00000x: 100003 cycles:u:           401020 9.000001:",
            "ls 7 [001] 9 00001: 100003 cycles:u:           401020 9.000001:",
            "ls 7 [001] 9.000001: 100004 cycles:u:           401020",
            "ls 7 [002] 9.000001: 100004 cycles:u:           401020",
            "ls 7 [002] 1234.123456789: 100004 cycles:u:           401020",
            "ls 7 [002] 1234567.123456: 100004 cycles:u:           401020",
            "ls 7 [002] :234567.123456: 100004 cycles:u:           401020",
            "ls 7 [001] 9.000001: 100003 cycles:u:x          401020",
            "ls 7 [001] 9.000001: 100003 cycles:u:k:          401020",
            "ls 7 [001] 9.000001:           401020",
            "ls 7 [001] 9.000002: branches:           401020 => 0",
            "ls 7 [001] 9.000002: branches:",
            "a: 7 8/0 [003] 9.000000002: branches: 1",
            "a: 7 8/0 [003] 9.000000002: branches: 2",
            &long,
            &long,
            "ls 7 [001] 9.000001: 100003 cycles:u:           401009",
        ];
        let mut head = Head::NONE;
        for line in lines.iter().chain(&lines).map(|line| line.as_bytes()) {
            let meaning = |sample: Option<Sample<'_>>| {
                sample.map(|sample| format!("{:?}", meaning(line, &sample)))
            };
            let alone = Sample::read(line).ok();
            let after = (head.sample(line)).or_else(|| head.read(line).ok());
            assert_eq!(meaning(after), meaning(alone));
        }
        assert!(head.read(b"ls 9.0001: x").is_err());
    }
}

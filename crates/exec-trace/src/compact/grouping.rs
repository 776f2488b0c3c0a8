//! From records to groups: lines are taken in one by one, and their numbers found.

use std::ops::Range;

use super::bytes::put_slice;
use super::effect::{Effect, EffectKind, Offset, OtherTime};
use super::group::{Group, Groups};
use super::numbers::rest_numbers;
use super::template::{Class, MOST_IN_GROUP, TemplateInstruction, mark};
use super::token::{self, DigitRow, Id, Letters};
use crate::record::{Access, DataOrder, Event, Instruction, Line, Owner, RegisterWrite, Time};
use crate::text::{Format, LineError, Sink, WINDOW, perf};

/// Lines longer than this are kept apart.
const LONG: u64 = 1 << 12;

/// How many lines and how much text a group may have before it goes on as another.
const MOST_LINES: u32 = 64;
const MOST_TEXT: usize = 1 << 16;

/// What is in the place of some bytes of the line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) mark: u8,
    /// The variable's place, for the marks that have one; the decimals of a time.
    pub(super) variable: u16,
}

/// The line that is being read.
#[derive(Default)]
pub(super) struct Current {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) tokens: Vec<Token>,
    /// Set where the line is kept apart.
    pub(super) apart: Option<u8>,
    /// Where the next number is looked for.
    pub(super) at: usize,
    /// The time of the line's records that is not the group's, its variable's place, and its template.
    pub(super) other_time: Option<(Time, u16, OtherTime)>,
}

/// Where the text has a time.
#[derive(Default)]
struct FoundTime {
    time: Option<Time>,
    /// In the whole text.
    text: Range<usize>,
    /// How far it is from the start of its line.
    column: usize,
}

impl FoundTime {
    /// Where a line has the time that was found last, if it is in the same column. Several lines in a row have the same time, and to
    /// compare text takes less time than to read a number.
    #[inline]
    fn again(&self, text: &[u8], content: &[u8], time: Time) -> Option<Range<usize>> {
        let known = &text[self.text.clone()];
        let end = self.column + known.len();
        let is_there = self.time == Some(time)
            && content.get(self.column..end) == Some(known)
            && !content.get(end).is_some_and(u8::is_ascii_digit)
            && !content[..self.column]
                .last()
                .is_some_and(u8::is_ascii_alphanumeric);
        is_there.then_some(self.column..end)
    }
}

/// Gathers records into groups.
pub(crate) struct Grouping<'t, G> {
    pub(super) text: &'t [u8],
    pub(super) format: Format,
    pub(super) groups: G,
    pub(super) group: Group,
    /// How much of the text is in groups.
    pub(super) done: usize,
    /// Where the first line begins.
    first_line: usize,
    pub(super) line: Option<Current>,
    pub(super) spare: Vec<Token>,
    /// Instructions before the group.
    pub(super) before: u64,
    /// The cpus of the latest instructions, by their number modulo the window's size.
    pub(super) cpus: [u32; WINDOW],
    pub(super) last_time: Time,
    /// Where the time that was found last is.
    found_time: FoundTime,
    pub(super) first_cpu: u32,
    /// Whether hex letters are upper-case, known from the latest that was seen.
    pub(super) is_upper: bool,
    pub(super) digit_rows: Vec<DigitRow>,
    /// How the digits of data are written, where that is known better than from the types of the lines.
    data_order: Option<DataOrder>,
}

impl<'t, G: Groups> Grouping<'t, G> {
    /// For a text from `start` on. `first_cpu` is the cpu of the trace's first instruction.
    pub(crate) fn new(
        text: &'t [u8],
        start: usize,
        format: Format,
        first_cpu: u32,
        groups: G,
    ) -> Self {
        Self {
            text,
            format,
            groups,
            group: Group::default(),
            done: start,
            first_line: start,
            line: None,
            spare: Vec::new(),
            before: 0,
            cpus: [first_cpu; WINDOW],
            last_time: Time::ZERO,
            found_time: FoundTime::default(),
            first_cpu,
            is_upper: false,
            digit_rows: Vec::new(),
            data_order: None,
        }
    }

    /// Says how the digits of data are written, where that is known better than from the types of the lines.
    pub(crate) const fn settle_data_order(&mut self, order: Option<DataOrder>) {
        self.data_order = order;
    }

    /// Takes in the text down to `end`, the rest of a line whose front is in the segment before. It is a group of its
    /// own, and no line.
    pub(crate) fn rest_of_line(&mut self, end: usize) {
        if self.done < end {
            self.group.skeleton.push(mark::ODD);
            self.group.apart += 1;
            put_slice(&mut self.group.apart_text, &self.text[self.done..end]);
            self.done = end;
            self.first_line = end;
            self.end_group();
        }
    }

    /// Ends at this place of the text.
    pub(crate) fn finish(mut self, end: usize) -> G {
        self.end_line(end);
        if self.done < end {
            // Blank lines at the front of a text without records.
            self.copy(end);
        }
        let last = memchr::memrchr(b'\n', &self.text[..end]).map_or(0, |at| at + 1);
        let is_blank = |line: &[u8]| line.iter().all(u8::is_ascii_whitespace);
        if (self.first_line..end).contains(&last) && is_blank(&self.text[last..end]) {
            // A line without a record is counted at its end, and this one has none.
            self.group.lines += 1;
        }
        self.end_group();
        self.groups
    }

    /// Instructions so far.
    fn count(&self) -> u64 {
        self.before + u64::from(self.group.instruction.is_some())
    }

    /// Whether a line of what an instruction did begins a group: that of an instruction to come.
    fn opens(&self, owner: Owner, time: Time) -> bool {
        owner == Owner::Next
            && (self.group.instruction.is_some() || self.group.time.is_some_and(|of| of != time))
    }

    /// Begins a line if it is another than that of the record before; `opens` says whether a group cannot go on with it.
    #[inline]
    fn begin_line(&mut self, line: Line, opens: bool) {
        let start = line.start as usize;
        if self
            .line
            .as_ref()
            .is_some_and(|current| current.start == start)
        {
            return;
        }
        self.end_line(start);
        if self.done < start {
            self.copy(start);
        }
        let group = &self.group;
        let is_full = group.lines >= MOST_LINES
            || group.effects.len() >= MOST_LINES as usize
            || group.variables.len() >= MOST_IN_GROUP / 2
            || group.skeleton.len() + group.apart_text.len() >= MOST_TEXT;
        if is_full || (opens && group.records > 0) {
            self.end_group();
        }
        let length = line.end.saturating_sub(line.start);
        let content = &self.text[start..line.end as usize];
        let is_odd = length > LONG || has_mark(content);
        let mut tokens = std::mem::take(&mut self.spare);
        tokens.clear();
        self.line = Some(Current {
            start,
            end: line.end as usize,
            tokens,
            apart: is_odd.then_some(mark::ODD),
            at: 0,
            other_time: None,
        });
        self.group.lines += 1;
    }

    /// Copies text that has no numbers: blank lines.
    fn copy(&mut self, end: usize) {
        let text = &self.text[self.done..end];
        if text.iter().any(|byte| mark::is_mark(*byte)) {
            self.group.skeleton.push(mark::ODD);
            self.group.apart += 1;
            put_slice(&mut self.group.apart_text, text);
        } else {
            self.group.skeleton.extend_from_slice(text);
        }
        self.group.lines += memchr::memchr_iter(b'\n', text).count() as u32;
        self.done = end;
    }

    /// Puts the current line, and what follows it down to `next`, into the group.
    fn end_line(&mut self, next: usize) {
        let Some(mut line) = self.line.take() else {
            return;
        };
        let group = &mut self.group;
        if let Some(why) = line.apart {
            group.skeleton.push(why);
            group.apart += 1;
            group.unparsed += u32::from(why == mark::UNPARSED);
            put_slice(&mut group.apart_text, &self.text[line.start..line.end]);
        } else {
            let content = &self.text[line.start..line.end];
            rest_numbers(self.format, content, &mut line.tokens, group);
            if !line.tokens.is_sorted_by_key(|token| token.start) {
                line.tokens.sort_by_key(|token| token.start);
            }
            let mut at = line.start;
            for token in &line.tokens {
                let start = line.start + token.start;
                if start < at {
                    continue;
                }
                group.skeleton.extend_from_slice(&self.text[at..start]);
                group.skeleton.push(token.mark);
                match token.mark {
                    mark::POINT_TIME => group.skeleton.push(token.variable as u8 + 0x20),
                    mark::TIME | mark::ID => {}
                    _ => group.skeleton.extend([
                        0x20 + (token.variable & 0x3f) as u8,
                        0x20 + (token.variable >> 6) as u8,
                    ]),
                }
                at = line.start + token.end;
            }
            group.skeleton.extend_from_slice(&self.text[at..line.end]);
        }
        self.spare = line.tokens;
        self.done = line.end;
        let rest = &self.text[line.end..next];
        // Only the ends of lines, and blank lines.
        let newlines = match rest {
            [b'\n'] | [b'\r', b'\n'] => 1,
            _ => memchr::memchr_iter(b'\n', rest).count() as u32,
        };
        self.group.lines += newlines.saturating_sub(1);
        if rest.iter().any(|byte| mark::is_mark(*byte)) {
            self.group.skeleton.push(mark::ODD);
            self.group.apart += 1;
            put_slice(&mut self.group.apart_text, rest);
        } else {
            self.group.skeleton.extend_from_slice(rest);
        }
        self.done = next;
    }

    fn end_group(&mut self) {
        if self.group.skeleton.is_empty() {
            return;
        }
        let cpu = self
            .group
            .instruction
            .map_or(self.cpus[self.before as usize % WINDOW], |of| of.cpu);
        for at in &self.group.of_next {
            self.group.effects[usize::from(*at)].cpu = cpu;
        }
        if self.group.time.is_none() {
            self.group.time = Some(self.last_time);
        }
        self.last_time = self.group.time.unwrap_or(self.last_time);
        self.groups.group(&self.group);
        self.before += u64::from(self.group.instruction.is_some());
        self.group.clear();
    }

    /// The time of a record of the line; gives it where it is not the group's.
    #[inline]
    fn time(&mut self, time: Time) -> Option<OtherTime> {
        let group_time = *self.group.time.get_or_insert(time);
        let line = self.line.as_mut()?;
        let other = (time != group_time).then(|| self.group.other_time(line, time, group_time));
        if !line.tokens.is_empty() {
            return other.map(|(_, other)| other);
        }
        let content = &self.text[line.start..line.end];
        let found = match self.found_time.again(self.text, content, time) {
            Some(found) => found,
            None => {
                let found = if self.format.is_perf() {
                    // Mostly in the column of the line before: to look for it takes longer.
                    let column = self.found_time.column;
                    let begins = column > 0 && content.get(column - 1) == Some(&b' ');
                    let there = begins.then(|| token::time(content, column, time)).flatten();
                    there.or_else(|| token::time(content, perf::time_start(content), time))
                } else {
                    token::time(content, 0, time)
                };
                let Some(found) = found else {
                    return other.map(|(_, other)| other);
                };
                self.found_time = FoundTime {
                    time: Some(time),
                    text: line.start + found.start..line.start + found.end,
                    column: found.start,
                };
                found
            }
        };
        line.at = found.end;
        let (mark, variable) = match other {
            None if time.decimals == 0 => (mark::TIME, 0),
            None => (mark::POINT_TIME, u16::from(time.decimals)),
            Some((place, _)) if time.decimals == 0 && group_time.decimals == 0 => {
                (mark::OTHER_TIME, place)
            }
            // The text stays as it is.
            Some((_, other)) => return Some(other),
        };
        line.tokens.push(Token {
            start: found.start,
            end: found.end,
            mark,
            variable,
        });
        other.map(|(_, other)| other)
    }

    /// The slot's offset and the cpu of an effect.
    #[inline]
    fn owner(&mut self, owner: Owner, cpu: Option<u32>) -> (Offset, u32) {
        let own = i32::from(self.group.instruction.is_some());
        let back = match owner {
            Owner::Latest => 0,
            Owner::Earlier(back) => back.min(WINDOW as u32 - 1) as i32,
            Owner::Next => -1,
            Owner::Start => {
                return (Offset::START, cpu.unwrap_or(self.first_cpu));
            }
        };
        let cpu = cpu.unwrap_or_else(|| match (&self.group.instruction, back) {
            (Some(instruction), 0) => instruction.cpu,
            (_, -1) => {
                self.group.of_next.push(self.group.effects.len() as u16);
                0
            }
            _ => {
                let latest = self.count().wrapping_sub(1);
                self.cpus[latest.wrapping_sub(back as u64) as usize % WINDOW]
            }
        });
        (Offset(own - back), cpu)
    }
}

/// Whether a line has a byte that cannot be in a skeleton. Pieces are looked at whole, which takes fewer steps than to stop at the first.
fn has_mark(line: &[u8]) -> bool {
    let has = |piece: &[u8]| (piece.iter()).fold(false, |has, byte| has | mark::is_mark(*byte));
    line.chunks(64).any(has)
}

impl<G: Groups> Sink for Grouping<'_, G> {
    #[inline]
    fn instruction(&mut self, line: Line, instruction: &Instruction<'_>) {
        // A group's time is its instruction's.
        let differs = self.group.time.is_some_and(|time| time != instruction.time);
        self.begin_line(line, differs || self.group.instruction.is_some());
        if self.group.instruction.is_some() {
            // A second instruction of one line cannot be of this group.
            return;
        }
        self.group.records += 1;
        self.time(instruction.time);
        let cpu = instruction.cpu.map_or(0, |cpu| cpu.0);
        self.cpus[self.before as usize % WINDOW] = cpu;
        self.group.instruction = Some(TemplateInstruction {
            cpu,
            address: instruction.address.0,
            taken: instruction.taken,
            line: self.group.lines - 1,
        });
        self.group.code = instruction
            .opcode
            .map(|opcode| (opcode, instruction.set, instruction.address_digits));
        self.group.id = instruction.id;
        if let Some(id) = instruction.id
            && let Some(line) = self.line.as_mut().filter(|line| line.apart.is_none())
        {
            let content = &self.text[line.start..line.end];
            match token::id(content, id) {
                Some(Id::Decimal(range)) => line.tokens.push(Token {
                    start: range.start,
                    end: range.end,
                    mark: mark::ID,
                    variable: 0,
                }),
                Some(Id::Hex(range)) => {
                    let text = &content[range.clone()];
                    let letters = Letters::of(text);
                    let is_short = text[0] != b'0' || text.len() == 1;
                    let mark = match letters {
                        Letters::Both => return,
                        Letters::Upper => mark::UPPER,
                        _ if is_short => mark::SHORT,
                        _ => mark::LOWER,
                    };
                    let digits = if is_short && mark == mark::SHORT {
                        16
                    } else {
                        text.len() as u8
                    };
                    let (place, _) = self.group.variable(Class::Text, digits, id);
                    line.tokens.push(Token {
                        start: range.start,
                        end: range.end,
                        mark,
                        variable: place,
                    });
                }
                None => {}
            }
        }
    }

    #[inline]
    fn access(&mut self, line: Line, owner: Owner, access: &Access<'_>) {
        self.begin_line(line, self.opens(owner, access.time));
        self.group.records += 1;
        let time = self.time(access.time);
        let (offset, cpu) = self.owner(owner, access.cpu.map(|cpu| cpu.0));
        let digits = access.address_digits.clamp(1, 16);
        let address = access.address.0;
        let digits = digits.max((64 - address.leading_zeros()).div_ceil(4) as u8);
        let (place, row) = self.group.variable(Class::Memory, digits, address);
        if let Some(line) = self.line.as_mut().filter(|line| line.apart.is_none()) {
            let content = &self.text[line.start..line.end];
            if let Some((range, is_short)) =
                token::number(content, line.at, address, u32::from(digits))
            {
                let mark = match Letters::of(&content[range.clone()]) {
                    _ if is_short => mark::SHORT,
                    Letters::None if self.is_upper => mark::UPPER,
                    Letters::None | Letters::Lower => mark::LOWER,
                    Letters::Upper => mark::UPPER,
                    Letters::Both => 0,
                };
                if mark != 0 {
                    // The data are after it, in Nios II's lines anywhere.
                    if !is_short {
                        line.at = range.end;
                    }
                    line.tokens.push(Token {
                        start: range.start,
                        end: range.end,
                        mark,
                        variable: place,
                    });
                }
            }
        }
        let value = self.value(Class::Memory, &access.data);
        self.group.effects.push(Effect {
            offset,
            cpu,
            value,
            time,
            kind: EffectKind::Access {
                kind: access.kind,
                size: access.size,
                attribute: access.attribute,
                order: access.order.settled(self.data_order),
                address: row,
                address_digits: access.address_digits,
            },
        });
    }

    #[inline]
    fn register(&mut self, line: Line, owner: Owner, write: &RegisterWrite<'_>) {
        self.begin_line(line, self.opens(owner, write.time));
        self.group.records += 1;
        let time = self.time(write.time);
        let (offset, cpu) = self.owner(owner, write.cpu.map(|cpu| cpu.0));
        let register = self.groups.register(write.register);
        let value = self.value(Class::Register, &write.value);
        self.group.effects.push(Effect {
            offset,
            cpu,
            value,
            time,
            kind: EffectKind::Register {
                register,
                part: write.part,
            },
        });
    }

    fn event(&mut self, line: Line, event: &Event<'_>) {
        self.begin_line(line, false);
        self.group.events += 1;
        self.group.records += 1;
        if let Some(line) = self.line.as_mut().filter(|line| line.tokens.is_empty()) {
            line.apart.get_or_insert(mark::EVENT);
        }
        self.group.time.get_or_insert(event.time);
    }

    fn unparsed(&mut self, line: Line, _: &[u8], _: LineError) {
        self.begin_line(line, false);
        self.group.records += 1;
        if let Some(line) = &mut self.line {
            line.apart = Some(mark::UNPARSED);
        }
    }
}

//! Text from anywhere, cut into chunks at places where nothing that happened is torn from its instruction.

use std::io::{self, Read};

use crate::record::{Access, Instruction, Line, Owner, RegisterWrite};
use crate::text::{Format, Sink, read};

/// How much text a segment has. What is made of a chunk, its tables and its text, should fit in a processor's cache; in a larger one
/// fewer templates would be repeated.
pub(crate) const CHUNK: usize = 4 << 20;
/// How much text is looked at for a good place.
const WINDOW: usize = 128 << 10;
/// How much text before a chunk goes along, for what its first lines depend on.
const CONTEXT: usize = 256 << 10;
/// How much is read first: many a trace is short, and no room is made for what does not come.
const FIRST: usize = 64 << 10;

/// A piece of the trace for a segment, with text before and after it.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub(crate) text: Vec<u8>,
    /// The chunk's own text.
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// Whether it begins inside a line: only a line that is longer than a chunk is cut.
    pub(crate) begins_in_line: bool,
}

impl Chunk {
    /// Where its first line begins.
    pub(crate) fn first_line(&self) -> usize {
        if !self.begins_in_line {
            return self.start;
        }
        let own = self.text.get(self.start..self.end).unwrap_or_default();
        memchr::memchr(b'\n', own).map_or(self.end, |at| self.start + at + 1)
    }
}

/// Reads text and cuts it.
pub(crate) struct Cutter<R> {
    input: R,
    size: usize,
    text: Vec<u8>,
    start: usize,
    begins_in_line: bool,
    is_at_end: bool,
}

impl<R: Read> Cutter<R> {
    pub(crate) fn new(input: R, size: usize) -> Self {
        Self {
            input,
            size,
            text: Vec::new(),
            start: 0,
            begins_in_line: false,
            is_at_end: false,
        }
    }

    /// The first text there is, for a look at it.
    pub(crate) fn head(&mut self) -> io::Result<&[u8]> {
        self.fill()?;
        Ok(&self.text)
    }

    fn fill(&mut self) -> io::Result<()> {
        let all = self.start + self.size + WINDOW;
        for wanted in [all.min(FIRST), all] {
            let missing = wanted.saturating_sub(self.text.len());
            if missing > 0 && !self.is_at_end {
                self.text.reserve_exact(missing);
                let read = (&mut self.input)
                    .take(missing as u64)
                    .read_to_end(&mut self.text)?;
                self.is_at_end = read < missing;
            }
        }
        Ok(())
    }

    /// Whether all of the text that is left was read, and makes one chunk.
    pub(crate) fn is_last(&self) -> bool {
        self.is_at_end && self.text.len() - self.start <= self.size + WINDOW
    }

    /// The next chunk; none at the end. `room` is what the text after it is put into, in place of what it has.
    pub(crate) fn next(&mut self, format: Format, room: Vec<u8>) -> io::Result<Option<Chunk>> {
        self.fill()?;
        if self.start == self.text.len() {
            return Ok(None);
        }
        let end = if self.is_last() {
            self.text.len()
        } else {
            boundary(format, &self.text, self.start + self.size)
        };
        // Whole lines, without the front of one that is cut.
        let context_end = memchr::memrchr(b'\n', &self.text[..end]).map_or(0, |at| at + 1);
        let context = context_end.saturating_sub(CONTEXT);
        let context = match context {
            0 => 0,
            _ => {
                context
                    + memchr::memchr(b'\n', &self.text[context..context_end])
                        .map_or(context_end - context, |at| at + 1)
            }
        };
        let mut next = room;
        next.clear();
        if end < self.text.len() || !self.is_at_end {
            next.reserve_exact(CONTEXT + self.size + 2 * WINDOW);
        }
        next.extend_from_slice(&self.text[context..context_end]);
        next.extend_from_slice(&self.text[end..]);
        let chunk = Chunk {
            text: std::mem::replace(&mut self.text, next),
            start: self.start,
            end,
            begins_in_line: self.begins_in_line,
        };
        self.start = context_end - context;
        self.begins_in_line = context_end < end;
        Ok(Some(chunk))
    }
}

/// What is in a window.
#[derive(Default)]
struct Window {
    /// Instructions in the window before this line.
    count: i64,
    /// Where each instruction is, and the latest slot of anything before it.
    instructions: Vec<(usize, i64)>,
    latest: i64,
    /// The instructions before each effect, and its slot.
    slots: Vec<(i64, i64)>,
}

impl Window {
    fn effect(&mut self, owner: Owner) {
        let slot = match owner {
            Owner::Latest | Owner::Start => self.count,
            Owner::Earlier(back) => self.count - i64::from(back),
            Owner::Next => self.count + 1,
        };
        self.latest = self.latest.max(slot);
        self.slots.push((self.count, slot));
    }
}

impl Sink for Window {
    fn instruction(&mut self, line: Line, _: &Instruction<'_>) {
        self.instructions.push((line.start as usize, self.latest));
        self.count += 1;
    }

    fn access(&mut self, _: Line, owner: Owner, _: &Access<'_>) {
        self.effect(owner);
    }

    fn register(&mut self, _: Line, owner: Owner, _: &RegisterWrite<'_>) {
        self.effect(owner);
    }
}

/// A good place to cut, at `from` or after it.
fn boundary(format: Format, text: &[u8], from: usize) -> usize {
    let rest = text.get(from..).unwrap_or_default();
    let Some(line) = memchr::memchr(b'\n', rest) else {
        return from.min(text.len());
    };
    let start = from + line + 1;
    let end = start + memchr::memrchr(b'\n', &text[start..]).map_or(0, |at| at + 1);
    let piece = format.piece_at(text, start, end);
    let mut window = Window::default();
    read(format, text, &piece, &mut window);
    // A cut is good where everything after belongs to instructions after, and everything before to those before. Of the
    // first instruction that is not known: lines before the window may be its own.
    let mut earliest = i64::MAX;
    let mut slots = window.slots.iter().rev().peekable();
    let mut best = None;
    for (number, (place, latest)) in window.instructions.iter().enumerate().skip(1).rev() {
        let number = number as i64;
        while let Some((_, slot)) = slots.next_if(|(count, _)| *count > number) {
            earliest = earliest.min(*slot);
        }
        if *latest <= number && earliest > number {
            best = Some(*place);
        }
    }
    best.or_else(|| window.instructions.first().map(|(place, _)| *place))
        .unwrap_or(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_next_instruction_stays_with_it() {
        let text = "5 clk cpu0 IT (0) 00001000 00000000 A svc : nop\n\
                    8 clk cpu0 R r0 00000001\n\
                    8 clk cpu0 IT (1) 00001004 00000000 A svc : nop\n\
                    9 clk cpu0 IT (2) 00001008 00000000 A svc : nop\n";
        let [write, third] = ["R r0", "9 clk"].map(|part| text.find(part).unwrap());
        assert_eq!(boundary(Format::Tarmac, text.as_bytes(), write), third);
    }

    #[test]
    fn nothing_is_lost_and_lines_stay_whole() {
        let mut text = String::new();
        for at in 1..20_000 {
            text += &format!(
                "{at} clk 0 IT ({at}) 00001000 00000000 A svc : nop\n{at} clk R r8 {at:08x}\n"
            );
        }
        let mut cutter = Cutter::new(text.as_bytes(), 100_000);
        let mut all = Vec::new();
        let mut count = 0;
        while let Some(chunk) = cutter.next(Format::Qemu4v, Vec::new()).unwrap() {
            let own = &chunk.text[chunk.start..chunk.end];
            assert!(own.ends_with(b"\n"));
            let first = String::from_utf8_lossy(own);
            assert!(first.lines().next().unwrap().contains(" IT "));
            all.extend_from_slice(own);
            count += 1;
        }
        assert_eq!(all, text.as_bytes());
        assert!(count > 8, "{count}");
    }
}

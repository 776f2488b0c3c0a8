//! Text cut into pieces that are read independently.
//!
//! What a line means depends on the lines before it: its time may be that of the line before, and the instruction
//! it belongs to is above. A piece therefore begins with an instruction and carries what the lines before it
//! say, found by reading a few of them.

use memchr::{memchr, memrchr};

use super::owner::{Owners, WINDOW};
use super::{Dialect, LineState, Lines};
use crate::record::Record;

/// How many bytes before a piece are searched for what it needs to know, where no earlier piece is known.
const BACK: usize = 1 << 20;

/// What is known at the start of a piece.
#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) line: LineState,
    pub(super) owners: Owners,
}

impl State {
    fn new() -> Self {
        Self {
            line: LineState::START,
            owners: Owners::new(),
        }
    }
}

/// A piece of a text: a row of whole lines, and what the lines before it say.
#[derive(Clone, Debug)]
pub struct Piece {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) state: State,
    /// The number that the first line gets, 1 unless it is changed.
    pub first_line: u64,
}

impl Piece {
    /// All of a text.
    #[must_use]
    pub fn whole(text: &[u8]) -> Self {
        Self::new(0, text.len(), State::new())
    }

    fn new(start: usize, end: usize, state: State) -> Self {
        Self {
            start,
            end,
            state,
            first_line: 1,
        }
    }

    /// Offset of the first byte in the text.
    #[must_use]
    pub const fn start(&self) -> usize {
        self.start
    }

    /// Offset after the last byte.
    #[must_use]
    pub const fn end(&self) -> usize {
        self.end
    }
}

/// Cuts a text into pieces of about `size` bytes.
pub(super) fn cut<D: Dialect>(dialect: &D, text: &[u8], size: usize) -> Vec<Piece> {
    let size = size.max(1);
    let mut pieces = Vec::new();
    let mut start = 0usize;
    let mut state = State::new();
    loop {
        let end = boundary(dialect, text, start.saturating_add(size));
        let next = (end < text.len()).then(|| state_at(dialect, text, start, &state, end));
        pieces.push(Piece::new(start, end, state));
        match next {
            Some(next) => (start, state) = (end, next),
            None => return pieces,
        }
    }
}

/// The piece from `start` to `end`.
pub(super) fn at<D: Dialect>(dialect: &D, text: &[u8], start: usize, end: usize) -> Piece {
    let floor = start.saturating_sub(BACK);
    let floor = match floor {
        0 => 0,
        _ => memchr(b'\n', &text[floor.min(text.len())..]).map_or(start, |line| floor + line + 1),
    };
    let floor = floor.min(start);
    let state = state_at(dialect, text, floor, &State::new(), start);
    Piece::new(start, end.min(text.len()), state)
}

/// The start of the first line at or after `from` that is an instruction with a time of its own, or the end.
fn boundary<D: Dialect>(dialect: &D, text: &[u8], from: usize) -> usize {
    let Some(rest) = text.get(from..) else {
        return text.len();
    };
    let Some(line) = memchr(b'\n', rest) else {
        return text.len();
    };
    Lines::new(text, from + line + 1, text.len())
        .find(|(_, content)| is_instruction(dialect, content))
        .map_or(text.len(), |(start, _)| start)
}

/// Whether a line, read by itself, is an instruction with a time of its own, in a format that has times.
fn is_instruction<D: Dialect>(dialect: &D, content: &[u8]) -> bool {
    let mut state = LineState::START;
    let mut is_one = false;
    let _ = dialect.line(&mut state, content, &mut |state, record| {
        is_one |= (state.explicit || !D::HAS_TIME) && matches!(record, Record::Instruction(_));
    });
    is_one
}

/// What is known at `end`, given what is known at `start`. Goes back from `end` only as far as it needs to.
fn state_at<D: Dialect>(
    dialect: &D,
    text: &[u8],
    start: usize,
    known: &State,
    end: usize,
) -> State {
    let mut at = end;
    let mut instructions = 0;
    while at > start {
        // The line's own end is not what is looked for.
        let before = &text[start..at - 1];
        at = memrchr(b'\n', before).map_or(start, |newline| start + newline + 1);
        let content = &text[at..];
        let content = &content[..memchr(b'\n', content).unwrap_or(content.len())];
        if is_instruction(dialect, content) {
            instructions += 1;
            // From an instruction with a time on, everything is known once the window is full.
            if instructions == WINDOW {
                let mut state = State::new();
                pass(dialect, text, at, end, &mut state);
                return state;
            }
        }
    }
    let mut state = known.clone();
    pass(dialect, text, start, end, &mut state);
    state
}

/// Passes over a part of a text for what the lines after it need to know.
fn pass<D: Dialect>(dialect: &D, text: &[u8], start: usize, end: usize, state: &mut State) {
    for (_, content) in Lines::new(text, start, end) {
        state.line.explicit = false;
        // Lines that cannot be read change nothing.
        let _ = dialect.line(&mut state.line, content, &mut |_, record| {
            if let Record::Instruction(instruction) = record {
                state.owners.instruction(instruction.time, instruction.cpu);
            }
        });
    }
}

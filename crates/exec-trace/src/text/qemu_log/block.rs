//! The lines of a translated block: address, code, disassembly.

use super::super::cursor::is_blank;
use tracewire_model::hex;

/// The bytes that QEMU shows in a line; the rest of a longer instruction is in the lines after it.
const ROW: u64 = 8;

/// A line of a block.
pub(super) struct Line<'a> {
    pub(super) address: u64,
    /// The digits of the address.
    pub(super) digits: u8,
    /// The code: hex digits with single blanks between units; empty where the disassembler shows none.
    code: &'a [u8],
    disassembly: &'a [u8],
}

impl<'a> Line<'a> {
    /// Reads `0xADDRESS:  CODE  DISASSEMBLY`.
    pub(super) fn read(line: &'a [u8]) -> Option<Self> {
        let rest = line.strip_prefix(b"0x")?;
        let colon = memchr::memchr(b':', rest).filter(|colon| (1..=16).contains(colon))?;
        let address = hex::number(rest.get(..colon)?)?;
        let text = rest.get(colon + 1..)?.trim_ascii();
        let length = code_length(text);
        Some(Self {
            address,
            digits: colon as u8,
            code: text.get(..length)?,
            disassembly: text.get(length..)?.trim_ascii(),
        })
    }

    /// Whether it is the rest of an instruction that began in the line before.
    pub(super) const fn is_rest(&self) -> bool {
        !self.code.is_empty() && self.disassembly.is_empty()
    }
}

/// How much of a text is code: units of 2, 4 or 8 digits with single blanks between them, then the end or two blanks.
fn code_length(text: &[u8]) -> usize {
    let mut at = 0;
    loop {
        let unit = text[at..]
            .iter()
            .take_while(|byte| hex::digit(**byte) <= 15)
            .count();
        if !matches!(unit, 2 | 4 | 8) {
            return 0;
        }
        at += unit;
        match &text[at..] {
            [] | [b' ', b' ', ..] => return at,
            [b' ', ..] => at += 1,
            _ => return 0,
        }
    }
}

/// An instruction that was translated: its code's digits, or a hyphen; and its disassembly.
#[derive(Clone, Debug, Default)]
pub(super) struct Translated {
    pub(super) address: u64,
    pub(super) digits: u8,
    /// As it is written in the transcript.
    pub(super) code: Vec<u8>,
    pub(super) disassembly: Vec<u8>,
    /// Whether it is the first of several in its block.
    pub(super) has_more: bool,
}

/// The most digits of an opcode.
const MOST_DIGITS: usize = 32;

impl Translated {
    pub(super) fn new(line: &Line<'_>) -> Self {
        let mut new = Self {
            address: line.address,
            digits: line.digits,
            ..Self::default()
        };
        new.add_code(line.code);
        let mut words = line.disassembly.split(|byte| is_blank(*byte));
        for word in words.by_ref().filter(|word| !word.is_empty()) {
            if !new.disassembly.is_empty() {
                new.disassembly.push(b' ');
            }
            new.disassembly.extend_from_slice(word);
        }
        new
    }

    fn add_code(&mut self, code: &[u8]) {
        let digits = code.iter().filter(|byte| **byte != b' ');
        self.code.extend(digits);
        if self.code.len() > MOST_DIGITS {
            // No machine has such an instruction.
            self.code.clear();
        }
    }

    /// Takes in the next line of the block.
    pub(super) fn go_on(&mut self, line: &Line<'_>) {
        let is_rest = line.is_rest()
            && !self.code.is_empty()
            && line.address.wrapping_sub(self.address) == self.code.len() as u64 / 2
            && (self.code.len() as u64 / 2).is_multiple_of(ROW);
        match is_rest {
            true => self.add_code(line.code),
            false => self.has_more = true,
        }
    }
}

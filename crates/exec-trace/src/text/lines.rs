//! The lines of a text.

use memchr::memchr;

use super::cursor;

/// What editors of other systems put at the front of UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The lines of a text from `start` to `end`: offset and content, blank ones too. A line that `end` cuts is as long as
/// that.
pub(super) struct Lines<'a> {
    text: &'a [u8],
    at: usize,
    end: usize,
}

impl<'a> Lines<'a> {
    pub(super) fn new(text: &'a [u8], start: usize, end: usize) -> Self {
        Self {
            text,
            at: start,
            end: end.min(text.len()),
        }
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = (usize, &'a [u8]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.end {
            return None;
        }
        if self.at == 0 && self.text.starts_with(BYTE_ORDER_MARK) {
            // It is no part of the first line.
            self.at = BYTE_ORDER_MARK.len();
        }
        let start = self.at;
        let rest = self.text.get(start..self.end)?;
        let length = memchr(b'\n', rest).unwrap_or(rest.len());
        self.at = start + length + 1;
        let line = rest.get(..length)?;
        Some((start, line.strip_suffix(b"\r").unwrap_or(line)))
    }
}

#[inline]
/// Whether a line has blanks alone.
pub(super) fn is_blank_line(line: &[u8]) -> bool {
    line.iter().all(|byte| cursor::is_blank(*byte))
}

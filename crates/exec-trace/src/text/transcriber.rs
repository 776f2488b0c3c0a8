//! A text turned into another one while it is read, line by line.

use std::io::{self, Read};

/// How much of the text is read at once.
const READ: u64 = 1 << 18;

/// A line that is longer is no line of a known text: it is passed over.
const LONGEST: usize = 1 << 16;

/// What turns lines into others.
pub(super) trait Transcribe {
    /// The first line of the transcript.
    fn header(&self) -> &[u8];

    /// Takes a line, without its end.
    fn line(&mut self, line: &[u8]);

    /// Takes the end of the text. `is_cut` where its last line has no end: it may be the front of one.
    fn end(&mut self, is_cut: bool);

    /// The transcript since it was last emptied.
    fn out(&mut self) -> &mut Vec<u8>;
}

/// Reads a text and gives its transcript.
pub(super) struct Transcriber<R, L> {
    input: R,
    log: L,
    /// What of the input is no whole line yet.
    rest: Vec<u8>,
    /// How much of the output was given.
    given: usize,
    is_at_end: bool,
}

impl<R: Read, L: Transcribe> Transcriber<R, L> {
    pub(super) fn new(input: R, mut log: L) -> Self {
        let mut header = log.header().to_vec();
        header.push(b'\n');
        log.out().extend_from_slice(&header);
        Self {
            input,
            log,
            rest: Vec::new(),
            given: 0,
            is_at_end: false,
        }
    }

    /// Reads some of the text.
    fn more(&mut self) -> io::Result<()> {
        let count = (&mut self.input).take(READ).read_to_end(&mut self.rest)?;
        self.is_at_end = count == 0;
        let mut start = 0;
        for end in memchr::memchr_iter(b'\n', &self.rest) {
            let line = &self.rest[start..end];
            start = end + 1;
            if line.len() <= LONGEST {
                self.log.line(line.strip_suffix(b"\r").unwrap_or(line));
            }
        }
        self.rest.drain(..start);
        if self.is_at_end {
            let is_cut = !std::mem::take(&mut self.rest).is_empty();
            self.log.end(is_cut);
        } else if self.rest.len() > LONGEST {
            self.rest.truncate(LONGEST + 1);
        }
        Ok(())
    }
}

impl<R: Read, L: Transcribe> Read for Transcriber<R, L> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.given == self.log.out().len() {
            self.log.out().clear();
            self.given = 0;
            if self.is_at_end {
                return Ok(0);
            }
            self.more()?;
        }
        let rest = &self.log.out()[self.given..];
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.given += count;
        Ok(count)
    }
}

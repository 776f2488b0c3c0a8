//! A segment's accesses in the order of their addresses, kept until all segments are there.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;

use super::page::Entry;
use crate::compact::bytes::{Damaged, Reader, put};
use crate::compact::part::{Part, bytes_mask};
use crate::record::AccessKind;

/// Where runs are kept: a file without a name, or memory where no file can be made.
#[derive(Debug)]
pub(crate) enum Scratch {
    File(File, u64),
    Memory(Vec<u8>),
}

impl Scratch {
    fn append(&mut self, bytes: &[u8]) -> io::Result<u64> {
        match self {
            Self::File(file, length) => {
                file.write_all(bytes)?;
                let at = *length;
                *length += bytes.len() as u64;
                Ok(at)
            }
            Self::Memory(all) => {
                let at = all.len() as u64;
                all.extend_from_slice(bytes);
                Ok(at)
            }
        }
    }

    fn read(&self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        match self {
            Self::File(file, _) => file.read_exact_at(bytes, at),
            Self::Memory(all) => {
                let at = at as usize;
                bytes.copy_from_slice(&all[at..at + bytes.len()]);
                Ok(())
            }
        }
    }
}

/// All runs.
#[derive(Debug)]
pub(crate) struct Runs {
    scratch: Scratch,
    runs: Vec<Run>,
}

#[derive(Clone, Copy, Debug)]
struct Run {
    start: u64,
    end: u64,
    /// What the segment's slots start from.
    first: u64,
}

/// Encodes a segment's accesses; sorts them on the way.
pub(crate) fn encode(parts: &mut [Part]) -> Vec<u8> {
    // In the order of time within each granule.
    parts.sort_by_key(|part| (part.granule, part.slot));
    let mut out = Vec::with_capacity(parts.len() * 12);
    let mut last = 0;
    for group in parts.chunk_by(|a, b| a.granule == b.granule) {
        let granule = group[0].granule;
        put(&mut out, granule - last);
        put(&mut out, group.len() as u64);
        last = granule;
        let mut slot = 0;
        for part in group {
            put(&mut out, u64::from(part.slot - slot));
            slot = part.slot;
            out.push(part.offset | (part.length - 1) << 3);
            out.push(u8::from(part.kind == AccessKind::Write) | u8::from(part.is_known) << 1);
            if part.is_known {
                out.extend_from_slice(&part.data.to_le_bytes()[..usize::from(part.length)]);
            }
        }
    }
    out
}

impl Runs {
    pub(crate) const fn new(scratch: Scratch) -> Self {
        Self {
            scratch,
            runs: Vec::new(),
        }
    }

    /// Adds the run of the next segment, whose first instruction is `first`.
    pub(crate) fn push(&mut self, run: &[u8], first: u64) -> io::Result<()> {
        let start = self.scratch.append(run)?;
        self.runs.push(Run {
            start,
            end: start + run.len() as u64,
            first,
        });
        Ok(())
    }

    pub(crate) fn cursors(&self) -> io::Result<Vec<RunCursor<'_>>> {
        let buffer = ((64 << 20) / (self.runs.len() + 1)).clamp(4 << 10, 256 << 10);
        self.runs
            .iter()
            .map(|run| {
                let mut cursor = RunCursor {
                    scratch: &self.scratch,
                    at: run.start,
                    end: run.end,
                    first: run.first,
                    size: buffer,
                    buffer: Vec::new(),
                    done: 0,
                    granule: 0,
                    left: 0,
                };
                cursor.next_granule()?;
                Ok(cursor)
            })
            .collect()
    }
}

/// Goes through a run.
#[derive(Debug)]
pub(crate) struct RunCursor<'a> {
    scratch: &'a Scratch,
    /// Where the buffer's end is in the scratch.
    at: u64,
    end: u64,
    first: u64,
    size: usize,
    buffer: Vec<u8>,
    done: usize,
    granule: u64,
    /// Entries of the granule that are to come.
    left: u64,
}

/// No entry with its granule and count is longer.
const LONGEST: usize = 48;

impl RunCursor<'_> {
    /// The granule whose entries come next; none at the end.
    pub(crate) fn granule(&self) -> Option<u64> {
        (self.left > 0).then_some(self.granule)
    }

    fn fill(&mut self) -> io::Result<()> {
        if self.buffer.len() - self.done >= LONGEST || self.at == self.end {
            return Ok(());
        }
        self.buffer.drain(..self.done);
        self.done = 0;
        let old = self.buffer.len();
        let more = (self.size as u64).min(self.end - self.at) as usize;
        self.buffer.resize(old + more, 0);
        self.scratch.read(self.at, &mut self.buffer[old..])?;
        self.at += more as u64;
        Ok(())
    }

    fn next_granule(&mut self) -> io::Result<()> {
        self.fill()?;
        let mut reader = Reader::new(&self.buffer[self.done..]);
        if reader.is_empty() {
            return Ok(());
        }
        let read = (|| Ok((reader.number()?, reader.number()?)))();
        let (step, left) = read.map_err(damaged)?;
        self.granule = self.granule.wrapping_add(step);
        self.left = left;
        self.done = self.buffer.len() - reader.rest().len();
        Ok(())
    }

    /// Gives every entry of the granule, and goes on to the next.
    pub(crate) fn entries(&mut self, mut each: impl FnMut(Entry)) -> io::Result<()> {
        let mut slot = self.first;
        while self.left > 0 {
            self.fill()?;
            let mut reader = Reader::new(&self.buffer[self.done..]);
            let mut read = || {
                slot = slot.wrapping_add(reader.number()?);
                let (place, flags) = (reader.byte()?, reader.byte()?);
                let (offset, length) = (place & 7, (place >> 3 & 7) + 1);
                let data = match flags & 2 {
                    0 => None,
                    _ => Some(reader.fixed(usize::from(length))? & bytes_mask(u64::from(length))),
                };
                Ok(Entry {
                    slot,
                    offset,
                    length,
                    is_write: flags & 1 != 0,
                    data,
                })
            };
            let entry = read().map_err(damaged)?;
            self.done = self.buffer.len() - reader.rest().len();
            self.left -= 1;
            each(entry);
        }
        self.next_granule()
    }
}

fn damaged(_: Damaged) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a temporary file was changed")
}

//! The file, or several one after the other: blocks of whole lines, written by a separate thread.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use tracewire_tracefile::private;

use crate::text::Lines;

/// The size of a block that is written to the file, in bytes.
pub const BLOCK: usize = 1 << 20;

/// How many blocks wait for the file before the guest does.
const MOST_WAITING: usize = 8;

/// The level of compression: the fastest that keeps up with a guest.
const LEVEL: i32 = 1;

/// What is on its way to the file.
#[derive(Debug)]
enum Piece {
    Block(Lines),
    /// What follows is in the next file.
    NextFile,
}

/// Room for the lines of a block; those of the last instruction in it may go beyond the block's size.
pub fn room() -> Lines {
    Lines::with_room(BLOCK + BLOCK / 4)
}

/// Blocks on their way to the file.
#[derive(Default, Debug)]
pub struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default, Debug)]
struct State {
    full: VecDeque<Piece>,
    empty: Vec<Lines>,
    /// No block comes any more.
    ends: bool,
    /// All is in the file.
    ended: bool,
    /// The first error of the file, after which blocks are dropped.
    fault: Option<io::Error>,
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Queue {
    /// Takes a block for the file, and gives an empty one. Waits while too many are there.
    pub fn replace(&self, block: &mut Lines) {
        let mut state = lock(&self.state);
        while state.full.len() >= MOST_WAITING && state.fault.is_none() {
            state = (self.changed.wait(state)).unwrap_or_else(PoisonError::into_inner);
        }
        let empty = state.empty.pop().unwrap_or_else(room);
        let full = std::mem::replace(block, empty);
        state.full.push_back(Piece::Block(full));
        self.changed.notify_all();
    }

    /// Has the blocks from now on go into the next file.
    pub fn begin_file(&self) {
        lock(&self.state).full.push_back(Piece::NextFile);
        self.changed.notify_all();
    }

    /// Waits until all blocks are in the file; returns what was wrong with the file.
    pub fn end(&self) -> Option<io::Error> {
        let mut state = lock(&self.state);
        state.ends = true;
        self.changed.notify_all();
        while !state.ended {
            state = (self.changed.wait(state)).unwrap_or_else(PoisonError::into_inner);
        }
        state.fault.take()
    }

    /// The next block; none after the last, or when none came for a while.
    fn next(&self) -> Next {
        let mut state = lock(&self.state);
        loop {
            if let Some(piece) = state.full.pop_front() {
                self.changed.notify_all();
                return Next::Piece(piece);
            }
            if state.ends {
                return Next::End;
            }
            let (changed, waited) =
                (self.changed.wait_timeout(state, FLUSH)).unwrap_or_else(PoisonError::into_inner);
            state = changed;
            if waited.timed_out() && state.full.is_empty() && !state.ends {
                return Next::Quiet;
            }
        }
    }

    /// Writes blocks until the last. `flush` gives what has gathered of the next block when none came for a while.
    pub fn write(&self, mut file: Output, flush: impl Fn()) {
        loop {
            match self.next() {
                Next::Piece(Piece::NextFile) => {
                    if let Err(fault) = file.next() {
                        lock(&self.state).fault.get_or_insert(fault);
                        self.changed.notify_all();
                    }
                }
                Next::Piece(Piece::Block(mut block)) => {
                    let written = file.block(block.as_bytes());
                    block.clear();
                    let mut state = lock(&self.state);
                    state.empty.push(block);
                    if let Err(fault) = written {
                        state.fault.get_or_insert(fault);
                        self.changed.notify_all();
                    }
                }
                Next::Quiet => flush(),
                Next::End => break,
            }
        }
        let finished = file.finish();
        let mut state = lock(&self.state);
        if let Err(fault) = finished {
            state.fault.get_or_insert(fault);
        }
        state.ended = true;
        self.changed.notify_all();
    }
}

enum Next {
    Piece(Piece),
    Quiet,
    End,
}

/// How long lines wait for a block to fill.
const FLUSH: std::time::Duration = std::time::Duration::from_millis(100);

/// A file after the other, as text or compressed.
#[derive(Debug)]
pub struct Output {
    /// The name of the first.
    path: PathBuf,
    /// Which one it is, from 1.
    number: u32,
    file: Encoded,
}

enum Encoded {
    /// Lines.
    Text(File),
    /// One frame of zstd, whose flushed part can be read without the rest.
    Compressed(zstd::Encoder<'static, File>),
}

impl std::fmt::Debug for Encoded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Text(_) => "Text",
            Self::Compressed(_) => "Compressed",
        })
    }
}

impl Encoded {
    fn create(path: &Path) -> io::Result<Self> {
        let file = private::create(path)?;
        if path.extension().is_some_and(|extension| extension == "zst") {
            let mut encoder = zstd::Encoder::new(file, LEVEL)?;
            encoder.include_checksum(true)?;
            Ok(Self::Compressed(encoder))
        } else {
            Ok(Self::Text(file))
        }
    }

    fn finish(self) -> io::Result<()> {
        match self {
            Self::Text(_) => Ok(()),
            Self::Compressed(encoder) => encoder.finish().map(drop),
        }
    }
}

impl Output {
    /// Makes a file for its owner alone, which is compressed where its name ends in `.zst`.
    pub fn create(path: &Path) -> io::Result<Self> {
        Ok(Self {
            path: path.to_owned(),
            number: 1,
            file: Encoded::create(path)?,
        })
    }

    fn block(&mut self, block: &[u8]) -> io::Result<()> {
        match &mut self.file {
            Encoded::Text(file) => file.write_all(block),
            Encoded::Compressed(encoder) => {
                encoder.write_all(block)?;
                encoder.flush()
            }
        }
    }

    /// Ends the file, and begins the next one.
    fn next(&mut self) -> io::Result<()> {
        let next = Encoded::create(&part_name(&self.path, self.number + 1))?;
        self.number += 1;
        std::mem::replace(&mut self.file, next).finish()
    }

    fn finish(self) -> io::Result<()> {
        self.file.finish()
    }
}

/// The name of a part: `run.2.trace.zst` is the second one of `run.trace.zst`.
fn part_name(path: &Path, number: u32) -> PathBuf {
    let name = path.file_name().unwrap_or_default().as_bytes();
    // A dot at the front begins no extension.
    let dot = name.iter().skip(1).position(|byte| *byte == b'.');
    let (stem, extensions) = name.split_at(dot.map_or(name.len(), |dot| dot + 1));
    let number = format!(".{number}");
    let part = [stem, number.as_bytes(), extensions].concat();
    path.with_file_name(OsString::from_vec(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_part_is_before_its_extensions() {
        for (name, second) in [
            ("/a/run.trace", "/a/run.2.trace"),
            ("run.trace.zst", "run.2.trace.zst"),
            ("run", "run.2"),
            (".run.zst", ".run.2.zst"),
        ] {
            assert_eq!(part_name(Path::new(name), 2), Path::new(second));
        }
    }
}

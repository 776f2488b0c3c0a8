//! The file: blocks of whole lines, written by a separate thread.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The size of a block that is written to the file, in bytes.
pub const BLOCK: usize = 1 << 20;

/// How many blocks wait for the file before the guest does.
const MOST_WAITING: usize = 8;

/// The level of compression: the fastest that keeps up with a guest.
const LEVEL: i32 = 1;

/// Blocks on their way to the file.
#[derive(Default, Debug)]
pub struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default, Debug)]
struct State {
    full: VecDeque<Vec<u8>>,
    empty: Vec<Vec<u8>>,
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
    pub fn replace(&self, block: &mut Vec<u8>) {
        let mut state = lock(&self.state);
        while state.full.len() >= MOST_WAITING && state.fault.is_none() {
            state = (self.changed.wait(state)).unwrap_or_else(PoisonError::into_inner);
        }
        let empty = (state.empty.pop()).unwrap_or_else(|| Vec::with_capacity(BLOCK + BLOCK / 4));
        state.full.push_back(std::mem::replace(block, empty));
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
            if let Some(block) = state.full.pop_front() {
                self.changed.notify_all();
                return Next::Block(block);
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
                Next::Block(mut block) => {
                    let written = file.block(&block);
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
    Block(Vec<u8>),
    Quiet,
    End,
}

/// How long lines wait for a block to fill.
const FLUSH: std::time::Duration = std::time::Duration::from_millis(100);

/// A file, as text or compressed.
pub enum Output {
    /// Lines.
    Text(File),
    /// One frame of zstd, whose flushed part can be read without the rest.
    Compressed(zstd::Encoder<'static, File>),
}

impl std::fmt::Debug for Output {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Text(_) => "Text",
            Self::Compressed(_) => "Compressed",
        })
    }
}

impl Output {
    /// Makes a file, which is compressed where its name ends in `.zst`.
    pub fn create(path: &Path) -> io::Result<Self> {
        let file = File::create(path)?;
        if path.extension().is_some_and(|extension| extension == "zst") {
            let mut encoder = zstd::Encoder::new(file, LEVEL)?;
            encoder.include_checksum(true)?;
            Ok(Self::Compressed(encoder))
        } else {
            Ok(Self::Text(file))
        }
    }

    fn block(&mut self, block: &[u8]) -> io::Result<()> {
        match self {
            Self::Text(file) => file.write_all(block),
            Self::Compressed(encoder) => {
                encoder.write_all(block)?;
                encoder.flush()
            }
        }
    }

    fn finish(self) -> io::Result<()> {
        match self {
            Self::Text(_) => Ok(()),
            Self::Compressed(encoder) => encoder.finish().map(drop),
        }
    }
}

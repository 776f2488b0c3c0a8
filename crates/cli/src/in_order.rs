//! Frames looked at by several threads, and what comes of it in their order.

use std::collections::VecDeque;
use std::num::NonZero;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use anyhow::Context;
use tracewire_model::FrameNumber;
use tracewire_tracefile::{Frame, TraceFile};
use tracewire_views::{Program, Viewer};

/// How many frames are looked at at a time. They are a separate table: its columns are as wide as their widest cell, and a file may
/// have millions of frames.
const FRAMES_A_PIECE: usize = 1000;

/// From this many frames on, a second thread is worth its own copy of the program's symbols.
const MANY: u64 = 20_000;

/// The most threads: each has the symbols in memory.
const MOST_THREADS: usize = 8;

/// How many pieces a thread may be ahead of what is taken.
const AHEAD: usize = 4;

/// The function that looks at a piece of the frames.
pub type Map<'m, T> = dyn Fn(&Viewer<'_>, &[FrameNumber]) -> anyhow::Result<T> + Sync + 'm;

/// Formats frames and passes the text to `write` in the order of the frames. Returns the number of frames.
pub fn render<'a>(
    file: &'a TraceFile,
    program: Program,
    frames: impl Iterator<Item = Frame<'a>>,
    render: &Map<'_, Vec<u8>>,
    mut write: impl FnMut(&[u8]) -> anyhow::Result<()>,
) -> anyhow::Result<u64> {
    map(file, program, frames, render, |text| {
        write(&text).map(ControlFlow::Continue)
    })
}

/// Looks at frames, and passes what `make` makes of each piece of them to `take`, in the order of the frames, until that breaks off.
/// Returns the number of frames that were looked at.
pub fn map<'a, T: Send>(
    file: &'a TraceFile,
    program: Program,
    frames: impl Iterator<Item = Frame<'a>>,
    make: &Map<'_, T>,
    mut take: impl FnMut(T) -> anyhow::Result<ControlFlow<()>>,
) -> anyhow::Result<u64> {
    let mut numbers = frames.map(|frame| frame.number());
    let mut piece = move || {
        let piece: Vec<_> = numbers.by_ref().take(FRAMES_A_PIECE).collect();
        (!piece.is_empty()).then_some(piece)
    };
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    let threads = match file.frame_count() {
        0..MANY => 1,
        _ => threads.min(MOST_THREADS),
    };
    let mut shown = 0;
    if threads == 1 {
        let viewer = Viewer::new(file, &program);
        while let Some(numbers) = piece() {
            shown += numbers.len() as u64;
            if take(make(&viewer, &numbers)?)?.is_break() {
                break;
            }
        }
        return Ok(shown);
    }
    let rules = program.type_rules();
    // What the first thread does without, the others do without, too.
    let program_files = (!program.is_empty()).then(|| program.program_files().clone());
    let mut program = Some(program);
    std::thread::scope(|scope| {
        let workers: std::io::Result<Vec<Worker<T>>> = (0..threads)
            .map(|_| {
                let (jobs, work) = sync_channel::<Vec<FrameNumber>>(AHEAD);
                let (done, results) = sync_channel(AHEAD);
                // Two threads cannot use the same symbols.
                let known = program.take();
                let rules = Arc::clone(&rules);
                let program_files = program_files.clone();
                std::thread::Builder::new().spawn_scoped(scope, move || {
                    let read = || match program_files {
                        Some(files) => Program::with_files(file, files),
                        None => Ok(Program::default()),
                    };
                    let program = match known.map_or_else(read, Ok) {
                        Ok(mut program) => {
                            program.set_type_rules(&rules);
                            program
                        }
                        Err(error) => return drop(done.send(Err(error.into()))),
                    };
                    let viewer = Viewer::new(file, &program);
                    for numbers in work {
                        // After an error, or the end, the result is not needed.
                        if done.send(make(&viewer, &numbers)).is_err() {
                            return;
                        }
                    }
                })?;
                Ok(Worker { jobs, results })
            })
            .collect();
        let workers = workers.context("cannot start a thread")?;
        // The workers in the order of the pieces that they have.
        let mut waiting: VecDeque<&Worker<T>> = VecDeque::new();
        let mut next = workers.iter().cycle();
        loop {
            while waiting.len() < AHEAD * threads
                && let Some(numbers) = piece()
            {
                let Some(worker) = next.next() else { break };
                shown += numbers.len() as u64;
                // One that has ended has left its reason.
                let _ = worker.jobs.send(numbers);
                waiting.push_back(worker);
            }
            let Some(worker) = waiting.pop_front() else {
                return Ok(shown);
            };
            if take(worker.results.recv()??)?.is_break() {
                return Ok(shown);
            }
        }
    })
}

/// A thread that looks at pieces, one after the other.
struct Worker<T> {
    jobs: SyncSender<Vec<FrameNumber>>,
    results: Receiver<anyhow::Result<T>>,
}

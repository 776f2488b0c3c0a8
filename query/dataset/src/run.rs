//! A trace file as tables.

use std::collections::HashSet;
use std::num::NonZero;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::ScopedJoinHandle;

use arrow::array::RecordBatch;
use tracewire_model::FrameNumber;
use tracewire_tracefile::TraceFile;
use tracewire_views::{Program, Viewer};
use twox_hash::XxHash64;

use crate::directory::day_of;
use crate::error::DatasetError;
use crate::execution::RunTables;
use crate::layout::{Layout, Places};
use crate::narrow::nanoseconds;
use crate::rows::{Needs, Row, RowMaker, Values, rows_of_run, time_ns};
use crate::table::Table;

/// How many frames are made into rows at a time: what is made of them is to fit in a processor's cache.
const FRAMES_A_BATCH: usize = 1024;

/// From this many frames on, a second thread is worth its own copy of the program's symbols.
pub const FRAMES_FOR_THREADS: usize = 20_000;

/// The most threads: each has the symbols in memory.
pub const MOST_THREADS: usize = 8;

/// How many pieces a thread may be ahead of the consumer.
const AHEAD: usize = 2;

/// A trace file with its program, as tables.
#[derive(Debug)]
pub struct Run<'a> {
    file: &'a TraceFile,
    program: &'a Program,
    /// The frames that have rows, sorted by their times.
    frames: Vec<FrameNumber>,
    layout: Layout,
}

impl<'a> Run<'a> {
    /// Finds the tables of a run, and their columns.
    #[must_use]
    pub fn new(file: &'a TraceFile, program: &'a Program) -> Self {
        let viewer = Viewer::new(file, program);
        let mut places = Places::new(file);
        let mut frames: Vec<Timed> = Vec::new();
        if file.spans().is_empty() && program.is_at_all_times() {
            for part in timed_frames(file) {
                frames.extend(part.frames);
                for frame in part.places.iter().filter_map(|number| file.frame(*number)) {
                    places.add(&viewer, frame);
                }
            }
        } else {
            for frame in file.frames().filter(|frame| viewer.is_listed(*frame)) {
                frames.push((time_ns(&frame.saved_state()), frame.number()));
                places.add(&viewer, frame);
            }
        }
        frames.sort_by_key(|(time, number)| (time.unwrap_or(0), *number));
        Self {
            file,
            program,
            frames: frames.into_iter().map(|(_, number)| number).collect(),
            layout: places.layout(file),
        }
    }

    /// The trace file.
    #[must_use]
    pub const fn file(&self) -> &'a TraceFile {
        self.file
    }

    /// All tables. `runs` is the first.
    #[must_use]
    pub fn tables(&self) -> &[Table] {
        self.layout.tables()
    }

    /// Passes on the rows of all tables, in batches; each table has its own order. `wanted` selects the tables.
    ///
    /// # Errors
    /// When `take` fails, and when rows do not fit their table.
    pub fn read<E: From<DatasetError>>(
        &self,
        wanted: impl Fn(&Table) -> bool,
        mut take: impl FnMut(&Table, RecordBatch) -> Result<(), E>,
    ) -> Result<(), E> {
        let threads = match self.frames.len() {
            0..FRAMES_FOR_THREADS => 1,
            _ => std::thread::available_parallelism().map_or(1, NonZero::get),
        };
        let wanted: Vec<bool> = self.tables().iter().map(wanted).collect();
        for (at, table) in self.tables().iter().enumerate() {
            if wanted.get(at) == Some(&true)
                && let Some(batch) = rows_of_run(self.file, self.program, table)?
            {
                take(table, batch)?;
            }
        }
        let pieces = self.pieces(&wanted, FRAMES_A_BATCH);
        let threads = threads.min(MOST_THREADS);
        pieces.read(self.program, threads, |at, batch| {
            match self.tables().get(at) {
                Some(table) => take(table, batch),
                None => Ok(()),
            }
        })
    }

    fn pieces<'p>(&'p self, wanted: &[bool], frames_a_piece: usize) -> Pieces<'p, 'a> {
        let tables = self.tables().iter().enumerate();
        let wanted = tables.filter(|(at, _)| wanted.get(*at) == Some(&true));
        let makers: Vec<(usize, RowMaker<'p>)> = wanted
            .filter_map(|(at, table)| Some((at, RowMaker::new(&self.layout, table, None)?)))
            .collect();
        let mut needs = Needs::of_frame();
        let needs_values = |maker: &RowMaker<'_>| !matches!(maker.needs().values, Values::None);
        if makers.iter().any(|(_, maker)| needs_values(maker)) {
            needs.values = Values::All;
        }
        Pieces {
            file: self.file,
            frames: &self.frames,
            makers,
            needs,
            frames_a_piece,
        }
    }
}

/// A frame, and when it was made.
type Timed = (Option<u64>, FrameNumber);

/// The frames of a part of a file.
#[derive(Default)]
struct TimedPart {
    frames: Vec<Timed>,
    /// The first frame of each place.
    places: Vec<FrameNumber>,
}

/// The frames of a file that has no spans, and of whose program one view is enough: threads need no symbols then.
fn timed_frames(file: &TraceFile) -> Vec<TimedPart> {
    let count = file.frame_count();
    let threads = match usize::try_from(count) {
        Ok(0..FRAMES_FOR_THREADS) => 1,
        _ => std::thread::available_parallelism().map_or(1, NonZero::get),
    };
    let length = count.div_ceil(threads as u64).max(1);
    let read = |start: u64| {
        let mut part = TimedPart::default();
        let mut seen = HashSet::new();
        let mut last = None;
        for number in start..start.saturating_add(length).min(count) {
            let Some(frame) = file.frame(FrameNumber(number)) else {
                continue;
            };
            part.frames
                .push((time_ns(&frame.saved_state()), frame.number()));
            let place = (frame.tracepoint(), frame.program_counter(), frame.is_step());
            if last != Some(place) {
                last = Some(place);
                if seen.insert(place) {
                    part.places.push(frame.number());
                }
            }
        }
        part
    };
    std::thread::scope(|scope| {
        let starts = (0..count).step_by(usize::try_from(length).unwrap_or(usize::MAX));
        let threads: Vec<_> = starts
            .map(|start| scope.spawn(move || read(start)))
            .collect();
        let join = |thread: ScopedJoinHandle<'_, TimedPart>| {
            thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().map(join).collect()
    })
}

/// The rows of frames, made a piece at a time: a run without its program, which threads do not share.
struct Pieces<'p, 'a> {
    file: &'a TraceFile,
    frames: &'p [FrameNumber],
    /// The tables, with their numbers.
    makers: Vec<(usize, RowMaker<'p>)>,
    needs: Needs,
    frames_a_piece: usize,
}

/// Rows, with the numbers of their tables.
type Piece = Result<Vec<(usize, RecordBatch)>, DatasetError>;

impl Pieces<'_, '_> {
    /// Gives the rows of all frames in the frames' order.
    fn read<E: From<DatasetError>>(
        &self,
        program: &Program,
        threads: usize,
        mut take: impl FnMut(usize, RecordBatch) -> Result<(), E>,
    ) -> Result<(), E> {
        let pieces: Vec<&[FrameNumber]> = self.frames.chunks(self.frames_a_piece.max(1)).collect();
        if threads <= 1 {
            let viewer = Viewer::new(self.file, program);
            for numbers in pieces {
                for (at, batch) in self.piece(&viewer, numbers)? {
                    take(at, batch)?;
                }
            }
            return Ok(());
        }
        let rules = program.type_rules();
        let program_files = program.program_files();
        std::thread::scope(|scope| {
            // Each thread makes the pieces of its turn. Symbols cannot be asked by two threads at once.
            let workers: Vec<Receiver<Piece>> = (0..threads)
                .map(|turn| {
                    let (done, made) = sync_channel(AHEAD);
                    let mine = pieces.iter().skip(turn).step_by(threads);
                    let rules = Arc::clone(&rules);
                    let program_files = program_files.clone();
                    scope.spawn(move || {
                        let Ok(mut program) = Program::with_files(self.file, program_files) else {
                            return;
                        };
                        program.set_type_rules(&rules);
                        let viewer = Viewer::new(self.file, &program);
                        for numbers in mine {
                            // After an error the rows are not needed.
                            if done.send(self.piece(&viewer, numbers)).is_err() {
                                return;
                            }
                        }
                    });
                    made
                })
                .collect();
            for turn in 0..pieces.len() {
                let made = workers
                    .get(turn % threads)
                    .and_then(|worker| worker.recv().ok());
                for (at, batch) in made.ok_or(DatasetError::ProgramGone)?? {
                    take(at, batch)?;
                }
            }
            Ok(())
        })
    }

    fn piece(&self, viewer: &Viewer<'_>, numbers: &[FrameNumber]) -> Piece {
        let mut made = Vec::new();
        if self.makers.is_empty() {
            return Ok(made);
        }
        let rows: Vec<Row> = (numbers.iter())
            .filter_map(|number| viewer.file().frame(*number))
            .map(|frame| Row::new(viewer, frame, &self.needs))
            .collect();
        for (at, maker) in &self.makers {
            let tracepoint = maker.tracepoint();
            let own = |row: &&Row| tracepoint.is_none_or(|number| row.tracepoint == number);
            let rows: Vec<&Row> = rows.iter().filter(own).collect();
            if !rows.is_empty() || tracepoint.is_none() {
                made.push((*at, maker.rows(&rows)?));
            }
        }
        Ok(made)
    }
}

impl RunTables for Run<'_> {
    fn source_hash(&self) -> Result<u64, DatasetError> {
        Ok(XxHash64::oneshot(0, self.file.as_bytes()))
    }

    fn source_path(&self) -> Option<&Path> {
        self.file.path()
    }

    fn day(&self) -> String {
        day_of(self.file)
    }

    fn run_tables(&self) -> &[Table] {
        self.tables()
    }

    fn read_tables(
        &self,
        take: &mut dyn FnMut(&Table, RecordBatch) -> Result<(), DatasetError>,
    ) -> Result<(), DatasetError> {
        self.read(|_| true, take)
    }
}

/// When a run began, in nanoseconds since 1970, where its clock is that of a calendar.
pub(crate) fn start_ns(file: &TraceFile) -> Option<i64> {
    /// 2001-09-09.
    const FIRST: u64 = 1_000_000_000_000_000;
    let start = file.description().status()?.fields.start_time?;
    (start >= FIRST).then(|| nanoseconds(start))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use arrow::array::RecordBatch;
    use arrow::compute::concat_batches;
    use tracewire_test_support::sample;
    use tracewire_tracefile::TraceFile;
    use tracewire_views::Program;

    use super::Run;
    use crate::error::DatasetError;

    #[test]
    fn threads_and_pieces_change_no_row() {
        let file = TraceFile::open(sample("sample.tf")).expect("a trace file");
        let program = Program::of(&file, &[sample("sample")]).expect("the program");
        let run = Run::new(&file, &program);
        let wanted = vec![true; run.tables().len()];
        let rows = |threads: usize, frames: usize| {
            let mut all: BTreeMap<usize, Vec<RecordBatch>> = BTreeMap::new();
            let pieces = run.pieces(&wanted, frames);
            let read = pieces.read(&program, threads, |at, batch| {
                all.entry(at).or_default().push(batch);
                Ok::<(), DatasetError>(())
            });
            read.expect("rows");
            let whole = |(at, batches): (usize, Vec<RecordBatch>)| {
                (
                    at,
                    concat_batches(&batches[0].schema(), &batches).expect("one batch"),
                )
            };
            all.into_iter().map(whole).collect::<BTreeMap<_, _>>()
        };
        let all = rows(1, 8192);
        assert!(all.len() >= 4, "{} tables", all.len());
        for (threads, frames) in [(1, 1), (2, 3), (3, 1), (8, 5)] {
            assert_eq!(rows(threads, frames), all);
        }
    }
}

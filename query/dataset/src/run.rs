//! A trace file as tables.

use std::collections::{BTreeMap, HashSet};
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
use crate::row_group::{EncodedRows, ROWS_A_GROUP, Rows, TableEncoder};
use crate::rows::{Needs, Row, RowMaker, Values, rows_of_run, time_ns};
use crate::table::Table;

/// How many frames are made into rows at a time: what is made of them is to fit in a processor's cache.
const FRAMES_A_BATCH: usize = 1024;

/// The most bytes of frames that a thread encodes at a time: each thread has some such pieces in memory.
const BYTES_A_PIECE: usize = 64 << 20;

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
    source_hash: u64,
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
        let source_hash = std::thread::scope(|scope| {
            let hash = scope.spawn(|| XxHash64::oneshot(0, file.as_bytes()));
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
            hash.join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        frames.sort_by_key(|(time, number)| (time.unwrap_or(0), *number));
        Self {
            file,
            program,
            source_hash,
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
        let wanted: Vec<bool> = self.tables().iter().map(wanted).collect();
        self.read_without_frames(&wanted, &mut take)?;
        let makers = self.makers(&wanted);
        let pieces = self.frames.chunks(FRAMES_A_BATCH).collect();
        self.read_pieces(
            pieces,
            self.threads(),
            |viewer, numbers| makers.batches(viewer, numbers),
            take,
        )
    }

    /// The rows of the tables without frames.
    fn read_without_frames<E: From<DatasetError>>(
        &self,
        wanted: &[bool],
        mut take: impl FnMut(&Table, RecordBatch) -> Result<(), E>,
    ) -> Result<(), E> {
        for (table, _) in (self.tables().iter().zip(wanted)).filter(|(_, wanted)| **wanted) {
            if let Some(batch) = rows_of_run(self.file, self.program, table)? {
                take(table, batch)?;
            }
        }
        Ok(())
    }

    fn makers(&self, wanted: &[bool]) -> Makers<'_> {
        let tables = self.tables().iter().enumerate();
        let wanted = tables.filter(|(at, _)| wanted.get(*at) == Some(&true));
        let makers: Vec<(usize, RowMaker<'_>)> = wanted
            .filter_map(|(at, table)| Some((at, RowMaker::new(&self.layout, table, None)?)))
            .collect();
        let mut needs = Needs::of_frame();
        let needs_values = |maker: &RowMaker<'_>| !matches!(maker.needs().values, Values::None);
        if makers.iter().any(|(_, maker)| needs_values(maker)) {
            needs.values = Values::All;
        }
        Makers { makers, needs }
    }

    /// How many threads make rows.
    fn threads(&self) -> usize {
        let threads = match self.frames.len() {
            0..FRAMES_FOR_THREADS => 1,
            _ => std::thread::available_parallelism().map_or(1, NonZero::get),
        };
        threads.min(MOST_THREADS)
    }

    /// Passes on what `make` makes of pieces of the run, with the tables that it is of, in the order of the pieces.
    fn read_pieces<T: Send, E: From<DatasetError>>(
        &self,
        pieces: Vec<&[FrameNumber]>,
        threads: usize,
        make: impl Fn(&Viewer<'_>, &[FrameNumber]) -> Result<Vec<(usize, T)>, DatasetError> + Sync,
        mut take: impl FnMut(&Table, T) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut take_all = |made: Vec<(usize, T)>| {
            let mut made = made.into_iter();
            made.try_for_each(|(at, made)| {
                let table = self.tables().get(at);
                debug_assert!(table.is_some(), "rows of table {at}");
                table.map_or(Ok(()), |table| take(table, made))
            })
        };
        if threads <= 1 {
            let viewer = Viewer::new(self.file, self.program);
            let mut pieces = pieces.into_iter();
            return pieces.try_for_each(|numbers| take_all(make(&viewer, numbers)?));
        }
        let rules = self.program.type_rules();
        let program_files = self.program.program_files();
        let (file, make, pieces) = (self.file, &make, &pieces);
        std::thread::scope(|scope| {
            // Each thread makes the pieces of its turn. Symbols cannot be asked by two threads at once.
            let workers: Vec<Receiver<_>> = (0..threads)
                .map(|turn| {
                    let (done, made) = sync_channel(AHEAD);
                    let rules = Arc::clone(&rules);
                    let program_files = program_files.clone();
                    scope.spawn(move || {
                        let Ok(mut program) = Program::with_files(file, program_files) else {
                            return;
                        };
                        program.set_type_rules(&rules);
                        let viewer = Viewer::new(file, &program);
                        for numbers in pieces.iter().skip(turn).step_by(threads) {
                            // After an error the rows are not needed.
                            if done.send(make(&viewer, numbers)).is_err() {
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
                take_all(made.ok_or(DatasetError::ProgramGone)??)?;
            }
            Ok(())
        })
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

/// Makes the rows of frames.
struct Makers<'p> {
    /// The tables, with their numbers.
    makers: Vec<(usize, RowMaker<'p>)>,
    needs: Needs,
}

impl Makers<'_> {
    /// The rows of a few frames, with the numbers of their tables.
    fn batches(
        &self,
        viewer: &Viewer<'_>,
        numbers: &[FrameNumber],
    ) -> Result<Vec<(usize, RecordBatch)>, DatasetError> {
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

    /// The rows of many frames, encoded for the tables' files.
    fn encoded(
        &self,
        viewer: &Viewer<'_>,
        numbers: &[FrameNumber],
        encoders: &[Option<&TableEncoder>],
    ) -> Result<Vec<(usize, Rows)>, DatasetError> {
        let mut tables: BTreeMap<usize, EncodedRows<'_>> = BTreeMap::new();
        let mut made = Vec::new();
        for numbers in numbers.chunks(FRAMES_A_BATCH) {
            for (at, batch) in self.batches(viewer, numbers)? {
                match encoders.get(at).copied().flatten() {
                    Some(encoder) => {
                        let rows = tables.entry(at).or_insert_with(|| encoder.begin());
                        rows.add(batch)?;
                    }
                    None => made.push((at, Rows::Batch(batch))),
                }
            }
        }
        for (at, rows) in tables {
            made.extend(rows.finish()?.into_iter().map(|rows| (at, rows)));
        }
        Ok(made)
    }
}

/// How many frames a thread encodes at a time, so that each of the threads has as many pieces as the others. `bytes` is the size of
/// all frames.
fn frames_a_piece(frames: usize, bytes: usize, threads: usize) -> usize {
    let of_rows = frames.div_ceil(ROWS_A_GROUP);
    let pieces = of_rows.max(bytes.div_ceil(BYTES_A_PIECE)).max(1);
    let pieces = pieces.next_multiple_of(threads.max(1));
    frames.div_ceil(pieces).max(1)
}

impl RunTables for Run<'_> {
    fn source_hash(&self) -> Result<u64, DatasetError> {
        Ok(self.source_hash)
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

    /// A thread encodes the rows that it makes: they are in its processor's cache, and one thread's memory is not freed by another.
    fn read_tables(
        &self,
        encoders: &[TableEncoder],
        take: &mut dyn FnMut(&Table, Rows) -> Result<(), DatasetError>,
    ) -> Result<(), DatasetError> {
        let all = vec![true; self.tables().len()];
        self.read_without_frames(&all, |table, batch| take(table, Rows::Batch(batch)))?;
        let makers = self.makers(&all);
        let of_table =
            |table: &Table| (encoders.iter()).find(|encoder| encoder.table() == table.name);
        let encoders: Vec<Option<&TableEncoder>> = self.tables().iter().map(of_table).collect();
        let threads = self.threads();
        let frames = frames_a_piece(self.frames.len(), self.file.as_bytes().len(), threads);
        let pieces = self.frames.chunks(frames).collect();
        self.read_pieces(
            pieces,
            threads,
            |viewer, numbers| makers.encoded(viewer, numbers, &encoders),
            take,
        )
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

    use super::{Run, frames_a_piece};
    use crate::error::DatasetError;

    #[test]
    fn pieces_are_as_many_for_each_thread_and_not_large() {
        const MIB: usize = 1 << 20;
        for (frames, bytes, threads, each) in [
            (0, 0, 1, 1),
            (10, 10, 8, 2),
            (1_000_000, 369 * MIB, 2, 125_000),
            (1_000_000, 369 * MIB, 3, 111_112),
            (1_000_000, 4096 * MIB, 2, 15_625),
            (100, 4096 * MIB, 2, 2),
        ] {
            assert_eq!(frames_a_piece(frames, bytes, threads), each, "{frames}");
        }
    }

    #[test]
    fn threads_and_pieces_change_no_row() {
        let file = TraceFile::open(sample("sample.tf")).expect("a trace file");
        let program = Program::of(&file, &[sample("sample")]).expect("the program");
        let run = Run::new(&file, &program);
        let wanted = vec![true; run.tables().len()];
        let rows = |threads: usize, frames: usize| {
            let mut all: BTreeMap<String, Vec<RecordBatch>> = BTreeMap::new();
            let makers = run.makers(&wanted);
            let read = run.read_pieces(
                run.frames.chunks(frames).collect(),
                threads,
                |viewer, numbers| makers.batches(viewer, numbers),
                |table, batch| {
                    all.entry(table.name.clone()).or_default().push(batch);
                    Ok::<(), DatasetError>(())
                },
            );
            read.expect("rows");
            let whole = |(table, batches): (String, Vec<RecordBatch>)| {
                (
                    table,
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

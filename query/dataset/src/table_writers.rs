//! The files of several tables, written by threads while the rows are made.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Scope, ScopedJoinHandle};

use arrow::array::RecordBatch;

use crate::error::DatasetError;
use crate::parquet_file::TableFile;

/// How many batches wait for a thread.
const AHEAD: usize = 4;

/// A batch, and the number of its file.
type Numbered = (usize, RecordBatch);

/// The number of rows of each file that a thread has written, with the file's number.
type Written = Vec<(usize, u64)>;

/// Threads that write files. Each file belongs to one of them.
pub(crate) struct TableWriters<'scope> {
    threads: Vec<Thread<'scope>>,
}

struct Thread<'scope> {
    batches: SyncSender<Numbered>,
    done: ScopedJoinHandle<'scope, Result<Written, DatasetError>>,
}

impl<'scope> TableWriters<'scope> {
    /// Starts threads for files whose rows are of this run.
    pub(crate) fn start<'env>(
        scope: &'scope Scope<'scope, 'env>,
        files: Vec<TableFile>,
        run: &'env str,
        threads: usize,
    ) -> Self {
        let threads = threads.clamp(1, files.len().max(1));
        let mut shares: Vec<Vec<(usize, TableFile)>> = (0..threads).map(|_| Vec::new()).collect();
        for (number, file) in files.into_iter().enumerate() {
            if let Some(share) = shares.get_mut(number % threads) {
                share.push((number, file));
            }
        }
        let start = |share| {
            let (batches, waiting) = sync_channel(AHEAD);
            let done = scope.spawn(move || write(share, run, &waiting));
            Thread { batches, done }
        };
        Self {
            threads: shares.into_iter().map(start).collect(),
        }
    }

    /// Passes on rows of a file.
    ///
    /// # Errors
    /// When the thread has ended early. [`finish`](Self::finish) says why.
    pub(crate) fn write(&self, file: usize, rows: RecordBatch) -> Result<(), DatasetError> {
        let thread = self.threads.get(file % self.threads.len().max(1));
        let sent = thread.is_some_and(|thread| thread.batches.send((file, rows)).is_ok());
        sent.then_some(()).ok_or(DatasetError::WriterGone)
    }

    /// Waits until all files are on the disk. How many rows each has.
    ///
    /// # Errors
    /// When a file could not be written.
    pub(crate) fn finish(self) -> Result<Vec<u64>, DatasetError> {
        let mut written = Vec::new();
        let mut failed = None;
        // All threads see the end before the first is waited for.
        let (batches, threads): (Vec<_>, Vec<_>) = (self.threads.into_iter())
            .map(|thread| (thread.batches, thread.done))
            .unzip();
        drop(batches);
        for thread in threads {
            match thread.join() {
                Ok(Ok(rows)) => written.extend(rows),
                Ok(Err(error)) => failed = failed.or(Some(error)),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        if let Some(error) = failed {
            return Err(error);
        }
        written.sort_unstable();
        Ok(written.into_iter().map(|(_, rows)| rows).collect())
    }
}

/// Writes batches until there are no more.
fn write(
    mut share: Vec<(usize, TableFile)>,
    run: &str,
    waiting: &Receiver<Numbered>,
) -> Result<Written, DatasetError> {
    for (number, rows) in waiting {
        if let Some((_, file)) = share.iter_mut().find(|(known, _)| *known == number) {
            file.write_of(run, &rows)?;
        }
    }
    let finish = |(number, file): (usize, TableFile)| Ok((number, file.finish()?));
    share.into_iter().map(finish).collect()
}

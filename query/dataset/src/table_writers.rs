//! The files of several tables, written by threads while the rows are made.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Scope, ScopedJoinHandle};

use crate::error::DatasetError;
use crate::parquet_file::TableFile;
use crate::row_group::{Rows, TableEncoder};

/// How many pieces of a file wait for a thread.
const AHEAD: usize = 4;

/// Rows, and the number of their file.
type Numbered = (usize, Rows);

/// The number of rows of each file that a thread has written, with the file's number.
type Written = Vec<(usize, u64)>;

/// Threads that write files. Each file belongs to one of them.
pub(crate) struct TableWriters<'scope> {
    threads: Vec<Thread<'scope>>,
}

struct Thread<'scope> {
    rows: SyncSender<Numbered>,
    done: ScopedJoinHandle<'scope, Result<Written, DatasetError>>,
}

impl<'scope> TableWriters<'scope> {
    /// Starts threads for files, each with the encoder of its rows.
    pub(crate) fn start<'env>(
        scope: &'scope Scope<'scope, 'env>,
        files: Vec<(TableFile, &'env TableEncoder)>,
        threads: usize,
    ) -> Self {
        let threads = threads.clamp(1, files.len().max(1));
        let mut shares: Vec<Vec<Share<'env>>> = (0..threads).map(|_| Vec::new()).collect();
        for (number, (file, encoder)) in files.into_iter().enumerate() {
            if let Some(share) = shares.get_mut(number % threads) {
                share.push((number, file, encoder));
            }
        }
        let start = |share| {
            let (rows, waiting) = sync_channel(AHEAD);
            let done = scope.spawn(move || write(share, &waiting));
            Thread { rows, done }
        };
        Self {
            threads: shares.into_iter().map(start).collect(),
        }
    }

    /// Passes on rows of a file.
    ///
    /// # Errors
    /// When the thread has ended early. [`finish`](Self::finish) says why.
    pub(crate) fn write(&self, file: usize, rows: Rows) -> Result<(), DatasetError> {
        let thread = self.threads.get(file % self.threads.len().max(1));
        let sent = thread.is_some_and(|thread| thread.rows.send((file, rows)).is_ok());
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
        let (rows, threads): (Vec<_>, Vec<_>) = (self.threads.into_iter())
            .map(|thread| (thread.rows, thread.done))
            .unzip();
        drop(rows);
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

/// A file of a thread: its number, and the encoder of its rows.
type Share<'e> = (usize, TableFile, &'e TableEncoder);

/// Writes rows until there are no more.
fn write(mut share: Vec<Share<'_>>, waiting: &Receiver<Numbered>) -> Result<Written, DatasetError> {
    for (number, rows) in waiting {
        if let Some((_, file, encoder)) = share.iter_mut().find(|(known, ..)| *known == number) {
            match rows {
                Rows::Batch(rows) => file.write(&encoder.named(&rows)?)?,
                Rows::Group(group) => file.append(group)?,
            }
        }
    }
    let finish = |(number, file, _): Share<'_>| Ok((number, file.finish()?));
    share.into_iter().map(finish).collect()
}

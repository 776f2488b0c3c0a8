//! The frames of all files of a round, held against what the program has counted.

use std::collections::BTreeSet;
use std::path::Path;

use tracewire_tracefile::TraceFile;

use crate::program::Count;

/// The calls that there are frames of, by thread.
#[derive(Debug, Default)]
pub struct Union {
    threads: Vec<BTreeSet<u64>>,
    pub frames: u64,
}

impl Union {
    /// Adds the frames of a file; an error names one that is there already or is wrong.
    pub fn add(&mut self, path: &Path) -> Result<u64, String> {
        let file = TraceFile::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
        for (number, frame) in file.frames().enumerate() {
            let register = |name| frame.register_value_named(name).unwrap_or(u64::MAX);
            let (thread, seq, check) = (register("rdi"), register("rsi"), register("rdx"));
            let place = || format!("{}, frame {number}: {thread}, {seq}", path.display());
            if check != seq.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ thread || thread > 4096 {
                return Err(format!("{}: damaged", place()));
            }
            let thread = usize::try_from(thread).unwrap();
            if self.threads.len() <= thread {
                self.threads.resize(thread + 1, BTreeSet::new());
            }
            if !self.threads[thread].insert(seq) {
                return Err(format!("{}: twice", place()));
            }
            self.frames += 1;
        }
        Ok(file.frame_count())
    }

    /// How many calls have no frame that had returned by then; from the first call on, or where the threads did not wait for
    /// the tracepoint, from each one's first frame on.
    pub fn missing(&self, by_then: &[Count], from_first: bool) -> u64 {
        let mut missing = 0;
        let empty = BTreeSet::new();
        for (thread, count) in by_then.iter().enumerate() {
            let seen = self.threads.get(thread).unwrap_or(&empty);
            let first = match (from_first, seen.first()) {
                (true, _) => 0,
                (false, Some(first)) => *first,
                (false, None) => continue,
            };
            let end = seen.last().map_or(0, |last| last + 1).max(count.returned);
            missing += (end - first.min(end)) - seen.range(first..end).count() as u64;
        }
        missing
    }

    /// The first call without a frame, for words.
    pub fn first_gap(&self, by_then: &[Count]) -> Option<(usize, u64)> {
        by_then.iter().enumerate().find_map(|(thread, count)| {
            let seen = self.threads.get(thread)?;
            let first = *seen.first()?;
            let end = seen.last().map_or(0, |last| last + 1).max(count.returned);
            let gap = (first..end).find(|seq| !seen.contains(seq))?;
            Some((thread, gap))
        })
    }
}

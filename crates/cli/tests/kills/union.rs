//! The frames of all files of a round, compared with the program's counts.

use std::collections::BTreeSet;
use std::path::Path;

use tracewire_diagnose::Fault;
use tracewire_tracefile::TraceFile;

use crate::program::Count;

/// The calls of one function that there are frames of, by thread.
#[derive(Debug, Default)]
pub struct Calls {
    threads: Vec<BTreeSet<u64>>,
    pub frames: u64,
}

impl Calls {
    fn add(&mut self, thread: u64, seq: u64) -> bool {
        let thread = usize::try_from(thread).expect("checked");
        if self.threads.len() <= thread {
            self.threads.resize(thread + 1, BTreeSet::new());
        }
        self.frames += 1;
        self.threads[thread].insert(seq)
    }

    /// How many calls that had returned by then have no frame, and the first of them. It counts from the first call on, or from
    /// each thread's first frame on if the threads did not wait for the tracepoint.
    pub fn missing(
        &self,
        returned: impl Iterator<Item = u64>,
        from_first: bool,
    ) -> (u64, Option<(usize, u64)>) {
        let (mut missing, mut first_gap) = (0, None);
        let empty = BTreeSet::new();
        for (thread, returned) in returned.enumerate() {
            let seen = self.threads.get(thread).unwrap_or(&empty);
            let first = match (from_first, seen.first()) {
                (true, _) => 0,
                (false, Some(first)) => *first,
                (false, None) => continue,
            };
            let end = seen.last().map_or(0, |last| last + 1).max(returned);
            let here = (end - first.min(end)) - seen.range(first..end).count() as u64;
            if here > 0 && first_gap.is_none() {
                let gap = (first..end).find(|seq| !seen.contains(seq));
                first_gap = gap.map(|gap| (thread, gap));
            }
            missing += here;
        }
        (missing, first_gap)
    }
}

/// All frames.
#[derive(Debug, Default)]
pub struct Union {
    pub hits: Calls,
    pub seldom: Calls,
    /// How many hits the files count that are in none of their frames. A file does not count them before the end of its run.
    pub counted: u64,
}

impl Union {
    /// Adds the frames of a file; an error names one that is there already or is wrong, or what `check` finds.
    pub fn add(&mut self, path: &Path) -> Result<u64, String> {
        let file = TraceFile::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
        // A killed recording has no checksum. After its end it has room for more frames, and those that were being written.
        let is_growing = path.extension().is_some_and(|end| end == "recording");
        let is_expected = |fault: &Fault| {
            is_growing
                && matches!(
                    fault,
                    Fault::NoChecksum | Fault::Zeros(_) | Fault::Trailing(_)
                )
        };
        let report = tracewire_diagnose::check(&file);
        let finding = (report.findings.iter()).find(|finding| !is_expected(&finding.fault));
        if let Some(finding) = finding {
            return Err(format!("{}: {finding}", path.display()));
        }
        let before = self.hits.frames + self.seldom.frames;
        for (number, frame) in file.frames().enumerate() {
            if frame.is_step() == Some(true) {
                continue;
            }
            let register = |name| frame.register_value_named(name).unwrap_or(u64::MAX);
            let (thread, seq, check) = (register("rdi"), register("rsi"), register("rdx"));
            let place = || format!("{}, frame {number}: {thread}, {seq}", path.display());
            let (calls, expected) = match frame.tracepoint().0 {
                1 => (
                    &mut self.hits,
                    seq.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ thread,
                ),
                _ => (&mut self.seldom, !thread),
            };
            if check != expected || thread > 4096 {
                return Err(format!("{}: damaged", place()));
            }
            if !calls.add(thread, seq) {
                return Err(format!("{}: twice", place()));
            }
        }
        let usages = (file.description().tracepoints().iter()).filter_map(|one| one.usage);
        let hits: u64 = usages.map(|usage| usage.hits).sum();
        self.counted += hits.saturating_sub(self.hits.frames + self.seldom.frames - before);
        Ok(file.frame_count())
    }

    /// How many frames are missing of calls that had returned by then.
    pub fn missing(&self, by_then: &[Count], from_first: bool) -> (u64, Option<(usize, u64)>) {
        let returned = by_then.iter().map(|count| count.returned);
        self.hits.missing(returned, from_first)
    }

    /// The same of the function that is called seldom.
    pub fn missing_seldom(&self, by_then: &[Count], from_first: bool) -> u64 {
        let returned = by_then.iter().map(|count| count.seldom_returned);
        self.seldom.missing(returned, from_first).0
    }
}

//! The contents of the trace files of a run, compared with the numbers of the program's calls.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use tracewire_tracefile::TraceFile;

/// The calls in frames, by lane.
#[derive(Default)]
pub struct Kept {
    lanes: BTreeMap<u64, Vec<u64>>,
}

impl Kept {
    /// Adds the frames of a file.
    pub fn read(&mut self, path: &Path) -> Result<()> {
        let file = TraceFile::open(path)?;
        for frame in file.frames() {
            let argument = |name| {
                frame
                    .register_value_named(name)
                    .with_context(|| format!("{}: a frame without {name}", path.display()))
            };
            let (lane, number) = (argument("rdi")?, argument("rsi")?);
            self.lanes.entry(lane).or_default().push(number);
        }
        Ok(())
    }

    /// How many frames there are.
    pub fn count(&self) -> u64 {
        self.lanes.values().map(|lane| lane.len() as u64).sum()
    }

    /// How many calls are missing between the first and the last of each lane, and how many are there twice.
    pub fn gaps(&mut self) -> Gaps {
        let mut gaps = Gaps::default();
        for numbers in self.lanes.values_mut() {
            numbers.sort_unstable();
            for pair in numbers.windows(2) {
                match pair[1] - pair[0] {
                    0 => gaps.twice += 1,
                    apart => gaps.missing += apart - 1,
                }
            }
        }
        gaps
    }
}

/// The errors between the first and the last call.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Gaps {
    pub missing: u64,
    pub twice: u64,
}

/// Tracewire's counts of frames that are in no file.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Counted {
    /// Those with a reason, such as a full ring.
    pub lost: u64,
    /// Those that made room for newer ones.
    pub given_up: u64,
    /// Whether one may be in two files.
    pub maybe_twice: bool,
}

impl Counted {
    /// Reads the messages of `record` and `rescue`.
    pub fn read(said: &str) -> Self {
        let mut counted = Self::default();
        for line in said.lines() {
            let line = line.trim_start_matches("tracewire: ");
            let line = line.trim_start_matches("warning: ");
            let mut words = line.split(' ');
            let Some(count) = words.next().and_then(|word| word.parse::<u64>().ok()) else {
                counted.maybe_twice |= line.contains("may be the first of these");
                continue;
            };
            if line.contains(" lost: ") {
                counted.lost += count;
            } else if line.contains("made room for newer ones") {
                counted.given_up += count;
            } else if let Some((_, rest)) = line.split_once(" of ")
                && line.contains("; hits: ")
                && let Some(created) = rest
                    .split(' ')
                    .next()
                    .and_then(|word| word.parse::<u64>().ok())
            {
                counted.given_up += created.saturating_sub(count);
            }
        }
        counted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read() {
        let said = "tracewire: the time is over, after 1 s\n\
                    tracewire: 12 frames of 20 in x.tf; hits: tracepoint 1 20\n\
                    tracewire: warning: 3 frames lost: they were never finished\n\
                    tracewire: 4 frames made room for newer ones\n\
                    tracewire: 1 frame lost: they were too long\n";
        let expected = Counted {
            lost: 4,
            given_up: 12,
            maybe_twice: false,
        };
        assert_eq!(Counted::read(said), expected);
    }

    #[test]
    fn gaps_are_between_the_first_and_the_last() {
        let mut kept = Kept::default();
        kept.lanes.insert(1, vec![7, 5, 9, 9]);
        kept.lanes.insert(2, vec![100]);
        let expected = Gaps {
            missing: 2,
            twice: 1,
        };
        assert_eq!(kept.gaps(), expected);
        assert_eq!(kept.count(), 5);
    }
}

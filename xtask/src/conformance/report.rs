//! Both columns, file by file, and every difference.

use std::collections::{BTreeMap, BTreeSet};

use super::baseline::Baseline;
use super::compare::{self, Lost, UNNAMED};
use super::known::Known;
use super::list::Test;
use super::sum::{Ended, FileResult};

/// Passes, failures, neither.
#[derive(Default)]
struct Sums([usize; 3]);

impl Sums {
    fn add(&mut self, result: &FileResult) {
        let each = [result.passes, result.failures(), result.neither()];
        for (sum, more) in self.0.iter_mut().zip(each) {
            *sum += more;
        }
    }
}

/// Prints the results; whether there is a reason for every difference.
pub fn report(
    tests: &[Test],
    theirs: &Baseline,
    ours: &BTreeMap<Test, FileResult>,
    known: &Known,
    verbose: bool,
) -> bool {
    table(tests, theirs, ours);
    if ours.is_empty() {
        return true;
    }
    let mut differences = Differences::default();
    for test in tests {
        if let Some(ours) = ours.get(test) {
            differences.of_file(test, theirs.get(test), ours, known, verbose);
        }
    }
    for (index, entry) in known.known.iter().enumerate() {
        let ran = tests.iter().any(|test| {
            entry.is_about(&test.file, test.board)
                && ours
                    .get(test)
                    .is_some_and(|result| result.ended == Ended::Whole)
        });
        if ran && !entry.sometimes && !differences.used.contains(&index) {
            println!("{}: passes now: {}", entry.file, entry.reason);
        }
    }
    println!(
        "{} of {} files have the same passes",
        differences.same, differences.compared
    );
    println!(
        "{} tests that gdbserver passes do not pass: {} without a reason; {} pass that gdbserver does \
         not; {} files hang or break off; {} failures, gdbserver's too or not, have no reason",
        differences.lost,
        differences.unexplained,
        differences.gained,
        differences.broken,
        differences.unknown
    );
    differences.unexplained + differences.broken == 0
}

fn table(tests: &[Test], theirs: &Baseline, ours: &BTreeMap<Test, FileResult>) {
    println!(
        "{:<58} {:<8} {:>20} {:>20}",
        "", "", "gdbserver", "tracewire"
    );
    println!(
        "{:<58} {:<8} {:>6} {:>6} {:>6} {:>6} {:>6} {:>6} {:>10}",
        "file", "board", "pass", "fail", "else", "pass", "fail", "else", "passes"
    );
    let mut folders: BTreeMap<&str, [Sums; 2]> = BTreeMap::new();
    for test in tests {
        let columns = [theirs.get(test), ours.get(test)];
        let folder = test.file.split('/').next().unwrap_or_default();
        for name in [folder, "all"] {
            let sums = folders.entry(name).or_default();
            for (sum, result) in sums.iter_mut().zip(columns) {
                if let Some(result) = result {
                    sum.add(result);
                }
            }
        }
        let differs = match columns {
            [Some(theirs), Some(ours)] => difference(theirs, ours),
            _ => String::new(),
        };
        let [left, right] = columns.map(|result| match result {
            Some(result) => format!(
                "{:>6} {:>6} {:>6}",
                result.passes,
                result.failures(),
                result.neither()
            ),
            None => format!("{:>6} {:>6} {:>6}", "-", "-", "-"),
        });
        println!(
            "{:<58} {:<8} {left} {right} {differs:>10}",
            test.file, test.board
        );
    }
    for (folder, [left, right]) in &folders {
        let [a, b, c] = left.0;
        let [d, e, f] = right.0;
        println!(
            "{:<58} {:<8} {a:>6} {b:>6} {c:>6} {d:>6} {e:>6} {f:>6}",
            format!("total of {folder}"),
            ""
        );
    }
}

/// How the passes of a file differ: `=`, or how many there are more and fewer.
fn difference(theirs: &FileResult, ours: &FileResult) -> String {
    match fewer_and_more(theirs, ours) {
        (0, 0) => "=".to_owned(),
        (fewer, more) => format!("+{more} -{fewer}"),
    }
}

fn fewer_and_more(theirs: &FileResult, ours: &FileResult) -> (usize, usize) {
    let fewer = compare::lost(theirs, ours).iter().map(many).sum::<usize>();
    // Names of passes are not known of results that come from the repository.
    let more = (ours.passes + fewer).saturating_sub(theirs.passes);
    (fewer, more)
}

/// How many tests an entry stands for.
fn many(lost: &Lost) -> usize {
    if lost.test == UNNAMED {
        lost.instead.parse().unwrap_or(1)
    } else {
        1
    }
}

#[derive(Default)]
struct Differences {
    /// Files whose results are known of both, and those with the same passes.
    compared: usize,
    same: usize,
    lost: usize,
    unexplained: usize,
    gained: usize,
    broken: usize,
    /// Failures of ours, gdbserver's too or not, without a reason.
    unknown: usize,
    /// The entries of the list that were met.
    used: BTreeSet<usize>,
}

impl Differences {
    fn of_file(
        &mut self,
        test: &Test,
        theirs: Option<&FileResult>,
        ours: &FileResult,
        known: &Known,
        verbose: bool,
    ) {
        let Test { file, board } = test;
        for failure in ours.others.iter().filter(|other| other.failed()) {
            match known.find(file, *board, &failure.test) {
                Some((index, _)) => {
                    self.used.insert(index);
                }
                None => self.unknown += 1,
            }
        }
        let broken_too = theirs.is_some_and(|theirs| theirs.ended != Ended::Whole);
        if ours.ended != Ended::Whole && !broken_too {
            self.broken += 1;
            println!("{file} ({board}): hangs or breaks off");
        }
        let Some(theirs) = theirs else {
            println!("{file} ({board}): what gdbserver passes is not known");
            return;
        };
        self.compared += 1;
        self.same += usize::from(fewer_and_more(theirs, ours) == (0, 0));
        for each in compare::lost(theirs, ours) {
            let many = many(&each);
            let Lost { instead, test } = each;
            self.lost += many;
            match known.find(file, *board, &test) {
                Some((index, entry)) => {
                    self.used.insert(index);
                    println!(
                        "{file} ({board}): {instead} {test}: known: {}",
                        entry.reason
                    );
                }
                None => {
                    self.unexplained += many;
                    println!("{file} ({board}): {instead} {test}");
                }
            }
        }
        let gained = compare::gained(theirs, ours);
        self.gained += gained.len();
        if verbose {
            for test in gained {
                println!("{file} ({board}): Tracewire alone passes {test}");
            }
        }
    }
}

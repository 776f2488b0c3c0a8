//! What one server passes and the other does not.

use std::collections::HashMap;

use super::sum::FileResult;

/// A test that gdbserver passes and Tracewire does not.
#[derive(PartialEq, Eq, Debug)]
pub struct Lost {
    /// How it came out instead; empty if it did not run.
    pub instead: String,
    pub test: String,
}

/// What stands for tests whose names are not known.
pub const UNNAMED: &str = "(tests that did not run)";

/// The tests that `theirs` passes and `ours` does not. Names may come more than once.
pub fn lost(theirs: &FileResult, ours: &FileResult) -> Vec<Lost> {
    match (&theirs.passed, &ours.passed) {
        (Some(theirs), Some(passed)) => {
            let mut left = count(passed);
            let others: HashMap<&str, &str> = ours
                .others
                .iter()
                .map(|other| (other.test.as_str(), other.word.as_str()))
                .collect();
            theirs
                .iter()
                .filter(|test| !take(&mut left, test))
                .map(|test| Lost {
                    instead: others.get(test.as_str()).copied().unwrap_or("").to_owned(),
                    test: test.clone(),
                })
                .collect()
        }
        // Only the names of their others are known: what fails here and does not there must pass there.
        _ => {
            let names: Vec<_> = theirs
                .others
                .iter()
                .map(|other| plain(&other.test).to_owned())
                .collect();
            let mut left = count(&names);
            let (mut lost, as_known): (Vec<_>, Vec<_>) = ours
                .others
                .iter()
                .filter(|other| !take(&mut left, plain(&other.test)))
                .filter(|other| other.failed() || other.failed_as_known())
                .map(|other| Lost {
                    instead: other.word.clone(),
                    test: other.test.clone(),
                })
                .partition(|lost| !lost.instead.starts_with(['K', 'X']));
            let mut fewer = theirs.passes.saturating_sub(ours.passes + lost.len());
            // What the suite knows that it may fail takes the place of as many passes.
            lost.extend(as_known.into_iter().take(fewer));
            fewer = theirs.passes.saturating_sub(ours.passes + lost.len());
            if fewer > 0 {
                lost.push(Lost {
                    instead: fewer.to_string(),
                    test: UNNAMED.to_owned(),
                });
            }
            lost
        }
    }
}

/// The tests that `ours` passes and `theirs` does not.
pub fn gained(theirs: &FileResult, ours: &FileResult) -> Vec<String> {
    let Some(passed) = &ours.passed else {
        return Vec::new();
    };
    match &theirs.passed {
        Some(theirs) => {
            let mut left = count(theirs);
            passed
                .iter()
                .filter(|test| !take(&mut left, test))
                .cloned()
                .collect()
        }
        None => passed
            .iter()
            .filter(|test| theirs.others.iter().any(|other| other.test == **test))
            .cloned()
            .collect(),
    }
}

/// A test's name without what the suite adds to it: how it failed, and whose fault that is known to be.
fn plain(name: &str) -> &str {
    let mut name = name;
    while let Some((rest, last)) = name.rsplit_once(" (")
        && (last.starts_with("PRMS: ") || last == "timeout)")
    {
        name = rest;
    }
    name
}

fn count(names: &[String]) -> HashMap<&str, usize> {
    let mut counts = HashMap::new();
    for name in names {
        *counts.entry(name.as_str()).or_default() += 1;
    }
    counts
}

fn take(counts: &mut HashMap<&str, usize>, name: &str) -> bool {
    match counts.get_mut(name) {
        Some(left) if *left > 0 => {
            *left -= 1;
            true
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(sum: &str) -> FileResult {
        FileResult::parse(sum, "f.exp")
    }

    #[test]
    fn what_fails_here_and_passes_there_is_lost() {
        let theirs = result("PASS: f.exp: a\nPASS: f.exp: a\nFAIL: f.exp: b\nPASS: f.exp: c\n");
        let ours = result("PASS: f.exp: a\nFAIL: f.exp: a\nFAIL: f.exp: b\n");
        let expected = [("FAIL", "a"), ("", "c")].map(|(instead, test)| Lost {
            instead: instead.to_owned(),
            test: test.to_owned(),
        });
        assert_eq!(lost(&theirs, &ours), expected);
    }

    #[test]
    fn what_the_suite_knows_of_one_server_is_the_same_failure_of_another() {
        let mut theirs = result("PASS: f.exp: a\nKFAIL: f.exp: b (timeout) (PRMS: gdb/1)\n");
        theirs.passed = None;
        assert_eq!(
            lost(&theirs, &result("PASS: f.exp: a\nFAIL: f.exp: b\n")),
            []
        );
        let expected = [Lost {
            instead: "KFAIL".to_owned(),
            test: "a (PRMS: gdb/2)".to_owned(),
        }];
        let ours = result("KFAIL: f.exp: a (PRMS: gdb/2)\nFAIL: f.exp: b\n");
        assert_eq!(lost(&theirs, &ours), expected);
    }

    #[test]
    fn names_of_passes_need_not_be_known() {
        let mut theirs = result("PASS: f.exp: a\nPASS: f.exp: a\nFAIL: f.exp: b\nPASS: f.exp: c\n");
        theirs.passed = None;
        let ours = result("PASS: f.exp: a\nFAIL: f.exp: a\nFAIL: f.exp: b\n");
        let expected = [("FAIL", "a"), ("1", UNNAMED)].map(|(instead, test)| Lost {
            instead: instead.to_owned(),
            test: test.to_owned(),
        });
        assert_eq!(lost(&theirs, &ours), expected);
    }
}

//! What `runtest` says of a file: its `gdb.sum`.

/// How a test came out, in DejaGnu's word.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    pub word: String,
    /// The name, without the file's before it.
    pub test: String,
}

/// DejaGnu's words.
const WORDS: &[&str] = &[
    "PASS",
    "FAIL",
    "XPASS",
    "XFAIL",
    "KPASS",
    "KFAIL",
    "UNRESOLVED",
    "UNTESTED",
    "UNSUPPORTED",
    "ERROR",
];

impl Outcome {
    pub fn failed(&self) -> bool {
        ["FAIL", "UNRESOLVED", "ERROR"].contains(&self.word.as_str())
    }

    /// Whether it failed as the suite knows that it may.
    pub fn failed_as_known(&self) -> bool {
        ["KFAIL", "XFAIL"].contains(&self.word.as_str())
    }
}

/// How a file's run ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// At its end.
    Whole,
    /// It was ended, since it took too long.
    Hung,
    /// It broke off.
    Broken,
}

/// The results of one file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileResult {
    /// How many tests passed.
    pub passes: usize,
    /// Their names; unknown where the results come from the repository.
    pub passed: Option<Vec<String>>,
    /// All tests that came out in another way.
    pub others: Vec<Outcome>,
    pub ended: Ended,
}

impl FileResult {
    pub fn failures(&self) -> usize {
        self.others.iter().filter(|test| test.failed()).count()
    }

    pub fn neither(&self) -> usize {
        self.others.len() - self.failures()
    }

    /// Takes the results from a `gdb.sum`.
    pub fn parse(sum: &str, file: &str) -> Self {
        let mut passed = Vec::new();
        let mut others = Vec::new();
        for line in sum.lines() {
            let Some((word, test)) = line.split_once(": ") else {
                continue;
            };
            if !WORDS.contains(&word) {
                continue;
            }
            let test = test
                .strip_prefix(file)
                .and_then(|test| test.strip_prefix(": "))
                .unwrap_or(test)
                .to_owned();
            if word == "PASS" {
                passed.push(test);
            } else {
                others.push(Outcome {
                    word: word.to_owned(),
                    test,
                });
            }
        }
        Self {
            passes: passed.len(),
            passed: Some(passed),
            others,
            ended: if sum.contains("=== gdb Summary ===") {
                Ended::Whole
            } else {
                Ended::Broken
            },
        }
    }
}

//! The program of the mixes, and the log that it keeps itself.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use object::{Object, ObjectSymbol};

/// How many places there are.
pub const PLACES: usize = 8;

/// The places that a call of each kind reaches, as in `tests/programs/mixed.c`.
pub const KINDS: [&[usize]; 6] = [&[0], &[1], &[2], &[3, 1], &[4, 5], &[6, 7, 7]];

/// The program, built, and where everything is in it.
pub struct Program {
    pub path: PathBuf,
    pub places: [u64; PLACES],
    /// The place that a thread of the program reaches once, if requested.
    pub pause: u64,
    /// The memory that a tracepoint collects: 16 bytes for each thread.
    pub threads: u64,
}

impl Program {
    pub fn build(folder: &Path) -> Self {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/mixed.c");
        let path = folder.join("mixed");
        let status = Command::new("cc")
            .args(["-g", "-O1", "-static", "-pthread", "-o"])
            .arg(&path)
            .arg(&source)
            .status()
            .expect("cc is installed");
        assert!(status.success());
        let bytes = fs::read(&path).unwrap();
        let file = object::File::parse(bytes.as_slice()).unwrap();
        let address = |name: &str| {
            let symbol = file.symbols().find(|symbol| symbol.name() == Ok(name));
            symbol.expect("a symbol").address()
        };
        Self {
            places: std::array::from_fn(|place| address(&format!("place{place}"))),
            pause: address("pause_here"),
            threads: address("threads"),
            path,
        }
    }
}

/// A call of the log.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// The tickets that the thread drew before and after.
    pub before: u64,
    pub after: u64,
    pub kind: usize,
}

/// The log of one thread.
#[derive(Debug)]
pub struct ThreadLog {
    /// The kernel's number of the thread.
    pub thread: u32,
    pub calls: Vec<Call>,
}

/// The log of the program.
#[derive(Debug)]
pub struct Log {
    /// The tickets that were drawn before and after the pause, if there was one.
    pub pause: Option<(u64, u64)>,
    pub threads: Vec<ThreadLog>,
}

impl Log {
    pub fn read(path: &Path, threads: usize, events: usize) -> Self {
        let bytes = fs::read(path).expect("the program has written its log");
        let (words, rest) = bytes.as_chunks::<8>();
        let mut words = words.iter().map(|word| u64::from_le_bytes(*word));
        let mut next = || words.next().expect("the log is whole");
        let pause = Some((next(), next())).filter(|(before, _)| *before != u64::MAX);
        let threads = (0..threads)
            .map(|_| ThreadLog {
                thread: next() as u32,
                calls: (0..events)
                    .map(|_| Call {
                        before: next(),
                        after: next(),
                        kind: next() as usize,
                    })
                    .collect(),
            })
            .collect();
        assert!(rest.is_empty() && words.next().is_none());
        Self { pause, threads }
    }
}

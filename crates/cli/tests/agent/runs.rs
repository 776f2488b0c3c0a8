//! The runs that an agent has kept, held against what programs have counted.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tracewire_tracefile::TraceFile;

/// All runs that there ever were: the limits take them out of the agent's directory, and not out of here.
pub struct Archive {
    folder: PathBuf,
    known: BTreeSet<u64>,
}

/// It is taking what comes.
pub struct Archiving {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<(Archive, u64)>,
}

impl Archiving {
    /// Takes the remaining ones. Returns the most bytes that the runs had.
    pub fn end(self) -> (Archive, u64) {
        self.is_over.store(true, Ordering::Release);
        self.thread.join().unwrap()
    }
}

impl Archive {
    /// Takes what comes into an agent's directory, until that is ended.
    pub fn begin(directory: PathBuf, folder: PathBuf) -> Archiving {
        fs::create_dir_all(&folder).unwrap();
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let thread = std::thread::spawn(move || {
            let mut archive = Self {
                folder,
                known: BTreeSet::new(),
            };
            let mut largest = 0;
            loop {
                let is_over = over.load(Ordering::Acquire);
                archive.take(&directory);
                largest = largest.max(size(&directory.join("runs")));
                if is_over {
                    return (archive, largest);
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        Archiving { is_over, thread }
    }

    /// Takes what has come.
    fn take(&mut self, directory: &Path) {
        for day in fs::read_dir(directory.join("runs"))
            .into_iter()
            .flatten()
            .flatten()
        {
            for run in fs::read_dir(day.path()).into_iter().flatten().flatten() {
                let path = run.path();
                // It may be removed for a limit at this moment, after it was here before.
                let Ok(metadata) = fs::metadata(&path) else {
                    continue;
                };
                let is_new = !self.known.contains(&metadata.ino());
                if is_new && fs::hard_link(&path, self.folder.join(run.file_name())).is_ok() {
                    self.known.insert(metadata.ino());
                }
            }
        }
    }

    pub fn frames(&self) -> Frames {
        let mut frames = Frames::default();
        for entry in fs::read_dir(&self.folder).unwrap() {
            frames.add(&entry.unwrap().path());
        }
        frames
    }
}

/// A call in a frame.
struct Call {
    /// When the frame was made, in microseconds.
    stamp: u64,
    seq: u64,
    /// The recorder, by the time when it began.
    recorder: u64,
}

/// The frames of all runs: each call with the recorder that it was seen by.
#[derive(Default)]
pub struct Frames {
    pub count: u64,
    pub files: u64,
    /// By process and thread.
    calls: BTreeMap<(u32, u64), Vec<Call>>,
}

impl Frames {
    /// Adds a run: `PROBE-TIME-PROCESS…tf`.
    fn add(&mut self, path: &Path) {
        let name = path.file_stem().unwrap().to_str().unwrap();
        let mut words = name.split('-').skip(1);
        let time: u64 = words.next().unwrap().parse().unwrap();
        let process: u32 = words.next().unwrap().parse().unwrap();
        let file =
            TraceFile::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let faults = tracewire_diagnose::check(&file).findings;
        let is_fine = |finding: &tracewire_diagnose::Finding| {
            matches!(finding.fault, tracewire_diagnose::Fault::NoChecksum)
        };
        let fault = faults.iter().find(|finding| !is_fine(finding));
        assert!(fault.is_none(), "{}: {}", path.display(), fault.unwrap());
        self.files += 1;
        for frame in file.frames() {
            let register = |name| frame.register_value_named(name).unwrap_or(u64::MAX);
            let (thread, seq, check) = (register("rdi"), register("rsi"), register("rdx"));
            let expected = seq.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ thread;
            assert_eq!(check, expected, "{}: damaged", path.display());
            self.calls.entry((process, thread)).or_default().push(Call {
                stamp: frame.timestamp().unwrap(),
                seq,
                recorder: time,
            });
            self.count += 1;
        }
    }

    /// The calls of a thread of a process.
    pub fn of(&self, process: u32, thread: u64) -> BTreeSet<u64> {
        let calls = self.calls.get(&(process, thread)).into_iter().flatten();
        calls.map(|call| call.seq).collect()
    }

    /// How many calls have no frame between the first and the last one that a recorder has seen of a thread. No call may be there twice.
    pub fn missing(&mut self) -> u64 {
        let mut missing = 0;
        for ((process, thread), calls) in &mut self.calls {
            calls.sort_unstable_by_key(|call| (call.stamp, call.seq));
            let is_same = |two: &&[Call]| (two[0].stamp, two[0].seq) == (two[1].stamp, two[1].seq);
            if let Some(two) = calls.windows(2).find(is_same) {
                panic!(
                    "process {process}, thread {thread}: call {} twice, by {} and {}",
                    two[0].seq, two[0].recorder, two[1].recorder
                );
            }
            // A program that restarts may have the number of one that has ended.
            for life in calls.chunk_by(|one, next| one.seq < next.seq) {
                for seen in life.chunk_by(|one, next| one.recorder == next.recorder) {
                    let (first, last) = (seen[0].seq, seen[seen.len() - 1].seq);
                    let here = last - first + 1 - seen.len() as u64;
                    if here > 0 {
                        eprintln!(
                            "process {process}, thread {thread}, recorder {}: {here} of {first}..={last} are missing",
                            seen[0].recorder
                        );
                    }
                    missing += here;
                }
            }
        }
        missing
    }
}

/// How many bytes the files of a folder have.
pub fn size(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let sizes = entries.map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => size(&entry.path()),
        Ok(metadata) => metadata.len(),
        // Removed meanwhile.
        Err(_) => 0,
    });
    sizes.sum()
}

/// Whether the code of a process is that of its file: no jump and no breakpoint is left. The zeros behind the code are not compared: a
/// recorder that is killed within a system call of a thread leaves that thread's way back there.
pub fn has_own_code(process: u32) -> bool {
    use std::os::unix::fs::FileExt as _;
    let maps = fs::read_to_string(format!("/proc/{process}/maps")).unwrap();
    let program = fs::read_link(format!("/proc/{process}/exe")).unwrap();
    let memory = fs::File::open(format!("/proc/{process}/mem")).unwrap();
    let file = fs::File::open(&program).unwrap();
    let mut found = false;
    for line in maps
        .lines()
        .filter(|line| line.ends_with(program.to_str().unwrap()))
    {
        let words: Vec<&str> = line.split_whitespace().collect();
        if !words[1].contains('x') {
            continue;
        }
        let number = |text: &str| u64::from_str_radix(text, 16).unwrap();
        let (start, end) = words[0].split_once('-').unwrap();
        let (start, end, offset) = (number(start), number(end), number(words[2]));
        let mut in_memory = vec![0; usize::try_from(end - start).unwrap()];
        memory.read_exact_at(&mut in_memory, start).unwrap();
        let mut in_file = vec![0; in_memory.len()];
        let read = file.read_at(&mut in_file, offset).unwrap();
        let code = in_file[..read].iter().rposition(|byte| *byte != 0);
        let length = code.map_or(0, |last| last + 1);
        found = true;
        if in_memory[..length] != in_file[..length] {
            return false;
        }
    }
    assert!(found, "{maps}");
    true
}

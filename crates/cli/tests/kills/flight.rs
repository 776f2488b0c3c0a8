//! The flight recorder: whoever ends at a random moment, the newest calls have their frames.
//!
//! `TRACEWIRE_FLIGHT_TIMES` says how many ends, `TRACEWIRE_FLIGHT_SEED` what the rounds are made from (`cargo xtask torture flight`).

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Instant;

use tracewire_tracefile::TraceFile;

use crate::program::{PATIENCE, TURN};
use crate::round::{Recorder, counted, rescue};
use crate::{Random, setting};

/// A thread's line in the file of counts, in bytes.
const LINE: usize = 64;

/// Who ends, and how.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    /// The program, by SIGSEGV.
    Fault,
    /// The program, by `abort`.
    Abort,
    /// The program, by SIGKILL.
    ProgramKilled,
    /// The tracer, by SIGKILL. What it had not read is rescued.
    TracerKilled,
    /// The run, by the trigger.
    Trigger,
}

const ENDS: [End; 6] = [
    End::Fault,
    End::Abort,
    End::ProgramKilled,
    End::TracerKilled,
    End::TracerKilled,
    End::Trigger,
];

fn build(folder: &Path) -> PathBuf {
    let (source, program) = (folder.join("flight.c"), folder.join("flight"));
    std::fs::write(&source, include_str!("../programs/flight.c")).unwrap();
    let built = Command::new("cc")
        .args(["-g", "-O1", "-pthread", "-o"])
        .args([&program, &source])
        .status()
        .expect("cc runs");
    assert!(built.success());
    program
}

/// The program, which runs.
struct Flight {
    child: Child,
    counts: File,
    threads: usize,
}

impl Drop for Flight {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Which calls have been made.
struct Calls {
    /// The number of the next one.
    next: u64,
    /// Those that may not have ended.
    open: BTreeSet<u64>,
}

impl Flight {
    fn start(program: &Path, folder: &Path, threads: usize) -> Self {
        let path = folder.join("counts");
        let counts = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path)
            .unwrap();
        counts.set_len((LINE * (threads + 1)) as u64).unwrap();
        let mut child = Command::new("nice")
            .args(["-n", "19"])
            .arg(program)
            .arg(&path)
            .arg(threads.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program runs");
        let mut said = String::new();
        let mut stdout = BufReader::new(child.stdout.take().expect("stdout"));
        stdout.read_line(&mut said).unwrap();
        assert_eq!(said, "ready\n");
        Self {
            child,
            counts,
            threads,
        }
    }

    fn word(&self, line: usize, word: usize) -> u64 {
        let mut bytes = [0; 8];
        let at = (line * LINE + 8 * word) as u64;
        self.counts.read_exact_at(&mut bytes, at).unwrap();
        u64::from_le_bytes(bytes)
    }

    fn tell(&self, word: usize, what: u8) {
        self.counts.write_all_at(&[what], 8 * word as u64).unwrap();
    }

    /// The calls so far. Those that are open are read first and afterwards: one of them may end meanwhile.
    fn calls(&self) -> Calls {
        let open = || (1..=self.threads).map(|line| self.word(line, 0));
        let before: Vec<u64> = open().collect();
        let next = self.word(0, 2);
        let all = before.into_iter().chain(open()).filter(|seq| *seq > 0);
        Calls {
            next,
            open: all.map(|seq| seq - 1).collect(),
        }
    }

    /// Waits until so many calls have been made.
    fn wait_for(&self, calls: u64, mut other: impl FnMut() -> bool) {
        let begun = Instant::now();
        while self.word(0, 2) < calls && !other() {
            assert!(begun.elapsed() < PATIENCE, "{} calls", self.word(0, 2));
            std::thread::sleep(TURN);
        }
    }

    fn end(&mut self) -> ExitStatus {
        self.child.wait().expect("ended")
    }
}

/// What became of the newest calls of a round.
#[derive(Default)]
struct Tally {
    /// How many were to have frames.
    expected: u64,
    missing: u64,
}

/// The numbers of the calls that a file has frames of, and of the trigger's.
fn add_frames(path: &Path, found: &mut BTreeSet<u64>, length: &mut u64) -> Result<u64, String> {
    let file = TraceFile::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut after_trigger = 0;
    let mut is_triggered = false;
    for frame in file.frames() {
        after_trigger += u64::from(is_triggered);
        if frame.tracepoint().0 == 2 {
            is_triggered = true;
            continue;
        }
        let register = |name| frame.register_value_named(name).unwrap_or(u64::MAX);
        let (seq, check) = (register("rdi"), register("rsi"));
        if check != seq.wrapping_mul(0x9e37_79b9_7f4a_7c15) {
            return Err(format!("{}: {seq} is damaged", path.display()));
        }
        if !found.insert(seq) {
            return Err(format!("{}: {seq} is there twice", path.display()));
        }
        *length = (*length).max(frame.bytes().len() as u64);
    }
    Ok(after_trigger)
}

fn round(program: &Path, folder: &Path, random: &mut Random) -> Result<Tally, String> {
    let end = random.pick(&ENDS);
    let threads = random.pick(&[1, 2, 4, 16]);
    let size = random.pick(&[64_u64 << 10, 1 << 20, 5 << 20, 12 << 20]);
    let latest = random.pick(&[500, 5000, 50_000, 100_000]);
    let moment = random.below(latest);
    let has_trigger = end == End::Trigger || random.below(2) == 0;
    let after = random.pick(&[0, 1, 100, 3000]).min(size / 2000);
    let mut flight = Flight::start(program, folder, threads);
    let (buffer, after_words) = (size.to_string(), after.to_string());
    let mut options = vec!["--mechanism", "jump", "-t", "hit : seq, check"];
    options.extend(["--buffer-size", &buffer, "--circular"]);
    if has_trigger {
        options.extend(["--until", "failed", "--after", &after_words]);
    }
    let id = flight.child.id();
    let mut recorder = Recorder::start_at(folder, id, &options, &[]);
    if !recorder.wait_until_placed(if has_trigger { 2 } else { 1 })? {
        return Err("record has ended".to_owned());
    }
    flight.tell(0, 1);
    flight.wait_for(moment, || false);
    let before = flight.calls();
    match end {
        End::Fault => flight.tell(1, 1),
        End::Abort => flight.tell(1, 2),
        End::Trigger => flight.tell(1, 4),
        End::ProgramKilled => flight.child.kill().expect("killed"),
        End::TracerKilled => recorder.stop(),
    }
    let (_, mut said) = recorder.end()?;
    let mut calls = before;
    match end {
        End::TracerKilled => said = rescue(folder, id, &[])?,
        End::Trigger => {}
        // Its file of counts outlives the program.
        End::Fault | End::Abort | End::ProgramKilled => {
            flight.end();
            calls = flight.calls();
        }
    }
    let (whole, growing) = (folder.join("out.tf"), folder.join("out.tf.recording"));
    let rest = folder.join("rest.tf");
    let (mut found, mut length) = (BTreeSet::new(), 1);
    let first = if end == End::TracerKilled {
        &growing
    } else {
        &whole
    };
    let after_trigger = add_frames(first, &mut found, &mut length)?;
    if rest.exists() {
        add_frames(&rest, &mut found, &mut length)?;
    }
    if end == End::Trigger && after_trigger != after {
        return Err(format!(
            "{after_trigger} frames after the trigger, not {after}:\n{said}"
        ));
    }
    // So many frames fit. A call may have its hit so much later than its number as other threads make calls meanwhile; nobody
    // knows by how many, so that the oldest of them are not asked for.
    let fit = size / (length + 64) / 2;
    let newest = found.last().copied().unwrap_or(0);
    let from = (newest + 1).saturating_sub(fit);
    let until = if end == End::Trigger {
        newest.saturating_sub(1000)
    } else {
        calls.next
    };
    let expected: Vec<u64> = (from..until)
        .filter(|seq| !calls.open.contains(seq))
        .collect();
    let missing: Vec<&u64> = expected.iter().filter(|seq| !found.contains(seq)).collect();
    if missing.len() as u64 > counted(&said) {
        return Err(format!(
            "{end:?}, {threads} threads, {size} bytes, {moment}: {} of {} are missing, the first {:?}, {} are there:\n{said}",
            missing.len(),
            expected.len(),
            missing.first(),
            found.len(),
        ));
    }
    Ok(Tally {
        expected: expected.len() as u64,
        missing: missing.len() as u64,
    })
}

#[test]
fn a_flight_recorder_has_the_newest_frames_whoever_ends() {
    let times = setting("TRACEWIRE_FLIGHT_TIMES", 10);
    let seed = setting("TRACEWIRE_FLIGHT_SEED", 1);
    let folder = tempfile::tempdir().unwrap();
    let built = build(folder.path());
    let begun = Instant::now();
    let mut all = Tally::default();
    let mut faults = 0;
    for time in 0..times {
        let mut random = Random::new(seed.wrapping_mul(1_000_003).wrapping_add(time));
        let folder = tempfile::tempdir().unwrap();
        match round(&built, folder.path(), &mut random) {
            Ok(own) => {
                all.expected += own.expected;
                all.missing += own.missing;
            }
            Err(error) => {
                faults += 1;
                println!("round {time} of seed {seed}: {error}\n");
            }
        }
    }
    let Tally { expected, missing } = all;
    println!(
        "{times} ends, {faults} faults: {missing} of {expected} frames are missing, and are counted; {:.0?}",
        begun.elapsed()
    );
    assert_eq!(faults, 0);
    assert!(missing * 1000 <= expected, "{missing} of {expected}");
}

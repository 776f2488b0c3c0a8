//! The flight recorder keeps the frames of the newest calls when the program or the tracer ends at a random moment.
//!
//! `TRACEWIRE_FLIGHT_TIMES` says how many ends, `TRACEWIRE_FLIGHT_SEED` what the rounds are made from (`cargo xtask torture flight`).

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::time::Instant;

use tracewire_tracefile::TraceFile;

use crate::program::{LINE, PATIENCE, TURN, build_source, start_counting};
use crate::round::{Recorder, counted, rescue};
use fastrand::Rng;
use tracewire_test_support::setting;

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
    build_source(folder, "flight", include_str!("../programs/flight.c"))
}

fn word_of(counts: &File, line: usize, word: usize) -> u64 {
    let mut bytes = [0; 8];
    let at = (line * LINE + 8 * word) as u64;
    counts.read_exact_at(&mut bytes, at).unwrap();
    u64::from_le_bytes(bytes)
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

/// What a thread's line says while it takes a number.
const TAKES_NUMBER: u64 = u64::MAX;

/// Which calls have been made.
struct Calls {
    /// The number of the next one.
    next: u64,
    /// Those that may not have ended.
    open: BTreeSet<u64>,
    /// How many more may not have begun: threads were taking numbers that they had not said yet.
    unsaid: u64,
}

impl Calls {
    fn new(next: u64, lines: impl Iterator<Item = u64>) -> Self {
        let (mut open, mut unsaid) = (BTreeSet::new(), 0);
        for line in lines {
            match line {
                0 => {}
                TAKES_NUMBER => unsaid += 1,
                number => {
                    open.insert(number - 1);
                }
            }
        }
        Self { next, open, unsaid }
    }
}

impl Flight {
    fn start(program: &Path, folder: &Path, threads: usize) -> Self {
        let (child, counts) = start_counting(program, &folder.join("counts"), threads, &[]);
        Self {
            child,
            counts,
            threads,
        }
    }

    fn word(&self, line: usize, word: usize) -> u64 {
        word_of(&self.counts, line, word)
    }

    fn tell(&self, word: usize, what: u8) {
        self.counts.write_all_at(&[what], 8 * word as u64).unwrap();
    }

    /// The calls so far. What each thread is in is read after the number: a call that has ended by then has its frame.
    fn calls(&self) -> Calls {
        let next = self.word(0, 2);
        let lines = (1..=self.threads).map(|line| self.word(line, 0));
        Calls::new(next, lines)
    }

    /// The calls when a copy of the file of counts was made. Its first line was copied first.
    fn calls_in(&self, copy: &Path) -> Calls {
        let copy = File::open(copy).expect("a copy");
        let lines = (1..=self.threads).map(|line| word_of(&copy, line, 0));
        Calls::new(word_of(&copy, 0, 2), lines)
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

/// How a round goes.
#[derive(Clone, Copy, Debug)]
struct Plan {
    end: End,
    threads: usize,
    /// Of the buffer, in bytes.
    size: u64,
    /// How many calls there are before the end.
    moment: u64,
    /// How many frames more a trigger asks for, if there is one.
    after: Option<u64>,
    /// The fail point at which the tracer is killed, if it is not at a moment of its own.
    point: Option<&'static str>,
}

impl Plan {
    fn random(random: &mut Rng) -> Self {
        let end = random.choice(ENDS).unwrap();
        let size = random
            .choice([64_u64 << 10, 1 << 20, 5 << 20, 12 << 20, 40 << 20])
            .unwrap();
        let latest = random.choice([500, 5000, 50_000, 100_000]).unwrap();
        let has_trigger = end == End::Trigger || random.u64(..2) == 0;
        let after = random.choice([0, 1, 100, 3000]).unwrap().min(size / 2000);
        Self {
            end,
            threads: random.choice([1, 2, 4, 16]).unwrap(),
            size,
            moment: random.u64(..latest),
            after: has_trigger.then_some(after),
            point: None,
        }
    }
}

fn round(program: &Path, folder: &Path, plan: Plan) -> Result<Tally, String> {
    let mut flight = Flight::start(program, folder, plan.threads);
    let (buffer, after_words) = (plan.size.to_string(), plan.after.unwrap_or(0).to_string());
    let mut options = vec!["--mechanism", "jump", "-t", "hit : seq, check"];
    options.extend(["--buffer-size", &buffer, "--circular"]);
    if plan.after.is_some() {
        options.extend(["--until", "failed", "--after", &after_words]);
    }
    let copy = folder.join("counts-then");
    let mut set = Vec::new();
    if let Some(point) = plan.point {
        let copied = format!("{}:{}", folder.join("counts").display(), copy.display());
        set.push(("TRACEWIRE_FAIL_POINT", format!("{point}:1")));
        set.push(("TRACEWIRE_FAIL_COPY", copied));
    }
    let id = flight.child.id();
    let mut recorder = Recorder::start_at(folder, id, &options, &set);
    if !recorder.wait_until_placed(if plan.after.is_some() { 2 } else { 1 })? {
        return Err("record has ended".to_owned());
    }
    flight.tell(0, 1);
    let moment = match plan.point {
        Some(_) => u64::MAX,
        None => plan.moment,
    };
    flight.wait_for(moment, || plan.point.is_some() && recorder.ended());
    let before = flight.calls();
    match plan.end {
        End::Fault => flight.tell(1, 1),
        End::Abort => flight.tell(1, 2),
        End::Trigger => flight.tell(1, 4),
        End::ProgramKilled => flight.child.kill().expect("killed"),
        End::TracerKilled if plan.point.is_some() => {}
        End::TracerKilled => recorder.stop(),
    }
    let (_, mut said) = recorder.end()?;
    let mut calls = before;
    match plan.end {
        End::TracerKilled => {
            said = rescue(folder, id, &[])?;
            if plan.point.is_some() {
                calls = flight.calls_in(&copy);
            }
        }
        End::Trigger => {}
        // Its file of counts outlives the program.
        End::Fault | End::Abort | End::ProgramKilled => {
            flight.end();
            calls = flight.calls();
        }
    }
    compare(folder, plan, &calls, &said)
}

/// Holds the frames of a round's files against the calls.
fn compare(folder: &Path, plan: Plan, calls: &Calls, said: &str) -> Result<Tally, String> {
    let (whole, growing) = (folder.join("out.tf"), folder.join("out.tf.recording"));
    let rest = folder.join("rest.tf");
    let (mut found, mut length) = (BTreeSet::new(), 1);
    let first = match plan.end {
        End::TracerKilled => &growing,
        _ => &whole,
    };
    let after_trigger = add_frames(first, &mut found, &mut length)?;
    let in_file = found.len();
    if rest.exists() {
        add_frames(&rest, &mut found, &mut length)?;
    }
    if plan.end == End::Trigger && Some(after_trigger) != plan.after {
        return Err(format!(
            "{plan:?}: {after_trigger} frames after the trigger:\n{said}"
        ));
    }
    // So many frames fit. Between a call's number and its hit, other threads may make calls. Their number is not known, so the
    // oldest calls are not required.
    let fit = plan.size / (length + 64) / 2;
    let newest = found.last().copied().unwrap_or(0);
    let from = (newest + 1).saturating_sub(fit);
    let until = if plan.end == End::Trigger {
        newest.saturating_sub(1000)
    } else {
        calls.next
    };
    let expected: Vec<u64> = (from..until)
        .filter(|seq| !calls.open.contains(seq))
        .collect();
    let missing: Vec<&u64> = expected.iter().filter(|seq| !found.contains(seq)).collect();
    let count = (missing.len() as u64).saturating_sub(calls.unsaid);
    // Jumps are taken out before a program dumps its core. Other threads may make calls then, until they end.
    let dumps_core = matches!(plan.end, End::Fault | End::Abort);
    let late = missing.iter().filter(|seq| dumps_core && ***seq > newest);
    let late = late.count() as u64;
    let facts = format!(
        "{plan:?}: {} of {} are missing, the first {:?}; {} calls were unsaid; {in_file} are in the file, {} in all, up to {newest} of {}:\n{said}",
        missing.len(),
        expected.len(),
        missing.first(),
        calls.unsaid,
        found.len(),
        calls.next,
    );
    if count.saturating_sub(late) > counted(said) {
        return Err(facts);
    }
    if !missing.is_empty() {
        println!("{facts}\n");
    }
    Ok(Tally {
        expected: expected.len() as u64,
        missing: count,
    })
}

#[test]
fn a_flight_recorder_has_the_newest_frames_after_any_end() {
    let times: u64 = setting("TRACEWIRE_FLIGHT_TIMES", 10);
    let seed: u64 = setting("TRACEWIRE_FLIGHT_SEED", 1);
    let folder = tempfile::tempdir().unwrap();
    let built = build(folder.path());
    let begun = Instant::now();
    let mut all = Tally::default();
    let mut faults = 0;
    for time in 0..times {
        let mut random = Rng::with_seed(seed.wrapping_mul(1_000_003).wrapping_add(time));
        let folder = tempfile::tempdir().unwrap();
        match round(&built, folder.path(), Plan::random(&mut random)) {
            Ok(own) => {
                all.expected += own.expected;
                all.missing += own.missing;
            }
            Err(error) => {
                faults += 1;
                println!("round {time} of seed {seed}: {error}\n");
            }
        }
        if time % 100 == 99 {
            println!("{} ends after {:.0?}", time + 1, begun.elapsed());
        }
    }
    let Tally { expected, missing } = all;
    println!(
        "{times} ends, {faults} faults: {missing} of {expected} calls have no frame; {:.0?}",
        begun.elapsed()
    );
    assert_eq!(faults, 0);
    assert!(missing * 1000 <= expected, "{missing} of {expected}");
}

/// Where a frame is between its ring and the file, and which file that is.
const STEPS: [&str; 8] = [
    "ring/tail",
    "ring/tail-moved",
    "frames/place-said",
    "circular/next-begun",
    "circular/in-next",
    "spool/successor-named",
    "circular/turned",
    "buffer/turned",
];

#[test]
fn a_tracer_killed_at_each_step_loses_no_frame() {
    let folder = tempfile::tempdir().unwrap();
    let built = build(folder.path());
    for point in STEPS {
        let folder = tempfile::tempdir().unwrap();
        let plan = Plan {
            end: End::TracerKilled,
            threads: 2,
            size: 1 << 20,
            moment: 0,
            after: Some(0),
            point: Some(point),
        };
        let tally = round(&built, folder.path(), plan).expect(point);
        assert_eq!(tally.missing, 0, "{point}");
    }
}

//! Tracewire, the program or one of its threads is killed: every call has exactly one frame, or is counted, and jumps are harmless.
//!
//! `TRACEWIRE_KILLS_TIMES` is the number of kills, `TRACEWIRE_KILLS_SEED` the seed of the rounds (`cargo xtask torture kills`).
//! `TRACEWIRE_KILLS_ROUND` runs only one round, that many times; a round that fails prints its line.

mod flight;
mod program;
mod round;
mod union;

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;

use fastrand::Rng;
use program::Counted;
use round::{Kill, Recorder, Round, Scenario, Victim, counted, rescue};
use tracewire_test_support::setting;
use tracewire_tracefile::TraceFile;
use union::Union;

/// Killed from outside, while frames come as fast as possible.
#[test]
fn a_killed_recording_and_what_is_rescued_have_each_frame_once() {
    let folder = tempfile::tempdir().unwrap();
    let built = program::build(folder.path());
    let mut random = Rng::with_seed(setting("TRACEWIRE_KILLS_SEED", 1));
    for round in 0..3 {
        let threads = [1, 2, 16][round];
        let mut program = Counted::start(&built, folder.path(), threads, 0);
        let options = ["--mechanism", "jump", "-t", "hit : thread, seq, check"];
        let mut recorder = Recorder::start(folder.path(), &program, &options, &[]);
        assert!(recorder.wait_until_placed(1).unwrap());
        program.begin();
        program.wait_for(random.u64(..100_000), || false);
        let before = program.counts();
        recorder.kill();
        assert_eq!(program.ended(), None, "round {round}");
        let said = rescue(folder.path(), program.id(), &[]).unwrap();
        let mut union = Union::default();
        let growing = folder.path().join("out.tf.recording");
        let taken = union.add(&growing).unwrap();
        let rest = folder.path().join("rest.tf");
        if rest.exists() {
            union.add(&rest).unwrap();
            std::fs::remove_file(&rest).unwrap();
        }
        let (missing, gap) = union.missing(&before, true);
        assert!(
            missing <= counted(&said),
            "round {round}: {missing} frames are missing, the first {gap:?}; {taken} are in the first file:\n{said}"
        );
        std::fs::remove_file(&growing).unwrap();
        let (status, _) = program.finish();
        assert!(status.success(), "round {round}: {status}");
    }
}

/// Threads that are moved away for a remote system call keep their signal masks; the end of a program that dies meanwhile is
/// noticed.
#[test]
fn what_is_killed_during_a_system_call_for_tracewire_does_no_harm() {
    let program = tempfile::tempdir().unwrap();
    let built = program::build(program.path());
    for (point, count, victim) in [
        ("call/signals-blocked", 2, Victim::Tracewire),
        ("call/led-back", 3, Victim::Tracewire),
        ("share/closed", 1, Victim::Program),
    ] {
        let round = Round {
            kill: Kill {
                point: point.to_owned(),
                count,
                victim,
            },
            threads: 16,
            calls: 1000,
            pause: 0,
            choice: 0,
            scenario: Scenario {
                circular: false,
                early: true,
                mixed: false,
                rescue: false,
            },
        };
        let folder = tempfile::tempdir().unwrap();
        let reached = round::run(&round, &built, folder.path());
        assert_eq!(reached, Ok(true), "{round:?}");
    }
}

/// When the memory of the rings is gone, so are their counts of the frames that made room.
#[test]
fn a_run_that_has_left_the_program_has_its_counts_in_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let built = program::build(folder.path());
    for point in ["pads/unshared", "leave/unattended", "record/detached"] {
        let folder = tempfile::tempdir().unwrap();
        let mut program = Counted::start(&built, folder.path(), 4, 0);
        let options = ["--mechanism", "jump", "-t", "hit : thread, seq, check"];
        let options = [&options[..], &["--circular", "--buffer-size", "64KiB"]].concat();
        let set = [("TRACEWIRE_FAIL_POINT", format!("{point}:1"))];
        let mut recorder = Recorder::start(folder.path(), &program, &options, &set);
        assert!(recorder.wait_until_placed(1).unwrap());
        program.begin();
        program.wait_for(100_000, || false);
        let before = program.counts();
        recorder.interrupt();
        let (status, _) = recorder.end().unwrap();
        assert_eq!(status.signal(), Some(libc::SIGKILL), "{point}");
        assert_eq!(program.ended(), None, "{point}");
        let said = rescue(folder.path(), program.id(), &[]).unwrap();
        assert!(!said.contains("frame"), "{point}: {said}");

        let growing = folder.path().join("out.tf.recording");
        let mut union = Union::default();
        let kept = union.add(&growing).unwrap();
        let (missing, gap) = union.missing(&before, true);
        assert!(missing > 1000, "{point}: {missing} frames made room");
        assert!(
            missing <= union.counted,
            "{point}: {missing} frames are missing, the first {gap:?}; {} are counted",
            union.counted
        );
        let info = std::process::Command::new(env!("CARGO_BIN_EXE_tracewire"))
            .arg("info")
            .arg(&growing)
            .output()
            .unwrap();
        let info = String::from_utf8_lossy(&info.stdout).into_owned();
        let file = TraceFile::open(&growing).unwrap();
        let status = file.description().status().cloned().unwrap().fields;
        let made = status.frames_created.unwrap();
        let frames = format!("{kept} kept of {made} made ({} discarded)", made - kept);
        assert!(info.contains(&frames), "{point}: {frames}:\n{info}");
        // A hit whose thread lost its processor in the pad is counted without a frame, if its space was needed before it came back.
        let hits = kept + union.counted;
        assert!(
            made <= hits && hits - made < 100,
            "{point}: {made} of {hits}"
        );
        let (status, finally) = program.finish();
        assert!(status.success(), "{point}: {status}");
        let begun: u64 = finally.iter().map(|count| count.begun).sum();
        assert!(hits <= begun, "{point}: {hits} of {begun}");
    }
}

/// The names of all fail points, from the sources.
fn fail_points() -> Vec<String> {
    fn search(folder: &Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                search(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                let names = text.split("fail_point!(\"").skip(1);
                found.extend(names.filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())));
            }
        }
    }
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found = Vec::new();
    for part in [
        "jump-pad",
        "tracefile",
        "experiment",
        "target-linux",
        "recorder",
        "cli",
    ] {
        search(&crates.join(part).join("src"), &mut found);
    }
    found.sort_unstable();
    found
}

/// In every step between ring and file, between attaching and leaving, and between the bytes of a patch.
#[test]
fn what_is_killed_at_a_fail_point_loses_nothing_uncounted() {
    let points = fail_points();
    let names: BTreeSet<&String> = points.iter().collect();
    assert_eq!(names.len(), points.len(), "a name is used twice");
    assert!(points.len() >= 60, "{}", points.len());

    let times = setting("TRACEWIRE_KILLS_TIMES", 16);
    let folder = tempfile::tempdir().unwrap();
    let built = program::build(folder.path());
    if let Ok(line) = std::env::var("TRACEWIRE_KILLS_ROUND") {
        let round = Round::parse(&line).expect("a round");
        assert_eq!(round.to_string(), line);
        for _ in 0..times {
            let folder = tempfile::tempdir().unwrap();
            let reached = round::run(&round, &built, folder.path());
            assert!(reached.is_ok(), "{}", reached.unwrap_err());
        }
        return;
    }

    // Which points a scenario reaches, and how often.
    let mut reaching: BTreeMap<String, Vec<(Scenario, u64)>> = BTreeMap::new();
    for scenario in Scenario::all() {
        let folder = tempfile::tempdir().unwrap();
        let points = round::points(scenario, &built, folder.path());
        for (point, count) in points.unwrap_or_else(|error| panic!("{scenario:?}: {error}")) {
            reaching.entry(point).or_default().push((scenario, count));
        }
    }
    let (known, unknown): (Vec<&String>, Vec<&String>) = points
        .iter()
        .partition(|point| reaching.contains_key(*point));
    let seed = setting("TRACEWIRE_KILLS_SEED", 1);
    // Each before one comes again.
    let mut order = known.clone();
    let mut random = Rng::with_seed(seed);
    for place in (1..order.len()).rev() {
        let other = random.usize(..=place);
        order.swap(place, other);
    }
    let begun = std::time::Instant::now();
    let (mut kills, mut faults, mut rounds) = (0, 0, 0);
    let mut killed_at = BTreeSet::new();
    while kills < times && rounds < 2 * times {
        let point = order[usize::try_from(rounds).unwrap() % order.len()];
        let (scenario, count) = *random.choice(&reaching[point]).unwrap();
        let round = Round::random(point, scenario, count, &mut random);
        rounds += 1;
        let folder = tempfile::tempdir().unwrap();
        match round::run(&round, &built, folder.path()) {
            Ok(false) => {}
            Ok(true) => {
                kills += 1;
                killed_at.insert(point);
            }
            Err(error) => {
                kills += 1;
                faults += 1;
                println!("TRACEWIRE_KILLS_ROUND='{round}':\n{error}\n");
            }
        }
        if rounds % 100 == 0 {
            println!(
                "{kills} kills in {rounds} rounds, {faults} faults, {:.0?}",
                begun.elapsed()
            );
        }
    }
    println!(
        "{kills} kills in {rounds} rounds at {} of {} points, {faults} faults, {:.0?}; no scenario reaches {unknown:?}",
        killed_at.len(),
        points.len(),
        begun.elapsed(),
    );
    assert_eq!(faults, 0);
    assert_eq!(kills, times, "rounds kill no process");
}

//! Tracewire, the program or one of its threads is killed: every call has its frame once, or is counted.
//!
//! `TRACEWIRE_KILLS_TIMES` says how often, `TRACEWIRE_KILLS_SEED` what the rounds are made from (`cargo xtask torture kills`).

mod program;
mod union;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use program::Counted;
use union::Union;

const TRACEWIRE: &str = env!("CARGO_BIN_EXE_tracewire");

fn setting(name: &str, standard: u64) -> u64 {
    std::env::var(name).map_or(standard, |value| value.parse().expect("a number"))
}

/// Numbers that look random.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % limit
    }
}

fn record(folder: &Path, program: &Counted) -> Command {
    let mut command = Command::new(TRACEWIRE);
    command
        .current_dir(folder)
        .args(["record", "-o", "out.tf", "--mechanism", "jump"])
        .args(["-t", "hit : thread, seq, check"])
        .args(["-p", &program.id().to_string()])
        .stdin(Stdio::null())
        .stderr(Stdio::piped());
    command
}

/// Waits until the tracepoint is in; `false` if Tracewire has ended before.
fn wait_until_placed(recorder: &mut Child) -> bool {
    let said = BufReader::new(recorder.stderr.take().expect("stderr"));
    let mut said = said.lines().map_while(Result::ok);
    let placed = said.any(|line| line.contains("by jump"));
    // It must not wait for somebody who reads.
    std::thread::spawn(move || said.for_each(drop));
    placed
}

/// What `rescue` says of frames that are lost, in all.
fn counted(said: &str) -> u64 {
    said.lines()
        .filter(|line| line.contains(" lost: ") || line.contains(" made room "))
        .map(|line| {
            let count = line.split_whitespace().nth(1).expect("a number");
            count.replace(',', "").parse::<u64>().expect("a number")
        })
        .sum()
}

/// Saves what a killed Tracewire has left; what that says.
fn rescue(folder: &Path, program: &Counted) -> String {
    let done = Command::new(TRACEWIRE)
        .current_dir(folder)
        .args(["rescue", "-o", "rest.tf", "-p", &program.id().to_string()])
        .output()
        .expect("tracewire runs");
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(matches!(done.status.code(), Some(0 | 1)), "{said}");
    said
}

/// Killed by somebody else, while frames come as fast as they can.
#[test]
fn a_killed_recording_and_what_is_rescued_have_each_frame_once() {
    let folder = tempfile::tempdir().unwrap();
    let built = program::build(folder.path());
    let mut random = Random(setting("TRACEWIRE_KILLS_SEED", 1));
    for round in 0..setting("TRACEWIRE_KILLS_TIMES", 3) {
        let threads = [1, 2, 16][usize::try_from(round % 3).unwrap()];
        let mut program = Counted::start(&built, folder.path(), threads);
        let mut recorder = record(folder.path(), &program).spawn().unwrap();
        assert!(wait_until_placed(&mut recorder));
        program.begin();
        program.wait_for(random.below(100_000), || false);
        let before = program.counts();
        recorder.kill().unwrap();
        recorder.wait().unwrap();
        assert_eq!(program.ended(), None, "round {round}");
        let said = rescue(folder.path(), &program);
        let mut union = Union::default();
        let growing = folder.path().join("out.tf.recording");
        let taken = union.add(&growing).unwrap();
        let rest = folder.path().join("rest.tf");
        if rest.exists() {
            union.add(&rest).unwrap();
            std::fs::remove_file(&rest).unwrap();
        }
        let missing = union.missing(&before, true);
        assert!(
            missing <= counted(&said),
            "round {round}, {threads} threads: {missing} of {} missing, the first {:?}, {taken} in the first file:\n{said}",
            union.frames,
            union.first_gap(&before)
        );
        std::fs::remove_file(&growing).unwrap();
        let (status, _) = program.finish();
        assert!(status.success(), "round {round}: {status}");
    }
}

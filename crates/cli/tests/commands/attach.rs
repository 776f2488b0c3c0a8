//! Attaching to a busy program again and again, and leaving it at any moment.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use crate::support::{Built, tracewire};
use crate::working::{self, Working};

/// How often the program is visited; TRACEWIRE_ATTACH_TIMES sets another number.
fn times() -> usize {
    std::env::var("TRACEWIRE_ATTACH_TIMES").map_or(20, |times| times.parse().expect("a number"))
}

#[test]
fn a_program_visited_again_and_again_computes_right() {
    let built = working::build(4, 2000);
    let mut program = Working::start(&built);
    let mut recorded = 0;
    for visit in 0..times() {
        recorded += usize::from(visit_once(&built, &program, visit));
        assert!(
            program.ended().is_none(),
            "the program is gone after visit {visit}"
        );
    }
    program.finish().expect("alive");
    // Every fourth visit waits for frames; the others may be cut short before they have a file.
    assert!(recorded * 4 >= times(), "{recorded} of {} visits", times());
    let _ = writeln!(
        std::io::stderr(),
        "{recorded} of {} visits left a file",
        times()
    );
}

/// Whether the visit left a file with frames in it.
fn visit_once(built: &Built, program: &Working, visit: usize) -> bool {
    let file = format!("{visit}.tf");
    let mut recorder = tracewire();
    recorder
        .current_dir(built.folder.path())
        .args(["record", "-o", &file, "-p", &program.id().to_string()])
        .args(["-t", "mix if state % 16 == 0 : state, *salt@4"])
        .stderr(Stdio::piped());
    let ends_itself = visit.is_multiple_of(4);
    if ends_itself {
        recorder.args(["--duration", "0.02"]);
    }
    let mut recorder = recorder.spawn().expect("tracewire runs");
    if !ends_itself {
        // At another moment each time: before anything, when the tracepoint is in, or after some hits.
        let mut says = BufReader::new(recorder.stderr.take().expect("stderr"));
        if visit % 4 != 1 {
            says.read_line(&mut String::new()).expect("text");
        }
        if visit % 4 == 3 {
            let growing = built.path(&format!("{file}.recording"));
            let has_frames = || {
                tracewire_tracefile::TraceFile::open(&growing)
                    .is_ok_and(|file| file.frame_count() > visit as u64)
            };
            while !has_frames() {
                assert!(recorder.try_wait().expect("waited").is_none());
                std::thread::yield_now();
            }
        }
        let signal = ["-INT", "-TERM"][visit / 4 % 2];
        let killed = Command::new("kill")
            .args([signal, &recorder.id().to_string()])
            .status();
        assert!(killed.expect("kill runs").success());
        std::io::copy(&mut says, &mut std::io::sink()).expect("text");
    }
    let ended = recorder.wait_with_output().expect("ended");
    if ends_itself || visit % 4 == 3 {
        // A short visit may see no hit.
        let code = ended.status.code();
        assert!(matches!(code, Some(0 | 1)), "visit {visit}: {ended:?}");
    }
    let file = tracewire_tracefile::TraceFile::open(built.path(&file));
    file.is_ok_and(|file| file.frame_count() > 0)
}

//! What a killed Tracewire has left, taken out and saved.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::support::{ran, tracewire, value};
use crate::working::{self, Working};

#[test]
fn what_a_killed_recording_left_is_saved_and_taken_out() {
    let built = working::build(2, 2000);
    let mut program = Working::start(&built);
    let rescue = |program: &Working| {
        ran(tracewire()
            .current_dir(built.folder.path())
            .args(["rescue", "-p", &program.id().to_string()])
            .args(["-o", "rest.tf"])
            .output()
            .expect("tracewire runs"))
    };
    rescue(&program).code(1).says(&["nothing was left there"]);
    // Twice: the second takes the first one's jump out.
    for round in 0..2 {
        let mut recorder = tracewire()
            .current_dir(built.folder.path())
            .args([
                "record",
                "-o",
                "out.tf",
                "--mechanism",
                "jump",
                "--circular",
            ])
            .args(["-p", &program.id().to_string()])
            .args(["-t", "mix if state % 3 == 0 : state, *salt@4"])
            .stderr(Stdio::piped())
            .spawn()
            .expect("tracewire runs");
        let said = BufReader::new(recorder.stderr.take().expect("stderr"));
        let mut said = said.lines().map_while(Result::ok);
        let taken_over = said.next().expect("text").contains("had left 1 jump, ");
        assert_eq!(taken_over, round == 1);
        assert!(said.any(|line| line.contains("by ")), "round {round}");
        recorder.kill().expect("killed");
        recorder.wait().expect("ended");
    }
    let done = rescue(&program).code(0).says(&["1 jump taken out"]);
    if done.stderr.contains("rest.tf: ") {
        let info = built.run(&["info", "rest.tf", "--json"]).code(0).json();
        assert_eq!(info[0]["tracepoints"][0]["source"]["at"], "mix");
        assert_ne!(info[0]["frames"], 0);
        built.run(&["check", "rest.tf"]).code(0);
        let shown = built.run(&["show", "--json", "rest.tf"]).code(0).json();
        assert!(value(&shown[0], "state").is_some(), "{}", shown[0]);
    }
    assert!(program.ended().is_none());
    // Its code is what it was: a recording by traps finds the same places, and nothing is left to be saved.
    rescue(&program).code(1).says(&["nothing was left there"]);
    program.finish().expect("alive");
}

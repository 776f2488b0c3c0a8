//! `repair`, and the output of `check` before and after.

use std::fs;

use serde_json::Value;

use crate::generated::{Described, smallest, write};
use crate::support::{Built, Ran, run};
use tracewire_arch::Architecture;
use tracewire_tracefile::Checksum;

fn folder() -> Built {
    Built::at(tempfile::tempdir().expect("a folder"))
}

fn sample() -> Vec<u8> {
    fs::read(tracewire_test_support::sample("sample.tf")).expect("the sample")
}

/// The errors of `check`, of which there must be some.
fn errors(checked: Ran) -> Vec<Value> {
    let mut findings = checked.code(1).json();
    findings.retain(|finding| finding["severity"] == "error");
    assert!(!findings.is_empty());
    findings
}

fn frames(folder: &Built, name: &str) -> Vec<Value> {
    folder.run(&["show", name, "--json"]).code(0).json()
}

/// Frames without their numbers, which change where others are lost.
fn unnumbered(mut frames: Vec<Value>) -> Vec<Value> {
    for frame in &mut frames {
        frame.as_object_mut().expect("an object").remove("frame");
    }
    frames
}

#[test]
fn a_cut_file_becomes_a_good_one() {
    let folder = folder();
    let bytes = sample();
    for (length, whole) in [(30_000, 5), (77_130, 23), (500, 0), (4, 0)] {
        fs::write(folder.path("cut.tf"), &bytes[..length]).expect("written");
        if length > 8 {
            errors(folder.run(&["check", "cut.tf", "--json"]));
        } else {
            folder.run(&["check", "cut.tf"]).code(2);
        }
        let before = fs::read(folder.path("cut.tf")).expect("read");
        let done = folder.run(&["repair", "cut.tf", "-o", "good.tf"]).code(0);
        assert_eq!(done.stdout, "");
        assert!(fs::read(folder.path("cut.tf")).expect("read") == before);
        folder.run(&["check", "good.tf"]).code(0);
        let found = frames(&folder, "good.tf");
        assert_eq!(found.len(), whole, "{length}");
        assert_eq!(found, frames_of_sample(whole));
        if whole > 0 {
            let words = format!("{whole} frames of 24");
            done.says(&["no whole frame", "end marker was missing", &words]);
        }
    }
    assert!(!folder.path("good.tf.part").exists());
}

fn frames_of_sample(count: usize) -> Vec<Value> {
    let mut frames = run("show sample.tf --json").code(0).json();
    frames.truncate(count);
    frames
}

#[test]
fn damage_costs_the_frame_it_hits_and_is_told_with_its_place() {
    let folder = folder();
    let mut bytes = sample();
    // The size of a frame in the midst, and a tracepoint's line.
    let info = run("check sample.tf --json").code(0);
    assert_eq!(info.stdout, "");
    bytes[22_199 + 2] = 0x55;
    let line = bytes
        .windows(5)
        .position(|found| found == b"\ntp T")
        .expect("a tracepoint")
        + 4;
    bytes[line] = b'?';
    fs::write(folder.path("bad.tf"), &bytes).expect("written");
    let found = errors(folder.run(&["check", "bad.tf", "--json"]));
    assert!(
        found.iter().any(|finding| finding["line"].is_u64()),
        "{found:?}"
    );
    folder
        .run(&["repair", "bad.tf", "-o", "good.tf"])
        .code(0)
        .says(&[
            "line 247",
            "offset 22199",
            "frame 1 now",
            "had no definition",
            "23 frames of 24",
        ]);
    folder.run(&["check", "good.tf"]).code(0);
    let mut expected = frames_of_sample(24);
    expected.remove(2);
    // Only the lost definition of the tracepoint distinguishes a step from a hit.
    let plain = |mut frames: Vec<Value>| {
        for frame in &mut frames {
            frame.as_object_mut().expect("an object").remove("stepping");
        }
        unnumbered(frames)
    };
    assert_eq!(plain(frames(&folder, "good.tf")), plain(expected));
}

#[test]
fn a_good_file_stays_as_it_is() {
    let folder = folder();
    fs::write(folder.path("in.tf"), sample()).expect("written");
    folder
        .run(&["repair", "in.tf", "-o", "out.tf"])
        .code(0)
        .says(&["nothing is wrong", "24 frames of 24"]);
    assert!(fs::read(folder.path("out.tf")).expect("read") == sample());
    for machine in [
        Architecture::Mips,
        Architecture::PowerPc,
        Architecture::Nios2,
    ] {
        // gdbserver sends only the machine's name to a GDB that reads no XML.
        for described in [Described::Nothing, Described::Machine, Described::Registers] {
            write(&folder.path("in.tf"), &smallest(machine), described, 12);
            folder
                .run(&["repair", "in.tf", "-o", "out.tf"])
                .code(0)
                .says(&["nothing is wrong"]);
            let read = |name: &str| fs::read(folder.path(name)).expect("read");
            assert!(read("in.tf") == read("out.tf"));
            // Cut and damaged, too: the frame before the cut, and one in the midst.
            let mut bytes = read("in.tf");
            let (before, _) = Checksum::split(&bytes).expect("a checksum");
            bytes.truncate(before.len() - 10);
            let frame = bytes.len() / 12 * 10;
            bytes[frame..frame + 8].fill(0xaa);
            fs::write(folder.path("bad.tf"), &bytes).expect("written");
            let machine = ["--architecture", machine.name()];
            errors(folder.run(&[&["check", "bad.tf", "--json"], &machine[..]].concat()));
            folder.run(&["repair", "bad.tf", "-o", "good.tf"]).code(0);
            folder
                .run(&[&["check", "good.tf"], &machine[..]].concat())
                .code(0);
            let kept = frames(&folder, "good.tf").len();
            assert!((10..=11).contains(&kept), "{machine:?}: {kept} frames");
        }
    }
}

#[test]
fn the_damaged_file_is_replaced_only_when_that_is_said() {
    let folder = folder();
    let cut = &sample()[..70_000];
    fs::write(folder.path("cut.tf"), cut).expect("written");
    std::os::unix::fs::symlink("cut.tf", folder.path("link.tf")).expect("linked");
    for output in ["cut.tf", "./cut.tf", "link.tf"] {
        folder
            .run(&["repair", "cut.tf", "-o", output])
            .code(2)
            .says(&["damaged file itself", "--in-place"]);
        assert!(fs::read(folder.path("cut.tf")).expect("read") == cut);
    }
    folder.run(&["repair", "link.tf", "--in-place"]).code(0);
    assert!(folder.path("link.tf").is_symlink());
    folder.run(&["check", "cut.tf"]).code(0);
    assert_eq!(frames(&folder, "cut.tf").len(), 21);
}

#[test]
fn what_cannot_be_repaired_leaves_nothing_behind() {
    let folder = folder();
    let nothing = |arguments: &[&str], code| {
        let ran = folder.run(arguments).code(code);
        assert!(!folder.path("out.tf").exists());
        ran
    };
    nothing(&["repair", "/bin/true", "-o", "out.tf"], 1).says(&["no file is written"]);
    fs::write(folder.path("text"), "no trace file\n\nat all\n").expect("written");
    nothing(&["repair", "text", "-o", "out.tf"], 1).says(&["nothing in it"]);
    fs::write(folder.path("empty"), "").expect("written");
    nothing(&["repair", "empty", "-o", "out.tf"], 1).says(&["nothing in it"]);
    nothing(&["repair", "/dev/zero", "-o", "out.tf"], 2).says(&["it is a device"]);
    nothing(&["info", "/dev/zero"], 2).says(&["it is a device"]);
    nothing(&["repair", "none.tf", "-o", "out.tf"], 2).says(&["none.tf"]);
    nothing(&["repair", ".", "-o", "out.tf"], 2);
    nothing(&["repair", "text"], 2).says(&["--output"]);
    nothing(&["repair", "text", "-o", "/dev/null"], 1).says(&["nothing in it"]);
    nothing(&["repair", "text", "-o", "no/out.tf"], 2).says(&["cannot write"]);
    nothing(&["repair", "text", "-o", "out.tf", "--in-place"], 2).says(&["cannot be used with"]);
    // Nothing that is no ordinary file is replaced by another command either.
    let sample = tracewire_test_support::sample("sample.tf")
        .display()
        .to_string();
    nothing(&["convert", &sample, "/dev/null", "--to", "tf"], 2).says(&["no ordinary file"]);
    let help = run("repair --help").code(0).stdout;
    for words in ["Exit status 0", "repair IN -o OUT", "byte for byte"] {
        assert!(help.contains(words), "{words} in:\n{help}");
    }
}

/// A pipe can be read only once.
#[test]
fn a_pipe_is_repaired_whatever_its_header() {
    let folder = folder();
    let mut bytes = sample();
    bytes[3] = b'x';
    fs::write(folder.path("damaged.tf"), &bytes).expect("written");
    let pipe = "cat damaged.tf | $TRACEWIRE repair /dev/stdin -o good.tf";
    let ran = std::process::Command::new("sh")
        .args(["-c", pipe])
        .env("TRACEWIRE", env!("CARGO_BIN_EXE_tracewire"))
        .current_dir(folder.path(""))
        .output()
        .expect("a shell");
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(said.contains("24 frames of 24"), "{said}");
    assert_eq!(frames(&folder, "good.tf"), frames_of_sample(24));
}

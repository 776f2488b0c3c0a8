//! `seal`: a checksum for a file of GDB's.

use std::fs;

use tracewire_model::FrameNumber;
use tracewire_test_support::Gdb;
use tracewire_tracefile::TraceFile;

use crate::support::Built;

fn sample() -> Built {
    let folder = Built::at(tempfile::tempdir().expect("a folder"));
    fs::copy(
        tracewire_test_support::sample("sample.tf"),
        folder.path("run.tf"),
    )
    .expect("copied");
    folder
}

/// GDB's output for the last frame, and for the one after that.
fn in_gdb(folder: &Built, name: &str) -> String {
    let gdb = Gdb::new().directory(&folder.path("."));
    let gdb = gdb.command(format!("target tfile {name}"));
    let gdb = gdb.commands(["tfind 23", "info registers", "tdump", "tstatus", "tfind"]);
    let text = gdb.run().output;
    assert!(text.contains("Found trace frame 23"), "{text}");
    text.replace(name, "the file")
}

/// The smallest damage that GDB's format cannot show: one bit of a collected register.
#[test]
fn a_changed_value_shows_once_the_file_is_sealed() {
    let folder = sample();
    let checked = folder.run(&["check", "run.tf"]).code(0);
    checked.says(&[
        ", 0 errors, 0 warnings; it has no checksum",
        "tracewire seal",
    ]);
    let unsealed = in_gdb(&folder, "run.tf");
    fs::copy(folder.path("run.tf"), folder.path("unsealed.tf")).expect("copied");

    folder
        .run(&["seal", "run.tf"])
        .code(0)
        .says(&["checksum crc32"]);
    let checked = folder.run(&["check", "run.tf"]).code(0);
    assert!(checked.stderr.ends_with(" frames, 0 errors, 0 warnings\n"));
    assert_eq!(in_gdb(&folder, "run.tf"), unsealed);
    folder
        .run(&["seal", "run.tf"])
        .code(0)
        .says(&["it has its checksum already"]);

    // After the frame's number and size and the `R`: the first byte of its first register.
    let file = TraceFile::open(tracewire_test_support::sample("sample.tf")).expect("the sample");
    let offset = file.frame(FrameNumber(7)).expect("a frame").offset() as usize;
    for (name, code) in [("unsealed.tf", 0), ("run.tf", 1)] {
        let mut bytes = fs::read(folder.path(name)).expect("read");
        bytes[offset + 7] ^= 1;
        fs::write(folder.path(name), bytes).expect("written");
        let checked = folder.run(&["check", name]).code(code);
        assert_eq!(
            checked.stdout.contains("something in it is damaged"),
            code == 1
        );
    }
}

#[test]
fn a_file_with_errors_is_left_as_it_is() {
    let folder = sample();
    let whole = fs::read(folder.path("run.tf")).expect("read");
    let cut = &whole[..whole.len() - 300];
    fs::write(folder.path("cut.tf"), cut).expect("written");
    let sealed = folder.run(&["seal", "cut.tf", "run.tf"]).code(1);
    sealed.says(&["cut.tf: ", "it is left as it is", "run.tf: checksum crc32"]);
    assert_eq!(fs::read(folder.path("cut.tf")).expect("read"), cut);
    folder.run(&["repair", "cut.tf", "-o", "good.tf"]).code(0);
    folder.run(&["seal", "good.tf"]).code(0).says(&["already"]);

    folder.run(&["seal", "none.tf"]).code(2).says(&["none.tf"]);
    fs::write(folder.path("text"), "no trace file").expect("written");
    folder
        .run(&["seal", "text"])
        .code(2)
        .says(&["no trace file"]);
}

#[test]
fn converting_keeps_the_checksum_line() {
    let folder = sample();
    folder.run(&["seal", "run.tf"]).code(0);
    folder.run(&["convert", "run.tf", "run.jsonl"]).code(0);
    folder.run(&["convert", "run.jsonl", "back.tf"]).code(0);
    let read = |name| fs::read(folder.path(name)).expect("read");
    assert!(read("back.tf") == read("run.tf"));
}

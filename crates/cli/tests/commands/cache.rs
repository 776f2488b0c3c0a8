//! The index of a large file, kept for the next command.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use tracewire_arch::Architecture;
use tracewire_model::FrameNumber;
use tracewire_tracefile::TraceFile;

use crate::generated::{Described, smallest, write};
use crate::support::{Built, Ran, ran, tracewire};

/// Enough frames for a file whose index is worth keeping.
const FRAMES: u64 = 70_000;

fn run(folder: &Built, cache: &Path, arguments: &[&str]) -> Ran {
    let done = ran(tracewire()
        .current_dir(folder.folder.path())
        .env("XDG_CACHE_HOME", cache)
        .args(arguments)
        .output()
        .expect("tracewire runs"));
    assert!(!done.stderr.contains("cache"), "{}", done.stderr);
    done
}

#[test]
fn the_index_is_kept_found_stale_and_done_without() {
    let folder = Built::at(tempfile::tempdir().expect("a folder"));
    write(
        &folder.path("big.tf"),
        &smallest(Architecture::Nios2),
        Described::Registers,
        FRAMES,
    );
    let cache = folder.path("cache");
    let last = (FRAMES - 1).to_string();
    let cut = [
        "convert", "big.tf", "-", "--to", "jsonl", "--frame", "69998..",
    ];
    let commands: [&[&str]; 5] = [
        &["info", "--json", "big.tf"],
        &["show", "--json", "big.tf", "--frame", &last],
        &["find", "big.tf", "--pc", "0x402000", "--from", "69990"],
        &["check", "big.tf"],
        &cut,
    ];
    // The first command finds no index, and the others the one it made.
    let with: Vec<_> = commands
        .map(|command| run(&folder, &cache, command).code(0).stdout)
        .into();
    assert!(with[0].contains("\"frames\":70000"), "{}", with[0]);
    assert_eq!(with[2], "69991\n69993\n69995\n69997\n69999\n");
    assert_eq!(
        with[4]
            .lines()
            .filter(|line| line.contains("\"frame\""))
            .count(),
        2
    );
    let kept = fs::read_dir(cache.join("tracewire"))
        .expect("a folder")
        .count();
    assert_eq!(kept, 1);
    // A directory that cannot be written, or none, is no error, and no message is printed.
    fs::write(folder.path("file"), "").expect("written");
    for place in [Path::new("/proc/none"), &folder.path("file"), Path::new("")] {
        for (command, expected) in commands.iter().zip(&with) {
            let done = run(&folder, place, command).code(0);
            assert!(done.stdout == *expected, "{command:?}");
        }
    }
    // Another file of the same name: the index is made again.
    write(
        &folder.path("big.tf"),
        &smallest(Architecture::MipsLittle),
        Described::Registers,
        FRAMES / 2,
    );
    let info = run(&folder, &cache, commands[0]).code(0).json().remove(0);
    assert_eq!(info["frames"], FRAMES / 2);
    assert_eq!(info["architecture"], "mipsel");
    let found = run(
        &folder,
        &cache,
        &["find", "big.tf", "--pc", "0x402000", "--from", "34990"],
    );
    assert_eq!(found.code(0).stdout, "34991\n34993\n34995\n34997\n34999\n");
}

/// A disk's damage leaves a file's size and time as they were, so that its index seems good: `check` does not ask it.
#[test]
fn damage_since_the_index_was_made_is_found() {
    let folder = Built::at(tempfile::tempdir().expect("a folder"));
    let (cache, path) = (folder.path("cache"), folder.path("big.tf"));
    write(
        &path,
        &smallest(Architecture::Nios2),
        Described::Registers,
        FRAMES,
    );
    run(&folder, &cache, &["info", "big.tf"]).code(0);
    let frame = TraceFile::open(&path)
        .expect("a trace file")
        .frame(FrameNumber(FRAMES / 2))
        .expect("a frame")
        .offset();
    let file = File::options().write(true).open(&path).expect("opened");
    let time = file.metadata().expect("a file").modified().expect("a time");
    // Its size: the frames after it then begin elsewhere.
    file.write_all_at(&[7], frame + 3).expect("written");
    file.set_modified(time).expect("set");
    let checked = run(&folder, &cache, &["check", "big.tf"]).code(1);
    let counted = format!("the status line says {FRAMES} frames; there are ");
    assert!(checked.stdout.contains(&counted), "{}", checked.stdout);
}

/// The user's machine is used with a kept index too.
#[test]
fn a_machine_that_is_said_holds_for_a_kept_index() {
    let folder = Built::at(tempfile::tempdir().expect("a folder"));
    let cache = folder.path("cache");
    write(
        &folder.path("big.tf"),
        &smallest(Architecture::Mips),
        Described::Nothing,
        FRAMES,
    );
    for _ in 0..2 {
        // Without a description, a frame is at its tracepoint; with one, at its program counter.
        let find = ["find", "big.tf", "--pc", "0x402000", "--from", "69996"];
        let reported = run(&folder, &cache, &find).code(0).stdout;
        assert_eq!(reported, "69997\n69999\n");
        let said = [
            &find[..],
            &["--architecture", "mips", "--where", "$r5 != 0"],
        ]
        .concat();
        assert_eq!(run(&folder, &cache, &said).code(0).stdout, reported);
        let info = ["info", "--json", "big.tf", "--architecture", "mips"];
        let info = run(&folder, &cache, &info).code(0).json().remove(0);
        assert_eq!(
            info["registers"],
            smallest(Architecture::Mips).layout().registers().len()
        );
    }
}

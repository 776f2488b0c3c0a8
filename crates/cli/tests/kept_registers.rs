//! Frames of `tracewire gdbserver` keep only the requested registers: for real GDB the others are unavailable, the buffer holds
//! more frames, and the saved file opens in GDB and Tracewire.

use std::path::{Path, PathBuf};
use std::process::Command;

use tracewire_model::FrameNumber;
use tracewire_test_support::{Cc, Gdb, assert_clean, assert_in_order};
use tracewire_tracefile::TraceFile;

const TRACEWIRE: &str = env!("CARGO_BIN_EXE_tracewire");

fn build(folder: &Path, optimised: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/many.c");
    Cc::new()
        .options(&[optimised, "-no-pie", "-fno-pie"])
        .source(source)
        .build_in(folder)
}

/// Makes GDB execute commands. Returns its output.
fn gdb(folder: &Path, commands: &[&str]) -> String {
    Gdb::new().directory(folder).commands(commands).run().all()
}

/// A run of so many hits that collect this, and then commands.
fn run(
    folder: &Path,
    program: &Path,
    server: &str,
    hits: u64,
    kind: &str,
    collect: &str,
    then: &[&str],
) -> String {
    let script = folder.join("trace.gdb");
    std::fs::write(
        &script,
        format!("{kind} work\nactions\n{collect}\nend\ntstart\ncontinue\ntstop\n"),
    )
    .unwrap();
    let connect = format!(
        "target remote | {TRACEWIRE} gdbserver --once {server} - {} {hits}",
        program.display()
    );
    let (file, script) = (
        format!("file {}", program.display()),
        format!("source {}", script.display()),
    );
    let mut commands = vec![
        &file[..],
        &connect,
        "break main",
        "continue",
        "break fflush",
        &script,
    ];
    commands.extend(then);
    gdb(folder, &commands)
}

/// The number in a line of `tstatus`.
#[track_caller]
fn number(said: &str, before: &str, after: &str) -> u64 {
    let (_, rest) = said.split_once(before).expect(said);
    let (number, _) = rest.split_once(after).expect(said);
    number.trim().parse().expect(said)
}

#[test]
fn a_buffer_holds_as_many_frames_as_fit_of_what_was_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let program = build(folder.path(), "-O2");
    let said = run(
        folder.path(),
        &program,
        "",
        20_000,
        "set trace-buffer-size 2000000\nftrace",
        "collect index, message->length",
        &[
            "tstatus",
            "tfind 19999",
            "tdump",
            "info registers rip rdi rsi rbx rsp xmm0",
        ],
    );
    assert_eq!(
        number(&said, "Collected ", " trace frames"),
        20_000,
        "{said}"
    );
    let free = number(&said, "Trace buffer has ", " bytes of");
    assert!((2_000_000 - free) / 20_000 <= 80, "{said}");
    assert_in_order(
        &said,
        &[
            "Found trace frame 19999",
            "index = 19999",
            "message->length = 5",
            "rip            0x",
            "rdi            0x4e1f ",
            "rsi            0x7",
            "rbx            <unavailable>",
            "rsp            0x7ff",
            "v2_double = {<unavailable>, <unavailable>}",
        ],
    );
}

#[test]
fn all_registers_are_there_where_all_were_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let program = build(folder.path(), "-O2");
    for kind in ["ftrace", "trace"] {
        let said = run(
            folder.path(),
            &program,
            "",
            10,
            kind,
            "collect $regs",
            &[
                "tfind 3",
                "p/x $rip == (long)work",
                "info registers",
                "p $xmm0.v2_double[0]",
            ],
        );
        assert!(!said.contains("<unavailable>"), "{said}");
        // The last one that GDB lists on this machine.
        let last = match std::arch::is_x86_feature_detected!("avx512f") {
            true => "\nk7 ",
            false => "\ngs ",
        };
        // The weight is passed in it.
        assert_in_order(&said, &["Found trace frame 3", "= 0x1", last, "= 1.5"]);
    }
}

#[test]
fn what_gdb_and_the_server_save_is_opened_by_both() {
    let folder = tempfile::tempdir().unwrap();
    for optimised in ["-O0", "-O2"] {
        let program = build(folder.path(), optimised);
        let said = run(
            folder.path(),
            &program,
            "--files .",
            10,
            "trace",
            "collect index, message->length\nwhile-stepping 1\ncollect $rdi\nend",
            &["tsave gdb.tf", "tsave -r server.tf", "tsave -r again.tf"],
        );
        for name in ["gdb.tf", "server.tf", "again.tf"] {
            let path = folder.path().join(name);
            assert_clean(&path);
            let file = TraceFile::open(&path).unwrap();
            assert_eq!(file.frame_count(), 20, "{said}");
            let frame = file.frame(FrameNumber(6)).unwrap();
            assert_eq!(frame.is_step(), Some(false));
            assert!(frame.register_value_named("rip").is_some());
            assert_eq!(frame.register_value_named("rbx"), None);
            let step = file.frame(FrameNumber(7)).unwrap();
            assert_eq!(step.is_step(), Some(true));
            assert!(step.register_value_named("rdi").is_some());
            assert_eq!(step.register_value_named("rsi"), None);

            let open = format!("target tfile {name}");
            let shown = format!("file {}", program.display());
            let said = gdb(
                folder.path(),
                &[
                    &shown, &open, "tfind 6", "tdump", "tfind 7", "p $_", "p/x $rdi",
                ],
            );
            assert_in_order(
                &said,
                &["frame 6", "index = 3", "message->length = 5", "frame 7"],
            );
            let output = Command::new(TRACEWIRE)
                .args(["show", "--frame", "6", "--elf"])
                .args([&program, &path])
                .output()
                .unwrap();
            let shown = String::from_utf8_lossy(&output.stdout).into_owned();
            assert_in_order(&shown, &["index = 3", "message->length = 5"]);
        }
        // The server's blocks end after the last register that is collected, `rip`.
        let file = TraceFile::open(folder.path().join("server.tf")).unwrap();
        assert_eq!(file.register_block_size(), Some(17 * 8));
    }
}

#[test]
fn a_circular_buffer_is_read_and_saved_to_its_last_frame() {
    let folder = tempfile::tempdir().unwrap();
    let program = build(folder.path(), "-O2");
    let said = run(
        folder.path(),
        &program,
        "--files .",
        2000,
        "set circular-trace-buffer on\nset trace-buffer-size 10000\nftrace",
        "collect index",
        &[
            "tstatus",
            "tfind 0",
            "p index",
            "tsave gdb.tf",
            "tsave -r server.tf",
        ],
    );
    let kept = number(&said, "Buffer contains ", " trace frames");
    assert!((100..500).contains(&kept), "{said}");
    assert_eq!(number(&said, "(of ", " created total"), 2000, "{said}");
    assert!(said.contains(&format!("= {}", 2000 - kept)), "{said}");
    for name in ["gdb.tf", "server.tf"] {
        assert_clean(&folder.path().join(name));
        let file = TraceFile::open(folder.path().join(name)).unwrap();
        let indices = file
            .frames()
            .map(|frame| frame.register_value_named("rdi").unwrap());
        assert!(indices.eq(2000 - kept..2000), "{name}: {said}");
    }
}

//! `tracewire gdbserver` to real GDB: stops, steps, threads and signals, and a whole session with tracepoints.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tracewire_model::StopReason;
use tracewire_test_support::{Cc, Gdb, Said, assert_clean, sample};
use tracewire_tracefile::{Block, FrameEncoder, FrameFormat, TraceFile, TraceFileWriter};

const TRACEWIRE: &str = env!("CARGO_BIN_EXE_tracewire");

fn build(folder: &Path, source: impl AsRef<Path>) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/programs")
        .join(source);
    Cc::new()
        .options(&["-O0", "-fPIE", "-pie", "-pthread"])
        .source(source)
        .build_in(folder)
}

/// Connects GDB to the program through a pipe and sends it commands.
fn session(folder: &Path, program: &Path, options: &str, commands: &[&str]) -> Said {
    let connect = format!(
        "target remote | {TRACEWIRE} gdbserver --once {options} - {}",
        program.display()
    );
    let gdb = Gdb::new().directory(folder).program(program);
    gdb.command(connect).commands(commands).run()
}

#[test]
fn a_program_is_stopped_stepped_looked_at_and_changed() {
    let folder = tempfile::tempdir().unwrap();
    let program = build(folder.path(), sample("sample.c"));
    let said = session(
        folder.path(),
        &program,
        "",
        &[
            "break handle if depth == 1",
            "continue",
            "backtrace",
            "next",
            "print score",
            "step",
            "finish",
            "set var total = 77",
            "print total",
            "print handle (&jobs[1], 0)",
            "print $xmm0.v2_double[0] = 2.25",
            "print $xmm0.v2_double[0]",
            "stepi",
            "delete",
            "continue",
        ],
    );
    said.assert_in_order(&[
        "Breakpoint 1, handle (j=",
        "#0  handle (j=",
        "#1  ",
        "in main () at",
        "total += score;",
        "$1 = 7",
        "if (depth > 0)",
        "Value returned is $2 = 7",
        "$3 = 77",
        "$4 = 6",
        "$5 = 2.25",
        "$6 = 2.25",
        "exited normally",
    ]);
    // The program's own words go where GDB's pipe does not.
    assert!(said.errors.contains("sum 33 total 125"), "{said:?}");
}

#[test]
fn every_thread_stops_at_a_breakpoint_as_often_as_it_comes_by() {
    let folder = tempfile::tempdir().unwrap();
    let program = build(folder.path(), "threads.c");
    let said = session(
        folder.path(),
        &program,
        "",
        &[
            "break tick",
            "ignore 1 150",
            "continue",
            "info threads",
            "print counts[0] + counts[1] + counts[2] + counts[3]",
            "thread apply all -q backtrace 1",
            "info breakpoints",
            "ignore 1 1000",
            "continue",
            "info breakpoints",
        ],
    );
    said.assert_in_order(&[
        "hit Breakpoint 1, tick",
        "  Id   Target Id",
        "\"threads\"",
        "already hit 151 times",
        "exited with code 03",
        "already hit 200 times",
    ]);
    assert!(said.errors.contains("sum 200"), "{said:?}");
}

#[test]
fn signals_stop_the_program_and_reach_it_as_the_user_says() {
    let folder = tempfile::tempdir().unwrap();
    let program = build(folder.path(), "signals.c");
    let said = session(
        folder.path(),
        &program,
        "",
        &[
            "continue",
            "print $_siginfo.si_signo",
            "continue",
            "signal 0",
            "handle SIGUSR2 nostop noprint pass",
            "continue",
            "print $_siginfo.si_signo",
            "continue",
        ],
    );
    said.assert_in_order(&[
        "received signal SIGUSR1",
        "$1 = 10",
        "received signal SIGUSR1",
        "received signal SIGSEGV",
        "$2 = 11",
        "terminated with signal SIGSEGV",
    ]);
    assert!(said.errors.contains("usr1 1 usr2 1"), "{said:?}");
}

#[test]
fn a_run_goes_on_without_a_debugger_and_the_next_one_finds_its_frames() {
    let folder = tempfile::tempdir().unwrap();
    let program = build(folder.path(), "ticks.c");
    let mut server = Command::new(TRACEWIRE)
        .args(["gdbserver", "127.0.0.1:0"])
        .arg(&program)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let port = BufReader::new(server.stderr.take().unwrap())
        .lines()
        .map(Result::unwrap)
        .find_map(|line| Some(line.strip_prefix("Listening on port ")?.to_owned()))
        .unwrap();
    let gdb = |commands: &[&str]| {
        let gdb = Gdb::new().program(&program);
        gdb.command(format!("target remote :{port}"))
            .commands(commands)
            .run()
    };
    let said = gdb(&[
        "set disconnected-tracing on",
        "break main",
        "continue",
        "delete",
        "trace tick",
        "passcount 20",
        "tstart",
        "detach",
    ]);
    said.assert_in_order(&["Breakpoint 1, main", "Tracepoint 2", "detached"]);
    // The run ends by itself without a client. A client that connects too early lets it go on.
    let look = "python status = gdb.execute('tstatus', to_string=True); print(status); \
                gdb.execute('detach' if 'running' in status else 'disconnect')";
    let mut said = gdb(&[look]);
    for _ in 0..50 {
        if !said.output.contains("Trace is running") {
            break;
        }
        said = gdb(&[look]);
    }
    said.assert_in_order(&["Trace stopped by tracepoint 2", "Collected 20 trace frames"]);
    let said = gdb(&["tfind 19", "tfind 20", "tfind none", "kill"]);
    // This GDB has given the tracepoint another number.
    said.assert_in_order(&["Found trace frame 19, tracepoint 1", "killed"]);
    assert!(server.wait().unwrap().success());
}

/// A run that an error in a condition ends (gdbserver 13 goes on), saved by GDB: read, and written again byte for byte.
#[test]
fn what_gdb_saves_of_a_run_with_an_error_is_written_again_byte_for_byte() {
    let folder = tempfile::tempdir().unwrap();
    let program = build(folder.path(), sample("sample.c"));
    let said = session(
        folder.path(),
        &program,
        "",
        &[
            "break main",
            "continue",
            "trace handle",
            "actions",
            "collect total",
            "end",
            "trace handle if 100 / (depth - 1) > 1000",
            "tstart",
            "break exit",
            "continue",
            "tstatus",
            "tsave error.tf",
            "kill",
        ],
    );
    said.assert_in_order(&["Trace stopped by an error", "tracepoint 3"]);
    let path = folder.path().join("error.tf");
    assert_clean(&path);
    let file = TraceFile::open(&path).unwrap();
    let status = &file.description().status().unwrap().fields;
    assert!(
        matches!(&status.stop_reason, Some(StopReason::Error)),
        "{status:?}"
    );
    assert!(file.frame_count() > 0);
    let copy = folder.path().join("copy.tf");
    let format = FrameFormat {
        byte_order: file.byte_order(),
        register_block_size: file.register_block_size().unwrap(),
    };
    let mut writer = TraceFileWriter::create(&copy, file.description()).unwrap();
    for frame in file.frames() {
        let mut bytes = Vec::new();
        let mut encoder = FrameEncoder::begin(&mut bytes, format, frame.tracepoint()).unwrap();
        for block in frame.blocks() {
            match block {
                Block::Registers(block) => encoder.registers(block).unwrap(),
                Block::Memory { address, bytes } => encoder.memory(address, bytes),
                Block::Variable { number, value } => encoder.variable(number, value),
                other => panic!("{other:?}"),
            }
        }
        encoder.finish().unwrap();
        writer.append(&bytes).unwrap();
    }
    writer.finish_unsealed().unwrap();
    assert!(std::fs::read(copy).unwrap() == std::fs::read(path).unwrap());
}

//! Files that would take hours if all parts were processed repeatedly.

use std::fmt::Write as _;

use tracewire_diagnose::{Report, check};
use tracewire_model::{Address, ByteOrder, TracepointNumber};
use tracewire_tracefile::{Description, FrameEncoder, FrameFormat, TraceFile};

fn frame(number: i32, build: impl FnOnce(&mut FrameEncoder<'_>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    let format = FrameFormat {
        byte_order: ByteOrder::Little,
        register_block_size: 4,
    };
    let mut encoder =
        FrameEncoder::begin(&mut bytes, format, TracepointNumber(number)).expect("a good number");
    build(&mut encoder);
    encoder.finish().expect("a small frame");
    bytes
}

fn report(lines: &str, frames: &[u8]) -> Report {
    let description = Description::parse(lines.as_bytes().to_vec());
    check(&TraceFile::in_memory(&description, &[frames]).expect("a small file"))
}

fn findings(report: &Report) -> Vec<String> {
    report.findings.iter().map(ToString::to_string).collect()
}

/// `const8 0x0; dup; pop; goto 2` never ends; the evaluator gives it up after 100,000 steps.
const ENDLESS: &str = "X7,22002829210002";

/// `const16 0x2000; trace_quick 4; end`
const COLLECTS: &str = "X6,2320000d0427";

#[test]
fn expressions_without_end_are_not_run_on_all_frames() {
    let mut lines = String::from("R 4\nstatus 0;tstop::0\n");
    let mut frames = Vec::new();
    for number in 1..=2000 {
        writeln!(lines, "tp T{number:x}:10:E:0:0").expect("a String can be written to");
        writeln!(lines, "tp A{number:x}:10:{COLLECTS}{ENDLESS}")
            .expect("a String can be written to");
        for _ in 0..10 {
            frames.extend(frame(number, |_| {}));
        }
    }
    let report = report(&lines, &frames);
    let found = findings(&report);
    assert!(report.is_good());
    assert!(found[0].starts_with("frame 0, "), "{found:?}");
    assert!(found[0].contains("memory of 4 bytes at 0x2000 should have been collected"));
    let reported =
        |line: &&String| line.contains("running the expressions on all frames takes too long");
    let reported: Vec<_> = found.iter().filter(reported).collect();
    assert_eq!(reported.len(), 1, "{found:?}");
    // The frames before have been looked at, each with its expression that ends.
    let frame: u64 = reported[0]["frame ".len()..]
        .split(',')
        .next()
        .and_then(|text| text.parse().ok())
        .expect("a frame");
    assert!((600..800).contains(&frame), "{frame}");
    assert!(
        (frame..=frame + 1).contains(&(report.warnings - 1)),
        "{}",
        report.warnings
    );
}

/// `const16 0x10; ref8; pop; goto 0` on a frame in which that is the last of many blocks.
#[test]
fn an_expression_that_reads_much_finds_its_memory_at_once() {
    let lines = "R 4\nstatus 0;tstop::0\ntp T1:10:E:0:0\ntp A1:10:X8,2300101729210000\n";
    let bytes = frame(1, |frame| {
        for address in (0..80_000).map(|block| 0x100000 + 2 * block) {
            frame.memory(Address(address), b"x");
        }
        frame.memory(Address(0x10), b"y");
    });
    assert_eq!(findings(&report(lines, &bytes)), [""; 0]);
}

/// A register and a variable that the frame does not have, requested in a loop.
#[test]
fn an_expression_that_asks_for_much_looks_for_it_once() {
    for code in ["260001292c00012921000029", "2c0001292600012921000029"] {
        let lines = format!(
            "R 4\nstatus 0;tstop::0\ntsv 1:0:0:61\ntp T1:10:E:0:0\ntp A1:10:X{:x},{code}\n",
            code.len() / 2
        );
        let bytes = frame(1, |frame| {
            for address in 0..80_000 {
                frame.memory(Address(2 * address), b"x");
            }
        });
        assert_eq!(findings(&report(&lines, &bytes)), [""; 0]);
    }
}

#[test]
fn the_last_status_line_counts_and_is_held_against_the_frames_once() {
    let mut lines = String::from("R 4\ntp T1:10:E:0:0\n");
    lines += &"status 0;tfree:1;tsize:1000\n".repeat(20_000);
    lines += "status 9\n";
    let frames = frame(1, |_| {}).repeat(20_000);
    let report = report(&lines, &frames);
    assert_eq!(report.warnings, 20_000, "each but the first is reported");
    let mut found = findings(&report);
    found.retain(|line| !line.contains("is defined again"));
    assert_eq!(found.len(), 2, "{found:#?}");
    assert_eq!(
        found[0],
        "line 20003: the status line says 4095 bytes of the buffer used; the frames take 120000"
    );
    assert!(
        found[1].starts_with("line 20004: expected 1 (running)"),
        "{found:#?}"
    );
}

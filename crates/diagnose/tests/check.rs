//! The findings about a file.

use proptest::prelude::*;
use tracewire_diagnose::{LISTED, Report, Severity, check};
use tracewire_model::{
    Address, ByteOrder, FrameNumber, RegisterNumber, TracepointNumber, VariableNumber,
};
use tracewire_tracefile::{Block, FrameEncoder, FrameFormat, TraceFile};

/// GDB's own file of a run with conditions, strings, variables and `while-stepping`.
fn sample() -> Vec<u8> {
    std::fs::read(tracewire_test_support::sample("sample.tf")).expect("the sample is there")
}

fn lines(report: &Report) -> Vec<String> {
    report
        .findings
        .iter()
        .map(|finding| {
            let severity = match finding.severity() {
                Severity::Error => "error",
                Severity::Warning => "warning",
            };
            format!("{severity}: {finding}")
        })
        .collect()
}

fn read(bytes: Vec<u8>) -> TraceFile {
    TraceFile::from_bytes(bytes).expect("a trace file")
}

fn of(bytes: Vec<u8>) -> Vec<String> {
    lines(&check(&read(bytes)))
}

/// The sample with a piece of its description replaced.
fn with(old: &str, new: &str) -> Vec<u8> {
    let bytes = sample();
    let at = bytes
        .windows(old.len())
        .position(|window| window == old.as_bytes())
        .unwrap_or_else(|| panic!("the sample has no {old}"));
    [&bytes[..at], new.as_bytes(), &bytes[at + old.len()..]].concat()
}

/// A file whose blocks pass through `change`: frame number, block number, block; nothing drops the block.
fn rewritten(
    bytes: Vec<u8>,
    change: impl Fn(u64, usize, Block<'_>, &mut FrameEncoder<'_>) -> bool,
) -> Vec<u8> {
    let file = read(bytes);
    let format = FrameFormat {
        byte_order: ByteOrder::Little,
        register_block_size: file.register_block_size().expect("an R line"),
    };
    let mut out = file.as_bytes()[..file.frames_start() as usize].to_vec();
    for frame in file.frames() {
        let mut encoder =
            FrameEncoder::begin(&mut out, format, frame.tracepoint()).expect("a good number");
        for (index, block) in frame.blocks().enumerate() {
            if change(frame.number().0, index, block, &mut encoder) {
                continue;
            }
            match block {
                Block::Registers(bytes) => encoder.registers(bytes).expect("a block"),
                Block::Memory { address, bytes } => encoder.memory(address, bytes),
                Block::Variable { number, value } => encoder.variable(number, value),
                Block::StaticData(_) | Block::Unknown(_) => unreachable!("the sample has none"),
            }
        }
        encoder.finish().expect("a small frame");
    }
    out.extend([0; 4]);
    out
}

#[test]
fn gdb_s_own_file_is_good() {
    assert_eq!(of(sample()), [""; 0]);
}

#[test]
fn every_value_that_is_lost_is_named_with_its_address() {
    let whole = read(sample());
    let mut named = 0;
    for frame in whole.frames() {
        let number = frame.number().0;
        for (lost, block) in frame.blocks().enumerate() {
            let found = of(rewritten(sample(), |at, index, _, _| {
                (at, index) == (number, lost)
            }));
            let expected = match block {
                Block::Registers(_) => "the registers should have been collected".to_owned(),
                Block::Variable { number, .. } => {
                    format!("warning: frame {}", frame.number())
                        + &format!(", offset {}: variable {number} should", frame.data_offset())
                }
                Block::Memory { address, bytes } => {
                    let others = frame
                        .blocks()
                        .enumerate()
                        .filter(|(index, _)| *index != lost);
                    let there = others.into_iter().any(|(_, other)| {
                        matches!(other, Block::Memory { address: start, bytes: other }
                            if start.0 <= address.0
                                && address.0 + bytes.len() as u64 <= start.0 + other.len() as u64)
                    });
                    if there {
                        assert_eq!(found, [""; 0], "frame {number}, block {lost}");
                        continue;
                    }
                    format!("at {address}")
                }
                Block::StaticData(_) | Block::Unknown(_) => unreachable!("the sample has none"),
            };
            named += 1;
            assert!(
                found.iter().any(|line| line.contains(&expected)),
                "frame {number}, block {lost}: {expected}\n{found:#?}"
            );
        }
    }
    assert!(named > 80, "{named}");
}

#[test]
fn a_string_cut_before_its_nul_is_named() {
    let cut = rewritten(sample(), |frame, index, block, encoder| {
        let Block::Memory { address, bytes } = block else {
            return false;
        };
        let is_string = (frame, index) == (6, 4);
        if is_string {
            encoder.memory(address, &bytes[..2]);
        }
        is_string
    });
    let found = of(cut);
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(
        found[0].contains("the string at 0x555555556018 (from 0x55555555601a on) should have been"),
        "{found:#?}"
    );
}

#[test]
fn lines_that_cannot_be_are_named_with_their_number() {
    for (old, new, expected) in [
        (
            "22031427\n",
            "22031400\n",
            "the condition of tracepoint 2 cannot be evaluated: unknown opcode 0x00",
        ),
        (
            "X00000008,2c00012e00012927",
            "X00000008,2c00012e00012929",
            "an action of tracepoint 3 cannot be evaluated",
        ),
        (
            "X00000008,2c00012e00012927",
            "X00000008,2c00092e00092927",
            "uses variable 9, which no `tsv`",
        ),
        (
            "M-1,555555558040,40",
            "Mfff,555555558040,40",
            "asks for register 4095",
        ),
        (
            "tsv 3:0:0:7365656e",
            "tsv 3:0:0:68697473",
            "variables 2 and 3 have the same name `hits`",
        ),
        (
            "tfree:e57fb",
            "tfree:fffffff",
            "268435455 bytes free of a buffer of 1000000",
        ),
        (
            "tfree:e57fb",
            "tfree:f4240",
            "0 bytes of the buffer used; the frames take 59973",
        ),
        (
            "stoptime:575a67c0",
            "stoptime:575a50c0",
            "a stop 14 microseconds before the start",
        ),
        (
            "tp A3:555555555183:R40",
            "tp A3:555555555183:Q40",
            "expected an action: R, M, X or L",
        ),
    ] {
        let bytes = with(old, new);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let at = text.find(new.trim_end()).expect("replaced");
        let line = text[..at].matches('\n').count() + 1;
        let found = of(bytes);
        let place = format!(": line {line}: ");
        assert!(
            found
                .iter()
                .any(|found| found.contains(&place) && found.contains(expected)),
            "{new}: {expected} in line {line}\n{found:#?}"
        );
    }
}

#[test]
fn what_only_all_frames_tell_is_named() {
    for (old, new, expected) in [
        (
            "tp V3:555555555183:3:",
            "tp V3:555555555183:2:",
            "tracepoint 3 at 0x555555555183 has 2 hits; 3 frames",
        ),
        (
            "tp T3:555555555183:E",
            "tp T3:555555555184:E",
            "tracepoint 3",
        ),
        (
            "starttime:575a50ce",
            "starttime:575a6100",
            "before the run started",
        ),
        (
            "stoptime:575a67c0",
            "stoptime:575a6100",
            "after the run stopped",
        ),
        (
            "tsv 2:0:0:68697473\n",
            "",
            "variable 2 is collected, and no `tsv` line defines it",
        ),
        ("tframes:18", "tframes:19", "25 frames; there are 24"),
    ] {
        let found = of(with(old, new));
        assert!(
            found.iter().any(|line| line.contains(expected)),
            "{new}: {expected}\n{found:#?}"
        );
    }
    // The count of steps matters if the buffer has not dropped any hit.
    let linear =
        String::from_utf8_lossy(&with("tp T2:555555555158:E:2:", "tp T2:555555555158:E:1:"))
            .contains("circular:1");
    assert!(linear);
    let found = of(with("circular:1", "circular:0"));
    assert_eq!(found, [""; 0]);
}

#[test]
fn a_clock_that_is_set_back_and_a_value_that_differs_are_warnings() {
    let bytes = rewritten(sample(), |frame, _, block, encoder| {
        let Block::Variable {
            number: VariableNumber(1),
            value,
        } = block
        else {
            return false;
        };
        encoder.variable(VariableNumber(1), value + if frame == 6 { 400 } else { 0 });
        true
    });
    let found = of(bytes);
    assert!(
        found
            .iter()
            .any(|line| line.starts_with("warning: frame 13,")
                && line.contains("made 95 microseconds before the frame before it")),
        "{found:#?}"
    );

    let bytes = rewritten(sample(), |frame, index, block, encoder| {
        let Block::Memory { address, bytes } = block else {
            return false;
        };
        let changed = (frame, index) == (0, 5);
        if changed {
            let other: Vec<_> = bytes.iter().map(|byte| byte ^ 1).collect();
            encoder.memory(address, &other);
        }
        changed
    });
    let found = of(bytes);
    assert!(
        found
            .iter()
            .any(|line| line.starts_with("warning")
                && line.contains("was collected twice and differs")),
        "{found:#?}"
    );
}

#[test]
fn cuts_are_named() {
    let bytes = sample();
    for (end, expected) in [
        (bytes.len() - 4, "error: offset 77142: no end marker"),
        (
            bytes.len() - 30,
            "error: offset 74704: the file ends inside a frame: 2412 bytes of 2438",
        ),
        (500, "error: file: the file ends inside the description"),
    ] {
        let found = of(bytes[..end].to_vec());
        assert!(
            found.iter().any(|line| line.starts_with(expected)),
            "{expected}\n{found:#?}"
        );
    }
}

/// A file system that was stopped leaves zeros where bytes did not get to the disk: a file that seems whole, and shorter.
#[test]
fn a_tail_of_zeros_is_named() {
    let whole = read(sample());
    let frame = whole.frame(FrameNumber(20)).expect("a frame");
    let mut bytes = sample();
    let start = frame.offset() as usize;
    bytes[start..].fill(0);
    let found = of(bytes.clone());
    let zeros = bytes.len() - start - 2;
    assert!(
        found
            .iter()
            .any(|line| line.contains(&format!("{zeros} zero bytes after the end marker"))),
        "{found:?}"
    );
}

#[test]
fn many_findings_of_one_kind_are_counted_not_listed() {
    let file = read(sample());
    let mut bytes = file.as_bytes()[..file.frames_start() as usize].to_vec();
    let format = FrameFormat {
        byte_order: ByteOrder::Little,
        register_block_size: 2416,
    };
    for _ in 0..1000 {
        let mut frame =
            FrameEncoder::begin(&mut bytes, format, TracepointNumber(77)).expect("good");
        frame.variable(VariableNumber(2), 1);
        frame.finish().expect("small");
    }
    bytes.extend([0; 4]);
    let report = check(&read(bytes));
    // Each frame's tracepoint is not defined; and the count is wrong, once.
    assert_eq!(report.errors, 1001);
    assert_eq!(
        report.findings.len() as u64,
        LISTED + 1 + (report.warnings.min(LISTED))
    );
    assert_eq!(report.unlisted(), 900);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_damage_makes_it_panic_or_talk_without_end(
        damage in prop::collection::vec((0..77_146usize, any::<u8>()), 0..20),
        description in any::<bool>(),
        cut in prop::option::of(8..77_146usize),
    ) {
        let mut bytes = sample();
        for (at, byte) in damage {
            // The description is a fifth of the file, and the more interesting part of it the first 3 KB.
            let at = if description { 8 + at % 17_000 } else { at.max(8) };
            bytes[at] = byte;
        }
        bytes.truncate(cut.unwrap_or(usize::MAX));
        let Ok(file) = TraceFile::from_bytes(bytes) else {
            return Ok(());
        };
        let report = check(&file);
        prop_assert!(report.findings.len() as u64 <= 50 * LISTED);
        prop_assert_eq!(report.is_good(), report.findings.iter().all(|one| one.severity() == Severity::Warning));
    }
}

#[test]
fn what_is_repaired_has_no_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("repaired.tf");
    let whole = sample();
    // The numbers of a generator that needs no crate: where, how much, and with what.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for turn in 0..120 {
        let mut bytes = whole.clone();
        let at = 8 + random() as usize % (bytes.len() - 8);
        if turn % 2 == 0 {
            bytes.truncate(at);
        } else {
            let length = 1 + random() as usize % 16;
            bytes[at..]
                .iter_mut()
                .take(length)
                .for_each(|byte| *byte = random() as u8);
        }
        tracewire_diagnose::repair::repair(&bytes, &path).expect("written");
        let report = check(&TraceFile::open(&path).expect("a trace file"));
        assert!(report.is_good(), "damage at {at}: {:#?}", lines(&report));
    }
}

/// Damage to the words of the description, which every reader passes over.
#[test]
fn words_that_nobody_knows_are_reported() {
    for (old, new, reported) in [
        (
            "tcreated:",
            "tcpM)ted:",
            "warning: line 243: the status line has the field `tcpM)ted`, which is not known",
        ),
        (
            "tcreated:18",
            "tcreated:~8",
            "warning: line 243: the value of the field `tcreated` of the status line cannot be understood",
        ),
        (
            "tdesc   <osabi>",
            "tde\x01c   <osabi>",
            "warning: line 7: a line of the unknown kind `tde\\x01c`: GDB skips it",
        ),
    ] {
        let found = of(with(old, new));
        assert!(found.iter().any(|line| line == reported), "{found:#?}");
    }
}

/// `handle if depth < 3` at a depth of 9.
#[test]
fn a_frame_that_its_condition_rules_out_is_reported() {
    let whole = read(sample());
    let hits: Vec<_> = whole
        .frames()
        .filter(|frame| frame.tracepoint() == TracepointNumber(2) && frame.is_step() == Some(false))
        .map(|frame| frame.number())
        .collect();
    for hit in [hits[0], hits[3]] {
        let frame = whole.frame(hit).expect("it is there");
        let rbp = frame.register_value(RegisterNumber(6)).expect("collected");
        let depth = Address(rbp - 28);
        let found = of(rewritten(sample(), |at, _, block, encoder| {
            let of_depth = matches!(block, Block::Memory { address, .. } if address == depth);
            let change = at == hit.0 && of_depth;
            if change {
                encoder.memory(depth, &9u32.to_le_bytes());
            }
            change
        }));
        let reported = format!(
            "warning: frame {hit}, offset {}: the condition of tracepoint 2 is false of what the frame holds: a value changed during the hit, or is damaged",
            frame.data_offset()
        );
        assert_eq!(found, [reported]);
    }
}

/// `trace *0x1000`, `while-stepping 2`, with a loop that leads back, in a file in which steps cannot be recognized.
#[test]
fn steps_that_came_back_are_no_finding() {
    let head = |hits: u8, frames: usize| {
        format!(
            "\x7fTRACE0\nR 114\nstatus 0;tstop::0;tframes:{frames:x};tcreated:{frames:x}\n\
             tp T1:1000:E:2:0\ntp A1:1000:M-1,2000,4\ntp S1:1000:R3\ntp V1:1000:{hits}:100\n\n"
        )
    };
    let format = FrameFormat {
        byte_order: ByteOrder::Little,
        register_block_size: 0x114,
    };
    // A hit without registers, a step elsewhere, a step that came back.
    let frames = |hit_registers: bool| {
        let mut bytes = Vec::new();
        for frame in 0..3 {
            let mut encoder =
                FrameEncoder::begin(&mut bytes, format, TracepointNumber(1)).expect("good");
            if frame > 0 || hit_registers {
                let mut block = vec![0; 0x114];
                let counter = if frame == 1 { 0x1003_u64 } else { 0x1000 };
                block[16 * 8..17 * 8].copy_from_slice(&counter.to_le_bytes());
                encoder.registers(&block).expect("a block");
            }
            if frame == 0 {
                encoder.memory(Address(0x2000), &[1, 2, 3, 4]);
            }
            encoder.finish().expect("small");
        }
        bytes.extend([0; 4]);
        bytes
    };
    let file = |hits, registers| {
        let bytes = [head(hits, 3).into_bytes(), frames(registers)].concat();
        let mut file = read(bytes);
        assert!(file.set_architecture("x86_64".parse().expect("a machine")));
        lines(&check(&file))
    };
    assert_eq!(file(1, false), [""; 0]);
    assert_eq!(file(1, true), [""; 0]);
    // Two steps a hit may come back, and no hit was made.
    let found = file(0, true);
    assert!(
        found.iter().any(|line| line.contains("has 0 hits")),
        "{found:?}"
    );
}

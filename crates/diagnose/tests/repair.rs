//! Real files, cut and damaged at random: faults are found, and everything outside the damage is saved.

#[path = "../../tracefile/tests/support/mod.rs"]
mod support;

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use support::{description, frame};
use tracewire_arch::X86Registers;
use tracewire_diagnose::repair::{Change, Repair, repair};
use tracewire_diagnose::{Fault, Finding, Severity, check_structure};
use tracewire_model::{Address, ByteOrder, TracepointNumber, VariableNumber};
use tracewire_test_support::{Gdb, sample};
use tracewire_tracefile::{Ending, FrameEncoder, FrameFormat, TraceFile};

fn findings(file: &TraceFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    check_structure(file, &mut |finding| findings.push(finding));
    findings
}

fn errors(file: &TraceFile) -> Vec<Finding> {
    let mut findings = findings(file);
    findings.retain(|finding| finding.fault.severity() == Severity::Error);
    findings
}

/// A file of GDB, one of its test suite, and one of ours with memory that looks like frames. Also one of GDB with a tracepoint
/// without actions, and one with frames without any readable data.
fn originals() -> Vec<Vec<u8>> {
    let set = X86Registers::Sse;
    let size = set.layout_64().size();
    let mut ours = b"\x7fTRACE0\n".to_vec();
    ours.extend_from_slice(description(set, 40).as_bytes());
    ours.push(b'\n');
    for n in 0..40u8 {
        let build = |f: &mut FrameEncoder<'_>| {
            f.registers(&vec![n; size as usize]).unwrap();
            f.memory(
                Address(0x1000),
                &[n, 0, 0, 1, 0, 0, 0, b'M', 0, 0, b'V', b'R', b'\n', b'\n'],
            );
            f.variable(VariableNumber(1), -1);
        };
        ours.extend(frame(ByteOrder::Little, build, size));
    }
    ours.extend([0; 4]);
    vec![
        fs::read(sample("sample.tf")).unwrap(),
        fs::read(sample("tfile-basic.tf")).unwrap(),
        ours,
        fs::read(sample("without_actions.tf")).unwrap(),
        with_empty_frames(ByteOrder::Little),
        with_empty_frames(ByteOrder::Big),
    ]
}

/// Of two tracepoints, one that collects nothing and one whose memory cannot be read most of the time.
fn with_empty_frames(order: ByteOrder) -> Vec<u8> {
    let mut bytes = b"\x7fTRACE0\nR 4\nstatus 0;tstop::0;tframes:12c;tcreated:12c\n\
        tp T1:10:E:0:0\ntp T2:20:E:0:0\ntp A2:20:M-1,1000,8\n\n"
        .to_vec();
    let format = FrameFormat {
        byte_order: order,
        register_block_size: 4,
    };
    for n in 0..300 {
        let number = TracepointNumber(if n % 7 == 3 { 1 } else { 2 });
        let mut frame = FrameEncoder::begin(&mut bytes, format, number).unwrap();
        if n % 29 == 0 {
            frame.memory(Address(0x1000), &[0, 2, 0, 0, 0, 0, 0, 1]);
        }
        frame.finish().unwrap();
    }
    bytes.extend([0; 4]);
    bytes
}

struct Repaired {
    repair: Repair,
    file: TraceFile,
}

fn repaired(bytes: &[u8], path: &Path) -> Repaired {
    let repair = repair(bytes, path).unwrap();
    Repaired {
        repair,
        file: TraceFile::from_bytes(fs::read(path).unwrap()).unwrap(),
    }
}

/// Every frame that no damage touches is in the repaired file, in order, and that file is a good one.
fn verify(original: &TraceFile, damaged: &[u8], touched: &dyn Fn(u64, u64) -> bool, path: &Path) {
    let Repaired { repair, file } = repaired(damaged, path);
    assert_eq!(errors(&file), [], "{:?}", repair.changes);
    assert_eq!(file.frame_count(), repair.frames);
    let mut saved = file.frames().map(|frame| frame.data().to_vec());
    for frame in original.frames() {
        let end = frame.offset() + frame.bytes().len() as u64;
        if !touched(frame.offset(), end) {
            let found = saved.any(|data| data == frame.data());
            assert!(
                found,
                "frame {} is lost: {:?}",
                frame.number(),
                repair.changes
            );
        }
    }
}

fn config() -> ProptestConfig {
    let mut config = ProptestConfig::default();
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = 150;
    }
    config
}

/// Bytes that look like blocks after a frame without blocks cost only the frame that they replace.
#[test]
fn what_looks_like_blocks_of_an_empty_frame_costs_only_itself() {
    let folder = tempfile::tempdir().unwrap();
    for order in [ByteOrder::Little, ByteOrder::Big] {
        let good = with_empty_frames(order);
        let original = TraceFile::from_bytes(good.clone()).unwrap();
        for frame in original.frames().filter(|frame| frame.data().is_empty()) {
            let (start, end) = (frame.offset(), frame.offset() + 6);
            let mut bytes = good.clone();
            let at = usize::try_from(start).unwrap();
            bytes[at..at + 6].copy_from_slice(b"R\0\0\0\0V");
            let touched = |from, to| start < to && from < end;
            verify(
                &original,
                &bytes,
                &touched,
                &folder.path().join("damaged.tf"),
            );
        }
    }
}

/// Parts of a status line: fields of GDB, prefixes of their names, which GDB accepts, and others.
fn status_words() -> impl Strategy<Value = Vec<String>> {
    let known = prop::sample::select(vec![
        "0",
        "1",
        "T0",
        "tstop",
        "terror",
        "tfull",
        "tframes",
        "tcreated",
        "tfree",
        "tsize",
        "notes",
        "username",
        "starttime",
        "circular",
        "checksum",
        "tsi`",
        "zz",
        "1f",
        "6162",
    ]);
    let separator = prop::sample::select(vec![";", ":", "::", ";;", "", " "]);
    let word = (known.prop_map(str::to_owned), separator).prop_map(|(word, end)| word + end);
    prop::collection::vec(prop_oneof![4 => word, 1 => "[!-~]{0,5}"], 0..14)
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_repaired_status_line_is_one_that_gdb_reads(
        lines in prop::collection::vec(status_words(), 1..3),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let mut bytes = b"\x7fTRACE0\nR 0\n".to_vec();
        for words in &lines {
            bytes.extend_from_slice(format!("status {}\n", words.concat()).as_bytes());
        }
        bytes.extend_from_slice(b"\n\0\0\0\0");
        let path = folder.path().join("repaired.tf");
        repair(&bytes, &path).unwrap();
        let repaired = TraceFile::open(&path).unwrap();
        prop_assert_eq!(errors(&repaired), Vec::<Finding>::new());
    }

    #[test]
    fn a_cut_is_found_and_every_whole_frame_saved(which in 0usize..6, at in any::<prop::sample::Index>()) {
        let folder = tempfile::tempdir().unwrap();
        let bytes = originals().swap_remove(which);
        let original = TraceFile::from_bytes(bytes.clone()).unwrap();
        let Ending::Marker { offset: end, .. } = original.ending() else { panic!() };
        let cut = at.index(end as usize);
        if let Ok(file) = TraceFile::from_bytes(bytes[..cut].to_vec()) {
            prop_assert!(!errors(&file).is_empty());
        }
        let path = folder.path().join("cut.tf");
        verify(&original, &bytes[..cut], &|_, frame_end| frame_end > cut as u64, &path);
    }

    #[test]
    fn damage_costs_only_the_frames_it_touches(
        which in 0usize..6,
        at in any::<prop::sample::Index>(),
        with in prop::collection::vec(any::<u8>(), 1..30),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let mut bytes = originals().swap_remove(which);
        let original = TraceFile::from_bytes(bytes.clone()).unwrap();
        let start = at.index(bytes.len());
        let with = &with[..with.len().min(bytes.len() - start)];
        bytes[start..start + with.len()].copy_from_slice(with);
        let (start, end) = (start as u64, (start + with.len()) as u64);
        let touched = |from, to| start < to && from < end;
        verify(&original, &bytes, &touched, &folder.path().join("damaged.tf"));
    }

    /// Missing or additional bytes, which move everything after them.
    #[test]
    fn what_is_moved_is_found_again(
        which in 0usize..6,
        at in any::<prop::sample::Index>(),
        removed in 0usize..200,
        inserted in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let mut bytes = originals().swap_remove(which);
        let original = TraceFile::from_bytes(bytes.clone()).unwrap();
        let start = at.index(bytes.len());
        let end = (start + removed).min(bytes.len());
        bytes.splice(start..end, inserted);
        let touched = |from, to| start as u64 <= to && from <= end as u64;
        verify(&original, &bytes, &touched, &folder.path().join("moved.tf"));
    }
}

#[test]
fn the_samples_are_good_and_repairing_them_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["sample.tf", "tfile-error.tf"] {
        let bytes = fs::read(sample(name)).unwrap();
        assert_eq!(errors(&TraceFile::from_bytes(bytes.clone()).unwrap()), []);
        let Repaired { repair, file } = repaired(&bytes, &folder.path().join(name));
        assert_eq!(repair.changes, [], "{name}");
        let end = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
        assert_eq!(file.as_bytes()[..end], bytes[..end]);
    }
}

#[test]
fn faults_are_reported_with_their_places() {
    let build = |f: &mut FrameEncoder<'_>| {
        f.memory(Address(0x1000), &[1, 2, 3, 4]);
        f.memory(Address(0x1002), &[3, 5]);
        f.static_data(b"x").unwrap();
    };
    let one = frame(ByteOrder::Little, build, 4);
    let mut other = frame(ByteOrder::Little, |f| f.variable(VariableNumber(1), 9), 4);
    other[0] = 7;
    let earlier = frame(ByteOrder::Little, |f| f.variable(VariableNumber(1), 8), 4);
    let text = "R 4\nstatus 0;tframes:9;tcreated:8\ntsv 1:0:1:74726163655f74696d657374616d70\n\
                tp T1:10:E:0:0:X1,00\ntp A1:10:R1M-1,1000,4M-1,2000,4\ntp rubbish\ntp T8000:10:E:0:0\n\n";
    let bytes = [
        b"\x7fTRACE0\n",
        text.as_bytes(),
        &one,
        &other,
        &earlier,
        b"\0\0\0\0",
    ]
    .concat();
    let file = TraceFile::from_bytes(bytes).unwrap();
    let mut found = Vec::new();
    check_structure(&file, &mut |finding| {
        found.push(format!("{}: {}", finding.place, finding.fault));
    });
    let start = file.frames_start();
    assert_eq!(
        found,
        [
            "line 7: expected a definition record: T, A, S, Z or V at byte 0 of `rubbish`".into(),
            "file: the status line says 9 frames; there are 3".into(),
            "file: the status line says 9 frames, of 8 made".into(),
            "file: tracepoint 32768 can have no frames: the format's numbers go to 32767"
                .to_owned(),
            format!(
                "frame 0, offset {}: static tracepoint data: GDB's reader of files stops at it",
                start + 6 + 15 + 13
            ),
            format!(
                "frame 0, offset {}: memory at 0x1003 was collected twice and differs: it was written in between, or the file is damaged",
                start + 6
            ),
            format!(
                "frame 0, offset {}: the registers should have been collected, and is not there",
                start + 6
            ),
            format!(
                "frame 0, offset {}: memory of 4 bytes at 0x2000 should have been collected, and is not there",
                start + 6
            ),
            format!(
                "frame 1, offset {}: tracepoint 7 is not defined",
                start + one.len() as u64 + 6
            ),
            format!(
                "frame 2, offset {}: the registers should have been collected, and is not there",
                start + one.len() as u64 + 19 + 6
            ),
            format!(
                "frame 2, offset {}: memory of 4 bytes at 0x1000 should have been collected, and is not there",
                start + one.len() as u64 + 19 + 6
            ),
            format!(
                "frame 2, offset {}: memory of 4 bytes at 0x2000 should have been collected, and is not there",
                start + one.len() as u64 + 19 + 6
            ),
            format!(
                "frame 2, offset {}: made 1 microseconds before the frame before it",
                start + one.len() as u64 + 19 + 6
            ),
        ]
    );
}

#[test]
fn gdb_opens_what_was_repaired() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("repaired.tf");
    let sample = fs::read(sample("sample.tf")).unwrap();
    // A damaged line of the XML, the size of the register block, a frame's size, and a cut.
    let mut damaged = sample[..70_000].to_vec();
    let end_tag = sample
        .windows(9)
        .position(|bytes| bytes == b"</target>")
        .unwrap();
    damaged[end_tag] = b'x';
    damaged[10] = b'x';
    damaged[22199 + 2] = 0x55;
    let Repaired { repair, file } = repaired(&damaged, &path);
    assert!(
        repair
            .changes
            .iter()
            .any(|change| matches!(change, Change::TargetXmlLost(_)))
    );
    assert!(repair.changes.contains(&Change::RegisterBlockSize(0x970)));
    assert_eq!(
        repair.frames, 20,
        "21 before the cut, without the one whose size is damaged"
    );
    assert_eq!(errors(&file), []);
    let commands = [
        format!("target tfile {}", path.display()),
        "tfind 19".into(),
        "tstatus".into(),
    ];
    let said = Gdb::new().commands(&commands).run().all();
    assert!(said.contains("Found trace frame 19, tracepoint"), "{said}");
    assert!(
        said.contains("Collected 20 trace frames") || said.contains("contains 20 trace frames"),
        "{said}"
    );
}

/// Blocks of an unknown kind are kept if several frames have them. A single one is damage, and GDB would stop at it.
#[test]
fn a_stubs_own_blocks_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("own.tf");
    let plain = |n| frame(ByteOrder::Little, |f| f.variable(VariableNumber(n), 9), 4);
    let own = |n| {
        let mut bytes = plain(n);
        bytes.extend(b"Qabc");
        bytes[2] += 4;
        bytes
    };
    let file = |frames: &[Vec<u8>]| {
        let head = format!(
            "\x7fTRACE0\nR 4\nstatus 0;tstop::0;tframes:{}\ntp T1:10:E:0:0\n\n",
            frames.len()
        );
        [head.as_bytes(), &frames.concat(), &[0; 4]].concat()
    };
    let several = file(&[own(1), own(2), plain(3), own(4)]);
    let Repaired { repair, file: kept } = repaired(&several, &path);
    assert_eq!(repair.changes, []);
    assert_eq!(kept.as_bytes(), several);
    // The damage is to the third frame's only block, and to its size.
    for at in [
        several.len() - 4 - 23 - 19 + 6,
        several.len() - 4 - 23 - 19 + 2,
    ] {
        let mut damaged = several.clone();
        damaged[at] ^= 0x40;
        assert_eq!(repaired(&damaged, &path).repair.frames, 3);
    }
    let one = file(&[plain(1), own(2), plain(3)]);
    assert_eq!(repaired(&one, &path).repair.frames, 2);
}

/// GDB refuses a file for a field of the status line without a value, and without the program for words of a tracepoint
/// that it takes to be at an address.
#[test]
fn what_is_left_is_what_gdb_reads() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("read.tf");
    let one = frame(ByteOrder::Little, |f| f.variable(VariableNumber(1), 9), 4);
    let text = "R 4\nstatus 0;tstop::0;tframes:1;tfr\ntp T1:10:E:0:0\ntp ?1:10:at:0:4:6d61696e\n\
                tp Z1:10:cmd:0:9:636f6c6c656374206a\n\n";
    let bytes = [b"\x7fTRACE0\n", text.as_bytes(), &one, &[0; 4]].concat();
    let found = errors(&TraceFile::from_bytes(bytes.clone()).unwrap());
    assert!(
        found
            .iter()
            .any(|finding| finding.fault == Fault::StatusField("tfr".to_owned()))
    );
    let Repaired { repair, file } = repaired(&bytes, &path);
    assert!(repair.changes.contains(&Change::Status));
    assert_eq!(errors(&file), []);
    let definition = &file.description().tracepoints()[0].definition;
    assert!(definition.source.commands.is_empty());
    let said = Gdb::new()
        .commands(&[format!("target tfile {}", path.display()), "tfind 0".into()])
        .run()
        .all();
    assert!(said.contains("Found trace frame 0"), "{said}");
}

/// A first frame whose tracepoint number reads the same in both byte orders does not say which one it is.
#[test]
fn the_byte_order_that_was_repaired_is_read_again() {
    let path = tempfile::tempdir().unwrap();
    let damaged = b"\x7fTRACE0\n\x0e\r\nR 2\n\x0b\n\n\0\0\0\0R\x12\0\0\0\0\0\0\0";
    let repaired = repaired(damaged, &path.path().join("repaired.tf"));
    assert_eq!(errors(&repaired.file), []);
}

/// A reader asks the first hundred frames for the byte order, and only in the other one the rest are frames, too.
#[test]
fn frames_are_kept_in_the_byte_order_in_which_they_are_read() {
    let path = tempfile::tempdir().unwrap();
    for order in [ByteOrder::Little, ByteOrder::Big] {
        let empty = |number: u16| match order {
            ByteOrder::Little => [number.to_le_bytes(), [0; 2], [0; 2]].concat(),
            ByteOrder::Big => [number.to_be_bytes(), [0; 2], [0; 2]].concat(),
        };
        let damaged = [
            &b"\x7fTRACE0\nR 4\nstatus 0\n\n"[..],
            &empty(2).repeat(60),
            &empty(0x200).repeat(60),
            &empty(0x2fc).repeat(3),
            &[0; 2],
        ]
        .concat();
        let repaired = repaired(&damaged, &path.path().join("repaired.tf"));
        assert_eq!(errors(&repaired.file), []);
        assert!(repaired.repair.frames >= 120, "{:?}", repaired.repair);
    }
}

/// By chance there may be more frames in what are the bytes of one, read in the other byte order.
#[test]
fn what_was_repaired_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("repaired.tf");
    for damaged in [
        &b"\x02\0\0\0\0\x0dRRRS\0,\x1b\0\0\0\0VVVVV'RS\xefS"[..],
        // Of three tracepoints, two of whose numbers are each other's in the other order.
        b"\0+\0\0\0\0\n\xff\0\0\0\0+\0\0\0\0\0",
        // Collected data looks like the end of the lines, and like more of them.
        b"R 4\nstatus 0;tunknown:0;tframes:1;tcreated:1\ntp T1:0:E:0:0\n\n\x01\0\x1c\0\0\0M\0\0\0\0\0\0\0\0\x11\0\n\n\nR 014E0\ntp T2:",
        // Of register blocks without a byte.
        b"h#\nR \n\nR 0\n 0\n/~\0\0\0\x1eRRRRRRRRRRRRRRVRRRRRRRRRRRRRRRA~\0\0\0\x1aRRRRRRRRRRR/VRRRRRRRPRRRRR",
        // Two frames seem to have a block of an unknown kind, and only one of them is whole.
        b"CE\xd2\n\xd2 \nR 2\n\x8b*\x18+\xdb\xff\xffT\xffS\xfe\0\0\ntp AA:4A0:R11\n\n\n\0+\0\0\0AA\x94CE\xd2\n\xd2 \nR 2\n\x8b*\x18+\xdb\xff\xffT\xffS\xfe\0\0\ntp AA:4A0:R11\n\n\n\0+\0\0\0AA\x94:0+/hA0:RAL\nO\0\nq\0VRsssssssssss\r\x08\n\xff\0/\0\0?\x01\0R\x0f\x01\0\0s\x08\n:0+/hA0:RAL\nO\0\nq\0VRsssssssssss\r\x08\n\xff\0/\0\0?\x01\0R\x0f\x01\0\0s\x08\n\xff\x01",
    ] {
        let bytes = [b"\x7fTRACE0\n", damaged].concat();
        let once = repaired(&bytes, &path);
        assert_eq!(errors(&once.file), []);
        let again = repaired(&fs::read(&path).unwrap(), &folder.path().join("again.tf"));
        assert_eq!(again.repair.changes, []);
        assert_eq!(again.repair.frames, once.repair.frames);
    }
}

/// A frame that has lost its last bytes ends, by its size, in the next frame.
#[test]
fn a_frame_that_lost_bytes_costs_only_itself() {
    let folder = tempfile::tempdir().unwrap();
    let sample = fs::read(sample("sample.tf")).unwrap();
    let original = TraceFile::from_bytes(sample.clone()).unwrap();
    let frames: Vec<_> = original.frames().collect();
    for (frame, lost) in [(0, 1), (3, 2), (6, 5), (13, 8)] {
        let mut bytes = sample.clone();
        let end = frames[frame].offset() as usize + 6 + frames[frame].data().len();
        bytes.drain(end - lost..end);
        let Repaired { repair, file } = repaired(&bytes, &folder.path().join("shorter.tf"));
        assert_eq!(repair.frames, 23);
        let mut expected = frames.clone();
        expected.remove(frame);
        let same = file
            .frames()
            .zip(&expected)
            .all(|(one, other)| one.data() == other.data());
        assert!(
            same,
            "frame {frame} without {lost} bytes: {:?}",
            repair.changes
        );
    }
}

/// By chance the size of a moved frame leads to its tracepoint's number.
#[test]
fn a_number_alone_leads_nowhere() {
    let folder = tempfile::tempdir().unwrap();
    let frame = |value: u8| {
        frame(
            ByteOrder::Little,
            |f| {
                f.memory(
                    Address(0x1000),
                    &[value, 0, 0, 0, 1, 0, 0xff, 0xff, 0xff, 0x7f],
                )
            },
            4,
        )
    };
    let head = b"\x7fTRACE0\nR 4\nstatus 0;tstop::0;tframes:4;tcreated:4\ntp T1:10:E:0:0\n\n";
    let frames: Vec<_> = (1..5).map(frame).collect();
    let mut bytes = [&head[..], &frames.concat(), &[0; 4]].concat();
    // The second frame begins with other bytes and has fewer, so that it ends before the number in the third.
    let second = head.len() + frames[0].len();
    let lost = frames[0].len() - 21;
    bytes.splice(second + 6..second + 6 + lost, [b'x'; 3]);
    let Repaired { repair, file } = repaired(&bytes, &folder.path().join("moved.tf"));
    assert_eq!(repair.frames, 3, "{:?}", repair.changes);
    assert_eq!(file.frames().next_back().unwrap().bytes(), frames[3]);
}

/// A tracepoint without actions has frames without blocks.
#[test]
fn frames_without_blocks_are_frames() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("empty.tf");
    let bytes = fs::read(sample("without_actions.tf")).unwrap();
    let original = TraceFile::from_bytes(bytes.clone()).unwrap();
    assert_eq!(original.frame_count(), 200);
    assert_eq!(repaired(&bytes, &path).repair.changes, []);
    let start = original.frames_start() as usize;
    // Inside a frame, and between two; the size and the number of one.
    assert_eq!(
        repaired(&bytes[..start + 6 * 150 + 4], &path).repair.frames,
        150
    );
    assert_eq!(repaired(&bytes[..start + 6 * 7], &path).repair.frames, 7);
    for at in [0, 1, 2, 5] {
        let mut damaged = bytes.clone();
        damaged[start + 6 * 20 + at] = 0x55;
        assert_eq!(repaired(&damaged, &path).repair.frames, 199, "byte {at}");
    }
}

#[test]
fn what_nothing_is_wrong_with_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("same.tf");
    // The zeros that end it are not of the usual number.
    for name in [
        "sample.tf",
        "tfile-basic.tf",
        "tfile-error.tf",
        "without_actions.tf",
    ] {
        let bytes = fs::read(sample(name)).unwrap();
        assert_eq!(repaired(&bytes, &path).repair.changes, [], "{name}");
        assert_eq!(fs::read(&path).unwrap(), bytes, "{name}");
    }
}

/// The rest of a checksum's line is no end of a good file, nor are zeros without an end.
#[test]
fn what_is_left_of_a_checksum_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sealed.tf");
    let bytes = fs::read(sample("tfile-basic.tf")).unwrap();
    let left = [&bytes[..], b"checksum crc32 0"].concat();
    let Repaired { repair, file } = repaired(&left, &path);
    assert_eq!(repair.changes, [Change::Checksum]);
    assert_eq!(errors(&file), []);
    assert!(file.checksum().is_some());
    let zeros = [&bytes[..], &[0; 100]].concat();
    let Repaired { repair, file } = repaired(&zeros, &path);
    assert_eq!(repair.changes, []);
    assert_eq!(findings(&file), []);
}

/// Each byte of it may start a frame that reaches to the end.
#[test]
fn what_looks_like_frames_everywhere_has_an_end() {
    let folder = tempfile::tempdir().unwrap();
    let mut bytes = b"\x7fTRACE0\nR 4\ntp T1:10:E:0:0\n\n".to_vec();
    let start = bytes.len();
    bytes.resize(start + (4 << 20), 0);
    for (index, byte) in bytes[start..].iter_mut().enumerate() {
        *byte = b"\x01\x00M\x00\x01\x00"[index % 6];
    }
    repaired(&bytes, &folder.path().join("hostile.tf"));
}

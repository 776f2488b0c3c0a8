//! Real files: one of GDB and gdbserver, two of GDB's own test suite.

use std::fs;

use tracewire_model::{
    Action, Address, ByteOrder, FrameNumber, RegisterNumber, Status, StopReason, TracepointKind,
    TracepointNumber, VariableNumber,
};
use tracewire_test_support::sample;
use tracewire_tracefile::{
    Block, Description, DescriptionParts, Ending, Frame, FrameEncoder, FrameFormat, Search,
    TraceFile, TraceFileWriter,
};

const SAMPLES: [&str; 3] = ["sample.tf", "tfile-basic.tf", "tfile-error.tf"];

/// Writes a frame again from its blocks.
fn encode(frame: &Frame<'_>, format: FrameFormat) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = FrameEncoder::begin(&mut bytes, format, frame.tracepoint()).unwrap();
    for block in frame.blocks() {
        match block {
            Block::Registers(block) => encoder.registers(block).unwrap(),
            Block::Memory { address, bytes } => encoder.memory(address, bytes),
            Block::Variable { number, value } => encoder.variable(number, value),
            Block::StaticData(data) => encoder.static_data(data).unwrap(),
            Block::Unknown(bytes) => panic!("unknown block {bytes:02x?}"),
        }
    }
    encoder.finish().unwrap();
    bytes
}

/// What is read and written again is the same, byte for byte: the lines, and every frame from its blocks. Only
/// the end marker is GDB's, of 4 bytes, in place of what the writer of `tfile-basic.tf` put there.
#[test]
fn reading_and_writing_gives_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    for name in SAMPLES {
        let original = fs::read(sample(name)).unwrap();
        let file = TraceFile::open(sample(name)).unwrap();
        let format = FrameFormat {
            byte_order: file.byte_order(),
            register_block_size: file.register_block_size().unwrap(),
        };
        let copy = folder.path().join(name);
        let mut writer = TraceFileWriter::create(&copy, file.description()).unwrap();
        for frame in file.frames() {
            let again = encode(&frame, format);
            assert_eq!(frame.bytes(), again);
            let start = frame.data_offset() as usize;
            assert_eq!(&original[start..start + frame.data().len()], frame.data());
            writer.append(&again).unwrap();
        }
        writer.finish_unsealed().unwrap();
        let Ending::Marker {
            offset, zero: true, ..
        } = file.ending()
        else {
            panic!("{name}: {:?}", file.ending());
        };
        let written = fs::read(&copy).unwrap();
        assert_eq!(
            written[..offset as usize],
            original[..offset as usize],
            "{name}"
        );
        assert_eq!(written[offset as usize..], [0; 4], "{name}");
        if name == "sample.tf" {
            assert_eq!(
                written, original,
                "a file that GDB wrote is the same to its last byte"
            );
        }
    }
}

/// A description built again from what it says tells the same, and for a file that GDB wrote differs only in
/// how action strings are cut and spelled.
#[test]
fn what_a_description_says_can_be_built_anew() {
    for name in SAMPLES {
        let file = TraceFile::open(sample(name)).unwrap();
        assert_eq!(file.description().problems(), []);
        let built = Description::build(&file.description().parts()).unwrap();
        let sorted = |mut parts: DescriptionParts| {
            parts
                .tracepoints
                .sort_by_key(|tracepoint| tracepoint.definition.key());
            parts
        };
        assert_eq!(
            sorted(built.parts()),
            sorted(file.description().parts()),
            "{name}"
        );
        let kept = |description: &Description| {
            let lines = description.lines().map(|line| {
                let text = line.text.strip_suffix(b";checksum:crc32");
                text.unwrap_or(line.text).to_vec()
            });
            let kept =
                lines.filter(|line| !line.starts_with(b"tp A") && !line.starts_with(b"tp S"));
            let mut kept: Vec<_> = kept.collect();
            kept.sort();
            kept
        };
        assert_eq!(kept(&built), kept(file.description()));
    }
}

#[test]
fn the_sample_says_what_its_session_did() {
    let file = TraceFile::open(sample("sample.tf")).unwrap();
    assert_eq!(file.byte_order(), ByteOrder::Little);
    assert_eq!(file.register_block_size(), Some(0x970));
    assert_eq!(file.layout().unwrap().size(), 0x970);
    assert_eq!(file.layout().unwrap().architecture(), Some("i386:x86-64"));
    assert_eq!(file.frame_count(), 24);
    assert_eq!(
        file.ending(),
        Ending::Marker {
            offset: 77142,
            trailing: 2,
            zero: true
        }
    );

    let status = &file.description().status().unwrap().fields;
    assert!(!status.running);
    assert_eq!(status.stop_reason, Some(StopReason::Command));
    assert_eq!(status.stop_text.as_deref(), Some("stopping now"));
    assert_eq!(status.stopping_tracepoint, None);
    assert_eq!((status.frames, status.frames_created), (Some(24), Some(24)));
    assert_eq!(
        (status.buffer_size, status.buffer_free),
        (Some(1_000_000), Some(0xe57fb))
    );
    assert_eq!(
        (status.circular, status.disconnected),
        (Some(true), Some(true))
    );
    assert_eq!(
        (status.start_time, status.stop_time),
        (Some(0x575a50ce), Some(0x575a67c0))
    );
    assert_eq!(status.notes.as_deref(), Some("first run"));
    assert_eq!(status.user.as_deref(), Some("alice"));

    let variables: Vec<_> = file.description().variables().iter().collect();
    let names: Vec<_> = variables
        .iter()
        .map(|variable| variable.name.as_str())
        .collect();
    assert_eq!(names, ["trace_timestamp", "hits", "seen"]);
    assert!(variables[0].builtin && !variables[1].builtin);

    let [log, disabled, handle] = file.description().tracepoints() else {
        panic!("three tracepoints");
    };
    let definition = &handle.definition;
    assert_eq!(definition.number, TracepointNumber(2));
    assert_eq!(definition.address, Address(0x555555555158));
    assert_eq!((definition.step_count, definition.pass_count), (2, 100));
    assert_eq!(definition.kind, TracepointKind::Trap);
    assert_eq!(definition.condition.as_ref().unwrap().len(), 0x12);
    assert_eq!(definition.source.condition.as_deref(), Some("depth < 3"));
    assert_eq!(definition.source.commands.len(), 7);
    assert_eq!(definition.source.commands[4], "while-stepping 2");
    assert_eq!(
        (definition.actions.len(), definition.step_actions.len()),
        (9, 2)
    );
    let Action::Registers(mask) = &definition.actions[0] else {
        panic!()
    };
    assert_eq!(mask.iter().count(), 148);
    assert_eq!(mask.to_string(), "0fffffffffffffffffffffffffffffffffffff");
    assert_eq!(handle.usage.unwrap().hits, 7);
    assert_eq!(handle.usage.unwrap().bytes, 0x52150);
    let Action::Registers(mask) = &log.definition.actions[0] else {
        panic!()
    };
    assert_eq!(mask.iter().collect::<Vec<_>>(), [RegisterNumber(6)]);
    assert_eq!(
        log.definition.actions[1],
        Action::Memory {
            base: None,
            offset: 0x555555558040,
            length: 0x40
        }
    );
    assert!(!disabled.definition.enabled);
}

#[test]
fn the_frames_of_the_sample_hold_what_was_collected() {
    let file = TraceFile::open(sample("sample.tf")).unwrap();
    let tracepoints: Vec<_> = file.frames().map(|frame| frame.tracepoint().0).collect();
    assert_eq!(tracepoints.iter().filter(|number| **number == 3).count(), 3);
    assert_eq!(
        tracepoints.iter().filter(|number| **number == 2).count(),
        21
    );

    // `$hits` counts the hits of tracepoint 2; the two steps after each collect no variable.
    let hits = VariableNumber(2);
    let counted: Vec<_> = file
        .frames()
        .filter_map(|frame| frame.variable(hits))
        .collect();
    assert_eq!(counted, [1, 2, 3, 4, 5, 6, 7]);
    for frame in file.frames() {
        assert!(
            frame
                .blocks()
                .all(|block| !matches!(block, Block::Unknown(_)))
        );
        let pc = frame.program_counter().unwrap();
        assert_eq!(frame.register_value_named("rip"), Some(pc.0));
        if frame.tracepoint() == TracepointNumber(2) {
            let step = frame.variable(hits).is_none();
            assert_eq!(frame.is_step(), Some(step));
            assert_eq!(pc == Address(0x555555555158), !step);
        } else {
            assert_eq!(frame.is_step(), Some(false));
            assert!(frame.timestamp().is_some());
        }
    }
    // `collect/s j->name` at tracepoint 3: the pointer is in j, which is on the stack.
    let frame = file
        .find(Search::Tracepoint(TracepointNumber(3)), None)
        .unwrap();
    let names: Vec<_> = frame
        .memory_blocks()
        .filter_map(|(_, bytes)| bytes.strip_suffix(b"\0"))
        .filter_map(|bytes| str::from_utf8(bytes).ok())
        .filter(|text| text.len() > 2)
        .collect();
    assert!(!names.is_empty(), "a job's name");
}

#[test]
fn searches_find_what_gdb_would_and_the_steps_too() {
    let file = TraceFile::open(sample("sample.tf")).unwrap();
    let number = |search, after: Option<u64>| {
        file.find(search, after.map(FrameNumber))
            .map(|frame| frame.number().0)
    };
    let at = Search::ProgramCounter(Address(0x555555555183));
    assert_eq!(number(at, None), Some(6));
    assert_eq!(number(at, Some(6)), Some(13));
    let all: Vec<_> = file
        .find_all(at, None)
        .map(|frame| frame.number().0)
        .collect();
    let of_three = Search::Tracepoint(TracepointNumber(3));
    assert_eq!(
        all,
        file.find_all(of_three, None)
            .map(|f| f.number().0)
            .collect::<Vec<_>>()
    );
    assert_eq!(number(Search::Number(FrameNumber(23)), Some(5)), Some(23));
    assert_eq!(number(Search::Number(FrameNumber(24)), None), None);
    // A step's frame is found at its own address, not at its tracepoint's.
    let (start, end) = (Address(0x555555555159), Address(0x555555555182));
    assert_eq!(number(Search::Range { start, end }, None), Some(1));
    let everything = Search::Outside {
        start: Address(0x1000),
        end: Address(0x2000),
    };
    assert_eq!(file.find_all(everything, None).count(), 24);
    let (start, end) = (Address(0x555555555000), Address(0x555555556000));
    assert_eq!(number(Search::Outside { start, end }, None), None);
    let time = file.frames().find_map(|frame| frame.timestamp()).unwrap();
    assert_eq!(
        number(
            Search::Time {
                start: time,
                end: time
            },
            None
        ),
        Some(6)
    );
}

#[test]
fn the_files_of_gdbs_test_suite_say_what_they_hold() {
    let file = TraceFile::open(sample("tfile-basic.tf")).unwrap();
    assert_eq!(file.register_block_size(), Some(500));
    assert_eq!(file.frame_count(), 1);
    let frame = file.frame(FrameNumber(0)).unwrap();
    assert_eq!(frame.program_counter(), Some(Address(0x401331)));
    assert_eq!(
        frame.memory(Address(0x404048), 4),
        Some(vec![0xb7, 0x7a, 0, 0])
    );
    assert_eq!(
        frame.memory(Address(0x40404c), 4),
        Some(vec![0xd4, 0x25, 4, 0])
    );
    assert_eq!(frame.memory(Address(0x40404c), 5), None);
    let mut around = [Some(1); 12];
    frame.read_memory(Address(0x404046), &mut around);
    assert_eq!(around.iter().filter(|byte| byte.is_none()).count(), 4);
    assert_eq!(around[2..6], [Some(0xb7), Some(0x7a), Some(0), Some(0)]);

    let file = TraceFile::open(sample("tfile-error.tf")).unwrap();
    assert_eq!(file.frame_count(), 0);
    let status = &file.description().status().unwrap().fields;
    assert_eq!(status.stop_reason, Some(StopReason::Error));
    assert_eq!(status.stop_text.as_deref(), Some("made-up error"));
    assert_eq!(status.stopping_tracepoint, Some(TracepointNumber(1)));
}

/// Each field of the status line stays as the file's writer has written it, however often the file is written again.
#[test]
fn a_status_line_stays_as_it_was_read() {
    for status in [
        "0;tstop:0",
        "0;tstop::0",
        "0;tstop:6162:0;notes:63",
        "1;tframes:0A;circular:01",
        "0;tfull:3;own:field;username:",
        "0;checksum:crc32;tstop:0;stoptime:00",
    ] {
        let text = format!("R 8\nstatus {status}\n");
        let mut description = Description::parse(text.into_bytes());
        for round in 0..3 {
            description = Description::build(&description.parts()).unwrap();
            let fields: Vec<&str> = status
                .split(';')
                .filter(|field| *field != Status::SEALED)
                .collect();
            let expected = format!("status {};{}", fields.join(";"), Status::SEALED);
            let line = description
                .lines()
                .find(|line| line.text.starts_with(b"status "));
            let line = String::from_utf8_lossy(line.unwrap().text).into_owned();
            assert_eq!(line, expected, "round {round}");
        }
    }
}

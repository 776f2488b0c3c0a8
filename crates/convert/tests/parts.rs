//! Cutting, splitting and merging; GDB opens what comes out.

mod files;

use std::fs;

use tracewire_convert::part::{self, SplitBy};
use tracewire_convert::{ConvertError, merge};
use tracewire_model::{
    Action, Address, ByteOrder, FrameNumber, TracepointNumber, TracepointUsage, VariableNumber,
};
use tracewire_test_support::Gdb;
use tracewire_tracefile::{Checksum, Description, FrameEncoder, TraceFile};

fn cut(file: &TraceFile, frames: impl Iterator<Item = FrameNumber> + Clone) -> TraceFile {
    let mut out = Vec::new();
    part::write(file, frames, &mut out).expect("written");
    files::read(&out)
}

fn merged(all: &[TraceFile]) -> TraceFile {
    let mut out = Vec::new();
    merge::write(all, &mut out).expect("merged");
    files::read(&out)
}

/// GDB's output for commands on a trace file.
fn gdb(file: &TraceFile, commands: &[&str]) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("file.tf");
    fs::write(&path, file.as_bytes()).expect("written");
    let gdb = Gdb::new().command(format!("target tfile {}", path.display()));
    let said = gdb.commands(commands).run();
    assert!(said.success, "{said:?}");
    said.all()
}

fn data(file: &TraceFile) -> Vec<(i32, Vec<u8>)> {
    file.frames()
        .map(|frame| (frame.tracepoint().0, frame.data().to_vec()))
        .collect()
}

#[test]
fn a_range_is_cut_out_and_gdb_opens_it() {
    let file = files::sample();
    let part = cut(&file, part::frames_in(&file, 3..8));
    assert_eq!(data(&part), data(&file)[3..8]);
    let fields = &part.description().status().expect("a status").fields;
    assert_eq!((fields.frames, fields.frames_created), (Some(5), Some(24)));
    let used = |file: &TraceFile| {
        let fields = &file.description().status().expect("a status").fields;
        fields
            .buffer_size
            .zip(fields.buffer_free)
            .map(|(size, free)| size - free)
    };
    let bytes = |file: &TraceFile| file.frames().map(|frame| frame.bytes().len() as u64).sum();
    assert_eq!(
        (used(&file), used(&part)),
        (Some(bytes(&file)), Some(bytes(&part)))
    );
    let text = gdb(
        &part,
        &[
            "tfind 3",
            "print $rip",
            "print $trace_frame",
            "tfind 5",
            "tstatus",
        ],
    );
    assert!(text.contains("0x555555555183"), "{text}");
    assert!(text.contains("= 3"), "{text}");
    assert!(text.contains("No trace frame found"), "{text}");
    assert!(
        text.contains("Buffer contains 5 trace frames (of 24 created total)"),
        "{text}"
    );
    // All of it is the same file again.
    let whole = cut(&file, part::frames_in(&file, 0..u64::MAX));
    let (bytes, noted) = Checksum::split(whole.as_bytes()).expect("a checksum of ours");
    assert_eq!(noted, whole.found_checksum());
    let text = String::from_utf8_lossy(bytes).replacen(";checksum:crc32", "", 1);
    assert_eq!(text, String::from_utf8_lossy(file.as_bytes()));
}

#[test]
fn a_time_is_cut_out() {
    let file = files::sample();
    let numbers: Vec<_> = part::frames_at(&file, 1_465_540_000..=1_465_541_000)
        .iter()
        .map(|number| number.0)
        .collect();
    // Frames without a time follow the last time before the range's end.
    assert_eq!(numbers, (6..17).collect::<Vec<_>>());
}

/// The cost of a part depends on the part, not on the whole file.
#[test]
fn a_file_of_many_frames_makes_many_parts() {
    let mut bytes =
        b"\x7fTRACE0\nR 4\nstatus 0;tstop::0;tsize:500000;tfree:0\ntp T1:1000:E:0:0\n\n".to_vec();
    bytes.extend(b"\x01\0\0\0\0\0".repeat(500_000));
    bytes.extend([0; 4]);
    let file = files::read(&bytes);
    let parts = part::split(&file, SplitBy::Count(50)).expect("split");
    assert_eq!(parts.len(), 10_000);
    for part in parts {
        let frames = part.frames.iter().copied();
        let written = part::write(&file, frames, &mut std::io::sink());
        assert_eq!(written.expect("written"), 50);
    }
    let part = cut(&file, part::frames_in(&file, 7..9));
    let status = part.description().status().expect("a status");
    assert_eq!(status.fields.buffer_free, Some(499_998 * 6));
}

/// Unknown fields are kept, each of them once, in any number.
#[test]
fn unknown_fields_of_the_status_are_merged() {
    let with = |fields: &str| {
        let text = format!("\x7fTRACE0\nR 4\nstatus 0;tstop::0{fields}\n\n\0\0\0\0");
        files::read(text.as_bytes())
    };
    let merged = merged(&[with(";one:1;two:2"), with(";two:2;two:3")]);
    let other = &merged
        .description()
        .status()
        .expect("a status")
        .fields
        .other;
    let names: Vec<_> = other
        .iter()
        .map(|(name, value)| format!("{name}:{value}"))
        .collect();
    assert_eq!(names, ["one:1", "two:2", "two:3"]);
    let many: String = (0..300_000).map(|count| format!(";f{count}:")).collect();
    let _ = merge::write(&[with(&many), with(&many)], &mut std::io::sink());
}

#[test]
fn parts_have_every_frame_once() {
    let file = files::sample();
    for (by, names) in [
        (SplitBy::Tracepoint, vec!["tracepoint-2", "tracepoint-3"]),
        (SplitBy::Thread, vec!["thread-unknown"]),
        (SplitBy::Count(10), vec!["0", "1", "2"]),
    ] {
        let parts = part::split(&file, by).expect("split");
        let found: Vec<_> = parts.iter().map(|part| part.name.as_str()).collect();
        assert_eq!(found, names);
        let mut numbers: Vec<_> = parts.iter().flat_map(|part| &part.frames).collect();
        numbers.sort();
        assert!(numbers.into_iter().map(|number| number.0).eq(0..24));
        for part in &parts {
            let written = cut(&file, part.frames.iter().copied());
            assert_eq!(written.frame_count(), part.frames.len() as u64);
        }
    }
    assert!(matches!(
        part::split(&file, SplitBy::Count(0)),
        Err(ConvertError::EmptyParts)
    ));
}

/// A file of frames of one tracepoint at some times.
fn timed(
    tracepoint: tracewire_model::TracepointDefinition,
    variables: &[(i32, &str)],
    frames: &[(i64, i32, i64)],
) -> TraceFile {
    let mut all = files::clock();
    all.extend(
        variables
            .iter()
            .map(|(number, name)| files::variable(*number, name, false)),
    );
    let number = tracepoint.number.0;
    let status = format!(
        "0;tstop::0;tframes:{0:x};tcreated:{0:x};tfree:100;tsize:1000;starttime:{1:x};stoptime:{1:x}",
        frames.len(),
        frames[0].0
    );
    let parts = files::parts(ByteOrder::Little, vec![tracepoint], all, &status);
    type Fill = Box<dyn Fn(&mut FrameEncoder<'_>)>;
    let fills: Vec<Fill> = frames
        .iter()
        .map(|(time, variable, value)| -> Fill {
            let (time, variable, value) = (*time, *variable, *value);
            Box::new(move |frame| {
                frame
                    .registers(&files::block(ByteOrder::Little, 0, 0x1000))
                    .expect("a block");
                frame.variable(VariableNumber(1), time);
                frame.variable(VariableNumber(variable), value);
            })
        })
        .collect();
    let frames: Vec<_> = fills.iter().map(|fill| (number, &**fill)).collect();
    files::read(&files::build(&parts, ByteOrder::Little, &frames))
}

fn counting(number: i32, at: &str, variable: u16) -> tracewire_model::TracepointDefinition {
    let [high, low] = variable.to_be_bytes();
    let mut definition = files::definition(number, 0x1000, at);
    // getv; tracev; pop; end
    definition.actions = vec![Action::Expression(vec![
        0x2c, high, low, 0x2e, high, low, 0x29, 0x27,
    ])];
    definition.condition = Some(vec![0x2c, high, low, 0x27]);
    definition
}

#[test]
fn clashing_numbers_are_changed_everywhere_and_time_orders_the_frames() {
    let one = timed(
        counting(1, "f", 4),
        &[(4, "hits")],
        &[(100, 4, 1), (300, 4, 2)],
    );
    let two = timed(
        counting(1, "g", 4),
        &[(4, "seen"), (5, "hits")],
        &[(200, 4, 7), (400, 5, 3)],
    );
    let merged = merged(&[one, two]);
    let names: Vec<_> = merged
        .description()
        .variables()
        .iter()
        .map(|variable| (variable.number.0, variable.name.as_str()))
        .collect();
    assert_eq!(
        names,
        [
            (1, "trace_timestamp"),
            (2, "trace_thread"),
            (3, "trace_cpu"),
            (4, "hits"),
            (5, "seen")
        ]
    );
    let seen: Vec<_> = merged
        .frames()
        .map(|frame| {
            let value = |number| frame.variable(VariableNumber(number));
            (frame.timestamp(), frame.tracepoint().0, value(4), value(5))
        })
        .collect();
    assert_eq!(
        seen,
        [
            (Some(100), 1, Some(1), None),
            (Some(200), 2, None, Some(7)),
            (Some(300), 1, Some(2), None),
            (Some(400), 2, Some(3), None),
        ]
    );
    let tracepoints = merged.description().tracepoints();
    let mut definitions = tracepoints.iter().map(|tracepoint| &tracepoint.definition);
    let second = definitions
        .find(|definition| definition.number.0 == 2)
        .expect("number 2");
    assert_eq!(second.source.at.as_deref(), Some("g"));
    assert_eq!(second.condition.as_deref(), Some(&[0x2c, 0, 5, 0x27][..]));
    assert_eq!(
        second.actions,
        [Action::Expression(vec![0x2c, 0, 5, 0x2e, 0, 5, 0x29, 0x27])]
    );
    let fields = &merged.description().status().expect("a status").fields;
    assert_eq!((fields.frames, fields.frames_created), (Some(4), Some(4)));
    assert_eq!(
        (fields.start_time, fields.stop_time),
        (Some(100), Some(200))
    );
}

#[test]
fn tracepoints_defined_alike_are_one() {
    let one = timed(counting(1, "f", 4), &[(4, "hits")], &[(100, 4, 1)]);
    let two = timed(counting(1, "f", 9), &[(9, "hits")], &[(50, 9, 2)]);
    let merged = merged(&[one, two]);
    assert_eq!(merged.description().tracepoints().len(), 1);
    let values: Vec<_> = merged
        .frames()
        .map(|frame| (frame.tracepoint(), frame.variable(VariableNumber(4))))
        .collect();
    assert_eq!(
        values,
        [
            (TracepointNumber(1), Some(2)),
            (TracepointNumber(1), Some(1))
        ]
    );
}

/// The parts of a file, merged in any order, are the file again: what they count of the run is not added up.
#[test]
fn the_parts_of_a_file_make_the_file() {
    let definitions = [1, 2, 3].map(|number| files::definition(number, 0x1000, "f"));
    let mut parts = files::parts(
        ByteOrder::Little,
        definitions.to_vec(),
        files::clock(),
        "0;tpasscount:2;tframes:6;tcreated:8;tfree:200;tsize:1000;circular:1;starttime:64;stoptime:c8",
    );
    for (tracepoint, hits) in parts.tracepoints.iter_mut().zip([4, 3, 1]) {
        tracepoint.usage = Some(TracepointUsage { hits, bytes: 100 });
    }
    type Fill = Box<dyn Fn(&mut FrameEncoder<'_>)>;
    let fills: Vec<Fill> = (0..6)
        .map(|time| -> Fill { Box::new(move |frame| frame.variable(VariableNumber(1), time)) })
        .collect();
    let frames: Vec<_> = fills.iter().zip([1, 2, 1, 3, 2, 1]).collect();
    let frames: Vec<_> = frames
        .iter()
        .map(|(fill, number)| (*number, &***fill))
        .collect();
    let whole = files::read(&files::build(&parts, ByteOrder::Little, &frames));
    let split = part::split(&whole, SplitBy::Tracepoint).expect("three parts");
    let mut split: Vec<_> = split
        .into_iter()
        .map(|part| cut(&whole, part.frames.into_iter()))
        .collect();
    let described = |file: &TraceFile| {
        let mut parts = file.description().parts();
        // The parts have a checksum, which the file has not.
        if let Some(status) = &mut parts.status {
            status.fields.sealed = false;
        }
        Description::build(&parts)
            .expect("short lines")
            .as_bytes()
            .to_vec()
    };
    let all = merged(&split);
    assert_eq!(data(&all), data(&whole));
    assert_eq!(described(&all), described(&whole));
    let last = split.pop().expect("a part");
    let all = merged(&[last, merged(&split)]);
    assert_eq!(data(&all), data(&whole));
    assert_eq!(described(&all), described(&whole));
    // Another run of the same script is counted beside it, and its tracepoint stopped it.
    let mut again = parts.clone();
    if let Some(status) = &mut again.status {
        status.fields.start_time = Some(300);
        status.fields.stop_time = Some(400);
        status.fields.stopping_tracepoint = Some(TracepointNumber(3));
    }
    let again = files::read(&files::build(&again, ByteOrder::Little, &frames));
    let both = merged(&[all, again]);
    let fields = &both.description().status().expect("a status").fields;
    assert_eq!(fields.frames_created, Some(16));
    assert_eq!(fields.buffer_size, Some(0x2000));
    assert_eq!(fields.stopping_tracepoint, Some(TracepointNumber(3)));
    let hits: Vec<_> = both
        .description()
        .tracepoints()
        .iter()
        .map(|tracepoint| (tracepoint.definition.number.0, tracepoint.usage))
        .map(|(number, usage)| (number, usage.expect("known").hits))
        .collect();
    assert_eq!(hits, [(3, 2), (2, 6), (1, 8)]);
}

#[test]
fn gdb_opens_what_was_merged() {
    let file = files::sample();
    let halves = [
        cut(&file, part::frames_in(&file, 0..10)),
        cut(&file, part::frames_in(&file, 10..24)),
    ];
    let merged = merged(&halves);
    assert_eq!(data(&merged), data(&file));
    let text = gdb(
        &merged,
        &[
            "tfind 13",
            "print $rip",
            "print $trace_timestamp",
            "print $hits",
            "tfind 23",
            "tfind 24",
        ],
    );
    assert!(
        text.contains("0x555555555183") && text.contains("= 1465540961"),
        "{text}"
    );
    assert!(text.contains("No trace frame found"), "{text}");
}

#[test]
fn files_of_different_machines_are_refused() {
    let other = timed(files::definition(1, 0x1000, "f"), &[], &[(1, 1, 1)]);
    let error = merge::write(&[files::sample(), other], &mut Vec::new()).expect_err("refused");
    assert_eq!(
        error.to_string(),
        "file 2 cannot be merged with the first one: its register blocks are 28 bytes, not 2416 bytes"
    );
    assert!(matches!(
        merge::write(&[], &mut Vec::new()),
        Err(ConvertError::NothingToMerge)
    ));
}

#[test]
fn a_cut_file_keeps_big_endian_frames_and_odd_lines() {
    let order = ByteOrder::Big;
    let parts = files::parts(
        order,
        vec![files::definition(1, 0x1000, "f")],
        files::clock(),
        "1;tframes:2;more:x",
    );
    let bytes = files::build(
        &parts,
        order,
        &[
            (1, &|frame| frame.memory(Address(1), &[1])),
            (1, &|frame| frame.memory(Address(2), &[2])),
        ],
    );
    let bytes = [&bytes[..8], b"a line of another's\n", &bytes[8..]].concat();
    let file = files::read(&bytes);
    let part = cut(&file, [FrameNumber(1)].into_iter());
    assert_eq!(part.byte_order(), order);
    assert_eq!(
        part.description()
            .unknown_lines()
            .next()
            .map(|line| line.text),
        Some(&b"a line of another's"[..])
    );
    assert_eq!(
        part.description()
            .status()
            .map(ToString::to_string)
            .as_deref(),
        Some("1;tframes:1;checksum:crc32;more:x")
    );
    assert_eq!(
        part.frames()
            .next()
            .and_then(|frame| frame.memory(Address(2), 1)),
        Some(vec![2])
    );
}

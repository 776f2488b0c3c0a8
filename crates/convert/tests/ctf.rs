//! babeltrace2 reads the contents of the trace file.

mod files;

use std::fs::{self, File};
use std::io::BufWriter;
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;
use tracewire_convert::ctf;
use tracewire_expr::Datum;
use tracewire_model::{Address, ByteOrder, VariableNumber};
use tracewire_tracefile::{Block, Frame, TraceFile};

/// The values of a frame.
type Values = Vec<(String, Datum)>;

/// A folder with the trace.
fn written(file: &TraceFile, values: impl Fn(u64) -> Values) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    ctf::write(
        file,
        |frame| values(frame.number().0),
        |name| File::create(folder.path().join(name)).map(BufWriter::new),
    )
    .expect("written");
    folder
}

/// Every message of the trace, as babeltrace2's Python bindings give it.
fn through_babeltrace(file: &TraceFile) -> Vec<Value> {
    with_values(file, |_| Vec::new())
}

/// As [`through_babeltrace`], of frames with values.
fn with_values(file: &TraceFile, values: impl Fn(u64) -> Values) -> Vec<Value> {
    let folder = written(file, values);
    let metadata = fs::read_to_string(folder.path().join("metadata")).expect("metadata");
    // The system's own python has the bindings, another one on the path need not.
    let text = files::run(
        Command::new("/usr/bin/python3")
            .arg(files::folder().join("dump_ctf.py"))
            .arg(folder.path()),
    );
    // And the program reads it too, without a warning.
    let events = files::run(Command::new("babeltrace2").arg(folder.path()));
    let complaint = events
        .lines()
        .filter(|line| !line.contains("Tracer discarded"))
        .find(|line| line.contains("WARNING") || line.contains("ERROR"));
    assert_eq!(complaint, None, "{events}\n{metadata}");
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {text}")))
        .collect()
}

fn events(messages: &[Value]) -> Vec<&Value> {
    messages
        .iter()
        .filter(|message| !message["fields"].is_null())
        .collect()
}

/// The fields that the event of a frame must have.
fn expected(file: &TraceFile, frame: &Frame<'_>) -> Value {
    let mut fields = json!({ "frame": frame.number().0 });
    if let Some(pc) = frame.program_counter() {
        fields["pc"] = pc.0.into();
    }
    if let Some(thread) = frame.thread() {
        fields["thread"] = thread.0.into();
    }
    if let Some(cpu) = frame.cpu() {
        fields["cpu"] = cpu.into();
    }
    if let Some(step) = frame.is_step() {
        fields["stepping"] = u8::from(step).into();
    }
    let mut memory = Vec::new();
    for block in frame.blocks() {
        match block {
            Block::Registers(block) => {
                fields["registers"] = registers(file, block);
            }
            Block::Memory { address, bytes } => memory.push(json!({
                "address": address.0,
                "length": bytes.len(),
                "bytes": bytes,
            })),
            Block::Variable { number, value } => {
                let defined = file.description().variables();
                let known = defined.iter().find(|variable| variable.number == number);
                let name = known.map_or_else(
                    || format!("variable_{number}").replace('-', "_"),
                    |variable| variable.name.clone(),
                );
                let again = !fields[&name].is_null();
                fields[if again { format!("{name}_2") } else { name }] = value.into();
            }
            Block::StaticData(bytes) => {
                fields["static_data_length"] = bytes.len().into();
                fields["static_data"] = bytes.into();
            }
            Block::Unknown(bytes) => {
                fields["unknown_length"] = bytes.len().into();
                fields["unknown"] = bytes.into();
            }
        }
    }
    fields["memory_count"] = memory.len().into();
    fields["memory"] = memory.into();
    fields
}

fn registers(file: &TraceFile, block: &[u8]) -> Value {
    let Some(layout) = file.layout() else {
        return json!({ "bytes": block });
    };
    layout
        .registers()
        .iter()
        .map(|register| {
            let start = register.offset as usize;
            let bytes = &block[start..start + register.size() as usize];
            let value = match file.byte_order().unsigned(bytes) {
                Some(value) => value.into(),
                None => json!(bytes),
            };
            (register.name.clone(), value)
        })
        .collect()
}

/// Every frame is an event with all its values, at its time, in the order given.
fn assert_events(file: &TraceFile, order: &[u64]) -> Vec<Value> {
    let messages = through_babeltrace(file);
    let events = events(&messages);
    assert_eq!(events.len(), order.len());
    for (event, number) in events.iter().zip(order) {
        let frame = file
            .frame(tracewire_model::FrameNumber(*number))
            .expect("a frame");
        assert_eq!(event["name"], format!("tracepoint_{}", frame.tracepoint()));
        assert_eq!(event["fields"], expected(file, &frame), "frame {number}");
        if let Some(time) = frame.timestamp() {
            assert_eq!(event["nanoseconds"], time * 1000, "frame {number}");
        }
    }
    messages
}

#[test]
fn gdb_s_sample_has_all_its_values() {
    let file = files::sample();
    let order: Vec<u64> = (0..file.frame_count()).collect();
    assert_events(&file, &order);
}

#[test]
fn a_file_without_frames_or_times_is_read_too() {
    for sample in files::samples().iter().skip(1) {
        let file = files::read(sample);
        let order: Vec<u64> = (0..file.frame_count()).collect();
        assert_events(&file, &order);
    }
}

#[test]
fn cpus_are_streams_and_times_order_them() {
    for order in [ByteOrder::Little, ByteOrder::Big] {
        let mut variables = files::clock();
        variables.extend([
            files::variable(4, "event", false),
            files::variable(5, "strange name-", false),
            files::variable(6, "frame", false),
        ]);
        variables[4].name = "strange_name_".to_owned();
        let tracepoints = vec![
            files::definition(7, 0x1000, "work \"here\"\\"),
            files::definition(8, 0x2000, "other"),
        ];
        let parts = files::parts(
            order,
            tracepoints,
            variables,
            "0;tfull:0;tframes:5;tcreated:9;tfree:0;tsize:1000;circular:1;notes:6869",
        );
        let number = VariableNumber;
        let bytes = files::build(
            &parts,
            order,
            &[
                (7, &|frame| {
                    frame
                        .registers(&files::block(order, 0xffff_ffff, 0x1000))
                        .expect("a block");
                    frame.variable(number(1), 5_000);
                    frame.variable(number(2), 77);
                    frame.variable(number(3), 1);
                    frame.memory(Address(0xffff_ffff_ffff_0000), &[0xff, 0, 0x80]);
                    frame.variable(number(4), -1);
                    frame.variable(number(4), i64::MIN);
                    frame.memory(Address(0x10), &[7; 300]);
                }),
                (8, &|frame| {
                    frame.variable(number(1), 4_000);
                    frame.variable(number(3), 0);
                    frame.variable(number(9), 12);
                }),
                (7, &|frame| {
                    frame.variable(number(1), 4_500);
                    frame.variable(number(3), 1);
                    frame.static_data(b"static").expect("short");
                    frame.variable(number(5), 1);
                }),
                (7, &|frame| {
                    frame.variable(number(1), 6_000);
                    frame.variable(number(3), 0);
                }),
                (8, &|frame| {
                    frame
                        .registers(&files::block(order, 1, 2))
                        .expect("a block")
                }),
            ],
        );
        let file = files::read(&bytes);
        assert_eq!(file.byte_order(), order);
        // The last frame has no cpu and no time: it has that of the previous one, and a separate stream.
        let messages = through_babeltrace(&file);
        let seen: Vec<_> = events(&messages)
            .iter()
            .map(|event| event["fields"]["frame"].clone())
            .collect();
        assert_eq!(&seen[..3], [1, 2, 0], "{messages:?}");
        assert_eq!(
            events(&messages).last().map(|event| &event["nanoseconds"]),
            Some(&json!(6_000_000))
        );
        let order: Vec<u64> = seen.iter().filter_map(Value::as_u64).collect();
        let messages = assert_events(&file, &order);
        let lost: Vec<_> = messages
            .iter()
            .filter(|message| !message["discarded"].is_null())
            .collect();
        assert_eq!(lost, [&json!({ "discarded": 4 })]);
        let cpus: Vec<_> = messages
            .iter()
            .filter(|message| !message["packet"]["cpu_id"].is_null())
            .map(|message| message["packet"]["cpu_id"].clone())
            .collect();
        assert!(
            cpus.contains(&json!(0)) && cpus.contains(&json!(1)),
            "{cpus:?}"
        );
    }
}

#[test]
fn packets_follow_one_another() {
    let parts = files::parts(
        ByteOrder::Little,
        vec![files::definition(1, 0x1000, "f")],
        files::clock(),
        "0;tstop::0",
    );
    type Fill = Box<dyn Fn(&mut tracewire_tracefile::FrameEncoder<'_>)>;
    let fills: Vec<Fill> = (0..3000)
        .map(|time| -> Fill {
            Box::new(move |frame| {
                frame.variable(VariableNumber(1), time);
                frame.memory(Address(0x1000), &[time as u8; 100]);
            })
        })
        .collect();
    let frames: Vec<_> = fills.iter().map(|fill| (1, &**fill)).collect();
    let file = files::read(&files::build(&parts, ByteOrder::Little, &frames));
    let order: Vec<u64> = (0..3000).collect();
    let messages = assert_events(&file, &order);
    let packets: Vec<_> = messages
        .iter()
        .filter(|message| !message["packet"].is_null())
        .collect();
    assert!(packets.len() > 3);
    let ends = messages
        .iter()
        .filter_map(|message| message["packet_end"].as_u64());
    for (end, next) in ends.zip(&packets[1..]) {
        assert!(Some(end) <= next["nanoseconds"].as_u64(), "{end} {next}");
    }
}

#[test]
fn values_that_are_no_times_do_no_harm() {
    let parts = files::parts(
        ByteOrder::Little,
        vec![files::definition(1, 0x1000, "f")],
        files::clock(),
        "0;tstop::0",
    );
    let bytes = files::build(
        &parts,
        ByteOrder::Little,
        &[
            (1, &|frame| frame.variable(VariableNumber(1), -1)),
            (1, &|frame| frame.variable(VariableNumber(1), 10)),
            (1, &|frame| frame.variable(VariableNumber(1), i64::MAX)),
        ],
    );
    let messages = through_babeltrace(&files::read(&bytes));
    let times: Vec<_> = events(&messages)
        .iter()
        .map(|event| event["nanoseconds"].clone())
        .collect();
    assert_eq!(times, [10_000, 10_000, 10_000]);
}

#[test]
fn printed_times_are_those_of_the_file_to_the_microsecond() {
    let parts = files::parts(
        ByteOrder::Little,
        vec![files::definition(1, 0x1000, "f")],
        files::clock(),
        "0;tstop::0",
    );
    // Of today, and the latest that readers of event streams can hold.
    let times = [
        1_795_321_751_025_787,
        1_795_321_751_025_788,
        1_795_321_751_999_999,
        i64::MAX / 1000,
    ];
    let fills = times.map(|time| {
        move |frame: &mut tracewire_tracefile::FrameEncoder<'_>| {
            frame.variable(VariableNumber(1), time)
        }
    });
    let frames: Vec<(i32, &files::Fill<'_>)> = fills.iter().map(|fill| (1, fill as _)).collect();
    let file = files::read(&files::build(&parts, ByteOrder::Little, &frames));
    let folder = written(&file, |_| Vec::new());
    let text = files::run(
        Command::new("babeltrace2")
            .arg("--clock-seconds")
            .arg(folder.path()),
    );
    let printed: Vec<_> = text
        .lines()
        .filter_map(|line| line.strip_prefix('[')?.split_once(']'))
        .map(|(time, _)| time.to_owned())
        .collect();
    let expected = times.map(|time| format!("{}.{:06}000", time / 1_000_000, time % 1_000_000));
    assert_eq!(printed, expected, "{text}");
}

#[test]
fn as_many_tracepoints_as_a_script_can_have_are_events() {
    let numbers = 1..=5000;
    let parts = files::parts(
        ByteOrder::Little,
        numbers
            .clone()
            .map(|number| files::definition(number, 0x1000 + number as u64, "f"))
            .collect(),
        files::clock(),
        "0;tstop::0",
    );
    let fill = |frame: &mut tracewire_tracefile::FrameEncoder<'_>| {
        frame.variable(VariableNumber(1), 1_795_321_751_025_787)
    };
    let frames: Vec<(i32, &files::Fill<'_>)> = numbers.map(|number| (number, &fill as _)).collect();
    let file = files::read(&files::build(&parts, ByteOrder::Little, &frames));
    let folder = written(&file, |_| Vec::new());
    let text = files::run(Command::new("babeltrace2").arg(folder.path()));
    let printed: Vec<_> = text
        .lines()
        .filter_map(|line| line.split_once("tracepoint_")?.1.split_once(':'))
        .filter_map(|(number, _)| number.parse::<i32>().ok())
        .collect();
    assert_eq!(printed, (1..=5000).collect::<Vec<_>>());
}

#[test]
fn values_of_expressions_have_types() {
    let string = |bytes: &[u8]| Datum::String {
        bytes: bytes.to_vec(),
        is_cut: false,
    };
    let list = |items: Vec<Datum>| Datum::List {
        items,
        is_cut: false,
    };
    let values = |frame: u64| -> Values {
        let item = |number| {
            Datum::Structure(vec![
                ("id".to_owned(), Datum::Integer(number)),
                ("name".to_owned(), string(b"n\xff")),
            ])
        };
        let entries = vec![(string(b"k"), Datum::Float(0.5))];
        // Some frames have no value there, and others have fewer items.
        let pointer = match frame % 3 {
            0 => Datum::Missing("<unavailable>".to_owned()),
            _ => Datum::Address(0x1000),
        };
        let items = (0..i128::from(frame % 4)).map(item).collect();
        let values = [
            ("flag", Datum::Boolean(true)),
            ("count", Datum::Integer(-5)),
            ("large", Datum::Integer(u64::MAX.into())),
            ("huge", Datum::LargeInteger(u128::MAX)),
            ("ratio", Datum::Float(2.25)),
            ("p", pointer),
            ("job->items", list(items)),
            (
                "mixed",
                list(vec![Datum::Integer(1), Datum::Text("RED".to_owned())]),
            ),
            (
                "map",
                Datum::Map {
                    entries,
                    is_cut: false,
                },
            ),
            ("text", string(b"a\0b")),
            ("integer", Datum::Text("a word that TSDL has".to_owned())),
        ];
        values.map(|(name, datum)| (name.to_owned(), datum)).into()
    };
    let file = files::sample();
    let messages = with_values(&file, values);
    let events = events(&messages);
    assert_eq!(events.len() as u64, file.frame_count());
    for event in events {
        let frame = event["fields"]["frame"].as_u64().expect("a number");
        let items: Vec<Value> = (0..frame % 4)
            .map(|number| json!({ "id": number, "name": "n\u{fffd}" }))
            .collect();
        let pointer = match frame % 3 {
            0 => json!("<unavailable>"),
            _ => json!(0x1000),
        };
        assert_eq!(
            event["fields"]["values"],
            json!({
                "flag": 1,
                "count": -5,
                "large": u64::MAX,
                "huge": u128::MAX.to_string(),
                "ratio": 2.25,
                "p": pointer,
                "job__items": { "length": items.len(), "items": items },
                "mixed": "[1, \"RED\"]",
                "map": { "length": 1, "items": [{ "key": "k", "value": 0.5 }] },
                "text": "a\u{fffd}b",
                "integer": "a word that TSDL has",
            })
        );
    }
}

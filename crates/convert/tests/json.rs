//! Conversion to JSON and back, byte for byte.

mod files;

use proptest::prelude::*;
use tracewire_convert::json;
use tracewire_model::{Address, ByteOrder, VariableNumber};
use tracewire_tracefile::TraceFile;

fn to_json(bytes: &[u8]) -> String {
    let mut out = Vec::new();
    json::write(&files::read(bytes), &mut out).expect("written");
    String::from_utf8(out).expect("JSON is UTF-8")
}

fn from_json(text: &str) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    json::read(&mut text.as_bytes(), &mut out).map_err(|error| error.to_string())?;
    Ok(out)
}

fn assert_identical(bytes: &[u8]) {
    assert!(
        from_json(&to_json(bytes)).as_deref() == Ok(bytes),
        "another file comes back"
    );
}

#[test]
fn samples_come_back_identical() {
    for sample in files::samples() {
        assert_identical(&sample);
    }
}

#[test]
fn what_a_frame_holds_can_be_read() {
    let text = to_json(&files::samples()[0]);
    let lines: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(lines[0]["byte_order"], "little");
    let status = lines
        .iter()
        .find(|line| !line["status"].is_null())
        .expect("a status line");
    assert_eq!(status["status"]["frames"], 24);
    assert_eq!(status["status"]["stop_text"], "stopping now");
    let frames: Vec<_> = lines
        .iter()
        .filter(|line| line["kind"] == "frame")
        .collect();
    assert_eq!(frames.len(), 24);
    assert_eq!(frames[0]["pc"], "0x555555555158");
    assert_eq!(frames[0]["blocks"][0]["registers"]["rip"], "0x555555555158");
    assert_eq!(frames[0]["blocks"][1]["memory"], "0x555555558080");
    assert_eq!(frames[6]["time_us"], 1_465_540_656);
    assert_eq!(frames[0]["blocks"][9]["name"], "hits");
    assert_eq!(frames[1]["stepping"], true);
}

#[test]
fn big_endian_and_wide_registers_come_back() {
    for order in [ByteOrder::Little, ByteOrder::Big] {
        let parts = files::parts(
            order,
            vec![files::definition(7, 0x1000, "f")],
            files::clock(),
            "0;tstop::0",
        );
        let bytes = files::build(
            &parts,
            order,
            &[
                (7, &|frame| {
                    frame
                        .registers(&files::block(order, 0x12, 0x1000))
                        .expect("a block");
                    frame.memory(Address(u64::MAX), &[1, 2, 3]);
                    frame.variable(VariableNumber(-3), i64::MIN);
                    frame.static_data(b"data").expect("short");
                }),
                (7, &|_| {}),
            ],
        );
        assert_identical(&bytes);
        let text = to_json(&bytes);
        assert!(
            text.contains("\"flags\":\"0x12\",\"pc\":\"0x1000\""),
            "{text}"
        );
    }
}

#[test]
fn what_is_no_trace_is_refused_with_its_line() {
    let head = "{\"kind\":\"trace-file\",\"byte_order\":\"big\"}\n";
    for (text, expected) in [
        ("", "line 0: expected `trace-file` as the first line"),
        ("{}", "line 1: missing field `kind`"),
        (
            "{\"kind\":\"frame\",\"tracepoint\":1,\"blocks\":[]}",
            "line 1: expected `trace-file`",
        ),
        (
            &format!("{head}{{\"kind\":\"line\"}}"),
            "line 2: expected either `text` or `bytes`",
        ),
        (
            &format!("{head}{{\"kind\":\"frame\",\"tracepoint\":0,\"blocks\":[]}}"),
            "line 2: expected a tracepoint other than 0",
        ),
        (
            &format!("{head}\n{{\"kind\":\"frame\",\"tracepoint\":1,\"blocks\":[{{}}]}}"),
            "line 3: expected a block",
        ),
        (
            &format!(
                "{head}{{\"kind\":\"frame\",\"tracepoint\":1,\"blocks\":[{{\"memory\":\"4\",\"bytes\":\"\"}}]}}"
            ),
            "line 2: expected an address as 0x",
        ),
        (
            &format!("{head}{{\"kind\":\"rest\",\"bytes\":\"0\"}}"),
            "line 2: expected bytes of two",
        ),
    ] {
        let error = from_json(text).expect_err(text);
        assert!(error.starts_with(expected), "{text}: {error}");
    }
}

#[test]
fn a_trace_can_be_written_by_hand() {
    let text = "{\"kind\":\"trace-file\",\"byte_order\":\"big\"}
{\"kind\":\"line\",\"text\":\"R 4\"}
{\"kind\":\"frame\",\"tracepoint\":1,\"blocks\":[{\"registers\":\"00001000\"},{\"variable\":1,\"value\":-1}]}
{\"kind\":\"rest\",\"bytes\":\"00000000\"}
";
    let file = TraceFile::from_bytes(from_json(text).expect("good")).expect("a trace file");
    let frame = file.frames().next().expect("a frame");
    assert_eq!(frame.register_block(), Some(&[0, 0, 0x10, 0][..]));
    assert_eq!(frame.variable(VariableNumber(1)), Some(-1));
}

/// Every output can be read: a line of a large frame takes at most 18 characters for each byte of the frame.
#[test]
fn a_frame_of_the_smallest_blocks_makes_no_line_that_is_too_long() {
    let name: String = "01".repeat(64);
    let head =
        format!("\x7fTRACE0\nR 0\nstatus 0;tstop::0\ntp T1:1000:E:0:0\ntsv 5:0:0:{name}\n\n");
    let variable = [b"V\x05\0\0\0".as_slice(), &i64::MIN.to_le_bytes()].concat();
    for block in [
        b"R",
        &variable[..],
        b"M\xff\xff\xff\xff\xff\xff\xff\xff\0\0",
        b"S\0\0",
    ] {
        let data = block.repeat((1 << 20) / block.len() + 1);
        let mut bytes = head.clone().into_bytes();
        bytes.extend(1_i16.to_le_bytes());
        bytes.extend((data.len() as u32).to_le_bytes());
        bytes.extend(&data);
        bytes.extend([0; 4]);
        let text = to_json(&bytes);
        let longest = text.lines().map(str::len).max();
        assert!(
            longest < Some(18 * data.len()),
            "{longest:?} of {}",
            data.len()
        );
        assert!(from_json(&text).as_deref() == Ok(&bytes));
    }
}

/// A short line can define any number of wide registers.
#[test]
fn a_frame_that_is_too_large_is_refused_before_it_is_made() {
    let names: Vec<String> = (0..1000).map(|number| format!("r{number}")).collect();
    let registers = |name: &String| format!("<reg name='{name}' bitsize='524288'/>");
    let values = |name: &String| format!("\"{name}\":\"0x0\"");
    let all: String = names.iter().map(registers).collect();
    let block: Vec<String> = names.iter().map(values).collect();
    let block = format!("{{\"registers\":{{{}}}}}", block.join(","));
    let text = format!(
        "{{\"kind\":\"trace-file\",\"byte_order\":\"little\"}}
{{\"kind\":\"line\",\"text\":\"tdesc <target><feature name='f'>{all}</feature></target>\"}}
{{\"kind\":\"frame\",\"tracepoint\":1,\"blocks\":[{}]}}",
        vec![block; 2000].join(",")
    );
    let error = from_json(&text).expect_err("131 GB");
    assert!(
        error.starts_with("line 3: expected a frame of at most 67108864 bytes (column "),
        "{error}"
    );
}

#[test]
fn registers_written_by_hand_stand_in_any_order() {
    let text = |values: &str| {
        format!(
            "{{\"kind\":\"trace-file\",\"byte_order\":\"little\"}}
{{\"kind\":\"line\",\"text\":\"tdesc <target><feature name='f'><reg name='a' bitsize='16'/><reg name='b' bitsize='8'/></feature></target>\"}}
{{\"blocks\":[{{\"registers\":{{{values}}}}}],\"kind\":\"frame\",\"tracepoint\":258}}"
        )
    };
    for values in [
        r#""a":"0x102","b":"0x3""#,
        r#""b":"0x3","a":"0x102""#,
        r#""no register":1,"b":"0x00003","b":"0x3","\u0061":"0x102""#,
    ] {
        let bytes = from_json(&text(values)).expect("good");
        assert!(
            bytes.ends_with(b"\n\n\x02\x01\x04\0\0\0R\x02\x01\x03"),
            "{values}"
        );
    }
    for (values, expected) in [
        (r#""a":"0x1""#, "register b of 8 bits"),
        (r#""a":"0x10000","b":"0x1""#, "register a of 16 bits"),
    ] {
        let error = from_json(&text(values)).expect_err(values);
        assert!(error.contains(expected), "{error}");
    }
}

/// The meaning of a line is written beside it, except for very long lines, whose meaning would take gigabytes.
#[test]
fn long_lines_are_reported_without_their_text() {
    let with = |actions: &str| {
        let text = format!(
            "\x7fTRACE0\nR 4\nstatus 0;tstop::0\ntp T1:1000:E:0:0\ntp A1:1000:{actions}\n\n\0\0\0\0"
        );
        assert_identical(text.as_bytes());
        to_json(text.as_bytes())
    };
    let short = with("R1");
    assert!(
        short.contains(r#""actions":[{"registers":[0]}]"#),
        "{short}"
    );
    let wide = "R".to_owned() + &"f".repeat(16_384);
    let long = with(&wide.repeat(100));
    assert!(!long.contains("\"actions\":"));
}

fn line() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        Just(b"R 8".to_vec()),
        Just(b"R 10".to_vec()),
        Just(b"status 0;tstop::0;tframes:2".to_vec()),
        Just(b"tp T1:1000:E:1:0".to_vec()),
        Just(b"tsv 1:0:1:74726163655f74696d657374616d70".to_vec()),
        Just(b"tdesc <target><feature name=\"f\"><reg name=\"pc\" bitsize=\"64\"/></feature></target>".to_vec()),
        prop::collection::vec(any::<u8>().prop_filter("one line", |byte| *byte != b'\n'), 1..20),
    ]
}

fn frame_block() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 8).prop_map(|bytes| [b"R".to_vec(), bytes].concat()),
        (any::<[u8; 8]>(), any::<u8>()).prop_map(|(address, byte)| {
            [b"M".to_vec(), address.to_vec(), vec![1, 0, byte]].concat()
        }),
        any::<[u8; 12]>().prop_map(|bytes| [b"V".to_vec(), bytes.to_vec()].concat()),
        Just(b"S\x02\0ab".to_vec()),
        prop::collection::vec(any::<u8>(), 0..6),
    ]
}

proptest! {
    #[test]
    fn any_file_comes_back_identical(
        lines in prop::collection::vec(line(), 0..8),
        closed in prop::bool::weighted(0.9),
        frames in prop::collection::vec((any::<[u8; 2]>(), prop::collection::vec(frame_block(), 0..4)), 0..6),
        big in any::<bool>(),
        end in prop::collection::vec(any::<u8>(), 0..8),
        cut in 0..40usize,
    ) {
        let mut bytes = b"\x7fTRACE0\n".to_vec();
        for line in lines {
            bytes.extend(line);
            bytes.push(b'\n');
        }
        if closed {
            bytes.push(b'\n');
        }
        for (tracepoint, blocks) in frames {
            let data = blocks.concat();
            bytes.extend(tracepoint);
            let size = data.len() as u32;
            bytes.extend(if big { size.to_be_bytes() } else { size.to_le_bytes() });
            bytes.extend(data);
        }
        bytes.extend(end);
        bytes.truncate(bytes.len().saturating_sub(cut).max(8));
        assert_identical(&bytes);
    }

    #[test]
    fn any_text_is_read_without_a_panic(text in "[{}\\[\\]\":,a-z0-9\n]{0,200}") {
        let _ = from_json(&text);
    }
}

/// A number has one name, that of the last of its lines.
#[test]
fn the_last_definition_of_a_variable_counts() {
    let lines = "R 4\nstatus 0;tstop::0\ntp T1:1000:E:0:0\ntsv 5:0:0:6161\ntsv 5:0:0:6262\n";
    let frame = "\x01\0\x0d\0\0\0V\x05\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0";
    let bytes = format!("\x7fTRACE0\n{lines}\n{frame}");
    assert_identical(bytes.as_bytes());
    let text = to_json(bytes.as_bytes());
    assert!(
        text.contains(r#""variable":5,"value":1,"name":"bb""#),
        "{text}"
    );
}

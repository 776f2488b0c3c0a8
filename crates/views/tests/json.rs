//! A frame as JSON has what its view has, and nothing else.

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use tracewire_arch::X86Registers;
use tracewire_model::{
    Address, ByteOrder, RegisterMask, RegisterNumber, Tracepoint, TracepointDefinition,
    TracepointNumber, VariableDefinition, VariableNumber,
};
use tracewire_test_support::sample;
use tracewire_tracefile::{
    Description, DescriptionParts, FrameEncoder, FrameFormat, HEADER, TraceFile,
};
use tracewire_views::{FrameView, JsonWriter, Program, Viewer};

/// The object that `docs/formats/json.md` describes.
fn model(view: &FrameView) -> Value {
    let mut object = Map::new();
    let mut field = |name: &str, value: Value| {
        let is_empty = match &value {
            Value::Null => true,
            Value::Array(list) => list.is_empty(),
            Value::Object(members) => members.is_empty(),
            _ => false,
        };
        if !is_empty {
            assert!(object.insert(name.to_owned(), value).is_none());
        }
    };
    let numbers = view.registers.0.iter();
    let numbers = numbers.map(|(name, number)| (name.to_string(), json!(&**number)));
    let texts = view.register_values.0.iter();
    let texts = texts.map(|(name, text)| (name.to_string(), json!(text)));
    let variables = view.variables.0.iter();
    let variables = variables.map(|(name, value)| (name.to_string(), json!(value)));
    let memory = view.memory.iter();
    let memory = memory
        .map(|piece| json!({"address": piece.address, "bytes": piece.bytes.to_string()}))
        .collect();
    let values = view.values.iter().map(|value| {
        let mut object = json!({"expression": value.expression, "value": value.value});
        for (name, text) in [("type", &value.type_name), ("error", &value.error)] {
            if let Some(text) = text {
                object[name] = json!(text);
            }
        }
        object
    });
    field("process", json!(view.process));
    field("frame", json!(view.frame));
    field("tracepoint", json!(view.tracepoint));
    field("pc", json!(view.pc));
    field("time_us", json!(view.time_us));
    field("time_ns", json!(view.time_ns));
    field("thread", json!(view.thread));
    field("cpu", json!(view.cpu));
    field("kind", json!(view.kind));
    field("duration_ns", json!(view.duration_ns));
    field("ended", json!(view.ended));
    field("tail_call", json!(view.tail_call.then_some(true)));
    field("parent", json!(view.parent));
    field("stepping", json!(view.stepping));
    field("registers", Value::Object(numbers.collect()));
    field("register_values", Value::Object(texts.collect()));
    field("unavailable_registers", json!(view.unavailable_registers));
    field("memory", Value::Array(memory));
    field("variables", Value::Object(variables.collect()));
    let bytes = |bytes: &Option<tracewire_views::Bytes>| {
        json!(bytes.as_ref().map(|bytes| bytes.to_string()))
    };
    field("static_data", bytes(&view.static_data));
    field("unknown", bytes(&view.unknown));
    field("marker", json!(view.marker));
    field("function", json!(view.function));
    field("file", json!(view.file));
    field("line", json!(view.line));
    field("values", Value::Array(values.collect()));
    field("stack", json!(view.stack));
    field("stack_end", json!(view.stack_end));
    Value::Object(object)
}

/// Compares all frames of a file, written one after the other.
#[track_caller]
fn compare(file: &TraceFile, program: &Program) -> usize {
    let viewer = Viewer::new(file, program);
    let mut writer = JsonWriter::new(&viewer);
    let mut json = Vec::new();
    for frame in file.frames() {
        writer.write(frame, &mut json);
        json.push(b'\n');
    }
    let text = String::from_utf8(json).expect("text");
    assert_eq!(text.lines().count() as u64, file.frame_count());
    for (line, frame) in text.lines().zip(file.frames()) {
        let written: Value = serde_json::from_str(line).expect("JSON");
        // A viewer of its own, so that nothing is left of other frames.
        let view = Viewer::new(file, program).view(frame);
        assert_eq!(written, model(&view), "{line}");
    }
    text.len()
}

#[test]
fn samples() {
    for name in [
        "sample.tf",
        "tfile-basic.tf",
        "tfile-error.tf",
        "without_actions.tf",
    ] {
        let file = TraceFile::open(sample(name)).expect("a trace file");
        compare(&file, &Program::default());
    }
    let file = TraceFile::open(sample("sample.tf")).expect("a trace file");
    let program = Program::of(&file, &[sample("sample")]).expect("the program");
    assert!(compare(&file, &program) > 0);
}

/// A block of a frame.
#[derive(Clone, Debug)]
enum Part {
    Registers(Vec<u8>),
    Memory(u64, Vec<u8>),
    Variable(i32, i64),
    Unknown(u64),
    Data(Vec<u8>),
}

/// Where the eight x87 registers are in a register block.
const X87: std::ops::Range<usize> = 164..244;

fn part(registers: usize) -> impl Strategy<Value = Part> {
    let byte = prop_oneof![4 => Just(0), 1 => any::<u8>()];
    let block = vec(byte, registers..=registers).prop_map(|mut block| {
        // Numbers of 80 bits may be so large that a test build takes long to print them.
        block[X87].fill(0);
        Part::Registers(block)
    });
    let same = prop_oneof![Just(0_u8), Just(0xff)];
    prop_oneof![
        block,
        same.prop_map(move |byte| Part::Registers(vec![byte; registers])),
        (any::<u64>(), vec(any::<u8>(), 0..9))
            .prop_map(|(address, bytes)| Part::Memory(address, bytes)),
        (1..7_i32, any::<i64>()).prop_map(|(number, value)| Part::Variable(number, value)),
        any::<u64>().prop_map(Part::Unknown),
        vec(any::<u8>(), 0..9).prop_map(Part::Data),
    ]
}

fn variable(number: i32, name: &str) -> VariableDefinition {
    VariableDefinition {
        number: VariableNumber(number),
        initial: 0,
        builtin: false,
        name: name.to_owned(),
    }
}

/// A file of an x86-64 program with these frames.
fn file_of(frames: &[(Vec<Part>, Option<u8>)]) -> TraceFile {
    let registers = X86Registers::Avx;
    let layout = registers.layout_64();
    let mut definition = TracepointDefinition::new(TracepointNumber(1), Address(0x1000));
    let asked: RegisterMask = [0, 16, 24, 40].map(RegisterNumber).into_iter().collect();
    definition.actions = vec![tracewire_model::Action::Registers(asked)];
    let description = Description::build(&DescriptionParts {
        register_block_size: layout.size(),
        target_xml: Some(registers.target_xml_64()),
        variables: vec![
            variable(1, "trace_timestamp"),
            variable(2, "trace_thread"),
            variable(3, "trace_cpu"),
            variable(4, "a\"b\\c\u{1}"),
            variable(5, "größe"),
        ],
        tracepoints: vec![Tracepoint::new(definition)],
        ..DescriptionParts::default()
    })
    .expect("a description");
    let format = FrameFormat {
        byte_order: ByteOrder::Little,
        register_block_size: layout.size(),
    };
    let mut bytes = HEADER.to_vec();
    bytes.extend(description.as_bytes());
    bytes.push(b'\n');
    for (parts, unknown) in frames {
        let mut frame = Vec::new();
        let mut encoder =
            FrameEncoder::begin(&mut frame, format, TracepointNumber(1)).expect("a frame");
        for part in parts {
            match part {
                Part::Registers(block) => encoder.registers(block).expect("a block"),
                Part::Memory(address, bytes) => encoder.memory(Address(*address), bytes),
                Part::Variable(number, value) => encoder.variable(VariableNumber(*number), *value),
                Part::Unknown(mask) => encoder.unknown_registers(&[*mask]),
                Part::Data(data) => encoder.static_data(data).expect("a block"),
            }
        }
        encoder.finish().expect("a frame");
        if let Some(letter) = unknown {
            // A block of a kind that is not known, to the end of the frame.
            frame.extend([b'Q', *letter]);
            let size = u32::try_from(frame.len() - 6).expect("a size");
            frame[2..6].copy_from_slice(&size.to_le_bytes());
        }
        bytes.extend(frame);
    }
    bytes.extend([0; 4]);
    TraceFile::from_bytes(bytes).expect("a trace file")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// What was written of the frames before does not show.
    #[test]
    fn frames_of_any_blocks(
        frames in vec(
            (vec(part(X86Registers::Avx.layout_64().size() as usize), 0..6), any::<Option<u8>>()),
            1..12,
        )
    ) {
        compare(&file_of(&frames), &Program::default());
    }
}

//! Trace files for tests.
#![allow(dead_code, reason = "each test program uses some of it")]

use std::path::{Path, PathBuf};
use std::process::Command;

use tracewire_model::{
    Address, ByteOrder, SourceStrings, Status, Tracepoint, TracepointDefinition, TracepointNumber,
    VariableDefinition, VariableNumber,
};
use tracewire_test_support::SAMPLES;
use tracewire_tracefile::{Description, DescriptionParts, FrameEncoder, FrameFormat, TraceFile};

/// The samples that came from GDB itself.
pub fn samples() -> Vec<Vec<u8>> {
    SAMPLES
        .iter()
        .map(|name| {
            std::fs::read(tracewire_test_support::sample(name)).expect("the sample is there")
        })
        .collect()
}

pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files")
}

pub fn sample() -> TraceFile {
    TraceFile::open(tracewire_test_support::sample("sample.tf")).expect("the sample is good")
}

/// A machine of few registers: a 32-bit one, a 64-bit program counter, a 128-bit one.
pub fn machine(order: ByteOrder) -> String {
    let architecture = match order {
        ByteOrder::Little => "riscv:rv64",
        ByteOrder::Big => "powerpc:common64",
    };
    format!(
        "<target><architecture>{architecture}</architecture><feature name=\"x\">\
         <reg name=\"flags\" bitsize=\"32\"/><reg name=\"pc\" bitsize=\"64\" type=\"code_ptr\"/>\
         <reg name=\"v0\" bitsize=\"128\"/></feature></target>"
    )
}

pub const BLOCK: u32 = 28;

pub fn block(order: ByteOrder, flags: u32, pc: u64) -> Vec<u8> {
    let mut bytes = order.u32_bytes(flags).to_vec();
    bytes.extend(order.u64_bytes(pc));
    bytes.extend(0..16);
    bytes
}

pub fn definition(number: i32, address: u64, at: &str) -> TracepointDefinition {
    TracepointDefinition {
        source: SourceStrings {
            at: Some(at.to_owned()),
            ..SourceStrings::default()
        },
        ..TracepointDefinition::new(TracepointNumber(number), Address(address))
    }
}

pub fn variable(number: i32, name: &str, builtin: bool) -> VariableDefinition {
    VariableDefinition {
        number: VariableNumber(number),
        initial: 0,
        builtin,
        name: name.to_owned(),
    }
}

/// The variables for the time, thread and cpu of a frame: 1, 2 and 3.
pub fn clock() -> Vec<VariableDefinition> {
    vec![
        variable(1, "trace_timestamp", true),
        variable(2, "trace_thread", true),
        variable(3, "trace_cpu", true),
    ]
}

pub fn status(text: &str) -> Option<Status> {
    Some(Status::parse(text.as_bytes()).expect("a good status"))
}

pub fn parts(
    order: ByteOrder,
    tracepoints: Vec<TracepointDefinition>,
    variables: Vec<VariableDefinition>,
    status_line: &str,
) -> DescriptionParts {
    DescriptionParts {
        register_block_size: BLOCK,
        target_xml: Some(machine(order)),
        status: status(status_line),
        variables,
        tracepoints: tracepoints.into_iter().map(Tracepoint::new).collect(),
        ..DescriptionParts::default()
    }
}

/// Puts blocks into a frame.
pub type Fill<'f> = dyn Fn(&mut FrameEncoder<'_>) + 'f;

/// A whole file of frames: the tracepoint of each, and what fills it.
pub fn build(parts: &DescriptionParts, order: ByteOrder, frames: &[(i32, &Fill<'_>)]) -> Vec<u8> {
    let description = Description::build(parts).expect("short lines");
    let mut bytes = b"\x7fTRACE0\n".to_vec();
    bytes.extend(description.as_bytes());
    bytes.push(b'\n');
    let format = FrameFormat {
        byte_order: order,
        register_block_size: parts.register_block_size,
    };
    for (tracepoint, fill) in frames {
        let mut encoder = FrameEncoder::begin(&mut bytes, format, TracepointNumber(*tracepoint))
            .expect("a good number");
        fill(&mut encoder);
        encoder.finish().expect("a small frame");
    }
    bytes.extend([0; 4]);
    bytes
}

pub fn read(bytes: &[u8]) -> TraceFile {
    TraceFile::from_bytes(bytes.to_vec()).expect("a trace file")
}

/// A program's output on both streams.
pub fn run(command: &mut Command) -> String {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}:\n{text}{errors}");
    text + &errors
}

//! Generated trace files of other machines, and their contents.

use std::path::Path;

use tracewire_arch::{RegisterLayout, StandardRegisters};
use tracewire_model::{
    Address, ByteOrder, Status, StatusFields, StopReason, Tracepoint, TracepointDefinition,
    TracepointNumber, VariableDefinition, VariableNumber,
};
use tracewire_tracefile::{Description, DescriptionParts, FrameEncoder, FrameFormat};

/// Where tracepoints 1 and 2 are; their frames take turns.
pub const SITES: [u64; 2] = [0x40_1000, 0x40_2000];

/// The address of a counter in memory: an `int` that holds the frame's number.
pub const COUNTER: u64 = 0x1000;

/// The value of a register in a frame: a distinct number in its lowest bytes.
pub fn value(layout: &RegisterLayout, name: &str, frame: u64) -> u64 {
    let register = layout.by_name(name).expect("a register");
    match layout.program_counter() {
        Some(counter) if counter == register => SITES[frame as usize % 2],
        _ if register.size() < 4 => 1,
        _ => u64::from(register.offset) * 0x1000 + frame,
    }
}

fn in_order(order: ByteOrder, value: u64, size: usize) -> Vec<u8> {
    let mut bytes = value.to_le_bytes().to_vec();
    bytes.resize(size.max(8), 0);
    bytes.truncate(size);
    if order == ByteOrder::Big {
        bytes.reverse();
    }
    bytes
}

fn tracepoint(number: i32, address: u64) -> Tracepoint {
    Tracepoint::new(TracepointDefinition::new(
        TracepointNumber(number),
        Address(address),
    ))
}

fn variable(number: i32, name: &str) -> VariableDefinition {
    VariableDefinition {
        number: VariableNumber(number),
        initial: 0,
        builtin: true,
        name: name.to_owned(),
    }
}

/// The contents of a file's target description.
#[derive(Clone, Copy)]
pub enum Described {
    /// There is none.
    Nothing,
    /// The machine's name.
    Machine,
    /// The machine's name and its registers.
    Registers,
}

/// Writes a file of so many frames, made at 1000 microseconds and every 10 after that, by threads 100, 101 and 102 in
/// turn, on cpus 0 and 1.
pub fn write(path: &Path, set: &StandardRegisters, described: Described, frames: u64) {
    let order = set.architecture().byte_order();
    let layout = set.layout();
    let status = StatusFields {
        stop_reason: Some(StopReason::Command),
        frames: Some(frames),
        frames_created: Some(frames),
        ..StatusFields::default()
    };
    let name = layout.architecture().expect("a name");
    let target_xml = match described {
        Described::Nothing => None,
        Described::Machine => Some(format!(
            "<target><architecture>{name}</architecture></target>"
        )),
        Described::Registers => Some(set.target_xml()),
    };
    let description = Description::build(&DescriptionParts {
        register_block_size: set.size(),
        target_xml,
        status: Some(Status::from(status)),
        tracepoints: vec![tracepoint(1, SITES[0]), tracepoint(2, SITES[1])],
        variables: vec![
            variable(1, "trace_timestamp"),
            variable(2, "trace_thread"),
            variable(3, "trace_cpu"),
        ],
        ..DescriptionParts::default()
    })
    .expect("a description");
    let format = FrameFormat {
        byte_order: order,
        register_block_size: set.size(),
    };
    let mut writer =
        tracewire_tracefile::TraceFileWriter::create(path, &description).expect("a file to write");
    for frame in 0..frames {
        let block: Vec<u8> = layout
            .registers()
            .iter()
            .flat_map(|register| {
                in_order(
                    order,
                    value(&layout, &register.name, frame),
                    register.size() as usize,
                )
            })
            .collect();
        let number = TracepointNumber(1 + frame as i32 % 2);
        let mut bytes = Vec::new();
        let mut encoder = FrameEncoder::begin(&mut bytes, format, number).expect("a frame");
        encoder.registers(&block).expect("registers");
        encoder.memory(Address(COUNTER), &in_order(order, frame, 4));
        encoder.variable(VariableNumber(1), 1000 + 10 * frame as i64);
        encoder.variable(VariableNumber(2), 100 + frame as i64 % 3);
        encoder.variable(VariableNumber(3), frame as i64 % 2);
        encoder.finish().expect("a frame");
        writer.append(&bytes).expect("written");
    }
    writer.finish().expect("written");
}

/// The set of a machine with the fewest registers.
pub fn smallest(machine: tracewire_arch::Architecture) -> StandardRegisters {
    StandardRegisters::all(machine).remove(0)
}

//! What several tests need: small files, and GDB.
#![allow(dead_code)]

use tracewire_model::{
    Address, ByteOrder, SourceStrings, Status, StatusFields, StopReason, Tracepoint,
    TracepointDefinition, TracepointNumber, TracepointUsage,
};
use tracewire_tracefile::{Description, DescriptionParts, FrameEncoder, FrameFormat};

/// A tracepoint without condition and actions.
pub fn tracepoint(number: i32, address: u64) -> Tracepoint {
    Tracepoint {
        usage: Some(TracepointUsage::default()),
        ..Tracepoint::new(TracepointDefinition {
            source: SourceStrings {
                at: Some(format!("*{address:#x}")),
                ..SourceStrings::default()
            },
            ..TracepointDefinition::new(TracepointNumber(number), Address(address))
        })
    }
}

/// A description of x86-64 with tracepoint 1 at 0x401000, for so many frames.
pub fn description(set: tracewire_arch::X86Registers, frames: u64) -> Description {
    Description::build(&DescriptionParts {
        register_block_size: set.layout_64().size(),
        target_xml: Some(set.target_xml_64()),
        status: Some(stopped(frames)),
        tracepoints: vec![tracepoint(1, 0x401000)],
        ..DescriptionParts::default()
    })
    .unwrap()
}

pub fn stopped(frames: u64) -> Status {
    Status::from(StatusFields {
        stop_reason: Some(StopReason::Command),
        frames: Some(frames),
        frames_created: Some(frames),
        ..StatusFields::default()
    })
}

/// One frame of tracepoint 1.
pub fn frame(order: ByteOrder, build: impl FnOnce(&mut FrameEncoder<'_>), block: u32) -> Vec<u8> {
    let mut buffer = Vec::new();
    let format = FrameFormat {
        byte_order: order,
        register_block_size: block,
    };
    let mut encoder = FrameEncoder::begin(&mut buffer, format, TracepointNumber(1)).unwrap();
    build(&mut encoder);
    encoder.finish().unwrap();
    buffer
}

//! Shared helpers of the tests: short definitions, and parsed frames.

use tracewire_agent_expr::assemble;
use tracewire_experiment::fake::{FakeTarget, Moment};
use tracewire_experiment::{Experiment, LinearStore, Options, Registers, Unreadable};
use tracewire_model::{
    Action, Address, ByteOrder, RegisterNumber, TracepointDefinition, TracepointNumber,
};
use tracewire_tracefile::FrameFormat;

/// Registers of the fake target beside its program counter.
pub const REGISTERS: u16 = 4;

/// Their block.
pub const BLOCK: usize = 40;

/// An arbitrary address of code.
pub const CODE: Address = Address(0x40_0000);

pub fn options() -> Options {
    Options {
        format: FrameFormat {
            byte_order: ByteOrder::Little,
            register_block_size: BLOCK as u32,
        },
        stamp: false,
        registers: Registers::Asked,
        unreadable: Unreadable::Missing,
    }
}

pub fn experiment(options: Options) -> Experiment<LinearStore> {
    Experiment::new(options, LinearStore::new(1 << 20).unwrap())
}

pub fn tracepoint(number: i32, address: Address, actions: Vec<Action>) -> TracepointDefinition {
    TracepointDefinition {
        actions,
        ..TracepointDefinition::new(TracepointNumber(number), address)
    }
}

pub fn program(text: &str) -> Vec<u8> {
    assemble(text).unwrap()
}

pub fn expression(text: &str) -> Action {
    Action::Expression(program(text))
}

pub fn memory(address: u64, length: u64) -> Action {
    Action::Memory {
        base: None,
        offset: address,
        length,
    }
}

pub fn registers() -> Action {
    Action::Registers([RegisterNumber(0)].into_iter().collect())
}

pub fn moment(pc: Address, registers: &[u64]) -> Moment {
    Moment {
        pc,
        registers: registers.to_vec(),
        ..Moment::default()
    }
}

pub fn target() -> FakeTarget {
    FakeTarget::new(ByteOrder::Little, REGISTERS)
}

/// A block of a frame in the trace file's format, little-endian.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Block {
    R(Vec<u8>),
    M(u64, Vec<u8>),
    V(i32, i64),
    S(Vec<u8>),
}

/// A frame: its tracepoint and its blocks.
pub type Frame = (i16, Vec<Block>);

/// Parses frames, without the library.
pub fn parse(mut bytes: &[u8]) -> Vec<Frame> {
    let mut frames = vec![];
    while !bytes.is_empty() {
        let tracepoint = i16::from_le_bytes(take(&mut bytes));
        let size = u32::from_le_bytes(take(&mut bytes)) as usize;
        let (mut data, rest) = bytes.split_at(size);
        bytes = rest;
        let mut blocks = vec![];
        while !data.is_empty() {
            let [letter] = take(&mut data);
            blocks.push(match letter {
                b'R' => Block::R(take::<BLOCK>(&mut data).to_vec()),
                b'M' => {
                    let address = u64::from_le_bytes(take(&mut data));
                    let length = u16::from_le_bytes(take(&mut data));
                    let (bytes, rest) = data.split_at(length.into());
                    data = rest;
                    Block::M(address, bytes.to_vec())
                }
                b'V' => Block::V(
                    i32::from_le_bytes(take(&mut data)),
                    i64::from_le_bytes(take(&mut data)),
                ),
                b'S' => {
                    let length = u16::from_le_bytes(take(&mut data));
                    let (bytes, rest) = data.split_at(length.into());
                    data = rest;
                    Block::S(bytes.to_vec())
                }
                other => panic!("block {other}"),
            });
        }
        frames.push((tracepoint, blocks));
    }
    frames
}

fn take<const N: usize>(bytes: &mut &[u8]) -> [u8; N] {
    let (first, rest) = bytes.split_first_chunk().expect("a whole frame");
    *bytes = rest;
    *first
}

/// The register block of a moment.
pub fn block(moment: &Moment) -> Vec<u8> {
    (0..usize::from(REGISTERS))
        .map(|place| moment.registers.get(place).copied().unwrap_or(0))
        .chain([moment.pc.0])
        .flat_map(u64::to_le_bytes)
        .collect()
}

//! The trap mechanism's result of a hit: the experiment itself, with a stopped thread in this process.

use tracewire_arch::X86Registers;
use tracewire_experiment::{
    Experiment, Hit, HitHandler, LinearStore, MemoryRead, Options, Registers, StoppedThread,
    Target, TargetError, Unreadable,
};
use tracewire_jump_pad::Features;
use tracewire_model::{
    Address, ByteOrder, RegisterNumber, StopReason, ThreadId, TracepointDefinition,
    VariableDefinition, VariableNumber,
};
use tracewire_tracefile::FrameFormat;

use super::machine::{self, SITE};

/// A program that can have any tracepoint.
pub struct Anything;

impl Target for Anything {
    fn insert(&mut self, _: Address) -> Result<(), TargetError> {
        Ok(())
    }
    fn remove(&mut self, _: Address) -> Result<(), TargetError> {
        Ok(())
    }
}

/// The largest register set of this machine.
pub fn machine_registers() -> X86Registers {
    Features::of_this_machine().registers()
}

/// A thread with given registers.
pub struct Standing {
    /// Those of the machine's largest set.
    pub block: Vec<u8>,
    /// Those that a register block has.
    pub registers: X86Registers,
}

impl StoppedThread for Standing {
    fn id(&self) -> ThreadId {
        // SAFETY: no argument.
        ThreadId(unsafe { libc::gettid() } as u32)
    }

    fn cpu(&mut self) -> u32 {
        0
    }

    fn timestamp(&self) -> u64 {
        0
    }

    fn register(&mut self, register: RegisterNumber) -> Option<u64> {
        let layout = machine_registers().layout_64();
        let found = layout.by_number(register)?;
        let start = found.offset as usize;
        let bytes = self.block.get(start..start + found.size() as usize)?;
        // Of a vector register the lowest 64 bits.
        let vector = found.name.starts_with("xmm");
        (bytes.len() <= 8 || vector).then(|| {
            bytes
                .iter()
                .take(8)
                .rev()
                .fold(0, |number, byte| number << 8 | u64::from(*byte))
        })
    }

    fn register_block(&mut self) -> Result<&[u8], TargetError> {
        let size = self.registers.layout_64().size() as usize;
        Ok(&self.block[..size])
    }

    fn read_memory(&mut self, pieces: &mut [MemoryRead]) {
        for piece in pieces {
            piece.filled = machine::read_carefully(piece.address.0, &mut piece.bytes);
        }
    }
}

/// Which registers frames have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wanted {
    /// A whole block, in every frame.
    Always,
    /// A whole block, where an action collects registers.
    Blocks,
    /// Those that the actions name, of all that the machine has.
    Kept,
}

impl Wanted {
    /// Those that a register block has.
    pub fn registers(self) -> X86Registers {
        match self {
            Self::Always | Self::Blocks => X86Registers::Core,
            Self::Kept => machine_registers(),
        }
    }
}

pub fn experiment(
    definitions: &[TracepointDefinition],
    variables: &[i64],
    wanted: Wanted,
) -> Experiment<LinearStore> {
    let layout = wanted.registers().layout_64();
    let options = Options {
        format: FrameFormat {
            byte_order: ByteOrder::Little,
            register_block_size: layout.size(),
        },
        stamp: false,
        registers: match wanted {
            Wanted::Always => Registers::Always,
            Wanted::Blocks | Wanted::Kept => Registers::Asked,
        },
        unreadable: Unreadable::Missing,
    };
    let store = LinearStore::new(64 << 20).unwrap();
    let mut experiment = Experiment::new(options, store);
    if wanted == Wanted::Kept {
        experiment.keep_asked_registers(layout.clone());
    }
    for definition in definitions {
        experiment.define(definition.clone()).unwrap();
    }
    for (number, initial) in (4..).zip(variables) {
        experiment.define_variable(VariableDefinition {
            number: VariableNumber(number),
            initial: *initial,
            builtin: false,
            name: format!("v{number}"),
        });
    }
    experiment.start(&mut Anything, 0).unwrap();
    experiment
}

/// The end of the run: the reason, the message, the tracepoint.
pub fn end(experiment: &Experiment<LinearStore>) -> Option<(StopReason, Option<String>, i32)> {
    if experiment.is_running() {
        return None;
    }
    let status = experiment.status();
    Some((
        status.stop_reason?,
        status.stop_text,
        status.stopping_tracepoint.map_or(0, |number| number.0),
    ))
}

pub fn hit(experiment: &mut Experiment<LinearStore>, thread: &mut Standing) {
    experiment.hit(Hit::Tracepoint(SITE), thread);
}

//! What a hit costs at most, from the code of its pad.
//!
//! The instructions of each part of a pad are added up, with what this machine takes for the dear ones among them. Loops count as
//! often as they may run ([`walk`](super::walk)). What is seldom run is left out: a ring that is full, memory that cannot be read, the
//! first hit of a thread.

use std::arch::asm;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use iced_x86::{Instruction as AsmInstruction, Mnemonic, OpKind};
use tracewire_agent_expr::{Instruction, STEP_LIMIT};
use tracewire_experiment::HitCost;

use super::plan::Planned;
use super::walk::{Collected, dearest};
use crate::clock::Rate;

/// A time in picoseconds.
pub(super) type Picoseconds = u64;

/// What is added up is for code whose data is in the first cache, and which nobody else shares the processor's core with. It is
/// multiplied by this, so that the sum is the most that it takes: numerator and denominator.
const MARGIN: (u64, u64) = (3, 2);

/// The way to the pad and back, with the displaced instructions: cycles.
const WAY: u64 = 24;

/// The cycles that a byte takes which is copied, in hundredths: into a line of the ring that no cache has.
const COPIED_BYTE: u64 = 8;
/// The cycles that a byte takes which is looked at by itself, in hundredths.
const SCANNED_BYTE: u64 = 150;

/// A part of a pad that hits run through or leave out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    /// What every hit begins with.
    Entry,
    /// What every hit ends with.
    Leave,
    /// Whether the tracepoint of a block is enabled, and its condition.
    Condition(u32),
    /// What is charged where the condition is false.
    Unmet(u32),
    /// The pass count, and what is counted.
    Counting(u32),
    /// Whether the hit makes a frame.
    Admission(u32),
    /// What is done where it does not.
    Skip(u32),
    /// The frame.
    Frame(u32),
    /// What follows.
    Rest(u32),
}

/// How long this machine takes for what is dear.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Machine {
    cycle: Picoseconds,
    /// To read the time stamp counter.
    counter: Picoseconds,
    /// To change memory with a lock.
    locked: Picoseconds,
}

impl Machine {
    /// This machine. The first call takes less than a millisecond.
    pub(super) fn measured() -> Self {
        static MACHINE: OnceLock<Machine> = OnceLock::new();
        *MACHINE.get_or_init(Self::measure)
    }

    fn measure() -> Self {
        /// The cycles from one multiplication to the next that waits for it.
        const MULTIPLICATION: Picoseconds = 3;
        let cycle = shortest(|times| {
            // SAFETY: registers are multiplied and counted down.
            unsafe {
                asm!(
                    "2:", "imul {product}, {product}, 3", "dec {times}", "jnz 2b",
                    product = inout(reg) 1_u64 => _, times = inout(reg) times => _,
                    options(nomem, nostack)
                );
            }
        });
        let counter = shortest(|times| {
            // SAFETY: as above, and every x86-64 processor has a counter.
            unsafe {
                asm!(
                    "2:", "rdtsc", "dec {times}", "jnz 2b",
                    times = inout(reg) times => _, out("rax") _, out("rdx") _,
                    options(nomem, nostack)
                );
            }
        });
        let mut word = 0_u64;
        let locked = shortest(|times| {
            // SAFETY: the word is ours.
            unsafe {
                asm!(
                    "2:", "lock inc qword ptr [{word}]", "dec {times}", "jnz 2b",
                    word = in(reg) &raw mut word, times = inout(reg) times => _,
                    options(nostack)
                );
            }
        });
        Self {
            cycle: (cycle / MULTIPLICATION).max(1),
            counter,
            locked,
        }
    }

    fn cycles(&self, hundredths: u64) -> Picoseconds {
        hundredths * self.cycle / 100
    }

    /// What an instruction takes. Most run beside others.
    fn time_of(&self, instruction: &AsmInstruction) -> Picoseconds {
        let operands = 0..instruction.op_count();
        let is_in_memory = |operand| instruction.op_kind(operand) == OpKind::Memory;
        let touches = operands.into_iter().any(is_in_memory);
        if instruction.has_lock_prefix() || instruction.mnemonic() == Mnemonic::Xchg && touches {
            return self.locked;
        }
        let hundredths = match instruction.mnemonic() {
            Mnemonic::Zero_bytes => 0,
            Mnemonic::Rdtsc => return self.counter,
            Mnemonic::Rdpid => 600,
            Mnemonic::Lsl => 6000,
            Mnemonic::Pushfq => 200,
            Mnemonic::Popfq => 2000,
            Mnemonic::Rdfsbase | Mnemonic::Rdgsbase => 800,
            Mnemonic::Xgetbv => 5000,
            Mnemonic::Fxsave64 => 12_000,
            Mnemonic::Stmxcsr => 1500,
            Mnemonic::Div | Mnemonic::Idiv => 2500,
            Mnemonic::Mul | Mnemonic::Imul => 100,
            Mnemonic::Movsb => 3500,
            Mnemonic::Syscall => 40_000,
            Mnemonic::Cld | Mnemonic::Pause => 600,
            _ if touches && is_in_memory(0) && changes_memory(instruction.mnemonic()) => 120,
            _ if touches => 40,
            _ => 25,
        };
        self.cycles(hundredths)
    }

    /// What it takes to copy so many bytes, beside the instructions.
    pub(super) fn copied(&self, bytes: u64) -> Picoseconds {
        self.cycles(bytes.saturating_mul(COPIED_BYTE))
    }

    /// What it takes to copy so many bytes up to the first that is zero, beside the instructions.
    pub(super) fn scanned(&self, bytes: u64) -> Picoseconds {
        self.cycles(bytes.saturating_mul(SCANNED_BYTE))
    }
}

/// What one of many takes that are done so many times, of the shortest of some rounds: other programs run too.
fn shortest(what: impl FnMut(u64)) -> Picoseconds {
    const TIMES: u64 = 1000;
    let mut what = what;
    let rounds = (0..20).map(|_| {
        let begun = Instant::now();
        what(TIMES);
        begun.elapsed()
    });
    let nanoseconds = rounds
        .min()
        .map_or(0, |shortest| shortest.as_nanos() as u64);
    (nanoseconds * 1000 / TIMES).max(1)
}

/// Whether an instruction reads the memory that it writes.
fn changes_memory(mnemonic: Mnemonic) -> bool {
    matches!(
        mnemonic,
        Mnemonic::Add | Mnemonic::Sub | Mnemonic::Inc | Mnemonic::Dec | Mnemonic::Not
    )
}

/// What the parts of a hit cost, by the counter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Prices {
    /// A hit that makes a frame, where it can make one, at most.
    pub(super) hit: u64,
    /// Of that, what is before the first and after the last look at the counter.
    pub(super) around: u64,
    /// One that makes none.
    pub(super) skipped: u64,
    /// One whose condition is false.
    pub(super) unmet: u64,
}

/// What the code of a pad takes, noted while it is made. Instructions go by their place in the code.
#[derive(Debug)]
pub(super) struct Costs {
    /// Which instructions are which part of the pad.
    parts: Vec<(Part, Range<usize>)>,
    /// By how much an instruction takes longer than it says: a loop of many rounds, say.
    longer: BTreeMap<usize, i64>,
    /// The most bytes that a frame has.
    frame_limit: u64,
}

impl Costs {
    pub(super) fn new(frame_limit: u32) -> Self {
        Self {
            parts: Vec::new(),
            longer: BTreeMap::new(),
            frame_limit: u64::from(frame_limit),
        }
    }

    /// Some instructions are a part of the pad.
    pub(super) fn add_part(&mut self, part: Part, instructions: Range<usize>) {
        self.parts.push((part, instructions));
    }

    /// An instruction takes longer than it says, or not as long.
    pub(super) fn takes_longer(&mut self, instruction: usize, by: i64) {
        let longer = self.longer.entry(instruction).or_default();
        *longer = longer.saturating_add(by);
    }

    /// What it takes to collect, beside the instructions.
    pub(super) fn time_to_collect(&self, what: Collected) -> Picoseconds {
        let machine = Machine::measured();
        let limit = self.frame_limit;
        match what {
            Collected::Memory(bytes) => machine.copied(bytes.unwrap_or(limit).min(limit)),
            Collected::Text(bytes) => machine.scanned(bytes.unwrap_or(limit).min(limit)),
        }
    }

    /// The code of an expression ends before an instruction. It has these steps, and each takes so long: has the dearest way count.
    pub(super) fn end_expression(
        &mut self,
        instruction: usize,
        program: &[Instruction<'_>],
        costs: &[Picoseconds],
    ) {
        let sum = costs.iter().copied().fold(0, Picoseconds::saturating_add);
        let dearest = dearest(program, costs, |what| self.time_to_collect(what));
        let dearest = dearest.unwrap_or_else(|| {
            // As many steps as an evaluation has, and a frame that is full.
            let each = sum / program.len().max(1) as u64 + 1;
            let full = self.time_to_collect(Collected::Memory(None));
            each.saturating_mul(u64::from(STEP_LIMIT))
                .saturating_add(full)
        });
        let longer = dearest.cast_signed().saturating_sub(sum.cast_signed());
        self.takes_longer(instruction, longer);
    }

    /// What some instructions of the code take.
    pub(super) fn time_of(&self, code: &[AsmInstruction], range: Range<usize>) -> Picoseconds {
        let machine = Machine::measured();
        let own: Picoseconds = code
            .get(range.clone())
            .unwrap_or_default()
            .iter()
            .map(|one| machine.time_of(one))
            .sum();
        let longer = self.longer.range(range).map(|(_, longer)| *longer);
        longer.fold(own, u64::saturating_add_signed)
    }

    fn time_of_part(&self, code: &[AsmInstruction], part: Part) -> Picoseconds {
        let known = self.parts.iter().filter(|(known, _)| *known == part);
        known
            .map(|(_, range)| self.time_of(code, range.clone()))
            .max()
            .unwrap_or(0)
    }

    /// What hits of a tracepoint cost at most.
    pub(super) fn hit_cost(&self, code: &[AsmInstruction], planned: &Planned) -> HitCost {
        let block = planned.index;
        let may_skip = self
            .parts
            .iter()
            .any(|(part, _)| *part == Part::Skip(block));
        let sum = |parts: &[Part]| {
            let machine = Machine::measured();
            let around = [Part::Entry, Part::Leave];
            let parts = around.iter().chain(parts);
            let sum = parts
                .map(|part| self.time_of_part(code, *part))
                .fold(machine.cycles(WAY * 100), u64::saturating_add);
            let most = sum.saturating_mul(MARGIN.0) / MARGIN.1;
            Duration::from_nanos(most.div_ceil(1000))
        };
        let (condition, counting) = (Part::Condition(block), Part::Counting(block));
        let admission = Part::Admission(block);
        HitCost {
            hit: sum(&[
                condition,
                counting,
                admission,
                Part::Frame(block),
                Part::Rest(block),
            ]),
            skipped: may_skip.then(|| {
                sum(&[
                    condition,
                    counting,
                    admission,
                    Part::Skip(block),
                    Part::Rest(block),
                ])
            }),
            unmet: (planned.condition.as_ref()).map(|_| sum(&[condition, Part::Unmet(block)])),
        }
    }

    /// The same by the counter.
    pub(super) fn prices(&self, code: &[AsmInstruction], planned: &Planned) -> Prices {
        let block = planned.index;
        let rate = Rate::measured();
        let cost = self.hit_cost(code, planned);
        let ticks = |time: Duration| rate.ticks_of_nanoseconds(time.as_nanos() as u64).max(1);
        let around = [Part::Entry, Part::Leave, Part::Condition(block)];
        let around = around
            .map(|part| self.time_of_part(code, part))
            .iter()
            .sum::<u64>();
        Prices {
            hit: ticks(cost.hit),
            around: rate.ticks_of_nanoseconds(around.div_ceil(1000)),
            skipped: cost.skipped.map_or(0, ticks),
            unmet: cost.unmet.map_or(0, ticks),
        }
    }
}

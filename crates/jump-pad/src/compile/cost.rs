//! The most that a hit costs, from the code of its pad.
//!
//! The instructions of each part of a pad are added up, with measured times for the expensive ones. Loops count as often as they
//! may run ([`walk`](super::walk)). Rare cases are left out: a full ring, memory that cannot be read, the first hit of a thread.

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

/// The sum assumes that data is in the first-level cache and that no other thread shares the processor's core. It is multiplied
/// by this factor, so that it is the most that a hit takes: numerator and denominator.
const MARGIN: (u64, u64) = (3, 2);

/// The jumps to the pad and back, with the displaced instructions: cycles.
const WAY: u64 = 24;

/// The cycles for a copied byte, in hundredths: into a line of the ring that is in no cache.
const COPIED_BYTE: u64 = 8;
/// The cycles for a byte that is checked on its own, in hundredths.
const SCANNED_BYTE: u64 = 150;

/// A part of a pad that hits execute or skip.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    /// The beginning of every hit.
    Entry,
    /// The end of every hit.
    Leave,
    /// Whether the tracepoint of a block is enabled, and its condition.
    Condition(u32),
    /// The charge where the condition is false.
    Unmet(u32),
    /// The pass count, and aggregates.
    Counting(u32),
    /// Whether the hit makes a frame.
    Admission(u32),
    /// The work where it does not.
    Skip(u32),
    /// The frame.
    Frame(u32),
    /// The rest.
    Rest(u32),
}

/// The measured times of expensive instructions on this machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Machine {
    cycle: Picoseconds,
    /// To read the time stamp counter.
    counter: Picoseconds,
    /// To change memory with a lock.
    locked: Picoseconds,
}

impl Machine {
    /// Measures this machine. The first call takes less than a millisecond.
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
            // SAFETY: the word is a local variable.
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

    /// The time of an instruction. Most run in parallel with others.
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

    /// The time to copy this many bytes, without the instructions.
    pub(super) fn copied(&self, bytes: u64) -> Picoseconds {
        self.cycles(bytes.saturating_mul(COPIED_BYTE))
    }

    /// The time to copy this many bytes up to the first zero, without the instructions.
    pub(super) fn scanned(&self, bytes: u64) -> Picoseconds {
        self.cycles(bytes.saturating_mul(SCANNED_BYTE))
    }
}

/// The time of one of many repetitions, in the shortest of several rounds: other programs run too.
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

/// The costs of the parts of a hit, in ticks of the counter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Prices {
    /// A hit that makes a frame, where it can make one, at most.
    pub(super) hit: u64,
    /// The part of it that is before the first and after the last reading of the counter.
    pub(super) around: u64,
    /// One that makes none.
    pub(super) skipped: u64,
    /// One whose condition is false.
    pub(super) unmet: u64,
}

/// The cost of a pad's code, noted while it is assembled. Instructions are identified by their index in the code.
#[derive(Debug)]
pub(super) struct Costs {
    /// Which instructions are which part of the pad.
    parts: Vec<(Part, Range<usize>)>,
    /// How much longer an instruction takes than its own cost: a loop of many rounds, say.
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

    /// An instruction takes longer than its own cost, or less.
    pub(super) fn takes_longer(&mut self, instruction: usize, by: i64) {
        let longer = self.longer.entry(instruction).or_default();
        *longer = longer.saturating_add(by);
    }

    /// The time to collect, without the instructions.
    pub(super) fn time_to_collect(&self, what: Collected) -> Picoseconds {
        let machine = Machine::measured();
        let limit = self.frame_limit;
        match what {
            Collected::Memory(bytes) => machine.copied(bytes.unwrap_or(limit).min(limit)),
            Collected::Text(bytes) => machine.scanned(bytes.unwrap_or(limit).min(limit)),
        }
    }

    /// The code of an expression ends before an instruction. It has these steps with these costs: the most expensive path counts.
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

    /// The time of a range of the code's instructions.
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

    /// The most that hits of a tracepoint cost.
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

//! One instruction after the other: times, numbers, program counters.

use std::collections::HashSet;

use tracewire_arch::{Architecture, DelaySlot, Flow, FlowKind, InstructionSet, Machine};
use tracewire_exec_trace::record::{Address, CpuNumber, Instruction, Owner, Time};

use super::{Fault, Findings, Here, LISTED};

/// Numbers are used if at most one in this many instructions has one that does not follow.
const NUMBERS_COUNT_UP: u64 = 20;

/// Where an execution may go on.
#[derive(Clone, Copy)]
enum Expected {
    /// Anywhere.
    Anything,
    /// At one address, or at another.
    At(u64, Option<u64>),
}

/// A jump that may be an interrupt.
struct Suspect {
    here: Here,
    from: Address,
    expected: Address,
    to: Address,
}

#[derive(Default)]
struct Cpu {
    number: Option<CpuNumber>,
    time: Option<Time>,
    id: Option<u64>,
    /// The addresses that the previous instruction allows.
    expected: Option<Expected>,
    /// A branch whose delay slot is next.
    pending: Option<(Flow, u64)>,
    latest: Address,
    mode: Vec<u8>,
    /// The last instruction may go anywhere: perhaps it comes back from an interrupt.
    left: bool,
    suspects: Vec<Suspect>,
}

pub(super) struct Sequence {
    machine: Option<&'static Machine>,
    cpus: Vec<Cpu>,
    /// The number of the latest instruction of any cpu.
    id: Option<u64>,
    numbered: u64,
    misnumbered: u64,
    gaps: Vec<(Here, u64, u64)>,
    /// Where interrupts went that were distinguished by their return.
    entries: HashSet<u64>,
    latest_time: Option<Time>,
}

impl Sequence {
    pub(super) fn new(machine: Option<&'static Machine>) -> Self {
        Self {
            machine,
            cpus: Vec::new(),
            id: None,
            numbered: 0,
            misnumbered: 0,
            gaps: Vec::new(),
            entries: HashSet::new(),
            latest_time: None,
        }
    }

    fn cpu(&mut self, number: Option<CpuNumber>) -> &mut Cpu {
        let at = self.cpus.iter().position(|cpu| cpu.number == number);
        let at = at.unwrap_or_else(|| {
            self.cpus.push(Cpu {
                number,
                ..Cpu::default()
            });
            self.cpus.len() - 1
        });
        &mut self.cpus[at]
    }

    /// The lines after an exception may come from anywhere.
    pub(super) fn exception(&mut self, number: Option<CpuNumber>) {
        for cpu in &mut self.cpus {
            if number.is_none() || cpu.number.is_none() || cpu.number == number {
                cpu.expected = Some(Expected::Anything);
                cpu.pending = None;
            }
        }
    }

    /// Whether the instruction is where an exception or an interrupt may have gone.
    pub(super) fn instruction(
        &mut self,
        here: Here,
        instruction: &Instruction<'_>,
        findings: &mut Findings,
    ) -> bool {
        self.number(here, instruction);
        let machine = self.machine;
        let global_time = self.latest_time.replace(instruction.time);
        let cpu = self.cpu(instruction.cpu);
        let before = cpu.time.or(global_time);
        if let Some(before) = before.filter(|_| cpu.time.is_some())
            && instruction.time.compare(before).is_lt()
        {
            findings.add(
                here,
                Fault::TimeBackwards {
                    before,
                    now: instruction.time,
                },
            );
        }
        cpu.time = Some(instruction.time);
        let Some(machine) = machine else { return false };

        let at = instruction.address.0;
        let is_other_mode = cpu.mode != instruction.mode;
        if is_other_mode {
            cpu.mode.clear();
            cpu.mode.extend_from_slice(instruction.mode);
        }
        let mut is_entry = false;
        match cpu.expected {
            Some(Expected::At(first, second))
                if at != first && second != Some(at) && !is_other_mode =>
            {
                is_entry = true;
                if cpu.suspects.len() < LISTED {
                    cpu.suspects.push(Suspect {
                        here,
                        from: cpu.latest,
                        expected: Address(first),
                        to: instruction.address,
                    });
                }
                cpu.pending = None;
            }
            Some(Expected::Anything) => is_entry = true,
            _ => is_entry |= is_other_mode && cpu.expected.is_some(),
        }
        let came_back = if cpu.left { cpu.came_back(at) } else { None };
        cpu.go_on(machine, instruction);
        self.entries.extend(came_back);
        is_entry
    }

    fn number(&mut self, here: Here, instruction: &Instruction<'_>) {
        let Some(id) = instruction.id else { return };
        let global = self.id.replace(id);
        let own = self.cpu(instruction.cpu).id.replace(id);
        let Some(before) = own.or(global) else { return };
        self.numbered += 1;
        let follows =
            |before: Option<u64>| before.is_some_and(|before| id == before.wrapping_add(1));
        if !follows(own) && !follows(global) && (own.is_some() || global.is_none()) {
            self.misnumbered += 1;
            if self.gaps.len() < LISTED {
                self.gaps.push((here, before, id));
            }
        }
    }

    /// A line of memory or a register: its time may be that of an earlier instruction, but of none only if it is
    /// later.
    pub(super) fn effect(
        &mut self,
        here: Here,
        owner: Owner,
        time: Time,
        cpu: Option<CpuNumber>,
        findings: &mut Findings,
    ) {
        if owner != Owner::Latest {
            return;
        }
        let before = match cpu {
            Some(_) => self.cpu(cpu).time,
            None => self.latest_time,
        };
        if let Some(before) = before
            && time.compare(before).is_lt()
        {
            findings.add(here, Fault::TimeBackwards { before, now: time });
        }
    }

    pub(super) fn finish(&mut self, findings: &mut Findings) {
        let mut jumps: Vec<Suspect> = Vec::new();
        for cpu in &mut self.cpus {
            jumps.append(&mut cpu.suspects);
        }
        jumps.retain(|jump| !self.entries.contains(&jump.to.0));
        let means = self.misnumbered.saturating_mul(NUMBERS_COUNT_UP) <= self.numbered
            || self.misnumbered <= 2;
        for (here, before, now) in self.gaps.drain(..).filter(|_| means) {
            // One line that is missing is one fault.
            jumps.retain(|jump| jump.here.line != here.line || now <= before);
            findings.add(here, Fault::Number { before, now });
        }
        for Suspect {
            here,
            from,
            expected,
            to,
        } in jumps
        {
            findings.add(here, Fault::Jump { from, expected, to });
        }
    }
}

impl Cpu {
    /// An instruction that may go anywhere went to `at`: returns where the interrupt had gone, if one was taken there.
    fn came_back(&mut self, at: u64) -> Option<u64> {
        // A fault comes back to the instruction that it struck, or after it.
        let place = self
            .suspects
            .iter()
            .rposition(|suspect| suspect.expected.0 == at || suspect.from.0 == at)?;
        let entry = self.suspects[place].to.0;
        self.suspects.truncate(place);
        Some(entry)
    }

    /// The addresses that the instruction allows for the next one.
    fn go_on(&mut self, machine: &Machine, instruction: &Instruction<'_>) {
        let at = instruction.address.0;
        self.latest = instruction.address;
        self.left = false;
        let mask = match machine.pointer_size() {
            4 => 0xffff_ffff,
            _ => u64::MAX,
        };
        let flow = instruction.code().and_then(|code| machine.flow(&code));
        let next = instruction
            .opcode
            .map(|opcode| at.wrapping_add(u64::from(opcode.size())) & mask);
        if let Some((branch, slot)) = self.pending.take() {
            // This was the delay slot, unless a branch that is not taken has none.
            if at == slot {
                let taken_only = branch.delay_slot == DelaySlot::IfTaken;
                let next = next.filter(|_| branch.is_conditional && !taken_only);
                self.expected = Some(after(machine, &branch, next));
                self.left = branch.kind == FlowKind::Anywhere;
                return;
            }
        }
        self.expected = Some(match (flow, next) {
            (Some(flow), Some(next)) => {
                self.left = flow.kind == FlowKind::Anywhere;
                match flow.delay_slot {
                    DelaySlot::None if !instruction.taken => Expected::At(next, None),
                    DelaySlot::None if flow.is_next() => Expected::At(next, None),
                    DelaySlot::None => {
                        // The code of a conditional Thumb instruction does not show it.
                        let may_stay = flow.is_conditional
                            || instruction.set.is_some_and(InstructionSet::is_thumb);
                        after(machine, &flow, may_stay.then_some(next))
                    }
                    DelaySlot::Always => {
                        self.pending = Some((flow, next));
                        Expected::At(next, None)
                    }
                    DelaySlot::IfTaken => {
                        self.pending = Some((flow, next));
                        Expected::At(next, Some(next.wrapping_add(4) & mask))
                    }
                }
            }
            _ => Expected::Anything,
        });
    }
}

/// Where a branch goes, or `next`.
fn after(machine: &Machine, flow: &Flow, next: Option<u64>) -> Expected {
    // The lowest bit of a target selects the instruction set, but where instructions begin at any byte.
    let selects = match machine.architecture() {
        Architecture::X86_64 | Architecture::I386 => 0,
        _ => 1,
    };
    match (flow.kind, flow.target) {
        (FlowKind::Anywhere, _) | (_, None) => Expected::Anything,
        (_, Some(target)) => Expected::At(target.0 & !selects, next),
    }
}

//! Lines that are missing: instructions that nearly always have one of memory or a register, and once have none.

use std::collections::{HashMap, VecDeque};

use tracewire_arch::{Architecture, FlowKind, Machine};
use tracewire_exec_trace::record::{Instruction, Owner, RegisterWrite};
use tracewire_exec_trace::text::WINDOW;

use super::{Fault, Findings, Here, LineKind};

/// How often an instruction must be seen with a line before one without is a fault.
const SEEN: u64 = 8;

/// One in so many may be without, at most.
const RARE: u64 = 500;

/// How many kinds of instructions are distinguished at most.
const KINDS: usize = 1 << 16;

/// Counts for one kind of instruction and one kind of line.
#[derive(Default)]
struct Habit {
    with: u64,
    without: u64,
    /// The first of those without.
    example: Option<(Here, String)>,
}

/// An instruction of the program.
struct Code {
    /// None for one that may have lines or not.
    kinds: Option<[usize; 2]>,
    text: Box<str>,
}

/// An execution whose lines may still come.
struct Waiting {
    here: Here,
    code: usize,
    is_interrupted: bool,
    has: [bool; 2],
}

pub(super) struct Missing {
    machine: Option<&'static Machine>,
    codes: HashMap<(u64, u128, bool), usize>,
    code_list: Vec<Code>,
    kinds: HashMap<Vec<u8>, usize>,
    habits: Vec<Habit>,
    waiting: VecDeque<Waiting>,
    /// Lines that belong to the next instruction.
    early: [bool; 2],
    values: HashMap<Vec<u8>, u64>,
    writes: u64,
    unchanged: u64,
}

const CONDITIONS: [&[u8]; 16] = [
    b"eq", b"ne", b"cs", b"cc", b"mi", b"pl", b"vs", b"vc", b"hi", b"ls", b"ge", b"lt", b"gt",
    b"le", b"hs", b"lo",
];

/// Instructions that write on a condition, by how their names begin.
const SOMETIMES: [&[u8]; 14] = [
    b"sc", b"movn", b"movz", b"movf", b"movt", b"cmov", b"st", b"isel", b"cas", b"rep", b"pref",
    b"cache", b"wfi", b"yield",
];

/// Registers of flags and states, by how their names begin.
const FLAGS: [&[u8]; 14] = [
    b"cpsr", b"apsr", b"xpsr", b"pstate", b"nzcv", b"eflags", b"rflags", b"xer", b"cr", b"fps",
    b"status", b"fcsr", b"fflags", b"mstatus",
];

impl Missing {
    pub(super) fn new(machine: Option<&'static Machine>) -> Self {
        Self {
            machine,
            codes: HashMap::new(),
            code_list: Vec::new(),
            kinds: HashMap::new(),
            habits: Vec::new(),
            waiting: VecDeque::new(),
            early: [false; 2],
            values: HashMap::new(),
            writes: 0,
            unchanged: 0,
        }
    }

    pub(super) fn instruction(
        &mut self,
        here: Here,
        instruction: &Instruction<'_>,
        is_entry: bool,
    ) {
        if is_entry {
            // An instruction that was interrupted may have done nothing.
            self.exception();
        }
        let code = self.code(instruction);
        if self.waiting.len() >= WINDOW
            && let Some(oldest) = self.waiting.pop_front()
        {
            self.settle(oldest);
        }
        self.waiting.push_back(Waiting {
            here,
            code,
            is_interrupted: false,
            has: std::mem::take(&mut self.early),
        });
    }

    fn code(&mut self, instruction: &Instruction<'_>) -> usize {
        let opcode = instruction.opcode.map_or(0, |opcode| opcode.value);
        let key = (instruction.address.0, opcode, instruction.taken);
        if let Some(code) = self.codes.get(&key) {
            return *code;
        }
        let kinds = self.kinds(instruction);
        self.code_list.push(Code {
            kinds,
            text: String::from_utf8_lossy(instruction.disassembly).into(),
        });
        self.codes.insert(key, self.code_list.len() - 1);
        self.code_list.len() - 1
    }

    pub(super) fn exception(&mut self) {
        if let Some(latest) = self.waiting.back_mut() {
            latest.is_interrupted = true;
        }
    }

    /// The kinds that an instruction is of: for memory by its operation, for registers by operation and destination.
    fn kinds(&mut self, instruction: &Instruction<'_>) -> Option<[usize; 2]> {
        let text = instruction.disassembly;
        let end = text
            .iter()
            .position(u8::is_ascii_whitespace)
            .unwrap_or(text.len());
        let (operation, rest) = text.split_at(end);
        let is_vague = operation.is_empty()
            || !instruction.taken
            || CONDITIONS
                .iter()
                .any(|condition| operation.ends_with(condition))
            || self
                .machine
                .zip(instruction.code())
                .and_then(|(machine, code)| machine.flow(&code))
                .is_some_and(|flow| flow.kind == FlowKind::Anywhere);
        if is_vague {
            return None;
        }
        let destination = rest.split(|byte| *byte == b',').next().unwrap_or_default();
        // Every instruction of x86 may be of memory or not, by its operands.
        let has_own_names = self.machine.is_some_and(|machine| {
            !matches!(
                machine.architecture(),
                Architecture::X86_64 | Architecture::I386
            )
        });
        let of_memory = if has_own_names { operation } else { text };
        let memory = self.kind(&[b"m ", of_memory])?;
        let register = self.kind(&[b"r ", operation, destination])?;
        Some([memory, register])
    }

    fn kind(&mut self, parts: &[&[u8]]) -> Option<usize> {
        let key = parts.concat();
        if let Some(kind) = self.kinds.get(&key) {
            return Some(*kind);
        }
        if self.kinds.len() >= KINDS {
            return None;
        }
        self.habits.push(Habit::default());
        self.kinds.insert(key, self.habits.len() - 1);
        Some(self.habits.len() - 1)
    }

    pub(super) fn effect(&mut self, kind: LineKind, owner: Owner) {
        let back = match owner {
            Owner::Latest => 0,
            Owner::Earlier(back) => back as usize,
            Owner::Next => {
                self.early[kind as usize] = true;
                return;
            }
            Owner::Start => return,
        };
        if let Some(at) = self.waiting.len().checked_sub(back + 1)
            && let Some(waiting) = self.waiting.get_mut(at)
        {
            waiting.has[kind as usize] = true;
        }
    }

    /// A line of a register. It also shows whether unchanged registers are written.
    pub(super) fn register(&mut self, owner: Owner, write: &RegisterWrite<'_>) {
        // Some tracers write flags only when they change, and all else always.
        let is_flags = FLAGS.iter().any(|name| {
            write.register.len() >= name.len()
                && write.register[..name.len()].eq_ignore_ascii_case(name)
        });
        if is_flags {
            return;
        }
        self.effect(LineKind::Register, owner);
        let Some(value) = write.value.known().filter(|_| write.part.is_none()) else {
            return;
        };
        self.writes += 1;
        match self.values.get_mut(write.register) {
            Some(known) => {
                self.unchanged += u64::from(*known == value);
                *known = value;
            }
            None => {
                self.values.insert(write.register.to_vec(), value);
            }
        }
    }

    fn settle(&mut self, waiting: Waiting) {
        let code = &self.code_list[waiting.code];
        let Some(kinds) = code.kinds.filter(|_| !waiting.is_interrupted) else {
            return;
        };
        for (kind, has) in kinds.into_iter().zip(waiting.has) {
            let habit = &mut self.habits[kind];
            if has {
                habit.with += 1;
            } else {
                habit.without += 1;
                if habit.example.is_none() {
                    habit.example = Some((waiting.here, code.text.to_string()));
                }
            }
        }
    }

    pub(super) fn finish(&mut self, findings: &mut Findings) {
        // The lines that the last instruction lacks may be those that were not written when the trace ended.
        self.waiting.pop_back();
        while let Some(oldest) = self.waiting.pop_front() {
            self.settle(oldest);
        }
        // Where nothing is written that does not change, a line that is not there gives nothing.
        let all_written = self.unchanged.saturating_mul(1000) > self.writes;
        for (key, kind) in &self.kinds {
            let habit = &self.habits[*kind];
            let of = if key.starts_with(b"m") {
                LineKind::Memory
            } else {
                LineKind::Register
            };
            let is_rare = habit.without == 1 && habit.with >= SEEN
                || habit.without > 0 && habit.with / habit.without >= RARE;
            let sometimes = of == LineKind::Register
                && (!all_written
                    || SOMETIMES
                        .iter()
                        .any(|name| key.get(2..).unwrap_or_default().starts_with(name)));
            if let Some((here, instruction)) = &habit.example
                && is_rare
                && !sometimes
            {
                findings.add(
                    *here,
                    Fault::MissingLine {
                        of,
                        instruction: instruction.clone(),
                    },
                );
            }
        }
    }
}

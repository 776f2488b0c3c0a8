//! Combines the parts of the execution: an instruction, its accesses, and the registers that it changed.
//!
//! QEMU calls before an instruction executes. The register changes of the previous instruction are visible then. So an instruction
//! is written when the cpu begins the next one: its line, its accesses, its registers. Instructions of several cpus are in the
//! order in which they ended.

use std::collections::HashMap;
use std::sync::Arc;

use tracewire_arch::Architecture;
use tracewire_model::ByteOrder;

use crate::api::{Access, Api, Block, RegisterHandle};
use crate::cpu_threads::CpuThreads;
use crate::machine::{Mode, Peculiarities};
use crate::options::{Options, Registers};
use crate::output::{self, BLOCK, Queue};
use crate::registers::{Compared, RegisterFile, RegisterSet};
use crate::text::{self, Lines, Piece, Time};
use crate::written::{Written, written, written_in_thumb};

/// A translated instruction by its number, which QEMU passes to the callback.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Translated(pub usize);

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Key {
    address: u64,
    code: Vec<u8>,
    begins_block: bool,
    ends_block: bool,
}

#[derive(Debug)]
struct Instruction {
    address: u64,
    size: u8,
    begins_block: bool,
    ends_block: bool,
    is_included: bool,
    meaning: Meaning,
    /// What it is if the cpu executes Thumb, where the code has another meaning there.
    in_thumb: Option<Meaning>,
    /// What follows the mode in its line.
    after_mode: Piece,
}

/// An instruction as one of an instruction set.
#[derive(Debug)]
struct Meaning {
    compared: Compared,
    /// `) ADDRESS OPCODE `, which the mode follows.
    before_mode: Piece,
}

impl Instruction {
    /// What it is in a mode.
    fn in_mode(&self, mode: Mode) -> &Meaning {
        match &self.in_thumb {
            Some(meaning) if mode.set == b'T' => meaning,
            _ => &self.meaning,
        }
    }
}

/// How far the recording is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// It waits for its first instruction.
    Waiting,
    /// It records.
    Recording,
    /// It has ended.
    Ended,
}

#[derive(Debug)]
struct Cpu {
    /// `CPU IT (`, which follows the time of an instruction.
    before_number: Piece,
    registers: RegisterFile,
    /// The instruction that executes, and its accesses.
    current: Option<Translated>,
    accesses: Vec<Access>,
    mode: Option<(u64, Mode)>,
    /// Whether it executed something that is not recorded since.
    has_gap: bool,
}

impl Cpu {
    fn new(number: usize) -> Self {
        Self {
            before_number: Piece::new(format!("{number} IT (").as_bytes()),
            registers: RegisterFile::default(),
            current: None,
            accesses: Vec::new(),
            mode: None,
            has_gap: false,
        }
    }
}

/// The instruction that a cpu is about to execute, as far as it matters for the one before.
#[derive(Clone, Copy, Debug)]
struct Next {
    address: u64,
    begins_block: bool,
    is_reset: bool,
}

/// The file of the recording that is being written.
#[derive(Default, Debug)]
struct Part {
    /// How many came before.
    number: u64,
    /// The instructions in it.
    recorded: u64,
    /// The bytes of it that were passed on.
    passed_on: u64,
}

/// The recording.
#[derive(Debug)]
pub struct Recorder {
    api: Api,
    options: Options,
    architecture: Architecture,
    peculiarities: Peculiarities,
    set: Option<RegisterSet>,
    at_exceptions: Compared,
    /// The letter of the instruction set where no mode is known.
    set_without_mode: u8,
    /// Whether the machine has executed an instruction of 16 bits where codes are taken for 32.
    has_halves: bool,
    translated: Vec<Instruction>,
    /// The first instruction of all: the target of a reset.
    reset: Option<u64>,
    known: HashMap<Key, Translated>,
    cpus: Vec<Cpu>,
    threads: CpuThreads,
    phase: Phase,
    /// Whether the instruction that starts it was there.
    has_started: bool,
    skipped: u64,
    /// Whether the instruction that ends it executes.
    stops: bool,
    recorded: u64,
    part: Part,
    time: Time,
    out: Lines,
    queue: Arc<Queue>,
}

/// The callbacks of an instruction.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Its number.
    pub translated: Translated,
    /// Whether its execution is of interest.
    pub executions: bool,
    /// Whether its accesses are.
    pub accesses: bool,
    /// Whether it matters before the recording has started.
    pub may_start: bool,
}

impl Recorder {
    pub fn new(api: Api, architecture: Architecture, options: Options, queue: Arc<Queue>) -> Self {
        let phase = if options.start.is_some() || options.skip > 0 {
            Phase::Waiting
        } else {
            Phase::Recording
        };
        Self {
            api,
            options,
            architecture,
            peculiarities: Peculiarities::of(architecture),
            set: None,
            at_exceptions: Compared::Only(Box::default()),
            set_without_mode: b'A',
            has_halves: false,
            translated: Vec::new(),
            reset: None,
            known: HashMap::new(),
            cpus: Vec::new(),
            threads: CpuThreads::default(),
            phase,
            has_started: false,
            skipped: 0,
            stops: false,
            recorded: 0,
            part: Part::default(),
            time: Time::default(),
            out: output::room(),
            queue,
        }
    }

    pub fn api(&self) -> &Api {
        &self.api
    }

    pub fn options(&self) -> &Options {
        &self.options
    }

    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Whether callbacks of instructions read registers.
    pub fn reads_registers(&self) -> bool {
        self.options.registers != Registers::Off
    }

    /// A cpu is made, which has these registers.
    ///
    /// Returns whether its number may be wrong in callbacks ([`CpuThreads::add`]).
    pub fn cpu(&mut self, described: Vec<(RegisterHandle, String)>) -> bool {
        let shares = self.threads.add();
        if self.set.is_some() {
            return shares;
        }
        let mode = self.peculiarities.mode.map(|(register, _)| register);
        let has = |name: &str| described.iter().any(|(_, of)| of == name);
        if self.architecture == Architecture::Arm && has("xpsr") {
            // The M profile, whose code is all Thumb.
            self.set_without_mode = b'T';
        }
        let set = RegisterSet::new(
            self.architecture,
            described,
            self.options.registers,
            self.peculiarities.unavailable,
            mode.filter(|_| self.reads_registers()),
        );
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let at_exceptions = if set.has_mode() {
            self.peculiarities.at_exceptions
        } else {
            self.peculiarities.at_exceptions_without_mode
        };
        self.at_exceptions = set.compared(&Written::Only(names(at_exceptions)));
        self.set = Some(set);
        false
    }

    /// A block is translated. Returns the callbacks for its instructions.
    pub fn block(&mut self, block: Block) -> Vec<(crate::api::BlockInstruction, Wanted)> {
        if self.phase == Phase::Ended {
            return Vec::new();
        }
        let instructions = self.api.instructions(block);
        let last = instructions.len().wrapping_sub(1);
        let mut wanted = Vec::with_capacity(instructions.len());
        // The registers of an instruction are compared before the next one, whether that is recorded or not.
        let mut is_after_included = true;
        for (number, instruction) in instructions.into_iter().enumerate() {
            let key = Key {
                address: self.api.address(instruction),
                code: self.api.code(instruction),
                begins_block: number == 0,
                ends_block: number == last,
            };
            self.reset.get_or_insert(key.address);
            let is_included = self.options.includes(key.address);
            let key_address = key.address;
            let is_trigger = [self.options.start, self.options.stop].contains(&Some(key.address));
            let translated = match self.known.get(&key) {
                Some(known) => *known,
                None => {
                    let text = if self.options.disassembly && is_included {
                        self.api.disassembly(instruction)
                    } else {
                        String::new()
                    };
                    self.translate(key, &text, is_included)
                }
            };
            wanted.push((
                instruction,
                Wanted {
                    translated,
                    executions: is_included
                        || is_trigger
                        || is_after_included
                        || self.options.skip > 0,
                    accesses: is_included && self.options.memory.is_some(),
                    may_start: match self.options.start {
                        Some(start) => start == key_address || self.options.skip > 0,
                        None => true,
                    },
                },
            ));
            is_after_included = is_included;
        }
        wanted
    }

    fn translate(&mut self, key: Key, disassembly: &str, is_included: bool) -> Translated {
        let is_mips = matches!(
            self.architecture,
            Architecture::Mips
                | Architecture::MipsLittle
                | Architecture::Mips64
                | Architecture::Mips64Little
        );
        self.has_halves |= is_mips && key.code.len() == 2;
        let meaning = |writes: Written, bytes: &[u8]| {
            let writes = if self.options.compare_all || self.has_halves {
                Written::All
            } else {
                writes
            };
            let compared = (self.set.as_ref()).map_or(Compared::All, |set| set.compared(&writes));
            let mut before_mode = Lines::with_room(64);
            before_mode.array(b") ", 2);
            before_mode.hex(key.address, self.peculiarities.address_digits);
            before_mode.array(b" ", 1);
            before_mode.hex_bytes(bytes.iter());
            before_mode.array(b" ", 1);
            Meaning {
                compared,
                before_mode: Piece::new(before_mode.as_bytes()),
            }
        };
        let code = &key.code;
        let in_thumb = written_in_thumb(self.architecture, code);
        let in_thumb = in_thumb.map(|writes| meaning(writes, &halves_in_order(code)));
        let own = written(self.architecture, code);
        let own = meaning(own, &in_order(self.architecture, code));
        let after_mode = if disassembly.is_empty() {
            " :\n".to_owned()
        } else {
            format!(" : {disassembly}\n")
        };
        let translated = Translated(self.translated.len());
        self.translated.push(Instruction {
            address: key.address,
            size: key.code.len() as u8,
            begins_block: key.begins_block,
            ends_block: key.ends_block,
            is_included,
            meaning: own,
            in_thumb,
            after_mode: Piece::new(after_mode.as_bytes()),
        });
        self.known.insert(key, translated);
        translated
    }

    /// A cpu is about to execute an instruction. Returns whether the recording has ended with this.
    ///
    /// # Safety
    /// The caller is in the callback of the cpu, which reads registers where [`Recorder::reads_registers`].
    pub unsafe fn executes(&mut self, cpu: u32, translated: Translated) -> bool {
        let Some(instruction) = self.translated.get(translated.0) else {
            return false;
        };
        let is_included = instruction.is_included;
        let next = Next {
            address: instruction.address,
            begins_block: instruction.begins_block,
            is_reset: self.reset == Some(instruction.address),
        };
        if !self.options.cpus.is_empty() && !self.options.cpus.contains(&cpu) {
            return false;
        }
        let number = cpu as usize;
        while self.cpus.len() <= number {
            self.cpus.push(Cpu::new(self.cpus.len()));
        }
        match self.phase {
            Phase::Ended => return false,
            Phase::Waiting => {
                let start = self.options.start;
                self.has_started |= start.is_none_or(|start| start == next.address);
                if !self.has_started {
                    return false;
                }
                if self.skipped < self.options.skip {
                    self.skipped += 1;
                    return false;
                }
                self.phase = Phase::Recording;
            }
            Phase::Recording => {}
        }
        // SAFETY: the caller is in the callback.
        unsafe { self.complete(number, next) };
        let is_full = (self.options.limit).is_some_and(|limit| self.recorded >= limit);
        if is_full || self.stops {
            self.phase = Phase::Ended;
            return true;
        }
        self.begin_part_if_full();
        self.stops = self.options.stop == Some(next.address);
        if !is_included {
            self.cpus[number].has_gap = true;
            return false;
        }
        // SAFETY: as above.
        unsafe { self.resume(number) };
        self.cpus[number].current = Some(translated);
        false
    }

    /// Writes the instruction that a cpu has executed, where there is one. `next` is the one that it is about to execute.
    ///
    /// # Safety
    /// As [`Recorder::executes`].
    unsafe fn complete(&mut self, number: usize, next: Next) {
        let Some(Translated(done)) = self.cpus[number].current else {
            return;
        };
        self.write(number);
        if !self.reads_registers() {
            return;
        }
        let is_known = self.cpus[number].registers.is_known();
        let mode = self.mode_of(number);
        let mut is_all = mode.is_foreign || !is_known;
        is_all |= mode.is_changed_at_once && self.translated[done].begins_block;
        if next.begins_block {
            // SAFETY: the caller is in the callback.
            is_all |= unsafe { self.update_mode(number) } | next.is_reset;
        }
        let done = &self.translated[done];
        if next.begins_block {
            // An exception in a block leads to another one; no code shows which registers it changed.
            let follows = done.address.wrapping_add(u64::from(done.size)) == next.address;
            is_all |= !done.ends_block && !follows;
        }
        let cpu = &mut self.cpus[number];
        let compared = match is_all {
            true => &Compared::All,
            false => &done.in_mode(mode).compared,
        };
        let Some(set) = &self.set else { return };
        let time = &self.time;
        // SAFETY: the caller is in the callback.
        unsafe {
            (cpu.registers).compare(&mut self.api, set, compared, &mut self.out, time);
            if next.begins_block && !is_all {
                let at = &self.at_exceptions;
                (cpu.registers).compare(&mut self.api, set, at, &mut self.out, time);
            }
        }
    }

    /// Writes all registers that have changed since the cpu was last recorded.
    ///
    /// # Safety
    /// As [`Recorder::executes`].
    unsafe fn resume(&mut self, number: usize) {
        let is_known = self.cpus[number].registers.is_known();
        let has_gap = std::mem::take(&mut self.cpus[number].has_gap);
        if !self.reads_registers() || (is_known && !has_gap) {
            return;
        }
        // SAFETY: the caller is in the callback.
        unsafe { self.update_mode(number) };
        // The lines are of the instruction before: the latest one of the file. Before the first one they are the state at the start. The
        // first ones of another cpu would be of a wrong cpu there; its registers are known after its first instruction.
        let is_first = self.part.recorded == 0;
        let is_of_this = self.cpus.len() == 1 || is_first;
        if !is_of_this && !is_known {
            return;
        }
        let cpu = &mut self.cpus[number];
        let Some(set) = &self.set else { return };
        let time = &self.time;
        // SAFETY: the caller is in the callback.
        unsafe {
            (cpu.registers).compare(&mut self.api, set, &Compared::All, &mut self.out, time);
        }
    }

    fn mode_of(&self, number: usize) -> Mode {
        let unknown = Mode {
            name: self.peculiarities.usual_mode,
            set: self.set_without_mode,
            is_foreign: false,
            is_changed_at_once: false,
            bank: 0,
        };
        self.cpus[number].mode.map_or(unknown, |(_, mode)| mode)
    }

    /// Reads the mode of a cpu; returns whether it has changed.
    ///
    /// # Safety
    /// As [`Recorder::executes`].
    unsafe fn update_mode(&mut self, number: usize) -> bool {
        let (Some(set), Some((_, meaning))) = (&self.set, self.peculiarities.mode) else {
            return false;
        };
        let cpu = &mut self.cpus[number];
        // SAFETY: the caller is in the callback.
        let value = unsafe { (cpu.registers).mode(&mut self.api, set, &mut self.out, &self.time) };
        let Some(value) = value else {
            return false;
        };
        let before = cpu.mode;
        if before.is_some_and(|(of, _)| of == value) {
            return false;
        }
        let mode = meaning(value);
        cpu.mode = Some((value, mode));
        before.is_some_and(|(_, before)| before.bank != mode.bank)
    }

    /// Appends the lines of the instruction that a cpu executes: its own and those of its accesses.
    fn write(&mut self, number: usize) {
        let mode = self.mode_of(number);
        let Some(Translated(current)) = self.cpus[number].current.take() else {
            return;
        };
        let instruction = &self.translated[current];
        self.time.advance();
        self.recorded += 1;
        self.part.recorded += 1;
        let cpu = &mut self.cpus[number];
        let out = &mut self.out;
        self.time.write(out);
        out.piece(&cpu.before_number);
        self.time.write_number(out);
        out.piece(&instruction.in_mode(mode).before_mode);
        let [a, b, c] = *mode.name;
        out.array(&[mode.set, b' ', a, b, c], 5);
        out.piece(&instruction.after_mode);
        let is_big = self.architecture.byte_order() == ByteOrder::Big;
        for access in cpu.accesses.drain(..) {
            self.time.write(out);
            text::access(out, &access, is_big, self.peculiarities.address_digits);
        }
        if self.out.len() >= BLOCK {
            self.flush();
        }
    }

    /// Goes on in another file where this one is as long as it may be. The state at its beginning is in it.
    fn begin_part_if_full(&mut self) {
        let length = self.part.passed_on + self.out.len() as u64;
        let is_full = self.options.split.is_some_and(|most| length >= most);
        if !is_full || self.part.recorded == 0 {
            return;
        }
        self.flush();
        self.queue.begin_file();
        self.part = Part {
            number: self.part.number + 1,
            ..Part::default()
        };
        for cpu in &mut self.cpus {
            cpu.registers.forget();
        }
    }

    /// The instruction that a cpu executes has accessed memory.
    pub fn accesses(&mut self, cpu: u32, info: crate::api::AccessInfo, address: u64) {
        let Some(cpu) = self.cpus.get_mut(cpu as usize) else {
            return;
        };
        if cpu.current.is_some() {
            // SAFETY: this is called only in the callback.
            let access = unsafe { self.api.access(info, address) };
            cpu.accesses.push(access);
        }
    }

    /// Passes on the buffered data, so that it is in the file if QEMU is killed.
    pub fn flush(&mut self) {
        if !self.out.is_empty() {
            self.part.passed_on += self.out.len() as u64;
            self.queue.replace(&mut self.out);
        }
    }

    /// QEMU ends: the instructions that cpus were executing are written without what they did to registers.
    pub fn end(&mut self) {
        if self.phase == Phase::Recording {
            for number in 0..self.cpus.len() {
                self.write(number);
            }
        }
        self.phase = Phase::Ended;
        self.flush();
    }

    pub fn recorded(&self) -> u64 {
        self.recorded
    }

    /// How many files there are besides the first.
    pub fn more_files(&self) -> u64 {
        self.part.number
    }
}

/// An instruction's code in the order of its digits: a number; for x86 the bytes.
fn in_order(architecture: Architecture, code: &[u8]) -> Vec<u8> {
    let is_number = !matches!(architecture, Architecture::X86_64 | Architecture::I386);
    match architecture.byte_order() {
        ByteOrder::Little if is_number => code.iter().rev().copied().collect(),
        _ => code.to_vec(),
    }
}

/// The code of an instruction of Thumb in the order of its digits: two numbers, of the first half and of the second.
fn halves_in_order(code: &[u8]) -> Vec<u8> {
    let halves = code.chunks(2);
    halves.flat_map(|half| half.iter().rev().copied()).collect()
}

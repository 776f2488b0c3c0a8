//! The text of Linux's `perf script`: where a program was, and never what it held.
//!
//! ```text
//! ls 1443864 [006] 2275506.209905:  7f216b426100 _start+0x0 (/lib/ld-2.31.so) insn: 48 89 e7
//! ls  14438/14438  2275506.209905:  1 branches:uH: 7f216b426103 _start+0x3 (/lib/ld.so) => 7f216b426df0 _dl_start+0x0 (/lib/ld.so)
//! ls 1443864  2275506.209905:  100000 cpu-clock: 7f216b426df0 _dl_start+0x0 (/lib/ld.so) 0x7f216b426103/0x7f216b426df0/P/-/-/1
//! ```
//!
//! Three things have this text (`Form`), told apart by what is in the first lines:
//! - *instructions*, of Intel PT (`--insn-trace`, `--itrace=i1i`): each line is one;
//! - *branches* (`--itrace=b`): a line has a branch and the instruction that it went to. Each is a record, so that an instruction
//!   between two branches is no record, and a branch that was gone to is two;
//! - *samples*: what lies between two lines is not known. The branch stack of a sample comes before it, oldest first; the address
//!   of a memory sample is an access of one unknown byte.
//!
//! A line that has several instructions is transcribed to one line for each ([`transcribed`](super::transcribed)).
//!
//! The number of the thread takes the cpu's place, because calls are those of threads. The idle threads of all cpus are number 0;
//! the top bit and their cpu take its place. The code of an instruction is that of x86, its bytes in the order of memory.

mod sample;
mod transcribe;

use std::cell::RefCell;

use self::sample::{Head, LONGEST_CODE, Place, Sample};
use super::riscv;
use super::stamp::Stamp;
use super::{Dialect, Format, LineError, LineState};
use crate::record::{CpuNumber, EventKind, Instruction, Record};

pub(crate) use self::sample::time_start;
pub use self::sample::{Symbol, symbols};
pub(super) use self::transcribe::{Branches, header_form, transcript};

/// What the lines of a text are.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Form {
    /// Every instruction.
    Instructions,
    /// Every branch that was taken.
    Branches,
    /// Some instructions.
    Samples,
}

impl Form {
    /// The format of it.
    pub(super) const fn format(self) -> Format {
        match self {
            Self::Instructions => Format::PerfInstructions,
            Self::Branches => Format::PerfBranches,
            Self::Samples => Format::PerfSamples,
        }
    }

    /// What the first line of a transcript calls it.
    const fn name(self) -> &'static [u8] {
        match self {
            Self::Instructions => b"instructions",
            Self::Branches => b"branches",
            Self::Samples => b"samples",
        }
    }
}

/// The reader.
pub(super) struct Perf {
    form: Form,
    /// The front of the latest line that has an event. It is here and not in the state of a line, which other formats copy.
    head: RefCell<Head>,
}

/// Whether a line is a sample with an address.
pub(super) fn is_sample(line: &[u8]) -> bool {
    Sample::read(line).is_ok_and(|sample| sample.place().is_some())
}

/// What the first lines of a text are.
pub(super) fn form<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Form {
    let mut rows = Rows::default();
    let mut has_branches = false;
    for line in lines {
        let Ok(sample) = Sample::read(line) else {
            continue;
        };
        let Some(place) = sample.place() else {
            continue;
        };
        if sample.is_instruction(&place) {
            rows.add(sample.thread, place.address);
        } else {
            has_branches |= sample.is_branch(&place);
        }
    }
    match has_branches {
        _ if rows.are_whole() => Form::Instructions,
        true => Form::Branches,
        false => Form::Samples,
    }
}

/// Whether lines that look like a row of instructions are one: without the event's name, samples look the same.
#[derive(Default)]
struct Rows {
    last: Option<(CpuNumber, u64)>,
    pairs: u64,
    /// Pairs of which the second one may follow the first in memory.
    near: u64,
    count: u64,
}

impl Rows {
    fn add(&mut self, thread: CpuNumber, address: u64) {
        if let Some((_, last)) = self.last.filter(|(of, _)| *of == thread) {
            self.pairs += 1;
            self.near += u64::from((1..=LONGEST_CODE).contains(&address.wrapping_sub(last)));
        }
        self.last = Some((thread, address));
        self.count += 1;
    }

    /// One instruction in four is a branch at most, over many of them.
    const fn are_whole(&self) -> bool {
        self.count > 0 && self.near * 4 >= self.pairs
    }
}

impl Perf {
    pub(super) const fn new(form: Form) -> Self {
        Self {
            form,
            head: RefCell::new(Head::NONE),
        }
    }

    /// The records of a sample: where a line has several instructions, its own.
    fn emit<'a>(
        &self,
        state: &LineState,
        sample: &Sample<'a>,
        place: &Place<'a>,
        emit: &mut impl FnMut(&LineState, &Record<'a>),
    ) {
        let stamp = Stamp {
            time: sample.time,
            cpu: Some(sample.thread),
        };
        let is_branch = sample.is_branch(place);
        if self.form == Form::Instructions && (is_branch || !sample.is_instruction(place)) {
            // The branches of such a text are among its instructions.
            let kind = match place.is_gap() {
                true => EventKind::Exception,
                false => EventKind::Other,
            };
            emit(state, &stamp.event(kind, sample.text()));
            return;
        }
        let disassembly = match place.disassembly() {
            b"" if is_branch => place.flags(),
            disassembly => disassembly,
        };
        let own = Instruction {
            opcode: place.code(),
            disassembly,
            ..stamp.instruction(place.address, 16)
        };
        emit(state, &Record::Instruction(own));
        if let Some((kind, address)) = sample.accessed(place) {
            emit(
                state,
                &stamp.access(kind, 1, (address, 16), riscv::unknown(1)),
            );
        }
    }
}

impl Dialect for Perf {
    const HAS_TIME: bool = false;

    fn line<'a>(
        &self,
        state: &mut LineState,
        line: &'a [u8],
        emit: &mut impl FnMut(&LineState, &Record<'a>),
    ) -> Result<(), LineError> {
        // A line that begins as a sample did, but for its time, is no note.
        if let Some(sample) = self.head.borrow_mut().sample(line) {
            self.sample(state, &sample, emit);
        } else if let Some(kind) = note(line) {
            let text = line.trim_ascii();
            let text = text.strip_prefix(transcribe::GAP).unwrap_or(text);
            emit(state, &Stamp::at(state.time).event(kind, text));
        } else {
            let sample = self.head.borrow_mut().read(line)?;
            self.sample(state, &sample, emit);
        }
        Ok(())
    }
}

impl Perf {
    /// The records of a sample, and its time.
    #[inline]
    fn sample<'a>(
        &self,
        state: &mut LineState,
        sample: &Sample<'a>,
        emit: &mut impl FnMut(&LineState, &Record<'a>),
    ) {
        state.time = sample.time;
        let Some(place) = sample.place() else {
            let stamp = Stamp {
                time: sample.time,
                cpu: Some(sample.thread),
            };
            emit(state, &stamp.event(EventKind::Other, sample.text()));
            return;
        };
        self.emit(state, sample, &place, emit);
    }
}

/// What a line is that is none of a sample: a comment of the head, or a place at which the trace could not be decoded.
fn note(line: &[u8]) -> Option<EventKind> {
    match line.trim_ascii_start() {
        text if text.starts_with(transcribe::GAP) => Some(EventKind::Exception),
        [b'#', ..] => Some(EventKind::Other),
        text if text.starts_with(b"instruction trace error") => Some(EventKind::Exception),
        _ => None,
    }
}

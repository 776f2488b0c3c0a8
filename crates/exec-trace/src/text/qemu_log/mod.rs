//! QEMU's own log: `-accel tcg,one-insn-per-tb=on -d in_asm,exec,cpu,nochain`.
//!
//! ```text
//! ----------------
//! IN: main
//! 0x402000f4:  100004e0  adr      x0, #0x40200190
//!
//! Trace 0: 0x7f9a54000240 [00004000/00000000402000f4/00000521/ff020201] main
//!  PC=00000000402000f4 X00=0000000000000000 X01=0000000000000000
//! …
//! ```
//!
//! A block's code is logged once, when it is translated; each execution is a `Trace` line and all registers before it. What a
//! line means therefore depends on lines that are anywhere before it, and nearly all of the text is what has not
//! changed. So the log is not read in pieces: it is transcribed while it comes ([`transcribed`](super::transcribed)), and what is read and
//! indexed is the transcript.
//!
//! The transcript has QEMU4V's lines, with three differences: its first line says what it is; a hyphen is in the place of an
//! opcode, a set or a mode that the log does not give; a line that begins with `#` is one of the log's other lines. Times
//! count instructions.
//!
//! - The registers that an instruction wrote are those that differ before the next instruction of its cpu. The last
//!   instruction of a cpu has none.
//! - The registers of a cpu other than the first one are known after its first instruction.
//! - The log has no memory accesses: memory that the program may write is unavailable.
//! - A block that QEMU gave up before its start (`Stopped execution`) was not executed.
//! - Of a block of several instructions the log does not say how many were executed. [`refusal`](super::refusal()) finds such logs.

mod block;
mod registers;
mod transcribe;

use super::qemu4v::Qemu4v;
use super::{Dialect, LineError, LineState, Lines};
use crate::record::{Event, EventKind, Record};

pub(super) use transcribe::{Log, is_log};

/// The first line of a transcript.
pub(super) const HEADER: &[u8] = b"# transcript of a QEMU log";

/// What begins a line of the transcript that is one of an exception.
pub(super) const EXCEPTION: &[u8] = b"#! ";

/// The reader of a transcript.
#[derive(Clone, Copy)]
pub(super) struct QemuLog;

impl Dialect for QemuLog {
    #[inline]
    fn line<'a>(
        &self,
        state: &mut LineState,
        line: &'a [u8],
        emit: &mut impl FnMut(&LineState, &Record<'a>),
    ) -> Result<(), LineError> {
        let Some(text) = line.strip_prefix(b"#") else {
            return Qemu4v::LACKING.line(state, line, emit);
        };
        let kind = match text {
            _ if line == HEADER => EventKind::Header,
            [b'!', ..] => EventKind::Exception,
            _ => EventKind::Other,
        };
        let event = Event {
            time: state.time,
            cpu: None,
            kind,
            text: text.strip_prefix(b"!").unwrap_or(text).trim_ascii(),
        };
        emit(state, &Record::Event(event));
        Ok(())
    }
}

/// How QEMU is to be run, where a log of it is not enough to say what was executed.
pub(super) const RUN: &str =
    "run QEMU with: -accel tcg,one-insn-per-tb=on -d in_asm,exec,cpu,nochain -D FILE";

/// Why the beginning of a text that looks like a log of QEMU's cannot be used; none where it can, or is something else.
pub(super) fn refusal(text: &[u8]) -> Option<&'static str> {
    let (mut blocks, mut executed, mut instructions) = (0u64, 0u64, 0u64);
    for (_, line) in Lines::new(text, 0, text.len()) {
        if line.starts_with(b"IN:") {
            (blocks, instructions) = (blocks + 1, 0);
        } else if line.starts_with(b"Trace ") {
            executed += 1;
        } else if blocks > 0 && block::Line::read(line).is_some_and(|line| !line.is_rest()) {
            instructions += 1;
            if instructions > 1 {
                return Some(
                    "its blocks have several instructions, and it does not say how many of them were executed",
                );
            }
        }
    }
    (blocks > 0 && executed == 0).then_some("it has what was translated, and not what was executed")
}

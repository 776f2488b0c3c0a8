//! Which format a text is of, known from its lines.

use super::execlog::Execlog;
use super::gem5::Gem5;
use super::nios2::Nios2;
use super::qemu4v::Qemu4v;
use super::rvfi::Rvfi;
use super::spike::Spike;
use super::tarmac::Tarmac;
use super::{
    Dialect, Format, LineState, Lines, control_flow, is_blank_line, microtesk, nios2, perf,
    qemu_log,
};
use crate::record::{EventKind, Record};

/// How many lines are looked at.
const LINES: usize = 10_000;

/// How many bytes are.
const BYTES: usize = 4 << 20;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Evidence {
    None,
    /// A line that several formats write.
    Some,
    /// An instruction, or a header.
    Sure,
}

/// What a line says of a dialect, and whether it is in MicroTESK's manner.
fn evidence<D: Dialect>(dialect: &D, line: &[u8]) -> (Evidence, bool) {
    let mut found = (Evidence::None, false);
    let mut state = LineState::START;
    let read = dialect.line(&mut state, line, &mut |_, record| {
        let of_record = match record {
            Record::Instruction(instruction) => {
                found.1 = microtesk::is_first(instruction);
                Evidence::Sure
            }
            Record::Event(event) if event.kind == EventKind::Header => Evidence::Sure,
            Record::Access(_) | Record::Register(_) => Evidence::Some,
            Record::Event(_) => Evidence::None,
        };
        found.0 = found.0.max(of_record);
    });
    match read {
        Ok(()) => found,
        Err(_) => (Evidence::None, false),
    }
}

pub(super) fn detect(text: &[u8]) -> Option<Format> {
    let mut weak = None;
    let lines = Lines::new(text, 0, text.len().min(BYTES))
        .map(|(_, line)| line)
        .filter(|line| !is_blank_line(line));
    for line in lines.take(LINES) {
        if line == qemu_log::HEADER {
            return Some(Format::QemuLog);
        }
        if line == control_flow::HEADER {
            return Some(Format::ControlFlow);
        }
        if let Some(form) = perf::header_form(line) {
            return Some(form.format());
        }
        match nios2::version(line) {
            Some(2) => return Some(Format::Nios2V2),
            Some(_) => return Some(Format::Nios2V3),
            None => {}
        }
        let (qemu4v, is_microtesk) = evidence(&Qemu4v::STRICT, line);
        if qemu4v == Evidence::Sure {
            return Some(match is_microtesk {
                true => Format::Microtesk,
                false => Format::Qemu4v,
            });
        }
        for (format, nios2) in [(Format::Nios2V2, Nios2::V2), (Format::Nios2V3, Nios2::V3)] {
            // A head alone does not tell the version; the number of fields does.
            if line.contains(&b',') && evidence(&nios2, line).0 == Evidence::Sure {
                return Some(format);
            }
        }
        let (tarmac, _) = evidence(&Tarmac, line);
        if tarmac == Evidence::Sure {
            return Some(Format::Tarmac);
        }
        let others = [
            (Format::Spike, evidence(&Spike, line).0),
            (Format::Execlog, evidence(&Execlog, line).0),
            (Format::Gem5, evidence(&Gem5, line).0),
            (Format::Rvfi, evidence(&Rvfi, line).0),
        ];
        if let Some((format, _)) = others.iter().find(|(_, found)| *found == Evidence::Sure) {
            return Some(*format);
        }
        if perf::is_sample(line) {
            let lines = Lines::new(text, 0, text.len().min(BYTES));
            return Some(perf::form(lines.map(|(_, line)| line).take(LINES)).format());
        }
        if weak.is_none() {
            weak = match (qemu4v, tarmac) {
                (Evidence::Some, _) => Some(Format::Qemu4v),
                (_, Evidence::Some) => Some(Format::Tarmac),
                _ => None,
            };
        }
    }
    weak
}

//! Faults in the structure of a trace file.
//!
//! An error makes a reader show wrong data or nothing: damage, a cut, contradictory counts. A warning is something that a reader
//! should know: values that were not collected, parts that GDB will not read.

mod description;
mod steps;

use std::cell::OnceCell;
use std::collections::HashSet;

pub(crate) use steps::led_back;

use crate::finding::{Fault, Finding, Place, Wanted};
use tracewire_model::{Action, Address, TracepointNumber};
use tracewire_tracefile::lean::LeanDamage;
use tracewire_tracefile::{
    Block, CollectedMemory, Ending, Frame, MAX_TRACEPOINT_NUMBER, TraceFile,
};

/// How many zero bytes may be after the end marker; GDB writes 2, its test suite 4.
pub(crate) const MOST_ZEROS: u64 = 8;

/// The most blocks that are searched for the data of actions, in a file of few frames, and the additional ones for each byte of the
/// file: every frame is compared with all actions of its tracepoint, and there may be millions of both.
const SEARCHES: u64 = 1 << 26;
const SEARCHES_PER_BYTE: u64 = 8;

/// Finds all faults of a file. Reports first those of its lines and counts, by kind, then those of each frame, in their order, and
/// last those of the file's end.
pub fn check_structure(file: &TraceFile, report: &mut dyn FnMut(Finding)) {
    description::check(file, &mut |place, fault| report(Finding { place, fault }));
    for damage in file.lean().unwrap_or_default() {
        let fault = match damage {
            LeanDamage::Lost(bytes) => Fault::LeanLost(bytes.clone()),
            LeanDamage::Behind(bytes) => Fault::LeanBehind(bytes.clone()),
            LeanDamage::Unfinished(bytes) => Fault::LeanUnfinished(bytes.clone()),
            _ => continue,
        };
        report(Finding {
            place: Place::File,
            fault,
        });
    }
    for tracepoint in file.description().tracepoints() {
        let number = tracepoint.definition.number;
        if number.0 > MAX_TRACEPOINT_NUMBER {
            report(Finding {
                place: Place::File,
                fault: Fault::TracepointNumber(number),
            });
        }
    }
    let size = file.as_bytes().len() as u64;
    let mut searches = Some(SEARCHES.saturating_add(size.saturating_mul(SEARCHES_PER_BYTE)));
    let led_back = led_back(file);
    let mut time = None;
    for frame in file.frames() {
        let mut report = |offset: usize, fault| {
            let offset = frame.data_offset() + offset as u64;
            report(Finding {
                place: Place::Frame(frame.number(), offset),
                fault,
            });
        };
        check_frame(file, &frame, &led_back, &mut searches, &mut report);
        if let Some(now) = frame.timestamp() {
            if let Some(back) = time
                .and_then(|before: u64| before.checked_sub(now))
                .filter(|b| *b > 0)
            {
                report(0, Fault::TimeBackwards(back));
            }
            time = Some(now);
        }
    }
    let (place, fault) = match file.ending() {
        Ending::Marker {
            zero: true,
            trailing: ..=MOST_ZEROS,
            ..
        } => return check_sum(file, report),
        Ending::Marker {
            offset,
            trailing,
            zero: true,
        } => (Place::Offset(offset), Fault::Zeros(trailing)),
        Ending::Marker {
            offset, trailing, ..
        } => (Place::Offset(offset), Fault::Trailing(trailing)),
        Ending::Missing { offset } => (Place::Offset(offset), Fault::NoEndMarker),
        Ending::Cut {
            offset,
            present,
            expected,
        } => (Place::Offset(offset), Fault::Cut { present, expected }),
        Ending::CutInDescription => (Place::File, Fault::CutInDescription),
    };
    report(Finding { place, fault });
    check_sum(file, report);
}

fn check_sum(file: &TraceFile, report: &mut dyn FnMut(Finding)) {
    let Some(declared) = file.checksum() else {
        let status = file.description().status();
        if status.is_some_and(|status| status.fields.sealed) {
            report(Finding {
                place: Place::File,
                fault: Fault::NoChecksum,
            });
        }
        return;
    };
    let found = file.found_checksum();
    if declared != found {
        report(Finding {
            place: Place::File,
            fault: Fault::Checksum { declared, found },
        });
    }
}

fn check_frame(
    file: &TraceFile,
    frame: &Frame<'_>,
    led_back: &HashSet<(TracepointNumber, Address)>,
    searches: &mut Option<u64>,
    report: &mut dyn FnMut(usize, Fault),
) {
    let number = frame.tracepoint();
    let mut blocks = frame.blocks();
    let mut registers = 0;
    loop {
        let at = blocks.position();
        match blocks.next() {
            Some(Block::Unknown(bytes)) => {
                let letter = bytes.first().copied().unwrap_or_default();
                report(
                    at,
                    match letter {
                        b'R' | b'M' | b'V' | b'S' => Fault::BlockSize(letter),
                        _ => Fault::UnknownBlock(letter, bytes.len()),
                    },
                );
            }
            Some(Block::StaticData(_)) => report(at, Fault::StaticData),
            Some(Block::Registers(_)) => {
                registers += 1;
                if registers == 2 {
                    report(at, Fault::RegistersTwice);
                }
            }
            Some(_) => {}
            None => break,
        }
    }
    if let Some(differing) = frame.differing_memory().first() {
        report(0, Fault::Disagreement(Address(differing.start)));
    }
    let Some(locations) = file.locations(number) else {
        report(0, Fault::Undefined(number));
        return;
    };
    let at = frame.program_counter();
    let Some(step) = frame.is_step() else { return };
    // Of several locations it is the one where the thread was; a step may be anywhere.
    let place = match step {
        true => Some(locations.first()),
        false if locations.watches() => Some(locations.first()),
        false => at.and_then(|at| locations.at(at)),
    };
    let tracepoints = file.description().tracepoints();
    let Some(tracepoint) = place.and_then(|place| tracepoints.get(place)) else {
        return;
    };
    let definition = &tracepoint.definition;
    if !step && led_back.contains(&definition.key()) {
        return;
    }
    let actions = match step {
        true => &definition.step_actions,
        false => &definition.actions,
    };
    let memory = OnceCell::new();
    for action in actions {
        let Some(left) = *searches else { return };
        *searches = left.checked_sub(cost(frame, action));
        if searches.is_none() {
            return report(0, Fault::NotLookedFor);
        }
        if let Some(wanted) = missing(frame, &memory, action) {
            report(0, Fault::NotCollected(wanted));
        }
    }
}

/// The most blocks that are searched for an action. Those of memory are in order.
const fn cost(frame: &Frame<'_>, action: &Action) -> u64 {
    match action {
        Action::Memory { base: None, .. } | Action::Expression(_) => 1,
        // Most blocks are longer.
        _ => 1 + frame.data().len() as u64 / 16,
    }
}

/// The parts of an action that are missing in the frame. An expression may collect anything or nothing.
fn missing<'f>(
    frame: &Frame<'f>,
    memory: &OnceCell<CollectedMemory<'f>>,
    action: &Action,
) -> Option<Wanted> {
    match action {
        Action::Registers(mask) => {
            (!mask.is_empty() && frame.register_block().is_none()).then_some(Wanted::Registers)
        }
        Action::Memory {
            base,
            offset,
            length,
        } => {
            let base = match base {
                Some(register) => frame.register_value(*register)?,
                None => 0,
            };
            let address = Address(base.wrapping_add(*offset));
            let memory = memory.get_or_init(|| frame.collected_memory());
            let missing = memory.missing(address, *length);
            missing.map(|_| Wanted::Memory {
                address,
                length: *length,
                missing: address,
            })
        }
        Action::StaticData => {
            let there = frame
                .blocks()
                .any(|block| matches!(block, Block::StaticData(_)));
            (!there).then_some(Wanted::StaticData)
        }
        Action::Expression(_) => None,
    }
}

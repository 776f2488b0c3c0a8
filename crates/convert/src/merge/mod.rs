//! One trace file of several.
//!
//! The files must be of one machine: the same byte order, the same register blocks. Tracepoints and trace state variables
//! keep their numbers where they can:
//!
//! - A tracepoint with the same definition in several files, at all its addresses, is one tracepoint; its hits in different runs
//!   are added up. One whose number is already used gets the next number that no file uses.
//! - A variable is identified by its name, so one of the same name is the same variable, with the initial value of the first file
//!   that has it. One whose number is already used by another name gets another number, in the definitions, in every expression and
//!   in the frames.
//!
//! Frames are in the order of time, each file's own in their order. A frame without a time follows the last one before it in its
//! file with a time; files without any time are appended one after the other.
//!
//! Files with the same start and stop, and the same usage of every tracepoint, are parts of one run: their counts are not added up.

mod number;
mod run;
mod status;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashSet};
use std::io::Write;

use tracewire_model::{AggregateKey, AggregateTable, FrameNumber, Redactions};
use tracewire_tracefile::{
    Block, Description, DescriptionParts, Frame, HEADER, Module, SealingWriter, TraceFile,
};

use crate::error::ConvertError;
use crate::time::frame_times;
use number::Numbering;

/// Writes one trace file of several. See the module for what becomes of numbers and of the order.
///
/// # Errors
/// When the files are not of one machine, a number is needed and none is free, a line becomes too long for GDB, or the
/// sink refuses.
pub fn write(files: &[TraceFile], out: &mut impl Write) -> Result<(), ConvertError> {
    let first = files.first().ok_or(ConvertError::NothingToMerge)?;
    for (index, file) in files.iter().enumerate().skip(1) {
        if let Some(difference) = difference(first, file) {
            return Err(ConvertError::DifferentMachine {
                file: index + 1,
                difference,
            });
        }
    }
    let runs = run::runs(files);
    let mut numbering = Numbering::new(files, &runs)?;
    let description = describe(files, &runs, &numbering)?;
    let mut out = SealingWriter::new(out);
    let mut put = |bytes: &[u8]| out.write_all(bytes).map_err(ConvertError::Write);
    put(HEADER)?;
    put(&description)?;
    put(b"\n")?;

    let mut times: Vec<_> = files.iter().map(frame_times).collect();
    // The next frame of each file, by time, then by file.
    let mut next = BinaryHeap::new();
    for (index, times) in times.iter_mut().enumerate() {
        next.extend(times.next().map(|time| Reverse((time, index, 0u64))));
    }
    let mut bytes = Vec::new();
    while let Some(Reverse((time, index, number))) = next.pop() {
        let (Some(file), Some(times)) = (files.get(index), times.get_mut(index)) else {
            continue;
        };
        if let Some(frame) = file.frame(FrameNumber(number)) {
            bytes.clear();
            bytes.extend_from_slice(frame.bytes());
            renumber(&mut numbering, index, &frame, &mut bytes)?;
            put(&bytes)?;
        }
        // A clock that was set back must not make a file older than its own frames.
        next.extend(
            times
                .next()
                .map(|after| Reverse((after.max(time), index, number + 1))),
        );
    }
    out.finish()?;
    Ok(())
}

/// Why frames of both cannot are in one file.
fn difference(one: &TraceFile, other: &TraceFile) -> Option<String> {
    if one.byte_order() != other.byte_order() && one.frame_count() > 0 && other.frame_count() > 0 {
        return Some(format!(
            "its byte order is {}, not {}",
            other.byte_order(),
            one.byte_order()
        ));
    }
    let size = |file: &TraceFile| {
        file.register_block_size().map_or_else(
            || "of unknown size".to_owned(),
            |size| format!("{size} bytes"),
        )
    };
    if one.register_block_size() != other.register_block_size() {
        return Some(format!(
            "its register blocks are {}, not {}",
            size(other),
            size(one)
        ));
    }
    match (one.layout(), other.layout()) {
        (Some(mine), Some(theirs)) => {
            let mut pairs = mine.registers().iter().zip(theirs.registers());
            let differs = pairs.find(|(mine, theirs)| {
                (&mine.name, mine.number, mine.bits) != (&theirs.name, theirs.number, theirs.bits)
            });
            differs.map(|(mine, theirs)| {
                format!(
                    "its register {} is {} of {} bits, not {} of {}",
                    theirs.number, theirs.name, theirs.bits, mine.name, mine.bits
                )
            })
        }
        _ => None,
    }
}

/// The lines of the merged description.
fn describe(
    files: &[TraceFile],
    runs: &[Vec<usize>],
    numbering: &Numbering,
) -> Result<Vec<u8>, ConvertError> {
    let descriptions = || files.iter().map(TraceFile::description);
    let mut seen = HashSet::new();
    let mut modules: Vec<Module> = Vec::new();
    for module in descriptions().flat_map(Description::modules) {
        if seen.insert(module.to_string()) {
            modules.push(module.clone());
        }
    }
    let mut redactions = Redactions::none();
    descriptions().for_each(|one| redactions.extend(one.redactions()));
    let register_block_size = files
        .iter()
        .find_map(TraceFile::register_block_size)
        .unwrap_or(0);
    let parts = DescriptionParts {
        register_block_size,
        target_xml: descriptions()
            .find_map(Description::target_xml)
            .map(str::to_owned),
        status: status::merge(files, runs, numbering),
        variables: numbering.variables().to_vec(),
        tracepoints: numbering.tracepoints().to_vec(),
        modules,
        redactions,
        aggregates: aggregates(files, numbering),
    };
    let mut text = Description::build(&parts)?.as_bytes().to_vec();
    let mut unknown = HashSet::new();
    let lines = descriptions().flat_map(Description::unknown_lines);
    for line in lines.map(|line| line.text) {
        if !line.is_empty() && unknown.insert(line) {
            text.extend_from_slice(line);
            text.push(b'\n');
        }
    }
    Ok(text)
}

/// The numbers of aggregates: those of the same tracepoint in several files are added.
fn aggregates(files: &[TraceFile], numbering: &Numbering) -> Vec<(AggregateKey, AggregateTable)> {
    let mut all: BTreeMap<AggregateKey, AggregateTable> = BTreeMap::new();
    for (index, file) in files.iter().enumerate() {
        for (number, aggregate, table) in file.description().aggregates() {
            let Some(number) = numbering.defined_tracepoint(index, number) else {
                continue;
            };
            let known = all.entry((number, aggregate.index)).or_default();
            known.merge(&aggregate, table);
        }
    }
    all.into_iter().collect()
}

/// Puts the merged numbers into a frame's bytes.
fn renumber(
    numbering: &mut Numbering,
    file: usize,
    frame: &Frame<'_>,
    bytes: &mut [u8],
) -> Result<(), ConvertError> {
    let order = frame.byte_order();
    let tracepoint = numbering.tracepoint(file, frame.tracepoint())?;
    if tracepoint != frame.tracepoint()
        && let Some(field) = bytes.get_mut(..2)
    {
        // The numbers given fit the field.
        field.copy_from_slice(&order.u16_bytes(tracepoint.0 as u16));
    }
    let header = bytes.len().saturating_sub(frame.data().len());
    let mut blocks = frame.blocks();
    loop {
        let at = blocks.position();
        let Some(block) = blocks.next() else {
            return Ok(());
        };
        if let Block::Variable { number, .. } = block {
            let variable = numbering.variable(file, number)?;
            if let Some(field) = bytes.get_mut(header + at + 1..header + at + 5) {
                field.copy_from_slice(&order.u32_bytes(variable.0.cast_unsigned()));
            }
        }
    }
}

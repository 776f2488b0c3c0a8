//! Where a variable has a value that has none at a place.

use std::fmt;

use gimli::constants;
use tracewire_model::Address;

use crate::code_place::CodePlace;
use crate::dwarf::block::{Block, BlockTree};
use crate::dwarf::line::{FileLines, LineEntry};
use crate::dwarf::location::Finder;
use crate::location_expression::VariableLocation;
use crate::resolve::place::has_value;
use crate::variables::declared;

/// How many lines are looked at, the nearest ones.
const MOST_LINES: usize = 64;

/// A place at which a variable has a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ValuePlace {
    /// The address.
    pub address: Address,
    /// The file and the line, if a tracepoint on that line goes to the address.
    pub line: Option<(String, u64)>,
}

/// The place as a location: `FILE:LINE`, or `*ADDRESS`.
impl fmt::Display for ValuePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.line {
            Some((file, line)) => {
                let name = file.rsplit('/').next().unwrap_or(file);
                write!(f, "{}:{line}", name.escape_debug())
            }
            None => write!(f, "*{}", self.address),
        }
    }
}

/// The nearest place in the same function at which one of the frame's variables has a value; `None` if it has none anywhere.
pub(crate) fn nearest_value(place: &CodePlace<'_>, name: &str) -> Option<ValuePlace> {
    let debug = place.debug();
    let variable = |(unit, entry): &(usize, crate::dwarf::Entry)| {
        let is_variable = matches!(
            entry.tag(),
            constants::DW_TAG_variable | constants::DW_TAG_formal_parameter
        );
        is_variable && debug.name(*unit, entry).as_deref() == Some(name)
    };
    let frame = place.frame();
    let (unit, entry) = frame.iter().find_map(|block| {
        declared(debug, place.unit, block)
            .into_iter()
            .find(variable)
    })?;
    let (unit, value) = debug.attribute_of(unit, &entry, constants::DW_AT_location)?;
    let finder = Finder {
        module: place.module,
        size: None,
        pc: Some(place.address),
        at_entry: false,
    };
    let mut ranges = finder.ranges(debug, unit, &value).ok()?;
    let valued = |expression| has_value(&VariableLocation::Expression(expression), false);
    // A range around the place itself gives no value there.
    let is_elsewhere = |start, end| place.address < start || end <= place.address;
    ranges.retain(|(start, end, expression)| {
        is_elsewhere(*start, *end) && valued(expression.clone())
    });
    let ranges: Vec<(u64, u64)> = ranges.into_iter().map(|found| (found.0, found.1)).collect();
    let of_line = nearest_line(place, &frame, &ranges).map(|(entry, file)| ValuePlace {
        address: place.module.biased(entry.address),
        line: Some((file, entry.line)),
    });
    of_line.or_else(|| {
        let own = frame.last()?;
        let starts = ranges.iter().map(|range| range.0);
        let nearest = starts
            .filter(|&start| own.contains(start))
            .min_by_key(|start| start.abs_diff(place.address))?;
        Some(ValuePlace {
            address: place.module.biased(nearest),
            line: None,
        })
    })
}

/// The nearest line of a frame's own code that begins in one of some ranges, and its file. Of the places that a line has in
/// a block a tracepoint takes the first.
fn nearest_line(
    place: &CodePlace<'_>,
    frame: &[&Block],
    ranges: &[(u64, u64)],
) -> Option<(LineEntry, String)> {
    let tree: &BlockTree = &place.tree;
    let own = frame.last()?;
    let is_own = |address: u64| {
        let block = tree.block_at(address)?;
        let function = tree.block(*tree.frame(block).last()?)?;
        (function.offset == own.offset).then_some(block)
    };
    let lines = place.debug().lines(place.unit);
    let in_range = |address| (ranges.iter()).any(|&(start, end)| start <= address && address < end);
    let mut candidates: Vec<(u64, LineEntry, &FileLines)> = Vec::new();
    for file in &lines.files {
        let entries = file.entries.iter();
        let fitting = entries
            .filter(|entry| entry.is_statement && entry.line != 0 && in_range(entry.address));
        candidates.extend(fitting.map(|entry| {
            let distance = entry.address.abs_diff(place.address);
            (distance, *entry, file)
        }));
    }
    candidates.sort_by_key(|(distance, ..)| *distance);
    let found = candidates
        .iter()
        .take(MOST_LINES)
        .find(|(_, entry, file)| {
            let block = is_own(entry.address);
            let mut same_line = file.entries.iter().filter(|other| {
                other.line == entry.line
                    && other.is_statement
                    && tree.block_at(other.address) == block
            });
            block.is_some() && same_line.next() == Some(entry)
        })?;
    Some((found.1, found.2.name.clone()))
}

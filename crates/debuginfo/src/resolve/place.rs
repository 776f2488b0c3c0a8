//! Whether a tracepoint on a function goes to its first instruction or past its prologue.
//!
//! GDB skips a prologue because unoptimised code has its variables in place only after it. Optimised code may have lost arguments
//! there that the first instruction still has: their registers have other values by then.

use gimli::{AttributeValue, Operation, constants};

use crate::code_place::CodePlace;
use crate::dwarf::location::Finder;
use crate::dwarf::{DebugInformation, Die, Entry};
use crate::location::{FunctionPlace, ResolvedLocation};
use crate::location_expression::{LocationExpression, VariableLocation};
use crate::module::{Module, demangle};
use crate::variables::declared;

use super::function::located;
use super::prologue::Prologue;
use super::{Resolution, frame};

impl Resolution<'_> {
    /// Leaves out the rests that were split off functions, and moves the others to where a tracepoint on a function is to go.
    pub(super) fn settle(
        &self,
        found: &mut Vec<ResolvedLocation>,
        asked: &str,
        wanted: FunctionPlace,
    ) {
        // A split-off rest is entered by calls, each of which is counted at the start of the function itself. It may have been
        // requested.
        let is_rest = |location: &ResolvedLocation| {
            self.symbol_of(location)
                .is_some_and(|symbol| demangle::is_split_off(symbol) && symbol != asked)
        };
        if !found.iter().all(is_rest) {
            found.retain(|location| !is_rest(location));
        }
        for location in found {
            if let Some(moved) = self.moved(location, wanted) {
                *location = moved;
            }
        }
    }

    /// The linker's name of the function that a location is, and no copy of.
    fn symbol_of(&self, location: &ResolvedLocation) -> Option<&str> {
        let module = self.modules.get(location.module)?;
        let address = module.unbiased(location.address);
        let symbol = module.elf_symbol_at(address)?;
        (location.level == frame::outermost(module, address)).then_some(symbol.name)
    }

    /// Another place for a function that is no copy; none where it is at the right one.
    fn moved(
        &self,
        location: &ResolvedLocation,
        wanted: FunctionPlace,
    ) -> Option<ResolvedLocation> {
        let module = self.modules.get(location.module)?;
        let address = module.unbiased(location.address);
        let code = CodePlace::at(self.modules, location.address)?;
        let function = code.function()?;
        let entry = function.entry();
        let is_whole = location.level == frame::outermost(module, address)
            && address == Prologue::new(module).function_start(entry);
        let die = code.die(function);
        let there = is_whole.then(|| of_function(module, die, entry, wanted))?;
        (there != address).then(|| ResolvedLocation {
            elsewhere_in_gdb: true,
            known_to_gdb: location.known_to_gdb,
            selected_for: location.selected_for.clone(),
            ..located(
                module,
                there,
                false,
                location.function.clone(),
                frame::outermost(module, there),
            )
        })
    }
}

/// Where a tracepoint on the function goes that an entry describes and whose first instruction is at a link-time address.
fn of_function(module: &Module, function: Die, entry: u64, wanted: FunctionPlace) -> u64 {
    let skipped = Prologue::new(module).function_start(entry);
    match wanted {
        _ if skipped == entry => entry,
        FunctionPlace::AfterPrologue => skipped,
        FunctionPlace::Entry => entry,
        FunctionPlace::Arguments | FunctionPlace::Call => {
            let arguments = Arguments::of(module, function);
            let before = arguments.known(entry, true);
            let after = arguments.known(skipped, false);
            let nothing_is_lost = before
                .iter()
                .zip(&after)
                .all(|(before, after)| before >= after);
            if nothing_is_lost && (before != after || wanted == FunctionPlace::Call) {
                entry
            } else {
                skipped
            }
        }
    }
}

/// The arguments of a function that is no inlined copy.
struct Arguments<'a> {
    module: &'a Module,
    entries: Vec<(usize, Entry)>,
}

impl<'a> Arguments<'a> {
    fn of(module: &'a Module, function: Die) -> Self {
        let debug = module.debug();
        let tree = debug.blocks(function.unit);
        let block = (tree.blocks.iter()).find(|block| block.offset == function.offset);
        let entries = block.map_or_else(Vec::new, |block| declared(debug, function.unit, block));
        let is_argument =
            |(_, entry): &(usize, Entry)| entry.tag() == constants::DW_TAG_formal_parameter;
        Self {
            module,
            entries: entries.into_iter().filter(is_argument).collect(),
        }
    }

    /// Which of them are known at an address.
    fn known(&self, address: u64, at_entry: bool) -> Vec<bool> {
        let debug = self.module.debug();
        let finder = Finder {
            module: self.module,
            size: Some(0),
            pc: Some(address),
            at_entry,
        };
        let is_known = |(unit, entry): &(usize, Entry)| {
            let location = finder.find(*unit, entry);
            let anywhere = is_for_all_addresses(debug, *unit, entry);
            has_value(&location, at_entry) && !(at_entry && anywhere && is_on_frame(&location))
        };
        self.entries.iter().map(is_known).collect()
    }
}

/// Whether an entry has one location for the whole function, and so one that may hold only after the prologue.
fn is_for_all_addresses(debug: &DebugInformation, unit: usize, entry: &Entry) -> bool {
    let location = debug.attribute_of(unit, entry, constants::DW_AT_location);
    matches!(
        location,
        Some((_, AttributeValue::Exprloc(_) | AttributeValue::Block(_)))
    )
}

/// Whether a location is in the function's frame, and not in a register.
fn is_on_frame(location: &VariableLocation) -> bool {
    let VariableLocation::Expression(expression) = location else {
        return false;
    };
    !matches!(
        expression.operations().as_deref(),
        Ok([(_, Operation::Register { .. })])
    )
}

/// Whether a location has a value that the frame itself gives, without its caller.
pub(crate) fn has_value(location: &VariableLocation, at_entry: bool) -> bool {
    match location {
        VariableLocation::OptimizedOut | VariableLocation::Unknown(_) => false,
        VariableLocation::Constant(_)
        | VariableLocation::Static(_)
        | VariableLocation::ThreadLocal(_) => true,
        VariableLocation::Expression(expression) => is_of_this_frame(expression, at_entry),
    }
}

fn is_of_this_frame(expression: &LocationExpression, at_entry: bool) -> bool {
    let Ok(operations) = expression.operations() else {
        return false;
    };
    operations.iter().all(|(_, operation)| match operation {
        Operation::EntryValue { .. } => at_entry,
        Operation::ParameterRef { .. } => false,
        _ => true,
    })
}

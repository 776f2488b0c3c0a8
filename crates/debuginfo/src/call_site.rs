//! The caller's debug information for the arguments it passed.

use std::cell::RefCell;
use std::collections::HashMap;

use gimli::{Operation, constants};
use tracewire_model::Address;

use crate::code_place::CodePlace;
use crate::dwarf::index::NameKind;
use crate::dwarf::location::Finder;
use crate::dwarf::{DebugInformation, Die, Entry, flag};
use crate::function::Functions;
use crate::location_expression::LocationExpression;
use crate::misplaced::Suspicion;
use crate::module::ModuleId;
use crate::types::Types;

/// How deep the blocks of a caller are searched, and how many entries are looked at.
const DEEPEST: u32 = 32;
const MOST_ENTRIES: usize = 100_000;
/// How many functions that jump to one another are followed.
const MOST_FUNCTIONS: usize = 64;

/// For functions, whether tail calls may lead from them back to themselves, as far as it was computed.
#[derive(Debug, Default)]
pub(crate) struct TailCalls(RefCell<HashMap<(ModuleId, Die), bool>>);

impl TailCalls {
    /// Whether tail calls may lead from a function to its own entry, or to an unknown function.
    fn may_lead_back(&self, place: &CodePlace<'_>) -> bool {
        let Some(function) = place.function() else {
            return true;
        };
        let start = place.die(function);
        let key = (place.module.info.id, start);
        if let Some(&known) = self.0.borrow().get(&key) {
            return known;
        }
        let may = leads_to_itself(place.debug(), start).unwrap_or(true);
        self.0.borrow_mut().insert(key, may);
        may
    }
}

/// The values that callers passed.
pub(crate) struct CallSites<'a> {
    types: Types<'a>,
    tail_calls: &'a TailCalls,
}

impl<'a> CallSites<'a> {
    pub(crate) const fn new(types: Types<'a>, tail_calls: &'a TailCalls) -> Self {
        Self { types, tail_calls }
    }

    /// The expression, in terms of the caller's frame, for the value of a register (DWARF's number) at the entry of the function
    /// that `callee` is in (`DW_TAG_call_site_parameter`). The call is the one that returns to `return_pc`. It is `None` without
    /// such an entry, and where the call was of another function, which then jumped to this one. It is also `None` where jumps may
    /// have entered this one again, which the return address does not show.
    pub(crate) fn value(
        &self,
        return_pc: Address,
        callee: Address,
        register: u16,
    ) -> Option<LocationExpression> {
        let modules = self.types.modules();
        let place = CodePlace::at(modules, Address(return_pc.0.wrapping_sub(1)))?;
        let debug = place.debug();
        let function = place.die(place.function()?);
        let wanted = place.module.unbiased(return_pc);
        let site = find(debug, function, wanted, DEEPEST, &mut 0)?;
        let entry = debug.entry(site)?;
        let origin = called_function(debug, site.unit, &entry)?;
        let origin_name = debug.name(origin.unit, &debug.entry(origin)?)?;
        let called = Functions::new(self.types).at(callee)?.name;
        let callee = CodePlace::at(modules, callee);
        if called.rsplit("::").next() != Some(origin_name.as_str())
            || callee.is_none_or(|callee| self.tail_calls.may_lead_back(&callee))
        {
            return None;
        }
        let finder = Finder {
            module: place.module,
            size: None,
            pc: Some(wanted),
            at_entry: false,
        };
        let expression = |entry: &Entry, name| {
            let value = entry.attr_value(name)?;
            finder.expression(debug, site.unit, &value).ok().flatten()
        };
        let value = debug.children(site).into_iter().find_map(|parameter| {
            let place = expression(&parameter, constants::DW_AT_location)?;
            let is_register = matches!(
                place.operations().ok()?.as_slice(),
                [(_, Operation::Register { register: found })] if found.0 == register
            );
            let value = || {
                expression(&parameter, constants::DW_AT_call_value)
                    .or_else(|| expression(&parameter, constants::DW_AT_GNU_call_site_value))
            };
            is_register.then(value)?
        })?;
        let suspicion = Suspicion::new(self.types, &place);
        (!suspicion.is_passed_too_wide(origin, &value)).then_some(value)
    }
}

/// Whether a function is among those that it jumps to in the place of a call, directly or by others; none where that is not
/// known.
fn leads_to_itself(debug: &DebugInformation, start: Die) -> Option<bool> {
    let root = abstract_of(debug, start);
    let mut known = vec![root];
    let mut waiting = vec![start];
    let mut seen = 0;
    while let Some(function) = waiting.pop() {
        let mut calls = Vec::new();
        jumps(debug, function, DEEPEST, &mut seen, &mut calls)?;
        for called in calls {
            let called = abstract_of(debug, called?);
            if called == root {
                return Some(true);
            }
            if known.contains(&called) {
                continue;
            }
            if known.len() >= MOST_FUNCTIONS {
                return None;
            }
            known.push(called);
            waiting.extend(instances(debug, called)?);
        }
    }
    Some(false)
}

/// The entry that an instance of a function is made from.
fn abstract_of(debug: &DebugInformation, function: Die) -> Die {
    let origin = debug.attribute(function, constants::DW_AT_abstract_origin);
    origin
        .and_then(|(unit, value)| debug.reference(unit, &value))
        .unwrap_or(function)
}

/// The functions with code that are instances of one; none where there are none.
fn instances(debug: &DebugInformation, function: Die) -> Option<Vec<Die>> {
    let name = debug.name(function.unit, &debug.entry(function)?)?;
    let found: Vec<Die> = debug
        .named(&name)
        .into_iter()
        .filter(|found| found.kind == NameKind::Function)
        .map(|found| found.die())
        .filter(|&die| die == function || abstract_of(debug, die) == function)
        .collect();
    (!found.is_empty()).then_some(found)
}

/// The functions that a function jumps to in the place of a call: each none where that is not known.
fn jumps(
    debug: &DebugInformation,
    block: Die,
    depth: u32,
    seen: &mut usize,
    found: &mut Vec<Option<Die>>,
) -> Option<()> {
    let depth = depth.checked_sub(1)?;
    for child in debug.children(block) {
        *seen += 1;
        if *seen > MOST_ENTRIES {
            return None;
        }
        match child.tag() {
            constants::DW_TAG_call_site | constants::DW_TAG_GNU_call_site => {
                let is_jump = flag(&child, constants::DW_AT_call_tail_call)
                    || flag(&child, constants::DW_AT_GNU_tail_call);
                if is_jump {
                    found.push(called_function(debug, block.unit, &child));
                }
            }
            constants::DW_TAG_lexical_block | constants::DW_TAG_inlined_subroutine => {
                let inner = Die {
                    unit: block.unit,
                    offset: child.offset(),
                };
                jumps(debug, inner, depth, seen, found)?;
            }
            _ => {}
        }
    }
    Some(())
}

/// The function that a call names.
fn called_function(debug: &DebugInformation, unit: usize, call: &Entry) -> Option<Die> {
    [
        constants::DW_AT_call_origin,
        constants::DW_AT_abstract_origin,
    ]
    .into_iter()
    .find_map(|name| debug.reference(unit, &call.attr_value(name)?))
}

/// The call in `block` that returns to a link-time address.
fn find(
    debug: &DebugInformation,
    block: Die,
    return_pc: u64,
    depth: u32,
    seen: &mut usize,
) -> Option<Die> {
    let depth = depth.checked_sub(1)?;
    debug.children(block).into_iter().find_map(|child| {
        *seen += 1;
        if *seen > MOST_ENTRIES {
            return None;
        }
        let die = Die {
            unit: block.unit,
            offset: child.offset(),
        };
        let name = match child.tag() {
            constants::DW_TAG_call_site => constants::DW_AT_call_return_pc,
            constants::DW_TAG_GNU_call_site => constants::DW_AT_low_pc,
            constants::DW_TAG_lexical_block | constants::DW_TAG_inlined_subroutine => {
                return find(debug, die, return_pc, depth, seen);
            }
            _ => return None,
        };
        let unit = debug.unit(block.unit)?;
        let address = debug
            .dwarf_of(block.unit)
            .attr_address(unit, child.attr_value(name)?)
            .ok()??;
        (address == return_pc).then_some(die)
    })
}

//! What the debug information of a caller says of the arguments it passed.

use gimli::{Operation, constants};
use tracewire_model::Address;

use crate::dwarf::location::Finder;
use crate::dwarf::{DebugInformation, Die, Entry};
use crate::location_expression::LocationExpression;
use crate::symbols::Symbols;

/// How deep the blocks of a caller are searched, and how many entries are looked at.
const DEEPEST: u32 = 32;
const MOST_ENTRIES: usize = 100_000;

impl Symbols {
    /// The expression, in terms of the caller's frame, of what a register (DWARF's number) held when the call that
    /// returns to `return_pc` entered the function that `callee` is in (`DW_TAG_call_site_parameter`). `None` where
    /// nothing says so, and where the call was of another function: that one then jumped to this one.
    #[must_use]
    pub fn call_site_value(
        &self,
        return_pc: Address,
        callee: Address,
        register: u16,
    ) -> Option<LocationExpression> {
        let place = self.code_at(Address(return_pc.0.wrapping_sub(1)))?;
        let debug = place.debug();
        let function = Die {
            unit: place.unit,
            offset: place.function()?.offset,
        };
        let wanted = place.module.unbiased(return_pc);
        let site = find(debug, function, wanted, DEEPEST, &mut 0)?;
        let entry = debug.entry(site)?;
        let origin = [
            constants::DW_AT_call_origin,
            constants::DW_AT_abstract_origin,
        ]
        .into_iter()
        .find_map(|name| debug.reference(site.unit, &entry.attr_value(name)?))?;
        let origin_name = debug.name(origin.unit, &debug.entry(origin)?)?;
        let called = self.function_at(callee)?.name;
        if called.rsplit("::").next() != Some(origin_name.as_str()) {
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
        debug.children(site).into_iter().find_map(|parameter| {
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
        })
    }
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

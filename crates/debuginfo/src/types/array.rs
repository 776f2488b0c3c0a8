//! Arrays, and bounds that are known only at run time.

use gimli::constants;
use tracewire_model::Address;

use super::access::Types;
use super::read::{TypeReader, constant};
use super::table::TypeSource;
use super::{Type, TypeId};
use crate::code_place::CodePlace;
use crate::dwarf::location::Finder;
use crate::dwarf::{Entry, flag};
use crate::location_expression::{LocationExpression, VariableLocation};

/// The upper bound of a variable-length array.
#[derive(Clone, Debug)]
pub enum ArrayBound {
    /// The last index, as a number.
    Last(i64),
    /// Where the last index is found, and its type.
    LastAt(VariableLocation, TypeId),
    /// The expression leaves the last index itself, not its place.
    LastIs(LocationExpression),
    /// The expression leaves the number of elements itself, not its place.
    CountIs(LocationExpression),
    /// Where the number of elements is found, and its type.
    CountAt(VariableLocation, TypeId),
}

impl Types<'_> {
    /// Where the upper bound of an array without count is found at `pc`.
    pub(crate) fn array_bound(self, array: TypeId, pc: Address) -> Option<ArrayBound> {
        let (module, die, dimension) = self.dimension_of(self.strip_id(array))?;
        let debug = module.debug();
        let bounds = debug
            .children(die)
            .into_iter()
            .filter(|child| child.tag() == constants::DW_TAG_subrange_type)
            .nth(dimension as usize)?;
        let found = |name| Some((bounds.attr_value(name)?, name));
        let (value, name) =
            found(constants::DW_AT_count).or_else(|| found(constants::DW_AT_upper_bound))?;
        let counts = name == constants::DW_AT_count;
        if let Some(last) = constant(&value) {
            let last = i64::try_from(last).ok()?;
            return Some(ArrayBound::Last(if counts {
                last.checked_sub(1)?
            } else {
                last
            }));
        }
        let at_entry = CodePlace::at(self.modules(), pc).is_some_and(|place| place.at_entry());
        let finder = |size| Finder {
            module,
            size,
            pc: Some(module.unbiased(pc)),
            at_entry,
        };
        let (location, type_id) = if let Some(variable) = debug.reference(die.unit, &value) {
            let entry = debug.entry(variable)?;
            let type_id = self.type_id_of(module, variable.unit, &entry);
            let location = finder(self.stored_size(type_id)).find(variable.unit, &entry);
            (location, type_id)
        } else {
            let expression = finder(None).expression(debug, die.unit, &value).ok()??;
            return Some(if counts {
                ArrayBound::CountIs(expression)
            } else {
                ArrayBound::LastIs(expression)
            });
        };
        Some(if counts {
            ArrayBound::CountAt(location, type_id)
        } else {
            ArrayBound::LastAt(location, type_id)
        })
    }
}

impl TypeReader<'_> {
    /// Dimensions from the `dimension`th on.
    pub(super) fn array(&self, dimension: u32) -> Type {
        let bounds: Vec<Entry> = self
            .debug
            .children(self.die)
            .into_iter()
            .filter(|child| {
                matches!(
                    child.tag(),
                    constants::DW_TAG_subrange_type | constants::DW_TAG_enumeration_type
                )
            })
            .collect();
        let here = bounds.get(dimension as usize);
        let next = dimension.saturating_add(1);
        let element = if (next as usize) < bounds.len() {
            self.types
                .table()
                .id(TypeSource::Entry(self.module.info.id, self.die, next))
        } else {
            self.target()
        };
        Type::Array {
            element,
            count: here.and_then(element_count),
            vector: flag(self.entry, constants::DW_AT_GNU_vector),
        }
    }
}

/// The number of elements of one dimension; none if it is not a constant.
fn element_count(bounds: &Entry) -> Option<u64> {
    if bounds.tag() == constants::DW_TAG_enumeration_type {
        return None;
    }
    if let Some(count) = bounds.attr_value(constants::DW_AT_count) {
        return count.udata_value();
    }
    let upper = constant(&bounds.attr_value(constants::DW_AT_upper_bound)?)?;
    let lower = bounds
        .attr_value(constants::DW_AT_lower_bound)
        .and_then(|value| constant(&value))
        .unwrap_or(0);
    // `int a[0]` has the upper bound -1, which some producers write as the largest number of its form.
    let count = upper.checked_sub(lower)?.checked_add(1)?;
    if matches!(upper, 0xffff_ffff | 0xffff_ffff_ffff_ffff) {
        return Some(0);
    }
    u64::try_from(count).ok()
}

//! `$inlined`: the arguments and local variables of the innermost inlined copy at an address.

use tracewire_debuginfo::{Symbols, Variable};
use tracewire_model::Address;

/// The name of `$inlined`.
const NAME: &str = "$inlined";

/// Whether an item of a `collect` is `$inlined`.
pub(crate) fn is_inlined(item: &str) -> bool {
    item.trim().eq_ignore_ascii_case(NAME)
}

/// The variables, each under the name that an expression has for it (`copied::count`); where the address is in no inlined
/// copy, why there are none.
pub(crate) fn inlined_variables(symbols: &Symbols, pc: Address) -> Result<Vec<Variable>, String> {
    let place = symbols.place(pc);
    let function = place
        .filter(|place| !place.callers.is_empty())
        .and_then(|place| place.function)
        .ok_or("no function is inlined at the address")?;
    let function = tracewire_debuginfo::plain_name(&function);
    let found = symbols.variables_at(pc);
    let variables = found.arguments.into_iter().chain(found.locals);
    Ok(variables
        .map(|variable| Variable {
            name: format!("{function}::{}", variable.name),
            ..variable
        })
        .collect())
}

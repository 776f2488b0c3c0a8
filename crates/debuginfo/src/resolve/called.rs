//! The functions that a location names, and no inlined copies of them: those are not called.

use tracewire_model::Address;

use crate::error::LocationError;
use crate::function::Functions;
use crate::location::{Function, FunctionPlace};
use crate::module::demangle;

use super::parse::{self, Form};
use super::{Resolution, frame};

impl Resolution<'_> {
    /// The functions, by address; at least one.
    pub(crate) fn functions(&self, location: &str) -> Result<Vec<Function>, LocationError> {
        let mut entries = match parse::parse(location)? {
            Form::Pattern { within, pattern } => {
                let mut entries = self.entries_matching(within.as_deref(), &pattern)?;
                if !entries.iter().all(|entry| self.is_split_off(*entry)) {
                    entries.retain(|entry| !self.is_split_off(*entry));
                }
                entries
            }
            Form::Function { .. } | Form::FileFunction(..) => self.entries_named(location)?,
            Form::Address(_) | Form::Marker(_) | Form::Line(_) | Form::FileLine(..) => {
                return Err(LocationError::NotFunctions {
                    location: location.to_owned(),
                });
            }
        };
        entries.sort_unstable();
        entries.dedup();
        let functions = Functions::new(self.types);
        let functions = entries.into_iter().filter_map(|entry| {
            let function = functions.at(entry)?;
            (function.entry == entry).then_some(function)
        });
        Ok(functions.collect())
    }

    /// The first instructions of the functions of a name.
    fn entries_named(&self, location: &str) -> Result<Vec<Address>, LocationError> {
        let places = self.places(location, None, FunctionPlace::Entry)?;
        let functions = Functions::new(self.types);
        let is_function = |address: Address, level: u32| {
            let module = self.modules.at(address)?;
            let outermost = frame::outermost(module, module.unbiased(address));
            Some(level == outermost && functions.at(address)?.entry == address)
        };
        let entries: Vec<Address> = (places.iter())
            .filter(|place| is_function(place.address, place.level) == Some(true))
            .map(|place| place.address)
            .collect();
        if entries.is_empty() {
            return Err(LocationError::OnlyInlined {
                name: location.to_owned(),
            });
        }
        Ok(entries)
    }

    /// Whether the code at an address is a rest that was split off a function. A call of it is within one of the function.
    fn is_split_off(&self, entry: Address) -> bool {
        let symbol = (self.modules.at(entry))
            .and_then(|module| module.elf_symbol_at(module.unbiased(entry)));
        symbol.is_some_and(|symbol| demangle::is_split_off(symbol.name))
    }
}

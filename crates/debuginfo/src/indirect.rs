//! GNU indirect functions (`STT_GNU_IFUNC`): the code at such a function's address is its resolver, which the dynamic
//! linker calls to select the implementation that the program uses. What was selected is the function; the file does not
//! say which one that is, the process does, in the slots that its relocations fill.

use std::collections::HashSet;

use tracewire_model::Address;

use crate::module::indirect::SlotKind;
use crate::resolve;
use crate::symbols::Symbols;

/// A word of the process in which the selected implementation of an indirect function is, once it has been selected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IndirectSlot {
    /// Where the word is; it has the size of a pointer.
    pub address: Address,
    /// The resolver of the function.
    pub resolver: Address,
    /// What is there before.
    initial: [Address; 2],
}

impl Symbols {
    /// The resolvers of the indirect functions that a location names, and of which nothing is known to have been selected.
    #[must_use]
    pub fn unselected(&self, location: &str) -> Vec<Address> {
        let mut resolvers = resolve::indirect_functions(self, location);
        resolvers.retain(|resolver| !self.selected.contains_key(resolver));
        resolvers.sort_unstable();
        resolvers.dedup();
        resolvers
    }

    /// Where the modules keep what these resolvers select.
    #[must_use]
    pub fn indirect_slots(&self, resolvers: &[Address]) -> Vec<IndirectSlot> {
        // The names by which other modules ask for them.
        let mut functions: Vec<(&str, Address)> = Vec::new();
        for &resolver in resolvers {
            let Some(module) = self.module_with(resolver) else {
                continue;
            };
            let address = module.unbiased(resolver);
            let symbols = module.elf_symbols().iter();
            for symbol in symbols.filter(|symbol| symbol.address == address) {
                let newest = module.indirect_functions(symbol.name);
                if newest.iter().any(|symbol| symbol.address == address) {
                    functions.push((symbol.name, resolver));
                }
            }
        }
        let names: HashSet<&str> = functions.iter().map(|(name, _)| *name).collect();
        let mut found = Vec::new();
        for module in self.loaded() {
            for slot in module.indirect_slots(&names) {
                let selected: Vec<Address> = match &slot.what {
                    SlotKind::Selected(resolver) => vec![module.biased(*resolver)],
                    SlotKind::Named(name) => functions
                        .iter()
                        .filter(|(function, _)| *function == &**name)
                        .map(|(_, resolver)| *resolver)
                        .collect(),
                };
                let wanted = selected.into_iter().filter(|one| resolvers.contains(one));
                found.extend(wanted.map(|resolver| IndirectSlot {
                    address: module.biased(slot.address),
                    resolver,
                    initial: [Address(slot.initial), module.biased(slot.initial)],
                }));
            }
        }
        found
    }

    /// Takes note of what a slot holds. Whether it is what the resolver has selected: a slot that has not been filled, or
    /// holds a function of another module, says nothing.
    pub fn select_from(&mut self, slot: &IndirectSlot, value: Address) -> bool {
        !slot.initial.contains(&value) && self.select(slot.resolver, value)
    }

    /// Takes note of what a resolver has selected. Whether it is code of the resolver's own module.
    pub fn select(&mut self, resolver: Address, selected: Address) -> bool {
        let module = self.module_with(resolver);
        let known = module.is_some_and(|module| {
            module.contains(selected) && module.has_code(selected) && selected != resolver
        });
        if known {
            self.selected.entry(resolver).or_default().insert(selected);
        }
        known
    }
}

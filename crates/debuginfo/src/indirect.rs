//! GNU indirect functions (`STT_GNU_IFUNC`): the code at such a function's address is its resolver, which the dynamic
//! linker calls to select the implementation that the program uses. What was selected is the function; the file does not
//! say which one that is, the process does, in the slots that its relocations fill.

use std::collections::{BTreeSet, HashMap, HashSet};

use tracewire_model::Address;

use crate::module::Module;
use crate::module::indirect::SlotKind;
use crate::modules::Modules;

/// A word of the process that holds the selected implementation of an indirect function, after the selection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IndirectSlot {
    /// Where the word is; it has the size of a pointer.
    pub address: Address,
    /// The resolver of the function.
    pub resolver: Address,
    /// The values before the selection.
    initial: [Address; 2],
}

/// The functions that resolvers of indirect functions have selected; each may have selected several.
#[derive(Debug, Default)]
pub(crate) struct Selected(HashMap<Address, BTreeSet<Address>>);

impl Selected {
    /// The known selections of a resolver.
    pub(crate) fn of(&self, resolver: Address) -> impl Iterator<Item = Address> {
        self.0.get(&resolver).into_iter().flatten().copied()
    }

    /// The resolvers without a known selection.
    pub(crate) fn unknown(&self, mut resolvers: Vec<Address>) -> Vec<Address> {
        resolvers.retain(|resolver| !self.0.contains_key(resolver));
        resolvers.sort_unstable();
        resolvers.dedup();
        resolvers
    }

    /// Notes a selection of a resolver. Returns whether it is code of the resolver's own module.
    pub(crate) fn add(&mut self, modules: &Modules, resolver: Address, selected: Address) -> bool {
        let module = modules.at(resolver);
        let known = module.is_some_and(|module| {
            module.contains(selected) && module.has_code(selected) && selected != resolver
        });
        if known {
            self.0.entry(resolver).or_default().insert(selected);
        }
        known
    }

    /// Forgets the selections of a module's resolvers.
    pub(crate) fn forget(&mut self, module: &Module) {
        self.0.retain(|resolver, _| !module.contains(*resolver));
    }
}

impl IndirectSlot {
    /// Whether a value is a selection: a slot that is not filled has none.
    pub(crate) fn is_filled_with(&self, value: Address) -> bool {
        !self.initial.contains(&value)
    }

    /// Where the modules keep what these resolvers select.
    pub(crate) fn of(modules: &Modules, resolvers: &[Address]) -> Vec<Self> {
        // The names by which other modules refer to them.
        let mut functions: Vec<(&str, Address)> = Vec::new();
        for &resolver in resolvers {
            let Some(module) = modules.at(resolver) else {
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
        for module in modules.iter() {
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
                found.extend(wanted.map(|resolver| Self {
                    address: module.biased(slot.address),
                    resolver,
                    initial: [Address(slot.initial), module.biased(slot.initial)],
                }));
            }
        }
        found
    }
}

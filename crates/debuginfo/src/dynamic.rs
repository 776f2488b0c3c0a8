//! Which type a value of an interface has.

use tracewire_model::Address;

use crate::module::Module;
use crate::types::{TypeId, Types};

/// The types that interfaces have values of.
pub(crate) struct DynamicTypes<'a> {
    types: Types<'a>,
}

impl<'a> DynamicTypes<'a> {
    pub(crate) const fn new(types: Types<'a>) -> Self {
        Self { types }
    }

    /// The type whose descriptor, or whose table of methods, is at an address.
    pub(crate) fn at(&self, descriptor: Address) -> Option<TypeId> {
        let module = self.types.modules().at(descriptor)?;
        let descriptors = module.debug().descriptors();
        let address = module.unbiased(descriptor);
        let distance = || address.checked_sub(start_of_go_types(module)?);
        let concrete = descriptors
            .at(address)
            .or_else(|| descriptors.at(distance()?))?;
        Some(self.types.type_id(module, concrete))
    }

    /// The types that a value of an interface may have, as far as the symbols say so, and where their descriptors are.
    pub(crate) fn implementations(&self, interface: &str) -> Vec<(Address, TypeId)> {
        let mut found = Vec::new();
        for module in self.types.modules().iter() {
            let descriptors = module.debug().descriptors();
            let start = match descriptors.has_go() {
                true => start_of_go_types(module).unwrap_or(0),
                false => 0,
            };
            for address in descriptors.implementations(module.elf_symbols(), interface) {
                if let Some(concrete) = descriptors.at(address) {
                    let address = module.biased(start.wrapping_add(address));
                    found.push((address, self.types.type_id(module, concrete)));
                }
            }
        }
        found
    }
}

/// Where the descriptors of Go's types begin.
fn start_of_go_types(module: &Module) -> Option<u64> {
    let mut symbols = module.elf_symbols().named("runtime.types");
    symbols.next().map(|symbol| symbol.address)
}

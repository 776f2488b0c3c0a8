//! The parameters of C++ functions, by which a location selects an overload.

use gimli::constants;

use crate::dwarf::Die;
use crate::dwarf::index::{Name, NameKind};
use crate::dwarf::name::{Pattern, components, parameters};
use crate::dwarf::parameters::same_parameters;
use crate::module::{Module, demangle};
use crate::types::base::canonical_c_name;
use crate::types::{Language, ReferenceKind, Type, TypeId, Types};

/// Compares functions with patterns of names that may have parameters.
pub(super) struct Signatures<'a> {
    types: Types<'a>,
}

impl<'a> Signatures<'a> {
    pub(super) const fn new(types: Types<'a>) -> Self {
        Self { types }
    }

    /// Whether a function of the index is one that a pattern names.
    pub(super) fn matches(
        &self,
        module: &Module,
        name: &Name,
        qualified: &str,
        pattern: &Pattern,
    ) -> bool {
        let debug = module.debug();
        if !pattern.matches(qualified) {
            return false;
        }
        if pattern.parameters().is_empty() || debug.facts(name.die().unit).language != Language::Cpp
        {
            return true;
        }
        let own = debug
            .entry(name.die())
            .and_then(|entry| debug.linkage_name(name.die().unit, &entry))
            .and_then(|linkage_name| demangle::demangle(&linkage_name));
        let own = match &own {
            Some(own) => components(own)
                .last()
                .map(|last| parameters(last).to_owned()),
            // A function of only one unit has no linkage name.
            None => Some(self.parameter_list(module, name.die())),
        };
        let expand = |name: &str| self.type_named(module, name);
        own.is_some_and(|own| same_parameters(&own, pattern.parameters(), &expand))
    }

    /// The parameters of a function as C++ writes them, from their types.
    fn parameter_list(&self, module: &Module, die: Die) -> String {
        let debug = module.debug();
        let types: Vec<String> = debug
            .children(die)
            .iter()
            .filter(|child| child.tag() == constants::DW_TAG_formal_parameter)
            .filter(|child| {
                debug
                    .attribute_of(die.unit, child, constants::DW_AT_artificial)
                    .is_none()
            })
            .map(|child| self.cpp_type(self.types.type_id_of(module, die.unit, child), 0))
            .collect();
        format!("({})", types.join(","))
    }

    /// The expansion of a type's name in a module: the type of a typedef, the whole name of a class or an enumeration.
    fn type_named(&self, module: &Module, name: &str) -> Option<String> {
        let debug = module.debug();
        let pattern = Pattern::new(name);
        let types = |name: &&Name| name.kind.is_type() && name.kind != NameKind::BaseType;
        let named = debug.named(pattern.base());
        let found = named
            .iter()
            .filter(types)
            .find(|name| pattern.matches(&debug.index().qualified(debug, name)))?;
        let whole = self.cpp_type(self.types.type_id(module, found.die()), 0);
        (!whole.is_empty() && whole != name).then_some(whole)
    }

    /// A type in the demangler's way: qualifiers come last.
    fn cpp_type(&self, type_id: TypeId, depth: usize) -> String {
        if depth > 32 {
            return String::new();
        }
        let inner = |target| self.cpp_type(target, depth + 1);
        match &*self.types.type_of(type_id) {
            Type::Void => "void".to_owned(),
            Type::Base { name, .. } | Type::Unknown { name, .. } => {
                canonical_c_name(name).map_or_else(|| name.clone(), str::to_owned)
            }
            Type::Pointer { target, .. } => format!("{}*", inner(*target)),
            Type::Reference {
                target,
                kind: ReferenceKind::LValue,
                ..
            } => format!("{}&", inner(*target)),
            Type::Reference { target, .. } => format!("{}&&", inner(*target)),
            Type::Array { element, .. } => format!("{}[]", inner(*element)),
            Type::Structure { name, .. } | Type::Enumeration { name, .. } => {
                name.clone().unwrap_or_default()
            }
            Type::Typedef { target, .. } => inner(*target),
            Type::Qualified { qualifier, target } => format!("{} {qualifier}", inner(*target)),
            Type::Function {
                returns,
                parameters,
                ..
            } => {
                let parameters: Vec<String> = parameters.iter().map(|one| inner(*one)).collect();
                format!("{}({})", inner(*returns), parameters.join(","))
            }
            Type::MemberPointer { class, target, .. } => {
                format!("{} {}::*", inner(*target), inner(*class))
            }
        }
    }
}

//! Types by name.

use gimli::constants;
use tracewire_arch::Architecture;

use crate::TypeId;
use crate::dwarf::Die;
use crate::dwarf::index::NameKind;
use crate::dwarf::name::Pattern;
use crate::scope::Scope;
use crate::symbols::Symbols;
use crate::types::{Language, base};
use crate::variables::CodePlace;

use super::Candidate;

impl Symbols {
    /// Finds a type by name, as seen from `scope`: `int`, `unsigned long`, `struct job`, `enum color`,
    /// `ns::Type<int>`, `Type` from inside `ns`, a typedef, Rust's `u8` or `crate::module::Type`. C's base types
    /// are found without debug information too. Pointers and arrays are the caller's business.
    #[must_use]
    pub fn lookup_type(&self, scope: Option<Scope>, name: &str) -> Option<TypeId> {
        let name = name.trim();
        let (kinds, rest): (&[NameKind], &str) = match name.split_once(char::is_whitespace) {
            Some(("struct" | "class", rest)) => (&[NameKind::Structure], rest),
            Some(("union", rest)) => (&[NameKind::Union], rest),
            Some(("enum", rest)) => (&[NameKind::Enumeration], rest),
            _ => (
                &[
                    NameKind::Typedef,
                    NameKind::BaseType,
                    NameKind::Structure,
                    NameKind::Union,
                    NameKind::Enumeration,
                ],
                name,
            ),
        };
        let language = self.language_at(scope.map(|scope| scope.pc));
        let canonical = base::canonical_c_name(rest).filter(|_| language != Language::Rust);
        let keyword = !matches!(
            canonical,
            None | Some("bool" | "wchar_t" | "char8_t" | "char16_t" | "char32_t" | "_Float128")
        );
        if keyword {
            return self.base_type(rest);
        }
        let place = scope.and_then(|scope| self.code_in(scope));
        let pattern = self.pattern(place.as_ref(), rest);
        if let Some(place) = &place
            && let Some(found) = self.find_local_type(place, &pattern, kinds)
        {
            return Some(found);
        }
        let candidates = self.candidates(place.as_ref(), &pattern, kinds);
        let order = |candidate: &&Candidate<'_>| {
            kinds
                .iter()
                .position(|kind| *kind == candidate.name.kind)
                .map(|position| usize::from(position > 1))
        };
        // In C a tag is no type name: a typedef goes first.
        let best = if language.is_like_c() {
            candidates
                .iter()
                .find(|candidate| order(candidate) == Some(0))
                .or_else(|| candidates.first())
        } else {
            candidates.first()
        };
        if let Some(best) = best {
            return Some(self.type_id(best.module, best.name.die()));
        }
        if canonical.is_some() {
            return self.base_type(rest);
        }
        if language == Language::Rust {
            let architecture = self.architecture().unwrap_or(Architecture::X86_64);
            return self
                .types
                .borrow_mut()
                .make_named(rest, || base::rust_type(rest, architecture));
        }
        None
    }

    /// A type declared in the blocks around a place.
    fn find_local_type(
        &self,
        place: &CodePlace<'_>,
        pattern: &Pattern,
        kinds: &[NameKind],
    ) -> Option<TypeId> {
        if !pattern.is_word() {
            return None;
        }
        let debug = place.debug();
        place.frame().into_iter().find_map(|block| {
            block.names.iter().find_map(|&offset| {
                let die = Die {
                    unit: place.unit,
                    offset,
                };
                let entry = debug.entry(die)?;
                let kind = match entry.tag() {
                    constants::DW_TAG_structure_type | constants::DW_TAG_class_type => {
                        NameKind::Structure
                    }
                    constants::DW_TAG_union_type => NameKind::Union,
                    constants::DW_TAG_enumeration_type => NameKind::Enumeration,
                    constants::DW_TAG_typedef => NameKind::Typedef,
                    _ => return None,
                };
                let name = debug.name(place.unit, &entry)?;
                (kinds.contains(&kind) && name == pattern.base())
                    .then(|| self.type_id(place.module, die))
            })
        })
    }
}

//! Types by name.

use gimli::constants;
use tracewire_arch::Architecture;

use crate::TypeId;
use crate::dwarf::Die;
use crate::dwarf::index::NameKind;
use crate::dwarf::name::Pattern;
use crate::types::{Language, base};

use super::{Candidate, Lookup};

impl Lookup<'_> {
    /// Finds a type by name, as the place sees it: `int`, `unsigned long`, `struct job`, `enum color`,
    /// `ns::Type<int>`, `Type` from inside `ns`, a typedef, Rust's `u8` or `crate::module::Type`. C's base types
    /// are found without debug information too. Pointers and arrays are the caller's business.
    pub(crate) fn type_named(&self, name: &str) -> Option<TypeId> {
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
        let language = self.modules.language_at(self.scope.map(|scope| scope.pc));
        let canonical = base::canonical_c_name(rest).filter(|_| language != Language::Rust);
        let keyword = !matches!(
            canonical,
            None | Some("bool" | "wchar_t" | "char8_t" | "char16_t" | "char32_t" | "_Float128")
        );
        if keyword {
            return self.types.base_type(rest);
        }
        let pattern = self.pattern(rest);
        if let Some(found) = self.local_type(&pattern, kinds) {
            return Some(found);
        }
        let candidates = self.candidates(&pattern, kinds);
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
            return Some(self.types.type_id(best.module, best.name.die()));
        }
        if canonical.is_some() {
            return self.types.base_type(rest);
        }
        if language == Language::Rust {
            let architecture = self.modules.architecture().unwrap_or(Architecture::X86_64);
            return self
                .types
                .make_named(rest, || base::rust_type(rest, architecture));
        }
        None
    }

    /// A type declared in the blocks around the place.
    fn local_type(&self, pattern: &Pattern, kinds: &[NameKind]) -> Option<TypeId> {
        let place = self.place().filter(|_| pattern.is_word())?;
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
                    .then(|| self.types.type_id(place.module, die))
            })
        })
    }
}

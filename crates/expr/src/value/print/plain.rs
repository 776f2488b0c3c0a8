//! How values without parts are written: as one number each.

use super::{PrintOptions, Printer};
use crate::scalar::strip;
use crate::value::state::NoState;
use crate::walk::TypeWalks;
use tracewire_debuginfo::{BaseEncoding, Language, Type, TypeId};

/// The widest character.
const WIDEST: u64 = 4;

/// How a number of at most eight bytes is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::value) enum PlainKind {
    Signed,
    Unsigned,
    Boolean,
    Single,
    Double,
    /// By the program's names and constants, and by at most so many bytes of memory that it points to.
    Shown {
        reach: u64,
    },
}

impl PlainKind {
    /// How values of a type are written, and their size; none where it is not that of one number.
    pub(in crate::value) fn of(
        walks: &TypeWalks<'_>,
        type_id: TypeId,
        language: Language,
    ) -> Option<(Self, u64)> {
        let has_rule = !walks.is_empty() && walks.walk(type_id).is_some();
        if !matches!(language, Language::C | Language::Cpp) || has_rule {
            return None;
        }
        let options = PrintOptions::default();
        let printer = Printer::new(walks.symbols(), &NoState, options, language);
        let found = strip(walks.symbols(), type_id).1;
        let (kind, size) = match &*found {
            Type::Base { size, encoding, .. } => {
                let kind = match (encoding, size) {
                    (BaseEncoding::Signed, _) => Self::Signed,
                    (BaseEncoding::Unsigned, _) => Self::Unsigned,
                    (BaseEncoding::Boolean, _) => Self::Boolean,
                    (BaseEncoding::Float, 4) => Self::Single,
                    (BaseEncoding::Float, 8) => Self::Double,
                    _ => return None,
                };
                (kind, *size)
            }
            Type::Enumeration { size, .. } => (Self::Shown { reach: 0 }, *size),
            Type::Pointer { target, size, .. } => {
                let reach = match printer.is_textual(*target) {
                    // One more is looked at, to see whether the string goes on.
                    true => (options.elements + 1) * WIDEST,
                    false => 0,
                };
                (Self::Shown { reach }, *size)
            }
            _ => return None,
        };
        // A character has its number and itself.
        let is_one_number = matches!(size, 1 | 2 | 4 | 8) && !printer.is_textual(type_id);
        is_one_number.then_some((kind, size))
    }
}

//! The types of registers that are more than numbers.

use crate::scalar::builtin;
use tracewire_arch::EFLAGS;
use tracewire_debuginfo::{Enumerator, Member, StructureKind, Symbols, Type, TypeId};

/// The name that distinguishes a flags type from an enumeration of the program.
pub(crate) const FLAGS_NAME: &str = "i386_eflags";

/// The type of `$eflags`.
pub(crate) fn flags(symbols: &Symbols) -> TypeId {
    symbols.make_type(Type::Enumeration {
        name: Some(FLAGS_NAME.to_owned()),
        size: 4,
        signed: false,
        enumerators: (EFLAGS.iter())
            .filter(|(name, _)| !name.is_empty())
            .map(|(name, bit)| Enumerator {
                name: (*name).to_owned(),
                value: 1 << bit,
            })
            .collect(),
    })
}

/// The type of `$xmm0`: GDB's `vec128`.
pub(crate) fn vector(symbols: &Symbols) -> TypeId {
    let lanes: [(&str, &str, u64); 8] = [
        ("v8_bfloat16", "bfloat16", 8),
        ("v8_half", "ieee_half", 8),
        ("v4_float", "float", 4),
        ("v2_double", "double", 2),
        ("v16_int8", "int8_t", 16),
        ("v8_int16", "int16_t", 8),
        ("v4_int32", "int32_t", 4),
        ("v2_int64", "int64_t", 2),
    ];
    let member = |name: &str, type_id| Member {
        name: Some(name.to_owned()),
        type_id,
        offset: 0,
        bits: None,
        base_class: false,
        artificial: false,
    };
    let mut members: Vec<Member> = (lanes.iter())
        .map(|(name, element, count)| {
            let array = Type::Array {
                element: builtin(symbols, element),
                count: Some(*count),
                vector: true,
            };
            member(name, symbols.make_type(array))
        })
        .collect();
    members.push(member("uint128", builtin(symbols, "uint128_t")));
    symbols.make_type(Type::Structure {
        kind: StructureKind::Union,
        name: Some("vec128".to_owned()),
        size: 16,
        members,
        static_members: Vec::new(),
        variants: None,
        declaration: false,
    })
}

//! C's and Rust's base types, which are there without debug information, too.

use tracewire_arch::Architecture;

use super::{BaseEncoding, Type};

/// The usual name of one of C's base types, with its words in any order: `long unsigned int` is `unsigned long`. `None` for others.
#[must_use]
pub fn canonical_c_name(name: &str) -> Option<&'static str> {
    let (mut long, mut short, mut signed, mut unsigned, mut int) = (0, false, false, false, false);
    let mut other = None;
    let mut words = 0;
    for word in name.split_whitespace() {
        words += 1;
        match word {
            "long" => long += 1,
            "short" => short = true,
            "signed" | "__signed__" => signed = true,
            "unsigned" => unsigned = true,
            "int" => int = true,
            "char" | "double" | "float" | "_Bool" | "bool" | "void" | "__int128" | "wchar_t"
            | "char8_t" | "char16_t" | "char32_t" | "__float128" | "_Float128" => {
                if other.replace(word).is_some() {
                    return None;
                }
            }
            _ => return None,
        }
    }
    if words == 0 || (signed && unsigned) || (short && long > 0) {
        return None;
    }
    let plain = !short && !int && long == 0;
    Some(match other {
        Some("char") if plain && signed => "signed char",
        Some("char") if plain && unsigned => "unsigned char",
        Some("char") if plain => "char",
        Some("__int128") if plain && unsigned => "unsigned __int128",
        Some("__int128") if plain => "__int128",
        Some("double") if !short && !int && long == 1 && !signed && !unsigned => "long double",
        Some(_) if !plain || signed || unsigned => return None,
        Some("double") => "double",
        Some("float") => "float",
        Some("_Bool") => "_Bool",
        Some("bool") => "bool",
        Some("void") => "void",
        Some("wchar_t") => "wchar_t",
        Some("char8_t") => "char8_t",
        Some("char16_t") => "char16_t",
        Some("char32_t") => "char32_t",
        Some("__float128" | "_Float128") => "_Float128",
        Some(_) => return None,
        None => match (unsigned, short, long) {
            (false, true, _) => "short",
            (true, true, _) => "unsigned short",
            (false, _, 0) => "int",
            (true, _, 0) => "unsigned int",
            (false, _, 1) => "long",
            (true, _, 1) => "unsigned long",
            (false, _, 2) => "long long",
            (true, _, 2) => "unsigned long long",
            _ => return None,
        },
    })
}

/// One of C's base types by its usual name, as the ABI of the machine has it.
pub(crate) fn c_type(name: &str, architecture: Architecture) -> Option<Type> {
    use BaseEncoding::{Boolean, Float, Signed, SignedChar, Unsigned, UnsignedChar, Utf};
    let word = u64::from(architecture.pointer_size());
    let x86 = matches!(architecture, Architecture::X86_64 | Architecture::I386);
    // `char` has no sign on Arm, PowerPC and RISC-V.
    let char_encoding = match architecture {
        Architecture::X86_64
        | Architecture::I386
        | Architecture::Mips
        | Architecture::MipsLittle
        | Architecture::Mips64
        | Architecture::Mips64Little
        | Architecture::Nios2 => SignedChar,
        _ => UnsignedChar,
    };
    let (size, encoding) = match name {
        "void" => return Some(Type::Void),
        "char" => (1, char_encoding),
        "signed char" => (1, SignedChar),
        "unsigned char" => (1, UnsignedChar),
        "short" => (2, Signed),
        "unsigned short" => (2, Unsigned),
        "int" => (4, Signed),
        "unsigned int" => (4, Unsigned),
        "long" => (word, Signed),
        "unsigned long" => (word, Unsigned),
        "long long" => (8, Signed),
        "unsigned long long" => (8, Unsigned),
        "__int128" => (16, Signed),
        "unsigned __int128" => (16, Unsigned),
        "float" => (4, Float),
        "double" => (8, Float),
        "long double" if x86 => (if word == 8 { 16 } else { 12 }, Float),
        "long double" => (if word == 8 { 16 } else { 8 }, Float),
        "_Float128" => (16, Float),
        "_Bool" | "bool" => (1, Boolean),
        "wchar_t" => (4, Signed),
        "char8_t" => (1, Utf),
        "char16_t" => (2, Utf),
        "char32_t" => (4, Utf),
        _ => return None,
    };
    Some(Type::Base {
        name: name.to_owned(),
        size,
        encoding,
    })
}

/// One of Rust's base types.
pub(crate) fn rust_type(name: &str, architecture: Architecture) -> Option<Type> {
    use BaseEncoding::{Boolean, Float, Signed, Unsigned, Utf};
    let word = u64::from(architecture.pointer_size());
    let (size, encoding) = match name {
        "u8" => (1, Unsigned),
        "i8" => (1, Signed),
        "u16" => (2, Unsigned),
        "i16" => (2, Signed),
        "u32" => (4, Unsigned),
        "i32" => (4, Signed),
        "u64" => (8, Unsigned),
        "i64" => (8, Signed),
        "u128" => (16, Unsigned),
        "i128" => (16, Signed),
        "usize" => (word, Unsigned),
        "isize" => (word, Signed),
        "f32" => (4, Float),
        "f64" => (8, Float),
        "bool" => (1, Boolean),
        "char" => (4, Utf),
        _ => return None,
    };
    Some(Type::Base {
        name: name.to_owned(),
        size,
        encoding,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_in_any_order_name_the_same_type() {
        for (given, usual) in [
            ("long unsigned int", "unsigned long"),
            ("unsigned long int", "unsigned long"),
            ("unsigned", "unsigned int"),
            ("long long int", "long long"),
            ("short int", "short"),
            ("double long", "long double"),
            ("signed char", "signed char"),
        ] {
            assert_eq!(canonical_c_name(given), Some(usual), "{given}");
        }
        for wrong in [
            "",
            "job",
            "long float",
            "unsigned double",
            "short long",
            "char int",
        ] {
            assert_eq!(canonical_c_name(wrong), None, "{wrong}");
        }
    }
}

//! Types as arithmetic sees them: typedefs and qualifiers taken off, and C's conversions.

use std::sync::Arc;

use tracewire_arch::Architecture;

use tracewire_debuginfo::{BaseEncoding, Language, Symbols, Type, TypeId};

/// A type's class for arithmetic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Scalar {
    /// A number of this many bytes.
    Integer {
        size: u64,
        signed: bool,
    },
    Boolean {
        size: u64,
    },
    Float {
        size: u64,
    },
    Pointer {
        target: TypeId,
        size: u64,
    },
    Reference {
        target: TypeId,
        size: u64,
    },
    Array {
        element: TypeId,
        count: Option<u64>,
    },
    Structure,
    Function,
    Void,
    Other,
}

/// The type below typedefs and qualifiers.
pub(crate) fn strip(symbols: &Symbols, mut type_id: TypeId) -> (TypeId, Arc<Type>) {
    let mut found = symbols.type_of(type_id);
    // A chain of typedefs from a damaged file may be a circle.
    for _ in 0..64 {
        let (Type::Typedef { target, .. } | Type::Qualified { target, .. }) = &*found else {
            break;
        };
        type_id = *target;
        found = symbols.type_of(type_id);
    }
    (type_id, found)
}

/// The class of `type_id` for arithmetic.
pub(crate) fn scalar(symbols: &Symbols, type_id: TypeId) -> Scalar {
    match &*strip(symbols, type_id).1 {
        Type::Void => Scalar::Void,
        Type::Base { size, encoding, .. } => match encoding {
            BaseEncoding::Signed | BaseEncoding::SignedChar => Scalar::Integer {
                size: *size,
                signed: true,
            },
            BaseEncoding::Unsigned | BaseEncoding::UnsignedChar | BaseEncoding::Utf => {
                Scalar::Integer {
                    size: *size,
                    signed: false,
                }
            }
            BaseEncoding::Boolean => Scalar::Boolean { size: *size },
            BaseEncoding::Float => Scalar::Float { size: *size },
            BaseEncoding::ComplexFloat | BaseEncoding::Unknown => Scalar::Other,
        },
        Type::Enumeration { size, signed, .. } => Scalar::Integer {
            size: *size,
            signed: *signed,
        },
        Type::Pointer { target, size, .. } => Scalar::Pointer {
            target: *target,
            size: *size,
        },
        Type::Reference { target, size, .. } => Scalar::Reference {
            target: *target,
            size: *size,
        },
        Type::Array { element, count, .. } => Scalar::Array {
            element: *element,
            count: *count,
        },
        Type::Structure { .. } => Scalar::Structure,
        Type::Function { .. } => Scalar::Function,
        _ => Scalar::Other,
    }
}

impl Scalar {
    /// (size in bytes, signed) of what can be computed with as a number: integers, truth values, pointers.
    pub(crate) fn as_number(self) -> Option<(u64, bool)> {
        match self {
            Self::Integer { size, signed } => Some((size, signed)),
            Self::Boolean { size } | Self::Pointer { size, .. } | Self::Reference { size, .. } => {
                Some((size, false))
            }
            _ => None,
        }
    }

    pub(crate) fn is_integral(self) -> bool {
        matches!(self, Self::Integer { .. } | Self::Boolean { .. })
    }
}

/// Cuts a number to `size` bytes and extends it again.
pub(crate) fn wrap(number: i128, size: u64, signed: bool) -> i128 {
    let rest = 128_u64.saturating_sub(size.saturating_mul(8));
    match u32::try_from(rest) {
        Ok(128..) => 0,
        Ok(rest) if signed => number << rest >> rest,
        Ok(rest) => ((number << rest) as u128 >> rest) as i128,
        Err(_) => number,
    }
}

/// A builtin type of the language, by GDB's name for it.
pub(crate) fn builtin(symbols: &Symbols, name: &str) -> TypeId {
    use BaseEncoding::{Boolean, Float, Signed, SignedChar, Unsigned, UnsignedChar, Utf};
    let architecture = symbols.architecture().unwrap_or(Architecture::X86_64);
    let word = u64::from(architecture.pointer_size());
    let (size, encoding) = match name {
        "void" => return symbols.make_type(Type::Void),
        "char" => (1, SignedChar),
        "signed char" => (1, SignedChar),
        "unsigned char" => (1, UnsignedChar),
        "short" | "i16" | "int16_t" => (2, Signed),
        "unsigned short" | "u16" | "uint16_t" => (2, Unsigned),
        "int" | "i32" | "int32_t" => (4, Signed),
        "unsigned int" | "u32" | "uint32_t" => (4, Unsigned),
        "long" | "isize" => (word, Signed),
        "unsigned long" | "usize" => (word, Unsigned),
        "long long" | "i64" | "int64_t" => (8, Signed),
        "unsigned long long" | "u64" | "uint64_t" => (8, Unsigned),
        "__int128" | "i128" => (16, Signed),
        "unsigned __int128" | "u128" | "uint128_t" => (16, Unsigned),
        "i8" | "int8_t" => (1, Signed),
        "u8" | "uint8_t" => (1, Unsigned),
        "bool" | "_Bool" => (1, Boolean),
        "float" | "f32" => (4, Float),
        "double" | "f64" => (8, Float),
        "bfloat16" | "ieee_half" => (2, Float),
        "builtin_type_i387_ext" => (10, Float),
        "long double" => (if word == 8 { 16 } else { 12 }, Float),
        "complex float" => (8, BaseEncoding::ComplexFloat),
        "complex double" => (16, BaseEncoding::ComplexFloat),
        "complex long double" => (if word == 8 { 32 } else { 24 }, BaseEncoding::ComplexFloat),
        "wchar_t" => (4, Signed),
        "char16_t" => (2, Utf),
        "char32_t" => (4, Utf),
        _ => (0, BaseEncoding::Unknown),
    };
    symbols.make_type(Type::Base {
        name: name.to_owned(),
        size,
        encoding,
    })
}

/// The type that arithmetic on two numbers is done in: C's usual arithmetic conversions, as GDB applies them.
pub(crate) fn promoted(
    symbols: &Symbols,
    language: Language,
    left: Scalar,
    right: Scalar,
) -> Option<TypeId> {
    if let (Scalar::Float { size: a }, Scalar::Float { size: b }) = (left, right) {
        return Some(float_type(symbols, language, a.max(b)));
    }
    match (left, right) {
        (Scalar::Float { size }, other) | (other, Scalar::Float { size })
            if other.is_integral() =>
        {
            return Some(float_type(symbols, language, size));
        }
        _ => {}
    }
    if !left.is_integral() || !right.is_integral() {
        return None;
    }
    let widen = |operand: Scalar| match operand.as_number() {
        Some((size, signed)) if size >= 4 => (size, signed),
        _ => (4, true),
    };
    let ((a, a_signed), (b, b_signed)) = (widen(left), widen(right));
    let signed = match a.cmp(&b) {
        std::cmp::Ordering::Greater => a_signed,
        std::cmp::Ordering::Less => b_signed,
        std::cmp::Ordering::Equal => a_signed && b_signed,
    };
    let long = u64::from(
        symbols
            .architecture()
            .unwrap_or(Architecture::X86_64)
            .pointer_size(),
    );
    let size = a.max(b);
    let name = match (size, signed) {
        (..=4, true) if language != Language::Rust => "int",
        (..=4, false) if language != Language::Rust => "unsigned int",
        (size, true) if size <= long => "long",
        (size, false) if size <= long => "unsigned long",
        (_, true) => "long long",
        (_, false) => "unsigned long long",
    };
    Some(builtin(symbols, name))
}

fn float_type(symbols: &Symbols, language: Language, size: u64) -> TypeId {
    let name = match size {
        ..=4 if language != Language::Rust => "float",
        ..=8 => "double",
        _ => "long double",
    };
    builtin(symbols, name)
}

/// The type of a comparison's result.
pub(crate) fn truth(symbols: &Symbols, language: Language) -> TypeId {
    builtin(symbols, if language.is_like_c() { "int" } else { "bool" })
}

/// The size in bytes of an object of the type. `sizeof` of a reference is that of its target; this is not.
pub(crate) fn storage_size(symbols: &Symbols, type_id: TypeId) -> Option<u64> {
    match scalar(symbols, type_id) {
        Scalar::Reference { size, .. } => Some(size),
        _ => symbols.size_of(type_id),
    }
}

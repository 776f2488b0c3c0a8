//! The names of types: `struct job *`, `unsigned char`, `char *[4]`, `int (*)(int)`, `*const u8`.

use crate::parse::{Parser, Result};
use crate::syntax::TypeSyntax;
use crate::token::{Literal, TokenKind};
use tracewire_debuginfo::Language;

/// The words that make up C's own types.
const SPECIFIERS: &[&str] = &[
    "char", "short", "int", "long", "float", "double", "signed", "unsigned", "void", "_Bool",
    "bool", "__int128", "_Complex",
];
const QUALIFIERS: &[&str] = &["const", "volatile", "restrict", "_Atomic"];
const TAGS: &[&str] = &["struct", "union", "class", "enum"];

/// Rust's own types.
const RUST_TYPES: &[&str] = &[
    "i8", "i16", "i32", "i64", "i128", "isize", "u8", "u16", "u32", "u64", "u128", "usize", "f32",
    "f64", "bool", "char",
];

impl Parser<'_> {
    /// Whether the `ahead`-th token begins the name of a type (in C and C++).
    pub(crate) fn type_starts_at(&self, ahead: usize) -> bool {
        let TokenKind::Name(word) = self.peek_at(ahead) else {
            return *self.peek_at(ahead) == TokenKind::Mark("::")
                && (self.path(ahead)).is_ok_and(|(name, ..)| self.names.is_type(&name));
        };
        let word = word.as_str();
        if SPECIFIERS.contains(&word) || QUALIFIERS.contains(&word) || TAGS.contains(&word) {
            // A variable may be called `bool` in C.
            return word != "bool" || !self.names.is_known(word) || self.names.is_type(word);
        }
        (self.path(ahead)).is_ok_and(|(name, ..)| self.names.is_type(&name))
    }

    /// A type's name, up to the first token that cannot belong to it.
    pub(crate) fn whole_type(&mut self) -> Result<TypeSyntax> {
        self.declarators = 0;
        self.type_name()
    }

    fn type_name(&mut self) -> Result<TypeSyntax> {
        if self.language == Language::Rust {
            return self.rust_type_name();
        }
        self.nested(|parser| {
            let base = parser.specifiers()?;
            parser.declarator(base)
        })
    }

    fn take_word(&mut self, words: &[&'static str]) -> Option<&'static str> {
        let TokenKind::Name(word) = self.peek() else {
            return None;
        };
        let found = words.iter().find(|candidate| *candidate == word).copied();
        self.next_if(found.is_some());
        found
    }

    fn next_if(&mut self, condition: bool) {
        if condition {
            self.advance();
        }
    }

    fn specifiers(&mut self) -> Result<TypeSyntax> {
        let mut words: Vec<&'static str> = Vec::new();
        let mut qualifiers: Vec<&'static str> = Vec::new();
        let mut named: Option<TypeSyntax> = None;
        let start = self.span();
        loop {
            if let Some(qualifier) = self.take_word(QUALIFIERS) {
                if !qualifiers.contains(&qualifier) {
                    qualifiers.push(qualifier);
                }
                continue;
            }
            if named.is_some() {
                break;
            }
            if let Some(word) = self.take_word(SPECIFIERS) {
                words.push(word);
                continue;
            }
            if !words.is_empty() {
                break;
            }
            if let Some(tag) = self.take_word(TAGS) {
                let (name, tokens, span) = self.path(0)?;
                (0..tokens).for_each(|_| self.advance());
                named = Some(TypeSyntax::Tagged { tag, name, span });
                continue;
            }
            if !self.type_starts_at(0) {
                break;
            }
            let (name, tokens, span) = self.path(0)?;
            (0..tokens).for_each(|_| self.advance());
            named = Some(TypeSyntax::Named { name, span });
        }
        let base = match (named, builtin(&words)) {
            (Some(named), _) => named,
            (None, Some(builtin)) => TypeSyntax::Builtin(builtin),
            (None, None) if words.is_empty() => return self.unexpected("a type"),
            (None, None) => {
                return self.error(
                    start.to(self.span()),
                    format!("No type is called \"{}\".", words.join(" ")),
                );
            }
        };
        Ok(qualified(base, &qualifiers))
    }

    /// The part after the specifiers: pointers, arrays, functions.
    fn declarator(&mut self, mut base: TypeSyntax) -> Result<TypeSyntax> {
        loop {
            self.count_declarator()?;
            if self.eat("*") {
                base = TypeSyntax::Pointer(base.into());
            } else if self.eat("&") || self.eat("&&") {
                base = TypeSyntax::Reference(base.into());
            } else if let Some(qualifier) = self.take_word(QUALIFIERS) {
                base = qualified(base, &[qualifier]);
            } else {
                break;
            }
        }
        let inner = self.at("(") && matches!(self.peek_at(1), TokenKind::Mark("*" | "&" | "("));
        if !inner {
            return self.declarator_suffixes(base);
        }
        // `int (*)[4]`: the part after the brackets belongs to the base.
        self.advance();
        let hole = self.nested(|parser| parser.declarator(TypeSyntax::Builtin(HOLE)))?;
        self.expect(")")?;
        let base = self.declarator_suffixes(base)?;
        Ok(fill(hole, &base))
    }

    fn declarator_suffixes(&mut self, base: TypeSyntax) -> Result<TypeSyntax> {
        self.count_declarator()?;
        if self.eat("[") {
            let count = match self.peek() {
                TokenKind::Literal(Literal::Integer { value, .. }) => u64::try_from(*value).ok(),
                _ => None,
            };
            self.next_if(count.is_some());
            self.expect("]")?;
            let element = self.nested(|parser| parser.declarator_suffixes(base))?;
            return Ok(TypeSyntax::Array(element.into(), count));
        }
        if self.eat("(") {
            let mut parameters = Vec::new();
            while !self.at(")") {
                parameters.push(self.type_name()?);
                if !self.eat(",") {
                    break;
                }
            }
            self.expect(")")?;
            if parameters == [TypeSyntax::Builtin("void")] {
                parameters.clear();
            }
            return Ok(TypeSyntax::Function(base.into(), parameters));
        }
        Ok(base)
    }

    /// A Rust type, as it is written after `as`.
    pub(crate) fn rust_type_name(&mut self) -> Result<TypeSyntax> {
        self.nested(|parser| {
            parser.count_declarator()?;
            if parser.eat("*") {
                if parser.at_name("const") || parser.at_name("mut") {
                    parser.advance();
                }
                return Ok(TypeSyntax::Pointer(parser.rust_type_name()?.into()));
            }
            if parser.eat("&") {
                parser.next_if(parser.at_name("mut"));
                return Ok(TypeSyntax::Pointer(parser.rust_type_name()?.into()));
            }
            if parser.eat("[") {
                let element = parser.rust_type_name()?;
                parser.expect(";")?;
                let count = match parser.peek() {
                    TokenKind::Literal(Literal::Integer { value, .. }) => {
                        u64::try_from(*value).ok()
                    }
                    _ => return parser.unexpected("a length"),
                };
                parser.advance();
                parser.expect("]")?;
                return Ok(TypeSyntax::Array(element.into(), count));
            }
            if let Some(word) = parser.take_word(RUST_TYPES) {
                return Ok(TypeSyntax::Builtin(word));
            }
            let (name, tokens, span) = parser.path(0)?;
            (0..tokens).for_each(|_| parser.advance());
            Ok(TypeSyntax::Named { name, span })
        })
    }
}

/// A placeholder for the base while a bracketed declarator is read.
const HOLE: &str = "(base)";

fn fill(declarator: TypeSyntax, base: &TypeSyntax) -> TypeSyntax {
    match declarator {
        TypeSyntax::Builtin(HOLE) => base.clone(),
        TypeSyntax::Pointer(inner) => TypeSyntax::Pointer(fill(*inner, base).into()),
        TypeSyntax::Reference(inner) => TypeSyntax::Reference(fill(*inner, base).into()),
        TypeSyntax::Array(inner, count) => TypeSyntax::Array(fill(*inner, base).into(), count),
        TypeSyntax::Function(inner, parameters) => {
            TypeSyntax::Function(fill(*inner, base).into(), parameters)
        }
        TypeSyntax::Qualified(qualifier, inner) => {
            TypeSyntax::Qualified(qualifier, fill(*inner, base).into())
        }
        other => other,
    }
}

fn qualified(base: TypeSyntax, qualifiers: &[&'static str]) -> TypeSyntax {
    (qualifiers.iter()).fold(base, |inner, qualifier| {
        TypeSyntax::Qualified(qualifier, inner.into())
    })
}

/// GDB's name of the type that the words name, in any order.
fn builtin(words: &[&str]) -> Option<&'static str> {
    let count = |word: &str| words.iter().filter(|found| **found == word).count();
    let (long, unsigned, signed) = (count("long"), count("unsigned") > 0, count("signed") > 0);
    let has = |word: &str| count(word) > 0;
    let known = !words.is_empty() && long <= 2 && !(unsigned && signed);
    if !known {
        return None;
    }
    let complex = has("_Complex");
    let name = match () {
        () if complex && has("float") => "complex float",
        () if complex && long > 0 => "complex long double",
        () if complex => "complex double",
        () if has("void") => "void",
        () if has("_Bool") => "_Bool",
        () if has("bool") => "bool",
        () if has("float") => "float",
        () if has("double") && long > 0 => "long double",
        () if has("double") => "double",
        () if has("char") && unsigned => "unsigned char",
        () if has("char") && signed => "signed char",
        () if has("char") => "char",
        () if has("short") && unsigned => "unsigned short",
        () if has("short") => "short",
        () if has("__int128") && unsigned => "unsigned __int128",
        () if has("__int128") => "__int128",
        () if long == 2 && unsigned => "unsigned long long",
        () if long == 2 => "long long",
        () if long == 1 && unsigned => "unsigned long",
        () if long == 1 => "long",
        () if unsigned => "unsigned int",
        () => "int",
    };
    Some(name)
}

//! The names of types, as GDB's `whatis` writes them.

use std::sync::Arc;

use crate::register_types::FLAGS_NAME;
use tracewire_debuginfo::{
    Language, ReferenceKind, StructureKind, Symbols, Type, TypeId, canonical_c_name,
};

/// How deep a type's name is followed; a damaged file may have a type that contains itself.
const DEEPEST: u32 = 32;

/// A type's name, as GDB's `whatis` shows it in the language of the program.
#[must_use]
pub fn type_name(symbols: &Symbols, type_id: TypeId) -> String {
    type_name_in(symbols, type_id, symbols.language_at(None))
}

/// The language whose way of naming types is used for values of `language`.
pub(crate) const fn language_type_name(language: Language) -> Language {
    language
}

/// A type's name in one language.
pub(crate) fn type_name_in(symbols: &Symbols, type_id: TypeId, language: Language) -> String {
    let namer = Namer { symbols, language };
    match language {
        Language::Rust => namer.rust(type_id, DEEPEST),
        _ => namer.c(type_id, String::new(), DEEPEST),
    }
}

struct Namer<'a> {
    symbols: &'a Symbols,
    language: Language,
}

impl Namer<'_> {
    /// The name with `inner`, the declarator so far, in its middle.
    fn c(&self, type_id: TypeId, inner: String, depth: u32) -> String {
        let Some(depth) = depth.checked_sub(1) else {
            return "...".to_owned();
        };
        let with = |base: String| {
            if inner.is_empty() {
                base
            } else {
                format!("{base} {inner}")
            }
        };
        match &*self.symbols.type_of(type_id) {
            Type::Void => with("void".to_owned()),
            // `long unsigned int` is `unsigned long`, as GDB has it.
            Type::Base { name, .. } => with(usual_name(name).to_owned()),
            Type::Typedef { name, .. } | Type::Unknown { name, .. } => with(name.clone()),
            Type::Pointer {
                name: Some(name), ..
            } => with(name.clone()),
            Type::Pointer { target, .. } => self.indirect(*target, "*", inner, depth),
            Type::Reference { target, kind, .. } => {
                let mark = match kind {
                    ReferenceKind::LValue => "&",
                    ReferenceKind::RValue => "&&",
                };
                self.indirect(*target, mark, inner, depth)
            }
            Type::Qualified { .. } => self.qualified(type_id, inner, depth),
            Type::Array {
                element,
                count,
                vector,
            } => {
                let length = count.map_or(String::new(), |count| count.to_string());
                let suffix = match (vector, count) {
                    (true, _) => format!(" __attribute__ ((vector_size({length})))"),
                    (false, _) => format!("[{length}]"),
                };
                self.c(
                    *element,
                    format!("{inner}{suffix}").trim_start().to_owned(),
                    depth,
                )
            }
            Type::Function {
                returns,
                parameters,
                variadic,
            } => {
                let list = self.parameters(parameters, *variadic, depth);
                self.c(*returns, format!("{inner}({list})"), depth)
            }
            Type::MemberPointer { class, target, .. } => {
                let class = self.c(*class, String::new(), depth);
                let mark = format!("{class}::*{inner}");
                match &*self.symbols.type_of(*target) {
                    Type::Function {
                        returns,
                        parameters,
                        variadic,
                    } => {
                        let list = self.method_parameters(parameters, *variadic, depth);
                        self.c(*returns, format!("({mark})({list})"), depth)
                    }
                    _ => self.c(*target, mark, depth),
                }
            }
            Type::Structure { kind, name, .. } => {
                let keyword = match kind {
                    StructureKind::Struct => "struct",
                    StructureKind::Class => "class",
                    StructureKind::Union => "union",
                };
                with(self.tagged(keyword, name.as_deref()))
            }
            Type::Enumeration { name, .. } => with(self.tagged("enum", name.as_deref())),
        }
    }

    fn tagged(&self, keyword: &str, name: Option<&str>) -> String {
        match name {
            // A register's flags are no type of the program.
            Some(FLAGS_NAME) => FLAGS_NAME.to_owned(),
            Some(name) if self.language == Language::C => format!("{keyword} {name}"),
            Some(name) => name.to_owned(),
            None => format!("{keyword} {{...}}"),
        }
    }

    fn is_suffixed(&self, type_id: TypeId) -> bool {
        matches!(
            *strip_qualifiers(self.symbols, type_id),
            Type::Array { vector: false, .. } | Type::Function { .. }
        )
    }

    fn indirect(&self, target: TypeId, mark: &str, inner: String, depth: u32) -> String {
        let declarator = format!("{mark}{inner}");
        // A pointer to an array or a function needs brackets.
        if self.is_suffixed(target) {
            return self.c(target, format!("({declarator})"), depth);
        }
        self.c(target, declarator, depth)
    }

    fn qualified(&self, type_id: TypeId, inner: String, depth: u32) -> String {
        let mut found: Vec<&'static str> = Vec::new();
        let mut target = type_id;
        for _ in 0..DEEPEST {
            let Type::Qualified {
                qualifier,
                target: below,
            } = *self.symbols.type_of(target)
            else {
                break;
            };
            found.push(qualifier);
            target = below;
        }
        let order = ["const", "volatile", "restrict", "_Atomic"];
        let words: Vec<&str> = order
            .into_iter()
            .filter(|word| found.contains(word))
            .collect();
        let words = words.join(" ");
        match &*self.symbols.type_of(target) {
            // A constant array is an array of constants.
            Type::Array {
                element,
                count,
                vector,
            } => {
                let mut element = *element;
                for qualifier in found.iter().rev().copied() {
                    if !self.has_qualifier(element, qualifier) {
                        let target = element;
                        element = self
                            .symbols
                            .make_type(Type::Qualified { qualifier, target });
                    }
                }
                let (count, vector) = (*count, *vector);
                self.c(
                    self.symbols.make_type(Type::Array {
                        element,
                        count,
                        vector,
                    }),
                    inner,
                    depth,
                )
            }
            Type::Pointer { name: None, .. } | Type::Reference { .. } => {
                let suffix = inner.starts_with([')', '['])
                    || inner.starts_with('(') && !inner.starts_with("(*");
                let space = if inner.is_empty() || suffix { "" } else { " " };
                self.c(target, format!(" {words}{space}{inner}"), depth)
            }
            _ => format!("{words} {}", self.c(target, inner, depth)),
        }
    }

    /// The parameters of a method: `this` cannot be changed.
    fn method_parameters(&self, parameters: &[TypeId], variadic: bool, depth: u32) -> String {
        let mut parameters = parameters.to_vec();
        if let Some(this) = parameters.first_mut()
            && matches!(*self.symbols.type_of(*this), Type::Pointer { .. })
        {
            let (qualifier, target) = ("const", *this);
            *this = self
                .symbols
                .make_type(Type::Qualified { qualifier, target });
        }
        self.parameters(&parameters, variadic, depth)
    }

    fn has_qualifier(&self, mut type_id: TypeId, wanted: &str) -> bool {
        for _ in 0..DEEPEST {
            let Type::Qualified { qualifier, target } = *self.symbols.type_of(type_id) else {
                break;
            };
            if qualifier == wanted {
                return true;
            }
            type_id = target;
        }
        false
    }

    fn parameters(&self, parameters: &[TypeId], variadic: bool, depth: u32) -> String {
        let mut list: Vec<String> = parameters
            .iter()
            .take(64)
            .map(|parameter| self.c(*parameter, String::new(), depth))
            .collect();
        match (list.is_empty(), variadic) {
            (true, true) if self.language.is_like_c() => String::new(),
            (true, true) => "...".to_owned(),
            (true, false) => "void".to_owned(),
            (false, true) => {
                list.push("...".to_owned());
                list.join(", ")
            }
            (false, false) => list.join(", "),
        }
    }

    fn rust(&self, type_id: TypeId, depth: u32) -> String {
        let Some(depth) = depth.checked_sub(1) else {
            return "...".to_owned();
        };
        match &*self.symbols.type_of(type_id) {
            Type::Void => "()".to_owned(),
            Type::Base { name, .. } | Type::Typedef { name, .. } | Type::Unknown { name, .. } => {
                name.clone()
            }
            // GDB does not distinguish references and pointers.
            Type::Pointer { target, .. } => format!("*mut {}", self.rust(*target, depth)),
            Type::Array { element, count, .. } => {
                let element = self.rust(*element, depth);
                match count {
                    Some(count) => format!("[{element}; {count}]"),
                    None => format!("[{element}]"),
                }
            }
            Type::Function {
                returns,
                parameters,
                ..
            } => {
                let list: Vec<String> = parameters
                    .iter()
                    .take(64)
                    .map(|parameter| self.rust(*parameter, depth))
                    .collect();
                match &*self.symbols.type_of(*returns) {
                    Type::Void => format!("fn ({})", list.join(", ")),
                    _ => format!("fn ({}) -> {}", list.join(", "), self.rust(*returns, depth)),
                }
            }
            Type::Structure {
                name: Some(name), ..
            }
            | Type::Enumeration {
                name: Some(name), ..
            } => name.clone(),
            _ => self.c(type_id, String::new(), depth),
        }
    }
}

fn strip_qualifiers(symbols: &Symbols, mut type_id: TypeId) -> Arc<Type> {
    for _ in 0..DEEPEST {
        let Type::Qualified { target, .. } = *symbols.type_of(type_id) else {
            break;
        };
        type_id = target;
    }
    symbols.type_of(type_id)
}

/// `unsigned long` for `long unsigned int`; GDB leaves 128-bit integers as the compiler calls them.
fn usual_name(name: &str) -> &str {
    if name.contains("128") {
        name
    } else {
        canonical_c_name(name).unwrap_or(name)
    }
}

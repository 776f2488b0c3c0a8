//! The kind of data of a type's values, as they are printed.

use super::Printer;
use super::aggregate::member_name;
use super::debug::{VARIANT, in_order, option_payload, part_name};
use crate::register_types::FLAGS_NAME;
use crate::value::NoState;
use crate::value::datum::Shape;
use crate::walk::{Items, TypeWalks, Walk};
use tracewire_debuginfo::{BaseEncoding, Language, Member, Symbols, Type, TypeId};

/// The deepest nesting of structures and lists; deeper parts are text.
const DEEPEST: usize = 12;

/// The most parts of one shape on all levels; more parts are text.
const MOST_PARTS: usize = 2000;

impl Shape {
    /// Of the values of a type, as a place in this language shows them. A type that contains itself is text where it does.
    #[must_use]
    pub fn of(walks: &TypeWalks<'_>, type_id: TypeId, language: Language) -> Self {
        let symbols: &Symbols = walks.symbols();
        let printer = Printer::new(symbols, &NoState, super::PrintOptions::default(), language);
        let printer = match walks.is_empty() {
            true => printer,
            false => printer.with_walks(walks),
        };
        let mut finder = Finder {
            printer: &printer,
            above: Vec::new(),
            parts_left: MOST_PARTS,
        };
        finder.shape(type_id, true)
    }
}

struct Finder<'p, 'a> {
    printer: &'p Printer<'a>,
    /// The types that the one looked at is a part of.
    above: Vec<TypeId>,
    parts_left: usize,
}

impl Finder<'_, '_> {
    /// `follow` is whether the target of a reference is shown.
    fn shape(&mut self, type_id: TypeId, follow: bool) -> Shape {
        if self.above.len() >= DEEPEST || self.parts_left == 0 || self.above.contains(&type_id) {
            return Shape::Text;
        }
        self.parts_left -= 1;
        self.above.push(type_id);
        let walk = self.printer.walks.and_then(|walks| walks.walk(type_id));
        let shape = match walk.as_deref() {
            Some(walk) => self.walked(walk, follow),
            None => self.plain(type_id, follow),
        };
        self.above.pop();
        shape
    }

    fn list(&mut self, element: TypeId, follow: bool) -> Shape {
        Shape::List(Box::new(self.shape(element, follow)))
    }

    fn items(&mut self, items: &Items, follow: bool) -> Shape {
        match items {
            Items::Element(element) => self.list(element.type_id, follow),
            Items::Pair(key, value) => Shape::Map(
                Box::new(self.shape(key.type_id, follow)),
                Box::new(self.shape(value.type_id, follow)),
            ),
        }
    }

    fn walked(&mut self, walk: &Walk, follow: bool) -> Shape {
        match walk {
            Walk::String { .. } => Shape::String,
            Walk::Sequence { element, .. }
            | Walk::Ring { element, .. }
            | Walk::Blocks { element, .. } => self.list(*element, follow),
            Walk::List { items, .. } | Walk::Table { items, .. } => self.items(items, follow),
            Walk::Tree(tree) => self.items(&tree.items, follow),
            Walk::BTree(tree) => self.items(&tree.items, follow),
            Walk::Buckets(table) => self.items(&table.items, follow),
            Walk::Bits { .. } => Shape::List(Box::new(Shape::Boolean)),
            Walk::Optional { value, .. } | Walk::Newtype(value) | Walk::Quantity { value, .. } => {
                self.shape(value.type_id, follow)
            }
            // The type is known at run time.
            Walk::Interface(_) | Walk::Function { .. } => Shape::Text,
            // Its target is written if the reference is the whole value.
            Walk::Reference { target, .. }
                if self.above.len() == 1 && self.printer.is_shown_behind_reference(*target) =>
            {
                self.shape(*target, follow)
            }
            Walk::Reference { .. } => Shape::Address,
            Walk::Variant { alternatives, .. } => {
                let mut shapes = alternatives.iter().map(|one| self.shape(*one, follow));
                match shapes.next() {
                    Some(first) if shapes.all(|one| one == first) => first,
                    _ => Shape::Text,
                }
            }
            Walk::Pointer { target, .. } => match &*self.printer.stripped(*target) {
                Type::Void | Type::Function { .. } => Shape::Address,
                _ => self.shape(*target, follow),
            },
            Walk::Duration { .. } => Shape::Integer,
            Walk::Structure(parts, _) => {
                let parts = (parts.iter())
                    .map(|(name, part)| (name.clone(), self.shape(part.type_id, false)));
                structure(parts.collect())
            }
            Walk::Tuple(parts) => {
                let parts = (parts.iter().enumerate()).map(|(index, part)| {
                    let name = crate::value::datum::unnamed(index);
                    (name, self.shape(part.type_id, follow))
                });
                structure(parts.collect())
            }
        }
    }

    /// Of a type without a rule.
    fn plain(&mut self, type_id: TypeId, follow: bool) -> Shape {
        let printer = self.printer;
        let language = printer.language;
        let is_rust = language == Language::Rust;
        // Arrays of characters and pointers to them are strings.
        let has_strings = match language {
            Language::C | Language::Cpp => true,
            Language::Rust => false,
            Language::Go => printer.walks.is_none(),
        };
        // Rust's values are written as GDB writes them where there are no rules.
        let has_parts = !is_rust || printer.walks.is_some();
        match &*printer.stripped(type_id) {
            Type::Base { size, encoding, .. } => match (encoding, size) {
                (_, 0) => Shape::Text,
                (BaseEncoding::Boolean, _) => Shape::Boolean,
                (BaseEncoding::Float, 4) => Shape::Float32,
                (BaseEncoding::Float, 2 | 8) => Shape::Float64,
                (BaseEncoding::Utf, _) if is_rust => Shape::Text,
                (BaseEncoding::Signed | BaseEncoding::SignedChar, 1..=8)
                | (
                    BaseEncoding::Unsigned | BaseEncoding::UnsignedChar | BaseEncoding::Utf,
                    1..=4,
                ) => Shape::Integer,
                (BaseEncoding::Unsigned | BaseEncoding::UnsignedChar, 5..=8) => Shape::Unsigned64,
                (BaseEncoding::Signed | BaseEncoding::Unsigned, 9..=16) => Shape::Integer128,
                _ => Shape::Text,
            },
            Type::Enumeration { name, .. } if name.as_deref() == Some(FLAGS_NAME) => Shape::Text,
            Type::Pointer { target, .. } => {
                if has_strings && printer.is_textual(*target) {
                    Shape::String
                } else {
                    Shape::Address
                }
            }
            Type::Reference { target, .. } if follow => self.shape(*target, follow),
            Type::Reference { .. } => Shape::Address,
            Type::Array { element, .. } if has_strings && printer.is_textual(*element) => {
                Shape::String
            }
            Type::Array { element, .. } if has_parts => self.list(*element, follow),
            Type::Structure {
                declaration: true, ..
            } => Shape::Text,
            Type::Structure {
                variants: Some(part),
                ..
            } if is_rust && has_parts => {
                if let Some(payload) = option_payload(printer, type_id) {
                    return self.shape(payload, false);
                }
                if !printer.has_data(part) {
                    return Shape::Text;
                }
                let mut parts = vec![(VARIANT.to_owned(), Shape::Text)];
                for variant in &part.variants {
                    if let Type::Structure { members, .. } =
                        &*printer.stripped(variant.member.type_id)
                        && !members.is_empty()
                    {
                        let shape = self.rust_members(members, false);
                        parts.push((printer.variant_name(variant), shape));
                    }
                }
                structure(parts)
            }
            Type::Structure { name, members, .. } if is_rust && has_parts => {
                let name = name.as_deref().unwrap_or("");
                if name == "()" {
                    return Shape::Text;
                }
                self.rust_members(members, name.starts_with('('))
            }
            Type::Structure { members, .. } if has_parts => {
                let parts = (members.iter().enumerate()).map(|(position, member)| {
                    let name = match member.base_class {
                        true => self.base_name(member),
                        false => member_name(member, position),
                    };
                    (name, self.shape(member.type_id, false))
                });
                structure(parts.collect())
            }
            Type::Function { .. } if language == Language::Go && !has_strings => Shape::Address,
            _ => Shape::Text,
        }
    }

    fn base_name(&self, base: &Member) -> String {
        match &*self.printer.stripped(base.type_id) {
            Type::Structure {
                name: Some(name), ..
            } => name.clone(),
            _ => String::new(),
        }
    }

    fn rust_members(&mut self, members: &[Member], is_tuple: bool) -> Shape {
        let (members, _) = in_order(members, is_tuple);
        let parts = (members.iter().enumerate()).map(|(index, member)| {
            let name = part_name(member, index);
            (name, self.shape(member.type_id, false))
        });
        structure(parts.collect())
    }
}

fn structure(parts: Vec<(String, Shape)>) -> Shape {
    match parts.is_empty() {
        true => Shape::Text,
        false => Shape::Structure(parts),
    }
}

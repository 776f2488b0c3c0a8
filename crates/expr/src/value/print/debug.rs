//! Rust's values as `{:?}` writes them.

use std::fmt::Write as _;

use super::{Context, Printer};
use crate::value::contents::{Value, number, order};
use crate::value::datum::{Datum, Parts, Recorder};
use crate::value::float;
use tracewire_debuginfo::{BaseEncoding, Language, Member, Type, TypeId, Variant, VariantPart};

impl Printer<'_> {
    /// A value whose type has no rule.
    pub(super) fn debug(&mut self, value: &Value, found: &Type, context: Context) {
        match found {
            Type::Array { element, count, .. } => {
                self.debug_array(value, *element, count.unwrap_or(0), context);
            }
            Type::Structure {
                variants: Some(part),
                ..
            } => self.debug_enum(value, part, context),
            Type::Structure { members, name, .. } => {
                self.debug_structure(value, name.as_deref().unwrap_or(""), members, context);
            }
            Type::Base {
                encoding: BaseEncoding::Float,
                size,
                ..
            } => self.debug_float(value, *size),
            Type::Base {
                encoding: BaseEncoding::Utf,
                ..
            } => {
                let code = number(&value.contents, false, order(self.symbols)).unwrap_or(0);
                let character = u32::try_from(code).ok().and_then(char::from_u32);
                match character {
                    Some(character) => {
                        self.put(&format!("{character:?}"));
                        self.record(|recorder| recorder.set(Datum::Text(character.to_string())));
                    }
                    None => self.put(&format!("<invalid char {code:#x}>")),
                }
            }
            Type::Pointer { .. } => {
                let address = number(&value.contents, false, order(self.symbols)).unwrap_or(0);
                self.put(&format!("{address:#x}"));
                self.record(|recorder| recorder.set(Datum::Address(address as u64)));
            }
            Type::Enumeration {
                enumerators,
                signed,
                ..
            } => {
                let number = number(&value.contents, *signed, order(self.symbols)).unwrap_or(0);
                match enumerators.iter().find(|found| found.value == number) {
                    Some(found) => self.put(last_component(&found.name)),
                    None => self.put(&format!("<invalid enum value {number}>")),
                }
            }
            _ => self.scalar(value, found, context),
        }
    }

    fn debug_float(&mut self, value: &Value, size: u64) {
        let Some(number) = float::from_bytes(self.symbols, value) else {
            self.put("<invalid float value>");
            return;
        };
        if size <= 8 {
            self.record(|recorder| recorder.set(Datum::Float(number)));
        }
        self.put(&match size {
            4 => format!("{:?}", number as f32),
            _ => format!("{number:?}"),
        });
    }

    fn debug_array(&mut self, value: &Value, element: TypeId, count: u64, context: Context) {
        let size = self.symbols.size_of(element).unwrap_or(0);
        self.put("[");
        self.begin_parts(Parts::List);
        for index in 0..count {
            let part = value.part(element, index.saturating_mul(size), size);
            if index >= self.options.elements {
                self.record(Recorder::cut);
                self.put("...");
                break;
            }
            self.put(if index > 0 { ", " } else { "" });
            self.value(&part, context.element());
        }
        self.put("]");
    }

    fn debug_structure(&mut self, value: &Value, name: &str, members: &[Member], context: Context) {
        if name == "()" {
            self.put("()");
            return;
        }
        let is_tuple = name.starts_with('(');
        let short = last_component(name);
        if !is_tuple {
            // It is written with its argument.
            self.put(if short == "PhantomData" {
                name.rsplit_once("marker::").map_or(name, |(_, name)| name)
            } else {
                short
            });
        }
        self.debug_members(value, members, is_tuple, context);
    }

    fn debug_members(
        &mut self,
        value: &Value,
        members: &[Member],
        is_tuple: bool,
        context: Context,
    ) {
        if members.is_empty() {
            return;
        }
        self.begin_parts(Parts::Structure);
        let (members, is_numbered) = in_order(members, is_tuple);
        self.put(if is_numbered { "(" } else { " { " });
        for (index, member) in members.iter().enumerate() {
            self.put(if index > 0 { ", " } else { "" });
            self.record(|recorder| recorder.name(&part_name(member, index)));
            if !is_numbered {
                self.put(member.name.as_deref().unwrap_or("_"));
                self.put(": ");
            }
            self.member(value, member, context.member());
        }
        self.put(match (is_numbered, members.len()) {
            (true, 1) if is_tuple => ",)",
            (true, _) => ")",
            (false, _) => " }",
        });
    }

    fn debug_enum(&mut self, value: &Value, part: &VariantPart, context: Context) {
        let variant = match self.variant_of(value, part) {
            Ok(variant) => variant,
            Err(why) => {
                self.put_missing(why);
                return;
            }
        };
        let found = self.stripped(variant.member.type_id);
        let Type::Structure { members, .. } = &*found else {
            self.put(variant.member.name.as_deref().unwrap_or("?"));
            return;
        };
        let name = self.variant_name(variant);
        self.put(&name);
        let size = self.symbols.size_of(variant.member.type_id).unwrap_or(0);
        let inner = value.part(variant.member.type_id, variant.member.offset, size);
        if self.recorder.is_none() {
            self.debug_members(&inner, members, false, context);
            return;
        }
        if option_payload(self, value.type_id).is_some() {
            if members.is_empty() {
                self.record(|recorder| recorder.set(Datum::Missing(name)));
            } else {
                self.debug_members(&inner, members, false, context);
                self.record(Recorder::pass_part);
            }
            return;
        }
        let has_data = self.has_data(part);
        let start = self.out.len();
        self.record(|recorder| {
            if !has_data {
                recorder.set(Datum::Text(name.clone()));
                return;
            }
            recorder.parts(Parts::Structure);
            recorder.name(VARIANT);
            recorder.begin();
            recorder.set(Datum::Text(name.clone()));
            recorder.end("");
            recorder.name(&name);
            recorder.begin();
        });
        self.debug_members(&inner, members, false, context);
        if has_data && let Some(recorder) = &mut self.recorder {
            if members.is_empty() {
                recorder.set(Datum::Missing(String::new()));
            }
            recorder.end(self.out.get(start..).unwrap_or(""));
        }
    }

    /// Whether a variant has members.
    pub(super) fn has_data(&self, part: &VariantPart) -> bool {
        part.variants.iter().any(|variant| {
            matches!(&*self.stripped(variant.member.type_id), Type::Structure { members, .. } if !members.is_empty())
        })
    }

    pub(super) fn variant_name(&self, variant: &Variant) -> String {
        let found = self.stripped(variant.member.type_id);
        let own = match &*found {
            Type::Structure { name, .. } => name.as_deref(),
            _ => None,
        };
        let name = variant.member.name.as_deref().or(own);
        last_component(name.unwrap_or("")).to_owned()
    }

    /// The variant that holds, or why it is not known.
    pub(super) fn variant_of<'v>(
        &self,
        value: &Value,
        part: &'v VariantPart,
    ) -> Result<&'v Variant, &'static str> {
        let none = "<error reading variable: Could not find active enum variant>";
        let Some(discriminant) = &part.discriminant else {
            return part.variants.first().ok_or(none);
        };
        let (size, signed) = crate::scalar::scalar(self.symbols, discriminant.type_id)
            .as_number()
            .unwrap_or((8, false));
        let tag = value.part(discriminant.type_id, discriminant.offset, size);
        if let Some(why) = Self::missing(&tag) {
            return Err(why);
        }
        let tag = number(&tag.contents, signed, order(self.symbols)).unwrap_or(0);
        let cut = |number: i128| crate::scalar::wrap(number, size, false);
        let mut variants = part.variants.iter();
        variants
            .find(|variant| variant.value.is_some_and(|value| cut(value) == cut(tag)))
            .or_else(|| part.variants.iter().find(|variant| variant.value.is_none()))
            .ok_or(none)
    }

    /// The name of a type without its path and its arguments.
    pub(super) fn short_name(&self, type_id: TypeId) -> String {
        match &*self.stripped(type_id) {
            Type::Structure {
                name: Some(name), ..
            } => last_component(name).to_owned(),
            _ => String::new(),
        }
    }

    /// A string that carries its length, in the program's language.
    pub(super) fn plain_string(&mut self, bytes: &[u8], width: usize, is_cut: bool) {
        self.record_string(bytes, width, is_cut);
        let mut text = String::with_capacity(bytes.len() + 2);
        text.push('"');
        if width == 1 {
            // A cut may be within a character.
            let mut rest = bytes;
            while !rest.is_empty() {
                let (valid, after) = match std::str::from_utf8(rest) {
                    Ok(valid) => (valid, &rest[rest.len()..]),
                    Err(error) => {
                        let (valid, after) = rest.split_at(error.valid_up_to());
                        (std::str::from_utf8(valid).unwrap_or(""), after)
                    }
                };
                self.escaped(&mut text, valid);
                let Some((invalid, after)) = after.split_first() else {
                    break;
                };
                let ends_here = is_cut
                    && after.len() < 3
                    && std::str::from_utf8(rest).is_err_and(|error| error.error_len().is_none());
                if ends_here {
                    break;
                }
                let _ = write!(text, "\\{invalid:03o}");
                rest = after;
            }
        } else {
            let order = order(self.symbols);
            let units = bytes
                .chunks(width)
                .map(|unit| number(unit, false, order).unwrap_or(0));
            let characters: String = if width == 2 {
                let units: Vec<u16> = units.map(|unit| unit as u16).collect();
                String::from_utf16_lossy(&units)
            } else {
                units
                    .map(|unit| char::from_u32(unit as u32).unwrap_or(char::REPLACEMENT_CHARACTER))
                    .collect()
            };
            self.escaped(&mut text, &characters);
        }
        text.push('"');
        if is_cut {
            text.push_str("...");
        }
        self.put(&text);
    }

    fn escaped(&self, text: &mut String, characters: &str) {
        if self.language == Language::Rust {
            for c in characters.chars() {
                match c {
                    '\'' => text.push(c),
                    _ => text.extend(c.escape_debug()),
                }
            }
            return;
        }
        for c in characters.chars() {
            match c {
                '"' | '\\' => text.extend(['\\', c]),
                '\u{7}' => text.push_str("\\a"),
                '\u{8}' => text.push_str("\\b"),
                '\t' => text.push_str("\\t"),
                '\n' => text.push_str("\\n"),
                '\u{b}' => text.push_str("\\v"),
                '\u{c}' => text.push_str("\\f"),
                '\r' => text.push_str("\\r"),
                c if c.is_ascii_control() => {
                    let _ = write!(text, "\\{:03o}", u32::from(c));
                }
                c if c.is_control() => text.extend(c.escape_unicode()),
                c => text.push(c),
            }
        }
    }
}

/// The part of an enum's data that names its variant.
pub(super) const VARIANT: &str = "variant";

/// The type of an `Option`'s content.
pub(super) fn option_payload(printer: &Printer<'_>, type_id: TypeId) -> Option<TypeId> {
    let found = printer.stripped(type_id);
    let Type::Structure {
        name: Some(name),
        variants: Some(part),
        ..
    } = &*found
    else {
        return None;
    };
    if !name.starts_with("core::option::Option<") {
        return None;
    }
    part.variants
        .iter()
        .find_map(|variant| match &*printer.stripped(variant.member.type_id) {
            Type::Structure { members, .. } => members.first().map(|member| member.type_id),
            _ => None,
        })
}

/// Members in source order, and whether they have numbers for names.
pub(super) fn in_order(members: &[Member], is_tuple: bool) -> (Vec<&Member>, bool) {
    // The debug information has them in the order of the memory.
    let mut members: Vec<&Member> = members.iter().collect();
    let number = |member: &Member| -> Option<u32> {
        member.name.as_deref()?.strip_prefix("__")?.parse().ok()
    };
    let is_numbered = is_tuple || members.iter().all(|member| number(member).is_some());
    if is_numbered {
        members.sort_by_key(|member| number(member));
    }
    (members, is_numbered)
}

/// A member's name as data: that of a tuple's is its number.
pub(super) fn part_name(member: &Member, index: usize) -> String {
    match member.name.as_deref() {
        Some(name) if !name.starts_with("__") => name.to_owned(),
        _ => crate::value::datum::unnamed(index),
    }
}

/// A path's last component, without its arguments.
fn last_component(name: &str) -> &str {
    let plain = name.find('<').map_or(name, |start| &name[..start]);
    plain.rsplit("::").next().unwrap_or(plain)
}

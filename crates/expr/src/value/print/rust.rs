//! Rust's values: structures, tuples, enums, slices.

use super::{Context, Printer};
use crate::value::contents::{Known, Value, number, order};
use crate::value::evaluate::{Evaluator, LARGEST_VALUE};
use tracewire_debuginfo::{BaseEncoding, Member, Type, TypeId, VariantPart};

impl Printer<'_> {
    pub(super) fn rust(&mut self, value: &Value, found: &Type, context: Context) {
        match found {
            Type::Pointer { target, .. } => self.rust_pointer(value, *target),
            Type::Array { element, count, .. } => {
                if *count == Some(0) {
                    self.put("[]");
                } else {
                    self.array(value, *element, context, ("[", "]"));
                }
            }
            Type::Structure {
                variants: Some(part),
                name,
                ..
            } => {
                self.rust_enum(value, part, name.as_deref(), context);
            }
            Type::Structure { name, members, .. } => {
                self.rust_structure(value, name.as_deref(), members, context)
            }
            _ => self.scalar(value, found, context),
        }
    }

    fn rust_pointer(&mut self, value: &Value, target: TypeId) {
        let address = number(&value.contents, false, order(self.symbols)).unwrap_or(0) as u64;
        if let Type::Array {
            element,
            count: Some(count),
            ..
        } = &*self.stripped(target)
            && self.is_u8(*element)
        {
            self.put(&format!("{address:#x} "));
            self.byte_string_at(address, *count, *element);
            return;
        }
        self.address(address);
    }

    fn is_u8(&self, type_id: TypeId) -> bool {
        let found = self.stripped(type_id);
        matches!(
            *found,
            Type::Base {
                size: 1,
                encoding: BaseEncoding::Unsigned | BaseEncoding::UnsignedChar,
                ..
            }
        )
    }

    fn rust_structure(
        &mut self,
        value: &Value,
        name: Option<&str>,
        members: &[Member],
        context: Context,
    ) {
        if self.rust_slice(value, name, members, context) {
            return;
        }
        let tuple = name.is_some_and(|name| name.starts_with('('));
        if !tuple {
            self.put(name.unwrap_or(""));
            if members.is_empty() {
                return;
            }
            self.put(if name.is_some() { " " } else { "" });
        }
        let numbered = tuple || is_numbered(members);
        self.put(if numbered { "(" } else { "{" });
        self.rust_members(value, members, numbered, context);
        self.put(if numbered { ")" } else { "}" });
    }

    fn rust_members(
        &mut self,
        value: &Value,
        members: &[Member],
        numbered: bool,
        context: Context,
    ) {
        let mut first = true;
        for member in members {
            self.comma(&mut first);
            if !numbered && let Some(name) = &member.name {
                self.put(&format!("{name}: "));
            }
            self.member(value, member, context.member());
        }
    }

    /// A slice or a `&str`, if the structure is one.
    fn rust_slice(
        &mut self,
        value: &Value,
        name: Option<&str>,
        members: &[Member],
        context: Context,
    ) -> bool {
        let find = |wanted: &str| {
            members
                .iter()
                .find(|member| member.name.as_deref() == Some(wanted))
        };
        let (Some(data), Some(length), 2) = (find("data_ptr"), find("length"), members.len())
        else {
            return false;
        };
        let Type::Pointer { target, .. } = *self.stripped(data.type_id) else {
            return false;
        };
        let word = |member: &Member| {
            let size = self.symbols.size_of(member.type_id).unwrap_or(8);
            let part = value.part(member.type_id, member.offset, size);
            match part.missing() {
                None => Ok(number(&part.contents, false, order(self.symbols)).unwrap_or(0) as u64),
                Some(Known::OptimizedOut) => Err("value has been optimized out"),
                Some(_) => Err("value is not available"),
            }
        };
        let (address, count) = match (word(data), word(length)) {
            (Ok(address), Ok(count)) => (address, count),
            (Err(why), _) | (_, Err(why)) => {
                self.put(&format!("<error reading variable: {why}>"));
                return true;
            }
        };
        if name == Some("&str") {
            self.string_at(address, Some(count), target);
            return true;
        }
        self.put(&format!("{} ", name.unwrap_or("")));
        if count == 0 {
            self.put("[]");
            return true;
        }
        let size = self.symbols.size_of(target).unwrap_or(0).checked_mul(count);
        let size = size
            .and_then(|size| usize::try_from(size).ok())
            .filter(|size| *size <= LARGEST_VALUE);
        let Some(size) = size else {
            let message = "value requires more bytes than max-value-size";
            self.put(&format!("<error reading variable: {message}>"));
            return true;
        };
        let array = self.symbols.array_of(target, count);
        match Evaluator::new(self.symbols, &self.state, "").fetch(address, array, size) {
            Ok(array) => self.array(&array, target, context, ("[", "]")),
            Err(error) => self.put(&format!("<error reading variable: {error}>")),
        }
        true
    }

    fn rust_enum(
        &mut self,
        value: &Value,
        part: &VariantPart,
        name: Option<&str>,
        context: Context,
    ) {
        if part.variants.is_empty() {
            self.put(&format!("{} {{<No data fields>}}", name.unwrap_or("")));
            return;
        }
        let variant = match self.variant_of(value, part) {
            Ok(variant) => variant,
            Err(why) => {
                self.put(why);
                return;
            }
        };
        let found = self.stripped(variant.member.type_id);
        let Type::Structure { name, members, .. } = &*found else {
            self.member(value, &variant.member, context.member());
            return;
        };
        self.put(name.as_deref().unwrap_or(""));
        if members.is_empty() {
            return;
        }
        let size = self.symbols.size_of(variant.member.type_id).unwrap_or(0);
        let inner = value.part(variant.member.type_id, variant.member.offset, size);
        let numbered = is_numbered(members);
        self.put(if numbered { "(" } else { "{" });
        self.rust_members(&inner, members, numbered, context);
        self.put(if numbered { ")" } else { "}" });
    }
}

/// Whether the members are called `__0`, `__1`, …, as those of tuples are.
fn is_numbered(members: &[Member]) -> bool {
    !members.is_empty()
        && (members.iter().enumerate())
            .all(|(index, member)| member.name.as_deref() == Some(&format!("__{index}")))
}

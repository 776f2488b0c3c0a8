//! Arrays, structures, classes.

use super::{Context, Printer, REDACTED};
use crate::scalar::{Scalar, scalar, storage_size};
use crate::value::contents::{Known, Place, Value};
use crate::value::datum::{Datum, Parts, Recorder};
use crate::value::evaluate::Evaluator;
use crate::value::state::State;
use tracewire_debuginfo::{Member, Type, TypeId};

impl Printer<'_> {
    pub(super) fn array(
        &mut self,
        value: &Value,
        element: TypeId,
        context: Context,
        brackets: (&str, &str),
    ) {
        let size = storage_size(self.symbols, element).unwrap_or(0);
        if size == 0 || value.contents.is_empty() {
            // An array of no known length: its address, as a pointer's.
            let address = match value.place {
                Place::Memory(address) => address.0,
                _ => 0,
            };
            self.pointer_to(address, element);
            return;
        }
        let complete = value.is_complete();
        if complete
            && self.language != tracewire_debuginfo::Language::Rust
            && self.is_textual(element)
        {
            self.characters(&value.contents, element, false);
            return;
        }
        self.put(brackets.0);
        self.begin_parts(Parts::List);
        self.elements(value, element, size, context);
        self.put(brackets.1);
        if self.language != tracewire_debuginfo::Language::Rust && self.is_textual(element) {
            self.record_known_characters(value, size);
        }
    }

    /// A string some of whose bytes are not known: as data it is what comes before them.
    fn record_known_characters(&mut self, value: &Value, size: u64) {
        let width = usize::try_from(size).unwrap_or(usize::MAX);
        let known = value.known.iter();
        let good = known.take_while(|known| **known == Known::Yes).count() / width * width;
        let datum = match (good, Self::missing(value)) {
            (0, Some(why)) => Datum::Missing(why.to_owned()),
            _ => self.string_datum(value.contents.get(..good).unwrap_or(&[]), width, true),
        };
        self.record(|recorder| recorder.set(datum));
    }

    /// The elements of an array, between its brackets.
    fn elements(&mut self, value: &Value, element: TypeId, size: u64, context: Context) {
        let width = usize::try_from(size).unwrap_or(usize::MAX);
        let count = value.contents.len() / width;
        let same = |a: usize, b: usize| {
            value.contents.get(a * width..(a + 1) * width)
                == value.contents.get(b * width..(b + 1) * width)
                && value.known.get(a * width..(a + 1) * width)
                    == value.known.get(b * width..(b + 1) * width)
        };
        let (mut index, mut shown) = (0, 0_u64);
        while index < count && shown < self.options.elements {
            if index > 0 {
                self.put(", ");
            }
            let mut next = index + 1;
            while next < count && same(index, next) {
                next += 1;
            }
            let part = value.part(element, index as u64 * size, size);
            self.value(&part, context.element());
            let repeats = (next - index) as u64;
            if repeats > self.options.repeats {
                self.put(&format!(" <repeats {repeats} times>"));
                self.record(|recorder| recorder.repeat(repeats));
                index = next;
                shown = shown.saturating_add(self.options.repeats);
            } else {
                index += 1;
                shown += 1;
            }
        }
        if index < count {
            self.put("...");
            self.record(Recorder::cut);
        }
    }

    /// A structure or class: base classes first, then members.
    pub(super) fn structure(&mut self, value: &Value, found: &Type, context: Context) {
        let Type::Structure {
            name,
            members,
            static_members,
            ..
        } = found
        else {
            return;
        };
        self.put("{");
        self.begin_parts(Parts::Structure);
        let bases: Vec<&Member> = members.iter().filter(|member| member.base_class).collect();
        for base in &bases {
            self.base_class(value, base, context);
        }
        if members.is_empty() {
            self.record(|recorder| recorder.set(Datum::Text("{}".to_owned())));
        }
        if bases.len() == members.len() && static_members.is_empty() {
            self.put("<No data fields>}");
            return;
        }
        let mut first = true;
        let mut statics = static_members.iter().peekable();
        for position in 0..=members.len() {
            while let Some(found) = statics.next_if(|found| found.position <= position) {
                self.comma(&mut first);
                self.static_member(name.as_deref(), &found.name, context);
            }
            let Some(member) = members.get(position).filter(|member| !member.base_class) else {
                continue;
            };
            self.comma(&mut first);
            let mut inner = context.member();
            self.record(|recorder| recorder.name(&member_name(member, position)));
            match &member.name {
                Some(name) => self.put(&format!("{name} = ")),
                // Anonymous members count as being at their parent's depth.
                None => inner.depth = context.depth,
            }
            self.member(value, member, inner);
        }
        self.put("}");
    }

    pub(super) fn comma(&mut self, first: &mut bool) {
        if !std::mem::replace(first, false) {
            self.put(", ");
        }
    }

    fn base_class(&mut self, value: &Value, base: &Member, context: Context) {
        let found = self.stripped(base.type_id);
        let name = match &*found {
            Type::Structure {
                name: Some(name), ..
            } => name.clone(),
            _ => String::new(),
        };
        self.put(&format!("<{name}> = "));
        let start = self.out.len();
        self.record(|recorder| {
            recorder.name(&name);
            recorder.begin();
        });
        if base.offset == u64::MAX {
            // A virtual base class whose place is only in the object's own table.
            self.put_missing("<invalid address>");
        } else if context.depth + 1 >= self.options.depth {
            self.put_missing("{...}");
        } else {
            let size = self.symbols.size_of(base.type_id).unwrap_or(0);
            let part = value.part(base.type_id, base.offset, size);
            self.structure(
                &part,
                &found,
                Context {
                    depth: context.depth + 1,
                    ..context
                },
            );
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.end(self.out.get(start..).unwrap_or(""));
        }
        self.put(", ");
    }

    /// The value of a member that is not static.
    pub(super) fn member(&mut self, value: &Value, member: &Member, context: Context) {
        let shape = scalar(self.symbols, member.type_id);
        if let Some(bits) = member.bits {
            let (size, signed) = shape.as_number().unwrap_or((8, false));
            let part = value.bit_field(
                self.symbols,
                member.type_id,
                member.offset,
                bits,
                size,
                signed,
            );
            self.value(&part, context);
            return;
        }
        let size = storage_size(self.symbols, member.type_id).unwrap_or(0);
        let part = value.part(member.type_id, member.offset, size);
        match shape {
            // A flexible array continues after the structure.
            Scalar::Array { count: None, .. } => {
                let mut part = part;
                part.contents.clear();
                part.known.clear();
                self.value(&part, context);
            }
            _ => self.value(&part, context),
        }
    }

    /// A static member is a variable of the class and no part of the value's data.
    fn static_member(&mut self, class: Option<&str>, name: &str, context: Context) {
        let recorder = self.recorder.take();
        self.write_static_member(class, name, context);
        self.recorder = recorder;
    }

    fn write_static_member(&mut self, class: Option<&str>, name: &str, context: Context) {
        self.put(&format!("static {name} = "));
        if self.symbols.redacts_name(name) {
            self.put(REDACTED);
            return;
        }
        let full = class.map_or(name.to_owned(), |class| format!("{class}::{name}"));
        let full = full.as_str();
        let Some(variable) = self
            .symbols
            .lookup_variable(Some(self.state.pc().into()), full)
        else {
            self.put("<optimized out>");
            return;
        };
        let evaluator = Evaluator::new(self.symbols, &self.state, full);
        let node = crate::node::Node::new(
            crate::node::NodeKind::Place(variable.clone().into()),
            variable.type_id,
            crate::Span {
                start: 0,
                end: full.len(),
            },
        );
        let value = match evaluator.value(&node) {
            Ok(value) => value,
            Err(error) => {
                self.put(&format!("<error reading variable: {error}>"));
                return;
            }
        };
        if value.missing() == Some(Known::OptimizedOut) {
            self.put("<optimized out>");
            return;
        }
        if self.statics.contains(&value.place) {
            self.put("<same as static member of an already seen type>");
            return;
        }
        self.statics.push(value.place);
        self.value(&value, context.member());
        self.statics.pop();
    }
}

/// A member's name as data: the number of an anonymous one.
pub(super) fn member_name(member: &Member, position: usize) -> String {
    match &member.name {
        Some(name) => name.clone(),
        None => crate::value::datum::unnamed(position),
    }
}

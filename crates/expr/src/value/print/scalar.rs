//! Numbers, characters, pointers, references, enumerations, functions.

use super::{Context, Printer};
use tracewire_model::Address;

use crate::register_types::FLAGS_NAME;
use crate::value::contents::{Place, Value, number, order};
use crate::value::datum::Datum;
use crate::value::evaluate::Evaluator;
use crate::value::float;
use tracewire_debuginfo::{BaseEncoding, Enumerator, Language, Type, TypeId};

impl Printer<'_> {
    pub(super) fn scalar(&mut self, value: &Value, found: &Type, context: Context) {
        let raw = |signed| number(&value.contents, signed, order(self.symbols));
        match found {
            Type::Void => self.put(if self.language == Language::Rust {
                "()"
            } else {
                "void"
            }),
            Type::Base {
                size,
                encoding,
                name,
            } => self.base(value, *size, *encoding, name),
            Type::Pointer { target, .. } => {
                let address = raw(false).unwrap_or(0) as u64;
                self.pointer_to(address, *target);
            }
            Type::Reference { target, .. } => {
                let address = raw(false).unwrap_or(0) as u64;
                self.reference(address, *target, context);
            }
            Type::Enumeration {
                enumerators,
                signed,
                name,
                ..
            } => {
                let number = raw(*signed).unwrap_or(0);
                if name.as_deref() == Some(FLAGS_NAME) {
                    let set = enumerators.iter().filter(|flag| number & flag.value != 0);
                    let names: String = set.map(|flag| format!(" {}", flag.name)).collect();
                    self.put(&format!("[{names} ]"));
                } else {
                    self.enumeration(number, enumerators);
                }
            }
            Type::Function { .. } => {
                let name = self.type_name(value.type_id);
                self.put(&format!("{{{name}}} "));
                if let Place::Memory(address) = value.place {
                    self.address(address.0);
                }
            }
            Type::MemberPointer { class, target, .. } => {
                self.member_pointer(value, *class, *target)
            }
            Type::Unknown { name, .. } => self.put(&format!("<{name}>")),
            Type::Array { .. }
            | Type::Structure { .. }
            | Type::Typedef { .. }
            | Type::Qualified { .. } => self.put("<error type>"),
        }
    }

    fn base(&mut self, value: &Value, size: u64, encoding: BaseEncoding, name: &str) {
        let signed = matches!(encoding, BaseEncoding::Signed | BaseEncoding::SignedChar);
        let Some(number) = number(&value.contents, signed, order(self.symbols)) else {
            // Wider than any number: its bytes.
            if encoding == BaseEncoding::ComplexFloat {
                self.complex(value, size);
            } else {
                let digits: String = value
                    .contents
                    .iter()
                    .rev()
                    .map(|byte| format!("{byte:02x}"))
                    .collect();
                self.put(&format!("0x{digits}"));
            }
            return;
        };
        self.record_base(value, size, encoding, number);
        match encoding {
            BaseEncoding::Float => {
                let text = float::text(self.symbols, value, size);
                self.put(&text.unwrap_or_else(|| "<invalid float value>".to_owned()));
            }
            BaseEncoding::ComplexFloat => self.complex(value, size),
            BaseEncoding::Boolean => match number {
                0 => self.put("false"),
                1 => self.put("true"),
                other => self.put(&other.to_string()),
            },
            BaseEncoding::Utf => {
                self.put(&format!("{number} "));
                self.character(number, value.type_id);
            }
            _ if size == 0 && name == "()" => self.put("()"),
            _ if size == 16 && !signed => self.put(&(number as u128).to_string()),
            _ => {
                self.put(&number.to_string());
                if self.language != Language::Rust && self.is_textual(value.type_id) {
                    self.put(" ");
                    self.character(number, value.type_id);
                }
            }
        }
    }

    /// A number as data.
    fn record_base(&mut self, value: &Value, size: u64, encoding: BaseEncoding, number: i128) {
        let datum = match encoding {
            BaseEncoding::Float if size <= 8 => {
                float::from_bytes(self.symbols, value).map(Datum::Float)
            }
            BaseEncoding::Float | BaseEncoding::ComplexFloat | BaseEncoding::Unknown => None,
            BaseEncoding::Boolean if number == 0 || number == 1 => {
                Some(Datum::Boolean(number == 1))
            }
            BaseEncoding::Unsigned if number < 0 => Some(Datum::LargeInteger(number as u128)),
            _ if size == 0 => None,
            _ => Some(Datum::Integer(number)),
        };
        if let Some(datum) = datum {
            self.record(|recorder| recorder.set(datum));
        }
    }

    fn complex(&mut self, value: &Value, size: u64) {
        let half = size / 2;
        let part =
            |offset| float::text(self.symbols, &value.part(value.type_id, offset, half), half);
        let (real, imaginary) = (part(0), part(half));
        let unknown = || "<invalid float value>".to_owned();
        let (real, imaginary) = (
            real.unwrap_or_else(unknown),
            imaginary.unwrap_or_else(unknown),
        );
        self.put(&format!("{real} + {imaginary}i"));
    }

    /// An address, with the symbol that contains it.
    pub(super) fn address(&mut self, address: u64) {
        self.put(&format!("{address:#x}"));
        match self.symbol(address) {
            None => {}
            Some((symbol, 0)) => self.put(&format!(" <{symbol}>")),
            Some((symbol, offset)) => self.put(&format!(" <{symbol}+{offset}>")),
        }
    }

    /// The function or symbol that an address is in. A function's name is that of its debug information: the linker's may be a
    /// name that the compiler made of it (`work.constprop.0`).
    fn symbol(&self, address: u64) -> Option<(String, u64)> {
        let symbol = self.symbols.symbol_at(Address(address));
        let function = self.symbols.function_at(Address(address));
        let Some(function) = function.filter(|function| function.returns.is_some()) else {
            return symbol.map(|(name, offset)| (without_number(&name).to_owned(), offset));
        };
        if let Some((name, 0)) = symbol
            && function.entry.0 != address
        {
            return Some((name, 0));
        }
        let offset = address.wrapping_sub(function.entry.0);
        let language = self.symbols.language_at(Some(Address(address)));
        let name = match self.symbols.symbol_at(function.entry) {
            // With its parameters.
            Some((name, 0)) if language == Language::Cpp => {
                name.split(" [clone").next().unwrap_or(&name).to_owned()
            }
            _ => function.name,
        };
        Some((name, offset))
    }

    /// A pointer's value: the address, and the string that it points to.
    pub(super) fn pointer_to(&mut self, address: u64, target: TypeId) {
        self.address(address);
        let is_string = self.language != Language::Rust && self.is_textual(target);
        self.record(|recorder| {
            recorder.set(match is_string {
                true => Datum::Missing("null pointer".to_owned()),
                false => Datum::Address(address),
            });
        });
        if is_string && address != 0 {
            self.put(" ");
            self.string_at(address, None, target);
        }
    }

    fn reference(&mut self, address: u64, target: TypeId, context: Context) {
        if self.walks.is_none() || !context.follow {
            self.put(&format!("@{address:#x}"));
        }
        if !context.follow {
            self.record(|recorder| recorder.set(Datum::Address(address)));
            return;
        }
        if self.walks.is_none() {
            self.put(": ");
        }
        let evaluator = Evaluator::new(self.symbols, &self.state, "");
        let size = self
            .symbols
            .size_of(target)
            .and_then(|size| usize::try_from(size).ok())
            .unwrap_or(0);
        if size > crate::value::evaluate::LARGEST_VALUE {
            self.put_missing("<error reading variable: the value is too large>");
            return;
        }
        match evaluator.fetch(address, target, size) {
            Ok(value) => self.value(&value, context),
            Err(error) => self.put_missing(&format!("<error reading variable: {error}>")),
        }
    }

    fn enumeration(&mut self, number: i128, enumerators: &[Enumerator]) {
        if let Some(found) = enumerators
            .iter()
            .find(|enumerator| enumerator.value == number)
        {
            self.put(&found.name);
            return;
        }
        // An enumeration of single bits is a set of flags.
        let flags = enumerators
            .iter()
            .all(|flag| flag.value >= 0 && flag.value.count_ones() <= 1);
        if !flags {
            self.put(&number.to_string());
            return;
        }
        let mut left = number;
        let mut parts: Vec<String> = Vec::new();
        for flag in enumerators {
            if left & flag.value != 0 {
                left &= !flag.value;
                parts.push(flag.name.clone());
            }
        }
        if left != 0 {
            parts.push(format!("unknown: {:#x}", left as u64));
        }
        if parts.is_empty() {
            self.put("0");
        } else {
            self.put(&format!("({})", parts.join(" | ")));
        }
    }

    /// A C++ pointer to a member: of data, an offset; of a function, its address or its place in the table of
    /// virtual functions.
    fn member_pointer(&mut self, value: &Value, class: TypeId, target: TypeId) {
        let order = order(self.symbols);
        if !matches!(*self.stripped(target), Type::Function { .. }) {
            let offset = number(&value.contents, true, order).unwrap_or(-1);
            if offset == -1 {
                self.put("NULL");
                return;
            }
            let found = self.stripped(class);
            let (class_name, member) = match &*found {
                Type::Structure { name, members, .. } => {
                    let member = (members.iter())
                        .find(|member| !member.base_class && i128::from(member.offset) == offset)
                        .and_then(|member| member.name.clone());
                    (name.clone(), member)
                }
                _ => (None, None),
            };
            match (class_name, member) {
                (Some(class), Some(member)) => self.put(&format!("&{class}::{member}")),
                _ => self.put(&offset.to_string()),
            }
            return;
        }
        let half = value.contents.len() / 2;
        let (pointer, adjustment) = value.contents.split_at(half);
        let pointer = number(pointer, false, order).unwrap_or(0) as u64;
        let adjustment = number(adjustment, true, order).unwrap_or(0);
        if pointer == 0 {
            self.put("NULL");
            return;
        }
        if pointer & 1 == 1 {
            self.put(&format!("&virtual table offset {}", pointer - 1));
        } else {
            let name = self.type_name(value.type_id);
            self.put(&format!("({name}) "));
            self.address(pointer);
        }
        if adjustment != 0 {
            self.put(&format!(", this adjustment {adjustment}"));
        }
    }
}

/// The compiler numbers static variables of functions (`counter.2`). GDB takes such a name, if it has no capitals, for
/// an Ada one, and leaves the number out.
fn without_number(symbol: &str) -> &str {
    let plain =
        |text: &str| !text.starts_with('_') && !text.bytes().any(|byte| byte.is_ascii_uppercase());
    match symbol.rsplit_once('.') {
        Some((name, digits))
            if plain(name)
                && !digits.is_empty()
                && digits.bytes().all(|byte| byte.is_ascii_digit()) =>
        {
            name
        }
        _ => symbol,
    }
}

//! A value's bytes, and which of them are known.

use tracewire_model::{Address, ByteOrder, RegisterNumber};

use super::datum::Datum;
use super::print::{PrintOptions, Printer};
use super::state::State;
use super::type_name::{language_type_name, type_name_in};
use crate::scalar::{Scalar, scalar};
use crate::walk::TypeWalks;
use tracewire_debuginfo::{Language, Symbols, TypeId};

/// Whether a byte of a value is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Known {
    Yes,
    /// It was not collected.
    Unavailable,
    /// There is no memory.
    Missing,
    /// The compiler removed it.
    OptimizedOut,
    /// It is not recorded, by its name.
    Redacted,
}

/// Where a value is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Place {
    /// In memory.
    Memory(Address),
    /// In a register.
    Register(RegisterNumber),
    /// In no one place: it was computed, or is in pieces.
    Nowhere,
}

/// A value: a type and its bytes, some of which may be unknown.
#[derive(Clone, Debug)]
pub struct Value {
    pub(crate) type_id: TypeId,
    pub(crate) contents: Vec<u8>,
    pub(crate) known: Vec<Known>,
    pub(crate) place: Place,
    pub(crate) language: Language,
    /// A pointer that was removed by the compiler.
    pub(crate) synthetic: bool,
    /// The target of a reference that was removed.
    pub(crate) referent: Option<Box<Value>>,
}

impl Value {
    /// Whether an address is one of the bytes that this is.
    pub(crate) fn is_over(&self, address: Address) -> bool {
        match self.place {
            Place::Memory(start) => address.0.wrapping_sub(start.0) < self.contents.len() as u64,
            _ => false,
        }
    }

    pub(crate) fn new(
        type_id: TypeId,
        contents: Vec<u8>,
        place: Place,
        language: Language,
    ) -> Self {
        let known = vec![Known::Yes; contents.len()];
        Self {
            type_id,
            contents,
            known,
            place,
            language,
            synthetic: false,
            referent: None,
        }
    }

    /// A value whose bytes are all unknown for the same reason.
    pub(crate) fn unknown(type_id: TypeId, size: usize, why: Known, language: Language) -> Self {
        let mut value = Self::new(type_id, vec![0; size], Place::Nowhere, language);
        value.known.fill(why);
        value
    }

    /// Forgets the bytes that are redacted by the names of members and types.
    pub(crate) fn redact(&mut self, symbols: &Symbols) {
        for (start, length) in symbols.redacted_ranges(self.type_id).iter() {
            let place = |at: u64| {
                usize::try_from(at)
                    .unwrap_or(usize::MAX)
                    .min(self.known.len())
            };
            let range = place(*start)..place(start.saturating_add(*length));
            if let Some(known) = self.known.get_mut(range.clone()) {
                known.fill(Known::Redacted);
            }
            if let Some(contents) = self.contents.get_mut(range) {
                contents.fill(0);
            }
        }
    }

    /// Whether no byte of the value is recorded, by its name.
    #[must_use]
    pub fn is_redacted(&self) -> bool {
        !self.known.is_empty() && self.known.iter().all(|known| *known == Known::Redacted)
    }

    /// Its type.
    #[must_use]
    pub const fn type_id(&self) -> TypeId {
        self.type_id
    }

    /// Its type's name as GDB's `whatis` shows it, in the language of the place where the value was evaluated.
    #[must_use]
    pub fn type_name(&self, symbols: &Symbols) -> String {
        type_name_in(symbols, self.type_id, language_type_name(self.language))
    }

    /// Where it is.
    #[must_use]
    pub const fn place(&self) -> Place {
        self.place
    }

    /// Its bytes, in target order; bytes that are not known read 0.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.contents
    }

    /// Whether every byte is known.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.known.iter().all(|known| *known == Known::Yes)
    }

    /// Whether the compiler removed the whole value.
    #[must_use]
    pub fn is_optimized_out(&self) -> bool {
        !self.known.is_empty() && self.known.iter().all(|known| *known == Known::OptimizedOut)
    }

    /// Whether no byte of the value was collected.
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        let gone = |known: &Known| matches!(known, Known::Unavailable | Known::Missing);
        !self.known.is_empty() && self.known.iter().all(gone)
    }

    /// The number it holds, if it is an integer, a truth value, an enumeration or a pointer and is known.
    #[must_use]
    pub fn as_integer(&self, symbols: &Symbols) -> Option<i128> {
        let (size, signed) = scalar(symbols, self.type_id).as_number()?;
        self.is_complete()
            .then(|| number(self.contents.get(..size as usize)?, signed, order(symbols)))?
    }

    /// Its truth as a condition: whether it is not zero. `None` if it is neither a number nor a pointer, or is not known. (The
    /// target of a C++ reference is another value.)
    #[must_use]
    pub fn is_true(&self, symbols: &Symbols) -> Option<bool> {
        let shape = scalar(symbols, self.type_id);
        if matches!(shape, Scalar::Reference { .. }) {
            return None;
        }
        match self.as_integer(symbols) {
            Some(number) => Some(number != 0),
            None => {
                let float = super::float::from_bytes(symbols, self)?;
                Some(float != 0.0)
            }
        }
    }

    /// The value as GDB's `print` shows it, without the `$1 = `. Memory behind pointers is read from `state`.
    #[must_use]
    pub fn print(&self, symbols: &Symbols, state: &dyn State, options: &PrintOptions) -> String {
        Printer::new(symbols, state, *options, self.language).print(self)
    }

    /// The value as its language writes it: strings, containers and pointers with an owner by the rules for their types
    /// ([`TypeWalks`]), Rust's values as `{:?}`, and the others as [`print`](Self::print) writes them. Without rules all are
    /// written so.
    #[must_use]
    pub fn display(
        &self,
        walks: &TypeWalks<'_>,
        state: &dyn State,
        options: &PrintOptions,
    ) -> String {
        let printer = Printer::new(walks.symbols(), state, *options, self.language);
        if walks.is_empty() {
            return printer.print(self);
        }
        printer.with_walks(walks).print(self)
    }

    /// The value as [`display`](Self::display) writes it, and as data. One walk over the value makes both.
    #[must_use]
    pub fn show(
        &self,
        walks: &TypeWalks<'_>,
        state: &dyn State,
        options: &PrintOptions,
    ) -> (String, Datum) {
        let printer = Printer::new(walks.symbols(), state, *options, self.language).with_data();
        let (text, datum) = if walks.is_empty() {
            printer.print_with_datum(self)
        } else {
            printer.with_walks(walks).print_with_datum(self)
        };
        let datum = datum.unwrap_or_else(|| Datum::Text(text.clone()));
        (text, datum)
    }

    /// The value as GDB's `info locals` and `info args` show it: as [`print`](Self::print), without the type in
    /// brackets that `print` puts before pointers and references.
    #[must_use]
    pub fn print_variable(
        &self,
        symbols: &Symbols,
        state: &dyn State,
        options: &PrintOptions,
    ) -> String {
        Printer::new(symbols, state, *options, self.language).print_variable(self)
    }

    /// A part of it, with another type.
    pub(crate) fn part(&self, type_id: TypeId, offset: u64, size: u64) -> Self {
        let start = usize::try_from(offset)
            .unwrap_or(usize::MAX)
            .min(self.contents.len());
        let end = start
            .saturating_add(usize::try_from(size).unwrap_or(usize::MAX))
            .min(self.contents.len());
        let place = match self.place {
            Place::Memory(address) => Place::Memory(Address(address.0.wrapping_add(offset))),
            other => other,
        };
        let mut contents = self.contents.get(start..end).unwrap_or(&[]).to_vec();
        let mut known = self.known.get(start..end).unwrap_or(&[]).to_vec();
        // The part outside the value (damaged debug information) is not known.
        let whole = usize::try_from(size)
            .unwrap_or(0)
            .min(super::evaluate::LARGEST_VALUE);
        contents.resize(whole, 0);
        known.resize(whole, Known::Unavailable);
        Self {
            type_id,
            contents,
            known,
            place,
            language: self.language,
            synthetic: false,
            referent: None,
        }
    }

    /// A bit field of it: (first bit, width) from the byte `offset` on, as a value of `size` bytes.
    pub(crate) fn bit_field(
        &self,
        symbols: &Symbols,
        type_id: TypeId,
        offset: u64,
        bits: (u64, u64),
        size: u64,
        signed: bool,
    ) -> Self {
        let (first, width) = bits;
        let holder = self.part(
            type_id,
            offset.saturating_add(first / 8),
            (first % 8).saturating_add(width).div_ceil(8),
        );
        let order = order(symbols);
        let raw = number(&holder.contents, false, order).unwrap_or(0) as u128;
        let shift = u32::try_from(first % 8).unwrap_or(0);
        let width = u32::try_from(width).unwrap_or(0).min(127);
        let mut result = (raw >> shift) & ((1_u128 << width) - 1);
        if signed && width > 0 && result >> (width - 1) & 1 == 1 {
            result |= u128::MAX << width;
        }
        let mut value = Self::new(
            type_id,
            pack(result as i128, size, order),
            Place::Nowhere,
            self.language,
        );
        if let Some(why) = holder.known.iter().find(|known| **known != Known::Yes) {
            value.known.fill(*why);
        }
        value
    }

    /// The first reason why a byte is not known.
    pub(crate) fn missing(&self) -> Option<Known> {
        self.known
            .iter()
            .copied()
            .find(|known| *known != Known::Yes)
    }
}

pub(crate) fn order(symbols: &Symbols) -> ByteOrder {
    symbols
        .architecture()
        .map_or(ByteOrder::Little, |architecture| architecture.byte_order())
}

/// The number in at most 16 bytes.
pub(crate) fn number(bytes: &[u8], signed: bool, order: ByteOrder) -> Option<i128> {
    if bytes.len() > 16 {
        return None;
    }
    let mut raw = [0; 16];
    for (index, byte) in bytes.iter().enumerate() {
        let place = match order {
            ByteOrder::Little => index,
            ByteOrder::Big => bytes.len() - 1 - index,
        };
        if let Some(slot) = raw.get_mut(place) {
            *slot = *byte;
        }
    }
    Some(crate::scalar::wrap(
        i128::from_le_bytes(raw),
        bytes.len() as u64,
        signed,
    ))
}

/// A number as `size` bytes; more than 16 are padded with the sign.
pub(crate) fn pack(number: i128, size: u64, order: ByteOrder) -> Vec<u8> {
    let fill = if number < 0 { 0xff } else { 0 };
    let size = usize::try_from(size).unwrap_or(0).min(64);
    let mut bytes: Vec<u8> = number
        .to_le_bytes()
        .into_iter()
        .chain(std::iter::repeat(fill))
        .take(size)
        .collect();
    if order == ByteOrder::Big {
        bytes.reverse();
    }
    bytes
}

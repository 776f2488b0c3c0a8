//! Values without parts, computed and shown in few steps: most of what is collected is a number in a register, or behind a pointer
//! in one.
//!
//! The result is that of [`PreparedExpression::evaluate`] and [`Value::show`](super::Value::show), or none: then those say what the
//! value is, or why there is none.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::rc::Rc;

use tracewire_arch::FloatFormat;
use tracewire_model::{ByteOrder, RegisterNumber};

use super::contents::order;
use super::datum::Datum;
use super::evaluate::Evaluator;
use super::float::{ShortNumber, print_float};
use super::prepare::PreparedExpression;
use super::print::PlainKind;
use super::state::NoState;
use crate::int_expr::{IntExpr, Source};
use crate::node::{Node, NodeKind};
use crate::object::{Object, object_number, offset_by};
use crate::scalar::{Scalar, scalar, wrap};
use crate::walk::TypeWalks;

/// The size of a pointer and of a register of the machines whose values are computed here.
const WORD: u64 = 8;

/// How many texts of numbers are kept: of an enumeration, of pointers to a program's constants.
const MOST_TEXTS: usize = 4096;

/// The saved state of a thread, as far as plain values need it.
pub trait PlainState {
    /// The first eight bytes of a register that has as many, as a number; none where they are not known.
    fn register(&self, register: RegisterNumber) -> Option<u64>;

    /// The number of so many bytes at an address, zero-extended, where they were saved in one piece.
    fn load(&self, address: u64, size: u8) -> Option<u64>;

    /// Whether some of these bytes were saved.
    fn has_memory(&self, address: u64, length: u64) -> bool;
}

/// An expression whose value is a number of at most eight bytes.
pub struct PlainValue {
    number: IntExpr,
    size: u8,
    kind: PlainKind,
    type_name: Rc<str>,
    /// How numbers are shown whose text takes longer to make.
    shown: RefCell<HashMap<u64, Rc<(String, Datum)>>>,
}

/// A value as text and as data.
#[derive(Clone, Debug)]
pub struct ShownValue(Form);

#[derive(Clone, Debug)]
enum Form {
    Number(NumberText, Datum),
    /// Many frames may have it.
    Shared(Rc<(String, Datum)>),
}

/// The text of a number, of which there may be millions.
#[derive(Clone, Copy, Debug)]
struct NumberText {
    bytes: [u8; Self::LONGEST],
    length: u8,
}

impl NumberText {
    const LONGEST: usize = 31;

    /// The text; none where it is too long for a number.
    fn new(text: &str) -> Option<Self> {
        let mut bytes = [0; Self::LONGEST];
        bytes
            .get_mut(..text.len())?
            .copy_from_slice(text.as_bytes());
        let length = text.len() as u8;
        Some(Self { bytes, length })
    }

    /// What is written of a number; none where it is too long.
    fn of(number: impl fmt::Display) -> Option<Self> {
        let mut bytes = [0; Self::LONGEST];
        let rest = &mut bytes.as_mut_slice();
        let before = rest.len();
        io::Write::write_fmt(rest, format_args!("{number}")).ok()?;
        let length = (before - rest.len()) as u8;
        Some(Self { bytes, length })
    }

    fn as_str(&self) -> &str {
        let bytes = self.bytes.get(..self.length.into()).unwrap_or(&[]);
        // A number is written in ASCII.
        std::str::from_utf8(bytes).unwrap_or("")
    }
}

impl ShownValue {
    /// A value as it is shown and as data.
    #[must_use]
    pub fn new(text: String, datum: Datum) -> Self {
        Self(Form::Shared(Rc::new((text, datum))))
    }

    const fn number(text: NumberText, datum: Datum) -> Self {
        Self(Form::Number(text, datum))
    }

    fn integer(number: impl itoa::Integer + Into<i128>) -> Option<Self> {
        let text = NumberText::new(itoa::Buffer::new().format(number))?;
        Some(Self::number(text, Datum::Integer(number.into())))
    }

    /// As it is shown.
    #[must_use]
    pub fn text(&self) -> &str {
        match &self.0 {
            Form::Number(text, _) => text.as_str(),
            Form::Shared(both) => &both.0,
        }
    }

    /// As data.
    #[must_use]
    pub fn datum(&self) -> &Datum {
        match &self.0 {
            Form::Number(_, datum) => datum,
            Form::Shared(both) => &both.1,
        }
    }

    /// Both.
    #[must_use]
    pub fn into_parts(self) -> (String, Datum) {
        match self.0 {
            Form::Number(text, datum) => (text.as_str().to_owned(), datum),
            Form::Shared(both) => Rc::unwrap_or_clone(both),
        }
    }
}

impl fmt::Debug for PlainValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of {} bytes", self.kind, self.size)
    }
}

impl PlainValue {
    /// The name of the values' type.
    #[must_use]
    pub const fn type_name(&self) -> &Rc<str> {
        &self.type_name
    }

    /// The value as text and as data; none where more is needed to know it.
    #[must_use]
    pub fn show(&self, state: &impl PlainState) -> Option<ShownValue> {
        let raw = self.number.work_out(&Saved(state)).ok()?;
        let number = |signed| wrap(i128::from(raw), self.size.into(), signed);
        match self.kind {
            PlainKind::Signed => ShownValue::integer(number(true) as i64),
            PlainKind::Unsigned => ShownValue::integer(number(false) as u64),
            PlainKind::Boolean => {
                let truth = match number(false) {
                    0 => false,
                    1 => true,
                    _ => return None,
                };
                let text = NumberText::of(truth)?;
                Some(ShownValue::number(text, Datum::Boolean(truth)))
            }
            PlainKind::Single => {
                let text = NumberText::new(&print_float(FloatFormat::Single, raw.into()))?;
                let datum = Datum::Float(f32::from_bits(raw as u32).into());
                Some(ShownValue::number(text, datum))
            }
            PlainKind::Double => {
                let number = f64::from_bits(raw);
                let text = match ShortNumber::of_double(number) {
                    Some(short) => NumberText::of(short)?,
                    None => NumberText::new(&print_float(FloatFormat::Double, raw.into()))?,
                };
                Some(ShownValue::number(text, Datum::Float(number)))
            }
            PlainKind::Shown { reach } => {
                if state.has_memory(raw, reach) {
                    return None;
                }
                let known = self.shown.borrow();
                Some(ShownValue(Form::Shared(Rc::clone(known.get(&raw)?))))
            }
        }
    }

    /// Remembers how the value was shown that the state has.
    pub fn remember(&self, state: &impl PlainState, shown: &ShownValue) {
        let (PlainKind::Shown { reach }, Form::Shared(both)) = (self.kind, &shown.0) else {
            return;
        };
        if let Ok(raw) = self.number.work_out(&Saved(state))
            && !state.has_memory(raw, reach)
        {
            let mut known = self.shown.borrow_mut();
            if known.len() >= MOST_TEXTS {
                known.clear();
            }
            known.insert(raw, Rc::clone(both));
        }
    }
}

impl PreparedExpression<'_> {
    /// The expression as one whose value is a number, where it is one.
    pub(super) fn plain(&self, walks: &TypeWalks<'_>) -> Option<PlainValue> {
        let machine = self.symbols().architecture()?;
        if self.is_redacted()
            || u64::from(machine.pointer_size()) != WORD
            || order(self.symbols()) != ByteOrder::Little
        {
            return None;
        }
        let type_id = self.node().type_id;
        let (kind, size) = PlainKind::of(walks, type_id, self.language())?;
        let evaluator = self.evaluator(&NoState);
        let object = object_of(&evaluator, self.node())?;
        let number = number_in(&object, size)?;
        // A value of the caller needs its frame.
        let is_simple = !number.is_state_only() && !number.too_large();
        is_simple.then(|| PlainValue {
            number,
            size: size as u8,
            kind,
            type_name: super::type_name(self.symbols(), type_id).into(),
            shown: RefCell::default(),
        })
    }
}

/// Where the object is that a node designates, where that is one place.
fn object_of(evaluator: &Evaluator<'_>, node: &Node) -> Option<Object> {
    let redacted = evaluator.symbols.redacted_ranges(node.type_id);
    if !redacted.is_empty() {
        return None;
    }
    match &node.kind {
        NodeKind::Place(variable) => match &*evaluator.object(variable).ok()? {
            object @ (Object::Memory(_) | Object::Register(..) | Object::Value(_)) => {
                Some(object.clone())
            }
            _ => None,
        },
        NodeKind::Register(register, offset) => Some(Object::Register(*register, *offset)),
        NodeKind::Dereference(pointer) => Some(Object::Memory(pointer_number(evaluator, pointer)?)),
        NodeKind::Field {
            of,
            offset,
            bits: None,
        } => Some(offset_by(object_of(evaluator, of)?, *offset)),
        _ => None,
    }
}

/// The number of a pointer.
fn pointer_number(evaluator: &Evaluator<'_>, node: &Node) -> Option<IntExpr> {
    let is_pointer = |node: &Node| {
        let found = scalar(evaluator.symbols, node.type_id);
        matches!(found, Scalar::Pointer { size: WORD, .. })
    };
    if !is_pointer(node) {
        return None;
    }
    match &node.kind {
        NodeKind::Convert(from) if is_pointer(from) => pointer_number(evaluator, from),
        _ => number_in(&object_of(evaluator, node)?, WORD),
    }
}

/// The number of so many bytes that an object holds.
fn number_in(object: &Object, size: u64) -> Option<IntExpr> {
    if let Object::Register(_, offset) = object
        && offset.checked_add(size)? > WORD
    {
        return None;
    }
    object_number(object, size)
}

/// What is not in a plain state.
struct NotPlain;

/// A plain state as the source of a computation.
struct Saved<'s, S>(&'s S);

impl<S: PlainState> Source for Saved<'_, S> {
    type Error = NotPlain;

    fn register(&self, register: RegisterNumber, from: usize) -> Result<u64, NotPlain> {
        match from {
            0 => self.0.register(register).ok_or(NotPlain),
            _ => Err(NotPlain),
        }
    }

    fn load(&self, address: u64, size: u8) -> Result<u64, NotPlain> {
        self.0.load(address, size).ok_or(NotPlain)
    }

    fn entry(&self, _: u16) -> Result<u64, NotPlain> {
        Err(NotPlain)
    }

    fn division_by_zero(&self) -> NotPlain {
        NotPlain
    }
}

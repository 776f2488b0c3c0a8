//! Values: evaluated from a saved state, and shown as GDB shows them.

use tracewire_tracefile::{Address, RegisterNumber};

use crate::{ExpressionError, Symbols, TypeId};

/// What was saved of a stopped thread: a trace frame, a core file.
pub trait State {
    /// Where the thread stood.
    fn pc(&self) -> Address;

    /// A register's bytes in target order, as many as it has; `None` if it was not saved.
    fn register(&self, register: RegisterNumber) -> Option<Vec<u8>>;

    /// Fills `bytes` from `address` on, and sets `known` to `true` for each byte that was saved; both slices have
    /// the same length, and `known` comes as all `false`. Read-only memory of the program's files need not be
    /// given: it is looked up where the state does not know a byte.
    fn memory(&self, address: Address, bytes: &mut [u8], known: &mut [bool]);

    /// A trace state variable by its name, without the `$`; `None` if it was not saved.
    fn variable(&self, name: &str) -> Option<i64>;

    /// Whether memory that is not known is not there at all (a core file), and not merely not collected (a trace
    /// frame). GDB shows the one as an error, the other as `<unavailable>`.
    fn unknown_memory_is_an_error(&self) -> bool {
        false
    }
}

/// How values are shown: GDB's `set print …`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PrintOptions {
    /// How many elements of an array, characters of a string are shown (`print elements`).
    pub elements: u64,
    /// From how many equal elements on they are shown once (`print repeats`).
    pub repeats: u64,
    /// How deep nested structures are shown (`print max-depth`).
    pub depth: u32,
    /// Whether characters beyond ASCII are shown as they are (a UTF-8 locale) or as octal escapes.
    pub utf8: bool,
}

impl Default for PrintOptions {
    /// GDB's defaults, in a UTF-8 locale.
    fn default() -> Self {
        Self {
            elements: 200,
            repeats: 10,
            depth: 20,
            utf8: true,
        }
    }
}

/// A value: a type and its bytes, of which some may be unknown.
#[derive(Clone, Debug)]
pub struct Value {
    type_id: TypeId,
}

impl Value {
    /// Its type.
    #[must_use]
    pub const fn type_id(&self) -> TypeId {
        self.type_id
    }

    /// The value as GDB's `print` shows it, without the `$1 = `. Memory that pointers lead to is read from
    /// `state`.
    #[must_use]
    pub fn print(&self, symbols: &Symbols, state: &dyn State, options: &PrintOptions) -> String {
        let _ = (symbols, state, options);
        String::new()
    }
}

/// Evaluates an expression at a saved state, as GDB's `print` does in the innermost frame.
///
/// # Errors
/// When the text is no expression, names something that is not there, or computes with what was not saved.
pub fn evaluate(
    symbols: &Symbols,
    state: &dyn State,
    text: &str,
) -> Result<Value, ExpressionError> {
    let _ = (symbols, state);
    Err(ExpressionError::new(
        crate::ExpressionErrorKind::Unsupported("not yet".to_owned()),
        text,
        crate::expression::Span::default(),
    ))
}

/// A value with the name it is shown under.
#[derive(Debug)]
pub struct NamedValue {
    /// The variable's or register's name, or the expression.
    pub name: String,
    /// Its value, or why there is none.
    pub value: Result<Value, ExpressionError>,
}

/// What an item of a `collect` stands for: `$args`, `$locals` and `$regs` give one value for each variable or
/// register, any other expression one value.
#[must_use]
pub fn expand(symbols: &Symbols, state: &dyn State, item: &str) -> Vec<NamedValue> {
    vec![NamedValue {
        name: item.to_owned(),
        value: evaluate(symbols, state, item),
    }]
}

/// A type's name, as GDB's `whatis` shows it.
#[must_use]
pub fn type_name(symbols: &Symbols, type_id: TypeId) -> String {
    let _ = (symbols, type_id);
    String::new()
}

//! What a script compiles to: conditions, and the actions of a tracepoint.

use tracewire_tracefile::{Action, Address, RegisterMask, VariableNumber};

use super::{ExpressionError, ExpressionErrorKind};
use crate::Symbols;

/// The trace state variables that exist.
pub trait Variables {
    /// The number of the variable called `name` (without the `$`); `None` if there is none.
    fn number(&self, name: &str) -> Option<VariableNumber>;
}

impl<F: Fn(&str) -> Option<VariableNumber>> Variables for F {
    fn number(&self, name: &str) -> Option<VariableNumber> {
        self(name)
    }
}

/// How `collect` treats what it is given.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CollectOptions {
    /// `collect/s`: what `char` pointers point to and what `char` arrays hold is collected up to its NUL, at most
    /// so many bytes. The inner `None` is GDB's default of 200.
    pub string: Option<Option<u64>>,
}

/// Something the user should know of an action that was compiled all the same.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Warning {
    /// The variable that is left out of a list (`$locals`, `$args`), or the expression.
    pub name: String,
    /// Why: it was optimized out, or its place cannot be worked out.
    pub message: String,
}

/// Compiles a tracepoint's condition (`if TEXT`) at `pc`, to bytecode that leaves its truth value.
///
/// # Errors
/// When the text is no expression, names something that is not there, or needs what agent expressions cannot do.
pub fn compile_condition(
    symbols: &Symbols,
    pc: Address,
    text: &str,
    variables: &dyn Variables,
) -> Result<Vec<u8>, ExpressionError> {
    let _ = (symbols, pc, variables);
    Err(not_yet(text))
}

/// Compiles `teval TEXT` at `pc`, to bytecode that leaves nothing.
///
/// # Errors
/// As [`compile_condition`].
pub fn compile_teval(
    symbols: &Symbols,
    pc: Address,
    text: &str,
    variables: &dyn Variables,
) -> Result<Vec<u8>, ExpressionError> {
    let _ = (symbols, pc, variables);
    Err(not_yet(text))
}

/// Compiles one item of `collect`: an [`ActionList`] of one item.
///
/// # Errors
/// As [`ActionList::collect`].
pub fn compile_collect(
    symbols: &Symbols,
    pc: Address,
    item: &str,
    options: CollectOptions,
    variables: &dyn Variables,
) -> Result<(Vec<Action>, Vec<Warning>), ExpressionError> {
    let mut list = ActionList::new(symbols, pc, variables);
    let warnings = list.collect(item, options)?;
    Ok((list.finish(), warnings))
}

/// The actions of one tracepoint location (or of its `while-stepping`), put together from the lines of its
/// `actions` block. As in GDB, the registers and the memory at fixed addresses are gathered over all lines, and
/// the expressions follow in the order of the lines.
pub struct ActionList<'a> {
    symbols: &'a Symbols,
    pc: Address,
    variables: &'a dyn Variables,
    registers: RegisterMask,
}

impl<'a> ActionList<'a> {
    /// No actions yet.
    #[must_use]
    pub fn new(symbols: &'a Symbols, pc: Address, variables: &'a dyn Variables) -> Self {
        Self {
            symbols,
            pc,
            variables,
            registers: RegisterMask::default(),
        }
    }

    /// Adds one item of a `collect` line (what stands between two commas at the top level; see
    /// [`split_items`](crate::split_items)): `$regs`, `$args`, `$locals`, `$_ret`, `$_sdata`, `$register`, a trace
    /// state variable, or any expression. What it gives back was left out and why.
    ///
    /// # Errors
    /// When the item is no expression, names something that is not there, was optimized out, or needs what agent
    /// expressions cannot do. The list is as before then.
    pub fn collect(
        &mut self,
        item: &str,
        options: CollectOptions,
    ) -> Result<Vec<Warning>, ExpressionError> {
        let _ = (options, self.symbols, self.pc, self.variables);
        Err(not_yet(item))
    }

    /// Adds a `teval`.
    ///
    /// # Errors
    /// As [`compile_condition`].
    pub fn teval(&mut self, text: &str) -> Result<(), ExpressionError> {
        Err(not_yet(text))
    }

    /// The actions: registers (`R`), memory (`M`), then expressions (`X`).
    #[must_use]
    pub fn finish(self) -> Vec<Action> {
        vec![Action::Registers(self.registers)]
    }
}

fn not_yet(text: &str) -> ExpressionError {
    let kind = ExpressionErrorKind::Unsupported("not yet".to_owned());
    ExpressionError::new(kind, text, super::error::Span::default())
}

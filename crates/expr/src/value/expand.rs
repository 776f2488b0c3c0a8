//! The names and values that the items of a `collect` line stand for.

use tracewire_arch::{Architecture, Machine};
use tracewire_model::{Address, RegisterNumber};

use super::contents::Value;
use super::datum::Shape;
use super::plain::PlainValue;
use super::prepare::PreparedExpression;
use super::state::State;
use crate::Span;
use crate::inlined::{inlined_variables, is_inlined};
use crate::int_expr::IntExpr;
use crate::location::Locator;
use crate::node::{Node, NodeKind};
use crate::register_names::register_name;
use crate::scalar::builtin;
use crate::walk::TypeWalks;
use crate::{ExpressionError, ExpressionErrorKind};
use tracewire_debuginfo::{RegisterRule, Scope, Symbols, Variable};

/// A value with the name it is shown under.
#[derive(Debug)]
pub struct NamedValue {
    /// The variable's or register's name, or the expression.
    pub name: String,
    /// Its value, or why there is none.
    pub value: Result<Value, ExpressionError>,
}

/// The values that an item of a `collect` stands for. `$args`, `$locals`, `$inlined` and `$regs` give one value for each saved
/// variable or register (a variable that was optimized out gives a value that says so). `$_ret` gives the return address,
/// `$_sdata` nothing, and any other expression one value.
#[must_use]
pub fn expand(symbols: &Symbols, state: &dyn State, item: &str) -> Vec<NamedValue> {
    PreparedItem::new(symbols, state.pc(), item).expand(state)
}

/// An item of a `collect` as it is understood at one place of a program.
#[derive(Debug)]
pub struct PreparedItem<'a> {
    parts: Vec<Part<'a>>,
}

/// One of the values that an item stands for.
#[derive(Debug)]
struct Part<'a> {
    name: String,
    kind: PartKind<'a>,
}

#[derive(Debug)]
enum PartKind<'a> {
    Expression(Result<PreparedExpression<'a>, ExpressionError>),
    /// One of all registers, of which only the saved ones are listed.
    Register(
        RegisterNumber,
        Result<PreparedExpression<'a>, ExpressionError>,
    ),
    /// The return address: of the type that the expression has, this far from the frame's address.
    Return(Result<(PreparedExpression<'a>, IntExpr, i64), ExpressionError>),
}

impl<'a> PreparedItem<'a> {
    /// Prepares an item for its scope. Errors are reported when it is expanded.
    #[must_use]
    pub fn new(symbols: &'a Symbols, scope: impl Into<Scope>, item: &str) -> Self {
        let scope = scope.into();
        let pc = scope.pc;
        let item = item.trim();
        let lower = item.to_ascii_lowercase();
        let variables = |variables: Vec<Variable>| {
            let part = |variable: Variable| Part {
                name: variable.name.clone(),
                kind: PartKind::Expression(Ok(PreparedExpression::of_variable(
                    symbols, scope, variable,
                ))),
            };
            variables.into_iter().map(part).collect()
        };
        let one = |kind| {
            let name = item.to_owned();
            vec![Part { name, kind }]
        };
        // Only the first letters count, as in GDB.
        let parts = match lower.strip_prefix('$') {
            Some(name) if name.starts_with("arg") => {
                variables(symbols.variables_at(scope).arguments)
            }
            Some(name) if name.starts_with("loc") => variables(symbols.variables_at(scope).locals),
            Some(_) if is_inlined(item) => {
                variables(inlined_variables(symbols, pc).unwrap_or_default())
            }
            Some(name) if name.starts_with("reg") => registers(symbols, pc),
            Some(name) if name.starts_with("_sdata") => Vec::new(),
            Some(name) if name.starts_with("_ret") => {
                one(PartKind::Return(return_address(symbols, pc, item)))
            }
            _ => one(PartKind::Expression(PreparedExpression::new(
                symbols, scope, item,
            ))),
        };
        Self { parts }
    }

    /// The names of the values, and what data each is; none where it has no meaning there.
    #[must_use]
    pub fn shapes(&self, walks: &TypeWalks<'_>) -> Vec<(String, Option<Shape>)> {
        let shape = |part: &Part<'_>| match &part.kind {
            PartKind::Expression(expression) | PartKind::Register(_, expression) => {
                Some(expression.as_ref().ok()?.shape(walks))
            }
            PartKind::Return(expression) => Some(expression.as_ref().ok()?.0.shape(walks)),
        };
        let parts = self.parts.iter();
        parts.map(|part| (part.name.clone(), shape(part))).collect()
    }

    /// The names of the values, each with a shorter way to it where there is one.
    #[must_use]
    pub fn plain(&self, walks: &TypeWalks<'_>) -> Vec<(String, Option<PlainValue>)> {
        let plain = |part: &Part<'_>| match &part.kind {
            PartKind::Expression(expression) => expression.as_ref().ok()?.plain(walks),
            PartKind::Register(..) | PartKind::Return(_) => None,
        };
        let parts = self.parts.iter();
        parts.map(|part| (part.name.clone(), plain(part))).collect()
    }

    /// One of the values, by its place among the names; none of a register that was not saved.
    #[must_use]
    pub fn value(&self, at: usize, state: &dyn State) -> Option<Result<Value, ExpressionError>> {
        self.parts.get(at)?.value(state)
    }

    /// The values at a state where the thread was at the item's place, as [`expand`] gives them.
    #[must_use]
    pub fn expand(&self, state: &dyn State) -> Vec<NamedValue> {
        self.expand_some(state, |_| true)
    }

    /// As [`Self::expand`], only the values of these names. The others are not evaluated.
    pub fn expand_some(
        &self,
        state: &dyn State,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Vec<NamedValue> {
        let parts = self.parts.iter().filter(|part| is_wanted(&part.name));
        let values = parts.filter_map(|part| {
            Some(NamedValue {
                name: part.name.clone(),
                value: part.value(state)?,
            })
        });
        values.collect()
    }
}

impl Part<'_> {
    /// Its value; none of a register that was not saved.
    fn value(&self, state: &dyn State) -> Option<Result<Value, ExpressionError>> {
        let evaluated = |expression: &Result<PreparedExpression<'_>, ExpressionError>| {
            expression.as_ref().map_err(Clone::clone)?.evaluate(state)
        };
        Some(match &self.kind {
            PartKind::Expression(expression) => evaluated(expression),
            PartKind::Register(register, expression) => {
                state.register(*register)?;
                evaluated(expression)
            }
            PartKind::Return(Err(error)) => Err(error.clone()),
            PartKind::Return(Ok((expression, frame, offset))) => expression
                .evaluator(state)
                .frame_slot(frame, *offset, expression.node()),
        })
    }
}

fn registers(symbols: &Symbols, pc: Address) -> Vec<Part<'_>> {
    let architecture = symbols.architecture().unwrap_or(Architecture::X86_64);
    Machine::with_linux(architecture)
        .core_registers()
        .iter()
        .copied()
        .filter_map(|register| Some((register, register_name(architecture, register)?)))
        .map(|(register, name)| Part {
            name: name.to_owned(),
            kind: PartKind::Register(
                register,
                PreparedExpression::new(symbols, pc, &format!("${name}")),
            ),
        })
        .collect()
}

fn return_address<'a>(
    symbols: &'a Symbols,
    pc: Address,
    item: &str,
) -> Result<(PreparedExpression<'a>, IntExpr, i64), ExpressionError> {
    let span = Span {
        start: 0,
        end: item.len(),
    };
    let unknown = || {
        let reason = "no call frame information covers the address".to_owned();
        let kind = ExpressionErrorKind::NoLocation {
            name: item.to_owned(),
            reason,
        };
        ExpressionError::new(kind, item, span)
    };
    let row = symbols.unwind(pc).ok_or_else(unknown)?;
    let rule = row
        .registers
        .into_iter()
        .find(|(register, _)| *register == row.return_address);
    let Some((_, RegisterRule::Offset(offset))) = rule else {
        return Err(unknown());
    };
    let pointer = symbols.pointer_to(builtin(symbols, "void"));
    let locator = Locator {
        symbols,
        pc,
        callers: false,
    };
    let frame = locator.frame_address().map_err(|_| unknown())?;
    let variable = Variable {
        name: item.to_owned(),
        type_id: pointer,
        kind: tracewire_debuginfo::VariableKind::Local,
        location: tracewire_debuginfo::VariableLocation::OptimizedOut,
        artificial: true,
        shadowed: false,
        depth: 0,
    };
    let node = Node::new(NodeKind::Place(variable.into()), pointer, span);
    let expression = PreparedExpression::of(symbols, pc.into(), item, node);
    Ok((expression, frame, offset))
}

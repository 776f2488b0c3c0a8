//! What the items of a `collect` line stand for, as names and values.

use tracewire_tracefile::Architecture;

use super::contents::Value;
use super::evaluate::{Evaluator, evaluate};
use super::state::State;
use crate::expression::Span;
use crate::expression::node::{Node, NodeKind};
use crate::expression::register_names::{core_registers, register_name};
use crate::expression::resolve::{NoVariables, Resolver};
use crate::{ExpressionError, ExpressionErrorKind, RegisterRule, Symbols, Variable};

/// A value with the name it is shown under.
#[derive(Debug)]
pub struct NamedValue {
    /// The variable's or register's name, or the expression.
    pub name: String,
    /// Its value, or why there is none.
    pub value: Result<Value, ExpressionError>,
}

/// What an item of a `collect` stands for: `$args`, `$locals` and `$regs` give one value for each variable or
/// register that was saved (a variable that was optimized out gives a value that says so), `$_ret` the return
/// address, `$_sdata` nothing, and any other expression one value.
#[must_use]
pub fn expand(symbols: &Symbols, state: &dyn State, item: &str) -> Vec<NamedValue> {
    let item = item.trim();
    let lower = item.to_ascii_lowercase();
    let named = |variables: Vec<Variable>| {
        (variables.into_iter())
            .map(|variable| NamedValue {
                name: variable.name.clone(),
                value: variable_value(symbols, state, variable),
            })
            .collect()
    };
    // Only the first letters count, as in GDB.
    match lower.strip_prefix('$') {
        Some(name) if name.starts_with("arg") => named(symbols.variables_at(state.pc()).arguments),
        Some(name) if name.starts_with("loc") => named(symbols.variables_at(state.pc()).locals),
        Some(name) if name.starts_with("reg") => registers(symbols, state),
        Some(name) if name.starts_with("_sdata") => Vec::new(),
        Some(name) if name.starts_with("_ret") => vec![NamedValue {
            name: item.to_owned(),
            value: return_address(symbols, state, item),
        }],
        _ => vec![NamedValue {
            name: item.to_owned(),
            value: evaluate(symbols, state, item),
        }],
    }
}

fn variable_value(
    symbols: &Symbols,
    state: &dyn State,
    variable: Variable,
) -> Result<Value, ExpressionError> {
    let name = variable.name.clone();
    let resolver = Resolver {
        symbols,
        pc: state.pc(),
        language: symbols.language_at(Some(state.pc())),
        variables: &NoVariables,
        text: &name,
    };
    let node = resolver.place(
        variable,
        Span {
            start: 0,
            end: name.len(),
        },
    );
    Evaluator::new(symbols, state, &name).value(&node)
}

fn registers(symbols: &Symbols, state: &dyn State) -> Vec<NamedValue> {
    let architecture = symbols.architecture().unwrap_or(Architecture::X86_64);
    core_registers(architecture)
        .into_iter()
        .filter(|register| state.register(*register).is_some())
        .filter_map(|register| register_name(architecture, register))
        .map(|name| NamedValue {
            name: name.to_owned(),
            value: evaluate(symbols, state, &format!("${name}")),
        })
        .collect()
}

fn return_address(
    symbols: &Symbols,
    state: &dyn State,
    item: &str,
) -> Result<Value, ExpressionError> {
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
    let row = symbols.unwind(state.pc()).ok_or_else(unknown)?;
    let rule = row
        .registers
        .into_iter()
        .find(|(register, _)| *register == row.return_address);
    let Some((_, RegisterRule::Offset(offset))) = rule else {
        return Err(unknown());
    };
    let pointer = symbols.pointer_to(crate::expression::scalar::builtin(symbols, "void"));
    let frame = crate::expression::location::Locator {
        symbols,
        pc: state.pc(),
        callers: false,
    }
    .frame_address()
    .map_err(|_| unknown())?;
    let variable = Variable {
        name: item.to_owned(),
        type_id: pointer,
        kind: crate::VariableKind::Local,
        location: crate::VariableLocation::OptimizedOut,
        artificial: true,
        shadowed: false,
        depth: 0,
    };
    let node = Node::new(NodeKind::Place(variable.into()), pointer, span);
    Evaluator::new(symbols, state, item).frame_slot(&frame, offset, &node)
}

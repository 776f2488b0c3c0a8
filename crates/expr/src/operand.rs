//! Keys and values of aggregates: numbers and texts that a hit computes and does not collect.

use tracewire_debuginfo::{Scope, Symbols, Type};
use tracewire_model::{KEY_TEXT, KeyKind, Operand};

use crate::collect::is_character;
use crate::compile::{Numbered, Variables, lower, program};
use crate::int_expr::{Binary, IntExpr};
use crate::resolve::{Resolver, Result};
use crate::scalar::{Scalar, scalar, strip};
use crate::{ExpressionError, ExpressionErrorKind};

/// The most names of an enumeration that are kept.
const MOST_NAMES: usize = 256;

/// A key or a value, compiled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CompiledOperand {
    /// The programs.
    pub operand: Operand,
    /// Its kind for a reader.
    pub kind: KeyKind,
}

/// Compiles an expression as seen from a place: a number, an enumerator, a truth value, a pointer, or a text (a pointer to characters, an
/// array of them, or a string with a length).
///
/// # Errors
/// When it is no expression, names something that is not there, or is none of these.
pub fn compile_operand(
    symbols: &Symbols,
    scope: impl Into<Scope>,
    text: &str,
    variables: &dyn Variables,
) -> Result<CompiledOperand> {
    let scope = scope.into();
    let numbered = Numbered(variables);
    let resolver = Resolver::new(symbols, scope, text, &numbered);
    let node = resolver.node()?;
    crate::redaction::refuse(symbols, scope, &node, text)?;
    let lower = lower(symbols, scope, text);
    let program = |number: &IntExpr| program(number, text);
    let of_text = |address: &IntExpr, length: Option<IntExpr>| {
        let length = length.map(|length| {
            let most = IntExpr::constant(KEY_TEXT as u64);
            let fits = IntExpr::binary(Binary::LessUnsigned, length.clone(), most.clone());
            program(&IntExpr::choose(fits, length, most))
        });
        Ok(CompiledOperand {
            operand: Operand::Text {
                address: program(address)?,
                length: length.transpose()?,
            },
            kind: KeyKind::Text,
        })
    };
    if let Some((data, length)) = resolver.characters(&node) {
        return of_text(&lower.value(&data)?, Some(lower.value(&length)?));
    }
    let array = match scalar(symbols, node.type_id) {
        Scalar::Array { element, count } if is_character(symbols, element) => count,
        _ => None,
    };
    let node = resolver.value(node);
    let shape = scalar(symbols, node.type_id);
    if let Scalar::Pointer { target, .. } = shape
        && is_character(symbols, target)
    {
        return of_text(&lower.value(&node)?, array.map(IntExpr::constant));
    }
    if !matches!(
        shape,
        Scalar::Integer { .. } | Scalar::Boolean { .. } | Scalar::Pointer { .. }
    ) {
        let kind = ExpressionErrorKind::Type(
            "A number, an enumerator, a pointer or a text is needed here.".to_owned(),
        );
        return Err(ExpressionError::new(kind, text, node.span));
    }
    let kind = match (&*strip(symbols, node.type_id).1, shape) {
        (Type::Enumeration { enumerators, .. }, _) => {
            let names = enumerators.iter().take(MOST_NAMES);
            let name = |known: &tracewire_debuginfo::Enumerator| {
                Some((i64::try_from(known.value).ok()?, known.name.clone()))
            };
            KeyKind::Named(names.filter_map(name).collect())
        }
        (_, Scalar::Boolean { .. }) => KeyKind::Truth,
        (_, Scalar::Pointer { .. }) => KeyKind::Address,
        (_, Scalar::Integer { signed: false, .. }) => KeyKind::Unsigned,
        _ => KeyKind::Signed,
    };
    Ok(CompiledOperand {
        operand: Operand::Number(program(&lower.value(&node)?)?),
        kind,
    })
}

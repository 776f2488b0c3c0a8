//! Objects that debug registers can watch: those at a fixed address.

use tracewire_debuginfo::{Scope, Symbols};
use tracewire_model::Address;

use crate::compile::{Numbered, Variables, lower};
use crate::node::NodeKind;
use crate::object::Object;
use crate::resolve::{Result, resolve};
use crate::scalar::{scalar, storage_size};
use crate::{ExpressionError, ExpressionErrorKind};

/// An object at an address that no register and no memory decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FixedObject {
    /// Where it is.
    pub address: Address,
    /// How many bytes it has. Of a bit-field, those that have bits of it.
    pub length: u64,
    /// Whether it is a number with a sign.
    pub is_signed: bool,
}

impl FixedObject {
    /// Finds the object that an expression names.
    ///
    /// # Errors
    /// When the text is no expression, names something that does not exist, is redacted or has a redacted part. Also when it is
    /// no object with an address that is known before the program runs: a local variable, the target of a pointer.
    pub fn of(
        symbols: &Symbols,
        scope: impl Into<Scope>,
        text: &str,
        variables: &dyn Variables,
    ) -> Result<Self> {
        let scope = scope.into();
        let node = resolve(symbols, scope, text, &Numbered(variables))?;
        let error = |kind| ExpressionError::new(kind, text, node.span);
        crate::redaction::refuse(symbols, scope, &node, text)?;
        if !symbols.redacted_ranges(node.type_id).is_empty() {
            return Err(error(ExpressionErrorKind::Redacted));
        }
        let address = match lower(symbols, scope, text).object(&node)? {
            _ if matches!(node.kind, NodeKind::Function(_)) => {
                let words = "This is code; a tracepoint on it is `-t FUNCTION`.";
                return Err(error(ExpressionErrorKind::Type(words.to_owned())));
            }
            Object::Memory(address) => address.as_constant(),
            Object::Value(_) | Object::Bytes(_) | Object::Synthetic(_) => {
                let words = "This is a value and no object: it cannot be written to.";
                return Err(error(ExpressionErrorKind::Type(words.to_owned())));
            }
            Object::Register(..) | Object::Pieces(_) | Object::OptimizedOut => None,
        };
        let Some(address) = address else {
            let words = "Only what stays at one address can be watched: a variable with static storage, a part of one, or \
                         *(TYPE *) ADDRESS.";
            return Err(error(ExpressionErrorKind::Unsupported(words.to_owned())));
        };
        let (skipped, length) = match node.kind {
            NodeKind::Field {
                bits: Some((first, width)),
                ..
            } => (first / 8, (first % 8).saturating_add(width).div_ceil(8)),
            _ => (0, storage_size(symbols, node.type_id).unwrap_or(0)),
        };
        if length == 0 {
            let words = "This has no size, so nothing of it can be watched.";
            return Err(error(ExpressionErrorKind::Type(words.to_owned())));
        }
        let is_signed = scalar(symbols, node.type_id)
            .as_number()
            .is_some_and(|(_, signed)| signed);
        Ok(Self {
            address: Address(address.wrapping_add(skipped)),
            length,
            is_signed,
        })
    }
}

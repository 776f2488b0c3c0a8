//! The features of GDB's own compiler of agent expressions.

use tracewire_model::VariableNumber;

use crate::inlined::is_inlined;
use crate::names::RETURN_VALUE;
use crate::node::{Node, NodeKind};
use crate::register_names::{is_only_alias, register_size};
use crate::resolve::{StateVariables, resolve, resolve_with_parts};
use crate::scalar::{Scalar, scalar, strip};
use tracewire_debuginfo::{
    ExpressionOperation, Language, Scope, Symbols, Type, TypeId, Variable, VariableKind,
    VariableLocation,
};

/// Whether GDB 13 compiles `collect TEXT` at a place with the meaning that it has in the scope's frame. GDB compiles it when it
/// opens a trace file, and stops reading tracepoints at a failure. It sees names from the innermost frame at an address, even if
/// the location names another function.
///
/// True only where that is certain: variables in registers and in memory, their members, pointers, fixed repetitions, and integer
/// arithmetic. GDB does not support floating point there, members of anonymous structures, repetition by a variable, or a
/// variable in several pieces of optimised code.
#[must_use]
pub fn gdb_can_collect(symbols: &Symbols, scope: impl Into<Scope>, text: &str) -> bool {
    let scope = scope.into();
    let name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if let Some(rest) = text.trim().strip_prefix('$')
        && rest.chars().all(name)
        && !rest.starts_with("_probe_arg")
    {
        if matches!(rest, "stack" | "stack_fp" | RETURN_VALUE | "duration") {
            return false;
        }
        let variables = ["arg", "loc"].iter().any(|group| {
            rest.get(..group.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(group))
        });
        if variables && scope.level > 0 || is_inlined(text) {
            return false;
        }
        // GDB cannot trace an alias of a register.
        return symbols
            .architecture()
            .is_none_or(|machine| !is_only_alias(machine, rest));
    }
    let rust = symbols.language_at(Some(scope.pc)) == Language::Rust;
    seen_by_gdb(symbols, scope, text).is_some_and(|node| can_compile(symbols, rust, &node))
}

/// Whether GDB 13 reads a condition at a place with the meaning that it has in the scope's frame. GDB reads it when it opens a
/// trace file, and stops reading tracepoints at a failure.
#[must_use]
pub fn gdb_can_read(symbols: &Symbols, scope: impl Into<Scope>, condition: &str) -> bool {
    seen_by_gdb(symbols, scope.into(), condition).is_some()
}

/// An expression as GDB reads it: from the innermost frame. None where it has another meaning there than from `scope`.
fn seen_by_gdb(symbols: &Symbols, scope: Scope, text: &str) -> Option<Node> {
    let innermost = Scope::from(scope.pc);
    let (node, has_parts) = resolve_with_parts(symbols, innermost, text, &AnyVariable).ok()?;
    // `FUNCTION::VARIABLE` is a static variable to GDB.
    let qualified = |variable: &Variable| {
        is_of_frame(variable) && (variable.name.contains("::") || variable.name.starts_with('$'))
    };
    if has_parts || any_variable(&node, &qualified) {
        return None;
    }
    if scope == innermost {
        return Some(node);
    }
    let meant = resolve(symbols, scope, text, &AnyVariable).ok()?;
    (!any_variable(&node, &is_of_frame) && !any_variable(&meant, &is_of_frame)).then_some(node)
}

/// Whether an expression names a variable of a kind. The node's depth was bounded by the parser.
fn any_variable(node: &Node, is_it: &dyn Fn(&Variable) -> bool) -> bool {
    matches!(&node.kind, NodeKind::Place(variable) if is_it(variable))
        || (node.operands().into_iter()).any(|operand| any_variable(operand, is_it))
}

/// Whether it is an argument or a local variable.
fn is_of_frame(variable: &Variable) -> bool {
    matches!(variable.kind, VariableKind::Argument | VariableKind::Local)
}

/// Trace state variables are no obstacle.
struct AnyVariable;

impl StateVariables for AnyVariable {
    fn lookup(&self, _: &str) -> Option<Option<VariableNumber>> {
        Some(None)
    }
}

/// The node's depth was bounded by the parser.
fn can_compile(symbols: &Symbols, rust: bool, node: &Node) -> bool {
    let itself = match &node.kind {
        NodeKind::Register(register, offset) => {
            // In an expression, a part of a register is a register that GDB "cannot yet trace".
            let part = scalar(symbols, node.type_id)
                .as_number()
                .is_some_and(|(size, _)| {
                    symbols
                        .architecture()
                        .and_then(|machine| register_size(machine, *register))
                        .is_some_and(|whole| size < whole)
                });
            *offset == 0 && !part
        }
        NodeKind::Integer(_)
        | NodeKind::Variable(..)
        | NodeKind::Function(_)
        | NodeKind::Dereference(_)
        | NodeKind::AddressOf(_) => true,
        NodeKind::Float(_)
        | NodeKind::Bytes(_)
        | NodeKind::Repeat(..)
        | NodeKind::Subject(_)
        | NodeKind::Search(_)
        | NodeKind::With(..)
        | NodeKind::StringEqual { .. } => false,
        NodeKind::Place(_) if rust && is_whole(symbols, node.type_id) => false,
        NodeKind::Place(variable) => is_plain(&variable.location),
        // GDB compiles no member of Rust's, and takes a whole variable for a number.
        NodeKind::Field { .. } if rust => false,
        NodeKind::Field { of, offset, .. } => {
            is_array(symbols, of.type_id)
                || is_array(symbols, node.type_id) && *offset == 0
                || is_named_member(symbols, of.type_id, *offset, node.type_id, 0)
        }
        NodeKind::Convert(_)
        | NodeKind::Negate(_)
        | NodeKind::BitNot(_)
        | NodeKind::LogicalNot(_)
        | NodeKind::Arithmetic(..)
        | NodeKind::Compare(..)
        | NodeKind::PointerAdd { .. }
        | NodeKind::PointerDifference(..)
        | NodeKind::And(..)
        | NodeKind::Or(..)
        | NodeKind::Conditional(..)
        | NodeKind::Comma(..)
        | NodeKind::Assign(..) => {
            let whole = |node: &Node| !is_float(symbols, node.type_id);
            whole(node) && node.operands().into_iter().all(whole)
        }
    };
    itself
        && node
            .operands()
            .into_iter()
            .all(|operand| can_compile(symbols, rust, operand))
}

fn is_whole(symbols: &Symbols, type_id: TypeId) -> bool {
    let stripped = strip(symbols, type_id).1;
    matches!(&*stripped, Type::Structure { .. } | Type::Array { .. })
}

/// Whether a part is an element, or a whole is so many objects after one another.
fn is_array(symbols: &Symbols, type_id: TypeId) -> bool {
    matches!(&*strip(symbols, type_id).1, Type::Array { .. })
}

fn is_float(symbols: &Symbols, type_id: TypeId) -> bool {
    matches!(scalar(symbols, type_id), Scalar::Float { .. })
}

/// Whether the variable is in one register or at one address.
fn is_plain(location: &VariableLocation) -> bool {
    match location {
        VariableLocation::Static(_) => true,
        VariableLocation::Expression(expression) => matches!(
            expression.operations().as_deref(),
            Ok([(
                _,
                ExpressionOperation::Register { .. }
                    | ExpressionOperation::RegisterOffset { .. }
                    | ExpressionOperation::FrameOffset { .. }
                    | ExpressionOperation::Address { .. }
            )])
        ),
        _ => false,
    }
}

/// Whether the part is a member by name, of the structure or of a base class of it.
fn is_named_member(
    symbols: &Symbols,
    structure: TypeId,
    offset: u64,
    part: TypeId,
    depth: u32,
) -> bool {
    // Deeper than any program's classes; those of damaged debug information may be their own bases.
    const DEEPEST: u32 = 16;
    let Type::Structure { members, .. } = &*strip(symbols, structure).1 else {
        return false;
    };
    members.iter().any(|member| {
        let inside = member.base_class && depth < DEEPEST;
        match offset.checked_sub(member.offset) {
            Some(rest) if inside => {
                is_named_member(symbols, member.type_id, rest, part, depth + 1)
                    || (rest == 0 && member.type_id == part)
            }
            Some(0) => member.name.is_some() && member.type_id == part,
            _ => false,
        }
    })
}

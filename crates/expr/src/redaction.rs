//! Redacted data: expressions that lead to it, the bytes of objects around it, and the registers and the stack at a place with a
//! redacted variable.

use tracewire_arch::{Architecture, Machine, gdb_register};
use tracewire_debuginfo::{ByteRange, RegisterRule, Scope, Symbols, Variable};
use tracewire_model::{Address, RegisterMask, RegisterNumber};

use crate::int_expr::{IntExpr, Operation};
use crate::location::Locator;
use crate::names::RETURN_VALUE;
use crate::node::{Node, NodeKind};
use crate::object::Object;
use crate::scalar::{Scalar, scalar};
use crate::{ExpressionError, ExpressionErrorKind};

/// The most pieces in which one object is collected; the rest is left out.
const MOST_PIECES: usize = 256;

/// Whether an expression leads to redacted data in any way: its value, its address, or a number computed with it.
pub(crate) fn is_redacted(symbols: &Symbols, scope: Scope, node: &Node) -> bool {
    !symbols.redactions().is_empty() && leads_to_redacted(symbols, scope, node, false)
}

/// Returns an error for an expression that leads to redacted data.
pub(crate) fn refuse(
    symbols: &Symbols,
    scope: Scope,
    node: &Node,
    text: &str,
) -> Result<(), ExpressionError> {
    match is_redacted(symbols, scope, node) {
        true => Err(ExpressionError::new(
            ExpressionErrorKind::Redacted,
            text,
            node.span,
        )),
        false => Ok(()),
    }
}

fn leads_to_redacted(symbols: &Symbols, scope: Scope, node: &Node, is_read: bool) -> bool {
    let is_read = is_read || matches!(node.kind, NodeKind::Dereference(_));
    let here = match &node.kind {
        NodeKind::Place(variable) => is_variable_redacted(symbols, scope, variable),
        NodeKind::Field { bits, .. } => {
            let size = match bits {
                Some((first, width)) => (first % 8).saturating_add(*width).div_ceil(8),
                None => crate::scalar::storage_size(symbols, node.type_id).unwrap_or(1),
            };
            let ranges = redacted_in(symbols, node, size);
            size > 0 && matches!(&ranges[..], [(0, length)] if *length >= size)
        }
        // As another type, all of the object can be read.
        NodeKind::Convert(from) if is_read => {
            let target = |node: &Node| match scalar(symbols, node.type_id) {
                Scalar::Pointer { target, .. } => Some(target),
                _ => None,
            };
            target(from).is_some_and(|held| {
                let ranges = symbols.redacted_ranges(held);
                let is_same = target(node).is_some_and(|to| symbols.redacted_ranges(to) == ranges);
                !ranges.is_empty() && !is_same
            })
        }
        NodeKind::Repeat(first, _) => {
            let (root, _) = root_of(first);
            !symbols.redacted_ranges(root.type_id).is_empty()
                || !symbols.redacted_ranges(first.type_id).is_empty()
        }
        NodeKind::Search(search) => leads_to_redacted(symbols, scope, &search.object, is_read),
        // Each may hold a copy of redacted data.
        NodeKind::Register(register, _) => {
            let frame = Frame::of(symbols, scope);
            let architecture = symbols.architecture().unwrap_or(Architecture::X86_64);
            !frame.is_empty() && !frame.plain_registers(architecture).contains(*register)
        }
        _ => false,
    };
    // The type of an object; a pointer is no value of its target.
    here || node.is_object() && symbols.redacts_type(node.type_id)
        || (node.operands().into_iter())
            .any(|node| leads_to_redacted(symbols, scope, node, is_read))
}

fn is_variable_redacted(symbols: &Symbols, scope: Scope, variable: &Variable) -> bool {
    if variable.name.strip_prefix('$') == Some(RETURN_VALUE) {
        return returns_redacted(symbols, scope.pc) || symbols.redacts_type(variable.type_id);
    }
    symbols.redacts_name(&variable.name) || symbols.redacts_type(variable.type_id)
}

/// Whether the function around an address returns redacted data, by its name.
fn returns_redacted(symbols: &Symbols, pc: Address) -> bool {
    let function = symbols.function_at(pc);
    function.is_some_and(|function| {
        let name = function.name.split('(').next().unwrap_or_default();
        symbols.redacts_name(name)
    })
}

/// The object that a node is a part of, and where in it.
fn root_of(node: &Node) -> (&Node, u64) {
    let (mut root, mut at) = (node, 0_u64);
    while let NodeKind::Field { of, offset, bits } = &root.kind {
        let bytes = bits.map_or(0, |(first, _)| first / 8);
        at = at.saturating_add(*offset).saturating_add(bytes);
        root = of;
    }
    (root, at)
}

/// The redacted bytes of a node's first `size` bytes: those of the object that it is a part of, for any type of the part.
pub(crate) fn redacted_in(symbols: &Symbols, node: &Node, size: u64) -> Vec<ByteRange> {
    let (root, at) = root_of(node);
    let whole = symbols.redacted_ranges(root.type_id);
    let own = symbols.redacted_ranges(node.type_id);
    if whole.is_empty() && own.is_empty() {
        return Vec::new();
    }
    let of_whole = whole.iter().filter_map(|(start, length)| {
        let end = start.saturating_add(*length);
        let start = (*start).max(at);
        (end > at).then(|| (start - at, end - start))
    });
    let mut found: Vec<ByteRange> = of_whole.chain(own.iter().copied()).collect();
    found.sort_unstable();
    let mut ranges: Vec<ByteRange> = Vec::new();
    for (start, length) in found {
        let length = length.min(size.saturating_sub(start));
        match ranges.last_mut() {
            _ if length == 0 => {}
            Some((last, so_far)) if start <= *last + *so_far => {
                *so_far = (*so_far).max(start + length - *last);
            }
            _ => ranges.push((start, length)),
        }
    }
    ranges
}

/// The parts of `size` bytes between ranges that are in order.
pub(crate) fn kept(ranges: &[ByteRange], size: u64) -> Vec<ByteRange> {
    let mut kept = Vec::new();
    let mut at = 0_u64;
    for (start, length) in ranges {
        if *start > at && at < size {
            kept.push((at, (*start).min(size) - at));
        }
        at = at.max(start.saturating_add(*length));
    }
    if at < size {
        kept.push((at, size - at));
    }
    kept.truncate(MOST_PIECES);
    kept
}

/// A call frame in which a redacted variable may be.
#[derive(Debug)]
pub(crate) struct Frame {
    /// The names of the variables, or of the function, in a message.
    names: Vec<String>,
    /// The registers that they are in.
    registers: RegisterMask,
    /// Where they are in memory, and how many bytes.
    memory: Vec<InMemory>,
}

/// A redacted variable in memory.
#[derive(Debug)]
struct InMemory {
    address: IntExpr,
    size: u64,
    is_argument: bool,
}

impl Frame {
    /// Looks at the variables that are in scope at a place, those of the functions around an inlined copy too.
    pub(crate) fn of(symbols: &Symbols, scope: Scope) -> Self {
        let mut frame = Self {
            names: Vec::new(),
            registers: RegisterMask::default(),
            memory: Vec::new(),
        };
        if symbols.redactions().is_empty() {
            return frame;
        }
        let locator = Locator {
            symbols,
            pc: scope.pc,
            callers: true,
        };
        let mut add = |name: &str, location: &_, size: u64, is_argument: bool| {
            if !frame.names.iter().any(|known| known == name) {
                frame.names.push(name.to_owned());
            }
            if let Ok(object) = locator.object(location) {
                add_registers(&object, &mut frame.registers);
                if let Object::Memory(address) = object {
                    frame.memory.push(InMemory {
                        address,
                        size,
                        is_argument,
                    });
                }
            }
        };
        let place = symbols.place(scope.pc);
        let copies = place.map_or(0, |place| place.callers.len());
        for level in 0..=u32::try_from(copies).unwrap_or(0) {
            let scope = Scope {
                pc: scope.pc,
                level,
            };
            let variables = symbols.variables_at(scope);
            let arguments = variables.arguments.iter().map(|variable| (variable, true));
            let locals = variables.locals.iter().map(|variable| (variable, false));
            for (variable, is_argument) in arguments.chain(locals) {
                if is_variable_redacted(symbols, scope, variable)
                    || !symbols.redacted_ranges(variable.type_id).is_empty()
                {
                    let size = crate::scalar::storage_size(symbols, variable.type_id);
                    let size = size.unwrap_or(u64::MAX);
                    add(&variable.name, &variable.location, size, is_argument);
                }
            }
        }
        if returns_redacted(symbols, scope.pc)
            && let Ok((_, location)) = symbols.return_value(scope.pc)
        {
            add(&format!("${RETURN_VALUE}"), &location, 0, false);
        }
        frame
    }

    /// Whether it has no redacted data.
    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Whether a register holds redacted data, or a part of it.
    pub(crate) fn holds(&self, register: RegisterNumber) -> bool {
        self.registers.contains(register)
    }

    /// The names of the redacted variables.
    pub(crate) fn names(&self) -> String {
        self.names.join(", ")
    }

    /// The registers that are collected where registers are requested without a name: each of the others may hold a copy of
    /// redacted data.
    pub(crate) fn plain_registers(&self, architecture: Architecture) -> RegisterMask {
        let machine = Machine::with_linux(architecture);
        let frame_pointer = match architecture {
            Architecture::X86_64 => gdb_register(architecture, 6),
            Architecture::I386 => gdb_register(architecture, 5),
            _ => None,
        };
        let plain = [machine.program_counter().number, machine.stack_pointer()];
        plain
            .into_iter()
            .chain(frame_pointer)
            .filter(|register| !self.holds(*register))
            .collect()
    }

    /// Where the stack is collected at a place: the words of the frame that its caller is found by, the address from which on the
    /// callers' frames are, and the redacted arguments there. None where it is not known.
    pub(crate) fn around(&self, symbols: &Symbols, pc: Address) -> Option<Around> {
        let locator = Locator {
            symbols,
            pc,
            callers: false,
        };
        let row = symbols.unwind(pc)?;
        let frame = locator.frame_address().ok()?;
        let words = row.registers.iter().filter_map(|(_, rule)| match rule {
            RegisterRule::Offset(offset) => Some(frame.clone().add(*offset as u64)),
            _ => None,
        });
        let mut arguments = Vec::new();
        for variable in &self.memory {
            match variable.address.distance_from(&frame) {
                // Memory below the frame's address is in the frame.
                Some(distance) if (distance as i64) >= 0 => {
                    arguments.push((distance, variable.size));
                }
                None if variable.is_argument && variable.address.as_constant().is_none() => {
                    return None;
                }
                _ => {}
            }
        }
        arguments.sort_unstable();
        Some(Around {
            words: words.collect(),
            frame,
            arguments,
        })
    }
}

/// The stack around a frame.
pub(crate) struct Around {
    pub(crate) words: Vec<IntExpr>,
    pub(crate) frame: IntExpr,
    /// By their distance from the frame's address, with how many bytes.
    pub(crate) arguments: Vec<ByteRange>,
}

fn add_registers(object: &Object, registers: &mut RegisterMask) {
    match object {
        Object::Register(register, _) => registers.insert(*register),
        Object::Pieces(pieces) => {
            for (piece, _) in pieces {
                add_registers(piece, registers);
            }
        }
        Object::Value(expr) => add_inputs(expr, registers),
        Object::Memory(_) | Object::Bytes(_) | Object::Synthetic(_) | Object::OptimizedOut => {}
    }
}

fn add_inputs(expr: &IntExpr, registers: &mut RegisterMask) {
    match expr.operation() {
        Operation::Register(register) | Operation::RegisterHigh(register) => {
            registers.insert(*register);
        }
        Operation::SignExtend(inner, _)
        | Operation::ZeroExtend(inner, _)
        | Operation::BitNot(inner)
        | Operation::IsZero(inner) => add_inputs(inner, registers),
        Operation::Binary(_, left, right) => {
            add_inputs(left, registers);
            add_inputs(right, registers);
        }
        _ => {}
    }
}

/// Whether a member is redacted by its name.
pub(crate) fn is_named_redacted(symbols: &Symbols, name: Option<&str>) -> bool {
    name.is_some_and(|name| symbols.redacts_name(name))
}

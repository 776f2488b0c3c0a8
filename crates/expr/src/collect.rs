//! The data that must be collected so that an expression can be evaluated afterwards.

use tracewire_agent_expr::{Builder, Opcode};
use tracewire_model::RegisterMask;

use crate::code::Code;
use crate::error::{ExpressionErrorKind, Span};
use crate::follow::CollectLimits;
use crate::int_expr::{Binary, IntExpr, OfFloats, Operation};
use crate::lower::Lower;
use crate::node::{Node, NodeKind};
use crate::object::{Object, offset_by};
use crate::redaction::{Around, is_named_redacted, kept, redacted_in};
use crate::resolve::{NoVariables, Resolver, Result};
use crate::scalar::{Scalar, scalar, storage_size, strip};
use crate::walk::TypeWalks;
use tracewire_arch::{Architecture, gdb_register};
use tracewire_debuginfo::{BaseEncoding, ByteRange, Language, RegisterRule, Type, TypeId};

/// The most bytes that one array of run-time length is collected of.
const LONGEST_REPEAT: u64 = 65_536;

/// The limit for elements of containers is lowered to this before the depth is reduced.
const FEW_ELEMENTS: u64 = 8;

/// The data to collect for one item.
#[derive(Default)]
pub(crate) struct Collected {
    pub(crate) registers: RegisterMask,
    pub(crate) memory: Vec<(u64, u64)>,
    pub(crate) program: Option<Vec<u8>>,
    /// Whether some of it is known only if the caller's debug information describes what was passed.
    pub(crate) of_caller: bool,
}

/// The collection of one item, under way.
pub(crate) struct Collection<'a> {
    pub(crate) lower: Lower<'a>,
    /// `collect/s`: the most bytes of a string.
    string: Option<u64>,
    pub(crate) code: Code,
    collected: Collected,
    pub(crate) walks: &'a TypeWalks<'a>,
    pub(crate) limits: CollectLimits,
    /// The most elements of a container that is in another one.
    pub(crate) inner_elements: u64,
    /// Whether what comes now is in the value of an interface.
    pub(crate) is_in_interface: bool,
    /// Whether what comes now is collected only if some condition holds.
    conditional: bool,
}

impl<'a> Collection<'a> {
    pub(crate) fn new(
        lower: Lower<'a>,
        walks: &'a TypeWalks<'a>,
        string: Option<u64>,
        limits: CollectLimits,
    ) -> Self {
        Self {
            lower,
            string,
            code: Code::after(Builder::new(), 0),
            collected: Collected::default(),
            walks,
            limits,
            inner_elements: limits.elements,
            is_in_interface: false,
            conditional: false,
        }
    }

    /// The collection of one item of `collect`, reduced until its walks end well within the limits of a hit. First there are
    /// fewer elements of containers in containers, then fewer elements of all, and then less depth.
    pub(crate) fn within_limits(
        lower: Lower<'a>,
        walks: &'a TypeWalks<'a>,
        string: Option<u64>,
        mut limits: CollectLimits,
        collect: impl Fn(&mut Self) -> Result<()>,
    ) -> Result<Collected> {
        let asked = limits.elements;
        let mut inner_elements = asked;
        loop {
            let mut collection = Self::new(lower.clone(), walks, string, limits);
            collection.inner_elements = inner_elements;
            collect(&mut collection)?;
            if collection.code.is_small() || limits.depth == 0 {
                return collection.finish();
            }
            if inner_elements > 1 {
                inner_elements /= 2;
            } else if limits.elements > FEW_ELEMENTS {
                limits.elements /= 2;
            } else {
                limits.elements = asked;
                limits.depth -= 1;
                inner_elements = asked;
            }
        }
    }

    /// `$_ret`: the place of the return address.
    pub(crate) fn return_address(lower: Lower<'a>, walks: &'a TypeWalks<'a>) -> Result<Collected> {
        let symbols = lower.locator.symbols;
        let span = Span {
            start: 0,
            end: lower.text.len(),
        };
        let fail = |message: String| {
            let kind = ExpressionErrorKind::Unsupported(message);
            crate::ExpressionError::new(kind, lower.text, span)
        };
        let unknown =
            || fail("No call frame information says where the return address is.".to_owned());
        let row = symbols.unwind(lower.locator.pc).ok_or_else(unknown)?;
        let architecture = symbols.architecture().ok_or_else(unknown)?;
        let rule = row
            .registers
            .iter()
            .find(|(register, _)| *register == row.return_address);
        let frame = lower.locator.frame_address().map_err(fail)?;
        let object = match rule.map(|(_, rule)| rule) {
            Some(RegisterRule::Offset(offset)) => Object::Memory(frame.add(*offset as u64)),
            Some(RegisterRule::Register(register)) => Object::Register(
                gdb_register(architecture, *register).ok_or_else(unknown)?,
                0,
            ),
            _ => return Err(unknown()),
        };
        let mut collection = Self::new(lower, walks, None, CollectLimits::NONE);
        let pointer_size = u64::from(architecture.pointer_size());
        collection.object(&object, pointer_size);
        collection.finish()
    }

    /// Returns the result.
    pub(crate) fn finish(self) -> Result<Collected> {
        let (program, registers) = self.code.finish(self.lower.text)?;
        Ok(Collected {
            registers,
            program,
            ..self.collected
        })
    }

    fn scalar(&self, type_id: TypeId) -> Scalar {
        scalar(self.lower.symbols(), type_id)
    }

    /// Adds all that evaluating the node takes. Its depth was bounded by the parser.
    pub(crate) fn node(&mut self, node: &Node) -> Result<()> {
        if let Some(limit) = self.string
            && self.string_at(node, limit)?
        {
            return Ok(());
        }
        match &node.kind {
            NodeKind::Integer(_)
            | NodeKind::Float(_)
            | NodeKind::Bytes(_)
            | NodeKind::Function(_) => {}
            NodeKind::Variable(_, number) => {
                if let Some(number) = number {
                    self.code.variable(*number);
                }
            }
            NodeKind::Repeat(first, count) => self.repeat(first, count)?,
            NodeKind::Register(register, _) => self.code.register(*register),
            NodeKind::Place(_) | NodeKind::Dereference(_) | NodeKind::Field { .. } => {
                self.value(node)?
            }
            NodeKind::AddressOf(_) => {
                let address = self.lower.value(node)?;
                self.inputs(&address);
            }
            NodeKind::And(left, right) => self.guarded(left, true, right)?,
            NodeKind::Or(left, right) => self.guarded(left, false, right)?,
            NodeKind::Conditional(condition, yes, no) => {
                self.guarded(condition, true, yes)?;
                self.guarded(condition, false, no)?;
            }
            NodeKind::Assign(..)
            | NodeKind::StringEqual { .. }
            | NodeKind::Search(_)
            | NodeKind::With(..) => {
                let expr = self.lower.value(node)?;
                self.code.emit(|emitter| {
                    emitter.expr(&expr);
                    emitter.builder.op(Opcode::Pop);
                });
            }
            _ => {
                for operand in node.operands() {
                    self.node(operand)?;
                }
            }
        }
        Ok(())
    }

    /// Collects `then` only if `condition` holds (or does not), as the evaluation looks at it only then.
    fn guarded(&mut self, condition: &Node, holds: bool, then: &Node) -> Result<()> {
        let Ok(truth) = self.lower.truth(condition) else {
            // The bytecode cannot decide; both sides are collected.
            self.node(condition)?;
            return self.node(then);
        };
        if let Some(constant) = truth.as_constant() {
            return if (constant != 0) == holds {
                self.node(then)
            } else {
                Ok(())
            };
        }
        let skip_if = if holds { truth.into_is_zero() } else { truth };
        let end = self.code.label();
        self.code.emit(|emitter| {
            emitter.expr(&skip_if);
            emitter.builder.if_goto(end);
        });
        let before = std::mem::replace(&mut self.conditional, true);
        let result = self.node(then);
        self.conditional = before;
        self.code.place(end);
        result
    }

    /// The object itself, and the target of a reference.
    fn value(&mut self, node: &Node) -> Result<()> {
        let object = self.lower.object(node)?;
        if matches!(object, Object::OptimizedOut) {
            return self.lower.lost(node);
        }
        if let NodeKind::Field {
            of,
            offset,
            bits: Some((first, width)),
        } = &node.kind
        {
            let start = offset.saturating_add(first / 8);
            let holder = offset_by(self.lower.object(of)?, start);
            let size = (first % 8).saturating_add(*width).div_ceil(8);
            // The byte may hold a part of another bit field.
            if redacted_in(self.lower.symbols(), node, size).is_empty() {
                self.object(&holder, size);
            }
            return Ok(());
        }
        let Some(size) = storage_size(self.lower.symbols(), node.type_id) else {
            // A flexible array has no size of its own; its address is shown.
            return if let Scalar::Array { .. } = self.scalar(node.type_id) {
                Ok(())
            } else {
                let message = "The size of an incomplete type is not known.".to_owned();
                self.lower.error(ExpressionErrorKind::Type(message), node)
            };
        };
        let redacted = redacted_in(self.lower.symbols(), node, size);
        self.object_around(&object, &redacted, size);
        if let Scalar::Reference { target, .. } = self.scalar(node.type_id) {
            let pointer_type = self.lower.symbols().pointer_to(target);
            let pointer = Node::new(
                NodeKind::Convert(node.clone().into()),
                pointer_type,
                node.span,
            );
            let referent = Node::new(NodeKind::Dereference(pointer.into()), target, node.span);
            self.value(&referent)?;
        } else {
            self.follow(&object, node.type_id);
        }
        self.static_members(node.type_id);
        Ok(())
    }

    /// The static members of a class are shown with it.
    fn static_members(&mut self, type_id: TypeId) {
        let symbols = self.lower.symbols();
        let (_, found) = strip(symbols, type_id);
        let Type::Structure {
            name: Some(class),
            static_members,
            ..
        } = &*found
        else {
            return;
        };
        for member in static_members {
            if is_named_redacted(symbols, Some(&member.name)) {
                continue;
            }
            let name = format!("{class}::{}", member.name);
            let variable = symbols.lookup_variable(Some(self.lower.locator.pc.into()), &name);
            if let Some(variable) = variable
                && let Ok(object) = self.lower.locator.object(&variable.location)
                && let Some(size) = symbols.size_of(variable.type_id)
            {
                let redacted = symbols.redacted_ranges(variable.type_id);
                self.object_around(&object, &redacted, size);
            }
        }
    }

    /// So many bytes of an object, but for those that are redacted.
    fn object_around(&mut self, object: &Object, redacted: &[ByteRange], size: u64) {
        if redacted.is_empty() {
            return self.object(object, size);
        }
        match object {
            Object::Memory(_) => {
                for (start, length) in kept(redacted, size) {
                    self.object(&offset_by(object.clone(), start), length);
                }
            }
            Object::Pieces(pieces) => {
                let mut at = 0_u64;
                for (piece, piece_size) in pieces {
                    let end = at.saturating_add(*piece_size).min(size);
                    let is_whole = |(start, length): &ByteRange| {
                        *start >= end || start.saturating_add(*length) <= at
                    };
                    if at < end && redacted.iter().all(is_whole) {
                        self.object(piece, end - at);
                    }
                    at = end;
                }
            }
            // A register that holds a part of redacted data.
            _ => {}
        }
    }

    /// The stack without the frame of the place: the words that lead to the caller, and the part after the frame. The program
    /// leaves the stack pointer and the length.
    pub(crate) fn stack_around(mut self, length: Builder, around: &Around) -> Result<Collected> {
        self.code = Code::after(length, 2);
        let (start, length) = (IntExpr::cell(0), IntExpr::cell(1));
        let end = IntExpr::binary(Binary::Add, start, length);
        let word = u64::from(self.lower.locator.architecture().pointer_size());
        self.conditional = true;
        for place in &around.words {
            self.object(&Object::Memory(place.clone()), word);
        }
        let mut from = around.frame.clone();
        let behind = around.arguments.iter().map(|(distance, size)| {
            let start = around.frame.clone().add(*distance);
            let next = start.clone().add(*size);
            (start, Some(next))
        });
        for (to, next) in behind.chain([(end.clone(), None)]) {
            let is_within = IntExpr::binary(Binary::LessUnsigned, to.clone(), end.clone());
            let to = IntExpr::choose(is_within, to, end.clone());
            let some = IntExpr::binary(Binary::LessUnsigned, from.clone(), to.clone());
            let size = IntExpr::binary(Binary::Subtract, to, from.clone());
            let size = IntExpr::choose(some, size, IntExpr::constant(0));
            self.code.emit(|emitter| {
                emitter.expr(&from);
                emitter.expr(&size);
                emitter.builder.op(Opcode::Trace);
            });
            match next {
                Some(next) => from = next,
                None => break,
            }
        }
        self.finish()
    }

    /// So many bytes of an object.
    fn object(&mut self, object: &Object, size: u64) {
        match object {
            _ if size == 0 => {}
            Object::Memory(address) => match address.as_constant() {
                Some(address) if !self.conditional => self.collected.memory.push((address, size)),
                _ => self.code.emit(|emitter| {
                    emitter.expr(address);
                    emitter
                        .builder
                        .constant(i64::try_from(size).unwrap_or(i64::MAX))
                        .op(Opcode::Trace);
                }),
            },
            Object::Register(register, _) => self.code.register(*register),
            Object::Bytes(_) | Object::OptimizedOut => {}
            Object::Value(expr) => self.inputs(expr),
            Object::Pieces(pieces) => {
                let mut left = size;
                for (piece, piece_size) in pieces {
                    self.object(piece, left.min(*piece_size));
                    left = left.saturating_sub(*piece_size);
                }
            }
            Object::Synthetic(target) => {
                let (type_id, location, _) = &**target;
                if let Ok(object) = self.lower.locator.object(location)
                    && !matches!(object, Object::Synthetic(_))
                    && !object.is_at_unknown_address()
                    && let Some(size) = self.lower.symbols().size_of(*type_id)
                {
                    let redacted = self.lower.symbols().redacted_ranges(*type_id);
                    self.object_around(&object, &redacted, size);
                }
            }
        }
    }

    /// The data by which the caller's frame is found: the return address, and the registers that the caller keeps over a call,
    /// from which its arguments are computed.
    fn caller(&mut self) {
        let symbols = self.lower.symbols();
        let pc = self.lower.locator.pc;
        let architecture = self.lower.locator.architecture();
        let (Some(row), Ok(frame)) = (symbols.unwind(pc), self.lower.locator.frame_address())
        else {
            return;
        };
        self.collected.of_caller = true;
        self.inputs(&frame);
        let size = u64::from(architecture.pointer_size());
        for (_, rule) in &row.registers {
            if let RegisterRule::Offset(offset) = rule {
                self.object(&Object::Memory(frame.clone().add(*offset as u64)), size);
            }
        }
        let kept = kept_registers(architecture)
            .iter()
            .filter(|kept| !row.registers.iter().any(|(saved, _)| saved == *kept));
        for register in kept.filter_map(|register| gdb_register(architecture, *register)) {
            self.code.register(register);
        }
    }

    /// The registers and the memory that a computation reads.
    fn inputs(&mut self, expr: &IntExpr) {
        match expr.operation() {
            Operation::Constant(_) => {}
            Operation::Register(register) | Operation::RegisterHigh(register) => {
                self.code.register(*register);
            }
            Operation::Load(address, size) => {
                self.object(&Object::Memory(address.clone()), u64::from(*size))
            }
            Operation::Entry(_) => self.caller(),
            Operation::SignExtend(inner, _)
            | Operation::ZeroExtend(inner, _)
            | Operation::BitNot(inner)
            | Operation::IsZero(inner)
            | Operation::FloatOrder(inner, _) => self.inputs(inner),
            Operation::Binary(_, left, right) => {
                self.inputs(left);
                self.inputs(right);
            }
            Operation::Float(what, number) => {
                number.visit(&mut |expr| self.inputs(expr));
                if let OfFloats::Less(other) | OfFloats::Equal(other) = what {
                    other.visit(&mut |expr| self.inputs(expr));
                }
            }
            // The bytecode cannot decide; both sides are collected.
            Operation::Choose(condition, yes, no) if expr.is_state_only() => {
                for expr in [condition, yes, no] {
                    self.inputs(expr);
                }
            }
            _ => self.code.emit(|emitter| {
                emitter.expr(expr);
                emitter.builder.op(Opcode::Pop);
            }),
        }
    }

    /// `first @ count` with a count that is known at run time only.
    fn repeat(&mut self, first: &Node, count: &Node) -> Result<()> {
        let object = self.lower.object(first)?;
        let Object::Memory(address) = object else {
            return self
                .lower
                .unsupported("Only values in memory can be extended with '@'.", first);
        };
        let Some(element) = self
            .lower
            .symbols()
            .size_of(first.type_id)
            .filter(|size| *size > 0)
        else {
            return self
                .lower
                .unsupported("The size of an element is not known.", first);
        };
        let number = self.lower.value(count)?;
        let most = IntExpr::constant(LONGEST_REPEAT / element);
        let above = IntExpr::binary(Binary::LessSigned, most.clone(), number.clone());
        let none = IntExpr::binary(Binary::LessSigned, number.clone(), IntExpr::constant(1));
        let clamped = IntExpr::choose(
            none,
            IntExpr::constant(0),
            IntExpr::choose(above, most, number),
        );
        let size = IntExpr::binary(Binary::Multiply, clamped, IntExpr::constant(element));
        self.code.emit(|emitter| {
            emitter.expr(&address);
            emitter.expr(&size);
            emitter.builder.op(Opcode::Trace);
        });
        Ok(())
    }

    /// `collect/s`: whether the node is a string's address, and then the string.
    fn string_at(&mut self, node: &Node, limit: u64) -> Result<bool> {
        let symbols = self.lower.symbols();
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        match self.scalar(node.type_id) {
            Scalar::Pointer { target, .. } if is_character(symbols, target) => {
                let pointer = self.lower.value(node)?;
                self.code.emit(|emitter| {
                    emitter.expr(&pointer);
                    emitter.builder.constant(limit).op(Opcode::TraceNz);
                });
                Ok(true)
            }
            Scalar::Structure if node.is_object() => {
                let pc = self.lower.locator.pc;
                let text = self.lower.text;
                let resolver =
                    Resolver::in_language(symbols, pc.into(), Language::Rust, text, &NoVariables);
                let span = node.span;
                let data = resolver.member(node.clone(), "data_ptr", span, span);
                let length = resolver.member(node.clone(), "length", span, span);
                let (Ok(data), Ok(length)) = (data, length) else {
                    return Ok(false);
                };
                let (data, length) = (self.lower.value(&data)?, self.lower.value(&length)?);
                let limit = IntExpr::constant(limit as u64);
                let fits = IntExpr::binary(Binary::LessUnsigned, length.clone(), limit.clone());
                let size = IntExpr::choose(fits, length, limit);
                self.code.emit(|emitter| {
                    emitter.expr(&data);
                    emitter.expr(&size);
                    emitter.builder.op(Opcode::Trace);
                });
                // The pointer and the length are collected on the way.
                Ok(true)
            }
            _ => Ok(false),
        }
    }
}

/// The registers (DWARF's numbers) that a function leaves as its caller had them.
const fn kept_registers(architecture: Architecture) -> &'static [u16] {
    match architecture {
        Architecture::X86_64 => &[3, 6, 12, 13, 14, 15],
        Architecture::I386 => &[3, 5, 6, 7],
        _ => &[],
    }
}

/// Whether a type is C's for text: a pointer to `char`, which bytes that are no text seldom have.
pub(crate) fn is_text(symbols: &tracewire_debuginfo::Symbols, type_id: TypeId) -> bool {
    match scalar(symbols, type_id) {
        Scalar::Pointer { target, .. } => {
            is_character(symbols, target)
                && matches!(&*strip(symbols, target).1, Type::Base { name, .. } if name == "char")
        }
        _ => false,
    }
}

/// Whether a type is a character type of strings.
pub(crate) fn is_character(symbols: &tracewire_debuginfo::Symbols, type_id: TypeId) -> bool {
    match &*strip(symbols, type_id).1 {
        Type::Base {
            size: 1, encoding, ..
        } => {
            matches!(
                encoding,
                BaseEncoding::SignedChar | BaseEncoding::UnsignedChar | BaseEncoding::Unsigned
            )
        }
        _ => false,
    }
}

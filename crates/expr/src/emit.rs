//! Computations as bytecode.

use std::collections::HashMap;

use tracewire_agent_expr::{Builder, Opcode};
use tracewire_model::{RegisterMask, VariableNumber};

use crate::int_expr::{Binary, IntExpr, Operation};

/// Which memory that a computation reads is collected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tracing {
    Nothing,
    /// And all variables.
    Everything,
    /// Reads through pointers: the bytes of the object that the computation begins with are already collected.
    Pointees,
}

/// The most that a computation collects when it runs once.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Traced {
    pub(crate) pieces: u64,
    pub(crate) bytes: u64,
}

/// Turns computations into bytecode.
pub(crate) struct Emitter<'a> {
    pub(crate) builder: Builder,
    /// Which memory and variables that are read are collected too.
    pub(crate) tracing: Tracing,
    /// How many cells are on the stack.
    pub(crate) depth: usize,
    /// The registers that are read.
    pub(crate) registers: &'a mut RegisterMask,
    /// The memory that the code collects.
    pub(crate) traced: Traced,
    /// The cells of the numbers that searches name.
    pub(crate) bound: HashMap<u32, usize>,
}

impl Emitter<'_> {
    /// Emits code that leaves the number on the stack.
    pub(crate) fn expr(&mut self, expr: &IntExpr) {
        let depth = self.depth;
        self.operation(expr);
        self.depth = depth + 1;
    }

    fn operation(&mut self, expr: &IntExpr) {
        match expr.operation() {
            Operation::Constant(number) => {
                self.builder.constant(*number as i64);
            }
            Operation::Register(register) => {
                self.registers.insert(*register);
                self.builder.reg(register.0);
            }
            // Never compiled; see [`IntExpr::is_state_only`].
            Operation::Entry(_) | Operation::RegisterHigh(_) | Operation::Float(..) => {
                self.builder.constant(0);
            }
            Operation::Cell(cell) => self.cell(usize::from(*cell)),
            Operation::Bound(name) => {
                let cell = self.bound.get(name).copied();
                // Only the computations of a search have its names.
                debug_assert!(cell.is_some());
                self.cell(cell.unwrap_or(0));
            }
            Operation::Search(search) => self.search(search),
            Operation::With(name, first, second) => {
                let cell = self.depth;
                self.expr(first);
                self.bound.insert(*name, cell);
                self.expr(second);
                self.bound.remove(name);
                self.builder.op(Opcode::Swap).op(Opcode::Pop);
            }
            Operation::Variable(variable) => {
                let number = variable_operand(*variable);
                self.builder.getv(number);
                if self.tracing == Tracing::Everything {
                    self.builder.tracev(number);
                }
            }
            Operation::Load(address, size) => {
                self.expr(address);
                let is_traced = match self.tracing {
                    Tracing::Nothing => false,
                    Tracing::Everything => true,
                    Tracing::Pointees => address.loads(),
                };
                if is_traced {
                    self.trace(*size);
                }
                self.builder.load(*size);
            }
            Operation::SignExtend(inner, bits) => {
                self.expr(inner);
                self.builder.ext(*bits);
            }
            Operation::ZeroExtend(inner, bits) => {
                self.expr(inner);
                self.builder.zero_ext(*bits);
            }
            Operation::BitNot(inner) => self.unary(inner, Opcode::BitNot),
            Operation::IsZero(inner) => self.unary(inner, Opcode::LogNot),
            Operation::Binary(operator, left, right) => self.binary(*operator, left, right),
            Operation::Choose(condition, yes, no) => self.choose(condition, yes, no),
            Operation::Then(first, second) => {
                self.expr(first);
                self.builder.op(Opcode::Pop);
                self.depth -= 1;
                self.expr(second);
            }
            Operation::SetVariable(variable, number) => {
                self.expr(number);
                let variable = variable_operand(*variable);
                self.builder.setv(variable);
                if self.tracing == Tracing::Everything {
                    self.builder.tracev(variable);
                }
            }
            Operation::FloatOrder(bits, width) => {
                self.expr(bits);
                // bits → bits sign → sign magnitude → (magnitude ^ sign) - sign
                self.builder
                    .op(Opcode::Dup)
                    .constant(63)
                    .op(Opcode::RshSigned);
                self.builder
                    .op(Opcode::Swap)
                    .zero_ext(width.saturating_sub(1));
                self.builder
                    .pick(1)
                    .op(Opcode::BitXor)
                    .op(Opcode::Swap)
                    .op(Opcode::Sub);
            }
            Operation::BytesEqual(address, bytes) => self.bytes_equal(address, bytes),
        }
    }

    /// Puts a copy of a cell on the stack.
    fn cell(&mut self, cell: usize) {
        debug_assert!(cell < self.depth);
        let above = self.depth.saturating_sub(1 + cell);
        // The stack has fewer cells than a byte has values.
        self.builder.pick(u8::try_from(above).unwrap_or(u8::MAX));
    }

    /// Collects so many bytes at the address on the stack.
    fn trace(&mut self, size: u8) {
        self.builder.trace_quick(u16::from(size));
        self.traced.pieces += 1;
        self.traced.bytes += u64::from(size);
    }

    fn unary(&mut self, inner: &IntExpr, opcode: Opcode) {
        self.expr(inner);
        self.builder.op(opcode);
    }

    fn binary(&mut self, operator: Binary, left: &IntExpr, right: &IntExpr) {
        // `x + -28` is shorter as `x - 28`, but GDB writes the addition, and the code stays comparable.
        self.expr(left);
        self.expr(right);
        self.builder.op(operator.opcode());
    }

    fn choose(&mut self, condition: &IntExpr, yes: &IntExpr, no: &IntExpr) {
        let (on_yes, end) = (self.builder.label(), self.builder.label());
        let depth = self.depth;
        self.expr(condition);
        self.builder.if_goto(on_yes);
        self.depth = depth;
        self.expr(no);
        self.builder.goto(end).place(on_yes);
        self.depth = depth;
        self.expr(yes);
        self.builder.place(end);
    }

    fn bytes_equal(&mut self, address: &IntExpr, bytes: &[u8]) {
        let (differ, end) = (self.builder.label(), self.builder.label());
        self.expr(address);
        for (offset, byte) in (0_i64..).zip(bytes) {
            self.builder.op(Opcode::Dup);
            if offset > 0 {
                self.builder.constant(offset).op(Opcode::Add);
            }
            if self.tracing != Tracing::Nothing {
                self.trace(1);
            }
            self.builder.load(1);
            // The difference is not zero where the bytes differ.
            if *byte != 0 {
                self.builder.constant(i64::from(*byte)).op(Opcode::BitXor);
            }
            self.builder.if_goto(differ);
        }
        self.builder.op(Opcode::Pop).constant(1).goto(end);
        self.builder
            .place(differ)
            .op(Opcode::Pop)
            .constant(0)
            .place(end);
    }
}

/// The operand of `getv`: 16 bits, though a variable's number may come from a file with 32.
pub(crate) fn variable_operand(variable: VariableNumber) -> u16 {
    variable.0 as u16
}

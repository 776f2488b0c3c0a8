//! The bytecode of a collection: its effect on the stack, and its cost.

use std::collections::HashMap;

use tracewire_agent_expr::{Builder, Label, Opcode};
use tracewire_debuginfo::ByteRange;
use tracewire_model::{RegisterMask, RegisterNumber, VariableNumber};

use crate::emit::{Emitter, Traced, Tracing, variable_operand};
use crate::error::{ExpressionError, ExpressionErrorKind, Span};
use crate::int_expr::IntExpr;
use crate::redaction::kept;
use crate::resolve::Result;

/// The most that the walks of one item may cost.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cost {
    steps: u64,
    bytes: u64,
    pieces: u64,
}

impl Cost {
    /// Whether it is well below what an evaluation, a frame and a hit are given.
    pub(crate) const fn is_small(self) -> bool {
        self.steps <= 80_000 && self.bytes <= 48 << 10 && self.pieces <= 2000
    }
}

/// Alternative walks: the cost of all is that of the worst.
pub(crate) struct Alternatives {
    before: Cost,
    worst: Cost,
}

impl Alternatives {
    pub(crate) const fn of(before: Cost) -> Self {
        Self {
            before,
            worst: before,
        }
    }

    /// Takes the cost with one of them, and gives that to begin the next with.
    pub(crate) fn next(&mut self, with_one: Cost) -> Cost {
        self.worst = self.worst(with_one);
        self.before
    }

    /// The cost with the worst of them.
    pub(crate) fn worst(&self, with_one: Cost) -> Cost {
        Cost {
            steps: self.worst.steps.max(with_one.steps),
            bytes: self.worst.bytes.max(with_one.bytes),
            pieces: self.worst.pieces.max(with_one.pieces),
        }
    }
}

/// The size of a memory block in a frame without its data.
const BYTES_OF_BLOCK: u64 = 11;
/// The longest code of one item's walks. A type that leads to many others stops there.
const LONGEST_CODE: usize = 24_000;
/// The most cells that a walk leaves to the next one.
const MOST_CELLS: usize = 60;

/// Bytecode that is made in order, from the first instruction to the last.
#[derive(Debug)]
pub(crate) struct Code {
    builder: Builder,
    /// How many cells are on the stack.
    depth: usize,
    /// How often what comes now happens, at most.
    times: u64,
    cost: Cost,
    /// The registers that it reads.
    registers: RegisterMask,
}

impl Code {
    /// The code after a program that leaves this many cells on the stack.
    pub(crate) fn after(program: Builder, depth: usize) -> Self {
        Self {
            builder: program,
            depth,
            times: 1,
            cost: Cost::default(),
            registers: RegisterMask::default(),
        }
    }

    /// The bytecode, if there is any, and the registers that are collected.
    pub(crate) fn finish(self, text: &str) -> Result<(Option<Vec<u8>>, RegisterMask)> {
        let is_empty = self.builder.offset() == 0;
        let program = match is_empty {
            true => None,
            false => Some(finish(self.builder, text)?),
        };
        Ok((program, self.registers))
    }

    /// Whether its cost is well below what an evaluation, a frame and a hit are given.
    pub(crate) const fn is_small(&self) -> bool {
        self.cost.is_small()
    }

    /// Whether no more walks are to be added.
    pub(crate) fn is_full(&self) -> bool {
        self.builder.offset() > LONGEST_CODE || self.depth > MOST_CELLS
    }

    /// How many cells are on the stack.
    pub(crate) const fn depth(&self) -> usize {
        self.depth
    }

    /// Sets the depth of the stack here, where the code before has jumped elsewhere.
    pub(crate) const fn set_depth(&mut self, depth: usize) {
        self.depth = depth;
    }

    /// How often what comes now happens, at most.
    pub(crate) const fn times(&self) -> u64 {
        self.times
    }

    /// Sets how many times at most the following code runs; returns the previous number.
    pub(crate) const fn set_times(&mut self, times: u64) -> u64 {
        std::mem::replace(&mut self.times, times)
    }

    /// Begins alternative walks.
    pub(crate) const fn alternatives(&self) -> Alternatives {
        Alternatives::of(self.cost)
    }

    /// Begins the next of some alternatives.
    pub(crate) fn next_of(&mut self, alternatives: &mut Alternatives) {
        self.cost = alternatives.next(self.cost);
    }

    /// Ends some alternatives.
    pub(crate) fn end_of(&mut self, alternatives: &Alternatives) {
        self.cost = alternatives.worst(self.cost);
    }

    /// Collects a register.
    pub(crate) fn register(&mut self, register: RegisterNumber) {
        self.registers.insert(register);
    }

    /// Collects a trace state variable.
    pub(crate) fn variable(&mut self, number: VariableNumber) {
        self.builder.tracev(variable_operand(number));
    }

    /// Collects this many bytes from the address on the stack, which stays there.
    pub(crate) fn trace_quick(&mut self, size: u16) {
        self.builder.trace_quick(size);
    }

    /// Emits code that leaves the stack unchanged, and collects what it reads.
    pub(crate) fn emit(&mut self, emit: impl FnOnce(&mut Emitter<'_>)) {
        self.emit_tracing(Tracing::Everything, emit);
    }

    fn emit_tracing(&mut self, tracing: Tracing, emit: impl FnOnce(&mut Emitter<'_>)) {
        let mut emitter = Emitter {
            builder: std::mem::take(&mut self.builder),
            tracing,
            depth: self.depth,
            registers: &mut self.registers,
            traced: Traced::default(),
            bound: HashMap::new(),
        };
        emit(&mut emitter);
        let traced = emitter.traced;
        self.builder = emitter.builder;
        self.count(traced);
    }

    pub(crate) fn label(&mut self) -> Label {
        self.builder.label()
    }

    pub(crate) fn place(&mut self, label: Label) {
        self.builder.place(label);
    }

    fn counted(&mut self, emit: impl FnOnce(&mut Self)) {
        let before = self.builder.offset();
        emit(self);
        // Every instruction has a byte at least.
        let steps = self.builder.offset().saturating_sub(before) as u64;
        let steps = steps.saturating_mul(self.times);
        self.cost.steps = self.cost.steps.saturating_add(steps);
    }

    pub(crate) fn op(&mut self, opcode: Opcode) {
        self.counted(|this| {
            this.builder.op(opcode);
        });
        self.depth = (self.depth + opcode.pushes()).saturating_sub(opcode.pops());
    }

    /// Collects the memory whose address and length are on the stack: so many bytes at most.
    pub(crate) fn trace(&mut self, most: u64) {
        self.op(Opcode::Trace);
        self.count(Traced {
            pieces: 1,
            bytes: most,
        });
    }

    /// Collects the object whose address is on the stack, and leaves the address: `most` bytes at most all in all, and none that are
    /// redacted.
    pub(crate) fn trace_around(&mut self, redacted: &[ByteRange], size: u64, most: u64) {
        if redacted.is_empty() {
            self.op(Opcode::Dup);
            self.constant(size);
            return self.trace(most);
        }
        let times = most.div_ceil(size.max(1));
        for (start, length) in kept(redacted, size) {
            self.op(Opcode::Dup);
            if start > 0 {
                self.constant(start);
                self.op(Opcode::Add);
            }
            self.constant(length);
            self.trace(length.saturating_mul(times));
        }
    }

    /// Counts what code collects that has been emitted.
    fn count(&mut self, traced: Traced) {
        let blocks = traced.pieces.saturating_mul(BYTES_OF_BLOCK);
        let bytes = traced.bytes.saturating_add(blocks);
        let cost = &mut self.cost;
        cost.bytes = cost.bytes.saturating_add(bytes.saturating_mul(self.times));
        cost.pieces = (cost.pieces).saturating_add(traced.pieces.saturating_mul(self.times));
    }

    pub(crate) fn constant(&mut self, number: u64) {
        self.counted(|this| {
            this.builder.constant(number as i64);
        });
        self.depth += 1;
    }

    /// Puts a number on the stack, and gives the cell that it is in.
    pub(crate) fn push(&mut self, expr: &IntExpr) -> IntExpr {
        let cell = self.depth;
        self.counted(|this| this.emit_tracing(Tracing::Pointees, |emitter| emitter.expr(expr)));
        self.depth = cell + 1;
        // The stack is not deeper than `MOST_CELLS` and what one walk takes.
        IntExpr::cell(cell as u16)
    }

    pub(crate) fn if_goto(&mut self, label: Label) {
        self.counted(|this| {
            this.builder.if_goto(label);
        });
        self.depth -= 1;
    }

    pub(crate) fn goto(&mut self, label: Label) {
        self.counted(|this| {
            this.builder.goto(label);
        });
    }

    /// Cuts the number on the stack, taken without a sign, to a limit.
    pub(crate) fn clamp(&mut self, limit: u64) {
        let within = self.label();
        self.op(Opcode::Dup);
        self.constant(limit);
        self.op(Opcode::LessUnsigned);
        self.if_goto(within);
        self.op(Opcode::Pop);
        self.constant(limit);
        self.place(within);
    }

    pub(crate) fn multiply(&mut self, factor: u64) {
        if factor != 1 {
            self.constant(factor);
            self.op(Opcode::Mul);
        }
    }

    pub(crate) fn labels<const COUNT: usize>(&mut self) -> [Label; COUNT] {
        std::array::from_fn(|_| self.label())
    }

    /// a b → b
    pub(crate) fn drop_below(&mut self) {
        self.op(Opcode::Swap);
        self.op(Opcode::Pop);
    }

    /// a b → a+number b
    pub(crate) fn add_below(&mut self, number: u64) {
        self.op(Opcode::Swap);
        self.constant(number);
        self.op(Opcode::Add);
        self.op(Opcode::Swap);
    }

    /// a b → a-1 b
    pub(crate) fn one_less_below(&mut self) {
        self.op(Opcode::Swap);
        self.constant(1);
        self.op(Opcode::Sub);
        self.op(Opcode::Swap);
    }

    /// a b c → a-1 b c. Jumps to `done` where none is left.
    pub(crate) fn one_less_of_three(&mut self, done: Label) {
        self.op(Opcode::Rot);
        self.op(Opcode::Rot);
        self.constant(1);
        self.op(Opcode::Sub);
        self.op(Opcode::Rot);
        let left = IntExpr::cell((self.depth - 3) as u16);
        self.push(&left.into_is_zero());
        self.if_goto(done);
    }
}

/// Ends a program and checks it.
pub(crate) fn finish(mut builder: Builder, text: &str) -> Result<Vec<u8>> {
    builder.op(Opcode::End);
    let too_large = |message: String| {
        let span = Span {
            start: 0,
            end: text.len(),
        };
        ExpressionError::new(ExpressionErrorKind::TooLarge(message), text, span)
    };
    let program = builder
        .finish()
        .map_err(|error| too_large(error.to_string()))?;
    tracewire_agent_expr::verify(&program).map_err(|error| too_large(error.to_string()))?;
    Ok(program)
}

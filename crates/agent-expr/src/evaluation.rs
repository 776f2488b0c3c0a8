//! The stack machine, which stops whenever it needs something of the target.

use crate::instruction::big_endian;
use crate::opcode::Opcode;

/// How many cells the stack has, as GDB's own server has it.
pub const STACK_LIMIT: usize = 100;

/// The limit of steps of an evaluation. The thread is stopped meanwhile.
pub const STEP_LIMIT: u32 = 100_000;

/// One evaluation of a program: its stack and its position.
///
/// It does not own the program, so one value can be reused for all: [`start`](Self::start) begins again. Each call runs until the
/// program needs data from the target, or an effect by the caller, and returns that as a [`Request`]; [`resume`](Self::resume)
/// continues with the answer. Nothing is allocated.
///
/// ```
/// use tracewire_agent_expr::{Evaluation, Request};
///
/// // depth < 3, where `depth` lies 28 bytes below register 6.
/// let program = [
///     0x26, 0, 6, 0x22, 0x10, 0x02, 0x22, 0xd4, 0x16, 8, 0x02, 0x19, 0x16, 32, 0x22, 3, 0x14, 0x27,
/// ];
/// let mut evaluation = Evaluation::new();
/// assert_eq!(evaluation.start(&program)?, Request::Register(6));
/// let request = evaluation.resume(&program, Some(0x7000))?;
/// assert_eq!(request, Request::Memory { address: 0x7000 - 28, size: 4 });
/// assert_eq!(evaluation.resume(&program, Some(2))?, Request::Done(Some(1)));
/// # Ok::<(), tracewire_agent_expr::EvaluationError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Evaluation {
    stack: [u64; STACK_LIMIT],
    depth: usize,
    offset: usize,
    steps: u32,
    awaited: Awaited,
}

/// A request of an evaluation to its caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Request<'e> {
    /// The value of a register, zero-extended. `None` as the answer is an error.
    Register(u16),
    /// A number of 1, 2, 4 or 8 bytes from memory, in target byte order, zero-extended. `None` as the answer is an
    /// error.
    Memory {
        /// Where it starts.
        address: u64,
        /// How many bytes it has.
        size: u8,
    },
    /// The value of a trace state variable. One that does not exist is 0, so `None` is as good as 0.
    Variable(u16),
    /// Collect memory; the answer does not matter.
    CollectMemory {
        /// Where it starts.
        address: u64,
        /// How many bytes; any number.
        length: u64,
    },
    /// Collect a string up to its NUL, the NUL included; the answer does not matter.
    CollectString {
        /// Where it starts.
        address: u64,
        /// How many bytes at most.
        limit: u64,
    },
    /// Collect a trace state variable; the answer does not matter.
    CollectVariable(u16),
    /// Give a trace state variable a value; the answer does not matter.
    SetVariable {
        /// Which one.
        number: u16,
        /// The value.
        value: i64,
    },
    /// Print; the answer does not matter.
    Print {
        /// The format, as C's `printf` has it, without its NUL.
        format: &'e [u8],
        /// The address of the program's function to print with, or 0.
        function: u64,
        /// Its first argument, or 0.
        channel: u64,
        /// The arguments of the format, in order.
        arguments: &'e [u64],
    },
    /// The program has ended; the result is the top of its stack, if there is anything on it.
    Done(Option<u64>),
}

/// Why an evaluation ended early, and where.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{kind} at offset {offset}")]
pub struct EvaluationError {
    /// The instruction that failed, counted in bytes from the start of the program. A jump out of the program has
    /// succeeded: it is the place it went to that has no instruction.
    pub offset: usize,
    /// The kind of the error.
    pub kind: EvaluationErrorKind,
}

/// Why an evaluation ended early. The words are GDB's where GDB has some: they become the text of a stop
/// with `terror`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EvaluationErrorKind {
    /// A division or a remainder by zero.
    #[error("divide by zero")]
    DivisionByZero,
    /// Memory that could not be read.
    #[error("cannot access {size} bytes of memory at {address:#x}")]
    BadMemory {
        /// Where.
        address: u64,
        /// How many bytes.
        size: u8,
    },
    /// A register that the machine does not have, or that is no integer.
    #[error("register {0} has no value")]
    BadRegister(u16),
    /// Fewer cells on the stack than the instruction takes.
    #[error("stack underflow")]
    StackUnderflow,
    /// More than [`STACK_LIMIT`] cells.
    #[error("stack overflow")]
    StackOverflow,
    /// A jump, or the step after the last instruction, leaves the program.
    #[error("invalid goto")]
    OutOfProgram,
    /// A program without an instruction.
    #[error("empty expression")]
    Empty,
    /// An instruction that the program's end cuts off.
    #[error("incomplete opcode `{0}`")]
    Incomplete(Opcode),
    /// A number that is no opcode.
    #[error("unrecognized opcode {0:#04x}")]
    UnknownOpcode(u8),
    /// An operation that has a number but no meaning.
    #[error("unhandled opcode `{0}`")]
    Reserved(Opcode),
    /// A `printf` whose format has no NUL at its end.
    #[error("unterminated format")]
    UnterminatedFormat,
    /// More than [`STEP_LIMIT`] steps.
    #[error("too many steps")]
    TooManySteps,
}

/// The use of the answer in the next call.
#[derive(Clone, Copy, Debug)]
enum Awaited {
    Nothing,
    Register(u16),
    Memory { address: u64, size: u8 },
    Variable,
}

use EvaluationErrorKind as Kind;

impl Default for Evaluation {
    fn default() -> Self {
        Self::new()
    }
}

impl Evaluation {
    /// An evaluation that has not begun.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            stack: [0; STACK_LIMIT],
            depth: 0,
            offset: 0,
            steps: 0,
            awaited: Awaited::Nothing,
        }
    }

    /// Begins a program, in any state.
    ///
    /// # Errors
    /// When the program fails before it needs anything; see [`EvaluationErrorKind`].
    pub fn start<'e>(&'e mut self, program: &'e [u8]) -> Result<Request<'e>, EvaluationError> {
        self.depth = 0;
        self.offset = 0;
        self.steps = 0;
        self.awaited = Awaited::Nothing;
        if program.is_empty() {
            return Err(EvaluationError {
                offset: 0,
                kind: Kind::Empty,
            });
        }
        self.run(program)
    }

    /// Continues with the answer to the last request; `program` is the one that was started.
    ///
    /// # Errors
    /// When the program fails, or the answer is `None` and the program needs one.
    pub fn resume<'e>(
        &'e mut self,
        program: &'e [u8],
        answer: Option<u64>,
    ) -> Result<Request<'e>, EvaluationError> {
        let value = match (
            std::mem::replace(&mut self.awaited, Awaited::Nothing),
            answer,
        ) {
            (Awaited::Nothing, _) => return self.run(program),
            (Awaited::Register(register), None) => {
                return Err(self.failed(3, Kind::BadRegister(register)));
            }
            (Awaited::Memory { address, size }, None) => {
                return Err(self.failed(1, Kind::BadMemory { address, size }));
            }
            (Awaited::Variable, None) => 0,
            (_, Some(value)) => value,
        };
        // The instruction that asked made sure that there is room for the answer.
        if let Some(cell) = self.stack.get_mut(self.depth) {
            *cell = value;
            self.depth += 1;
        }
        self.run(program)
    }

    /// How many steps the last program took, where it ended without an error, or has taken so far.
    #[must_use]
    pub const fn steps(&self) -> u32 {
        self.steps
    }

    /// An error of the instruction of `length` bytes that has just been passed.
    fn failed(&self, length: usize, kind: Kind) -> EvaluationError {
        EvaluationError {
            offset: self.offset.saturating_sub(length),
            kind,
        }
    }

    fn run<'e>(&'e mut self, program: &'e [u8]) -> Result<Request<'e>, EvaluationError> {
        // The state is in locals while it runs, and is written back at a request.
        let mut offset = self.offset;
        let mut depth = self.depth;
        let mut steps = self.steps;

        loop {
            let start = offset;
            let fail = |kind| EvaluationError {
                offset: start,
                kind,
            };
            let Some(&byte) = program.get(offset) else {
                return Err(fail(Kind::OutOfProgram));
            };
            let Some(opcode) = Opcode::from_byte(byte) else {
                return Err(fail(Kind::UnknownOpcode(byte)));
            };
            steps += 1;
            if steps > STEP_LIMIT {
                return Err(fail(Kind::TooManySteps));
            }
            // Checked once for all opcodes; the arms below then access existing cells.
            if depth < opcode.pops() {
                return Err(fail(Kind::StackUnderflow));
            }
            if depth - opcode.pops() + opcode.pushes() > STACK_LIMIT {
                return Err(fail(Kind::StackOverflow));
            }
            offset += 1;

            macro_rules! peek {
                ($size:literal) => {
                    match program.get(offset..offset + $size) {
                        Some(bytes) => big_endian(bytes),
                        None => return Err(fail(Kind::Incomplete(opcode))),
                    }
                };
            }
            macro_rules! operand {
                ($size:literal) => {{
                    let operand = peek!($size);
                    offset += $size;
                    operand
                }};
            }
            macro_rules! unary {
                (|$a:ident| $value:expr) => {{
                    let $a = self.stack[depth - 1];
                    self.stack[depth - 1] = $value;
                }};
            }
            macro_rules! binary {
                (|$a:ident, $b:ident| $value:expr) => {{
                    let ($a, $b) = (self.stack[depth - 2], self.stack[depth - 1]);
                    depth -= 1;
                    self.stack[depth - 1] = $value;
                }};
            }
            macro_rules! divide {
                (|$a:ident, $b:ident| $value:expr) => {{
                    if self.stack[depth - 1] == 0 {
                        return Err(fail(Kind::DivisionByZero));
                    }
                    binary!(|$a, $b| $value);
                }};
            }
            macro_rules! push {
                ($value:expr) => {{
                    self.stack[depth] = $value;
                    depth += 1;
                }};
            }
            macro_rules! suspend {
                ($awaited:expr, $request:expr) => {{
                    self.offset = offset;
                    self.depth = depth;
                    self.steps = steps;
                    self.awaited = $awaited;
                    return Ok($request);
                }};
            }
            macro_rules! load {
                ($size:literal) => {{
                    depth -= 1;
                    let address = self.stack[depth];
                    suspend!(
                        Awaited::Memory {
                            address,
                            size: $size
                        },
                        Request::Memory {
                            address,
                            size: $size
                        }
                    )
                }};
            }

            match opcode {
                Opcode::Add => binary!(|a, b| a.wrapping_add(b)),
                Opcode::Sub => binary!(|a, b| a.wrapping_sub(b)),
                Opcode::Mul => binary!(|a, b| a.wrapping_mul(b)),
                Opcode::DivSigned => {
                    divide!(|a, b| a
                        .cast_signed()
                        .wrapping_div(b.cast_signed())
                        .cast_unsigned());
                }
                Opcode::DivUnsigned => divide!(|a, b| a / b),
                Opcode::RemSigned => {
                    divide!(|a, b| a
                        .cast_signed()
                        .wrapping_rem(b.cast_signed())
                        .cast_unsigned());
                }
                Opcode::RemUnsigned => divide!(|a, b| a % b),
                Opcode::Lsh => binary!(|a, b| if b < 64 { a << b } else { 0 }),
                Opcode::RshSigned => {
                    binary!(|a, b| (a.cast_signed() >> b.min(63)).cast_unsigned());
                }
                Opcode::RshUnsigned => binary!(|a, b| if b < 64 { a >> b } else { 0 }),
                Opcode::LogNot => unary!(|a| u64::from(a == 0)),
                Opcode::BitAnd => binary!(|a, b| a & b),
                Opcode::BitOr => binary!(|a, b| a | b),
                Opcode::BitXor => binary!(|a, b| a ^ b),
                Opcode::BitNot => unary!(|a| !a),
                Opcode::Equal => binary!(|a, b| u64::from(a == b)),
                Opcode::LessSigned => {
                    binary!(|a, b| u64::from(a.cast_signed() < b.cast_signed()));
                }
                Opcode::LessUnsigned => binary!(|a, b| u64::from(a < b)),
                Opcode::Ext => {
                    let bits = operand!(1);
                    unary!(|a| match bits {
                        0 => 0,
                        1..64 => ((a << (64 - bits)).cast_signed() >> (64 - bits)).cast_unsigned(),
                        _ => a,
                    });
                }
                Opcode::ZeroExt => {
                    let bits = operand!(1);
                    unary!(|a| if bits < 64 { a & ((1 << bits) - 1) } else { a });
                }
                Opcode::Const8 => push!(operand!(1)),
                Opcode::Const16 => push!(operand!(2)),
                Opcode::Const32 => push!(operand!(4)),
                Opcode::Const64 => push!(operand!(8)),
                Opcode::Dup => push!(self.stack[depth - 1]),
                Opcode::Pop => depth -= 1,
                Opcode::Swap => self.stack.swap(depth - 1, depth - 2),
                Opcode::Rot => self.stack[depth - 3..depth].rotate_right(1),
                Opcode::Pick => {
                    let below = operand!(1) as usize;
                    if below >= depth {
                        return Err(fail(Kind::StackUnderflow));
                    }
                    push!(self.stack[depth - 1 - below]);
                }
                Opcode::Goto => offset = peek!(2) as usize,
                Opcode::IfGoto => {
                    let target = operand!(2) as usize;
                    depth -= 1;
                    if self.stack[depth] != 0 {
                        offset = target;
                    }
                }
                Opcode::Ref8 => load!(1),
                Opcode::Ref16 => load!(2),
                Opcode::Ref32 => load!(4),
                Opcode::Ref64 => load!(8),
                Opcode::Reg => {
                    let register = operand!(2) as u16;
                    suspend!(Awaited::Register(register), Request::Register(register))
                }
                Opcode::GetV => {
                    let number = operand!(2) as u16;
                    suspend!(Awaited::Variable, Request::Variable(number))
                }
                Opcode::SetV => {
                    let number = operand!(2) as u16;
                    let value = self.stack[depth - 1].cast_signed();
                    suspend!(Awaited::Nothing, Request::SetVariable { number, value })
                }
                Opcode::TraceV => {
                    let number = operand!(2) as u16;
                    suspend!(Awaited::Nothing, Request::CollectVariable(number))
                }
                Opcode::Trace => {
                    depth -= 2;
                    let (address, length) = (self.stack[depth], self.stack[depth + 1]);
                    suspend!(Awaited::Nothing, Request::CollectMemory { address, length })
                }
                Opcode::TraceQuick | Opcode::Trace16 => {
                    let length = if opcode == Opcode::Trace16 {
                        operand!(2)
                    } else {
                        operand!(1)
                    };
                    let address = self.stack[depth - 1];
                    suspend!(Awaited::Nothing, Request::CollectMemory { address, length })
                }
                Opcode::TraceNz => {
                    depth -= 2;
                    let (address, limit) = (self.stack[depth], self.stack[depth + 1]);
                    suspend!(Awaited::Nothing, Request::CollectString { address, limit })
                }
                Opcode::Printf => {
                    let count = operand!(1) as usize;
                    let length = operand!(2) as usize;
                    let Some(text) = program.get(offset..offset + length) else {
                        return Err(fail(Kind::Incomplete(opcode)));
                    };
                    let Some((0, format)) = text.split_last() else {
                        return Err(fail(Kind::UnterminatedFormat));
                    };
                    offset += length;
                    if depth - 2 < count {
                        return Err(fail(Kind::StackUnderflow));
                    }
                    depth -= 2;
                    let (channel, function) = (self.stack[depth], self.stack[depth + 1]);
                    let first = depth - count;
                    // They are off the stack now, so they can be put into the order of the format.
                    self.stack[first..depth].reverse();
                    self.offset = offset;
                    self.depth = first;
                    self.steps = steps;
                    self.awaited = Awaited::Nothing;
                    return Ok(Request::Print {
                        format,
                        function,
                        channel,
                        arguments: &self.stack[first..depth],
                    });
                }
                Opcode::End => {
                    let result = depth.checked_sub(1).map(|top| self.stack[top]);
                    // Going on from here finds the `end` again.
                    self.offset = start;
                    self.depth = depth;
                    self.steps = steps;
                    return Ok(Request::Done(result));
                }
                Opcode::Float
                | Opcode::RefFloat
                | Opcode::RefDouble
                | Opcode::RefLongDouble
                | Opcode::LongToDouble
                | Opcode::DoubleToLong
                | Opcode::Invalid2 => return Err(fail(Kind::Reserved(opcode))),
            }
        }
    }
}

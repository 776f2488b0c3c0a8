//! Evaluation in one call, for a caller that can answer all requests at once.

use crate::evaluation::{Evaluation, EvaluationError, Request};

/// The requests and effects of a program. The effects do nothing by default: a condition has none.
pub trait Context {
    /// The value of a register, zero-extended; `None` where there is none.
    fn register(&mut self, register: u16) -> Option<u64>;

    /// A number of 1, 2, 4 or 8 bytes from memory, in target byte order, zero-extended; `None` where it cannot be
    /// read.
    fn memory(&mut self, address: u64, size: u8) -> Option<u64>;

    /// The value of a trace state variable, 0 for one that does not exist.
    fn variable(&mut self, number: u16) -> i64;

    /// Gives a trace state variable a value.
    fn set_variable(&mut self, number: u16, value: i64);

    /// Collects `length` bytes of memory.
    fn collect_memory(&mut self, address: u64, length: u64) {
        _ = (address, length);
    }

    /// Collects a string of at most `limit` bytes, its NUL included.
    fn collect_string(&mut self, address: u64, limit: u64) {
        _ = (address, limit);
    }

    /// Collects a trace state variable.
    fn collect_variable(&mut self, number: u16) {
        _ = number;
    }

    /// Prints. The format has no NUL; the arguments are in its order.
    fn print(&mut self, format: &[u8], function: u64, channel: u64, arguments: &[u64]) {
        _ = (format, function, channel, arguments);
    }
}

impl Evaluation {
    /// Evaluates a program from its start to its end; the result is the top of the stack, if there is anything on it.
    ///
    /// # Errors
    /// When the program fails; effects before the failure remain.
    pub fn evaluate(
        &mut self,
        program: &[u8],
        context: &mut (impl Context + ?Sized),
    ) -> Result<Option<u64>, EvaluationError> {
        let mut request = self.start(program)?;
        loop {
            let answer = match request {
                Request::Done(result) => return Ok(result),
                Request::Register(register) => context.register(register),
                Request::Memory { address, size } => context.memory(address, size),
                Request::Variable(number) => Some(context.variable(number).cast_unsigned()),
                Request::CollectMemory { address, length } => {
                    context.collect_memory(address, length);
                    None
                }
                Request::CollectString { address, limit } => {
                    context.collect_string(address, limit);
                    None
                }
                Request::CollectVariable(number) => {
                    context.collect_variable(number);
                    None
                }
                Request::SetVariable { number, value } => {
                    context.set_variable(number, value);
                    None
                }
                Request::Print {
                    format,
                    function,
                    channel,
                    arguments,
                } => {
                    context.print(format, function, channel, arguments);
                    None
                }
            };
            request = self.resume(program, answer)?;
        }
    }
}

//! Expressions at a debugger's breakpoints, which share the experiment's variables.

use tracewire_agent_expr::{Context, EvaluationError, Verified};
use tracewire_model::Address;

use crate::collect::Moment;
use crate::maker::{ConditionContext, FrameMaker};
use crate::printf;
use crate::target::{MemoryRead, StoppedThread};
use crate::variables::Variables;

/// The longest string that is printed, in bytes.
const LONGEST_STRING: usize = 1 << 16;
/// How much of a string is read at once: pieces of this size do not lie across the end of a page.
const STRING_PIECE: u64 = 256;

/// Evaluates the condition or a command of a debugger's breakpoint for a thread that is stopped there. Printed text is appended to
/// `output`; collected data is dropped.
///
/// # Errors
/// When it fails; effects before the failure remain.
pub(crate) fn evaluate(
    program: &Verified,
    maker: &mut FrameMaker,
    variables: &mut Variables,
    thread: &mut dyn StoppedThread,
    output: &mut Vec<u8>,
) -> Result<Option<u64>, EvaluationError> {
    maker.begin_stop();
    let (evaluation, fetched) = maker.evaluation();
    let mut context = Printing {
        inner: ConditionContext {
            moment: Moment { thread, variables },
            fetched,
        },
        output,
    };
    evaluation.evaluate(program.code(), &mut context)
}

/// The context of a condition, and a buffer for printed text.
struct Printing<'c> {
    inner: ConditionContext<'c>,
    output: &'c mut Vec<u8>,
}

impl Context for Printing<'_> {
    fn register(&mut self, register: u16) -> Option<u64> {
        self.inner.register(register)
    }

    fn memory(&mut self, address: u64, size: u8) -> Option<u64> {
        self.inner.memory(address, size)
    }

    fn variable(&mut self, number: u16) -> i64 {
        self.inner.variable(number)
    }

    fn set_variable(&mut self, number: u16, value: i64) {
        self.inner.set_variable(number, value);
    }

    fn collect_variable(&mut self, number: u16) {
        self.inner.collect_variable(number);
    }

    fn print(&mut self, format: &[u8], _function: u64, _channel: u64, arguments: &[u64]) {
        let thread = &mut *self.inner.moment.thread;
        let mut string = |address| string(thread, address);
        printf::print(format, arguments, &mut string, self.output);
    }
}

/// The string at an address, as far as it can be read.
fn string(thread: &mut dyn StoppedThread, address: u64) -> Vec<u8> {
    let mut string = Vec::new();
    let mut place = address;
    while string.len() < LONGEST_STRING {
        let length = STRING_PIECE - place % STRING_PIECE;
        let mut piece = [MemoryRead {
            address: Address(place),
            bytes: vec![0; length as usize],
            filled: 0,
        }];
        thread.read_memory(&mut piece);
        let [MemoryRead { bytes, filled, .. }] = &piece;
        let read = bytes.get(..*filled).unwrap_or_default();
        if let Some(end) = read.iter().position(|byte| *byte == 0) {
            string.extend(read.iter().take(end));
            break;
        }
        string.extend_from_slice(read);
        if read.len() < bytes.len() {
            break;
        }
        place = place.wrapping_add(length);
    }
    string
}

//! `$stack`: the registers and the piece of the stack from which a frame's callers are found.

use tracewire_agent_expr::{Builder, Opcode};
use tracewire_arch::{Architecture, Machine, gdb_register};
use tracewire_model::{Address, RegisterMask};

/// How many call frames `$stack` without a number is for.
const FRAMES: u32 = 16;

/// How many bytes of the stack are collected for each requested call frame. At `-O2`, call frames of C, C++ and Rust take 50 to
/// 200 bytes on average; the frame of a signal takes 1 to 3.5 KiB.
const BYTES_A_FRAME: u32 = 512;

/// The most call frames: their bytes fit one block of a trace frame, and leave room for the rest of the frame.
const MOST_FRAMES: u32 = 112;

/// The item `$stack` or `$stack(N)` of a `collect` line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StackItem {
    /// N: of so many call frames.
    pub frames: Option<u32>,
}

impl StackItem {
    /// Parses an item of a `collect` line; `None` if it is another item.
    ///
    /// # Errors
    /// When N is not a number from 1 to the limit; the text says so.
    pub fn parse(item: &str) -> Option<Result<Self, String>> {
        let rest = item.trim().strip_prefix("$stack")?.trim_start();
        if rest.is_empty() {
            return Some(Ok(Self { frames: None }));
        }
        let number = rest.strip_prefix('(')?.strip_suffix(')')?.trim();
        let frames = number.parse().ok();
        let frames = frames.filter(|frames| (1..=MOST_FRAMES).contains(frames));
        Some(match frames {
            Some(frames) => Ok(Self {
                frames: Some(frames),
            }),
            None => Err(format!(
                "$stack({number}): expected a number of call frames from 1 to {MOST_FRAMES}."
            )),
        })
    }

    /// How many bytes of the stack are collected.
    #[must_use]
    pub fn bytes(self) -> u32 {
        self.frames.unwrap_or(FRAMES) * BYTES_A_FRAME
    }

    /// The registers that are collected.
    pub(crate) fn registers(architecture: Architecture) -> RegisterMask {
        let columns = unwind_columns(architecture);
        columns
            .filter_map(|column| gdb_register(architecture, column))
            .collect()
    }

    /// The program that leaves the start of the piece of the stack and its length. `top` is the end of the main thread's stack,
    /// if it is known. The stacks of the other threads end, with most C libraries, at the thread's control block. So a collection
    /// does not run over the end of a stack.
    pub(crate) fn length(self, architecture: Architecture, top: Option<Address>) -> Builder {
        let machine = Machine::with_linux(architecture);
        let stack_pointer = machine.stack_pointer().0;
        let bytes = i64::from(self.bytes());
        let mut builder = Builder::new();
        let collect = builder.label();
        builder.reg(stack_pointer);
        if let Some(top) = top {
            builder.constant(top.0.cast_signed()).reg(stack_pointer);
            shorter(&mut builder, bytes, collect);
        }
        if architecture == Architecture::X86_64
            && let Some(thread) = machine.thread_pointer()
        {
            builder.reg(thread.0).reg(stack_pointer);
            shorter(&mut builder, bytes, collect);
        }
        builder.constant(bytes).place(collect);
        builder
    }
}

/// Jumps to a label with the difference of the two numbers on the stack, if that is below `bytes`.
fn shorter(builder: &mut Builder, bytes: i64, label: tracewire_agent_expr::Label) {
    builder.op(Opcode::Sub).op(Opcode::Dup).constant(bytes);
    builder.op(Opcode::LessUnsigned).if_goto(label);
    builder.op(Opcode::Pop);
}

/// The columns of a machine's call frame information that hold numbers: DWARF's numbers of the registers.
pub(crate) fn unwind_columns(architecture: Architecture) -> impl Iterator<Item = u16> {
    let columns = match architecture {
        Architecture::X86_64 => 0..=16,
        Architecture::I386 => 0..=8,
        Architecture::PowerPc | Architecture::PowerPc64 | Architecture::PowerPc64Little => 0..=109,
        _ => 0..=66,
    };
    let layout = Machine::with_linux(architecture).layout();
    columns.filter(move |column| {
        gdb_register(architecture, *column)
            .and_then(|number| layout.by_number(number))
            .is_some_and(|register| register.bits <= 64)
    })
}

#[cfg(test)]
mod tests {
    use super::StackItem;

    #[test]
    fn items() {
        let frames = |item| StackItem::parse(item).map(|found| found.map(|item| item.frames));
        assert_eq!(frames("$stack"), Some(Ok(None)));
        assert_eq!(frames(" $stack ( 32 ) "), Some(Ok(Some(32))));
        assert!(frames("$stack(0)").is_some_and(|found| found.is_err()));
        assert!(frames("$stack(113)").is_some_and(|found| found.is_err()));
        for other in ["$stacks", "stack", "$stack->x", "$stack + 1", "$sta"] {
            assert_eq!(frames(other), None, "{other}");
        }
    }
}

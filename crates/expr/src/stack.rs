//! `$stack` and `$stack_fp`: the registers and the parts of the stack from which a frame's callers are found.

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

/// How far above the stack pointer the outermost frame pointer is at most, in bytes, where the end of the stack is not known. Less than
/// what the kernel leaves free below the main thread's stack, so that the stack of another thread is not taken for a part of it.
const FARTHEST: u32 = 64 << 20;

/// What a frame pointer points to: the caller's frame pointer and the return address. At a function's first instruction, they
/// are at the stack pointer, or the return address alone is.
const LINK: u16 = 16;

/// How the parts of the stack are found that are collected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StackWalk {
    /// `$stack`: one piece, from the stack pointer on.
    Bytes,
    /// `$stack_fp`: what each frame pointer points to.
    FramePointers,
}

impl StackWalk {
    /// The item without its number and `$`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bytes => "stack",
            Self::FramePointers => "stack_fp",
        }
    }
}

/// What says where a stack ends, over which nothing is collected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StackEnd {
    /// The stack of the main thread ends here, if that is known. Those of other threads end, with most C libraries, at the thread's
    /// control block.
    Program(Option<Address>),
    /// Nothing: what cannot be read there is missing. A recording may not have the register that names the control block.
    Unknown,
}

impl Default for StackEnd {
    fn default() -> Self {
        Self::Program(None)
    }
}

/// The item `$stack`, `$stack(N)`, `$stack_fp` or `$stack_fp(N)` of a `collect` line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StackItem {
    /// N: of so many call frames.
    pub frames: Option<u32>,
    /// What is collected.
    pub walk: StackWalk,
}

impl StackItem {
    /// Parses an item of a `collect` line; `None` if it is another item.
    ///
    /// # Errors
    /// When N is not a number from 1 to the limit; the text says so.
    pub fn parse(item: &str) -> Option<Result<Self, String>> {
        let rest = item.trim().strip_prefix("$stack")?;
        let (walk, rest) = match rest.strip_prefix("_fp") {
            Some(rest) => (StackWalk::FramePointers, rest.trim_start()),
            None => (StackWalk::Bytes, rest.trim_start()),
        };
        if rest.is_empty() {
            return Some(Ok(Self { frames: None, walk }));
        }
        let number = rest.strip_prefix('(')?.strip_suffix(')')?.trim();
        let frames = number.parse().ok();
        let frames = frames.filter(|frames| (1..=MOST_FRAMES).contains(frames));
        Some(match frames {
            Some(frames) => Ok(Self {
                frames: Some(frames),
                walk,
            }),
            None => Err(format!(
                "${}({number}): expected a number of call frames from 1 to {MOST_FRAMES}.",
                walk.name()
            )),
        })
    }

    /// For how many call frames something is collected.
    #[must_use]
    pub fn wanted(self) -> u32 {
        self.frames.unwrap_or(FRAMES)
    }

    /// The registers that are collected.
    pub(crate) fn registers(architecture: Architecture) -> RegisterMask {
        let columns = unwind_columns(architecture);
        columns
            .filter_map(|column| gdb_register(architecture, column))
            .collect()
    }

    /// The program that leaves the start of the piece of the stack and its length, which is not over the end of the stack.
    pub(crate) fn length(self, architecture: Architecture, stack_end: StackEnd) -> Builder {
        let mut builder = Builder::new();
        let machine = Machine::with_linux(architecture);
        builder.reg(machine.stack_pointer().0);
        let bytes = self.wanted() * BYTES_A_FRAME;
        room(&mut builder, architecture, stack_end, bytes);
        builder
    }

    /// The program that collects what the stack pointer points to, and then what each frame pointer points to. It
    /// ends where a frame pointer is not above the one before, or not on the stack. `None` for a machine whose frame
    /// pointers point to something else.
    pub(crate) fn frame_pointers(
        self,
        architecture: Architecture,
        stack_end: StackEnd,
    ) -> Option<Builder> {
        if architecture != Architecture::X86_64 {
            return None;
        }
        let machine = Machine::with_linux(architecture);
        let stack_pointer = machine.stack_pointer().0;
        let frame_pointer = gdb_register(architecture, X86_64_FRAME_POINTER)?.0;
        let mut builder = Builder::new();
        let end = builder.label();
        builder.reg(stack_pointer).trace_quick(LINK).op(Opcode::Pop);
        // On the stack: the end of the program's stack, and the frame pointer. There is no loop, because the steps of one are counted.
        builder.reg(stack_pointer);
        room(&mut builder, architecture, stack_end, FARTHEST);
        builder.op(Opcode::Add).reg(frame_pointer);
        builder.op(Opcode::Dup).reg(stack_pointer);
        builder.op(Opcode::LessUnsigned);
        builder.pick(1).pick(3).op(Opcode::LessUnsigned);
        builder.op(Opcode::LogNot).op(Opcode::BitOr).if_goto(end);
        builder.trace_quick(LINK);
        for _ in 1..self.wanted() {
            // The caller's is above, and on the stack.
            builder.op(Opcode::Dup).load(8);
            builder.op(Opcode::Swap).pick(1).op(Opcode::LessUnsigned);
            builder.pick(1).pick(3).op(Opcode::LessUnsigned);
            builder.op(Opcode::BitAnd).op(Opcode::LogNot).if_goto(end);
            builder.trace_quick(LINK);
        }
        builder.place(end);
        Some(builder)
    }
}

/// The name of the item without its number and `$`; `None` if it is another item.
#[must_use]
pub fn item_name(item: &str) -> Option<&'static str> {
    let name = item.trim().strip_prefix('$')?.split(['(', ' ']).next()?;
    let walks = [StackWalk::Bytes, StackWalk::FramePointers];
    walks
        .map(StackWalk::name)
        .into_iter()
        .find(|known| *known == name)
}

/// DWARF's number of `rbp`.
const X86_64_FRAME_POINTER: u16 = 6;

/// Leaves how many bytes of the stack there are from the stack pointer on, `most` at most.
fn room(builder: &mut Builder, architecture: Architecture, stack_end: StackEnd, most: u32) {
    let machine = Machine::with_linux(architecture);
    let stack_pointer = machine.stack_pointer().0;
    let most = i64::from(most);
    let known = builder.label();
    if let StackEnd::Program(Some(top)) = stack_end {
        builder.constant(top.0.cast_signed()).reg(stack_pointer);
        shorter(builder, most, known);
    }
    if architecture == Architecture::X86_64
        && stack_end != StackEnd::Unknown
        && let Some(thread) = machine.thread_pointer()
    {
        builder.reg(thread.0).reg(stack_pointer);
        shorter(builder, most, known);
    }
    builder.constant(most).place(known);
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
        assert_eq!(frames("$stack_fp"), Some(Ok(None)));
        assert_eq!(frames("$stack_fp (3)"), Some(Ok(Some(3))));
        assert!(frames("$stack_fp(x)").is_some_and(|found| found.is_err()));
        for other in [
            "$stacks",
            "$stack_fps",
            "$stack_f",
            "stack",
            "$stack->x",
            "$stack + 1",
            "$sta",
        ] {
            assert_eq!(frames(other), None, "{other}");
        }
    }
}

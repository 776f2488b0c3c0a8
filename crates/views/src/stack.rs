//! The call frames of a trace frame that has `$stack`.

use serde::Serialize;
use tracewire_debuginfo::Symbols;
use tracewire_expr::{BacktraceEnd, CallFrame, StackItem, State as _};
use tracewire_tracefile::Frame;

use crate::frame::Viewer;
use crate::frame_place::FramePlace;
use crate::state::FrameState;

/// GDB's name for the frame that the kernel makes for a signal handler.
const SIGNAL: &str = "<signal handler called>";

/// A function on the stack; of inlined functions, one each.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct StackEntry {
    /// Where it continues, `0x…`.
    pub pc: String,
    /// The function; `<signal handler called>` for the kernel's frame between a handler and the interrupted function.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// The source file, as the debug information names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The source line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// Whether it is inlined into the next one.
    pub inlined: bool,
}

/// The functions on the stack, the innermost first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stack {
    /// At least one.
    pub entries: Vec<StackEntry>,
    /// Why there are no more: `outermost`, `limit`, `unavailable` or `no-information`.
    pub end: &'static str,
}

impl<'a> Viewer<'a> {
    /// The functions on the stack of a frame that has `$stack`; none of another frame, and where no symbols are known.
    #[must_use]
    pub fn stack(&self, frame: Frame<'a>) -> Option<Stack> {
        let here = self.frame_place(frame, &frame.saved_state())?;
        self.stack_at(frame, &here)
    }

    /// The functions on the stack of a frame whose place is known.
    pub(crate) fn stack_at(&self, frame: Frame<'a>, here: &FramePlace<'a>) -> Option<Stack> {
        let item = here.stack_item()?;
        let state = FrameState::new(self.file(), frame)?;
        let symbols = self.symbols(frame);
        let limit = item.frames.map_or(usize::MAX, |frames| frames as usize);
        let backtrace = self.unwinders.of(symbols).backtrace(&state, limit);
        let mut entries = Vec::new();
        for call in backtrace.frames {
            self.add_entries(frame, &state, symbols, call, &mut entries);
        }
        Some(Stack {
            entries,
            end: match backtrace.end {
                BacktraceEnd::Outermost => "outermost",
                BacktraceEnd::Limit => "limit",
                BacktraceEnd::Unavailable => "unavailable",
                BacktraceEnd::NoInformation => "no-information",
            },
        })
    }

    /// A call frame as the functions that are inlined there, and the real one.
    fn add_entries(
        &self,
        frame: Frame<'a>,
        state: &FrameState<'a>,
        symbols: &'a Symbols,
        call: CallFrame,
        entries: &mut Vec<StackEntry>,
    ) {
        let mut entry = StackEntry {
            pc: call.pc.to_string(),
            function: None,
            file: None,
            line: None,
            inlined: false,
        };
        if call.is_signal {
            entry.function = Some(SIGNAL.to_owned());
            entries.push(entry);
            return;
        }
        let place = match call.pc == state.pc() && entries.is_empty() {
            true => self.source_place(frame, call.pc),
            false => self.places.get(symbols, call.lookup.into()),
        };
        if let Some(source) = place.source() {
            let known = |line: u64| Some(line).filter(|line| *line != 0);
            entry.function.clone_from(&source.function);
            entry.file.clone_from(&source.file);
            entry.line = known(source.line);
            for caller in &source.callers {
                let outer = StackEntry {
                    function: Some(caller.function.clone()).filter(|name| !name.is_empty()),
                    file: caller.file.clone(),
                    line: known(caller.line),
                    ..entry.clone()
                };
                entry.inlined = true;
                entries.push(std::mem::replace(&mut entry, outer));
            }
        }
        entries.push(entry);
    }
}

/// Stacks as lines for a flame graph: the functions from the outermost to the innermost, parted by `;`. One that ends before its
/// outermost function begins with `[truncated]`.
#[must_use]
pub fn folded(stack: &Stack) -> String {
    let names = stack.entries.iter().rev().map(|entry| {
        let name = entry.function.as_deref().unwrap_or(&entry.pc);
        crate::words::printable(&name.replace(';', ","))
    });
    let cut = (stack.end != "outermost").then(|| "[truncated]".to_owned());
    cut.into_iter().chain(names).collect::<Vec<_>>().join(";")
}

/// The item that collects the stack.
pub(crate) fn stack_item(item: &str) -> Option<StackItem> {
    StackItem::parse(item)?.ok()
}

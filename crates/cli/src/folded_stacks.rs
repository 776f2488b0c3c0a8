//! `show --folded`: the stacks of frames, each once with how many frames have it.

use std::collections::BTreeMap;
use std::io::Write;
use std::ops::ControlFlow;

use tracewire_model::FrameNumber;
use tracewire_tracefile::{Frame, TraceFile};
use tracewire_views::{Condition, Program, Viewer, folded};

use crate::answer::Answer;
use crate::condition::explain_nothing;
use crate::in_order;

/// Stacks as lines for flame graphs, with their numbers of frames.
#[derive(Debug, Default)]
pub struct FoldedStacks(BTreeMap<String, u64>);

impl FoldedStacks {
    /// Adds the stacks of a file's frames for which a condition is true.
    pub fn add<'a>(
        &mut self,
        file: &'a TraceFile,
        program: Program,
        frames: impl Iterator<Item = Frame<'a>>,
        condition: &Condition<'_>,
    ) -> anyhow::Result<()> {
        let look = |viewer: &Viewer<'_>, numbers: &[FrameNumber]| {
            let mut lines = Vec::new();
            for frame in (numbers.iter()).filter_map(|number| viewer.file().frame(*number)) {
                if condition.is_given() && !condition.fits(viewer, frame)? {
                    continue;
                }
                lines.extend(viewer.stack(frame).map(|stack| folded(&stack)));
            }
            Ok(lines)
        };
        in_order::map(file, program, frames, &look, |lines: Vec<String>| {
            for line in lines {
                *self.0.entry(line).or_default() += 1;
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(())
    }

    /// Writes them.
    pub fn write(&self, output: &mut impl Write) -> std::io::Result<()> {
        for (line, count) in &self.0 {
            writeln!(output, "{line} {count}")?;
        }
        output.flush()
    }

    /// Whether there are any. Says why if there are none.
    pub fn answer(&self, condition: &Condition<'_>) -> Answer {
        if condition.is_given() && condition.fitting() == 0 {
            explain_nothing(condition);
            return Answer::No;
        }
        if self.0.is_empty() {
            message!(
                "tracewire: no frame has a stack: collect it with $stack in a list, or backtrace in a script"
            );
            return Answer::No;
        }
        Answer::Yes
    }
}

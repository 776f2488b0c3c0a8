//! Stacks as lines for flame graphs: the functions from the outermost to the innermost, parted by `;`, and how many hits had them.

use std::collections::BTreeMap;
use std::io::Write;

use tracewire_views::{RunPart, folded};

use crate::error::ExportError;
use crate::run::{Needs, Run};
use crate::words::program_name;

/// Writes how often each stack came, sorted. A run of several processes has the program's name in front. The different stacks are in memory.
///
/// # Errors
/// When no frame has a stack, and when the sink refuses.
pub fn write(parts: &[RunPart<'_>], out: &mut impl Write) -> Result<(), ExportError> {
    let run = Run::new(parts);
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    let needs = Needs {
        values: false,
        stack: true,
    };
    run.for_each(needs, |event| -> Result<(), ExportError> {
        if let Some(stack) = &event.stack {
            let part = parts.get(event.part).filter(|_| parts.len() > 1);
            let line = match part {
                Some(part) => format!("{};{}", program_name(part.file), folded(stack)),
                None => folded(stack),
            };
            *counts.entry(line).or_default() += 1;
        }
        Ok(())
    })?;
    if counts.is_empty() {
        return Err(ExportError::NoStacks);
    }
    for (line, count) in counts {
        writeln!(out, "{line} {count}")?;
    }
    Ok(out.flush()?)
}

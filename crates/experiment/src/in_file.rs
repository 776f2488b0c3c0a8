//! The form of a tracepoint in a trace file that GDB opens.

use tracewire_arch::RegisterLayout;
use tracewire_model::{Action, Tracepoint, TracepointKind};
use tracewire_tracefile::MAX_LINE;

/// The shortest x86 instruction at which GDB accepts a fast tracepoint of a file: a jump's length.
const JUMP: u64 = 5;

/// The most bytes of an action's line before the digits of its expression.
const BEFORE_DIGITS: usize = "tp A12345678:0123456789abcdef:XFFFF,".len();

/// Changes a fast tracepoint at an instruction that is shorter than an x86 jump into a tracepoint by trap. GDB creates a file's
/// tracepoints again when it opens the file, and stops reading at the first impossible one.
///
/// An expression whose line is longer than GDB reads is left out, such as one that walks a container. GDB does not use it: it
/// compiles the action lines itself.
pub fn tell_as_gdb_takes(tracepoints: &mut [Tracepoint], layout: &RegisterLayout) {
    let fits = |action: &Action| match action {
        Action::Expression(program) => BEFORE_DIGITS + 2 * program.len() <= MAX_LINE,
        _ => true,
    };
    for tracepoint in tracepoints.iter_mut() {
        tracepoint.definition.actions.retain(fits);
        tracepoint.definition.step_actions.retain(fits);
    }
    // On other machines GDB does not check it.
    if !layout
        .architecture()
        .is_some_and(|name| name.starts_with("i386"))
    {
        return;
    }
    for tracepoint in tracepoints {
        let kind = &mut tracepoint.definition.kind;
        if matches!(kind, TracepointKind::Fast { length } if *length < JUMP) {
            *kind = TracepointKind::Trap;
        }
    }
}

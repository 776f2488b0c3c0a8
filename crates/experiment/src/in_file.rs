//! How a trace file tells a tracepoint, so that GDB opens it.

use tracewire_arch::RegisterLayout;
use tracewire_model::{Action, Tracepoint, TracepointKind};
use tracewire_tracefile::MAX_LINE;

/// The shortest instruction of x86 at which GDB takes a fast tracepoint of a file's: a jump's length.
const JUMP: u64 = 5;

/// What a line that tells an action has before the digits of its expression, at most.
const BEFORE_DIGITS: usize = "tp A12345678:0123456789abcdef:XFFFF,".len();

/// Tells a fast tracepoint at an instruction that is shorter than a jump of x86 as one by trap. GDB makes a file's
/// tracepoints again when it opens the file, and ends its reading at the first that it finds could not be.
///
/// An expression that takes a longer line than GDB reads is left out, as those are that walk containers. GDB has no use for it:
/// it compiles the action lines itself.
pub fn tell_as_gdb_takes(tracepoints: &mut [Tracepoint], layout: &RegisterLayout) {
    let fits = |action: &Action| match action {
        Action::Expression(program) => BEFORE_DIGITS + 2 * program.len() <= MAX_LINE,
        _ => true,
    };
    for tracepoint in tracepoints.iter_mut() {
        tracepoint.definition.actions.retain(fits);
        tracepoint.definition.step_actions.retain(fits);
    }
    // On other machines GDB does not look.
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

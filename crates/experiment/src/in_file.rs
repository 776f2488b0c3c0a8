//! How a trace file tells a tracepoint, so that GDB opens it.

use tracewire_arch::RegisterLayout;
use tracewire_model::{Tracepoint, TracepointKind};

/// The shortest instruction of x86 at which GDB takes a fast tracepoint of a file's: a jump's length.
const JUMP: u64 = 5;

/// Tells a fast tracepoint at an instruction that is shorter than a jump of x86 as one by trap. GDB makes a file's
/// tracepoints anew when it opens the file, and ends its reading at the first that it finds could not be.
pub fn tell_as_gdb_takes(tracepoints: &mut [Tracepoint], layout: &RegisterLayout) {
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

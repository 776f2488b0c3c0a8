//! Breakpoints and watchpoints: what the client inserts and removes.

use tracewire_packets::Reply;
use tracewire_packets::family::breakpoint::{BreakpointKind, BreakpointRequest};
use tracewire_target_linux::{Process, Watch};

use super::program::done;

pub(super) fn breakpoint_request(process: &mut Process, request: &BreakpointRequest) -> Reply {
    match *request {
        BreakpointRequest::Insert {
            kind,
            address,
            length,
            ..
        } => match by_machine(kind) {
            Ok(Some(watch)) => done(process.insert_watch(watch, address, length).is_ok()),
            Ok(None) => done(process.insert_stop(address).is_ok()),
            Err(reply) => reply,
        },
        BreakpointRequest::Remove {
            kind,
            address,
            length,
        } => match by_machine(kind) {
            Ok(Some(watch)) => {
                process.remove_watch(watch, address, length);
                Reply::Ok
            }
            Ok(None) => done(process.remove_stop(address).is_ok()),
            Err(reply) => reply,
        },
    }
}

/// What the machine is to look out for; none for a breakpoint in memory.
fn by_machine(kind: BreakpointKind) -> Result<Option<Watch>, Reply> {
    match kind {
        BreakpointKind::Software => Ok(None),
        BreakpointKind::Hardware => Ok(Some(Watch::Execution)),
        BreakpointKind::WriteWatchpoint => Ok(Some(Watch::Write)),
        BreakpointKind::AccessWatchpoint => Ok(Some(Watch::Access)),
        // x86 has none: GDB then takes one that also sees writes.
        BreakpointKind::ReadWatchpoint => Err(Reply::Unsupported),
    }
}

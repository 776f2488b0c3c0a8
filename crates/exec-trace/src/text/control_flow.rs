//! The transcript of a trace encoder's packets.
//!
//! It has the lines of a transcript of QEMU's log: QEMU4V's with hyphens in the place of what is not known, and lines that
//! begin with `#`. Its first line says what it is. [`etrace`](crate::etrace) writes it.

use super::qemu_log::QemuLog;
use super::stamp::Stamp;
use super::{Dialect, LineError, LineState};
use crate::record::{EventKind, Record};

/// The first line.
pub(crate) const HEADER: &[u8] = b"# transcript of a control flow trace";

/// The reader.
#[derive(Clone, Copy)]
pub(super) struct ControlFlow;

impl Dialect for ControlFlow {
    fn line<'a>(
        &self,
        state: &mut LineState,
        line: &'a [u8],
        emit: &mut impl FnMut(&LineState, &Record<'a>),
    ) -> Result<(), LineError> {
        if line == HEADER {
            emit(state, &Stamp::at(state.time).event(EventKind::Header, line));
            return Ok(());
        }
        QemuLog.line(state, line, emit)
    }
}

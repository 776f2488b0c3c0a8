//! From tracepoints to machine code.

use tracewire_tracefile::Address;

use crate::pad::{CannotCompile, Pad, PadOptions, PadTracepoint};

/// Makes the pad of an address at which these tracepoints are, to run at `place`.
///
/// # Errors
/// When a tracepoint needs more than a pad can do: see [`CannotCompile`]. It then runs as a trap.
pub fn compile(
    _site: Address,
    _tracepoints: &[PadTracepoint<'_>],
    _options: &PadOptions<'_>,
    _place: u64,
) -> Result<Pad, CannotCompile> {
    Err(CannotCompile::Encoding("not written yet".to_owned()))
}

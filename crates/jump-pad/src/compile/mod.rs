//! From tracepoints to machine code.
//!
//! A pad is compiled in passes over the same generator: the first finds how long frames can get, the second which
//! registers and how much of the stack are needed, the last makes the code.

mod cells;
mod code;
mod expression;
mod frame;
mod hit;
mod memory;
mod operation;
mod plan;
mod registers;
mod thread;

use std::collections::BTreeMap;

use tracewire_tracefile::Address;

use crate::pad::{CannotCompile, Pad, PadOptions, PadTracepoint};
use code::{Code, RED_ZONE};
use plan::Planned;

/// Makes the pad of an address at which these tracepoints are, to run at `place`.
///
/// The tracepoints do what they do in their order, each frame for itself, as a stop would have it.
///
/// # Errors
/// When a tracepoint needs more than a pad can do: see [`CannotCompile`]. It then runs as a trap.
pub fn compile(
    site: Address,
    tracepoints: &[PadTracepoint<'_>],
    options: &PadOptions<'_>,
    place: u64,
) -> Result<Pad, CannotCompile> {
    let mut planned = tracepoints
        .iter()
        .map(|tracepoint| Planned::new(tracepoint, options))
        .collect::<Result<Vec<_>, _>>()?;
    let bounds = Code::new(options, site.0, BTreeMap::new())?.pad(&planned)?;
    for (planned, bound) in planned.iter_mut().zip(bounds) {
        planned.settle(bound, options)?;
    }
    let mut second = Code::new(options, site.0, BTreeMap::new())?;
    second.pad(&planned)?;
    let mut code = Code::new(options, site.0, second.packed_slots())?;
    code.deeper = second.deeper;
    code.pad(&planned)?;
    let stack = RED_ZONE + code.room() + code.deeper;
    if stack > options.stack_limit {
        return Err(CannotCompile::Stack {
            needed: stack,
            limit: options.stack_limit,
        });
    }
    let assembled = code.assemble(place)?;
    Ok(Pad {
        code: assembled.bytes,
        faults: assembled.faults,
        stack,
        sites: code.sites,
    })
}

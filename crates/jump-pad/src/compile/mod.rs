//! From tracepoints to machine code.
//!
//! A pad is compiled in passes over the same generator. The first finds the longest frames, and the registers and the stack that
//! are needed. The last makes the code. Frames of varying length take another pass in between.

mod budget;
mod cells;
mod circular;
mod code;
mod cost;
mod count;
mod expression;
mod frame;
mod hit;
mod memory;
mod operation;
mod plan;
mod rate;
mod registers;
mod report;
mod thread;
mod walk;

use std::collections::BTreeMap;

use tracewire_model::Address;

use crate::pad::{CannotCompile, Pad, PadOptions, PadTracepoint};
pub(crate) use code::RED_ZONE;
use code::{Code, Slot};
use cost::Prices;
use plan::{Bound, Planned};

pub use report::{REPORT_SIGNAL, report};

/// Makes the pad for these tracepoints at an address. The code is position-independent.
///
/// The tracepoints run in their order, each with a separate frame, as at a stop.
///
/// # Errors
/// When a tracepoint needs more than a pad can do: see [`CannotCompile`]. It then runs as a trap.
pub fn compile(
    site: Address,
    tracepoints: &[PadTracepoint<'_>],
    options: &PadOptions<'_>,
) -> Result<Pad, CannotCompile> {
    if options.layout.sizes.when_full.overwrites() && !options.features.cmpxchg16b {
        return Err(CannotCompile::Processor);
    }
    let mut planned = tracepoints
        .iter()
        .map(|tracepoint| Planned::new(tracepoint, options))
        .collect::<Result<Vec<_>, _>>()?;
    let mut survey = Survey::new(&planned, options, site)?;
    let bounds = std::mem::take(&mut survey.bounds);
    for (planned, bound) in planned.iter_mut().zip(bounds) {
        planned.settle(bound, options)?;
    }
    if planned.iter().any(|planned| planned.shrinks) {
        survey = Survey::new(&planned, options, site)?;
    }
    for (planned, prices) in planned.iter_mut().zip(&survey.prices) {
        planned.prices = *prices;
    }
    let mut code = Code::new(options, site.0, survey.slots)?;
    code.deeper = survey.deeper;
    code.pad(&planned)?;
    let costs = planned
        .iter()
        .map(|planned| code.costs.hit_cost(code.asm.instructions(), planned));
    let costs = costs.collect();
    let stack = RED_ZONE + code.room() + code.deeper;
    if stack > options.stack_limit {
        return Err(CannotCompile::Stack {
            needed: stack,
            limit: options.stack_limit,
        });
    }
    let assembled = code.assemble()?;
    Ok(Pad {
        code: assembled.bytes,
        faults: assembled.faults,
        stack,
        costs,
        sites: code.sites,
    })
}

/// The facts about a pad that a first pass finds.
struct Survey {
    /// How long frames can get.
    bounds: Vec<Bound>,
    slots: BTreeMap<Slot, u32>,
    /// Other used parts of the stack.
    deeper: u32,
    /// The cost of hits.
    prices: Vec<Prices>,
}

impl Survey {
    /// Goes through a pad without making it.
    fn new(
        planned: &[Planned],
        options: &PadOptions<'_>,
        site: Address,
    ) -> Result<Self, CannotCompile> {
        let mut code = Code::new(options, site.0, BTreeMap::new())?;
        let bounds = code.pad(planned)?;
        let prices = planned
            .iter()
            .map(|planned| code.costs.prices(code.asm.instructions(), planned));
        let prices = prices.collect();
        Ok(Self {
            bounds,
            prices,
            slots: code.packed_slots(),
            deeper: code.deeper,
        })
    }
}

//! Making frames. The buffers are kept from hit to hit, so that nothing is allocated for one.

use tracewire_agent_expr::{Context, Evaluation};
use tracewire_arch::RegisterLayout;
use tracewire_model::{RegisterNumber, TracepointDefinition, TracepointNumber};
use tracewire_tracefile::{EncodeError, FrameEncoder, RegisterSets};

use crate::collect::{Collected, Collector, Moment};
use crate::fetched::Fetched;
use crate::kept::{KeptFor, KeptRegisters};
use crate::options::Options;
use crate::options::Registers;
use crate::pads::KeptSet;
use crate::pieces::{AddressForm, Pieces};
use crate::plan::{Actions, Plan};
use crate::withheld::Withheld;

/// Makes one frame after the other, and has the evaluation for conditions.
#[derive(Debug)]
pub(crate) struct FrameMaker {
    /// The frame that is being made, or the last one.
    frame: Vec<u8>,
    /// The offset of the time in it.
    stamp: Option<usize>,
    /// Whether it has a register block.
    has_registers: bool,
    collector: Collector,
    /// The evaluation that conditions use, one after the other.
    condition: Evaluation,
    /// The registers of frames that keep only the requested ones; `None` if they have whole register blocks.
    kept: Option<KeptRegisters>,
    /// The layout of whole register blocks, if it was set.
    layout: Option<RegisterLayout>,
    /// A register block from which registers are left out.
    block: Vec<u8>,
}

/// Why there is no frame.
pub(crate) enum Incomplete {
    /// The thread or the program has ended.
    Gone,
    /// It cannot be written down.
    Cannot(EncodeError),
}

impl From<EncodeError> for Incomplete {
    fn from(error: EncodeError) -> Self {
        Self::Cannot(error)
    }
}

impl FrameMaker {
    pub(crate) fn new(pieces: Pieces) -> Self {
        Self {
            frame: Vec::new(),
            stamp: None,
            has_registers: false,
            collector: Collector::new(pieces),
            condition: Evaluation::new(),
            kept: None,
            layout: None,
            block: Vec::new(),
        }
    }

    /// The frame that was made last.
    pub(crate) fn frame(&self) -> &[u8] {
        &self.frame
    }

    /// The offset of the time in it.
    pub(crate) const fn stamp(&self) -> Option<usize> {
        self.stamp
    }

    /// Whether it has a register block.
    pub(crate) const fn has_registers(&self) -> bool {
        self.has_registers
    }

    /// Sets the form of addresses in frames.
    pub(crate) const fn set_address_form(&mut self, form: AddressForm) {
        self.collector.pieces.address_form = form;
    }

    /// Makes frames keep the requested registers instead of whole register blocks of this layout.
    pub(crate) fn keep_registers(&mut self, layout: RegisterLayout, purpose: KeptFor) {
        self.kept = Some(KeptRegisters::new(layout, purpose));
    }

    /// The register sets of the frames; `None` if frames have whole register blocks.
    pub(crate) fn register_sets(&self) -> Option<&RegisterSets> {
        self.kept.as_ref().map(KeptRegisters::sets)
    }

    /// Begins the numbers of register sets from the first one. There is no frame.
    pub(crate) fn number_all_sets<'p>(&mut self, plans: impl Iterator<Item = &'p mut Plan>) {
        if let Some(kept) = &mut self.kept {
            kept.clear();
            plans.for_each(|plan| kept.number(plan));
        }
    }

    /// Assigns register set numbers to the actions of a new tracepoint.
    pub(crate) fn number_sets(&mut self, plan: &mut Plan) {
        if let Some(kept) = &mut self.kept {
            kept.number(plan);
        }
    }

    /// Sets the layout of whole register blocks.
    pub(crate) fn set_layout(&mut self, layout: RegisterLayout) {
        self.layout = Some(layout);
    }

    /// Computes the registers that frames leave out of whole register blocks.
    pub(crate) fn withhold(&self, definition: &TracepointDefinition, plan: &mut Plan) {
        if !definition.withholds_registers {
            return;
        }
        debug_assert!(self.layout.is_some());
        let Some(layout) = &self.layout else { return };
        plan.actions.withheld = Some(Withheld::new(layout, &definition.actions));
        plan.step_actions.withheld = Some(Withheld::new(layout, &definition.step_actions));
    }

    /// The registers that the frames of actions keep.
    pub(crate) fn kept_set(&self, actions: &Actions) -> Option<KeptSet<'_>> {
        let number = actions.set?;
        let registers = self.register_sets()?.get(number)?.mask();
        Some(KeptSet { number, registers })
    }

    /// A thread has stopped: nothing of it has been read.
    pub(crate) fn begin_stop(&mut self) {
        self.collector.pieces.fetched.clear();
    }

    /// The evaluation of a condition, and the memory that was read at this stop.
    pub(crate) const fn evaluation(&mut self) -> (&mut Evaluation, &mut Fetched) {
        (&mut self.condition, &mut self.collector.pieces.fetched)
    }

    /// Makes the frame of a hit or of a step, which was `led_back` to its tracepoint.
    pub(crate) fn make(
        &mut self,
        number: TracepointNumber,
        actions: &Actions,
        led_back: bool,
        options: &Options,
        moment: &mut Moment<'_>,
    ) -> Result<Collected, Incomplete> {
        self.frame.clear();
        let mut frame = FrameEncoder::begin(&mut self.frame, options.format, number)?;
        self.has_registers = actions.registers.is_some() || options.registers == Registers::Always;
        if self.has_registers {
            let thread = &mut *moment.thread;
            let block = thread.register_block().map_err(|_| Incomplete::Gone)?;
            let sets = self.kept.as_ref().map(KeptRegisters::sets);
            let set = actions
                .set
                .and_then(|number| Some((number, sets?.get(number)?)));
            match (set, &actions.withheld) {
                (Some((number, set)), _) => frame.register_set(number, set, block)?,
                (None, Some(withheld)) => {
                    self.block.clear();
                    self.block.extend_from_slice(block);
                    withheld.clear(&mut self.block);
                    frame.registers(&self.block)?;
                    frame.unknown_registers(withheld.masks());
                }
                (None, None) => frame.registers(block)?,
            }
            frame.unknown_registers(thread.unknown_registers());
        }
        if led_back {
            frame.step();
        }
        if let Some(number) = moment.variables.time_number() {
            frame.follow(number);
        }
        if options.stamp {
            for (number, value) in moment.variables.stamps(moment.thread) {
                frame.variable(number, value);
            }
        }
        let collected = self.collector.collect(actions, moment, &mut frame)?;
        self.stamp = frame.place();
        frame.finish()?;
        Ok(collected)
    }
}

/// The context of a condition. It reads one item after the other, since a condition mostly needs only one.
pub(crate) struct ConditionContext<'c> {
    pub(crate) moment: Moment<'c>,
    pub(crate) fetched: &'c mut Fetched,
}

impl Context for ConditionContext<'_> {
    fn register(&mut self, register: u16) -> Option<u64> {
        self.moment.thread.register(RegisterNumber(register))
    }

    fn memory(&mut self, address: u64, size: u8) -> Option<u64> {
        if let Ok(value) = self.fetched.number(address, size) {
            return value;
        }
        while self.fetched.ask(address, u64::from(size)) {
            self.fetched.read(self.moment.thread);
        }
        self.fetched.number(address, size).ok().flatten()
    }

    fn variable(&mut self, number: u16) -> i64 {
        self.moment.variables.get(number, self.moment.thread)
    }

    fn set_variable(&mut self, number: u16, value: i64) {
        self.moment.variables.set(number, value);
    }

    /// There is no frame to collect into, but reading a variable makes it.
    fn collect_variable(&mut self, number: u16) {
        self.variable(number);
    }
}

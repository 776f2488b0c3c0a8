//! Registers as frames keep them, where that is not whole register blocks.

use tracewire_arch::RegisterLayout;
use tracewire_model::{RegisterMask, RegisterNumber};
use tracewire_tracefile::{RegisterSet, RegisterSets};

use crate::experiment::Experiment;
use crate::plan::{Actions, Plan};
use crate::store::FrameStore;

/// The registers of frames that keep what was asked for.
#[derive(Debug)]
pub(crate) struct KeptRegisters {
    layout: RegisterLayout,
    pub(crate) sets: RegisterSets,
}

impl KeptRegisters {
    fn new(layout: RegisterLayout) -> Self {
        Self {
            layout,
            sets: RegisterSets::default(),
        }
    }

    /// Gives each list of actions that collects registers the number of its set.
    fn number(&mut self, plan: &mut Plan) {
        for actions in [&mut plan.actions, &mut plan.step_actions] {
            let Actions { registers, set, .. } = actions;
            *set = registers.as_ref().map(|asked| {
                let kept = self.with_companions(asked);
                self.sets.add(RegisterSet::new(&self.layout, &kept))
            });
        }
    }

    /// The registers that are kept where these are asked for. The program counter too, which says where the thread was, and the
    /// stack and the frame pointer, without which GDB unwinds no stack that was collected: it asks for the registers of its
    /// expressions and no others. With one register of the x87 unit all of them, which a pad reads together.
    fn with_companions(&self, asked: &RegisterMask) -> RegisterMask {
        let mut kept = asked.clone();
        if let Some(counter) = self.layout.program_counter() {
            kept.insert(counter.number);
        }
        // In GDB's descriptions of x86, those two alone point to data.
        for register in self.layout.registers() {
            if register.type_name == "data_ptr" {
                kept.insert(register.number);
            }
        }
        let unit: Vec<RegisterNumber> = self
            .layout
            .registers()
            .iter()
            .filter(|register| tracewire_jump_pad::is_x87(&register.name))
            .map(|register| register.number)
            .collect();
        if unit.iter().any(|number| asked.contains(*number)) {
            unit.into_iter().for_each(|number| kept.insert(number));
        }
        kept
    }
}

impl<S: FrameStore> Experiment<S> {
    /// Has frames keep the registers that were asked for and the program counter, in place of whole register blocks of this
    /// layout: for a buffer whose frames are expanded ([`RegisterSets::expand`]) when they are read, and not for one where every
    /// frame is to have a register block ([`crate::Registers::Always`]). Frames that were made before are discarded: the
    /// program may have become one for another machine. Nothing changes during a run.
    pub fn keep_asked_registers(&mut self, layout: RegisterLayout) {
        if self.running {
            return;
        }
        self.options.format.register_block_size = layout.size();
        // A store that cannot be emptied is emptied at the next start.
        let _ = self.store.clear();
        self.kept = Some(KeptRegisters::new(layout));
        self.number_register_sets();
    }

    /// The register sets of the frames in the buffer; none where frames have whole register blocks.
    #[must_use]
    pub fn register_sets(&self) -> Option<&RegisterSets> {
        self.kept.as_ref().map(|kept| &kept.sets)
    }

    /// Begins the numbers of register sets from the first one. There is no frame.
    pub(crate) fn number_register_sets(&mut self) {
        if let Some(kept) = &mut self.kept {
            kept.sets = RegisterSets::default();
            for tracepoint in &mut self.tracepoints {
                kept.number(&mut tracepoint.plan);
            }
        }
    }

    /// Gives the actions of a new tracepoint the numbers of their register sets.
    pub(crate) fn number_register_set(&mut self, plan: &mut Plan) {
        if let Some(kept) = &mut self.kept {
            kept.number(plan);
        }
    }
}

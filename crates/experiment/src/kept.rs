//! The registers of frames that do not have whole register blocks.

use tracewire_arch::RegisterLayout;
use tracewire_model::{RegisterMask, RegisterNumber};
use tracewire_tracefile::{RegisterSet, RegisterSets};

use crate::plan::{Actions, Plan};

/// What frames are for that keep only some registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum KeptFor {
    /// A debugger, which requests the registers of its expressions, and needs others to unwind a collected stack.
    Debugger,
    /// Readers of the collected values.
    Values,
}

/// The registers of frames that keep only the requested ones.
#[derive(Debug)]
pub(crate) struct KeptRegisters {
    layout: RegisterLayout,
    purpose: KeptFor,
    sets: RegisterSets,
}

impl KeptRegisters {
    pub(crate) fn new(layout: RegisterLayout, purpose: KeptFor) -> Self {
        Self {
            layout,
            purpose,
            sets: RegisterSets::default(),
        }
    }

    pub(crate) const fn sets(&self) -> &RegisterSets {
        &self.sets
    }

    /// Begins the numbers from the first one.
    pub(crate) fn clear(&mut self) {
        self.sets = RegisterSets::default();
    }

    /// Assigns a set number to each list of actions that collects registers; where values are what is wanted, to each list, because
    /// every frame has its place and its stack.
    pub(crate) fn number(&mut self, plan: &mut Plan) {
        for actions in [&mut plan.actions, &mut plan.step_actions] {
            let Actions { registers, set, .. } = actions;
            let none = RegisterMask::default();
            let asked = match self.purpose {
                KeptFor::Debugger => registers.as_ref(),
                KeptFor::Values => Some(registers.as_ref().unwrap_or(&none)),
            };
            *set = asked.map(|asked| {
                let kept = self.with_companions(asked);
                self.sets.add(RegisterSet::new(&self.layout, &kept))
            });
        }
    }

    /// The registers that are kept where these are requested. The program counter is added, which is the thread's place, and the
    /// stack pointer. For a debugger the frame pointer is added, because GDB needs both to unwind a collected stack, but requests only
    /// the registers of its expressions. With one x87 register all of them are kept, since a pad reads them together.
    fn with_companions(&self, asked: &RegisterMask) -> RegisterMask {
        let mut kept = asked.clone();
        if let Some(counter) = self.layout.program_counter() {
            kept.insert(counter.number);
        }
        // In GDB's descriptions of x86, only those two point to data. The frame pointer may be any variable, which is not to be kept unless
        // it was requested.
        let is_wanted = |name: &str| match self.purpose {
            KeptFor::Debugger => true,
            KeptFor::Values => matches!(name, "rsp" | "esp"),
        };
        for register in self.layout.registers() {
            if register.type_name == "data_ptr" && is_wanted(&register.name) {
                kept.insert(register.number);
            }
        }
        let unit: Vec<RegisterNumber> = self
            .layout
            .registers()
            .iter()
            .filter(|register| tracewire_arch::is_x87(&register.name))
            .map(|register| register.number)
            .collect();
        if unit.iter().any(|number| asked.contains(*number)) {
            unit.into_iter().for_each(|number| kept.insert(number));
        }
        kept
    }
}

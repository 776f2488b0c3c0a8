//! Registers that frames do not have, though the frames of the run have all.

use tracewire_arch::RegisterLayout;
use tracewire_model::{Action, RegisterMask, RegisterNumber};
use tracewire_tracefile::unknown_masks;

/// The registers that frames leave out of their register blocks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Withheld {
    kept: RegisterMask,
    /// The ranges of the others in the block.
    gaps: Vec<std::ops::Range<usize>>,
    masks: Vec<u64>,
}

impl Withheld {
    /// The registers of a block that actions do not request. With one x87 register all of them are kept, since a pad reads them
    /// together.
    #[must_use]
    pub fn new(layout: &RegisterLayout, actions: &[Action]) -> Self {
        let mut kept = RegisterMask::default();
        for action in actions {
            if let Action::Registers(mask) = action {
                mask.iter().for_each(|register| kept.insert(register));
            }
        }
        let of_unit = layout.registers().iter();
        let unit: Vec<RegisterNumber> = of_unit
            .filter(|register| tracewire_arch::is_x87(&register.name))
            .map(|register| register.number)
            .collect();
        if unit.iter().any(|number| kept.contains(*number)) {
            unit.into_iter().for_each(|number| kept.insert(number));
        }
        let mut known = vec![true; layout.size() as usize];
        let mut gaps = Vec::new();
        for register in layout.registers() {
            let start = register.offset as usize;
            let range = start..start + register.size() as usize;
            if !kept.contains(register.number)
                && let Some(bytes) = known.get_mut(range.clone())
            {
                bytes.fill(false);
                gaps.push(range);
            }
        }
        Self {
            kept,
            gaps,
            masks: unknown_masks(layout.registers(), &known),
        }
    }

    /// Whether frames have a register.
    #[must_use]
    pub fn keeps(&self, register: RegisterNumber) -> bool {
        self.kept.contains(register)
    }

    /// Makes the bytes of the others zero in a register block.
    pub fn clear(&self, block: &mut [u8]) {
        for gap in &self.gaps {
            if let Some(bytes) = block.get_mut(gap.clone()) {
                bytes.fill(0);
            }
        }
    }

    /// The masks with which a frame marks the others as unavailable.
    #[must_use]
    pub fn masks(&self) -> &[u64] {
        &self.masks
    }
}

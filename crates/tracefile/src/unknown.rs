//! Unavailable registers: variables of our own in a frame.
//!
//! A register block has room for every register and no mark for a missing one: it is zero there. A recorded execution
//! knows a register once it was written, so its frames name the unavailable ones in trace state variables whose numbers no
//! experiment has. `docs/formats/trace-file-extensions.md` has the form.

use tracewire_arch::Register;
use tracewire_model::VariableNumber;

/// The variable of the first registers.
const FIRST: i32 = i32::MIN;

/// How many registers a mask covers.
pub(crate) const MASK_BITS: usize = u64::BITS as usize;

/// More registers than a target description may have are given by no mask.
const MASKS: i32 = 256;

/// The masks that [`crate::FrameEncoder::unknown_registers`] takes, made of the registers of a block in their order and of which
/// bytes of it are known.
#[must_use]
pub fn unknown_masks(registers: &[Register], known: &[bool]) -> Vec<u64> {
    let mut masks = vec![0; registers.len().div_ceil(MASK_BITS)];
    for (place, register) in registers.iter().enumerate() {
        let start = register.offset as usize;
        let bytes = known.get(start..start.saturating_add(register.size() as usize));
        // What the block has no room for is no question.
        if let (Some(bytes), Some(mask)) = (bytes, masks.get_mut(place / MASK_BITS)) {
            *mask |= u64::from(bytes.contains(&false)) << (place % MASK_BITS);
        }
    }
    masks
}

/// The variable that says which registers are not known, of those that have the places from `64 * mask` on.
#[must_use]
pub const fn mask_variable(mask: usize) -> Option<VariableNumber> {
    if mask < MASKS as usize {
        Some(VariableNumber(FIRST + mask as i32))
    } else {
        None
    }
}

/// Whether the variable says which registers are not known.
pub(crate) const fn tells_unknown_registers(variable: VariableNumber) -> bool {
    variable.0 < FIRST + MASKS
}

/// The registers that a frame's masks say are not known, by their places in the register block.
#[derive(Default)]
pub(crate) struct UnknownRegisters(Vec<u64>);

impl UnknownRegisters {
    /// Takes a variable of the frame, which may be a mask.
    pub(crate) fn add(&mut self, number: VariableNumber, value: i64) {
        if !tells_unknown_registers(number) {
            return;
        }
        let mask = number.0.abs_diff(FIRST) as usize;
        if self.0.len() <= mask {
            self.0.resize(mask + 1, 0);
        }
        if let Some(bits) = self.0.get_mut(mask) {
            *bits |= value.cast_unsigned();
        }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn contains(&self, place: usize) -> bool {
        let mask = self.0.get(place / MASK_BITS);
        mask.is_some_and(|bits| bits >> (place % MASK_BITS) & 1 == 1)
    }
}

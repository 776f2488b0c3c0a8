//! Steps that come back to their tracepoint: a variable of our own in a frame.
//!
//! The format does not say whether a frame is of a hit or of a step of `while-stepping`. A frame at another address than
//! its tracepoint's is of a step; in a loop, steps come back to the very instruction. Our frames of such steps say
//! so in a variable. `docs/formats/trace-file-extensions.md` has the form.

use crate::unknown::tells_unknown_registers;
use tracewire_model::VariableNumber;

/// The variable that says that a frame at its tracepoint's address is of a step; after those that say which
/// registers are not known.
pub(crate) const STEP: VariableNumber = VariableNumber(i32::MIN + 256);

/// Whether the variable is no variable of the experiment's, and says something of the frame instead: which registers
/// are not known ([`crate::FrameEncoder::unknown_registers`]), or that it is of a step
/// ([`crate::FrameEncoder::step`]).
#[must_use]
pub const fn describes_frame(variable: VariableNumber) -> bool {
    tells_unknown_registers(variable)
        || variable.0 == STEP.0
        || variable.0 == crate::fraction::FRACTION.0
}

//! The code of a pad before the displaced instructions.

use std::rc::Rc;

use tracewire_experiment::{Fault, PadCode};

/// The code of a pad before the displaced instructions. Thousands of pads may share it, and differ in a number.
#[derive(Clone, Debug)]
pub(crate) struct Body {
    code: Rc<PadCode>,
    /// The number of this pad, and its offset in the code.
    number: Option<(usize, [u8; 4])>,
}

impl Body {
    /// The code of one pad.
    pub(crate) fn new(code: PadCode) -> Self {
        Self {
            code: Rc::new(code),
            number: None,
        }
    }

    /// Code that is shared, with a number of its own at an offset.
    pub(super) const fn numbered(code: Rc<PadCode>, number: (usize, [u8; 4])) -> Self {
        Self {
            code,
            number: Some(number),
        }
    }

    /// Its length, in bytes.
    pub(super) fn length(&self) -> usize {
        self.code.code.len()
    }

    /// The instructions that may fault.
    pub(super) fn faults(&self) -> &[Fault] {
        &self.code.faults
    }

    /// Its code in room of this size, to which what follows it is added.
    pub(super) fn begin(&self, room: usize) -> Vec<u8> {
        let mut code = Vec::with_capacity(room);
        code.extend_from_slice(&self.code.code);
        if let Some((at, number)) = self.number
            && let Some(bytes) = code.get_mut(at..at + number.len())
        {
            bytes.copy_from_slice(&number);
        }
        code
    }
}

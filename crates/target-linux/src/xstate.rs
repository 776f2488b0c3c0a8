//! Where the parts of the extended state are.
//!
//! The kernel returns the state in XSAVE's standard layout (Intel's manual, volume 1, 13.4). The offsets differ between
//! makers of processors; CPUID reports them.

use std::arch::x86_64::{__cpuid, __cpuid_count};
use std::sync::OnceLock;

/// A part of the extended state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Component {
    /// x87 and SSE.
    Legacy,
    /// The upper halves of `ymm0` to `ymm15`.
    Avx,
    /// The mask registers.
    Masks,
    /// The upper halves of `zmm0` to `zmm15`.
    ZmmHalves,
    /// `zmm16` to `zmm31`.
    HighZmm,
}

impl Component {
    /// Its bit in XCR0 and XSTATE_BV; the legacy part is always there.
    const fn number(self) -> Option<u32> {
        match self {
            Self::Legacy => None,
            Self::Avx => Some(2),
            Self::Masks => Some(5),
            Self::ZmmHalves => Some(6),
            Self::HighZmm => Some(7),
        }
    }
}

/// The offset of each component from the start of the state.
#[derive(Clone, Debug, Default)]
pub(crate) struct XstateLayout([Option<usize>; 8]);

/// The offset of the mask of components that do not have their initial values.
const XSTATE_BV: usize = 512;

impl XstateLayout {
    pub(crate) fn of_this_machine() -> &'static Self {
        /// A virtual machine leaves to its host for each CPUID, which takes microseconds.
        static LAYOUT: OnceLock<XstateLayout> = OnceLock::new();
        LAYOUT.get_or_init(Self::read)
    }

    fn read() -> Self {
        let mut offsets = [None; 8];
        if __cpuid(0).eax >= 0xd {
            for (number, offset) in offsets.iter_mut().enumerate().skip(2) {
                let leaf = __cpuid_count(0xd, number as u32);
                *offset = (leaf.eax != 0).then_some(leaf.ebx as usize);
            }
        }
        Self(offsets)
    }

    /// Where bytes of a component are to be written, which then does not have its initial values any more; `None` if
    /// the machine does not have it.
    pub(crate) fn bytes_mut<'a>(
        &self,
        state: &'a mut [u8],
        component: Component,
        offset: usize,
        length: usize,
    ) -> Option<&'a mut [u8]> {
        let (start, bits) = match component.number() {
            // x87 and SSE.
            None => (0, 0b11),
            Some(number) => ((*self.0.get(number as usize)?)?, 1 << number),
        };
        let present = state.get_mut(XSTATE_BV..XSTATE_BV + 8)?;
        let before = u64::from_le_bytes(present.try_into().ok()?);
        present.copy_from_slice(&(before | bits).to_le_bytes());
        state.get_mut(start + offset..start + offset + length)
    }

    /// Bytes of a component; `None` if the machine does not have it or its registers still have their initial value,
    /// which is zero.
    pub(crate) fn bytes<'a>(
        &self,
        state: &'a [u8],
        component: Component,
        offset: usize,
        length: usize,
    ) -> Option<&'a [u8]> {
        let start = match component.number() {
            None => 0,
            Some(number) => {
                let present =
                    u64::from_le_bytes(state.get(XSTATE_BV..XSTATE_BV + 8)?.try_into().ok()?);
                if present & (1 << number) == 0 {
                    return None;
                }
                (*self.0.get(number as usize)?)?
            }
        };
        state.get(start + offset..start + offset + length)
    }
}

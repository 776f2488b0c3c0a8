//! Registers and memory of the selected trace frame.

use std::borrow::Cow;
use std::ops::Range;

use tracewire_model::{Address, RegisterNumber};
use tracewire_packets::ThreadSelector;
use tracewire_packets::family::register::RegisterBytes;
use tracewire_target_remote::RemoteTarget;
use tracewire_tracefile::Frame;

use crate::answers::{Debuggee, FRAME_IS_FIXED, Writable};
use crate::trace::Trace;

/// The selected trace frame, and the program behind it for what never changes.
pub(super) struct FrameView<'a> {
    pub(super) trace: &'a mut Trace,
    pub(super) target: &'a mut RemoteTarget,
}

impl Debuggee for FrameView<'_> {
    fn registers(&mut self) -> Option<RegisterBytes> {
        self.trace.registers(|| None)
    }

    fn register_place(&self, number: RegisterNumber) -> Option<Range<usize>> {
        let layout = self.trace.layout();
        if let Some(register) = layout.by_number(number) {
            let start = register.offset as usize;
            return Some(start..start + register.size() as usize);
        }
        // One that is not in the register block is in no frame.
        let all = self.target.stub().machine().registers();
        let size = all.by_number(number)?.size() as usize;
        let end = layout.size() as usize;
        Some(end..end + size)
    }

    fn memory(&mut self, address: Address, length: usize) -> Vec<u8> {
        let target = &mut *self.target;
        let address = target.stub().machine().canonical(address);
        self.trace.memory(address, length, || {
            target.read_memory(address, length).unwrap_or_default()
        })
    }

    fn writable(&mut self) -> Result<&mut dyn Writable, &'static str> {
        Err(FRAME_IS_FIXED)
    }

    fn target_xml(&self) -> Option<Cow<'_, str>> {
        Some(Cow::Borrowed(self.target.stub().machine().target_xml()))
    }

    fn threads(&self) -> Vec<ThreadSelector> {
        Vec::new()
    }

    fn current_thread(&self) -> Option<ThreadSelector> {
        None
    }

    fn show_frame(&mut self, see: &mut dyn FnMut(&Frame<'_>)) -> bool {
        self.trace.selected_frame(see).is_some()
    }
}

//! The selected trace frame, which answers for the program.

use tracewire_model::Address;
use tracewire_packets::family::register::RegisterBytes;
use tracewire_packets::tracepoint::FrameInfo;

use super::program::LiveProgram;

impl LiveProgram {
    pub(super) fn frame_registers(&mut self) -> Option<RegisterBytes> {
        self.trace.frame_registers()
    }

    /// Memory of the frame, up to the first byte that it does not have and that may have changed since.
    pub(super) fn frame_memory(&mut self, address: Address, length: usize) -> Vec<u8> {
        let memory = self.trace.frame_memory(address, length);
        if !memory.wants_constant() {
            return memory.known();
        }
        let program = self.live_memory(address, length);
        memory.with_constant(&program)
    }

    /// GDB tells of read-only sections of a position-independent program at the addresses they were linked for: they
    /// are meant to be where they were loaded.
    pub(super) fn add_loaded_ranges(&mut self) {
        let modules = self
            .inferiors
            .traced_mut()
            .and_then(|process| process.modules().ok())
            .unwrap_or_default();
        let Some(program) = modules.first().filter(|program| program.load_bias != 0) else {
            return;
        };
        let bias = program.load_bias;
        let loaded: Vec<_> = self
            .trace
            .read_only
            .iter()
            .filter_map(|range| Some(range.start.checked_add(bias)?..range.end.checked_add(bias)?))
            .filter(|range| range.start >= program.start.0 && range.end <= program.end.0)
            .collect();
        self.trace.read_only.extend(loaded);
    }

    /// What the selected frame holds.
    pub(super) fn frame_info(&mut self) -> Option<FrameInfo> {
        self.trace.frame_info()
    }
}

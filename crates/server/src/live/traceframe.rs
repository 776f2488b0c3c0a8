//! The selected trace frame, which answers for the program.

use tracewire_packets::Reply;
use tracewire_packets::family::register::RegisterBytes;
use tracewire_packets::tracepoint::{FrameInfo, FramePart, FrameSelection, SelectedFrame};
use tracewire_tracefile::{Address, Block, Frame, Search};

use super::program::LiveProgram;

impl LiveProgram {
    pub(super) fn select_frame(&mut self, selection: FrameSelection) -> Reply {
        let search = match selection {
            FrameSelection::None => {
                self.trace.selected = None;
                return Reply::Ok;
            }
            FrameSelection::Number(number) => Search::Number(number),
            FrameSelection::Pc(address) => Search::ProgramCounter(address),
            FrameSelection::Tracepoint(number) => Search::Tracepoint(number),
            FrameSelection::Within { start, end } => Search::Range { start, end },
            FrameSelection::Outside { start, end } => Search::Outside { start, end },
        };
        let after = self.trace.selected;
        let found = self
            .trace
            .frames()
            .and_then(|frames| frames.find(search, after))
            .map(|frame| (frame.number(), frame.tracepoint()));
        if let Some((number, _)) = found {
            self.trace.selected = Some(number);
        }
        Reply::Frame(SelectedFrame {
            frame: found.map(|(number, _)| number),
            tracepoint: found.map(|(_, tracepoint)| tracepoint),
        })
    }

    /// Something of the selected frame; none when there is no frame selected.
    pub(super) fn selected_frame<T>(&mut self, what: impl FnOnce(&Frame<'_>) -> T) -> Option<T> {
        let number = self.trace.selected?;
        let frame = self.trace.frames()?.frame(number)?;
        Some(what(&frame))
    }

    /// The frame's registers, unavailable where it has none; its place is told all the same, so that GDB can show it.
    pub(super) fn frame_registers(&mut self) -> Option<RegisterBytes> {
        let layout = self.registers.layout_64();
        self.selected_frame(|frame| {
            if let Some(block) = frame.register_block() {
                return RegisterBytes::known(block);
            }
            let mut bytes = vec![None; layout.size() as usize];
            if let (Some(Address(place)), Some(register)) =
                (frame.program_counter(), layout.program_counter())
            {
                for (byte, value) in bytes
                    .iter_mut()
                    .skip(register.offset as usize)
                    .zip(place.to_le_bytes())
                {
                    *byte = Some(value);
                }
            }
            RegisterBytes(bytes)
        })
    }

    /// Memory of the frame, up to the first byte that it does not have and that may have changed since.
    pub(super) fn frame_memory(&mut self, address: Address, length: usize) -> Vec<u8> {
        let mut memory = vec![None; length];
        self.selected_frame(|frame| frame.read_memory(address, &mut memory));
        let complete = memory.iter().all(Option::is_some);
        let ranges = self.trace.read_only.clone();
        let constant = |place: u64| ranges.iter().any(|range| range.contains(&place));
        if !complete && (address.0..).zip(&memory).any(|(place, _)| constant(place)) {
            let live = self.live_memory(address, length);
            for ((place, byte), value) in (address.0..).zip(&mut memory).zip(live) {
                if byte.is_none() && constant(place) {
                    *byte = Some(value);
                }
            }
        }
        memory.into_iter().map_while(|byte| byte).collect()
    }

    /// GDB tells of read-only sections of a position-independent program at the addresses they were linked for: they
    /// are meant to be where they were loaded.
    pub(super) fn add_loaded_ranges(&mut self) {
        let modules = self
            .process
            .as_ref()
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
        self.selected_frame(|frame| {
            let parts = frame.blocks().filter_map(|block| match block {
                Block::Memory { address, bytes } => Some(FramePart::Memory {
                    start: address,
                    length: bytes.len() as u64,
                }),
                Block::Variable { number, .. } => Some(FramePart::Variable(number)),
                _ => None,
            });
            FrameInfo(parts.collect())
        })
    }
}

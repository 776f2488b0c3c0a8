//! The selected trace frame, which answers for the program.

use tracewire_model::{Address, ByteOrder};
use tracewire_packets::Reply;
use tracewire_packets::family::register::RegisterBytes;
use tracewire_packets::tracepoint::{FrameInfo, FramePart, FrameSelection, SelectedFrame};
use tracewire_tracefile::{Block, Frame, RegisterSet, Search};

use super::Trace;

impl Trace {
    pub(crate) fn select_frame(&mut self, selection: FrameSelection) -> Reply {
        let search = match selection {
            FrameSelection::None => {
                self.selected = None;
                return Reply::Ok;
            }
            FrameSelection::Number(number) => Search::Number(number),
            FrameSelection::Pc(address) => Search::ProgramCounter(address),
            FrameSelection::Tracepoint(number) => Search::Tracepoint(number),
            FrameSelection::Within { start, end } => Search::Range { start, end },
            FrameSelection::Outside { start, end } => Search::Outside { start, end },
        };
        let after = self.selected;
        let found = self
            .frames()
            .and_then(|(frames, places, file)| places.find(search, after, frames, file));
        if let Some((number, _)) = found {
            self.selected = Some(number);
        }
        Reply::Frame(SelectedFrame {
            frame: found.map(|(number, _)| number),
            tracepoint: found.map(|(_, tracepoint)| tracepoint),
        })
    }

    /// Something of the selected frame; none when there is no frame selected.
    pub(crate) fn selected_frame<T>(&mut self, what: impl FnOnce(&Frame<'_>) -> T) -> Option<T> {
        let number = self.selected?;
        let (frames, places, file) = self.frames()?;
        let frame = places.frame(number, frames, file)?;
        Some(what(&frame))
    }

    /// The registers that the selected frame keeps; none where it keeps all, or none.
    fn selected_set(&mut self) -> Option<&RegisterSet> {
        let number = self.selected?;
        let (frames, places, _) = self.frames()?;
        places.set_of(number, frames)
    }

    /// The frame's registers, unavailable where it has none; its place is told all the same, so that GDB can show it.
    pub(crate) fn frame_registers(&mut self) -> Option<RegisterBytes> {
        let (size, order) = (self.machine.layout.size(), self.machine.byte_order);
        let counter = self.machine.layout.program_counter().cloned();
        let known = self
            .selected
            .and_then(|number| self.experiment.known_registers(number.0))
            .map(<[bool]>::to_vec);
        let kept = self.selected_set().cloned();
        self.selected_frame(|frame| {
            if let Some(block) = frame.register_block() {
                let mut bytes = RegisterBytes::known(block);
                for (byte, known) in bytes.0.iter_mut().zip(known.iter().flatten()) {
                    *byte = byte.filter(|_| *known);
                }
                if let Some(set) = &kept {
                    set.keep_known(&mut bytes.0);
                }
                return bytes;
            }
            let mut bytes = vec![None; size as usize];
            if let (Some(Address(place)), Some(register)) = (frame.program_counter(), counter) {
                let value = order.u64_bytes(place);
                let width = (register.size() as usize).min(value.len());
                let value = match order {
                    ByteOrder::Little => value.get(..width),
                    ByteOrder::Big => value.get(value.len() - width..),
                };
                let places = bytes.iter_mut().skip(register.offset as usize);
                for (byte, value) in places.zip(value.unwrap_or_default()) {
                    *byte = Some(*value);
                }
            }
            RegisterBytes(bytes)
        })
    }

    /// Memory of the frame.
    pub(crate) fn frame_memory(&mut self, address: Address, length: usize) -> FrameMemory {
        let mut bytes = vec![None; length];
        self.selected_frame(|frame| frame.read_memory(address, &mut bytes));
        let constant = (0..length as u64)
            .map(|offset| address.0.wrapping_add(offset))
            .map(|place| self.read_only.iter().any(|range| range.contains(&place)))
            .collect();
        FrameMemory { bytes, constant }
    }

    /// What the selected frame holds.
    pub(crate) fn frame_info(&mut self) -> Option<FrameInfo> {
        self.selected_frame(|frame| {
            let parts = frame.blocks().filter_map(|block| match block {
                Block::Memory { address, bytes } => Some(FramePart::Memory {
                    start: address,
                    length: bytes.len() as u64,
                }),
                Block::Variable { number, .. } if !tracewire_tracefile::describes_frame(number) => {
                    Some(FramePart::Variable(number))
                }
                _ => None,
            });
            FrameInfo(parts.collect())
        })
    }
}

/// What a static tracepoint collected in a frame; nothing in the frame of another one.
pub(crate) fn static_data(frame: &Frame<'_>) -> Vec<u8> {
    let mut blocks = frame.blocks();
    let data = blocks.find_map(|block| match block {
        Block::StaticData(data) => Some(data.to_vec()),
        _ => None,
    });
    data.unwrap_or_default()
}

/// Memory as a frame has it, and which of it never changes.
pub(crate) struct FrameMemory {
    bytes: Vec<Option<u8>>,
    constant: Vec<bool>,
}

impl FrameMemory {
    /// Whether there are bytes that the frame does not have and that the program has as they were.
    pub(crate) fn wants_constant(&self) -> bool {
        let mut bytes = self.bytes.iter().zip(&self.constant);
        bytes.any(|(byte, constant)| byte.is_none() && *constant)
    }

    /// Up to the first byte that the frame does not have.
    pub(crate) fn known(self) -> Vec<u8> {
        self.bytes.into_iter().map_while(|byte| byte).collect()
    }

    /// Up to the first byte that neither the frame has, nor the program, whose memory is given, where it never changes.
    pub(crate) fn with_constant(mut self, program: &[u8]) -> Vec<u8> {
        let places = self.bytes.iter_mut().zip(&self.constant);
        for ((byte, constant), value) in places.zip(program) {
            if *constant {
                byte.get_or_insert(*value);
            }
        }
        self.known()
    }
}

//! The selected trace frame, which answers for the program.

use tracewire_arch::RegisterLayout;
use tracewire_model::{Address, ByteOrder};
use tracewire_packets::Reply;
use tracewire_packets::family::register::RegisterBytes;
use tracewire_packets::tracepoint::{FrameSelection, SelectedFrame};
use tracewire_tracefile::{Frame, RegisterSet, Search};

use super::Trace;

impl Trace {
    pub(crate) fn select_frame(&mut self, selection: FrameSelection) -> Reply {
        let Some(search) = search(selection) else {
            self.selected = None;
            return Reply::Ok;
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

    /// Whether a frame answers for the program.
    pub(crate) const fn has_selected_frame(&self) -> bool {
        self.selected.is_some()
    }

    /// The program answers, and no frame.
    pub(crate) const fn select_program(&mut self) {
        self.selected = None;
    }

    /// Something of the selected frame; none when there is no frame selected.
    pub(crate) fn selected_frame<T>(&mut self, what: impl FnOnce(&Frame<'_>) -> T) -> Option<T> {
        let number = self.selected?;
        let (frames, places, file) = self.frames()?;
        let frame = places.frame(number, frames, file)?;
        Some(what(&frame))
    }

    /// The registers that the selected frame keeps; `None` if it keeps all, or none.
    fn selected_set(&mut self) -> Option<&RegisterSet> {
        let number = self.selected?;
        let (frames, places, _) = self.frames()?;
        places.set_of(number, frames)
    }

    /// The frame's registers, unavailable if it has none; its program counter is reported all the same, so that GDB can
    /// show it.
    fn frame_registers(&mut self) -> Option<RegisterBytes> {
        let (layout, order) = (self.machine.layout.clone(), self.machine.byte_order);
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
            registers_at(frame.program_counter(), &layout, order)
        })
    }

    /// Registers: of the selected frame, or of the program.
    pub(crate) fn registers(
        &mut self,
        program: impl FnOnce() -> Option<RegisterBytes>,
    ) -> Option<RegisterBytes> {
        match self.selected {
            Some(_) => self.frame_registers(),
            None => program(),
        }
    }

    /// Memory: of the selected frame, up to the first byte that it does not have and that may have changed since, or of the
    /// program.
    pub(crate) fn memory(
        &mut self,
        address: Address,
        length: usize,
        program: impl FnOnce() -> Vec<u8>,
    ) -> Vec<u8> {
        if self.selected.is_none() {
            return program();
        }
        let frame = self.frame_memory(address, length);
        if frame.wants_constant() {
            frame.with_constant(&program())
        } else {
            frame.known()
        }
    }

    /// Memory of the frame.
    fn frame_memory(&mut self, address: Address, length: usize) -> FrameMemory {
        let mut bytes = vec![None; length];
        self.selected_frame(|frame| frame.read_memory(address, &mut bytes));
        let constant = (0..length as u64)
            .map(|offset| address.0.wrapping_add(offset))
            .map(|place| self.read_only.iter().any(|range| range.contains(&place)))
            .collect();
        FrameMemory { bytes, constant }
    }
}

/// The search of `QTFrame`; `None` if it selects no frame.
pub(crate) fn search(selection: FrameSelection) -> Option<Search> {
    Some(match selection {
        FrameSelection::None => return None,
        FrameSelection::Number(number) => Search::Number(number),
        FrameSelection::Pc(address) => Search::ProgramCounter(address),
        FrameSelection::Tracepoint(number) => Search::Tracepoint(number),
        FrameSelection::Within { start, end } => Search::Range { start, end },
        FrameSelection::Outside { start, end } => Search::Outside { start, end },
    })
}

/// The registers if only the program counter is known, or not even that.
pub(crate) fn registers_at(
    place: Option<Address>,
    layout: &RegisterLayout,
    order: ByteOrder,
) -> RegisterBytes {
    let mut bytes = vec![None; layout.size() as usize];
    if let (Some(Address(place)), Some(register)) = (place, layout.program_counter()) {
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
}

/// Memory as a frame has it, and which of it never changes.
struct FrameMemory {
    bytes: Vec<Option<u8>>,
    constant: Vec<bool>,
}

impl FrameMemory {
    /// Whether there are bytes that the frame does not have and that the program has as they were.
    fn wants_constant(&self) -> bool {
        let mut bytes = self.bytes.iter().zip(&self.constant);
        bytes.any(|(byte, constant)| byte.is_none() && *constant)
    }

    /// Up to the first byte that the frame does not have.
    fn known(self) -> Vec<u8> {
        self.bytes.into_iter().map_while(|byte| byte).collect()
    }

    /// The bytes up to the first one that is neither in the frame nor in the given read-only memory of the program.
    fn with_constant(mut self, program: &[u8]) -> Vec<u8> {
        let places = self.bytes.iter_mut().zip(&self.constant);
        for ((byte, constant), value) in places.zip(program) {
            if *constant {
                byte.get_or_insert(*value);
            }
        }
        self.known()
    }
}

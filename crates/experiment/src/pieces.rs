//! The data that the actions of a hit collect: first noted, then read together, then written in the order of the actions.

use tracewire_arch::Architecture;
use tracewire_model::{Address, ByteOrder, VariableNumber};
use tracewire_tracefile::{EncodeError, FrameEncoder};

use crate::error::HitError;
use crate::fetched::{Coverage, Fetched, ROOM_KEPT};
use crate::limits::{FRAME_LIMIT, PIECE_LIMIT};
use crate::missing::Missing;

/// Strings are read up to the ends of pages, so that one that ends before unreadable memory does not touch it. Any
/// divisor of the real page size would do.
const PAGE: u64 = 4096;

/// The form of memory addresses in frames: the one in which GDB requests them. Its expressions extend 32-bit registers with their
/// sign, and compute with the result.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum AddressForm {
    /// All 64 bits.
    #[default]
    Whole,
    /// The lowest 32 bits.
    Low32,
    /// 32 bits, extended with their sign: 32-bit MIPS.
    Extended32,
}

impl AddressForm {
    /// The form for a machine whose program counter has this many bits.
    #[must_use]
    pub const fn of_machine(architecture: Option<Architecture>, bits: u32) -> Self {
        match architecture {
            _ if bits > 32 => Self::Whole,
            Some(Architecture::Mips | Architecture::MipsLittle) => Self::Extended32,
            _ => Self::Low32,
        }
    }

    /// An address in this form.
    #[must_use]
    pub const fn of(self, address: Address) -> Address {
        let low = address.0 as u32;
        match self {
            Self::Whole => address,
            Self::Low32 => Address(low as u64),
            Self::Extended32 => Address((low.cast_signed() as i64).cast_unsigned()),
        }
    }
}

/// The pieces of one frame, and the memory read for all frames of a hit.
#[derive(Debug)]
pub(crate) struct Pieces {
    pub(crate) fetched: Fetched,
    list: Vec<Piece>,
    /// How many bytes the pieces take, strings as far as they have been read.
    length: u64,
    /// A buffer to join bytes that were read in parts.
    joined: Vec<u8>,
    pub(crate) address_form: AddressForm,
}

#[derive(Debug)]
struct Piece {
    /// The index of the action, and that of the piece in the order in which pieces came.
    order: (usize, usize),
    content: Content,
}

/// One item of the frame.
#[derive(Debug)]
pub(crate) enum Content {
    Memory {
        address: u64,
        length: u64,
    },
    Text {
        address: u64,
        limit: u64,
        /// How many bytes have been read, the NUL among them once it was found.
        length: u64,
        end: Option<TextEnd>,
    },
    Variable {
        number: i32,
        value: i64,
    },
    StaticData(Vec<u8>),
    /// The address that an expression could not read before it could collect; it stops there.
    Unreadable(Address),
    /// The same of a register.
    UnknownRegister,
}

/// The end of a string.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TextEnd {
    /// At its NUL, or at the limit.
    Proper,
    /// At a byte that cannot be read.
    Unreadable,
}

impl Content {
    pub(crate) const fn text(address: u64, limit: u64) -> Self {
        Self::Text {
            address,
            limit,
            length: 0,
            end: None,
        }
    }
}

impl Pieces {
    pub(crate) fn new(order: ByteOrder) -> Self {
        Self {
            fetched: Fetched::new(order),
            list: Vec::new(),
            length: 0,
            joined: Vec::new(),
            address_form: AddressForm::Whole,
        }
    }

    /// Begins a frame. Memory that was read for others of the same hit stays valid.
    pub(crate) fn begin(&mut self) {
        self.list.clear();
        self.length = 0;
        if self.joined.capacity() > ROOM_KEPT {
            self.joined = Vec::new();
        }
    }

    /// Adds a piece of the action at `place`.
    pub(crate) fn add(&mut self, place: usize, content: Content) -> Result<(), HitError> {
        if self.list.len() >= PIECE_LIMIT {
            return Err(HitError::TooManyPieces);
        }
        self.length = match &content {
            Content::Memory { length, .. } => self.length.checked_add(*length),
            Content::StaticData(data) => self.length.checked_add(data.len() as u64),
            Content::Text { .. }
            | Content::Variable { .. }
            | Content::Unreadable(_)
            | Content::UnknownRegister => Some(self.length),
        }
        .filter(|length| *length <= FRAME_LIMIT)
        .ok_or(HitError::FrameTooLong)?;
        let order = (place, self.list.len());
        self.list.push(Piece { order, content });
        Ok(())
    }

    /// Requests the memory that the pieces still need. Returns true when something has to be read.
    pub(crate) fn ask(&mut self) -> bool {
        let mut asked = false;
        for piece in &mut self.list {
            match &mut piece.content {
                Content::Memory { address, length } => {
                    asked |= self.fetched.ask(*address, *length);
                }
                Content::Text {
                    address,
                    limit,
                    length,
                    end: end @ None,
                } => {
                    // Strings share the rest of the frame; one that is cut by it has reached its limit.
                    let limit = (*limit).min(*length + FRAME_LIMIT.saturating_sub(self.length));
                    let before = *length;
                    *end = scan(&self.fetched, *address, limit, length);
                    self.length += *length - before;
                    if end.is_none() {
                        // More the longer it gets, so that the number of calls grows slowly.
                        let start = address.wrapping_add(*length);
                        let chunk = (PAGE - start % PAGE) + *length / PAGE * PAGE;
                        asked |= self.fetched.ask(start, chunk.min(limit - *length));
                    }
                }
                Content::Text { .. }
                | Content::Variable { .. }
                | Content::StaticData(_)
                | Content::Unreadable(_)
                | Content::UnknownRegister => {}
            }
        }
        asked
    }

    /// Writes all pieces in the order of the actions. Of partly readable memory the part up to the first unreadable byte is kept:
    /// GDB then shows it and reports the rest as unavailable.
    pub(crate) fn write(
        &mut self,
        frame: &mut FrameEncoder<'_>,
        missing: &mut Missing,
    ) -> Result<(), EncodeError> {
        let form = self.address_form;
        let place = |address| form.of(Address(address));
        self.list.sort_unstable_by_key(|piece| piece.order);
        for piece in &self.list {
            match &piece.content {
                &Content::Memory { address, length } => {
                    let (bytes, coverage) = self.fetched.bytes(address, length, &mut self.joined);
                    frame.memory(place(address), bytes);
                    if let Coverage::Ends(known) | Coverage::Unknown(known) = coverage {
                        let end = address.wrapping_add(known);
                        missing.note(Address(end));
                        self.fetched
                            .runs_behind(end, length - known, |start, bytes| {
                                frame.memory(place(start), bytes);
                            });
                    }
                }
                &Content::Text {
                    address,
                    length,
                    end,
                    ..
                } => {
                    let (bytes, _) = self.fetched.bytes(address, length, &mut self.joined);
                    frame.memory(place(address), bytes);
                    if end != Some(TextEnd::Proper) {
                        missing.note(Address(address.wrapping_add(length)));
                    }
                }
                &Content::Variable { number, value } => {
                    frame.variable(VariableNumber(number), value);
                }
                Content::Unreadable(address) => missing.note(*address),
                Content::UnknownRegister => missing.count += 1,
                Content::StaticData(data) => {
                    for block in data.chunks(usize::from(u16::MAX)) {
                        frame.static_data(block)?;
                    }
                }
            }
        }
        // A string was read up to the end of its page.
        for piece in &self.list {
            if let Content::Text {
                address, length, ..
            } = piece.content
            {
                self.fetched.forget_from(address.wrapping_add(length));
            }
        }
        Ok(())
    }
}

/// Continues the search for the end of a string after the first `length` bytes.
fn scan(fetched: &Fetched, address: u64, limit: u64, length: &mut u64) -> Option<TextEnd> {
    if *length >= limit {
        return Some(TextEnd::Proper);
    }
    let Some(start) = address.checked_add(*length) else {
        return Some(TextEnd::Unreadable);
    };
    let mut nul = false;
    let mut seen = 0_u64;
    let coverage = fetched.walk(start, limit - *length, |bytes| {
        if !nul {
            let end = bytes.iter().position(|byte| *byte == 0);
            nul = end.is_some();
            seen += end.map_or(bytes.len(), |end| end + 1) as u64;
        }
    });
    *length += seen;
    match coverage {
        _ if nul => Some(TextEnd::Proper),
        Coverage::Whole => Some(TextEnd::Proper),
        Coverage::Ends(_) => Some(TextEnd::Unreadable),
        Coverage::Unknown(_) => None,
    }
}

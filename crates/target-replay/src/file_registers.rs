//! From registers as a trace names them to the block that a debugger knows.

use tracewire_exec_trace::machine::{Machine, Part, Rest};
use tracewire_exec_trace::recording::{Recording, RegisterId, RegisterValue};
use tracewire_tracefile::{ByteOrder, RegisterNumber};

use crate::execution::RegisterBlock;

/// A register of the block, and where it comes from.
#[derive(Debug)]
pub(crate) struct Row {
    number: RegisterNumber,
    offset: usize,
    size: usize,
    /// The registers of the trace that are this one, or parts of it.
    sources: Vec<(RegisterId, Part)>,
}

/// The registers that a trace tells of.
#[derive(Debug)]
pub(crate) struct Rows {
    rows: Vec<Row>,
    order: ByteOrder,
}

impl Rows {
    pub(crate) fn new(recording: &Recording, machine: &Machine) -> Self {
        let mut rows: Vec<Row> = machine
            .layout()
            .registers()
            .iter()
            .map(|register| Row {
                number: register.number,
                offset: register.offset as usize,
                size: register.size() as usize,
                sources: Vec::new(),
            })
            .collect();
        for (id, name) in (0..).map(RegisterId).zip(recording.register_names()) {
            for part in machine.locate(name.as_bytes()).unwrap_or_default() {
                let row = rows.iter_mut().find(|row| row.number == part.register);
                if let Some(row) = row {
                    row.sources.push((id, *part));
                }
            }
        }
        rows.retain(|row| !row.sources.is_empty());
        Self {
            rows,
            order: machine.byte_order(),
        }
    }

    /// Puts all that is known into a block. `value` tells of a register of the trace, `written` at which instruction it was
    /// last written: a later write to a part goes over an earlier one to the whole.
    pub(crate) fn fill<'v>(
        &self,
        block: &mut RegisterBlock,
        mut value: impl FnMut(RegisterId) -> &'v RegisterValue,
        mut written: impl FnMut(RegisterId) -> u64,
    ) {
        for row in &self.rows {
            self.fill_row(row, block, &mut value, &mut written);
        }
    }

    fn fill_row<'v>(
        &self,
        row: &Row,
        block: &mut RegisterBlock,
        value: &mut impl FnMut(RegisterId) -> &'v RegisterValue,
        written: &mut impl FnMut(RegisterId) -> u64,
    ) {
        if let [(id, part)] = row.sources[..]
            && is_whole(&part, row.size)
            && let Some(number) = value(id).known()
        {
            put(block, row, self.order, &number.to_le_bytes()[..row.size]);
            return;
        }
        let mut sources: Vec<_> = row.sources.iter().map(|(id, part)| (*id, part)).collect();
        if sources.len() > 1 {
            sources.retain(|(id, _)| !value(*id).is_unknown());
            sources.sort_by_cached_key(|(id, _)| written(*id));
        }
        let mut bits = Bits::of(row.size);
        for (id, part) in sources {
            bits.write(part, value(id));
        }
        for (place, (byte, known)) in bits.bytes.iter().zip(&bits.known).enumerate() {
            if *known == 0xff {
                let place = match self.order {
                    ByteOrder::Little => place,
                    ByteOrder::Big => row.size - 1 - place,
                };
                block.set(row.offset + place, &[*byte]);
            }
        }
    }
}

/// Whether a name stands for all of a register of at most 64 bits.
fn is_whole(part: &Part, size: usize) -> bool {
    size <= 8 && (part.register_bit, part.value_bit) == (0, 0) && usize::from(part.bits) == size * 8
}

fn put(block: &mut RegisterBlock, row: &Row, order: ByteOrder, little: &[u8]) {
    match order {
        ByteOrder::Little => block.set(row.offset, little),
        ByteOrder::Big => {
            for (place, byte) in little.iter().rev().enumerate() {
                block.set(row.offset + place, &[*byte]);
            }
        }
    }
}

/// The bits of one register, the least significant byte first.
struct Bits {
    bytes: Vec<u8>,
    known: Vec<u8>,
}

impl Bits {
    fn of(size: usize) -> Self {
        Self {
            bytes: vec![0; size],
            known: vec![0; size],
        }
    }

    fn set(&mut self, bit: usize, is_one: bool) {
        let (place, mask) = (bit / 8, 1 << (bit % 8));
        if let (Some(byte), Some(known)) = (self.bytes.get_mut(place), self.known.get_mut(place)) {
            *byte = *byte & !mask | if is_one { mask } else { 0 };
            *known |= mask;
        }
    }

    fn write(&mut self, part: &Part, value: &RegisterValue) {
        let bytes: Vec<Option<u8>> = value.bytes().collect();
        if value.is_unknown() {
            return;
        }
        for bit in 0..usize::from(part.bits) {
            let from = usize::from(part.value_bit) + bit;
            // What a value does not have at its top is zero.
            let byte = bytes.get(from / 8).copied().unwrap_or(Some(0));
            if let Some(byte) = byte {
                let to = usize::from(part.register_bit) + bit;
                self.set(to, byte >> (from % 8) & 1 == 1);
            }
        }
        if part.rest == Rest::Zero {
            let above = usize::from(part.register_bit) + usize::from(part.bits);
            for bit in above..self.bytes.len() * 8 {
                self.set(bit, false);
            }
        }
    }
}

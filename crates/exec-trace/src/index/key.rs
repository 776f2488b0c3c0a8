//! What says whether an index belongs to a trace as it is now.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::UNIX_EPOCH;

use tracewire_model::ByteOrder;

use crate::compact::bytes::{Damaged, Reader, put};
use crate::record::DataOrder;

/// How many places of a trace are looked at, and how much at each.
const SAMPLES: u64 = 16;
const SAMPLE: usize = 4096;

/// A trace's size, its time of change, and a checksum of some of its content.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Key {
    size: u64,
    changed: u64,
    sum: u64,
    /// The byte order that was given, 0 for the one that is found; likewise the order of data, from the second bit on.
    byte_order: u8,
}

/// An order of data as the file has it.
pub(crate) const fn data_order_code(order: Option<DataOrder>) -> u8 {
    match order {
        None => 0,
        Some(DataOrder::Number) => 1,
        Some(DataOrder::LowestAddressFirst) => 2,
        Some(DataOrder::HighestAddressFirst) => 3,
    }
}

/// The order of data of a code.
pub(crate) const fn data_order_of(code: u8) -> Result<Option<DataOrder>, Damaged> {
    Ok(match code {
        0 => None,
        1 => Some(DataOrder::Number),
        2 => Some(DataOrder::LowestAddressFirst),
        3 => Some(DataOrder::HighestAddressFirst),
        _ => return Err(Damaged),
    })
}

impl Key {
    /// Of a file, for an index that uses what it finds.
    pub(crate) fn of(file: &std::fs::File, metadata: &Metadata) -> io::Result<Self> {
        let size = metadata.len();
        let changed = metadata
            .modified()?
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_nanos() as u64);
        let mut hasher = crc32fast::Hasher::new();
        let mut other = 0u64;
        let mut buffer = [0; SAMPLE];
        for sample in 0..SAMPLES {
            let span = size.saturating_sub(SAMPLE as u64);
            let at = (u128::from(span) * u128::from(sample) / u128::from(SAMPLES - 1)) as u64;
            let length = SAMPLE.min(size as usize);
            file.read_exact_at(&mut buffer[..length], at)?;
            hasher.update(&buffer[..length]);
            other = other
                .wrapping_mul(31)
                .wrapping_add(u64::from(crc32fast::hash(&buffer[..length])));
        }
        Ok(Self {
            size,
            changed,
            sum: u64::from(hasher.finalize()) << 32 | other & 0xffff_ffff,
            byte_order: 0,
        })
    }

    pub(crate) const fn with_byte_order(mut self, order: Option<ByteOrder>) -> Self {
        self.byte_order = self.byte_order & !3
            | match order {
                None => 0,
                Some(ByteOrder::Little) => 1,
                Some(ByteOrder::Big) => 2,
            };
        self
    }

    pub(crate) const fn with_data_order(mut self, order: Option<DataOrder>) -> Self {
        self.byte_order = self.byte_order & 3 | data_order_code(order) << 2;
        self
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        for number in [
            self.size,
            self.changed,
            self.sum,
            u64::from(self.byte_order),
        ] {
            put(out, number);
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        Ok(Self {
            size: reader.number()?,
            changed: reader.number()?,
            sum: reader.number()?,
            byte_order: reader.small()?,
        })
    }
}

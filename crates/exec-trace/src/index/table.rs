//! Tables of numbers, checked piece by piece as they are used.

use std::sync::atomic::{AtomicU64, Ordering};

use super::bytes::Bytes;
use super::write::CHECKED;
use crate::compact::bytes::{Damaged, Reader};
use crate::compact::frame::has_sum;

/// A table of the file.
pub(super) struct TableAt {
    start: usize,
    /// In bytes.
    length: usize,
    pub(super) rows: usize,
    sums: Vec<u32>,
    /// A bit for each piece that was found good.
    checked: Vec<AtomicU64>,
}

impl TableAt {
    pub(super) fn read(
        reader: &mut Reader<'_>,
        columns: usize,
        file: usize,
    ) -> Result<Self, Damaged> {
        let start: usize = reader.small()?;
        let numbers: usize = reader.small()?;
        let count = reader.count()?;
        let length = numbers.checked_mul(8).ok_or(Damaged)?;
        let end = start.checked_add(length).ok_or(Damaged)?;
        if end > file || !numbers.is_multiple_of(columns) || count != length.div_ceil(CHECKED) {
            return Err(Damaged);
        }
        let sums = (0..count)
            .map(|_| reader.fixed(4).map(|sum| sum as u32))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            start,
            length,
            rows: numbers / columns,
            checked: (0..count.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
            sums,
        })
    }

    #[inline]
    pub(super) fn number(&self, file: &Bytes, at: usize) -> Result<u64, Damaged> {
        let piece = at / (CHECKED / 8);
        let bits = self.checked.get(piece / 64).ok_or(Damaged)?;
        let bit = 1 << (piece % 64);
        if bits.load(Ordering::Relaxed) & bit == 0 {
            self.check(file, piece)?;
            bits.fetch_or(bit, Ordering::Relaxed);
        }
        let start = self.start + at * 8;
        let bytes = file.get(start..start + 8).ok_or(Damaged)?;
        bytes
            .try_into()
            .map(u64::from_le_bytes)
            .map_err(|_| Damaged)
    }

    #[cold]
    fn check(&self, file: &Bytes, piece: usize) -> Result<(), Damaged> {
        let sum = self.sums.get(piece).ok_or(Damaged)?;
        let start = self.start + piece * CHECKED;
        // The last piece may be shorter: what is after it belongs to no table.
        let end = (start + CHECKED).min(self.start + self.length);
        let bytes = file.part(start, end.saturating_sub(start))?;
        if has_sum(bytes, *sum) {
            Ok(())
        } else {
            Err(Damaged)
        }
    }
}

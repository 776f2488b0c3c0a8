//! The values that one place of an instruction takes, one execution after the other.
//!
//! A loop's counter or address goes on by the same step; a register that is loaded has the very value that was
//! read. Each row of values is written in the way that suits it best, and the general compressor makes the rest
//! small.

use super::bytes::{Damaged, Reader, length, put, put_signed, zigzag};

const SAME: u8 = 0;
const STEP: u8 = 1;
const DELTAS: u8 = 2;
const RAW: u8 = 3;
/// The same as an earlier row of the same group: the number of the row is added.
const COPY: u8 = 4;

/// Appends a row. `digits` says how many hex digits the values have at most, `earlier` has the group's rows before it, which are as
/// long.
pub(crate) fn put_row(out: &mut Vec<u8>, row: &[u64], digits: u8, earlier: &[u64]) {
    let (Some(first), Some(last)) = (row.first(), row.last()) else {
        return;
    };
    let copied = earlier
        .rchunks_exact(row.len())
        .position(|other| other == row)
        .and_then(|back| u8::try_from(back).ok()?.checked_add(COPY));
    if first == last && row.iter().all(|value| value == first) {
        // A short number is shorter than looking elsewhere.
        if let Some(copied) = copied
            && *first > 0x7f
        {
            return out.push(copied);
        }
        out.push(SAME);
        return put(out, *first);
    }
    if let Some(copied) = copied {
        return out.push(copied);
    }
    let width = usize::from(digits.div_ceil(2));
    let mut deltas = length(*first);
    let step = delta(*first, row[1], digits);
    let mut steady = true;
    for pair in row.windows(2) {
        let delta = delta(pair[0], pair[1], digits);
        steady &= delta == step;
        deltas += length(zigzag(delta));
    }
    if steady {
        out.push(STEP);
        put(out, *first);
        put_signed(out, step);
    } else if deltas < row.len() * width {
        out.push(DELTAS);
        put(out, *first);
        for pair in row.windows(2) {
            put_signed(out, delta(pair[0], pair[1], digits));
        }
    } else {
        out.push(RAW);
        for value in row {
            out.extend_from_slice(&value.to_le_bytes()[..width]);
        }
    }
}

/// Reads a row of `count` values to the end of `values`; the group's rows start at `group` there.
pub(crate) fn get_row(
    reader: &mut Reader<'_>,
    count: usize,
    digits: u8,
    values: &mut Vec<u64>,
    group: usize,
) -> Result<(), Damaged> {
    if count == 0 {
        return Ok(());
    }
    let mask = mask(digits);
    match reader.byte()? {
        SAME => {
            let value = reader.number()?;
            values.resize(values.len() + count, value);
        }
        STEP => {
            let (first, step) = (reader.number()?, reader.signed()?);
            let mut value = first;
            values.extend((0..count).map(|_| {
                let this = value;
                value = value.wrapping_add_signed(step) & mask;
                this
            }));
        }
        DELTAS => {
            let mut value = reader.number()?;
            values.push(value);
            for _ in 1..count {
                value = value.wrapping_add_signed(reader.signed()?) & mask;
                values.push(value);
            }
        }
        RAW => {
            let width = usize::from(digits.div_ceil(2));
            if !(1..=8).contains(&width) {
                return Err(Damaged);
            }
            let raw = reader.take(count.checked_mul(width).ok_or(Damaged)?)?;
            values.extend(raw.chunks_exact(width).map(|bytes| {
                let mut whole = [0; 8];
                whole[..width].copy_from_slice(bytes);
                u64::from_le_bytes(whole)
            }));
        }
        copy => {
            let back = usize::from(copy - COPY) + 1;
            let start = values
                .len()
                .checked_sub(back.checked_mul(count).ok_or(Damaged)?)
                .filter(|start| *start >= group)
                .ok_or(Damaged)?;
            values.extend_from_within(start..start + count);
        }
    }
    Ok(())
}

/// Passes over a row of `count` values.
pub(crate) fn skip_row(reader: &mut Reader<'_>, count: usize, digits: u8) -> Result<(), Damaged> {
    if count == 0 {
        return Ok(());
    }
    match reader.byte()? {
        SAME => reader.skip(1),
        STEP => reader.skip(2),
        DELTAS => reader.skip(count),
        RAW => {
            let width = usize::from(digits.div_ceil(2));
            reader
                .take(count.checked_mul(width).ok_or(Damaged)?)
                .map(drop)
        }
        _ => Ok(()),
    }
}

/// All the bits of so many digits.
const fn mask(digits: u8) -> u64 {
    if digits >= 16 {
        u64::MAX
    } else {
        (1 << (digits * 4)) - 1
    }
}

/// The way from one number to the next, the short way round.
#[inline]
fn delta(from: u64, to: u64, digits: u8) -> i64 {
    let unused = 64 - u32::from(digits.min(16)) * 4;
    if unused == 64 {
        return 0;
    }
    ((to.wrapping_sub(from) << unused) as i64) >> unused
}

/// Appends numbers that mostly go on by the same step, such as times.
pub(crate) fn put_steps(out: &mut Vec<u8>, before: u64, numbers: &[u64]) {
    let Some(first) = numbers.first() else {
        return;
    };
    let step = first.wrapping_sub(before);
    let steady = numbers
        .windows(2)
        .all(|pair| pair[1].wrapping_sub(pair[0]) == step);
    out.push(u8::from(steady));
    if steady {
        return put_signed(out, step as i64);
    }
    let mut before = before;
    for number in numbers {
        put_signed(out, number.wrapping_sub(before) as i64);
        before = *number;
    }
}

/// Numbers as [`put_steps`] wrote them.
#[derive(Clone, Debug)]
pub(crate) enum Steps {
    Steady { before: u64, step: u64 },
    Listed(Vec<u64>),
}

impl Steps {
    pub(crate) fn read(
        reader: &mut Reader<'_>,
        before: u64,
        count: usize,
    ) -> Result<Self, Damaged> {
        if count == 0 {
            return Ok(Self::Listed(Vec::new()));
        }
        if reader.byte()? == 1 {
            let step = reader.signed()? as u64;
            return Ok(Self::Steady { before, step });
        }
        let mut value = before;
        let mut numbers = Vec::with_capacity(count.min(1 << 16));
        for _ in 0..count {
            value = value.wrapping_add_signed(reader.signed()?);
            numbers.push(value);
        }
        Ok(Self::Listed(numbers))
    }

    #[inline]
    pub(crate) fn get(&self, at: usize) -> u64 {
        match self {
            Self::Steady { before, step } => before.wrapping_add(step.wrapping_mul(at as u64 + 1)),
            Self::Listed(numbers) => numbers.get(at).copied().unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn rows_come_back(
            digits in 1..=16u8,
            rows in (1..40usize).prop_flat_map(|count| proptest::collection::vec(
                prop_oneof![
                    proptest::collection::vec(any::<u64>(), count),
                    (any::<u64>(), any::<i8>()).prop_map(move |(first, step)| {
                        (0..count as i64)
                            .map(|at| first.wrapping_add_signed(at * i64::from(step)))
                            .collect()
                    }),
                    proptest::collection::vec(0..300u64, count),
                ],
                1..5,
            )),
            copied in any::<bool>(),
        ) {
            let mut rows = rows;
            for row in &mut rows {
                row.iter_mut().for_each(|value| *value &= mask(digits));
            }
            if copied {
                rows.push(rows[0].clone());
            }
            let mut out = Vec::new();
            for at in 0..rows.len() {
                put_row(&mut out, &rows[at], digits, &rows[..at].concat());
            }
            let mut reader = Reader::new(&out);
            let mut values = vec![7, 7, 7];
            for row in &rows {
                get_row(&mut reader, row.len(), digits, &mut values, 3).unwrap();
            }
            prop_assert!(reader.is_empty());
            prop_assert_eq!(&values[3..], rows.concat());
            let mut reader = Reader::new(&out);
            for row in &rows {
                skip_row(&mut reader, row.len(), digits).unwrap();
            }
            prop_assert!(reader.is_empty());
        }

        #[test]
        fn steps_come_back(before: u64, numbers in proptest::collection::vec(any::<u64>(), 0..20), step: Option<u64>) {
            let mut numbers = numbers;
            if let Some(step) = step {
                for (at, number) in numbers.iter_mut().enumerate() {
                    *number = before.wrapping_add(step.wrapping_mul(at as u64 + 1));
                }
            }
            let mut out = Vec::new();
            put_steps(&mut out, before, &numbers);
            let steps = Steps::read(&mut Reader::new(&out), before, numbers.len()).unwrap();
            for (at, number) in numbers.iter().enumerate() {
                prop_assert_eq!(steps.get(at), *number);
            }
        }
    }
}

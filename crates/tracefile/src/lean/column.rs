//! A column: the numbers that frames of one shape have in one place, in few bytes.

use super::read::Content;

/// The way in which a column is written, in its first byte.
mod method {
    /// One number for all rows.
    pub(super) const CONSTANT: u8 = 0;
    /// The first number, then differences to the one before.
    pub(super) const DIFFERENCES: u8 = 1;
    /// The smallest number, then differences to it.
    pub(super) const OFFSETS: u8 = 2;
    /// An earlier column, and a number that is added to it.
    pub(super) const OTHER: u8 = 3;
}

/// An earlier column of the same shape.
pub(super) struct Earlier<'c> {
    /// Its place among all columns of numbers of the shape.
    pub(super) place: usize,
    pub(super) numbers: &'c [u64],
}

/// What the numbers of a column are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Numbers {
    /// All the same.
    One(u64),
    /// Those of an earlier column, which differ, and a number that is added.
    Like {
        place: usize,
        added: u64,
    },
    Any,
}

/// Writes a column of numbers that were not compared yet. Gives what they are.
pub(super) fn write<'c>(
    numbers: &[u64],
    earlier: impl Iterator<Item = Earlier<'c>>,
    scratch: &mut Vec<u64>,
    out: &mut Vec<u8>,
) -> Numbers {
    let Some(&first) = numbers.first() else {
        return Numbers::One(0);
    };
    let least = numbers.iter().copied().fold(first, u64::min);
    let most = numbers.iter().copied().fold(first, u64::max);
    if least == most {
        write_one(first, out);
        return Numbers::One(first);
    }
    for Earlier {
        place,
        numbers: other,
    } in earlier
    {
        let Some(added) = other.first().map(|other| first.wrapping_sub(*other)) else {
            continue;
        };
        let is_same = |(number, other): (&u64, &u64)| number.wrapping_sub(*other) == added;
        if numbers.iter().zip(other).all(is_same) && write_like(place, added, out) {
            return Numbers::Like { place, added };
        }
    }
    let pairs = numbers.iter().zip(numbers.get(1..).unwrap_or_default());
    let differences = pairs.map(|(before, number)| zigzag(number.wrapping_sub(*before)));
    let all = differences.clone().fold(0, |all, one| all | one);
    scratch.clear();
    let (by_difference, by_offset) = (width(all), width(most.wrapping_sub(least)));
    if by_difference < by_offset {
        out.push(method::DIFFERENCES);
        out.extend_from_slice(&first.to_le_bytes());
        scratch.push(0);
        scratch.extend(differences);
        write_planes(scratch, by_difference, out);
    } else {
        out.push(method::OFFSETS);
        out.extend_from_slice(&least.to_le_bytes());
        scratch.extend(numbers.iter().map(|number| number.wrapping_sub(least)));
        write_planes(scratch, by_offset, out);
    }
    Numbers::Any
}

/// Writes a column with one number in all rows.
pub(super) fn write_one(number: u64, out: &mut Vec<u8>) {
    out.push(method::CONSTANT);
    out.extend_from_slice(&number.to_le_bytes());
}

/// Writes a column with the numbers of an earlier one, and a number that is added. `false` if its place cannot be written.
pub(super) fn write_like(place: usize, added: u64, out: &mut Vec<u8>) -> bool {
    let Ok(place) = u16::try_from(place) else {
        return false;
    };
    out.push(method::OTHER);
    out.extend_from_slice(&place.to_le_bytes());
    out.extend_from_slice(&added.to_le_bytes());
    true
}

/// Writes the lowest bytes of all numbers, then the next ones.
fn write_planes(numbers: &[u64], width: u8, out: &mut Vec<u8>) {
    out.push(width);
    for plane in 0..u32::from(width) {
        out.extend(numbers.iter().map(|number| (number >> (8 * plane)) as u8));
    }
}

/// Reads a column of so many rows. `earlier` gives the column of a place that was read before.
pub(super) fn read<'c>(
    content: &mut Content<'_>,
    rows: usize,
    earlier: impl Fn(usize) -> Option<&'c [u64]>,
) -> Option<Vec<u64>> {
    if rows == 0 {
        return Some(Vec::new());
    }
    match content.byte()? {
        method::CONSTANT => Some(vec![content.u64()?; rows]),
        method::OTHER => {
            let place = usize::from(content.u16()?);
            let added = content.u64()?;
            let other = earlier(place).filter(|other| other.len() == rows)?;
            Some(other.iter().map(|one| one.wrapping_add(added)).collect())
        }
        method::DIFFERENCES => {
            let mut number = content.u64()?;
            let mut numbers = read_planes(content, rows)?;
            for one in &mut numbers {
                number = number.wrapping_add(unzigzag(*one));
                *one = number;
            }
            Some(numbers)
        }
        method::OFFSETS => {
            let least = content.u64()?;
            let mut numbers = read_planes(content, rows)?;
            for number in &mut numbers {
                *number = number.wrapping_add(least);
            }
            Some(numbers)
        }
        _ => None,
    }
}

fn read_planes(content: &mut Content<'_>, rows: usize) -> Option<Vec<u64>> {
    let width = content.byte().filter(|width| *width <= 8)?;
    let mut numbers = vec![0; rows];
    for plane in 0..u32::from(width) {
        let bytes = content.bytes(rows)?;
        for (number, byte) in numbers.iter_mut().zip(bytes) {
            *number |= u64::from(*byte) << (8 * plane);
        }
    }
    Some(numbers)
}

/// How many bytes a number takes.
const fn width(number: u64) -> u8 {
    (64 - number.leading_zeros()).div_ceil(8) as u8
}

/// A difference as a number that is small where the difference is, whatever its sign.
const fn zigzag(difference: u64) -> u64 {
    let signed = difference.cast_signed();
    ((signed << 1) ^ (signed >> 63)).cast_unsigned()
}

const fn unzigzag(number: u64) -> u64 {
    (number >> 1) ^ (number & 1).wrapping_neg()
}

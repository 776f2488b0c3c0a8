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

/// Writes a column. Gives whether it is more than a single number, so that it may help to write a later one.
pub(super) fn write<'c>(
    numbers: &[u64],
    earlier: impl Iterator<Item = Earlier<'c>>,
    scratch: &mut Vec<u64>,
    out: &mut Vec<u8>,
) -> bool {
    let Some(&first) = numbers.first() else {
        return false;
    };
    let (mut least, mut most, mut differences, mut before) = (first, first, 0, first);
    for &number in numbers {
        least = least.min(number);
        most = most.max(number);
        differences |= zigzag(number.wrapping_sub(before));
        before = number;
    }
    if least == most {
        out.push(method::CONSTANT);
        out.extend_from_slice(&first.to_le_bytes());
        return false;
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
        if let Ok(place) = u16::try_from(place)
            && numbers.iter().zip(other).all(is_same)
        {
            out.push(method::OTHER);
            out.extend_from_slice(&place.to_le_bytes());
            out.extend_from_slice(&added.to_le_bytes());
            return false;
        }
    }
    scratch.clear();
    let (by_difference, by_offset) = (width(differences), width(most - least));
    if by_difference < by_offset {
        out.push(method::DIFFERENCES);
        out.extend_from_slice(&first.to_le_bytes());
        let mut before = first;
        scratch.extend(numbers.iter().map(|&number| {
            let difference = zigzag(number.wrapping_sub(before));
            before = number;
            difference
        }));
        write_planes(scratch, by_difference, out);
    } else {
        out.push(method::OFFSETS);
        out.extend_from_slice(&least.to_le_bytes());
        scratch.extend(numbers.iter().map(|number| number - least));
        write_planes(scratch, by_offset, out);
    }
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

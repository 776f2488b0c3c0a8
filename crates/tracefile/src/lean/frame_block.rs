//! The columns of a block, read back as frames.

use tracewire_model::{ByteOrder, RegisterMask};

use super::column;
use super::read::Content;
use super::shape::Item;
use super::stage::{one_length, parts};
use super::{MAX_CELLS, MAX_CONTENT, MAX_FRAMES};
use crate::fraction::{FRACTION, fraction_of};
use crate::register_set::{RegisterSet, RegisterSets, SET_LETTER};
use tracewire_arch::RegisterLayout;

/// The shape of frames, and their values.
struct Shape {
    tracepoint: u16,
    items: Vec<Item>,
    /// The values of each item.
    values: Vec<Values>,
    rows: usize,
    /// How many of its frames were read.
    next: usize,
}

/// The values of an item.
#[derive(Default)]
struct Values {
    columns: Vec<Vec<u64>>,
    /// Of memory whose pieces have one length.
    parts: Vec<Vec<u64>>,
    bytes: Vec<u8>,
    /// Where the bytes of the next frame are.
    at: usize,
}

/// Reads the content of a block of so many frames, and gives each frame as a trace file with register blocks of a size has it.
/// Nothing where the content is not what a writer makes.
pub(super) fn read(
    content: &[u8],
    frames: usize,
    layout: Option<&RegisterLayout>,
    block_size: usize,
    out: &mut Vec<u8>,
) -> Option<()> {
    let mut content = Content(content);
    let sets = read_sets(&mut content, layout)?;
    let count = usize::try_from(content.u32()?).ok()?;
    let mut shapes = Vec::new();
    for _ in 0..count {
        shapes.push(read_shape(&mut content, &sets)?);
    }
    let rows = usize::try_from(content.u32()?).ok()?;
    if rows != frames || rows > MAX_FRAMES {
        return None;
    }
    let order = column::read(&mut content, rows, |_| None)?;
    for shape in &order {
        shapes.get_mut(usize::try_from(*shape).ok()?)?.rows += 1;
    }
    let mut cells = 0_usize;
    for shape in &mut shapes {
        let columns: usize = shape.items.iter().map(|item| item.columns()).sum();
        cells = cells.checked_add(columns.checked_mul(shape.rows)?)?;
        if cells > MAX_CELLS {
            return None;
        }
        read_values(&mut content, shape, &mut cells)?;
    }
    if !content.0.is_empty() {
        return None;
    }
    let mut frame = Vec::new();
    let start = out.len();
    for place in order {
        let shape = shapes.get_mut(usize::try_from(place).ok()?)?;
        frame.clear();
        read_frame(shape, &mut frame)?;
        sets.expand(&frame, ByteOrder::Little, block_size, out);
        if out.len() - start > MAX_CONTENT {
            return None;
        }
    }
    Some(())
}

fn read_sets(content: &mut Content<'_>, layout: Option<&RegisterLayout>) -> Option<RegisterSets> {
    let mut masks = Vec::new();
    for _ in 0..content.u32()? {
        let number = usize::try_from(content.u32()?).ok()?;
        let length = usize::try_from(content.u32()?).ok()?;
        let mask = RegisterMask::from_bytes(content.bytes(length)?.to_vec());
        masks.push((number, mask));
    }
    RegisterSets::of_masks(masks, |mask| Some(RegisterSet::new(layout?, mask)))
}

fn read_shape(content: &mut Content<'_>, sets: &RegisterSets) -> Option<Shape> {
    let tracepoint = content.u16()?;
    let count = usize::try_from(content.u32()?).ok()?;
    let mut items = Vec::new();
    for _ in 0..count {
        items.push(match content.byte()? {
            SET_LETTER => {
                let set = content.u32()?;
                let size = sets.get(set)?.size();
                Item::Registers { set, size }
            }
            b'V' => Item::Variable(content.u32()?.cast_signed()),
            b'N' => Item::Nanoseconds,
            b'W' => Item::Number(content.byte().filter(|length| (1..=8).contains(length))?),
            b'M' => Item::Memory,
            b'?' => Item::Rest,
            _ => return None,
        });
    }
    Some(Shape {
        tracepoint,
        items,
        values: Vec::new(),
        rows: 0,
        next: 0,
    })
}

fn read_values(content: &mut Content<'_>, shape: &mut Shape, cells: &mut usize) -> Option<()> {
    let rows = shape.rows;
    // The item and the place in it of each column.
    let mut places: Vec<(usize, usize)> = Vec::new();
    for (number, item) in shape.items.iter().enumerate() {
        let mut values = Values::default();
        for place in 0..item.columns() {
            let earlier = |place: usize| {
                let (item, place) = *places.get(place)?;
                let values: &Values = shape.values.get(item)?;
                values.columns.get(place).map(Vec::as_slice)
            };
            // A column of this item may be like another one of it.
            let own = values.columns.len();
            let column = column::read(content, rows, |at| {
                let first = places.len().checked_sub(own)?;
                match at.checked_sub(first) {
                    Some(at) => values.columns.get(at).map(Vec::as_slice),
                    None => earlier(at),
                }
            })?;
            values.columns.push(column);
            places.push((number, place));
        }
        if item.has_bytes() && rows > 0 {
            let lengths = values.columns.last()?;
            match one_length(lengths) {
                Some(length) => {
                    for _ in parts(length) {
                        *cells = cells.checked_add(rows).filter(|all| *all <= MAX_CELLS)?;
                        values.parts.push(column::read(content, rows, |_| None)?);
                    }
                }
                None => {
                    let all = lengths
                        .iter()
                        .try_fold(0_u64, |all, one| all.checked_add(*one))?;
                    values.bytes = content.bytes(usize::try_from(all).ok()?)?.to_vec();
                }
            }
        }
        shape.values.push(values);
    }
    Some(())
}

/// Reads the next frame of a shape.
fn read_frame(shape: &mut Shape, frame: &mut Vec<u8>) -> Option<()> {
    let row = shape.next;
    shape.next += 1;
    frame.extend_from_slice(&shape.tracepoint.to_le_bytes());
    frame.extend_from_slice(&[0; 4]);
    for (item, values) in shape.items.iter().zip(&mut shape.values) {
        let number = |column: usize| values.columns.get(column)?.get(row).copied();
        match *item {
            Item::Registers { set, size } => {
                frame.push(SET_LETTER);
                frame.extend_from_slice(&set.to_le_bytes());
                for column in 0..size.div_ceil(8) {
                    let length = (size - 8 * column).min(8);
                    put_number(number(column)?, length, frame);
                }
            }
            Item::Variable(variable) => {
                frame.push(b'V');
                frame.extend_from_slice(&variable.to_le_bytes());
                put_number(number(0)?, 8, frame);
            }
            Item::Nanoseconds => {
                frame.push(b'V');
                frame.extend_from_slice(&FRACTION.0.to_le_bytes());
                put_number(fraction_of(number(0)?), 8, frame);
            }
            Item::Number(length) => {
                frame.push(b'M');
                put_number(number(0)?, 8, frame);
                frame.extend_from_slice(&u16::from(length).to_le_bytes());
                put_number(number(1)?, usize::from(length), frame);
            }
            Item::Memory => {
                let length = u16::try_from(number(1)?).ok()?;
                frame.push(b'M');
                put_number(number(0)?, 8, frame);
                frame.extend_from_slice(&length.to_le_bytes());
                put_bytes(values, row, usize::from(length), frame)?;
            }
            Item::Rest => {
                let length = usize::try_from(number(0)?).ok()?;
                put_bytes(values, row, length, frame)?;
            }
        }
        if frame.len() > MAX_CONTENT {
            return None;
        }
    }
    let size = u32::try_from(frame.len().checked_sub(6)?).ok()?;
    frame.get_mut(2..6)?.copy_from_slice(&size.to_le_bytes());
    // A frame of tracepoint 0 would be the end of a trace file.
    (shape.tracepoint != 0).then_some(())
}

fn put_number(number: u64, length: usize, frame: &mut Vec<u8>) {
    let bytes = number.to_le_bytes();
    frame.extend_from_slice(bytes.get(..length).unwrap_or(&bytes));
}

fn put_bytes(values: &mut Values, row: usize, length: usize, frame: &mut Vec<u8>) -> Option<()> {
    if values.parts.is_empty() {
        let end = values.at.checked_add(length)?;
        frame.extend_from_slice(values.bytes.get(values.at..end)?);
        values.at = end;
        return Some(());
    }
    for (part, range) in values.parts.iter().zip(parts(length)) {
        put_number(*part.get(row)?, range.len(), frame);
    }
    Some(())
}

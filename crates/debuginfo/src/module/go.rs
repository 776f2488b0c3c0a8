//! The function table of a Go program's runtime: `.gopclntab`, which is in a stripped program too.
//!
//! The table's header begins with a magic number for its layout, which has changed in Go 1.2, 1.16, 1.18 and 1.20.

use gimli::Reader as _;
use object::{Object, RelocationTarget};

use super::image::{Image, Reader, Section};

/// A function: name, link-time address and size.
pub(super) struct GoFunction {
    pub(super) name: String,
    pub(super) address: u64,
    pub(super) size: u64,
}

/// The sections that the table may be in; the second one is of a position-independent program.
const SECTIONS: [&str; 2] = [".gopclntab", ".data.rel.ro.gopclntab"];

/// How many functions are read.
const MOST: u64 = 1 << 21;

/// The layouts of the table.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Layout {
    Go12,
    Go116,
    /// Go 1.18 and later: addresses are offsets of 32 bits.
    Go118,
}

type Table = Reader;

/// The functions of the table, by address; none where there is no table, or one of a layout that is not known.
pub(super) fn functions(image: &Image) -> Vec<GoFunction> {
    let section = SECTIONS.iter().find_map(|name| image.section(name));
    section
        .and_then(|section| read(image, section))
        .unwrap_or_default()
}

fn read(image: &Image, section: &Section) -> Option<Vec<GoFunction>> {
    let table = image.section_reader(&section.name)?;
    let mut header = table.clone();
    let layout = match header.read_u32().ok()? {
        0xffff_fffb => Layout::Go12,
        0xffff_fffa => Layout::Go116,
        0xffff_fff0 | 0xffff_fff1 => Layout::Go118,
        _ => return None,
    };
    header.skip(3).ok()?;
    let size = header.read_u8().ok()?;
    if !matches!(size, 4 | 8) {
        return None;
    }
    let word = |at: usize| word_at(&table, 8 + at * usize::from(size), size);
    let count = word(0)?.min(MOST);
    let (text_start, names, entries) = match layout {
        Layout::Go12 => (0, 0, 8 + u64::from(size)),
        Layout::Go116 => (0, word(2)?, word(6)?),
        Layout::Go118 => {
            let place = section.address + 8 + 2 * u64::from(size);
            let start = word(2).filter(|start| *start != 0);
            (
                start.or_else(|| relocated(image, place))?,
                word(3)?,
                word(7)?,
            )
        }
    };
    let field = if layout == Layout::Go118 { 4 } else { size };
    let mut found = Vec::new();
    for number in 0..count {
        let entry = entries.checked_add(number.checked_mul(2 * u64::from(field))?)?;
        let at = |index: u64| {
            let offset = entry.checked_add(index * u64::from(field))?;
            word_at(&table, usize::try_from(offset).ok()?, field)
        };
        let (Some(start), Some(function), Some(end)) = (at(0), at(1), at(2)) else {
            break;
        };
        // The functions' records are counted from where the list of them begins, since Go 1.16.
        let record = match layout {
            Layout::Go12 => function,
            Layout::Go116 | Layout::Go118 => entries.checked_add(function)?,
        };
        let name = record
            .checked_add(u64::from(field))
            .and_then(|offset| word_at(&table, usize::try_from(offset).ok()?, 4))
            .and_then(|offset| text_at(&table, names.checked_add(offset)?));
        let Some(name) = name.filter(|name| !name.is_empty()) else {
            continue;
        };
        found.push(GoFunction {
            name,
            address: text_start.wrapping_add(start),
            size: end.saturating_sub(start),
        });
    }
    Some(found)
}

fn word_at(table: &Table, offset: usize, size: u8) -> Option<u64> {
    let mut rest = table.clone();
    rest.skip(offset).ok()?;
    rest.read_address(size).ok()
}

fn text_at(table: &Table, offset: u64) -> Option<String> {
    let mut rest = table.clone();
    rest.skip(usize::try_from(offset).ok()?).ok()?;
    let text = rest.read_null_terminated_slice().ok()?;
    Some(text.to_string_lossy().ok()?.into_owned())
}

/// The value that the loader writes at an address, without the bias: in a position-independent program the file need not have it.
fn relocated(image: &Image, address: u64) -> Option<u64> {
    let file = object::File::parse(&*image.bytes).ok()?;
    let mut relocations = file.dynamic_relocations()?;
    let (_, found) = relocations.find(|(place, _)| *place == address)?;
    let absolute = found.target() == RelocationTarget::Absolute;
    absolute.then(|| found.addend().cast_unsigned())
}

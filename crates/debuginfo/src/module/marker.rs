//! SystemTap markers: the notes that `sys/sdt.h` leaves.

use gimli::Reader as _;

use super::image::{Image, Reader};

/// A marker; addresses are link-time ones.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct MarkerNote {
    pub(crate) provider: String,
    pub(crate) name: String,
    pub(crate) arguments: String,
    pub(crate) address: u64,
    pub(crate) semaphore: Option<u64>,
}

/// The markers of a file, in the order of `.note.stapsdt`; a damaged note ends them.
pub(crate) fn read(image: &Image) -> Vec<MarkerNote> {
    let Some(mut notes) = image.section_reader(".note.stapsdt") else {
        return Vec::new();
    };
    // A prelinked file has its notes from before prelinking: the section's base address gives the difference.
    let base = image
        .section(".stapsdt.base")
        .map(|section| section.address);
    let mut markers = Vec::new();
    while let Ok(note) = note(&mut notes) {
        let (kind, owner, description) = note;
        if kind == 3
            && owner == b"stapsdt"
            && let Ok(marker) = marker(description, image.address_size(), base)
        {
            markers.push(marker);
        }
    }
    markers
}

fn note(notes: &mut Reader) -> gimli::Result<(u32, Vec<u8>, Reader)> {
    let name_size = notes.read_u32()?;
    let description_size = notes.read_u32()?;
    let kind = notes.read_u32()?;
    let name = padded(notes, name_size)?;
    let mut name = name.to_slice()?.into_owned();
    while name.last() == Some(&0) {
        name.pop();
    }
    let description = padded(notes, description_size)?;
    Ok((kind, name, description))
}

/// `size` bytes, and as many more as make a multiple of 4.
fn padded(notes: &mut Reader, size: u32) -> gimli::Result<Reader> {
    let size = size as usize;
    let part = notes.split(size)?;
    let padding = size.wrapping_neg() % 4;
    notes.skip(padding.min(notes.len()))?;
    Ok(part)
}

fn marker(mut note: Reader, address_size: u8, base: Option<u64>) -> gimli::Result<MarkerNote> {
    let address = note.read_address(address_size)?;
    let noted_base = note.read_address(address_size)?;
    let semaphore = note.read_address(address_size)?;
    let moved = base.map_or(0, |base| base.wrapping_sub(noted_base));
    let text = |note: &mut Reader| -> gimli::Result<String> {
        let text = note.read_null_terminated_slice()?;
        Ok(text.to_string_lossy()?.into_owned())
    };
    Ok(MarkerNote {
        provider: text(&mut note)?,
        name: text(&mut note)?,
        arguments: text(&mut note)?,
        address: address.wrapping_add(moved),
        semaphore: (semaphore != 0).then(|| semaphore.wrapping_add(moved)),
    })
}

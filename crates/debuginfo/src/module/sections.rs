//! Sections of debug information that are compressed in their file, decompressed once and kept.

use super::image::{Image, Reader};
use super::kept::{Kept, Key};

/// The sections that are kept, in their order.
const NAMES: [&str; 12] = [
    ".debug_abbrev",
    ".debug_addr",
    ".debug_info",
    ".debug_line",
    ".debug_line_str",
    ".debug_loc",
    ".debug_loclists",
    ".debug_ranges",
    ".debug_rnglists",
    ".debug_str",
    ".debug_str_offsets",
    ".debug_types",
];

/// Before the sections is for each of them where it ends in what follows, in 8 bytes.
const HEADER: usize = NAMES.len() * 8;

/// Sections without compression.
#[derive(Debug)]
pub(crate) struct Sections {
    content: Kept,
    ends: [usize; NAMES.len()],
}

impl Sections {
    /// The sections that were kept, else those of a file, which are then kept.
    pub(crate) fn get(image: &Image, key: &Key) -> Option<Self> {
        if let Some(kept) = key.load().and_then(Self::of_kept) {
            return Some(kept);
        }
        let mut header = Vec::with_capacity(HEADER);
        let mut bytes = Vec::new();
        for name in NAMES {
            if let Some(section) = image.section_reader(name) {
                bytes.extend_from_slice(&section);
            }
            header.extend((bytes.len() as u64).to_le_bytes());
        }
        header.append(&mut bytes);
        key.store(&header);
        Self::of_kept(header.into())
    }

    fn of_kept(content: Kept) -> Option<Self> {
        let (numbers, rest) = content.content().split_at_checked(HEADER)?;
        let mut ends = [0; NAMES.len()];
        for (end, number) in ends.iter_mut().zip(numbers.as_chunks::<8>().0) {
            *end = usize::try_from(u64::from_le_bytes(*number)).ok()?;
        }
        let are_right = ends.is_sorted() && ends.last() == Some(&rest.len());
        are_right.then_some(Self { content, ends })
    }

    /// A section; none for one that is empty or is not kept.
    pub(crate) fn reader(&self, image: &Image, name: &str) -> Option<Reader> {
        let index = NAMES.iter().position(|known| *known == name)?;
        let end = *self.ends.get(index)?;
        let start = index
            .checked_sub(1)
            .and_then(|before| self.ends.get(before));
        let start = start.copied().unwrap_or(0);
        (start < end).then(|| {
            self.content
                .reader(image.endian, HEADER + start..HEADER + end)
        })
    }
}

//! Whether a module can have a name, decided from its strings: most libraries have few of the names that are looked up, and need
//! not be read for the others.

use gimli::{Reader as _, Section};

use crate::dwarf::DebugInformation;
use crate::module::Reader;

/// How many strings that end like the name are looked at.
const MOST_ENDINGS: usize = 64;

impl DebugInformation {
    /// Whether an entry may have a name whose plain name is `wanted`. False only if there is none.
    pub(in crate::dwarf) fn may_name(&self, wanted: &str) -> bool {
        // A name that starts with a bracket or is an operator does not end at the next bracket. A replacement character stands for
        // unknown bytes.
        if wanted.is_empty()
            || wanted.starts_with(['(', '<', '{'])
            || wanted.starts_with("operator")
            || wanted.contains(char::REPLACEMENT_CHARACTER)
            || self.dwarf.sup().is_some()
            || self.is_split()
        {
            return true;
        }
        let references = [
            self.dwarf.debug_info.reader(),
            self.dwarf.debug_types.reader(),
            self.dwarf.debug_str_offsets.reader(),
        ];
        let inline = [
            references[0],
            references[1],
            self.dwarf.debug_line_str.reader(),
        ];
        if (inline.iter()).any(|section| occurrences(section, wanted).next().is_some()) {
            return true;
        }
        // A string may be the end of a longer one; then something refers to the place in the middle.
        let strings = self.dwarf.debug_str.reader();
        let Ok(bytes) = strings.to_slice() else {
            return true;
        };
        for (count, start) in occurrences(strings, wanted).enumerate() {
            let whole = start
                .checked_sub(1)
                .is_none_or(|before| bytes.get(before) == Some(&0));
            let Ok(offset) = u32::try_from(start) else {
                return true;
            };
            if whole || count >= MOST_ENDINGS {
                return true;
            }
            // Offsets of 8 bytes have these 4 in them, too.
            let offset = if gimli::Endianity::is_big_endian(strings.endian()) {
                offset.to_be_bytes()
            } else {
                offset.to_le_bytes()
            };
            let referred = |section: &&Reader| {
                section
                    .to_slice()
                    .is_ok_and(|bytes| memchr::memmem::find(&bytes, &offset).is_some())
            };
            if references.iter().any(referred) {
                return true;
            }
        }
        false
    }
}

/// The positions in a section of a name that ends there, or continues with template arguments or parameters.
fn occurrences<'a>(section: &'a Reader, name: &'a str) -> impl Iterator<Item = usize> + 'a {
    let bytes: &[u8] = section;
    let finder = memchr::memmem::Finder::new(name.as_bytes());
    let mut from = 0;
    // One may begin within another.
    let all = std::iter::from_fn(move || {
        let start = from + finder.find(bytes.get(from..)?)?;
        from = start + 1;
        Some(start)
    });
    all.filter(move |start| {
        matches!(
            bytes.get(start + name.len()),
            None | Some(b'\0' | b'<' | b'(')
        )
    })
}

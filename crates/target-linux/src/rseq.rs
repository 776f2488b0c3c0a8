//! Restartable sequences (rseq): code that the kernel restarts when the thread loses its processor within it.
//!
//! The kernel knows such a sequence by the addresses of its instructions. An instruction that is executed elsewhere, in
//! a pad or in a copy, is outside of it. The sequence would be finished on another processor, and its result would be
//! wrong. The section `__rseq_cs` of a file lists its sequences, as `struct rseq_cs` of the kernel.

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use object::read::ReadCache;
use object::{Object, ObjectSection, ObjectSegment};

use crate::maps::{FileView, Mapping};
use crate::ptrace::Tid;

/// Why no tracepoint can be put there.
pub(crate) const WITHIN: &str = "it is within a restartable sequence (rseq), which an instruction executed elsewhere would break";

/// The size of the kernel's `struct rseq_cs`.
const DESCRIPTOR: usize = 32;
/// The offset in it of the address of the first instruction; the length follows.
const START: usize = 8;
const LENGTH: usize = 16;
/// The most sequences of a file that are read.
const MOST: usize = 1 << 16;

/// The restartable sequences of a file, by the addresses in the file.
#[derive(Debug, Default)]
struct Sequences {
    /// Ranges of the file, and the address of each.
    segments: Vec<(Range<u64>, u64)>,
    all: Vec<Range<u64>>,
}

impl Sequences {
    fn read(path: &Path) -> Option<Self> {
        let cache = ReadCache::new(File::open(path).ok()?);
        let file = object::File::parse(&cache).ok()?;
        let section = file.section_by_name("__rseq_cs")?;
        let bytes = section.data().ok()?;
        // A section that does not end in the address space is in no memory.
        let end = section.address().checked_add(bytes.len() as u64)?;
        let within = section.address()..end;
        // In a file that is not linked to a fixed address, the dynamic linker writes the addresses.
        let relocated: BTreeMap<u64, u64> = file
            .dynamic_relocations()
            .into_iter()
            .flatten()
            .filter(|(place, _)| within.contains(place))
            .map(|(place, relocation)| (place, relocation.addend().cast_unsigned()))
            .collect();
        let number = |bytes: &[u8], at: usize| {
            let field = bytes.get(at..at + size_of::<u64>())?;
            Some(u64::from_le_bytes(field.try_into().ok()?))
        };
        let all = bytes
            .chunks_exact(DESCRIPTOR)
            .zip(within.step_by(DESCRIPTOR))
            .take(MOST)
            .filter_map(|(descriptor, address)| {
                let start = match relocated.get(&(address + START as u64)) {
                    Some(start) => *start,
                    None => number(descriptor, START)?,
                };
                Some(start..start.checked_add(number(descriptor, LENGTH)?)?)
            })
            .collect();
        let segments = file
            .segments()
            .map(|segment| {
                let (offset, size) = segment.file_range();
                (offset..offset.saturating_add(size), segment.address())
            })
            .collect();
        Some(Self { segments, all })
    }

    /// Whether a sequence overlaps the bytes at an offset in the file.
    fn overlap(&self, offset: u64, length: u64) -> bool {
        let segment = self
            .segments
            .iter()
            .find(|(range, _)| range.contains(&offset));
        segment.is_some_and(|(range, address)| {
            let start = address.saturating_add(offset.saturating_sub(range.start));
            let end = start.saturating_add(length);
            self.all
                .iter()
                .any(|sequence| sequence.start < end && start < sequence.end)
        })
    }
}

/// The restartable sequences of the files of a program, each read once. A copy of the program has them, too.
#[derive(Clone, Debug, Default)]
pub(crate) struct RestartableSequences(BTreeMap<PathBuf, Rc<Sequences>>);

impl RestartableSequences {
    /// Whether bytes of code in a mapping are part of a sequence. The file is opened as the thread sees it.
    pub(crate) fn overlap(
        &mut self,
        mapping: &Mapping,
        thread: Tid,
        address: u64,
        length: u64,
    ) -> bool {
        if !mapping.path.is_absolute() {
            return false;
        }
        if !self.0.contains_key(&mapping.path) {
            let file = FileView::of(thread).path(&mapping.path);
            let read = Sequences::read(&file).unwrap_or_default();
            self.0.insert(mapping.path.clone(), Rc::new(read));
        }
        let offset = mapping.offset + (address - mapping.start);
        self.0
            .get(&mapping.path)
            .is_some_and(|sequences| sequences.overlap(offset, length))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tracewire_test_support::Cc;

    use super::Sequences;

    const PROGRAM: &str = r#"
        __attribute__ ((section ("__rseq_cs"), used, aligned (32)))
        static unsigned long descriptor[4] = { 0, 0x1010, 0x20, 0x2000 };
        int main (void) { return 0; }
    "#;

    /// Where the fields of ELF's headers are.
    const PROGRAM_HEADERS: (usize, usize, usize) = (0x20, 0x38, 56);
    const SECTION_HEADERS: (usize, usize, usize) = (0x28, 0x3c, 64);
    /// Of `p_vaddr` and of `sh_addr` in their headers.
    const ADDRESS: usize = 16;

    /// The places of the addresses in one of the two tables of headers.
    fn addresses(file: &[u8], (table, count, size): (usize, usize, usize)) -> Vec<usize> {
        let table = u64::from_le_bytes(file[table..][..8].try_into().unwrap()) as usize;
        let count = u16::from_le_bytes(file[count..][..2].try_into().unwrap());
        (0..usize::from(count))
            .map(|header| table + header * size + ADDRESS)
            .collect()
    }

    #[test]
    fn addresses_at_the_end_of_the_address_space_are_none() {
        let directory = tempfile::tempdir().unwrap();
        let built = Cc::new().option("-no-pie").text(PROGRAM);
        let path = built.build(directory.path(), "sequences");
        let read = Sequences::read(&path).unwrap();
        assert_eq!(read.all.as_slice(), std::slice::from_ref(&(0x1010..0x1030)));
        let whole = fs::read(&path).unwrap();
        for headers in [PROGRAM_HEADERS, SECTION_HEADERS] {
            for address in [u64::MAX, u64::MAX - 31, u64::MAX - 32, 1 << 63] {
                let mut damaged = whole.clone();
                for place in addresses(&whole, headers) {
                    damaged[place..][..8].copy_from_slice(&address.to_le_bytes());
                }
                fs::write(&path, damaged).unwrap();
                let read = Sequences::read(&path).unwrap_or_default();
                for offset in [0, 0x1010, u64::MAX] {
                    assert!(!read.overlap(offset, 5), "{address:#x}, {offset:#x}");
                }
            }
        }
    }
}

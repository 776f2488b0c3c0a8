//! A saved state read from an ELF core file.

use std::path::Path;

use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, elf};
use tracewire_expr::State;
use tracewire_model::{Address, RegisterNumber};

/// The index of each register of GDB's numbering from 0 to 23 in the kernel's `user_regs_struct`, and its size in bytes in GDB.
const SLOTS: [(usize, usize); 24] = [
    (10, 8), // rax
    (5, 8),  // rbx
    (11, 8), // rcx
    (12, 8), // rdx
    (13, 8), // rsi
    (14, 8), // rdi
    (4, 8),  // rbp
    (19, 8), // rsp
    (9, 8),
    (8, 8),
    (7, 8),
    (6, 8),
    (3, 8),
    (2, 8),
    (1, 8),
    (0, 8),
    (16, 8), // rip
    (18, 4), // eflags
    (17, 4), // cs
    (20, 4), // ss
    (23, 4), // ds
    (24, 4), // es
    (25, 4), // fs
    (26, 4), // gs
];

/// Registers and memory of the first thread in a core file.
pub struct Core {
    general: Vec<u8>,
    vector: Vec<u8>,
    segments: Vec<(u64, Vec<u8>)>,
    pub mapped: Vec<(u64, u64, u64, String)>,
}

impl Core {
    pub fn read(path: &Path) -> Self {
        let data = std::fs::read(path).unwrap();
        let header = elf::FileHeader64::<Endianness>::parse(&*data).unwrap();
        let endian = header.endian().unwrap();
        let mut core = Self {
            general: Vec::new(),
            vector: Vec::new(),
            segments: Vec::new(),
            mapped: Vec::new(),
        };
        for segment in header.program_headers(endian, &*data).unwrap() {
            if segment.p_type(endian) == elf::PT_LOAD {
                let bytes = segment.data(endian, &*data).unwrap_or(&[]).to_vec();
                core.segments.push((segment.p_vaddr(endian), bytes));
            }
            let Ok(Some(mut notes)) = segment.notes(endian, &*data) else {
                continue;
            };
            while let Ok(Some(note)) = notes.next() {
                let desc = note.desc();
                match note.n_type(endian) {
                    // The registers are after 112 bytes of `struct elf_prstatus`.
                    elf::NT_PRSTATUS if core.general.is_empty() => {
                        core.general = desc[112..112 + 27 * 8].to_vec()
                    }
                    elf::NT_PRFPREG if core.vector.is_empty() => core.vector = desc.to_vec(),
                    elf::NT_FILE => core.mapped = mapped(desc),
                    _ => {}
                }
            }
        }
        assert!(
            !core.general.is_empty(),
            "no registers in {}",
            path.display()
        );
        core
    }

    /// Where a file was loaded: the start of its mapping at file offset 0.
    pub fn base_of(&self, path: &Path) -> u64 {
        let wanted = path.canonicalize().unwrap();
        let wanted = wanted.to_str().unwrap();
        (self.mapped.iter())
            .find(|(_, _, offset, name)| name == wanted && *offset == 0)
            .map_or_else(|| panic!("{wanted} is not mapped"), |(start, ..)| *start)
    }
}

/// The entries of an `NT_FILE` note: start, end, offset in the file, name.
fn mapped(desc: &[u8]) -> Vec<(u64, u64, u64, String)> {
    let word =
        |index: usize| u64::from_le_bytes(desc[index * 8..index * 8 + 8].try_into().unwrap());
    let (count, page) = (word(0) as usize, word(1));
    let mut names = desc[16 + count * 24..].split(|byte| *byte == 0);
    (0..count)
        .map(|entry| {
            let at = 2 + entry * 3;
            let name = String::from_utf8_lossy(names.next().unwrap()).into_owned();
            (word(at), word(at + 1), word(at + 2) * page, name)
        })
        .collect()
}

impl State for Core {
    fn pc(&self) -> Address {
        let rip = self.register(RegisterNumber(16)).unwrap();
        Address(u64::from_le_bytes(rip.try_into().unwrap()))
    }

    fn register(&self, register: RegisterNumber) -> Option<Vec<u8>> {
        let number = usize::from(register.0);
        let slot =
            |slot: usize, size: usize| Some(self.general[slot * 8..slot * 8 + size].to_vec());
        match number {
            0..=23 => slot(SLOTS[number].0, SLOTS[number].1),
            24..=31 => Some(self.vector[32 + (number - 24) * 16..][..10].to_vec()),
            40..=55 => Some(self.vector[160 + (number - 40) * 16..][..16].to_vec()),
            58 => slot(21, 8),
            59 => slot(22, 8),
            _ => None,
        }
    }

    fn memory(&self, address: Address, bytes: &mut [u8], known: &mut [bool]) {
        for (offset, (byte, known)) in bytes.iter_mut().zip(known).enumerate() {
            let at = address.0.wrapping_add(offset as u64);
            let found = (self.segments.iter())
                .find_map(|(start, data)| data.get(usize::try_from(at.checked_sub(*start)?).ok()?));
            if let Some(found) = found {
                *byte = *found;
                *known = true;
            }
        }
    }

    fn variable(&self, _: &str) -> Option<i64> {
        None
    }

    fn unknown_memory_is_an_error(&self) -> bool {
        true
    }
}

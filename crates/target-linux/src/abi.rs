//! The two ABIs: x86-64 programs and i386 programs.

use std::fs::File;
use std::io::Read;

use tracewire_arch::{Architecture, RegisterLayout, X86Registers};

use crate::maps;
use crate::memory::ReadMemory;
use crate::ptrace::Tid;

/// The word size of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Abi {
    #[default]
    Bits64,
    Bits32,
}

/// The most bytes of a word.
const WIDEST: usize = 8;

impl Abi {
    /// The ABI of the program that a thread executes, by its file: `None` if that cannot be read, and `Some(None)` for
    /// a program of another machine.
    pub(crate) fn of_program(thread: Tid) -> Option<Option<Self>> {
        /// Class, and the machine in a little-endian file.
        const CLASS: usize = 4;
        const MACHINE: usize = 18;
        let mut header = [0; 20];
        let file = maps::program_file(thread).0;
        File::open(file).ok()?.read_exact(&mut header).ok()?;
        Some(match (header[CLASS], &header[MACHINE..]) {
            (2, [62, 0]) => Some(Self::Bits64),
            (1, [3, 0]) => Some(Self::Bits32),
            _ => None,
        })
    }

    pub(crate) const fn architecture(self) -> Architecture {
        match self {
            Self::Bits64 => Architecture::X86_64,
            Self::Bits32 => Architecture::I386,
        }
    }

    /// The bytes of a word.
    pub(crate) const fn bytes(self) -> usize {
        match self {
            Self::Bits64 => WIDEST,
            Self::Bits32 => WIDEST / 2,
        }
    }

    pub(crate) fn layout(self, registers: X86Registers) -> &'static RegisterLayout {
        match self {
            Self::Bits64 => registers.layout_64(),
            Self::Bits32 => registers.layout_32(),
        }
    }

    /// Reads `N` consecutive words, zero-extended.
    pub(crate) fn read<const N: usize>(
        self,
        memory: &impl ReadMemory,
        address: u64,
    ) -> Option<[u64; N]> {
        let mut bytes = [[0; WIDEST]; N];
        let bytes = bytes
            .as_flattened_mut()
            .get_mut(..N.checked_mul(self.bytes())?)?;
        if memory.read(address, bytes) < bytes.len() {
            return None;
        }
        let mut words = [0; N];
        for (word, bytes) in words.iter_mut().zip(bytes.chunks(self.bytes())) {
            *word = bytes
                .iter()
                .rev()
                .fold(0, |word, byte| word << 8 | u64::from(*byte));
        }
        Some(words)
    }

    /// The word at this index of consecutive ones.
    pub(crate) fn read_at(self, memory: &impl ReadMemory, address: u64, place: u64) -> Option<u64> {
        let address = address.wrapping_add(place.wrapping_mul(self.bytes() as u64));
        self.read::<1>(memory, address).map(|[word]| word)
    }
}

//! One file of the program: its ELF image and its debug information.

use std::path::PathBuf;

use tracewire_tracefile::{Address, Architecture};

/// A module in a [`crate::Symbols`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ModuleId(pub(crate) u32);

/// A part of a module that is loaded into memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// Where it is in memory, bias added.
    pub address: Address,
    /// Its size in memory, in bytes.
    pub size: u64,
    /// Where its bytes are in the file.
    pub file_offset: u64,
    /// How many bytes the file has; the rest is zero.
    pub file_size: u64,
    /// Whether the program may write there.
    pub writable: bool,
    /// Whether it holds code.
    pub executable: bool,
}

/// What is known of a module.
#[derive(Clone, Debug)]
pub struct ModuleInfo {
    /// Which module.
    pub id: ModuleId,
    /// The file it was read from.
    pub path: PathBuf,
    /// What is added to the addresses of the file: 0 for a program linked to a fixed address.
    pub bias: u64,
    /// The first address and one past the last, bias added.
    pub range: (Address, Address),
    /// The parts that are loaded, by address.
    pub segments: Vec<Segment>,
    /// The build id, if the file has one.
    pub build_id: Option<Vec<u8>>,
    /// The machine.
    pub architecture: Architecture,
    /// The entry point, bias added.
    pub entry: Address,
    /// Whether the file may be loaded anywhere (a library or a position-independent program).
    pub relocatable: bool,
    /// The program interpreter (`PT_INTERP`), which a dynamically linked program has.
    pub interpreter: Option<PathBuf>,
    /// The file that the debug information came from, if it is not the module itself.
    pub debug_file: Option<PathBuf>,
    /// Whether there is DWARF debug information.
    pub has_debug_information: bool,
}

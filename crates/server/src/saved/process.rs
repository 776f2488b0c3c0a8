//! The traced process, as GDB reads it: auxiliary vector, shared libraries.

use std::fmt::Write;

use tracewire_model::ByteOrder;

use super::image::Image;
use crate::answers::escaped;

/// The entries of the auxiliary vector with which GDB finds the program's load address.
pub(super) fn auxiliary_vector(program: &Image) -> Vec<u8> {
    const PHDR: u64 = 3;
    const PHENT: u64 = 4;
    const PHNUM: u64 = 5;
    const PAGESZ: u64 = 6;
    const ENTRY: u64 = 9;
    const NULL: u64 = 0;

    let mut entries = Vec::new();
    if let Some((address, size, count)) = program.headers {
        entries.extend([
            (PHDR, address.wrapping_add(program.bias)),
            (PHENT, size),
            (PHNUM, count),
        ]);
    }
    entries.extend([
        (PAGESZ, 4096),
        (ENTRY, program.entry.wrapping_add(program.bias)),
        (NULL, 0),
    ]);
    let mut bytes = Vec::new();
    for value in entries.into_iter().flat_map(|(kind, value)| [kind, value]) {
        match (program.wide, program.byte_order) {
            (true, ByteOrder::Little) => bytes.extend(value.to_le_bytes()),
            (true, ByteOrder::Big) => bytes.extend(value.to_be_bytes()),
            (false, ByteOrder::Little) => bytes.extend((value as u32).to_le_bytes()),
            (false, ByteOrder::Big) => bytes.extend((value as u32).to_be_bytes()),
        }
    }
    bytes
}

/// The list of shared libraries, `libraries-svr4`. GDB identifies a library by the address of its link map, which is
/// not in a trace; any distinct numbers will do.
pub(super) fn libraries<'a>(libraries: impl Iterator<Item = &'a Image>) -> String {
    let mut text = String::from("<library-list-svr4 version=\"1.0\">");
    for (place, image) in libraries.enumerate() {
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "<library name=\"{}\" lm=\"{:#x}\" l_addr=\"{:#x}\" l_ld=\"{:#x}\"/>",
            escaped(&image.path.to_string_lossy()),
            (place as u64 + 1) * 0x10,
            image.bias,
            image.dynamic.unwrap_or(0).wrapping_add(image.bias),
        );
    }
    text.push_str("</library-list-svr4>");
    text
}

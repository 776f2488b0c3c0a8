//! Memory: read, write, compare, search, flash, tags.

use tracewire_model::Address;

use crate::field::{Binary, CountedBinary, CountedHex, HexBytes};
use crate::packets::packets;

packets! {
    /// Requests about memory.
    pub enum MemoryRequest {
        /// `m`: read. The reply may have fewer bytes than requested, from the start of the range; GDB then requests the rest. While
        /// a trace frame is selected, the memory is that of the frame.
        Read {
            /// The first byte's address.
            address: Address,
            /// How many bytes.
            length: u64,
        } = ["m" address "," length] => "read {length} bytes of memory at {address}"

        /// `x`: read, answered in binary (GDB 16, which asks only when `binary-upload+` was announced).
        ReadBinary {
            /// The first byte's address.
            address: Address,
            /// How many bytes.
            length: u64,
        } = ["x" address "," length] => "read {length} bytes of memory at {address}, in binary"

        /// `X`: write, binary. GDB first writes no bytes, to see whether the packet is supported.
        WriteBinary {
            /// The first byte's address.
            address: Address,
            /// The bytes to write.
            data: CountedBinary,
        } = ["X" address "," data] => { match data.0.len() {
            0 => "ask whether binary writes are supported".to_owned(),
            length => format!("write {length} bytes of memory at {address}"),
        } }

        /// `M`: write, hexadecimal.
        Write {
            /// The first byte's address.
            address: Address,
            /// The bytes to write.
            data: CountedHex,
        } = ["M" address "," data] => { format!("write {} bytes of memory at {address}", data.0.len()) }

        /// `qCRC`: the checksum of a range (`compare-sections`).
        Checksum {
            /// The first byte's address.
            address: Address,
            /// How many bytes.
            length: u64,
        } = ["qCRC:" address "," length] => "compute the checksum of {length} bytes at {address}"

        /// `qSearch:memory`: find bytes (`find`).
        Search {
            /// Where to start.
            address: Address,
            /// How many bytes to look through.
            length: u64,
            /// The bytes to find.
            pattern: Binary,
        } = ["qSearch:memory:" address ";" length ";" pattern]
            => "search {length} bytes at {address} for {pattern}"

        /// `qMemTags`: read the tags of a range.
        FetchTags {
            /// The first byte's address.
            address: Address,
            /// How many bytes.
            length: u64,
            /// Which kind of tag; a signed number in the manual, which GDB 13 writes in 32 bits.
            kind: u32,
        } = ["qMemTags:" address "," length ":" kind] => "read the memory tags of {length} bytes at {address}"

        /// `QMemTags`: write the tags of a range.
        StoreTags {
            /// The first byte's address.
            address: Address,
            /// How many bytes.
            length: u64,
            /// Which kind of tag.
            kind: u32,
            /// The tags, which are repeated to fill the range.
            tags: HexBytes,
        } = ["QMemTags:" address "," length ":" kind ":" tags]
            => "write the memory tags of {length} bytes at {address}"

        /// `vFlashErase`: erase flash memory, whole blocks.
        FlashErase {
            /// The first byte's address.
            address: Address,
            /// How many bytes.
            length: u64,
        } = ["vFlashErase:" address "," length] => "erase {length} bytes of flash memory at {address}"

        /// `vFlashWrite`: write erased flash memory.
        FlashWrite {
            /// The first byte's address.
            address: Address,
            /// The bytes to write.
            data: Binary,
        } = ["vFlashWrite:" address ":" data] => { format!("write {} bytes of flash memory at {address}", data.0.len()) }

        /// `vFlashDone`: all flash writes are sent.
        FlashDone = ["vFlashDone"] => "finish writing flash memory"
    }
}

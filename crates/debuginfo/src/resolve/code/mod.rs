//! The first instructions of functions.

pub(crate) mod i386;
pub(crate) mod x86_64;

use crate::module::Image;

/// The code of a file, by link-time address.
#[derive(Clone, Copy)]
pub(crate) struct Code<'a> {
    image: &'a Image,
}

impl<'a> Code<'a> {
    pub(crate) const fn new(image: &'a Image) -> Self {
        Self { image }
    }

    pub(crate) fn byte(self, address: u64) -> Option<u8> {
        self.image.bytes_at(address, 1, false)?.first().copied()
    }

    /// Whether the bytes are at the address.
    pub(crate) fn has(self, address: u64, bytes: &[u8]) -> bool {
        self.image.bytes_at(address, bytes.len(), false) == Some(bytes)
    }

    pub(crate) fn bytes<const N: usize>(self, address: u64) -> Option<[u8; N]> {
        self.image.bytes_at(address, N, false)?.try_into().ok()
    }
}

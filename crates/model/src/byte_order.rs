//! The order of a number's bytes.

use std::fmt;

/// The order in which the target keeps the bytes of a number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ByteOrder {
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
}

impl fmt::Display for ByteOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Little => "little",
            Self::Big => "big",
        })
    }
}

impl ByteOrder {
    /// The other one.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Little => Self::Big,
            Self::Big => Self::Little,
        }
    }

    /// The unsigned number that at most 8 bytes stand for; none for more bytes than that.
    #[must_use]
    pub fn unsigned(self, bytes: &[u8]) -> Option<u64> {
        let mut whole = [0; 8];
        match self {
            Self::Little => {
                whole.get_mut(..bytes.len())?.copy_from_slice(bytes);
                Some(u64::from_le_bytes(whole))
            }
            Self::Big => {
                whole
                    .get_mut(8usize.checked_sub(bytes.len())?..)?
                    .copy_from_slice(bytes);
                Some(u64::from_be_bytes(whole))
            }
        }
    }

    /// The number of 16 bits at an offset; none where the bytes end before it does.
    #[must_use]
    pub fn u16_at(self, bytes: &[u8], offset: usize) -> Option<u16> {
        let (field, _) = bytes.get(offset..)?.split_first_chunk()?;
        Some(match self {
            Self::Little => u16::from_le_bytes(*field),
            Self::Big => u16::from_be_bytes(*field),
        })
    }

    /// The number of 32 bits at an offset; none where the bytes end before it does.
    #[must_use]
    pub fn u32_at(self, bytes: &[u8], offset: usize) -> Option<u32> {
        let (field, _) = bytes.get(offset..)?.split_first_chunk()?;
        Some(match self {
            Self::Little => u32::from_le_bytes(*field),
            Self::Big => u32::from_be_bytes(*field),
        })
    }

    /// The number of 64 bits at an offset; none where the bytes end before it does.
    #[must_use]
    pub fn u64_at(self, bytes: &[u8], offset: usize) -> Option<u64> {
        let (field, _) = bytes.get(offset..)?.split_first_chunk()?;
        Some(match self {
            Self::Little => u64::from_le_bytes(*field),
            Self::Big => u64::from_be_bytes(*field),
        })
    }

    /// The bytes of a number of 16 bits in this order.
    #[must_use]
    pub const fn u16_bytes(self, value: u16) -> [u8; 2] {
        match self {
            Self::Little => value.to_le_bytes(),
            Self::Big => value.to_be_bytes(),
        }
    }

    /// The bytes of a number of 32 bits in this order.
    #[must_use]
    pub const fn u32_bytes(self, value: u32) -> [u8; 4] {
        match self {
            Self::Little => value.to_le_bytes(),
            Self::Big => value.to_be_bytes(),
        }
    }

    /// The bytes of a number of 64 bits in this order.
    #[must_use]
    pub const fn u64_bytes(self, value: u64) -> [u8; 8] {
        match self {
            Self::Little => value.to_le_bytes(),
            Self::Big => value.to_be_bytes(),
        }
    }
}

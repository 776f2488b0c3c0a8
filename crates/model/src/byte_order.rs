//! The order of a number's bytes.

use std::fmt;

/// The target's byte order of numbers.
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

    /// The unsigned number in at most 8 bytes; `None` for more.
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
}

macro_rules! numbers {
    ($($type:ident $at:ident $to_bytes:ident;)*) => {
        impl ByteOrder {
            $(
                #[doc = concat!("The [`", stringify!($type), "`] at an offset; none where the bytes end before it does.")]
                #[must_use]
                pub fn $at(self, bytes: &[u8], offset: usize) -> Option<$type> {
                    let (field, _) = bytes.get(offset..)?.split_first_chunk()?;
                    Some(match self {
                        Self::Little => $type::from_le_bytes(*field),
                        Self::Big => $type::from_be_bytes(*field),
                    })
                }

                #[doc = concat!("The bytes of a [`", stringify!($type), "`] in this order.")]
                #[must_use]
                pub const fn $to_bytes(self, value: $type) -> [u8; size_of::<$type>()] {
                    match self {
                        Self::Little => value.to_le_bytes(),
                        Self::Big => value.to_be_bytes(),
                    }
                }
            )*
        }
    };
}

numbers! {
    u16 u16_at u16_bytes;
    u32 u32_at u32_bytes;
    u64 u64_at u64_bytes;
}

//! Registers. Their numbers, sizes and order in `g` are the target description's; their bytes are in target order.

use tracewire_model::RegisterNumber;

use crate::field::HexBytes;
use crate::packets::packets;
use tracewire_model::hex;
use tracewire_model::text::{Expected, Scanner};

packets! {
    /// Requests about the selected thread's registers (`Hg`), or those of the selected trace frame.
    pub enum RegisterRequest {
        /// `g`: read all.
        ReadAll = ["g"] => "read all registers"

        /// `G`: write all.
        WriteAll {
            /// The bytes of all registers, in the order of `g`.
            bytes: HexBytes,
        } = ["G" bytes] => "write all registers"

        /// `p`: read one. GDB first requests one to see whether the packet is supported.
        Read {
            /// Which.
            register: RegisterNumber,
        } = ["p" register] => "read register {register}"

        /// `P`: write one.
        Write {
            /// Which.
            register: RegisterNumber,
            /// Its bytes.
            bytes: HexBytes,
        } = ["P" register "=" bytes] => "write register {register}"
    }
}

/// Bytes of registers, some of which may be unavailable: `xx` on the wire. In a trace frame these were not collected.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RegisterBytes(pub Vec<Option<u8>>);

impl RegisterBytes {
    /// Bytes that are all known.
    #[must_use]
    pub fn known(bytes: &[u8]) -> Self {
        Self(bytes.iter().copied().map(Some).collect())
    }

    /// The bytes, when all are known.
    #[must_use]
    pub fn all(&self) -> Option<Vec<u8>> {
        self.0.iter().copied().collect()
    }

    pub(crate) fn scan(scanner: &mut Scanner<'_>) -> Result<Self, Expected> {
        let start = *scanner;
        let text = scanner.until(|byte| hex::digit(byte) > 15 && byte != b'x');
        let wrong = || start.expected("bytes of two hexadecimal digits, or `xx`, each");
        let (pairs, []) = text.as_chunks::<2>() else {
            return Err(wrong());
        };
        pairs
            .iter()
            .map(|[high, low]| match (hex::digit(*high), hex::digit(*low)) {
                (high @ 0..16, low @ 0..16) => Some(Some(high << 4 | low)),
                _ => (*high == b'x' && *low == b'x').then_some(None),
            })
            .collect::<Option<_>>()
            .map(Self)
            .ok_or_else(wrong)
    }

    pub(crate) fn print(&self, out: &mut Vec<u8>) {
        for byte in &self.0 {
            match byte {
                Some(byte) => hex::encode(&[*byte], out),
                None => out.extend_from_slice(b"xx"),
            }
        }
    }
}

//! Looking through memory for the client: a checksum, a pattern.

use tracewire_model::Address;
use tracewire_packets::{Failure, Reply};

/// How many bytes are read at a time.
const PIECE: u64 = 1 << 16;
/// The most memory that is searched, in bytes: the program is stopped meanwhile.
const MOST: u64 = 16 << 30;

/// The checksum for `compare-sections`: CRC-32 with the polynomial 0x04c11db7, the most significant bit first,
/// initialized with all ones and not inverted at the end.
pub(super) fn checksum(
    address: Address,
    length: u64,
    read: &mut dyn FnMut(Address, usize) -> Vec<u8>,
) -> Reply {
    let table = table();
    let mut sum = u32::MAX;
    let mut done = 0;
    if length > MOST {
        return Reply::Error(Failure::text("that is more memory than is looked through"));
    }
    while done < length {
        let wanted = (length - done).min(PIECE);
        let bytes = read(Address(address.0.wrapping_add(done)), wanted as usize);
        if (bytes.len() as u64) < wanted {
            return Reply::Error(Failure::Number(1));
        }
        for byte in &bytes {
            let index = (sum >> 24) as u8 ^ byte;
            let entry = table.get(usize::from(index)).copied().unwrap_or(0);
            sum = sum << 8 ^ entry;
        }
        done += wanted;
    }
    Reply::Checksum(sum)
}

fn table() -> [u32; 256] {
    const POLYNOMIAL: u32 = 0x04c1_1db7;
    let mut table = [0; 256];
    for (index, entry) in (0..256_u32).zip(&mut table) {
        let mut value = index << 24;
        for _ in 0..8 {
            let out = value & 0x8000_0000 != 0;
            value <<= 1;
            if out {
                value ^= POLYNOMIAL;
            }
        }
        *entry = value;
    }
    table
}

/// The first place of a pattern in a range.
pub(super) fn search(
    address: Address,
    length: u64,
    pattern: &[u8],
    read: &mut dyn FnMut(Address, usize) -> Vec<u8>,
) -> Reply {
    if length > MOST {
        return Reply::Error(Failure::text("that is more memory than is looked through"));
    }
    let needed = pattern.len() as u64;
    if needed == 0 || needed > length {
        return Reply::Found(None);
    }
    // Pieces overlap, so that a match across the end of one is found.
    let mut start = 0;
    while start + needed <= length {
        let wanted = (length - start).min(PIECE + needed - 1);
        let bytes = read(Address(address.0.wrapping_add(start)), wanted as usize);
        if let Some(found) = bytes
            .windows(pattern.len())
            .position(|window| window == pattern)
        {
            let place = address.0.wrapping_add(start).wrapping_add(found as u64);
            return Reply::Found(Some(Address(place)));
        }
        if (bytes.len() as u64) < wanted {
            return Reply::Error(Failure::text("the memory cannot be read to its end"));
        }
        start += PIECE;
    }
    Reply::Found(None)
}

#[cfg(test)]
mod tests {
    use super::{PIECE, checksum, search};
    use tracewire_model::Address;
    use tracewire_packets::Reply;

    fn memory(bytes: Vec<u8>) -> impl FnMut(Address, usize) -> Vec<u8> {
        move |address, length| {
            let start = (address.0 as usize).min(bytes.len());
            let end = (start + length).min(bytes.len());
            bytes[start..end].to_vec()
        }
    }

    #[test]
    fn the_checksum_is_the_one_of_the_manual() {
        // CRC-32/MPEG-2, whose check value is well known.
        let reply = checksum(Address(0), 9, &mut memory(b"123456789".to_vec()));
        assert_eq!(reply, Reply::Checksum(0x0376_e6e7));
        let reply = checksum(Address(0), 10, &mut memory(b"123456789".to_vec()));
        assert!(matches!(reply, Reply::Error(_)));
    }

    #[test]
    fn a_pattern_is_found_across_pieces_and_not_behind_the_end() {
        let mut bytes = vec![0; PIECE as usize * 2];
        let place = PIECE as usize - 2;
        bytes[place..place + 5].copy_from_slice(b"abcde");
        let length = bytes.len() as u64;
        let mut read = memory(bytes);
        let found = search(Address(0), length, b"abcde", &mut read);
        assert_eq!(found, Reply::Found(Some(Address(place as u64))));
        let found = search(Address(0), place as u64 + 4, b"abcde", &mut read);
        assert_eq!(found, Reply::Found(None));
        let found = search(Address(0), length + 1, b"xyz", &mut read);
        assert!(matches!(found, Reply::Error(_)));
        assert_eq!(
            search(Address(0), length, b"", &mut read),
            Reply::Found(None)
        );
    }
}

//! Numbers of variable length in bytes, and the careful reading of them.

/// What was read is not what this program wrote.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("damaged")]
pub(crate) struct Damaged;

/// Appends a number, seven bits a byte, the least significant first.
#[inline]
pub(crate) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a number that may be negative, the sign in the lowest bit.
#[inline]
pub(crate) fn put_signed(out: &mut Vec<u8>, value: i64) {
    put(out, zigzag(value));
}

/// How many bytes [`put`] needs.
#[inline]
pub(crate) const fn length(value: u64) -> usize {
    (70 - (value | 1).leading_zeros() as usize) / 7
}

#[inline]
pub(crate) const fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

#[inline]
pub(crate) const fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Takes numbers from the front of bytes.
#[derive(Clone, Debug)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) const fn rest(&self) -> &'a [u8] {
        self.0
    }

    #[inline]
    pub(crate) fn byte(&mut self) -> Result<u8, Damaged> {
        let (first, rest) = self.0.split_first().ok_or(Damaged)?;
        self.0 = rest;
        Ok(*first)
    }

    #[inline]
    pub(crate) fn number(&mut self) -> Result<u64, Damaged> {
        let first = self.byte()?;
        if first < 0x80 {
            return Ok(u64::from(first));
        }
        self.long(first)
    }

    fn long(&mut self, first: u8) -> Result<u64, Damaged> {
        let mut value = u64::from(first & 0x7f);
        let mut shift = 7;
        loop {
            let byte = self.byte()?;
            if shift == 63 && byte > 1 {
                return Err(Damaged);
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
            shift += 7;
        }
    }

    /// Passes over some numbers.
    pub(crate) fn skip(&mut self, mut count: usize) -> Result<(), Damaged> {
        // Eight bytes at once: a number ends where the highest bit is not set.
        while count >= 8 {
            let Some((word, rest)) = self.0.split_first_chunk::<8>() else {
                break;
            };
            let ends = !u64::from_le_bytes(*word) & 0x8080_8080_8080_8080;
            count -= ends.count_ones() as usize;
            self.0 = rest;
        }
        while count > 0 {
            count -= usize::from(self.byte()? < 0x80);
        }
        Ok(())
    }

    #[inline]
    pub(crate) fn signed(&mut self) -> Result<i64, Damaged> {
        self.number().map(unzigzag)
    }

    /// A number that has to fit, such as an index or a count.
    #[inline]
    pub(crate) fn small<T: TryFrom<u64>>(&mut self) -> Result<T, Damaged> {
        T::try_from(self.number()?).map_err(|_| Damaged)
    }

    /// A count of things of at least one byte each, so that it cannot be more than the bytes left.
    pub(crate) fn count(&mut self) -> Result<usize, Damaged> {
        let count: usize = self.small()?;
        if count > self.0.len() {
            return Err(Damaged);
        }
        Ok(count)
    }

    #[inline]
    pub(crate) fn take(&mut self, length: usize) -> Result<&'a [u8], Damaged> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Damaged)?;
        self.0 = rest;
        Ok(taken)
    }

    /// Bytes after their length.
    pub(crate) fn slice(&mut self) -> Result<&'a [u8], Damaged> {
        let length = self.small()?;
        self.take(length)
    }

    /// The number in the next `width` bytes, at most 8, the least significant first.
    #[inline]
    pub(crate) fn fixed(&mut self, width: usize) -> Result<u64, Damaged> {
        let mut whole = [0; 8];
        let bytes = self.take(width)?;
        whole
            .get_mut(..width)
            .ok_or(Damaged)?
            .copy_from_slice(bytes);
        Ok(u64::from_le_bytes(whole))
    }
}

/// Appends bytes after their length.
pub(crate) fn put_slice(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_come_back(numbers in proptest::collection::vec((any::<u64>(), 0..64u32), 0..50)) {
            let mut out = Vec::new();
            let numbers: Vec<u64> = numbers.iter().map(|(number, shift)| number >> shift).collect();
            for number in &numbers {
                let before = out.len();
                put(&mut out, *number);
                prop_assert_eq!(out.len() - before, length(*number));
                put_signed(&mut out, *number as i64);
            }
            let mut reader = Reader::new(&out);
            for number in &numbers {
                prop_assert_eq!(reader.number(), Ok(*number));
                prop_assert_eq!(reader.signed(), Ok(*number as i64));
            }
            prop_assert!(reader.is_empty());
            prop_assert_eq!(reader.number(), Err(Damaged));
        }
    }

    #[test]
    fn what_does_not_fit_is_damaged() {
        assert_eq!(Reader::new(&[0xff; 10]).number(), Err(Damaged));
        assert_eq!(Reader::new(&[0xff, 0xff]).number(), Err(Damaged));
        assert_eq!(Reader::new(&[5, 0]).count(), Err(Damaged));
    }
}

//! Reading and writing the program's memory.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;

use tracewire_experiment::MemoryRead;

use crate::ptrace::Tid;

/// The most pieces that the kernel takes in one call.
const MAX_PIECES: usize = 1024;

/// The memory of a process. Bytes that we have put there do not show.
#[derive(Debug)]
pub(crate) struct Memory {
    /// `/proc/TID/mem`, which reads and writes regardless of protection.
    file: File,
    /// The bytes that stood where ours stand now, by their address.
    displaced: BTreeMap<u64, u8>,
    local: Vec<libc::iovec>,
    remote: Vec<libc::iovec>,
}

impl Memory {
    /// Opens the memory of the process that a thread belongs to. It stays that of the program which runs now:
    /// after an exec it must be opened anew.
    pub(crate) fn open(thread: Tid) -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(format!("/proc/{thread}/mem"))?;
        Ok(Self {
            file,
            displaced: BTreeMap::new(),
            local: Vec::new(),
            remote: Vec::new(),
        })
    }

    /// Reads all the pieces in as few calls as can be, through a thread that has not ended.
    ///
    /// A `word` of 4 bytes can be fetched by the same call; it is left alone where it cannot be read.
    pub(crate) fn read_pieces(
        &mut self,
        thread: Tid,
        pieces: &mut [MemoryRead],
        word: Option<(u64, &mut u32)>,
    ) {
        let mut number = 0_u32;
        let mut next = 0;
        let mut wanted = word;
        while next < pieces.len() || wanted.is_some() {
            self.local.clear();
            self.remote.clear();
            if let Some((address, _)) = &wanted {
                self.local.push(vector((&raw mut number) as u64, 4));
                self.remote.push(vector(*address, 4));
            }
            let start = next;
            let room = MAX_PIECES - self.local.len();
            for piece in pieces.iter_mut().skip(start).take(room) {
                self.local
                    .push(vector(piece.bytes.as_mut_ptr() as u64, piece.bytes.len()));
                self.remote.push(vector(piece.address.0, piece.bytes.len()));
            }
            let mut got = self.read_vectors(thread);
            if let Some((_, value)) = wanted.take() {
                if got < 4 {
                    // Not there: once more without it.
                    if next < pieces.len() {
                        continue;
                    }
                    break;
                }
                *value = number;
                got -= 4;
            }
            for piece in pieces.iter_mut().skip(start).take(room) {
                next += 1;
                piece.filled = got.min(piece.bytes.len());
                got -= piece.filled;
                if piece.filled < piece.bytes.len() {
                    let filled = piece.filled;
                    let rest = piece.bytes.get_mut(filled..).unwrap_or_default();
                    piece.filled +=
                        self.read_forced(piece.address.0.wrapping_add(filled as u64), rest);
                    break;
                }
            }
        }
        for piece in pieces {
            self.hide(piece.address.0, &mut piece.bytes);
        }
    }

    /// Reads as many of the bytes as there are, and tells how many.
    pub(crate) fn read(&self, address: u64, bytes: &mut [u8]) -> usize {
        let filled = self.read_forced(address, bytes);
        self.hide(address, bytes);
        filled
    }

    /// Reads exactly `N` bytes.
    pub(crate) fn read_array<const N: usize>(&self, address: u64) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        (self.read(address, &mut bytes) == N).then_some(bytes)
    }

    /// Reads a number of 64 bits.
    pub(crate) fn read_u64(&self, address: u64) -> Option<u64> {
        self.read_array(address).map(u64::from_le_bytes)
    }

    /// Reads a string up to its zero byte, or up to `limit` bytes.
    pub(crate) fn read_string(&self, address: u64, limit: usize) -> Vec<u8> {
        let mut string = Vec::new();
        let mut buffer = [0; 256];
        while string.len() < limit {
            let filled = self.read(address.wrapping_add(string.len() as u64), &mut buffer);
            let part = buffer.get(..filled).unwrap_or_default();
            if let Some(end) = part.iter().position(|byte| *byte == 0) {
                string.extend(part.iter().take(end));
                break;
            }
            string.extend_from_slice(part);
            if filled < buffer.len() {
                break;
            }
        }
        string.truncate(limit);
        string
    }

    /// Writes bytes, even where the program itself may not.
    pub(crate) fn write(&self, address: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, address)
    }

    /// Puts a byte of ours over one of the program's, which readers go on to see.
    pub(crate) fn cover(&mut self, address: u64, byte: u8) -> io::Result<u8> {
        let [original] = self
            .read_array::<1>(address)
            .ok_or_else(|| io::Error::from_raw_os_error(libc::EIO))?;
        self.write(address, &[byte])?;
        self.displaced.insert(address, original);
        Ok(original)
    }

    /// Gives a covered byte back.
    pub(crate) fn uncover(&mut self, address: u64) -> io::Result<()> {
        if let Some(original) = self.displaced.get(&address) {
            self.write(address, &[*original])?;
            self.displaced.remove(&address);
        }
        Ok(())
    }

    /// Forgets that a byte was covered, where its memory is gone.
    pub(crate) fn forget(&mut self, address: u64) {
        self.displaced.remove(&address);
    }

    /// Puts the original bytes shown here over their places in another process, a copy of this one.
    pub(crate) fn uncover_copy(&self, copy: Tid) -> io::Result<()> {
        if self.displaced.is_empty() {
            return Ok(());
        }
        let file = OpenOptions::new()
            .write(true)
            .open(format!("/proc/{copy}/mem"))?;
        for (address, original) in &self.displaced {
            file.write_all_at(&[*original], *address)?;
        }
        Ok(())
    }

    /// One `process_vm_readv` of all the vectors; how many bytes from the start are good.
    fn read_vectors(&self, thread: Tid) -> usize {
        // SAFETY: each local vector is a live, exclusively borrowed buffer of its length; the kernel checks
        // the remote ones.
        let got = unsafe {
            libc::process_vm_readv(
                thread,
                self.local.as_ptr(),
                self.local.len() as libc::c_ulong,
                self.remote.as_ptr(),
                self.remote.len() as libc::c_ulong,
                0,
            )
        };
        usize::try_from(got).unwrap_or(0)
    }

    /// Reads through `/proc`, which also reads what the program itself may not.
    fn read_forced(&self, address: u64, bytes: &mut [u8]) -> usize {
        let mut filled = 0;
        while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match self.file.read_at(rest, address.wrapping_add(filled as u64)) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        filled
    }

    /// Replaces bytes of ours by what they displaced.
    fn hide(&self, address: u64, bytes: &mut [u8]) {
        let Some(last) = (bytes.len() as u64).checked_sub(1) else {
            return;
        };
        for (place, original) in self.displaced.range(address..=address.saturating_add(last)) {
            if let Some(byte) = bytes.get_mut((place - address) as usize) {
                *byte = *original;
            }
        }
    }
}

fn vector(address: u64, length: usize) -> libc::iovec {
    libc::iovec {
        iov_base: address as *mut libc::c_void,
        iov_len: length,
    }
}

//! The kernel's description of a signal in the program's own form: a 32-bit program has another one.

use std::mem::MaybeUninit;

use libc::siginfo_t;

use crate::abi::Abi;
use crate::ptrace::{ALL_BUT_FAULTS, bit};
use crate::thread::{Pending, Thread};

/// The size of the structure, in either form.
const SIZE: usize = size_of::<siginfo_t>();

/// Fields after `si_signo`, `si_errno` and `si_code`: offset and size in the 64-bit form, then in the 32-bit one.
type Fields = &'static [(usize, usize, usize, usize)];

/// Sender, user, and a value: `kill`, `sigqueue`, timers.
const SENT: Fields = &[(16, 4, 12, 4), (20, 4, 16, 4), (24, 8, 20, 4)];
/// Child, user, status, times.
const CHILD: Fields = &[
    (16, 4, 12, 4),
    (20, 4, 16, 4),
    (24, 4, 20, 4),
    (32, 8, 24, 4),
    (40, 8, 28, 4),
];
/// The address of a fault, and what follows it.
const FAULT: Fields = &[
    (16, 8, 12, 4),
    (24, 2, 16, 2),
    (32, 8, 20, 4),
    (40, 8, 24, 4),
];
/// Band and file.
const POLL: Fields = &[(16, 8, 12, 4), (24, 4, 16, 4)];
/// A forbidden system call: its address, its number, its architecture.
const CALL: Fields = &[(16, 8, 12, 4), (24, 4, 16, 4), (28, 4, 20, 4)];

fn fields(signal: i32, code: i32) -> Fields {
    if code <= 0 {
        return SENT;
    }
    match signal {
        libc::SIGCHLD => CHILD,
        libc::SIGILL | libc::SIGFPE | libc::SIGSEGV | libc::SIGBUS | libc::SIGTRAP => FAULT,
        libc::SIGIO => POLL,
        libc::SIGSYS => CALL,
        _ => SENT,
    }
}

/// Copies the head, then the fields from one form to the other.
fn convert(from: &[u8; SIZE], to: &mut [u8; SIZE], narrow: bool) {
    const HEAD: usize = 12;
    let number = |at: usize| {
        from.get(at..at + 4)
            .and_then(|bytes| bytes.try_into().ok())
            .map_or(0, i32::from_le_bytes)
    };
    for (target, byte) in to.iter_mut().zip(from.iter().take(HEAD)) {
        *target = *byte;
    }
    for (wide, wide_size, slim, slim_size) in fields(number(0), number(8)) {
        let (source, target) = if narrow {
            ((*wide, *wide_size), (*slim, *slim_size))
        } else {
            ((*slim, *slim_size), (*wide, *wide_size))
        };
        let bytes = from.get(source.0..source.0 + source.1).unwrap_or_default();
        let room = to
            .get_mut(target.0..target.0 + target.1)
            .unwrap_or_default();
        for (target, byte) in room.iter_mut().zip(bytes) {
            *target = *byte;
        }
    }
}

fn bytes_of(info: &siginfo_t) -> [u8; SIZE] {
    // SAFETY: the structure is plain data of this size, all of it set.
    unsafe { std::ptr::from_ref(info).cast::<[u8; SIZE]>().read() }
}

fn info_of(bytes: &[u8; SIZE]) -> siginfo_t {
    let mut info = MaybeUninit::<siginfo_t>::uninit();
    // SAFETY: the structure is plain data of this size, for which any bytes are valid.
    unsafe {
        info.as_mut_ptr().cast::<[u8; SIZE]>().write(*bytes);
        info.assume_init()
    }
}

impl Thread {
    /// The kernel's description of the signal that it has stopped for, in the program's own form, 128 bytes.
    pub(crate) fn signal_info(&self, abi: Abi) -> Option<[u8; SIZE]> {
        let info = bytes_of(&self.pending_info()?);
        Some(match abi {
            Abi::Bits64 => info,
            Abi::Bits32 => {
                let mut narrow = [0; SIZE];
                convert(&info, &mut narrow, true);
                narrow
            }
        })
    }

    /// Changes it, from an offset on. `None` where there is no signal, or the bytes do not fit.
    pub(crate) fn set_signal_info(&mut self, abi: Abi, offset: usize, bytes: &[u8]) -> Option<()> {
        let before = bytes_of(&self.pending_info()?);
        let mut info = self.signal_info(abi)?;
        info.get_mut(offset..offset.checked_add(bytes.len())?)?
            .copy_from_slice(bytes);
        let info = match abi {
            Abi::Bits64 => info,
            Abi::Bits32 => {
                let mut wide = before;
                convert(&info, &mut wide, false);
                wide
            }
        };
        let info = info_of(&info);
        self.stopped()?.set_signal_info(&info).ok()?;
        if let Some(Pending::Signal(pending)) = &mut self.pending {
            *pending = info;
        }
        Some(())
    }

    fn pending_info(&self) -> Option<siginfo_t> {
        match &self.pending {
            Some(Pending::Signal(info)) => Some(*info),
            _ => self.stopped()?.signal_info().ok(),
        }
    }
}

/// The trap flag.
pub(crate) const TRAP_FLAG: u64 = 0x100;

/// Whether an instruction has caused the signal.
pub(crate) fn is_fault(info: &siginfo_t) -> bool {
    info.si_code > 0 && bit(info.si_signo) & ALL_BUT_FAULTS == 0
}

/// Some signals name the instruction that caused them.
pub(crate) fn name_site(info: &mut siginfo_t, in_slot: u64, site: u64) {
    // SAFETY: a fault's siginfo holds an address; it is plain data in any case.
    let address = unsafe { info.si_addr() } as u64;
    if address == in_slot {
        /// The offset of the address in the kernel's siginfo.
        const ADDRESS: usize = 16;
        let base = std::ptr::from_mut(info).cast::<u8>();
        // SAFETY: the structure has 128 bytes, and at this offset it holds the 8 bytes of the address.
        unsafe { base.add(ADDRESS).cast::<u64>().write_unaligned(site) };
    }
}

#[cfg(test)]
mod tests {
    use super::{SIZE, convert};

    #[test]
    fn a_fault_is_reported_in_both_forms() {
        let mut wide = [0; SIZE];
        wide[0] = 11;
        wide[8] = 1;
        wide[16..24].copy_from_slice(&0xdead_beef_u64.to_le_bytes());
        let mut narrow = [0; SIZE];
        convert(&wide, &mut narrow, true);
        assert_eq!(narrow[12..16], 0xdead_beef_u32.to_le_bytes());
        let mut back = [0; SIZE];
        convert(&narrow, &mut back, false);
        assert_eq!(back, wide);
    }
}

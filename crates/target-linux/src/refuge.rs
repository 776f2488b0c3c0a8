//! The way back of a thread that makes a system call for a tracer which is then killed.
//!
//! A refuge is a system call instruction in the program's memory, followed by code that gives the thread its signal mask, its
//! registers and its place back. It is behind the end of some code, where a page is filled with zeros.
//!
//! A thread that finds no processor, or a program that is stopped, may be in the refuge of a killed tracer when the next one comes.
//! That one brings the thread back at once ([`leave_all`]). What the call was to do is not done any more: memory that it
//! should unmap may belong to somebody else by then.

use libc::user_regs_struct;

use crate::maps::{self, Mapping};
use crate::memory::Memory;
use crate::ptrace::{PAGE_SIZE, Stopped};
use crate::remote::SYSCALL;
use crate::thread::Thread;
use crate::threads::Threads;

/// The space for a refuge, in bytes.
pub(crate) const REFUGE_SIZE: u64 = 192;

/// How many there may be in the last page of a mapping. One that a killed tracer has left is used again only when there is no other
/// space: a thread may return there from the handler of a signal.
const PLACES: u64 = PAGE_SIZE / REFUGE_SIZE;

/// How many refuges a thread is brought out of, one of which leads to the next.
const MOST_IN_TURN: usize = 64;

/// `syscall; mov eax, SYS_rt_sigprocmask; mov edi, SIG_SETMASK; lea rsi, [rip + mask]`, without the distance of the mask.
const BEGIN: [u8; 15] = [
    0x0f, 0x05, 0xb8, 14, 0, 0, 0, 0xbf, 2, 0, 0, 0, 0x48, 0x8d, 0x35,
];
/// `mov edx, 0; mov r10d, 8; syscall`.
const SET_MASK: [u8; 13] = [0xba, 0, 0, 0, 0, 0x41, 0xba, 8, 0, 0, 0, 0x0f, 0x05];
/// `mov REGISTER, value`, in the order of [`clobbered`].
const MOVES: [[u8; 2]; 9] = [
    [0x48, 0xbf],
    [0x48, 0xbe],
    [0x48, 0xba],
    [0x49, 0xba],
    [0x49, 0xb8],
    [0x49, 0xb9],
    [0x48, 0xb9],
    [0x49, 0xbb],
    [0x48, 0xb8],
];
/// `jmp [rip]`. The address follows, and the mask.
const JUMP: [u8; 6] = [0xff, 0x25, 0, 0, 0, 0];

const _: () = assert!(BEGIN[0] == SYSCALL[0] && BEGIN[1] == SYSCALL[1]);

/// The registers that a system call or the code of a refuge changes.
fn clobbered(registers: &mut user_regs_struct) -> [&mut u64; 9] {
    let user_regs_struct {
        rdi,
        rsi,
        rdx,
        r10,
        r8,
        r9,
        rcx,
        r11,
        rax,
        ..
    } = registers;
    [rdi, rsi, rdx, r10, r8, r9, rcx, r11, rax]
}

/// Where a thread goes on, and with what.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct WayBack {
    /// The values of [`clobbered`].
    values: [u64; 9],
    rip: u64,
    mask: u64,
}

impl WayBack {
    /// That of a thread with these registers and this mask.
    pub(crate) fn of(saved: &user_regs_struct, mask: u64) -> Self {
        /// The kernel's results that request a restart, and the one that requests it by another call.
        const RESTARTS: std::ops::RangeInclusive<i64> = -514..=-512;
        const RESTART_BLOCK: i64 = -516;
        let mut saved = *saved;
        let result = saved.rax as i64;
        // The same as the kernel does before it resumes the thread.
        if saved.orig_rax as i64 >= 0 && RESTARTS.contains(&result) {
            (saved.rip, saved.rax) = (saved.rip.wrapping_sub(2), saved.orig_rax);
        } else if saved.orig_rax as i64 >= 0 && result == RESTART_BLOCK {
            (saved.rip, saved.rax) = (saved.rip.wrapping_sub(2), libc::SYS_restart_syscall as u64);
        }
        Self {
            values: clobbered(&mut saved).map(|value| *value),
            rip: saved.rip,
            mask,
        }
    }

    /// A system call instruction, followed by code that goes this way. None of the instructions behind the call changes flags.
    pub(crate) fn code(&self) -> Vec<u8> {
        /// From the end of `lea` to the mask.
        const DISTANCE: usize = SET_MASK.len() + MOVES.len() * 10 + JUMP.len() + size_of::<u64>();
        let mut code = BEGIN.to_vec();
        code.extend((DISTANCE as u32).to_le_bytes());
        code.extend(SET_MASK);
        for (opcode, value) in MOVES.into_iter().zip(self.values) {
            code.extend(opcode);
            code.extend(value.to_le_bytes());
        }
        code.extend(JUMP);
        code.extend(self.rip.to_le_bytes());
        code.extend(self.mask.to_le_bytes());
        code
    }

    /// Reads it from its code; `None` if these bytes are no refuge.
    fn read(code: &[u8]) -> Option<Self> {
        let word = |at: usize| Some(u64::from_le_bytes(*code.get(at..)?.first_chunk()?));
        let first = BEGIN.len() + size_of::<u32>() + SET_MASK.len();
        let mut values = [0; MOVES.len()];
        for (place, value) in values.iter_mut().enumerate() {
            *value = word(first + place * 10 + 2)?;
        }
        let rip = first + MOVES.len() * 10 + JUMP.len();
        let read = Self {
            values,
            rip: word(rip)?,
            mask: word(rip + size_of::<u64>())?,
        };
        code.starts_with(&read.code()).then_some(read)
    }

    /// The registers of a thread that has gone this way.
    fn restore(&self, mut registers: user_regs_struct) -> user_regs_struct {
        for (register, value) in clobbered(&mut registers).into_iter().zip(self.values) {
            *register = value;
        }
        registers.rip = self.rip;
        // Not in a system call: nothing is to be restarted.
        registers.orig_rax = u64::MAX;
        registers
    }
}

/// Space for a refuge. `None` where there is none.
pub(crate) fn room(threads: &Threads, memory: &Memory) -> Option<u64> {
    let mappings = maps::mappings(threads.any()).ok()?;
    let mut left = None;
    for start in mappings.iter().flat_map(places) {
        if is_free(memory, start) {
            return Some(start);
        }
        if left.is_none() && is_left(threads, memory, start) {
            left = Some(start);
        }
    }
    left
}

/// Whether nothing is at an address.
pub(crate) fn is_free(memory: &Memory, start: u64) -> bool {
    memory.read_array(start) == Some([0; REFUGE_SIZE as usize])
}

/// Whether the refuge of a killed tracer is there, and no thread in it.
fn is_left(threads: &Threads, memory: &Memory, start: u64) -> bool {
    let inside = start..start.saturating_add(REFUGE_SIZE);
    let is_inside = |registers: user_regs_struct| inside.contains(&registers.rip);
    read(memory, start).is_some()
        && (threads.iter()).all(|thread| thread.registers().is_some_and(|known| !is_inside(known)))
}

/// The way back of a refuge at an address.
fn read(memory: &Memory, start: u64) -> Option<WayBack> {
    WayBack::read(&memory.read_array::<{ REFUGE_SIZE as usize }>(start)?)
}

/// Where refuges may be in a mapping.
fn places(mapping: &Mapping) -> impl Iterator<Item = u64> {
    let (start, end) = (mapping.start, mapping.end);
    let has_room = mapping.executable && mapping.readable && mapping.path.is_absolute();
    (1..=PLACES)
        .filter(move |_| has_room)
        .filter_map(move |place| end.checked_sub(place * REFUGE_SIZE))
        .take_while(move |place| *place >= start)
}

/// Brings threads back that are in refuges of killed tracers. All threads of the 64-bit process are stopped.
///
/// If this tracer is killed meanwhile, a thread goes back by itself.
pub(crate) fn leave_all(threads: &Threads, memory: &Memory) {
    let Ok(mappings) = maps::mappings(threads.any()) else {
        // The process has ended.
        return;
    };
    let places: Vec<u64> = mappings.iter().flat_map(places).collect();
    for stopped in threads.iter().filter_map(Thread::stopped) {
        for _ in 0..MOST_IN_TURN {
            if leave(stopped, memory, &places).is_none() {
                break;
            }
        }
    }
}

/// `None` if the thread is in none of them.
fn leave(stopped: &Stopped, memory: &Memory, places: &[u64]) -> Option<()> {
    let registers = stopped.registers().ok()?;
    let start = (places.iter().copied())
        .find(|start| (*start..*start + REFUGE_SIZE).contains(&registers.rip))?;
    let way_back = read(memory, start)?;
    // The mask first: the thread may still go back by itself.
    stopped.set_signal_mask(way_back.mask).ok()?;
    stopped.set_registers(&way_back.restore(registers)).ok()?;
    // It was of this thread alone.
    memory.write(start, &[0; REFUGE_SIZE as usize]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registers() -> user_regs_struct {
        // SAFETY: the structure is of integers.
        let mut registers: user_regs_struct = unsafe { std::mem::zeroed() };
        for (register, value) in clobbered(&mut registers).into_iter().zip(0x11_0000_0000..) {
            *register = value;
        }
        registers.rip = 0x40_1000;
        registers.rsp = 0x7ffc_0000_0000;
        registers.orig_rax = u64::MAX;
        registers
    }

    #[test]
    fn a_way_back_is_read_as_it_was_written() {
        let way_back = WayBack::of(&registers(), 0x1234);
        let mut code = way_back.code();
        assert!(code.len() as u64 <= REFUGE_SIZE);
        code.resize(REFUGE_SIZE as usize, 0);
        assert_eq!(WayBack::read(&code), Some(way_back));
        assert_eq!(way_back.restore(registers()), registers());
    }

    #[test]
    fn other_bytes_are_no_refuge() {
        let code = WayBack::of(&registers(), 0).code();
        let values = BEGIN.len() + 4 + SET_MASK.len();
        for at in 0..values {
            let mut other = code.clone();
            other[at] ^= 1;
            assert_eq!(WayBack::read(&other), None, "byte {at}");
        }
        for length in 0..code.len() {
            assert_eq!(WayBack::read(&code[..length]), None, "{length} bytes");
        }
    }

    #[test]
    fn a_call_that_is_to_be_restarted_is_made_again() {
        let mut saved = registers();
        saved.orig_rax = libc::SYS_futex as u64;
        for (result, number) in [(-512, libc::SYS_futex), (-516, libc::SYS_restart_syscall)] {
            saved.rax = result as u64;
            let back = WayBack::of(&saved, 0).restore(registers());
            assert_eq!((back.rip, back.rax), (0x40_0ffe, number as u64));
        }
    }
}

//! Having the process make a system call for us, so that it cannot tell afterwards.

use libc::user_regs_struct;

use crate::maps::{self, ThreadStatus};
use crate::process::Process;
use crate::ptrace::{Resume, Status, Stopped, Tid};
use crate::thread::{Pending, State, Thread};
use crate::width::Width;
use tracewire_fail_point::fail_point;

/// The instruction `syscall`.
const SYSCALL: [u8; 2] = [0x0f, 0x05];

/// Every signal but those that an instruction causes by itself: these, blocked, would kill.
pub(crate) const ALL_BUT_FAULTS: u64 = !(bit(libc::SIGSEGV)
    | bit(libc::SIGBUS)
    | bit(libc::SIGFPE)
    | bit(libc::SIGILL)
    | bit(libc::SIGTRAP)
    | bit(libc::SIGSYS));

/// A signal's bit in a set of them.
pub(crate) const fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

/// The room for it, in bytes.
const REFUGE_SIZE: u64 = 192;

/// What stands first in every refuge.
const REFUGE_BEGIN: [u8; 15] = [
    0x0f, 0x05, 0xb8, 14, 0, 0, 0, 0xbf, 2, 0, 0, 0, 0x48, 0x8d, 0x35,
];

/// A system call instruction, and what gives a thread its signal mask and its registers back and takes it to where it was.
/// No instruction among these changes flags.
fn way_back(saved: &user_regs_struct, mask: u64) -> Vec<u8> {
    /// The kernel's results that ask for a restart, and the one that asks for it by another call.
    const RESTARTS: std::ops::RangeInclusive<i64> = -514..=-512;
    const RESTART_BLOCK: i64 = -516;
    let (mut rip, mut rax) = (saved.rip, saved.rax);
    // What the kernel would do before it lets the thread go on.
    if saved.orig_rax as i64 >= 0 && RESTARTS.contains(&(rax as i64)) {
        (rip, rax) = (rip.wrapping_sub(2), saved.orig_rax);
    } else if saved.orig_rax as i64 >= 0 && rax as i64 == RESTART_BLOCK {
        (rip, rax) = (rip.wrapping_sub(2), libc::SYS_restart_syscall as u64);
    }
    // syscall; mov eax, SYS_rt_sigprocmask; mov edi, SIG_SETMASK; lea rsi, [rip + mask]; mov edx, 0; mov r10d, 8; syscall
    let mut code = REFUGE_BEGIN.to_vec();
    let mask_place = code.len();
    code.extend([0; 4]);
    code.extend([0xba, 0, 0, 0, 0, 0x41, 0xba, 8, 0, 0, 0]);
    code.extend(SYSCALL);
    // mov REGISTER, value
    for (opcode, value) in [
        ([0x48, 0xbf], saved.rdi),
        ([0x48, 0xbe], saved.rsi),
        ([0x48, 0xba], saved.rdx),
        ([0x49, 0xba], saved.r10),
        ([0x49, 0xb8], saved.r8),
        ([0x49, 0xb9], saved.r9),
        ([0x48, 0xb9], saved.rcx),
        ([0x49, 0xbb], saved.r11),
        ([0x48, 0xb8], rax),
    ] {
        code.extend(opcode);
        code.extend(value.to_le_bytes());
    }
    // jmp [rip]
    code.extend([0xff, 0x25, 0, 0, 0, 0]);
    code.extend(rip.to_le_bytes());
    let distance = (code.len() - mask_place - 4) as u8;
    if let Some(place) = code.get_mut(mask_place) {
        *place = distance;
    }
    code.extend(mask.to_le_bytes());
    code
}

impl Process {
    /// Makes a system call through a thread at rest; `None` if no thread may.
    pub(crate) fn system_call(&mut self, number: libc::c_long, arguments: [u64; 6]) -> Option<u64> {
        // The gate is a 64-bit instruction.
        if self.width != Width::Bits64 {
            return None;
        }
        let thread = self.volunteer()?;
        let gate = self.gate()?;
        self.remote_calls += 1;
        let held = self.threads.get_mut(&thread)?.pending.take();
        let result = self.system_call_by(thread, gate, number, arguments);
        if let Some(held) = held {
            if let Pending::Signal(info) = &held {
                self.meet_signal(thread, info);
            }
            let met = self
                .threads
                .get_mut(&thread)
                .and_then(|entry| entry.pending.replace(held));
            if let Some(Pending::Signal(info)) = met {
                self.send_again(thread, &info);
            }
        }
        result
    }

    /// Sends a thread a signal that it was about to get and that there is no room for now.
    pub(crate) fn send_again(&self, thread: Tid, info: &libc::siginfo_t) {
        let process = self.process_of(thread);
        // SAFETY: the kernel checks the numbers, and reads a live structure.
        let queued = unsafe {
            libc::syscall(
                libc::SYS_rt_tgsigqueueinfo,
                process,
                thread,
                info.si_signo,
                std::ptr::from_ref(info),
            )
        };
        if queued != 0 {
            // What `kill` sends is sent in nobody else's name.
            // SAFETY: tgkill takes plain numbers.
            unsafe { libc::syscall(libc::SYS_tgkill, process, thread, info.si_signo) };
        }
    }

    /// Brings a thread that was about to get a signal to where it is that again: at the end of a system call for us the
    /// kernel would take none along. It executes nothing of its own meanwhile.
    fn meet_signal(&mut self, thread: Tid, info: &libc::siginfo_t) {
        let signal = info.si_signo;
        let blocked = self
            .stopped(thread)
            .and_then(|stopped| stopped.signal_mask().ok())
            .is_none_or(|mask| mask & bit(signal) != 0);
        if blocked {
            return;
        }
        let send = |signal: i32| {
            // SAFETY: tkill takes plain numbers.
            unsafe { libc::syscall(libc::SYS_tkill, thread, signal) };
        };
        send(signal);
        let mut others = Vec::new();
        loop {
            let Some(entry) = self.threads.get_mut(&thread) else {
                return;
            };
            entry.go_on(Resume::Continue, 0);
            let Ok((status, _)) = self.answer_of(thread) else {
                return;
            };
            let Some(entry) = self.threads.get_mut(&thread) else {
                return;
            };
            match status {
                Status::Signal(met) => {
                    entry.has_stopped();
                    if met == signal {
                        entry.takes_signal = true;
                        break;
                    }
                    others.push(met);
                }
                Status::GroupStop(_) => {
                    entry.has_stopped();
                    entry.rejoin_group_stop = true;
                }
                Status::Interrupted => entry.has_stopped(),
                status => {
                    self.note(thread, status);
                    if self.stopped(thread).is_none() {
                        return;
                    }
                }
            }
        }
        others.into_iter().for_each(send);
        if let Some(stopped) = self.stopped(thread) {
            let _ = stopped.set_signal_info(info);
        }
    }

    fn system_call_by(
        &mut self,
        thread: Tid,
        gate: u64,
        number: libc::c_long,
        arguments: [u64; 6],
    ) -> Option<u64> {
        let stopped = self.stopped(thread)?;
        let saved = stopped.registers().ok()?;
        let mask = stopped.signal_mask().ok()?;
        let refuge = self.refuge(&saved, mask);
        fail_point!("call/refuge-made");
        let gate = refuge.unwrap_or(gate);
        let stopped = self.stopped(thread)?;
        // Should we be killed, a thread gets its mask back in the refuge and nowhere else.
        if refuge.is_none() {
            stopped.set_signal_mask(ALL_BUT_FAULTS).ok()?;
        }
        let [rdi, rsi, rdx, r10, r8, r9] = arguments;
        let changed = user_regs_struct {
            rip: gate,
            rax: number as u64,
            rdi,
            rsi,
            rdx,
            r10,
            r8,
            r9,
            // Not in a system call: nothing is to be restarted.
            orig_rax: u64::MAX,
            ..saved
        };
        stopped.set_registers(&changed).ok()?;
        fail_point!("call/led");
        if refuge.is_some() {
            stopped.set_signal_mask(ALL_BUT_FAULTS).ok()?;
        }
        fail_point!("call/signals-blocked");
        let result = self.call_to_end(thread);
        fail_point!("call/made");
        if let Some(entry) = self.threads.get_mut(&thread)
            && entry.asleep
        {
            // It is still in the call; the refuge stays, for it may have to find back by itself.
            entry.lent_registers = Some(Box::new(saved));
            entry.lent_mask = Some(mask);
            return None;
        }
        let stopped = self.stopped(thread)?;
        let after = result.and_then(|()| stopped.registers().ok());
        let _ = stopped.set_signal_mask(mask);
        fail_point!("call/signals-let");
        let _ = stopped.set_registers(&saved);
        fail_point!("call/led-back");
        if let Some(refuge) = refuge {
            let _ = self.memory.write(refuge, &[0; REFUGE_SIZE as usize]);
        }
        after.map(|after| after.rax)
    }

    /// Writes a system call instruction behind which the thread finds its way back by itself: should we be killed now,
    /// it goes on as if nothing had been. `None` where there is no room, or the program is of 32 bits.
    ///
    /// The room is behind the end of some code, where a page is filled up with zeros. One that a killed tracer has used is as
    /// good, once nobody is there.
    fn refuge(&mut self, saved: &user_regs_struct, mask: u64) -> Option<u64> {
        if self.width != Width::Bits64 {
            return None;
        }
        let code = way_back(saved, mask);
        let start = match self.refuge.filter(|start| self.is_room(*start)) {
            Some(start) => start,
            None => {
                let mappings = maps::mappings(self.any_thread()).ok()?;
                let start = mappings
                    .iter()
                    .filter(|mapping| mapping.executable && mapping.readable)
                    .filter(|mapping| mapping.path.is_absolute())
                    .filter_map(|mapping| mapping.end.checked_sub(REFUGE_SIZE))
                    .find(|start| self.is_room(*start))?;
                self.refuge = Some(start);
                start
            }
        };
        self.memory.write(start, &code).ok()?;
        Some(start)
    }

    /// Whether there is room for a refuge at an address.
    fn is_room(&self, start: u64) -> bool {
        let Some(bytes) = self.memory.read_array::<{ REFUGE_SIZE as usize }>(start) else {
            return false;
        };
        let nobody_there = || {
            self.threads.values().all(|thread| {
                let registers = thread
                    .stopped()
                    .and_then(|stopped| stopped.registers().ok());
                registers
                    .is_some_and(|registers| !(start..start + REFUGE_SIZE).contains(&registers.rip))
            })
        };
        bytes == [0; REFUGE_SIZE as usize] || bytes.starts_with(&REFUGE_BEGIN) && nobody_there()
    }

    /// Makes the system call that the thread stands at, with signals blocked. `None` if the thread came to its end, or is in
    /// the call for too long.
    ///
    /// Not by a step: the kernel leaves the trap flag set if we are killed meanwhile.
    fn call_to_end(&mut self, thread: Tid) -> Option<()> {
        let mut entered = false;
        loop {
            let entry = self.threads.get_mut(&thread)?;
            if entered {
                entry.interrupt_next();
                entry.go_on(Resume::Continue, 0);
            } else {
                entry.go_on(Resume::ToSystemCall, 0);
            }
            let Ok((status, _)) = self.answer_of(thread) else {
                return None;
            };
            let entry = self.threads.get_mut(&thread)?;
            match status {
                Status::SystemCall => {
                    entry.has_stopped();
                    entered = true;
                    fail_point!("call/entered");
                }
                Status::Interrupted => {
                    entry.has_stopped();
                    if entered {
                        return Some(());
                    }
                }
                Status::GroupStop(_) => {
                    entry.has_stopped();
                    entry.rejoin_group_stop = true;
                    if entered {
                        return Some(());
                    }
                }
                status => {
                    self.note(thread, status);
                    self.stopped(thread)?;
                    if self.threads.get(&thread)?.pending.is_some() {
                        return None;
                    }
                }
            }
        }
    }

    /// A thread that may make system calls for us and has nothing to lose by it: one of the process, or of a child by vfork,
    /// which shares its memory, while the process waits for that child.
    pub(crate) fn volunteer(&mut self) -> Option<Tid> {
        let mut idle: Vec<&Thread> = self
            .threads
            .values()
            .filter(|thread| !thread.exiting && !thread.enters_call && !thread.mid_call)
            .filter(|thread| matches!(thread.state, State::Stopped(_)))
            .collect();
        // Rather one that is not about to get a signal.
        idle.sort_by_key(|thread| (thread.process != self.id, thread.pending.is_some()));
        let thread = idle
            .into_iter()
            .find(|thread| {
                ThreadStatus::read(thread.id).is_ok_and(|status| !status.filters_system_calls())
                    && !self.dispatches_system_calls(thread)
            })?
            .id;
        let entry = self.threads.get_mut(&thread)?;
        if std::mem::take(&mut entry.group_stopped) {
            entry.rejoin_group_stop = true;
        }
        Some(thread)
    }

    /// Whether the kernel would give the thread a signal in place of a system call that it makes for us (Syscall User
    /// Dispatch, as Wine has it).
    fn dispatches_system_calls(&self, thread: &Thread) -> bool {
        const ALLOWED: [u8; 1] = [0];
        let dispatch = thread.stopped().and_then(Stopped::system_call_dispatch);
        dispatch.is_some_and(|dispatch| self.memory.read_array(dispatch.selector) != Some(ALLOWED))
    }

    /// A system call instruction in the process: the vdso has some.
    fn gate(&mut self) -> Option<u64> {
        if self.gate.is_none() {
            let mappings = maps::mappings(self.any_thread()).ok()?;
            let vdso = mappings
                .iter()
                .find(|mapping| mapping.path.as_os_str() == "[vdso]");
            // Without a vdso, the program's own code will have one: the dynamic linker's, or a static
            // program's.
            let others = mappings
                .iter()
                .filter(|mapping| mapping.executable && mapping.readable);
            self.gate = vdso.into_iter().chain(others).find_map(|mapping| {
                /// More code than any dynamic linker or C library has.
                const LIMIT: u64 = 16 << 20;
                let mut code = vec![0; (mapping.end - mapping.start).min(LIMIT) as usize];
                let filled = self.memory.read(mapping.start, &mut code);
                code.get(..filled)?
                    .windows(SYSCALL.len())
                    .zip(mapping.start..)
                    .find(|(bytes, at)| {
                        *bytes == SYSCALL && self.breakpoints.range(at..=&(at + 1)).next().is_none()
                    })
                    .map(|(_, at)| at)
            });
        }
        self.gate
    }
}

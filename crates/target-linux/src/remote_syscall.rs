//! System calls that a thread of the process makes for the tracer. The process cannot see them afterwards.

use std::io;
use std::ops::Range;

use libc::user_regs_struct;
use nix::errno::Errno;

use crate::address_space::{AddressSpace, NoMemory, WhileStopped, error_of};
use crate::job_control::{continue_pending, is_continued, is_stop_signal};
use crate::ptrace::{ALL_BUT_FAULTS, Resume, Status, Tid, bit};
use crate::refuge::REFUGE_SIZE;
use crate::remote::volunteer;
use crate::thread::{Pending, Phase, SignalReport};
use crate::tracee::Tracee;
use tracewire_fail_point::fail_point;

/// What has become of a signal that a thread was about to get.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Met {
    /// The thread is about to get it, unless it has ended or blocks it.
    Pending,
    /// It would have stopped the process, and SIGCONT was sent after it.
    Continued,
}

/// How often another place is tried if something was mapped there meanwhile.
const TRIES: usize = 4;

impl Tracee {
    /// Makes a system call through a thread at rest; `None` if no thread may.
    pub(crate) fn system_call(&mut self, number: libc::c_long, arguments: [u64; 6]) -> Option<u64> {
        // The gate is a 64-bit instruction.
        if !self.program.is_64_bit() {
            return None;
        }
        // The thread runs, and may meet what waits to be written.
        self.memory.write_staged().ok()?;
        let thread = self.volunteer()?;
        let gate = self.remote.gate(&self.threads, &self.memory)?;
        self.remote.note_call();
        let mut held = self.threads.get_mut(thread)?.pending.take();
        let mut result = self.system_call_by(thread, gate, number, arguments);
        let mut stop = None;
        for _ in 0..TRIES {
            if result.is_some() {
                break;
            }
            // It cannot be blocked, and came before the call.
            let Some(info) = self.take_sigstop(thread) else {
                break;
            };
            stop = Some(info);
            result = self.system_call_by(thread, gate, number, arguments);
        }
        if held.is_none() {
            held = stop.take().map(Pending::Signal);
        }
        if let Some(held) = held {
            self.restore_pending(thread, held);
        }
        if let Some(stop) = stop {
            self.send_again(thread, &stop);
        }
        result
    }

    /// Takes SIGSTOP away from a thread that is stopped because it is about to get it.
    fn take_sigstop(&mut self, thread: Tid) -> Option<libc::siginfo_t> {
        let entry = self.threads.get_mut(thread)?;
        entry.stopped()?;
        let Some(Pending::Signal(info)) = &entry.pending else {
            return None;
        };
        let info = (info.si_signo == libc::SIGSTOP).then_some(*info)?;
        entry.pending = None;
        Some(info)
    }

    /// Gives a thread back what was pending before a remote system call.
    fn restore_pending(&mut self, thread: Tid, held: Pending) {
        if let Pending::Signal(info) = &held
            && self.meet_signal(thread, info) == Met::Continued
        {
            if let Some(entry) = self.threads.get_mut(thread) {
                entry.signal = SignalReport::New;
            }
            return;
        }
        let met = self
            .threads
            .get_mut(thread)
            .and_then(|entry| entry.pending.replace(held));
        if let Some(Pending::Signal(info)) = met {
            self.send_again(thread, &info);
        }
    }

    /// Sends a thread a signal again that it was about to get and that cannot be delivered now.
    pub(crate) fn send_again(&self, thread: Tid, info: &libc::siginfo_t) {
        if is_continued(thread, info.si_signo) {
            return;
        }
        let process = self.threads.process_of(thread);
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
            // A signal of `kill` cannot be queued in another sender's name.
            // SAFETY: tgkill takes plain numbers.
            unsafe { libc::syscall(libc::SYS_tgkill, process, thread, info.si_signo) };
        }
    }

    /// Brings a thread that was about to get a signal to that state again, because the kernel delivers none at the end
    /// of a remote system call. The thread executes nothing of the program meanwhile.
    fn meet_signal(&mut self, thread: Tid, info: &libc::siginfo_t) -> Met {
        let signal = info.si_signo;
        if is_continued(thread, signal) {
            return Met::Continued;
        }
        let blocked = self
            .threads
            .stopped(thread)
            .and_then(|stopped| stopped.signal_mask().ok())
            .is_none_or(|mask| mask & bit(signal) != 0);
        if blocked {
            return Met::Pending;
        }
        let send = |signal: i32| {
            // SAFETY: tkill takes plain numbers.
            unsafe { libc::syscall(libc::SYS_tkill, thread, signal) };
        };
        send(signal);
        let mut others = Vec::new();
        loop {
            let Some(entry) = self.threads.get_mut(thread) else {
                return Met::Pending;
            };
            entry.go_on(Resume::Continue, 0);
            let Ok((status, _)) = self.answer_of(thread) else {
                return Met::Pending;
            };
            let Some(entry) = self.threads.get_mut(thread) else {
                return Met::Pending;
            };
            match status {
                Status::Signal(met) => {
                    entry.has_stopped();
                    if met == signal {
                        entry.phase = Phase::TakesSignal;
                        break;
                    }
                    others.push(met);
                }
                Status::GroupStop(_) => {
                    entry.has_stopped();
                    entry.rejoin_group_stop = true;
                }
                Status::Interrupted => {
                    entry.has_stopped();
                    // SIGCONT makes a traced thread stop before it takes a signal. It was sent before this signal and was removed by
                    // it, or after it and has removed it.
                    if is_stop_signal(signal) {
                        if !continue_pending(thread) {
                            send(libc::SIGCONT);
                        }
                        others.into_iter().for_each(send);
                        return Met::Continued;
                    }
                }
                status => {
                    self.note(thread, status);
                    if self.threads.stopped(thread).is_none() {
                        return Met::Pending;
                    }
                }
            }
        }
        others.into_iter().for_each(send);
        if let Some(stopped) = self.threads.stopped(thread) {
            let _ = stopped.set_signal_info(info);
        }
        Met::Pending
    }

    fn system_call_by(
        &mut self,
        thread: Tid,
        gate: u64,
        number: libc::c_long,
        arguments: [u64; 6],
    ) -> Option<u64> {
        let stopped = self.threads.stopped(thread)?;
        let saved = stopped.registers().ok()?;
        let mask = stopped.signal_mask().ok()?;
        let refuge = self
            .remote
            .make_refuge(&self.threads, &self.memory, &saved, mask);
        fail_point!("call/refuge-made");
        let gate = refuge.unwrap_or(gate);
        let stopped = self.threads.stopped(thread)?;
        // If the tracer is killed, only the refuge gives a thread its mask back.
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
        if let Some(entry) = self.threads.get_mut(thread)
            && entry.asleep
        {
            // It is still in the call. The refuge stays, since the thread may have to restore itself.
            entry.lent_registers = Some(Box::new(saved));
            entry.lent_mask = Some(mask);
            return None;
        }
        let stopped = self.threads.stopped(thread)?;
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

    /// Runs the thread through the system call that it is at, with signals blocked. `None` if the thread has ended, or
    /// is in the call for too long.
    ///
    /// It does not use a step: if the tracer were killed meanwhile, the kernel would leave the trap flag set.
    fn call_to_end(&mut self, thread: Tid) -> Option<()> {
        let mut entered = false;
        loop {
            let entry = self.threads.get_mut(thread)?;
            if entered {
                entry.interrupt_next();
                entry.go_on(Resume::Continue, 0);
            } else {
                entry.go_on(Resume::ToSystemCall, 0);
            }
            let Ok((status, _)) = self.answer_of(thread) else {
                return None;
            };
            let entry = self.threads.get_mut(thread)?;
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
                    self.threads.stopped(thread)?;
                    if self.threads.get(thread)?.pending.is_some() {
                        return None;
                    }
                }
            }
        }
    }

    /// A thread that may make system calls for the tracer.
    pub(crate) fn volunteer(&mut self) -> Option<Tid> {
        let known = self.program.while_stopped.as_mut();
        let proven = known.as_ref().and_then(|known| known.volunteer);
        let found = volunteer(&mut self.threads, &self.memory, proven)?;
        if let Some(known) = known {
            known.volunteer = Some(found);
        }
        Some(found)
    }

    /// Facts about the process that hold while it is stopped, looked up once.
    pub(crate) fn while_stopped(&mut self) -> io::Result<&mut WhileStopped> {
        if self.threads.any_can_be_stopped() {
            self.program.while_stopped = None;
        }
        let known = match self.program.while_stopped.take() {
            Some(known) => known,
            None => WhileStopped::of(self.threads.any())?,
        };
        Ok(self.program.while_stopped.insert(known))
    }

    /// The program may run, or something was unmapped.
    pub(crate) fn forget_while_stopped(&mut self) {
        self.program.while_stopped = None;
    }

    /// Makes the process map memory for code of the tracer, where `choose` finds space. A child by fork has it too.
    pub(crate) fn map_code(
        &mut self,
        mut choose: impl FnMut(&AddressSpace) -> Option<Range<u64>>,
    ) -> Result<Range<u64>, NoMemory> {
        let protection = (libc::PROT_READ | libc::PROT_EXEC) as u64;
        let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
        self.map_fixed(&mut choose, [protection, flags, u64::MAX])
    }

    /// Makes the process map memory where `choose` finds space, with this protection, these flags and this descriptor.
    pub(crate) fn map_fixed(
        &mut self,
        choose: &mut dyn FnMut(&AddressSpace) -> Option<Range<u64>>,
        [protection, flags, descriptor]: [u64; 3],
    ) -> Result<Range<u64>, NoMemory> {
        for _ in 0..TRIES {
            let known = self.while_stopped().map_err(|_| NoMemory::Unreadable)?;
            let range = choose(&known.space).ok_or(NoMemory::NoRoom)?;
            let (address, size) = (range.start, range.end - range.start);
            let fixed = flags | libc::MAP_FIXED_NOREPLACE as u64;
            let got = self
                .system_call(
                    libc::SYS_mmap,
                    [address, size, protection, fixed, descriptor, 0],
                )
                .ok_or_else(|| self.why_no_call())?;
            if got == address {
                fail_point!("map/mapped");
                if let Some(known) = &mut self.program.while_stopped {
                    known.space.take(range.clone());
                }
                return Ok(range);
            }
            match error_of(got) {
                None => {
                    // A kernel before 4.17 takes the address for a hint.
                    self.unmap_page(got, size);
                }
                Some(Errno::EEXIST) => {}
                Some(error) => return Err(NoMemory::Refused(error)),
            }
            // The cached mappings are out of date.
            self.forget_while_stopped();
        }
        Err(NoMemory::Taken)
    }

    /// Why no thread can make a system call for the tracer.
    pub(crate) fn why_no_call(&self) -> NoMemory {
        let own = self
            .threads
            .iter()
            .filter(|thread| thread.process == self.threads.process() && !thread.exiting);
        if !own.clone().all(|thread| thread.stopped().is_none()) {
            NoMemory::Filtered
        } else if own.clone().any(|thread| thread.in_vfork.is_some()) {
            NoMemory::InVfork
        } else {
            NoMemory::Asleep
        }
    }

    /// Makes the process unmap memory.
    pub(crate) fn unmap_page(&mut self, address: u64, size: u64) {
        fail_point!("map/unmap");
        self.system_call(libc::SYS_munmap, [address, size, 0, 0, 0, 0]);
        self.remote
            .note_change(&(address..address.saturating_add(size)));
        self.forget_while_stopped();
    }
}

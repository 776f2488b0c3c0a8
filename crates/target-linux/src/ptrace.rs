//! The kernel's tracing calls. The types enforce that a running thread is not accessed.
//!
//! A [`Running`] thread can only be interrupted. A [`Stopped`] one can be read, changed and resumed, and resuming
//! consumes it. A thread can be killed at any moment, so every call may find that it has ended (`ESRCH`). A resumed
//! thread that has ended counts as running: the next wait reports its exit status.

use std::mem::{MaybeUninit, size_of};

use libc::{c_int, c_long, c_uint, c_void};
use nix::errno::Errno;

/// A thread's number in the kernel.
pub(crate) type Tid = libc::pid_t;

/// The size of a page of the machine, in bytes.
pub(crate) const PAGE_SIZE: u64 = 4096;
/// Every signal except those that an instruction causes: if these are blocked, the kernel kills the process.
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

/// `PTRACE_GET_RSEQ_CONFIGURATION`, which libc does not name.
const GET_RSEQ_CONFIGURATION: c_uint = 0x420f;
/// The register set of the extended state, `NT_X86_XSTATE`.
const NT_X86_XSTATE: usize = 0x202;
/// The offset of `rip` in the kernel's `struct user`.
const RIP_OFFSET: usize = std::mem::offset_of!(libc::user_regs_struct, rip);
/// The offset of the debug registers in the kernel's `struct user`.
const DEBUG_OFFSET: usize = std::mem::offset_of!(libc::user, u_debugreg);

/// The debug register that shows what has triggered.
pub(crate) const DEBUG_STATUS: usize = 6;

/// The options of every traced thread. `PTRACE_O_EXITKILL` is left out on purpose: the program outlives the tracer,
/// unless the user asks otherwise.
const OPTIONS: c_int = libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACEVFORKDONE
    | libc::PTRACE_O_TRACEEXEC
    | libc::PTRACE_O_TRACEEXIT
    | libc::PTRACE_O_TRACESYSGOOD;

fn call(request: c_uint, thread: Tid, address: usize, data: usize) -> Result<c_long, Errno> {
    // SAFETY: each caller passes an address and data as ptrace(2) requires for the request. Pointers among them point
    // to live objects of the size that the request accesses.
    Errno::result(unsafe {
        libc::ptrace(request, thread, address as *mut c_void, data as *mut c_void)
    })
}

/// How a stopped thread is resumed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Resume {
    /// Until the next event.
    Continue,
    /// For one instruction.
    Step,
    /// Until it enters or leaves a system call.
    ToSystemCall,
    /// Not resumed, but it reports the end of a group stop.
    Listen,
}

/// A traced thread that runs.
#[derive(Debug)]
pub(crate) struct Running(Tid);

/// A stopped thread that is traced.
#[derive(Debug)]
pub(crate) struct Stopped(Tid);

impl Running {
    /// Starts tracing a thread without stopping it.
    pub(crate) fn seize(thread: Tid) -> Result<Self, Errno> {
        call(libc::PTRACE_SEIZE, thread, 0, OPTIONS as usize)?;
        Ok(Self(thread))
    }

    /// A child of a traced thread, which the kernel attached automatically.
    pub(crate) fn born(thread: Tid) -> Self {
        Self(thread)
    }

    /// Asks the thread to stop. Any stop answers it. A thread that has ended is no error.
    pub(crate) fn interrupt(&self) {
        let _ = call(libc::PTRACE_INTERRUPT, self.0, 0, 0);
    }

    /// The same thread after a wait has reported that it stopped.
    pub(crate) fn stopped(self) -> Stopped {
        Stopped(self.0)
    }
}

impl Stopped {
    pub(crate) fn id(&self) -> Tid {
        self.0
    }

    /// Makes the thread stop, once resumed, before it executes anything.
    pub(crate) fn interrupt(&self) {
        let _ = call(libc::PTRACE_INTERRUPT, self.0, 0, 0);
    }

    /// Makes the kernel kill the process when its tracer is killed.
    pub(crate) fn end_with_tracer(&self) {
        // A kernel without it lets the program go on.
        let options = OPTIONS | libc::PTRACE_O_EXITKILL;
        let _ = call(libc::PTRACE_SETOPTIONS, self.0, 0, options as usize);
    }

    /// Resumes the thread, with a signal or 0.
    pub(crate) fn resume(self, how: Resume, signal: i32) -> Running {
        let (request, signal) = match how {
            Resume::Continue => (libc::PTRACE_CONT, signal),
            Resume::Step => (libc::PTRACE_SINGLESTEP, signal),
            Resume::ToSystemCall => (libc::PTRACE_SYSCALL, signal),
            Resume::Listen => (libc::PTRACE_LISTEN, 0),
        };
        let _ = call(request, self.0, 0, signal as usize);
        Running(self.0)
    }

    /// Ends the tracing of the thread, with a signal or 0. It fails with the thread's number if the thread is no longer
    /// stopped: SIGKILL has come, and it stops once more at its end.
    pub(crate) fn detach(self, signal: i32) -> Result<(), Tid> {
        match call(libc::PTRACE_DETACH, self.0, 0, signal as usize) {
            Err(Errno::ESRCH) => Err(self.0),
            _ => Ok(()),
        }
    }

    pub(crate) fn registers(&self) -> Result<libc::user_regs_struct, Errno> {
        let mut registers = MaybeUninit::<libc::user_regs_struct>::uninit();
        call(
            libc::PTRACE_GETREGS,
            self.0,
            0,
            registers.as_mut_ptr() as usize,
        )?;
        // SAFETY: the call has succeeded and so filled the whole structure.
        Ok(unsafe { registers.assume_init() })
    }

    pub(crate) fn set_registers(&self, registers: &libc::user_regs_struct) -> Result<(), Errno> {
        call(
            libc::PTRACE_SETREGS,
            self.0,
            0,
            std::ptr::from_ref(registers) as usize,
        )?;
        Ok(())
    }

    pub(crate) fn set_instruction_pointer(&self, address: u64) -> Result<(), Errno> {
        call(libc::PTRACE_POKEUSER, self.0, RIP_OFFSET, address as usize)?;
        Ok(())
    }

    /// The extended state (x87, SSE and on) in the kernel's layout, which is XSAVE's standard one.
    pub(crate) fn extended_state(&self, buffer: &mut Vec<u8>) -> Result<(), Errno> {
        // Larger than any machine's area (AMX makes it 11 KiB).
        buffer.resize(16 * 1024, 0);
        let mut vector = libc::iovec {
            iov_base: buffer.as_mut_ptr().cast(),
            iov_len: buffer.len(),
        };
        call(
            libc::PTRACE_GETREGSET,
            self.0,
            NT_X86_XSTATE,
            std::ptr::from_mut(&mut vector) as usize,
        )?;
        buffer.truncate(vector.iov_len);
        Ok(())
    }

    /// Sets the extended state, in the layout in which it was read.
    pub(crate) fn set_extended_state(&self, state: &[u8]) -> Result<(), Errno> {
        let mut vector = libc::iovec {
            iov_base: state.as_ptr().cast_mut().cast(),
            iov_len: state.len(),
        };
        call(
            libc::PTRACE_SETREGSET,
            self.0,
            NT_X86_XSTATE,
            std::ptr::from_mut(&mut vector) as usize,
        )?;
        Ok(())
    }

    pub(crate) fn signal_info(&self) -> Result<libc::siginfo_t, Errno> {
        let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
        call(
            libc::PTRACE_GETSIGINFO,
            self.0,
            0,
            info.as_mut_ptr() as usize,
        )?;
        // SAFETY: all-zero bytes are a valid siginfo_t, and the kernel has written over them.
        Ok(unsafe { info.assume_init() })
    }

    pub(crate) fn set_signal_info(&self, info: &libc::siginfo_t) -> Result<(), Errno> {
        call(
            libc::PTRACE_SETSIGINFO,
            self.0,
            0,
            std::ptr::from_ref(info) as usize,
        )?;
        Ok(())
    }

    /// The number of a `PTRACE_EVENT` stop.
    pub(crate) fn event_message(&self) -> Result<u64, Errno> {
        let mut message: libc::c_ulong = 0;
        call(
            libc::PTRACE_GETEVENTMSG,
            self.0,
            0,
            std::ptr::from_mut(&mut message) as usize,
        )?;
        Ok(message)
    }

    /// Writes a debug register: 0 to 3 hold addresses, 6 is the status, 7 the control register.
    pub(crate) fn set_debug_register(&self, number: usize, value: u64) -> Result<(), Errno> {
        let offset = DEBUG_OFFSET + number * size_of::<u64>();
        call(libc::PTRACE_POKEUSER, self.0, offset, value as usize)?;
        Ok(())
    }

    /// The debug status register.
    pub(crate) fn debug_status(&self) -> Result<u64, Errno> {
        let offset = DEBUG_OFFSET + DEBUG_STATUS * size_of::<u64>();
        call(libc::PTRACE_PEEKUSER, self.0, offset, 0).map(c_long::cast_unsigned)
    }

    /// Whether a thread at a system call leaves it, as opposed to entering it.
    pub(crate) fn leaves_system_call(&self) -> bool {
        /// `PTRACE_GET_SYSCALL_INFO`. The first byte of its answer is the kind of stop.
        const GET_SYSCALL_INFO: c_uint = 0x420e;
        const EXIT: u8 = 2;
        let mut info = [0_u8; 88];
        call(
            GET_SYSCALL_INFO,
            self.0,
            info.len(),
            info.as_mut_ptr() as usize,
        )
        .is_ok()
            && info.first() == Some(&EXIT)
    }

    pub(crate) fn signal_mask(&self) -> Result<u64, Errno> {
        let mut mask = 0_u64;
        call(
            libc::PTRACE_GETSIGMASK,
            self.0,
            size_of::<u64>(),
            std::ptr::from_mut(&mut mask) as usize,
        )?;
        Ok(mask)
    }

    pub(crate) fn set_signal_mask(&self, mask: u64) -> Result<(), Errno> {
        call(
            libc::PTRACE_SETSIGMASK,
            self.0,
            size_of::<u64>(),
            std::ptr::from_ref(&mask) as usize,
        )?;
        Ok(())
    }

    /// Whether one of these signals is pending in the thread's own queue: a trap or fault that it has not reported yet.
    pub(crate) fn fault_waits(&self, signals: u64) -> Result<bool, Errno> {
        // No thread has more signals queued for itself than a few; 64 is plenty for the first of them.
        const COUNT: usize = 64;
        let mut arguments = libc::ptrace_peeksiginfo_args {
            off: 0,
            flags: 0,
            nr: COUNT as i32,
        };
        // SAFETY: all-zero bytes are a valid siginfo_t.
        let mut queue: [libc::siginfo_t; COUNT] = unsafe { MaybeUninit::zeroed().assume_init() };
        let filled = call(
            libc::PTRACE_PEEKSIGINFO,
            self.0,
            std::ptr::from_mut(&mut arguments) as usize,
            queue.as_mut_ptr() as usize,
        )?;
        Ok(queue
            .iter()
            .take(usize::try_from(filled).unwrap_or(0))
            .any(|info| signals & bit(info.si_signo) != 0 && info.si_code > 0))
    }

    /// The settings of the thread's system call dispatch; `None` if it has none, or the kernel cannot report it.
    pub(crate) fn system_call_dispatch(&self) -> Option<SystemCallDispatch> {
        /// `PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG`, which libc does not name.
        const GET_CONFIG: c_uint = 0x4211;
        const ON: u64 = 1;
        let mut dispatch = SystemCallDispatch::default();
        call(
            GET_CONFIG,
            self.0,
            size_of::<SystemCallDispatch>(),
            std::ptr::from_mut(&mut dispatch) as usize,
        )
        .ok()?;
        (dispatch.mode & ON != 0).then_some(dispatch)
    }

    /// The address of the thread's `struct rseq`, if it has registered one.
    pub(crate) fn rseq_area(&self) -> Option<u64> {
        /// The kernel's `struct ptrace_rseq_configuration`.
        #[repr(C)]
        #[derive(Default)]
        struct Configuration {
            pointer: u64,
            size: u32,
            signature: u32,
            flags: u32,
            pad: u32,
        }
        let mut configuration = Configuration::default();
        call(
            GET_RSEQ_CONFIGURATION,
            self.0,
            size_of::<Configuration>(),
            std::ptr::from_mut(&mut configuration) as usize,
        )
        .ok()?;
        (configuration.pointer != 0).then_some(configuration.pointer)
    }
}

/// The kernel's `struct ptrace_sud_config`.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct SystemCallDispatch {
    mode: u64,
    /// The address of the byte that shows whether system calls are let through.
    pub(crate) selector: u64,
    offset: u64,
    length: u64,
}

/// The meaning of a wait status.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Status {
    /// It ended with this exit code.
    Exited(i32),
    /// It was killed by this signal; whether a core was dumped.
    Killed(i32, bool),
    /// It is about to get this signal.
    Signal(i32),
    /// It answers an interrupt, or is a new thread, or a group stop has ended.
    Interrupted,
    /// It is in a group stop.
    GroupStop(i32),
    /// It enters or leaves a system call.
    SystemCall,
    /// A `PTRACE_EVENT_*`.
    Event(i32),
}

impl Status {
    /// Decodes a wait status, or the exit status of a thread that is about to end.
    pub(crate) fn decode(status: c_int) -> Self {
        if libc::WIFEXITED(status) {
            return Self::Exited(libc::WEXITSTATUS(status));
        }
        if libc::WIFSIGNALED(status) {
            return Self::Killed(libc::WTERMSIG(status), libc::WCOREDUMP(status));
        }
        let signal = libc::WSTOPSIG(status);
        match status >> 16 {
            0 if signal == libc::SIGTRAP | 0x80 => Self::SystemCall,
            0 => Self::Signal(signal),
            libc::PTRACE_EVENT_STOP if signal == libc::SIGTRAP => Self::Interrupted,
            libc::PTRACE_EVENT_STOP => Self::GroupStop(signal),
            event => Self::Event(event),
        }
    }
}

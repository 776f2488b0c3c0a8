//! Stop replies: why the program, or a thread of it, has stopped or ended.

use std::fmt;

use tracewire_model::{Address, RegisterNumber};

use crate::family::register::RegisterBytes;
use crate::field::{Field, HexBytes, Signal};
use crate::thread_id::ThreadSelector;
use tracewire_model::hex;
use tracewire_model::text::{Expected, Scanner};

/// A stop reply; also the body of a `%Stop` notification.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StopReply {
    /// `S`: only a signal.
    Signal(Signal),
    /// `T`: a signal, and pairs with details, in the order in which they came.
    Stopped {
        /// The signal; SIGTRAP for breakpoints and the like, 0 when a thread was asked to stop (`vCont;t`).
        signal: Signal,
        /// The further fields.
        fields: Vec<StopField>,
    },
    /// `W`: the process has exited.
    Exited {
        /// Its exit status.
        status: u32,
        /// Which process, with the `multiprocess` feature.
        process: Option<u32>,
    },
    /// `X`: the process was ended by a signal.
    Killed {
        /// The signal.
        signal: Signal,
        /// Which process, with the `multiprocess` feature.
        process: Option<u32>,
    },
    /// `w`: a thread has exited (`QThreadEvents`).
    ThreadExited {
        /// Its exit status.
        status: u64,
        /// Which thread.
        thread: ThreadSelector,
    },
    /// `N`: no resumed thread remains (`no-resumed`).
    NoneResumed,
}

/// A pair of a `T` reply. GDB 7.9 and older take every name that starts with a hexadecimal digit for a register, and GDB skips
/// unknown names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StopField {
    /// A register's contents, so that GDB need not ask.
    Register {
        /// Which.
        register: RegisterNumber,
        /// Its bytes, in target order.
        bytes: RegisterBytes,
    },
    /// `thread`: which thread stopped.
    Thread(ThreadSelector),
    /// `core`: on which cpu.
    Core(u32),
    /// `watch`, `rwatch`, `awatch`: a watchpoint was hit, at the address of the data.
    Watch(WatchKind, Address),
    /// `swbreak`: a software breakpoint was hit, and the pc is the breakpoint's address. Only for a client that
    /// announced the feature: GDB stops with an error otherwise.
    SoftwareBreakpoint,
    /// `hwbreak`: the same of a hardware breakpoint.
    HardwareBreakpoint,
    /// `library`: the list of shared libraries has changed.
    Library,
    /// `replaylog`: running backwards came to an end of what was recorded.
    ReplayLog(ReplayEnd),
    /// `fork`: the new process and its thread.
    Fork(ThreadSelector),
    /// `vfork`: the new process and its thread.
    Vfork(ThreadSelector),
    /// `vforkdone`: the child of a vfork has released its parent's memory.
    VforkDone,
    /// `exec`: the new program's file name.
    Exec(HexBytes),
    /// `syscall_entry`: at the entry of a system call.
    SyscallEntry(u32),
    /// `syscall_return`: at its return.
    SyscallReturn(u32),
    /// `create`: the thread was just created (`QThreadEvents`).
    Create,
    /// A pair that GDB 13 does not have.
    Other {
        /// Its name.
        name: String,
        /// Its value.
        value: Vec<u8>,
    },
}

/// Which kind of watchpoint was hit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WatchKind {
    /// `watch`.
    Write,
    /// `rwatch`.
    Read,
    /// `awatch`.
    Access,
}

/// Which end of a recording was reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReplayEnd {
    /// Its beginning.
    Begin,
    /// Its end.
    End,
}

impl Field for StopReply {
    fn scan(scanner: &mut Scanner<'_>) -> Result<Self, Expected> {
        let start = *scanner;
        Ok(match scanner.byte() {
            Some(b'S') => Self::Signal(two_digits(scanner)?),
            Some(b'T') => {
                let signal = two_digits(scanner)?;
                let mut fields = Vec::new();
                while !scanner.is_at_end() {
                    fields.push(StopField::scan(scanner)?);
                }
                Self::Stopped { signal, fields }
            }
            Some(b'W') => Self::Exited {
                status: Field::scan(scanner)?,
                process: process(scanner)?,
            },
            Some(b'X') => Self::Killed {
                signal: Field::scan(scanner)?,
                process: process(scanner)?,
            },
            Some(b'w') => {
                let status = scanner.hex()?;
                scanner.literal(";")?;
                Self::ThreadExited {
                    status,
                    thread: Field::scan(scanner)?,
                }
            }
            Some(b'N') => Self::NoneResumed,
            _ => return Err(start.expected("a stop reply: S, T, W, X, w or N")),
        })
    }

    fn print(&self, out: &mut Vec<u8>) {
        match self {
            Self::Signal(signal) => {
                out.push(b'S');
                signal.print(out);
            }
            Self::Stopped { signal, fields } => {
                out.push(b'T');
                signal.print(out);
                fields.iter().for_each(|field| field.print(out));
            }
            Self::Exited { status, process } => print_end(b'W', *status, *process, out),
            Self::Killed { signal, process } => {
                print_end(b'X', u32::from(signal.0), *process, out);
            }
            Self::ThreadExited { status, thread } => {
                out.push(b'w');
                status.print(out);
                out.push(b';');
                thread.print(out);
            }
            Self::NoneResumed => out.push(b'N'),
        }
    }
}

/// A signal right before register numbers: exactly two digits.
fn two_digits(scanner: &mut Scanner<'_>) -> Result<Signal, Expected> {
    let start = *scanner;
    let mut digit = || scanner.byte().map(hex::digit).filter(|digit| *digit <= 15);
    match (digit(), digit()) {
        (Some(high), Some(low)) => Ok(Signal(high << 4 | low)),
        _ => Err(start.expected("a signal of two hexadecimal digits")),
    }
}

/// `;process:PID`, or a bare `;` from old stubs, which GDB accepts.
fn process(scanner: &mut Scanner<'_>) -> Result<Option<u32>, Expected> {
    if !scanner.take(";") || scanner.is_at_end() {
        return Ok(None);
    }
    scanner.literal("process:")?;
    Field::scan(scanner).map(Some)
}

/// At least two digits without a process, as clients without `multiprocess` expect, and gdbserver writes it.
fn print_end(letter: u8, number: u32, process: Option<u32>, out: &mut Vec<u8>) {
    out.push(letter);
    hex::put_padded(
        u64::from(number),
        if process.is_none() { 2 } else { 1 },
        out,
    );
    if let Some(process) = process {
        out.extend_from_slice(b";process:");
        process.print(out);
    }
}

impl StopField {
    fn scan(scanner: &mut Scanner<'_>) -> Result<Self, Expected> {
        let start = *scanner;
        let name = scanner.until(|byte| matches!(byte, b':' | b';'));
        scanner.literal(":")?;
        // A value that is documented as empty is skipped, as GDB does "in case we ever decide to make use of it".
        let mut marker = |field: Self| {
            scanner.until(|byte| byte == b';');
            field
        };
        let field = match name {
            b"thread" => Self::Thread(Field::scan(scanner)?),
            b"core" => Self::Core(Field::scan(scanner)?),
            b"watch" => Self::Watch(WatchKind::Write, Field::scan(scanner)?),
            b"rwatch" => Self::Watch(WatchKind::Read, Field::scan(scanner)?),
            b"awatch" => Self::Watch(WatchKind::Access, Field::scan(scanner)?),
            b"swbreak" => marker(Self::SoftwareBreakpoint),
            b"hwbreak" => marker(Self::HardwareBreakpoint),
            b"library" => marker(Self::Library),
            b"replaylog" => match scanner.until(|byte| byte == b';') {
                b"begin" => Self::ReplayLog(ReplayEnd::Begin),
                _ => Self::ReplayLog(ReplayEnd::End),
            },
            b"fork" => Self::Fork(Field::scan(scanner)?),
            b"vfork" => Self::Vfork(Field::scan(scanner)?),
            b"vforkdone" => marker(Self::VforkDone),
            b"exec" => Self::Exec(Field::scan(scanner)?),
            b"syscall_entry" => Self::SyscallEntry(Field::scan(scanner)?),
            b"syscall_return" => Self::SyscallReturn(Field::scan(scanner)?),
            b"create" => marker(Self::Create),
            digits if !digits.is_empty() && digits.iter().all(u8::is_ascii_hexdigit) => {
                let mut number = start;
                let register = RegisterNumber::scan(&mut number)?;
                Self::Register {
                    register,
                    bytes: RegisterBytes::scan(scanner)?,
                }
            }
            name => Self::Other {
                name: std::str::from_utf8(name)
                    .map_err(|_| start.expected("text"))?
                    .to_owned(),
                value: scanner.until(|byte| byte == b';').to_vec(),
            },
        };
        scanner.literal(";")?;
        Ok(field)
    }

    fn print(&self, out: &mut Vec<u8>) {
        let mut name = |text: &str| {
            out.extend_from_slice(text.as_bytes());
            out.push(b':');
        };
        match self {
            Self::Register { register, bytes } => {
                hex::put_padded(u64::from(register.0), 2, out);
                out.push(b':');
                bytes.print(out);
            }
            Self::Thread(thread) => {
                name("thread");
                thread.print(out);
            }
            Self::Core(core) => {
                name("core");
                core.print(out);
            }
            Self::Watch(kind, address) => {
                name(match kind {
                    WatchKind::Write => "watch",
                    WatchKind::Read => "rwatch",
                    WatchKind::Access => "awatch",
                });
                // All digits, as gdbserver writes it.
                hex::put_padded(address.0, 16, out);
            }
            Self::SoftwareBreakpoint => name("swbreak"),
            Self::HardwareBreakpoint => name("hwbreak"),
            Self::Library => name("library"),
            Self::ReplayLog(end) => {
                name("replaylog");
                out.extend_from_slice(match end {
                    ReplayEnd::Begin => b"begin",
                    ReplayEnd::End => b"end",
                });
            }
            Self::Fork(child) => {
                name("fork");
                child.print(out);
            }
            Self::Vfork(child) => {
                name("vfork");
                child.print(out);
            }
            Self::VforkDone => name("vforkdone"),
            Self::Exec(file) => {
                name("exec");
                file.print(out);
            }
            Self::SyscallEntry(number) => {
                name("syscall_entry");
                number.print(out);
            }
            Self::SyscallReturn(number) => {
                name("syscall_return");
                number.print(out);
            }
            Self::Create => name("create"),
            Self::Other { name: other, value } => {
                name(other);
                out.extend_from_slice(value);
            }
        }
        out.push(b';');
    }
}

impl fmt::Display for StopField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Register { register, .. } => write!(f, "register {register}"),
            Self::Thread(thread) => thread.fmt(f),
            Self::Core(core) => write!(f, "on cpu {core}"),
            Self::Watch(WatchKind::Write, address) => write!(f, "write watchpoint at {address}"),
            Self::Watch(WatchKind::Read, address) => write!(f, "read watchpoint at {address}"),
            Self::Watch(WatchKind::Access, address) => write!(f, "access watchpoint at {address}"),
            Self::SoftwareBreakpoint => f.write_str("software breakpoint"),
            Self::HardwareBreakpoint => f.write_str("hardware breakpoint"),
            Self::Library => f.write_str("shared libraries changed"),
            Self::ReplayLog(ReplayEnd::Begin) => f.write_str("beginning of the recording"),
            Self::ReplayLog(ReplayEnd::End) => f.write_str("end of the recording"),
            Self::Fork(child) => write!(f, "forked {child}"),
            Self::Vfork(child) => write!(f, "vforked {child}"),
            Self::VforkDone => f.write_str("vfork done"),
            Self::Exec(file) => write!(f, "executed {file}"),
            Self::SyscallEntry(number) => write!(f, "entering system call {number}"),
            Self::SyscallReturn(number) => write!(f, "returning from system call {number}"),
            Self::Create => f.write_str("thread created"),
            Self::Other { name, .. } => f.write_str(name),
        }
    }
}

impl fmt::Display for StopReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |process: &Option<u32>| match process {
            Some(process) => format!("process {process}"),
            None => "the program".to_owned(),
        };
        match self {
            Self::Signal(signal) => write!(f, "stopped: {signal}"),
            Self::Stopped { signal, fields } => {
                write!(f, "stopped: {signal}")?;
                fields
                    .iter()
                    .filter(|field| !matches!(field, StopField::Register { .. }))
                    .try_for_each(|field| write!(f, ", {field}"))
            }
            Self::Exited { status, process } => {
                write!(f, "{} exited with status {status}", of(process))
            }
            Self::Killed { signal, process } => write!(f, "{} was ended by {signal}", of(process)),
            Self::ThreadExited { status, thread } => {
                write!(f, "{thread} exited with status {status}")
            }
            Self::NoneResumed => f.write_str("no resumed thread is left"),
        }
    }
}

#[cfg(test)]
mod samples;

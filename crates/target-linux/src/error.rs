//! Errors of a live process. The messages say what the user can do.

use std::ffi::OsString;
use std::io;

use nix::errno::Errno;
use tracewire_experiment::TargetError;
use tracewire_model::ThreadId;

/// Why a program could not be started, attached to, or followed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no file of this name, or, for a name without a slash, none on the search path.
    #[error("there is no program `{}`{}", .0.display(), search_hint(.0))]
    NotFound(OsString),
    /// The file may not be executed.
    #[error("`{}` may not be executed: permission denied (is it a directory, or not marked executable?)", .0.display())]
    PermissionDenied(OsString),
    /// The file is no program that the kernel can run.
    #[error("`{}` is not a program that this machine can execute (a script needs a `#!` line)", .0.display())]
    NotExecutable(OsString),
    /// The kernel did not start the program for another reason.
    #[error("`{}` could not be started: {}", .0.display(), .1.desc())]
    Exec(OsString, Errno),
    /// The shell or wrapper has ended with this exit code before it executed the program.
    #[error("During startup program exited with code {1}.")]
    EndedEarly(OsString, i32),
    /// The shell or wrapper was killed before it executed the program.
    #[error("During startup program terminated with signal {1}.")]
    KilledEarly(OsString, i32),
    /// A program or argument holds a zero byte.
    #[error("`{}` holds a zero byte, which no argument can", .0.display())]
    ZeroByte(OsString),
    /// There is no process of this number.
    #[error("there is no process {0}")]
    NoSuchProcess(ThreadId),
    /// The process belongs to another user, or the system does not permit tracing it.
    #[error("process {process} may not be traced: {reason}")]
    NotPermitted {
        /// The process.
        process: ThreadId,
        /// The reason, and what to do.
        reason: String,
    },
    /// Another tracer traces it.
    #[error(
        "process {process} is already traced by process {tracer} ({}), and a process has one tracer: detach that one first",
        name.display()
    )]
    AlreadyTraced {
        /// The process.
        process: ThreadId,
        /// The tracer's process.
        tracer: ThreadId,
        /// The tracer's name.
        name: OsString,
    },
    /// A process that shares the memory may not be traced: a breakpoint in the memory would kill it.
    #[error("process {process} shares its memory with process {other}: {reason}")]
    SharesMemory {
        /// The process.
        process: ThreadId,
        /// The other process.
        other: ThreadId,
        /// Why that one may not be traced.
        reason: Box<Error>,
    },
    /// A kernel thread.
    #[error("process {0} is a thread of the kernel and cannot be traced")]
    KernelThread(ThreadId),
    /// It has ended and is not reaped.
    #[error("process {0} has ended already (it waits for its parent to take notice)")]
    Zombie(ThreadId),
    /// This process itself.
    #[error("process {0} is the tracer itself")]
    OwnProcess(ThreadId),
    /// A 32-bit program.
    #[error("process {0} runs a program for another machine; only programs for x86 can be traced")]
    NotX86(ThreadId),
    /// The program has ended.
    #[error("process {0} has ended")]
    Ended(ThreadId),
    /// The kernel refused something.
    #[error("{call} failed for process {process}: {}", .reason.desc())]
    System {
        /// The system call.
        call: &'static str,
        /// The process or thread that the call was about.
        process: ThreadId,
        /// The kernel's reason.
        reason: Errno,
    },
    /// A file below `/proc` could not be read.
    #[error("{file} of process {process}: {reason}")]
    Proc {
        /// Which file.
        file: &'static str,
        /// The process that the file belongs to.
        process: ThreadId,
        /// Why.
        reason: io::Error,
    },
}

impl Error {
    pub(crate) fn system(call: &'static str, process: i32, reason: Errno) -> Self {
        Self::System {
            call,
            process: thread_id(process),
            reason,
        }
    }

    pub(crate) fn proc(file: &'static str, process: i32, reason: io::Error) -> Self {
        Self::Proc {
            file,
            process: thread_id(process),
            reason,
        }
    }
}

/// Translates a failed call into an error of the experiment.
pub(crate) fn target_error(call: &'static str, thread: i32, error: Errno) -> TargetError {
    match error {
        Errno::ESRCH => TargetError::Gone(thread_id(thread)),
        error => TargetError::System {
            call,
            thread: thread_id(thread),
            reason: error.desc().to_owned(),
        },
    }
}

/// The kernel's thread number as the project's.
pub(crate) fn thread_id(thread: i32) -> ThreadId {
    ThreadId(thread.cast_unsigned())
}

fn search_hint(program: &OsString) -> &'static str {
    if program.as_encoded_bytes().contains(&b'/') {
        ""
    } else {
        " on the search path (PATH)"
    }
}

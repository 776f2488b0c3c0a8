//! Attaching to a process that runs, and saying why it cannot be.

use std::collections::BTreeSet;
use std::fs;

use nix::errno::Errno;

use crate::error::{Error, thread_id};
use crate::maps::{ThreadStatus, threads};
use crate::patience::wait_within;
use crate::ptrace::{Running, Status, Tid};
use crate::wait_queue;
use tracewire_fail_point::fail_point;

/// Starts tracing every thread of a process, and asks each to stop as soon as it is traced: those that are busy would leave
/// this one no processor to reach the others. Threads that are born meanwhile are traced by the kernel's doing and tell of
/// themselves.
pub(crate) fn seize(process: Tid) -> Result<Vec<(Tid, Running)>, Error> {
    if process == std::process::id().cast_signed() {
        return Err(Error::OwnProcess(thread_id(process)));
    }
    let mut seized = Vec::new();
    let mut seen = BTreeSet::new();
    loop {
        let fresh: Vec<Tid> = threads(process)
            .map_err(|_| Error::NoSuchProcess(thread_id(process)))?
            .into_iter()
            .filter(|thread| !seen.contains(thread))
            .collect();
        if fresh.is_empty() {
            break;
        }
        for thread in fresh {
            seen.insert(thread);
            match Running::seize(thread) {
                Ok(running) => {
                    fail_point!("attach/seized");
                    running.interrupt();
                    seized.push((thread, running));
                    fail_point!("attach/interrupted");
                }
                // Ended since it was listed, or born to a thread that is already traced.
                Err(_) if thread != process && (is_gone(thread) || is_ours(thread)) => {}
                // A leader that has ended before its threads cannot be traced, nor need it be.
                Err(Errno::EPERM)
                    if thread == process && is_gone(thread) && seen_others(process) => {}
                Err(error) => {
                    let error = refusal(process, thread, error);
                    abandon(seized);
                    return Err(error);
                }
            }
        }
    }
    if seized.is_empty() {
        return Err(refusal(process, process, Errno::ESRCH));
    }
    Ok(seized)
}

/// Lets threads go that nothing has been done to yet, but that they were asked to stop.
pub(crate) fn abandon(threads: Vec<(Tid, Running)>) {
    for (thread, running) in threads {
        match wait_within(thread) {
            Ok(Some(Status::Exited(_) | Status::Killed(..))) | Err(_) => {}
            Ok(Some(Status::Signal(signal))) => wait_queue::release(running.stopped(), signal),
            Ok(Some(_)) => wait_queue::release(running.stopped(), 0),
            Ok(None) => wait_queue::let_go(thread),
        }
    }
}

/// Whether the thread has ended, reaped or not.
pub(crate) fn is_gone(thread: Tid) -> bool {
    ThreadStatus::read(thread)
        .ok()
        .and_then(|status| Some(status.field("State")?.starts_with(['Z', 'X'])))
        .unwrap_or(true)
}

fn seen_others(process: Tid) -> bool {
    threads(process).is_ok_and(|threads| threads.len() > 1)
}

/// Whether the calling thread traces it.
pub(crate) fn is_ours(thread: Tid) -> bool {
    // SAFETY: gettid cannot fail and touches nothing.
    let own = unsafe { libc::gettid() };
    ThreadStatus::read(thread).is_ok_and(|status| status.number("TracerPid") == Some(own))
}

/// Finds out why the kernel has refused.
pub(crate) fn refusal(process: Tid, thread: Tid, error: Errno) -> Error {
    let id = thread_id(process);
    let Ok(status) = ThreadStatus::read(thread) else {
        return Error::NoSuchProcess(id);
    };
    let tracer = status.number("TracerPid").unwrap_or(0);
    if status
        .field("State")
        .is_some_and(|state| state.starts_with(['Z', 'X']))
    {
        return Error::Zombie(id);
    }
    if status.number("Kthread") == Some(1)
        || fs::metadata(format!("/proc/{thread}/exe"))
            .is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
    {
        return Error::KernelThread(id);
    }
    if tracer != 0 {
        // The file names the tracing thread; people know processes.
        let tracer = ThreadStatus::read(tracer)
            .ok()
            .and_then(|status| status.number("Tgid"))
            .unwrap_or(tracer);
        return Error::AlreadyTraced {
            process: id,
            tracer: thread_id(tracer),
        };
    }
    if error == Errno::EPERM || error == Errno::EACCES {
        return Error::NotPermitted {
            process: id,
            reason: permission_hint(&status),
        };
    }
    Error::system("ptrace(PTRACE_SEIZE)", thread, error)
}

fn permission_hint(status: &ThreadStatus) -> String {
    // SAFETY: geteuid cannot fail and touches nothing.
    let own = unsafe { libc::geteuid() };
    let owner = status.number("Uid").map(i32::cast_unsigned);
    if let Some(owner) = owner.filter(|owner| *owner != own) {
        return format!(
            "it belongs to user {owner}, and this is user {own}; run as root or as that user"
        );
    }
    match fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope") {
        Ok(scope) if scope.trim() != "0" => format!(
            "/proc/sys/kernel/yama/ptrace_scope is {}; run as root, or set it to 0",
            scope.trim()
        ),
        _ => "the kernel refuses (it may have changed its user or capabilities); run as root"
            .to_owned(),
    }
}

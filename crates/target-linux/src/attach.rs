//! Attaching to a running process, and the reasons why it is refused.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;

use nix::errno::Errno;
use nix::unistd::{Uid, User, geteuid};

use crate::error::{Error, thread_id};
use crate::maps::{ThreadStatus, threads};
use crate::ptrace::{Running, Status, Tid};
use crate::wait_limit::wait_within;
use crate::wait_queue;
use tracewire_fail_point::fail_point;

/// Starts tracing every thread of a process. Each is asked to stop as soon as it is traced: busy threads could
/// otherwise leave this one no processor to reach the others. The kernel traces and reports threads that are created
/// meanwhile.
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
                // Ended since it was listed, or created by a thread that is already traced.
                Err(_) if thread != process && (is_gone(thread) || is_ours(thread)) => {}
                // A leader that has ended before its threads cannot be traced, and need not be.
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

/// Detaches from threads that have only been asked to stop.
pub(crate) fn abandon(threads: Vec<(Tid, Running)>) {
    for (thread, running) in threads {
        match wait_within(thread) {
            Ok(Some(Status::Exited(_) | Status::Killed(..))) | Err(_) => {}
            Ok(Some(Status::Signal(signal))) => wait_queue::release(running.stopped(), signal),
            Ok(Some(_)) => wait_queue::release(running.stopped(), 0),
            Ok(None) => wait_queue::detach(thread),
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

/// Finds the reason why the kernel has refused.
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
        // The file names the tracing thread; the message names its process.
        let tracer = ThreadStatus::read(tracer)
            .ok()
            .and_then(|status| status.number("Tgid"))
            .unwrap_or(tracer);
        let name = fs::read(format!("/proc/{tracer}/comm")).unwrap_or_default();
        return Error::AlreadyTraced {
            process: id,
            tracer: thread_id(tracer),
            name: OsStr::from_bytes(name.trim_ascii_end()).to_owned(),
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

/// Why this user may not trace a process, and how to permit it: the rules of ptrace(2), "Ptrace access mode checking".
fn permission_hint(status: &ThreadStatus) -> String {
    let own = geteuid().as_raw();
    let users = status.numbers("Uid");
    let other = users.iter().copied().find(|user| *user != own);
    if let Some(other) = other {
        let (owner, user) = (user_name(other), user_name(own));
        return format!("it belongs to {owner}, and this is {user}; run as root or as that user");
    }
    let ours = ThreadStatus::read(std::process::id().cast_signed());
    let ours = ours.map_or(0, |ours| ours.set("CapPrm"));
    if status.set("CapPrm") & !ours != 0 {
        return "it has capabilities that this user does not have; run as root".to_owned();
    }
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
    scope_words(scope.as_deref().unwrap_or("0").trim()).to_owned()
}

/// Describes Yama's setting for who may trace (Documentation/admin-guide/LSM/Yama.rst of Linux).
fn scope_words(scope: &str) -> &'static str {
    match scope {
        "1" => {
            "only a parent may trace its process here (/proc/sys/kernel/yama/ptrace_scope is 1); run as root, start the program with \
             record, or: sudo sysctl kernel.yama.ptrace_scope=0"
        }
        "2" => "only root may trace here (/proc/sys/kernel/yama/ptrace_scope is 2); run as root",
        "3" => {
            "nobody may trace until the machine is started again (/proc/sys/kernel/yama/ptrace_scope is 3)"
        }
        _ => {
            "the kernel refuses: it has changed its user or its capabilities, or does not let itself be dumped; run as root"
        }
    }
}

fn user_name(user: u32) -> String {
    match User::from_uid(Uid::from_raw(user)) {
        Ok(Some(known)) => format!("{} (user {user})", known.name),
        // Not every number has a name, and the number is enough.
        Ok(None) | Err(_) => format!("user {user}"),
    }
}

/// The user whose rights the program of a process should have by the set-user-ID bit of its file, and does not have.
pub(crate) fn refused_user(process: Tid) -> Option<String> {
    let file = fs::metadata(format!("/proc/{process}/exe")).ok()?;
    let status = ThreadStatus::read(process).ok()?;
    let effective = *status.numbers("Uid").get(1)?;
    (file.mode() & libc::S_ISUID != 0 && file.uid() != effective).then(|| user_name(file.uid()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_setting_of_yama_has_its_way_out() {
        assert!(scope_words("1").contains("sudo sysctl"));
        assert!(scope_words("2").ends_with("run as root"));
        assert!(scope_words("3").contains("nobody"));
        assert!(scope_words("0").contains("dumped"));
    }

    #[test]
    fn users_have_names_where_there_are_any() {
        assert_eq!(user_name(0), "root (user 0)");
        assert_eq!(user_name(4_000_000_000), "user 4000000000");
    }
}

//! Starting a program so that it stops before its first instruction.

use std::env;
use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::unistd::pipe2;

use crate::error::Error;
use crate::foreground;
use crate::launch::Launch;
use crate::ptrace::{Resume, Running, Status, Stopped, Tid};
use crate::wait_queue::{self, wait_for};

/// What a started program shares with the tracer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Surroundings {
    /// Everything, as if a shell had started it.
    Ours,
    /// Everything except the process group. It gets the terminal, if we have it, with the terminal's signals.
    OwnGroup,
    /// As [`Self::OwnGroup`], but it reads nothing from our standard input, and its output goes to our standard error:
    /// both streams are in use.
    WithoutStreams,
}

/// Starts the program. It is stopped at the entry of its new image.
///
/// Arguments, environment, working directory and descriptors are as a shell would pass them on. No signal is blocked
/// and `SIGPIPE` is not ignored, even if they are for us.
pub(crate) fn spawn(launch: &Launch) -> Result<Stopped, Error> {
    let (program, arguments, programs) = launch.command()?;
    let candidates = candidates(&program)?;
    let argv = strings(
        std::iter::once(program.as_os_str()).chain(arguments.iter().map(OsString::as_os_str)),
    )?;
    let environment = strings(launch.variables().iter().map(OsString::as_os_str))?;
    let directory = strings(
        launch
            .directory
            .iter()
            .map(|directory| directory.as_os_str()),
    )?;
    let (argv_pointers, environment_pointers) = (pointers(&argv), pointers(&environment));

    let (go_read, go_write) = pipe()?;
    let (error_read, error_write) = pipe()?;
    // SAFETY: between the fork and its exec the child calls only functions that are safe in a signal handler,
    // on memory that was prepared before.
    let child = Errno::result(unsafe { libc::fork() })
        .map_err(|error| Error::system("fork", std::process::id().cast_signed(), error))?;
    if child == 0 {
        let candidates: &[CString] = &candidates;
        start(
            candidates,
            &argv_pointers,
            &environment_pointers,
            (go_read.as_raw_fd(), go_write.as_raw_fd()),
            error_write.as_raw_fd(),
            &Before {
                surroundings: launch.surroundings,
                directory: directory.first(),
                randomized: launch.randomized,
            },
        );
    }
    drop((go_read, error_write));
    let seized = Running::seize(child);
    let running = match seized {
        Ok(running) => running,
        Err(error) => {
            // Without the byte in the pipe the child ends by itself.
            drop(go_write);
            let _ = wait_for(child);
            return Err(Error::system("ptrace(PTRACE_SEIZE)", child, error));
        }
    };
    if launch.surroundings == Surroundings::OwnGroup {
        // The parent does it too, so that it has happened before the terminal is given away.
        let child = nix::unistd::Pid::from_raw(child);
        let _ = nix::unistd::setpgid(child, child);
        foreground::give(child.as_raw());
    }
    let _ = File::from(go_write).write_all(&[1]);
    follow_to_exec(child, running, error_read, &program, programs)
}

fn follow_to_exec(
    child: Tid,
    mut running: Running,
    error_read: OwnedFd,
    program: &OsStr,
    mut programs: usize,
) -> Result<Stopped, Error> {
    let mut started = false;
    let mut last = false;
    loop {
        let status = wait_for(child).map_err(|error| Error::system("waitpid", child, error))?;
        match status {
            Status::Event(libc::PTRACE_EVENT_EXEC) => {
                // From the middle of the call to its end, where the first instruction is next.
                let stopped = running.stopped();
                stopped.interrupt();
                running = stopped.resume(Resume::Continue, 0);
                started = true;
                programs = programs.saturating_sub(1);
                last = programs == 0;
            }
            Status::Interrupted if last => return Ok(running.stopped()),
            Status::Exited(code) if started => {
                return Err(Error::EndedEarly(program.to_owned(), code));
            }
            Status::Killed(signal, _) if started => {
                return Err(Error::KilledEarly(program.to_owned(), signal));
            }
            // A child of the shell or wrapper: it is not traced.
            Status::Event(
                libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK | libc::PTRACE_EVENT_CLONE,
            ) => {
                let stopped = running.stopped();
                if let Some(child) = stopped
                    .event_message()
                    .ok()
                    .and_then(|child| Tid::try_from(child).ok())
                    && wait_for(child).is_ok()
                {
                    wait_queue::release(Running::born(child).stopped(), 0);
                }
                running = stopped.resume(Resume::Continue, 0);
            }
            Status::Exited(_) | Status::Killed(..) => {
                let mut number = [0; 4];
                let _ = File::from(error_read).read_exact(&mut number);
                return Err(exec_error(
                    program,
                    Errno::from_raw(i32::from_ne_bytes(number)),
                ));
            }
            Status::Signal(signal) => running = running.stopped().resume(Resume::Continue, signal),
            _ => running = running.stopped().resume(Resume::Continue, 0),
        }
    }
}

fn exec_error(program: &OsStr, error: Errno) -> Error {
    let program = program.to_owned();
    match error {
        Errno::ENOENT | Errno::ENOTDIR => Error::NotFound(program),
        Errno::EACCES | Errno::EPERM => Error::PermissionDenied(program),
        Errno::ENOEXEC => Error::NotExecutable(program),
        error => Error::Exec(program, error),
    }
}

/// The work of the child before it executes the program.
struct Before<'a> {
    surroundings: Surroundings,
    directory: Option<&'a CString>,
    randomized: bool,
}

/// The child's side: waits for the byte in the pipe, then executes the program.
fn start(
    candidates: &[CString],
    argv: &[*const libc::c_char],
    environment: &[*const libc::c_char],
    (go_read, go_write): (i32, i32),
    errors: i32,
    before: &Before<'_>,
) -> ! {
    let surroundings = before.surroundings;
    let mut answer = Errno::ENOENT as i32;
    // SAFETY: only functions that are safe in a signal handler; all pointers are into memory that the fork has
    // copied, each list ends with a null pointer, and the buffers are as long as said.
    unsafe {
        let mut none = std::mem::MaybeUninit::uninit();
        libc::sigemptyset(none.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut());
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        if surroundings != Surroundings::Ours {
            libc::setpgid(0, 0);
        }
        if surroundings == Surroundings::WithoutStreams {
            let nothing = libc::open(c"/dev/null".as_ptr(), libc::O_RDONLY);
            libc::dup2(nothing, 0);
            libc::close(nothing);
            libc::dup2(2, 1);
        }
        if let Some(directory) = before.directory
            && libc::chdir(directory.as_ptr()) != 0
        {
            answer = *libc::__errno_location();
            libc::write(errors, (&raw const answer).cast(), 4);
            libc::_exit(127)
        }
        if !before.randomized {
            // If it is not permitted, addresses are random.
            let persona = libc::personality(0xffff_ffff);
            if persona != -1 {
                libc::personality((persona | libc::ADDR_NO_RANDOMIZE) as libc::c_ulong);
            }
        }
        // If the parent's end is closed, no byte comes; the child notices only if no other descriptor of it is open.
        libc::close(go_write);
        let mut word = 0_u8;
        if libc::read(go_read, (&raw mut word).cast(), 1) == 1 {
            for candidate in candidates {
                libc::execve(candidate.as_ptr(), argv.as_ptr(), environment.as_ptr());
                let error = *libc::__errno_location();
                // As in the C library's execvp: the search continues, and a refused file is remembered.
                match error {
                    libc::ENOENT | libc::ENOTDIR => {}
                    libc::EACCES => answer = error,
                    _ => {
                        answer = error;
                        break;
                    }
                }
            }
        }
        libc::write(errors, (&raw const answer).cast(), 4);
        libc::_exit(127)
    }
}

/// The files that the name may mean, in the order in which they are tried.
fn candidates(program: &OsStr) -> Result<Vec<CString>, Error> {
    if program.is_empty() {
        return Err(Error::NotFound(program.to_owned()));
    }
    if program.as_bytes().contains(&b'/') {
        return strings(std::iter::once(program));
    }
    let path = env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    let files: Vec<OsString> = env::split_paths(&path)
        .map(|directory| {
            let directory = if directory.as_os_str().is_empty() {
                Path::new(".")
            } else {
                &directory
            };
            directory.join(program).into_os_string()
        })
        .collect();
    strings(files.iter().map(OsString::as_os_str))
}

fn strings<'a>(items: impl Iterator<Item = &'a OsStr>) -> Result<Vec<CString>, Error> {
    items
        .map(|item| {
            CString::new(item.as_bytes())
                .map_err(|error| Error::ZeroByte(OsString::from_vec(error.into_vec())))
        })
        .collect()
}

fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    strings
        .iter()
        .map(|string| string.as_ptr())
        .chain([std::ptr::null()])
        .collect()
}

fn pipe() -> Result<(OwnedFd, OwnedFd), Error> {
    pipe2(OFlag::O_CLOEXEC)
        .map_err(|error| Error::system("pipe2", std::process::id().cast_signed(), error))
}

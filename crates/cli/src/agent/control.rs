//! The agent's control interface: a Unix socket, one JSON object a line, one answer to each.
//!
//! The kernel identifies clients. Root, the agent's own user, and the members of a group in the configuration may connect. A
//! client's input, number and time are limited.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use anyhow::{Context as _, bail};
use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;
use nix::unistd::{Gid, Uid, User, getgrouplist};
use serde_json::{Value, json};

use super::config::LONGEST;
use super::request::{Asked, News, Request};

/// How many clients are served at a time.
const CLIENTS: usize = 16;
/// How long a client may take for a line.
const PATIENCE: Duration = Duration::from_secs(10);
/// How many requests a client may make.
const REQUESTS: usize = 1000;

/// The longest line of a request: that of a configuration, each of whose characters may be escaped.
const LONGEST_LINE: u64 = 6 * LONGEST + 100;

/// The socket, which is removed with this value.
#[derive(Debug)]
pub struct Control {
    path: PathBuf,
}

impl Control {
    /// Listens, in a separate thread.
    ///
    /// # Errors
    /// When the socket cannot be made.
    pub fn listen(path: &Path, group: Option<Gid>, news: Sender<News>) -> anyhow::Result<Self> {
        let shown = || format!("the socket {}", path.display());
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).with_context(shown)?;
        }
        remove_stale(path)?;
        let listener = bind(path).with_context(shown)?;
        if let Some(group) = group {
            nix::unistd::chown(path, None, Some(group)).with_context(shown)?;
            fs::set_permissions(path, fs::Permissions::from_mode(0o660)).with_context(shown)?;
        }
        let clients = Arc::new(AtomicUsize::new(0));
        std::thread::Builder::new()
            .name("control".to_owned())
            .spawn(move || {
                for stream in listener.incoming() {
                    match stream {
                        Ok(stream) => accept(stream, group, &news, &clients),
                        // Without free descriptors, clients wait until there are some.
                        Err(_) => std::thread::sleep(Duration::from_millis(100)),
                    }
                }
            })
            .context("cannot start a thread")?;
        Ok(Self {
            path: path.to_owned(),
        })
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // If it remains, the next agent removes it.
        let _ = fs::remove_file(&self.path);
    }
}

/// Makes the socket, accessible only to its owner from the first moment on.
fn bind(path: &Path) -> std::io::Result<UnixListener> {
    let before = nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o177));
    let bound = UnixListener::bind(path);
    nix::sys::stat::umask(before);
    bound
}

/// Removes the socket of an agent that has ended.
fn remove_stale(path: &Path) -> anyhow::Result<()> {
    let Ok(metadata) = fs::symlink_metadata(path) else {
        return Ok(());
    };
    if !metadata.file_type().is_socket() {
        bail!("{} is there, and is no socket", path.display());
    }
    if UnixStream::connect(path).is_ok() {
        bail!("another agent listens at {}", path.display());
    }
    if metadata.uid() != nix::unistd::geteuid().as_raw() && !nix::unistd::geteuid().is_root() {
        bail!("{} belongs to another user", path.display());
    }
    fs::remove_file(path).with_context(|| path.display().to_string())
}

/// Serves a client in a separate thread, if it is permitted and there are not too many.
fn accept(stream: UnixStream, group: Option<Gid>, news: &Sender<News>, clients: &Arc<AtomicUsize>) {
    let limited = stream
        .set_read_timeout(Some(PATIENCE))
        .and_then(|()| stream.set_write_timeout(Some(PATIENCE)));
    let user = match peer(&stream, group) {
        Ok(Some(user)) if limited.is_ok() => user,
        _ => return refuse(&stream, "this user may not talk to the agent"),
    };
    if clients.fetch_add(1, Ordering::AcqRel) >= CLIENTS {
        clients.fetch_sub(1, Ordering::AcqRel);
        return refuse(&stream, "too many clients");
    }
    let (news, own) = (news.clone(), Arc::clone(clients));
    let begun = std::thread::Builder::new()
        .name("client".to_owned())
        .spawn(move || {
            // A client that disconnects, stalls or sends invalid requests does not affect the agent.
            let _ = serve(&stream, &user, &news);
            own.fetch_sub(1, Ordering::AcqRel);
        });
    if begun.is_err() {
        clients.fetch_sub(1, Ordering::AcqRel);
    }
}

fn refuse(mut stream: &UnixStream, why: &str) {
    // A client that is not permitted may not read either.
    let _ = writeln!(stream, "{}", json!({ "error": why }));
}

/// The name of the user at the other end, if that may be a client.
fn peer(stream: &UnixStream, group: Option<Gid>) -> nix::Result<Option<String>> {
    let peer = getsockopt(stream, PeerCredentials)?;
    let user = User::from_uid(Uid::from_raw(peer.uid())).ok().flatten();
    let name = user
        .as_ref()
        .map_or_else(|| peer.uid().to_string(), |user| user.name.clone());
    let is_own = peer.uid() == 0 || peer.uid() == nix::unistd::geteuid().as_raw();
    let is_member = |group: Gid| {
        let of_user = user.as_ref().and_then(|user| {
            let name = std::ffi::CString::new(user.name.as_str()).ok()?;
            getgrouplist(&name, user.gid).ok()
        });
        peer.gid() == group.as_raw() || of_user.is_some_and(|groups| groups.contains(&group))
    };
    Ok((is_own || group.is_some_and(is_member)).then_some(name))
}

/// Answers a client's requests.
fn serve(stream: &UnixStream, user: &str, news: &Sender<News>) -> anyhow::Result<()> {
    let mut reader = BufReader::new(stream);
    for _ in 0..REQUESTS {
        let mut line = Vec::new();
        let length = reader
            .by_ref()
            .take(LONGEST_LINE)
            .read_until(b'\n', &mut line)?;
        if length == 0 {
            return Ok(());
        }
        let answer = match Request::parse(&line) {
            _ if line.last() != Some(&b'\n') => {
                refuse(stream, "expected one JSON object in a line");
                return Ok(());
            }
            Err(error) => json!({ "error": format!("expected a request: {error}") }),
            Ok(request) => {
                let (answer, answered) = channel();
                let user = user.to_owned();
                news.send(News::Asked(Asked {
                    request,
                    user,
                    answer,
                }))?;
                answered.recv()?
            }
        };
        let mut stream = stream;
        stream.write_all(format!("{answer}\n").as_bytes())?;
    }
    Ok(())
}

/// Sends a request to an agent, as its client.
///
/// # Errors
/// When there is no agent, and when it refuses.
pub fn ask(path: &Path, request: &Request) -> anyhow::Result<Value> {
    let shown = || format!("no agent answers at {}", path.display());
    let mut stream = UnixStream::connect(path).with_context(shown)?;
    stream.set_read_timeout(Some(3 * PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let line = serde_json::to_string(request)?;
    // A server that refuses the client has sent the reason and closed its end.
    let written = stream.write_all(format!("{line}\n").as_bytes());
    let mut answer = String::new();
    let read = BufReader::new(&stream).read_line(&mut answer);
    if answer.is_empty() {
        written.with_context(shown)?;
        read.with_context(shown)?;
        bail!("{}", shown());
    }
    let answer: Value = serde_json::from_str(&answer).with_context(shown)?;
    match answer["error"].as_str() {
        Some(error) => bail!("{error}"),
        None => Ok(answer),
    }
}

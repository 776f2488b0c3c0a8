//! Which clients are accepted.
//!
//! The protocol has no users, and a client may do whatever the server's user may do. So:
//!
//! - A connection whose first byte begins no packet is closed at once ([`is_protocol`]). A web page that makes a
//!   browser post packets fails, since the request begins with its method.
//! - Only its owner can connect to a Unix socket, and the peer must be the server's own user or root.
//! - Any user of the machine can connect to TCP, also on loopback, so a client may be asked for a [`Token`]
//!   ([`crate::handshake`]).

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use nix::libc;
use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;
use nix::unistd::geteuid;

/// Whether a client of the protocol may begin with a byte: an acknowledgement, a packet, an interrupt.
pub(crate) const fn is_protocol(first: u8) -> bool {
    matches!(first, b'+' | b'-' | b'$' | 0x03)
}

/// Whether the other end of a Unix socket is the server's own user, or root.
pub(crate) fn is_own(stream: &UnixStream) -> io::Result<bool> {
    let peer = getsockopt(stream, PeerCredentials)?;
    Ok(peer.uid() == 0 || peer.uid() == geteuid().as_raw())
}

/// The secret that a client must send: the content of a file that only its owner can read.
#[derive(Clone)]
pub struct Token(Vec<u8>);

/// Why a file gives no token.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// It cannot be read, or made.
    #[error("{} cannot be read as the file of a token", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Others can read or write it.
    #[error("{} can be read or written by others than its owner: chmod 600 it", path.display())]
    Open {
        /// Which file.
        path: PathBuf,
    },
    /// It belongs to another user.
    #[error("{} belongs to another user", path.display())]
    Foreign {
        /// Which file.
        path: PathBuf,
    },
    /// It holds no token.
    #[error(
        "{}: expected a token of {SHORTEST} to {LONGEST} visible characters in the first line",
        path.display()
    )]
    Content {
        /// Which file.
        path: PathBuf,
    },
}

/// The fewest characters of a token.
const SHORTEST: usize = 16;
/// The most.
const LONGEST: usize = 1024;

impl Token {
    /// Reads the token of a file; a missing file is made, with a random one.
    ///
    /// # Errors
    /// When the file is empty, or others can read it.
    pub fn of_file(path: &Path) -> Result<Self, TokenError> {
        let failed = |source| TokenError::File {
            path: path.to_owned(),
            source,
        };
        let path = path.to_owned();
        match OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
        {
            Ok(mut made) => {
                let token = random().map_err(failed)?;
                made.write_all(&token)
                    .and_then(|()| made.write_all(b"\n"))
                    .map_err(failed)?;
                return Ok(Self(token));
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(failed(error)),
        }
        let file = File::open(&path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if metadata.uid() != 0 && metadata.uid() != geteuid().as_raw() {
            return Err(TokenError::Foreign { path });
        }
        if metadata.mode() & 0o077 != 0 {
            return Err(TokenError::Open { path });
        }
        let mut text = Vec::new();
        file.take(LONGEST as u64 + 2)
            .read_to_end(&mut text)
            .map_err(failed)?;
        let line = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let token = line.trim_ascii();
        if !(SHORTEST..=LONGEST).contains(&token.len()) || !token.iter().all(u8::is_ascii_graphic) {
            return Err(TokenError::Content { path });
        }
        Ok(Self(token.to_vec()))
    }

    /// Whether a client's word is the token. The comparison takes the same time for any word.
    pub(crate) fn is(&self, word: &[u8]) -> bool {
        let longest = self.0.len().max(word.len());
        let at = |bytes: &[u8], place: usize| bytes.get(place).copied().unwrap_or(0);
        let differing =
            (0..longest).fold(0, |sum, place| sum | at(&self.0, place) ^ at(word, place));
        differing == 0 && self.0.len() == word.len()
    }
}

/// The token is not shown in debug output.
impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}

/// Random digits.
fn random() -> io::Result<Vec<u8>> {
    let mut bytes = [0; 24];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes
        .iter()
        .flat_map(|byte| format!("{byte:02x}").into_bytes())
        .collect())
}

/// The default path for a Unix socket: in the user's runtime directory, if there is one.
pub(crate) fn own_socket() -> PathBuf {
    let folder = std::env::var_os("XDG_RUNTIME_DIR")
        .map(PathBuf::from)
        .filter(|folder| fs::metadata(folder).is_ok_and(|of| of.is_dir()))
        .unwrap_or_else(std::env::temp_dir);
    folder.join(format!("tracewire-{}.sock", std::process::id()))
}

/// Removes the socket of a server that has ended: one that belongs to this user and has no listener.
pub(crate) fn remove_stale_socket(path: &Path) {
    use std::os::unix::fs::FileTypeExt;
    let is_ours = fs::symlink_metadata(path)
        .is_ok_and(|of| of.file_type().is_socket() && of.uid() == geteuid().as_raw());
    if is_ours
        && let Err(error) = UnixStream::connect(path)
        && error.raw_os_error() == Some(libc::ECONNREFUSED)
    {
        // If it cannot be removed, the bind that follows fails.
        let _ = fs::remove_file(path);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::{Token, TokenError};

    #[test]
    fn a_token_is_made_once_and_read_by_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let made = Token::of_file(&path).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.trim().len() >= 32, "{text}");
        let read = Token::of_file(&path).unwrap();
        for token in [&made, &read] {
            assert!(token.is(text.trim().as_bytes()));
            for wrong in ["", &text, &text[1..], &text.trim()[1..], "guess"] {
                assert!(!token.is(wrong.as_bytes()), "{wrong}");
            }
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(
            Token::of_file(&path),
            Err(TokenError::Open { .. })
        ));
        let short = folder.path().join("short");
        fs::write(&short, "secret\n").unwrap();
        fs::set_permissions(&short, fs::Permissions::from_mode(0o600)).unwrap();
        assert!(matches!(
            Token::of_file(&short),
            Err(TokenError::Content { .. })
        ));
    }
}

//! Where to listen.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use crate::access::own_socket;

/// Where to listen for a debugger, as gdbserver's command line has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ListenAddress {
    /// `[HOST]:PORT`. Without a host it is this machine alone, which is where it differs from gdbserver, which then
    /// takes connections from anywhere; `*` as the host asks for that.
    Tcp {
        /// A name or an address; empty for this machine alone.
        host: String,
        /// The port; 0 for any that is free.
        port: u16,
    },
    /// The path of a Unix socket, which only its owner and root can connect to: a word with a `/` in it, or `unix:` and any
    /// path, which must not exist yet; `unix:` alone is a path of the server's choice.
    Unix(PathBuf),
    /// `-` or `stdio`: standard input and output.
    Stdio,
}

/// A text that is no address to listen at.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "`{text}` is no address to listen at: expected [HOST]:PORT, the path of a Unix socket, or -"
)]
pub struct AddressError {
    /// The text.
    pub text: String,
}

impl FromStr for ListenAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let error = || AddressError {
            text: text.to_owned(),
        };
        if matches!(text, "-" | "stdio") {
            return Ok(Self::Stdio);
        }
        if let Some(path) = text.strip_prefix("unix:") {
            return Ok(Self::Unix(if path.is_empty() {
                own_socket()
            } else {
                path.into()
            }));
        }
        if text.contains('/') {
            return Ok(Self::Unix(text.into()));
        }
        // gdbserver takes these two for the family of the address, which the host's own spelling tells as well.
        let text = ["tcp:", "tcp4:", "tcp6:"]
            .iter()
            .find_map(|kind| text.strip_prefix(kind))
            .unwrap_or(text);
        let (host, port) = text.rsplit_once(':').ok_or_else(error)?;
        let host = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
            .unwrap_or(host);
        Ok(Self::Tcp {
            host: host.to_owned(),
            port: port.parse().map_err(|_| error())?,
        })
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "{}", path.display()),
            Self::Stdio => f.write_str("-"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ListenAddress;

    #[test]
    fn addresses_are_read_as_gdbserver_reads_them() {
        let tcp = |host: &str, port| ListenAddress::Tcp {
            host: host.to_owned(),
            port,
        };
        for (text, expected) in [
            (":1234", tcp("", 1234)),
            ("localhost:0", tcp("localhost", 0)),
            ("[::1]:80", tcp("::1", 80)),
            ("*:1", tcp("*", 1)),
            ("tcp4:host:7", tcp("host", 7)),
            ("./socket", ListenAddress::Unix("./socket".into())),
            ("unix:socket", ListenAddress::Unix("socket".into())),
            ("unix:", ListenAddress::Unix(super::own_socket())),
            ("-", ListenAddress::Stdio),
        ] {
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
        for text in ["", "1234", "host:port", ":70000"] {
            assert!(text.parse::<ListenAddress>().is_err(), "{text}");
        }
    }
}

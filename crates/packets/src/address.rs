//! Where a connection of the protocol is.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Where a server listens for a debugger, or where a stub is, as gdbserver's command line has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ConnectionAddress {
    /// `[HOST]:PORT`. Without a host it is loopback only, where gdbserver would accept connections from anywhere; the host `*`
    /// requests that.
    Tcp {
        /// A name or an address; empty for loopback.
        host: String,
        /// The port; 0 for any that is free.
        port: u16,
    },
    /// The path of a Unix socket: a word with a `/` in it, or `unix:` and any path. It is empty for `unix:` alone.
    Unix(PathBuf),
    /// `-` or `stdio`: standard input and output.
    Stdio,
}

/// A text that is no address.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{text}` is no address: expected [HOST]:PORT, unix:PATH, or -")]
pub struct AddressError {
    /// The text.
    pub text: String,
}

impl FromStr for ConnectionAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let error = || AddressError {
            text: text.to_owned(),
        };
        if matches!(text, "-" | "stdio") {
            return Ok(Self::Stdio);
        }
        if let Some(path) = text.strip_prefix("unix:") {
            return Ok(Self::Unix(path.into()));
        }
        if text.contains('/') {
            return Ok(Self::Unix(text.into()));
        }
        // For gdbserver these two select the address family, which the host's spelling shows as well.
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

impl fmt::Display for ConnectionAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "{}", path.display()),
            Self::Stdio => f.write_str("standard input and output"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ConnectionAddress;

    #[test]
    fn addresses_are_read_as_gdbserver_reads_them() {
        let tcp = |host: &str, port| ConnectionAddress::Tcp {
            host: host.to_owned(),
            port,
        };
        for (text, expected) in [
            (":1234", tcp("", 1234)),
            ("localhost:0", tcp("localhost", 0)),
            ("[::1]:80", tcp("::1", 80)),
            ("*:1", tcp("*", 1)),
            ("tcp4:host:7", tcp("host", 7)),
            ("./socket", ConnectionAddress::Unix("./socket".into())),
            ("unix:socket", ConnectionAddress::Unix("socket".into())),
            ("unix:", ConnectionAddress::Unix("".into())),
            ("-", ConnectionAddress::Stdio),
        ] {
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
        for text in ["", "1234", "host:port", ":70000"] {
            assert!(text.parse::<ConnectionAddress>().is_err(), "{text}");
        }
    }
}

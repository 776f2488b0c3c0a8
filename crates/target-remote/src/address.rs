//! Where the stub is.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Where the stub is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum UpstreamAddress {
    /// `[HOST]:PORT`.
    Tcp {
        /// A name or an address; empty for this machine.
        host: String,
        /// The port.
        port: u16,
    },
    /// The path of a Unix socket: a word with a `/` in it, or `unix:` and any path.
    Unix(PathBuf),
    /// `-`: standard input and output.
    Stdio,
}

/// A text that is no address of a stub.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{text}` is no address of a stub: expected [HOST]:PORT, unix:PATH, or -")]
pub struct UpstreamAddressError {
    /// The text.
    pub text: String,
}

impl FromStr for UpstreamAddress {
    type Err = UpstreamAddressError;

    fn from_str(text: &str) -> Result<Self, UpstreamAddressError> {
        let error = || UpstreamAddressError {
            text: text.to_owned(),
        };
        if text == "-" {
            return Ok(Self::Stdio);
        }
        if let Some(path) = text.strip_prefix("unix:") {
            return match path {
                "" => Err(error()),
                path => Ok(Self::Unix(path.into())),
            };
        }
        if text.contains('/') {
            return Ok(Self::Unix(text.into()));
        }
        let text = text.strip_prefix("tcp:").unwrap_or(text);
        let (host, port) = text.rsplit_once(':').ok_or_else(error)?;
        let host = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
            .unwrap_or(host);
        let port = port.parse().ok().filter(|port| *port > 0);
        Ok(Self::Tcp {
            host: host.to_owned(),
            port: port.ok_or_else(error)?,
        })
    }
}

impl fmt::Display for UpstreamAddress {
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
    use super::UpstreamAddress;

    #[test]
    fn addresses_are_read() {
        let tcp = |host: &str, port| UpstreamAddress::Tcp {
            host: host.to_owned(),
            port,
        };
        for (text, expected) in [
            ("localhost:1234", tcp("localhost", 1234)),
            (":1234", tcp("", 1234)),
            ("tcp:[::1]:80", tcp("::1", 80)),
            ("unix:socket", UpstreamAddress::Unix("socket".into())),
            ("./socket", UpstreamAddress::Unix("./socket".into())),
            ("-", UpstreamAddress::Stdio),
        ] {
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
        for text in ["", "1234", "host:port", ":0", ":70000", "unix:"] {
            assert!(text.parse::<UpstreamAddress>().is_err(), "{text}");
        }
    }
}

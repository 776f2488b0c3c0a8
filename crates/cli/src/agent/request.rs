//! What the agent is asked to do: by clients, and by signals.

use std::sync::mpsc::Sender;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A request of a client.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "lowercase", deny_unknown_fields)]
pub enum Request {
    /// The state of the agent.
    Status,
    /// Adds probes: `[[probe]]` tables.
    Add { probes: String },
    /// To have a probe no longer.
    Remove { name: String },
}

impl Request {
    /// Reads a line.
    ///
    /// # Errors
    /// When it is none.
    pub fn parse(line: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(line)
    }
}

/// A request, with its client and the channel for the answer.
#[derive(Debug)]
pub struct Asked {
    pub request: Request,
    pub user: String,
    pub answer: Sender<Value>,
}

/// An event of the agent.
#[derive(Debug)]
pub enum News {
    Asked(Asked),
    /// SIGTERM, SIGINT.
    End,
    /// SIGHUP.
    Reload,
}

#[cfg(test)]
mod tests {
    use super::Request;

    #[test]
    fn requests_are_what_they_are_and_nothing_else() {
        let good = br#"{"command":"remove","name":"x"}"#;
        let name = "x".to_owned();
        assert_eq!(
            Request::parse(good).expect("good"),
            Request::Remove { name }
        );
        for wrong in [
            &b""[..],
            b"{}",
            b"[]",
            b"\xff",
            br#"{"command":"remove"}"#,
            br#"{"command":"remove","name":1}"#,
            br#"{"command":"remove","name":"x","more":1}"#,
            br#"{"command":"exec","name":"x"}"#,
        ] {
            assert!(
                Request::parse(wrong).is_err(),
                "{}",
                String::from_utf8_lossy(wrong)
            );
        }
    }
}

//! The HTTP endpoint of a collector.

use std::time::Duration;

use ureq::Agent;

use super::Signal;
use crate::error::ExportError;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often a message is sent that the endpoint has no room for.
const TRIES: u32 = 5;

/// The first pause between two tries; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(200);

/// How much of an answer is read, in bytes.
const LONGEST_ANSWER: u64 = 64 << 10;

/// How much of an answer is in a message to the user, in characters.
const LONGEST_TEXT: usize = 300;

/// Where messages are sent: the base address of a collector, such as `http://127.0.0.1:4318`.
#[derive(Debug)]
pub struct Endpoint {
    base: String,
    agent: Agent,
    rejections: Vec<String>,
}

impl Endpoint {
    /// The endpoint for a base address: `/v1/traces` and the like are appended.
    ///
    /// # Errors
    /// When it does not begin with `http://`.
    pub fn new(base: &str) -> Result<Self, ExportError> {
        let problem = |problem| ExportError::Endpoint {
            url: base.to_owned(),
            problem,
        };
        if base.starts_with("https://") {
            return Err(problem(
                "https is not built in; send to a collector on this machine by http, which sends on by https",
            ));
        }
        let host = base.strip_prefix("http://").unwrap_or("");
        if host.split('/').next().is_none_or(str::is_empty) {
            return Err(problem("expected an address such as http://127.0.0.1:4318"));
        }
        let config = Agent::config_builder()
            .timeout_global(Some(PATIENCE))
            .http_status_as_error(false)
            .user_agent(concat!("tracewire/", env!("CARGO_PKG_VERSION")))
            .build();
        Ok(Self {
            base: base.trim_end_matches('/').to_owned(),
            agent: config.into(),
            rejections: Vec::new(),
        })
    }

    /// The endpoint's messages about data that it took only in part.
    #[must_use]
    pub fn rejections(&self) -> &[String] {
        &self.rejections
    }

    pub(super) fn send(&mut self, signal: Signal, message: &[u8]) -> Result<(), ExportError> {
        let path = match signal {
            Signal::Traces => "traces",
            Signal::Logs => "logs",
            Signal::Metrics => "metrics",
        };
        let url = format!("{}/v1/{path}", self.base);
        let failed = |source: ureq::Error| ExportError::Send {
            url: url.clone(),
            source: Box::new(source),
        };
        let mut pause = FIRST_PAUSE;
        for attempt in 1.. {
            let request = self.agent.post(&url).content_type("application/json");
            let mut answer = request.send(message).map_err(failed)?;
            let status = answer.status();
            let body = answer.body_mut().with_config().limit(LONGEST_ANSWER);
            let text = body.read_to_string();
            if status.is_success() {
                self.rejections
                    .extend(text.ok().and_then(|text| rejected(&text)));
                return Ok(());
            }
            // The statuses after which the protocol allows a retry.
            if matches!(status.as_u16(), 429 | 502 | 503 | 504) && attempt < TRIES {
                std::thread::sleep(pause);
                pause *= 2;
                continue;
            }
            let text: String = text
                .unwrap_or_default()
                .chars()
                .take(LONGEST_TEXT)
                .collect();
            return Err(ExportError::Refused {
                url,
                status: status.as_u16(),
                text,
            });
        }
        Ok(())
    }
}

/// The message about rejected data in an answer.
fn rejected(answer: &str) -> Option<String> {
    let answer: serde_json::Value = serde_json::from_str(answer).ok()?;
    let part = answer.get("partialSuccess")?.as_object()?;
    let count = part
        .iter()
        .find(|(name, _)| name.starts_with("rejected"))
        .map(|(_, count)| count.to_string().replace('"', ""));
    let message = part.get("errorMessage").and_then(|text| text.as_str());
    match (count.filter(|count| count != "0"), message) {
        (None, None | Some("")) => None,
        (count, message) => {
            let count = count.unwrap_or_else(|| "0".to_owned());
            Some(format!(
                "{count} rejected: {}",
                message.unwrap_or("no reason given")
            ))
        }
    }
}

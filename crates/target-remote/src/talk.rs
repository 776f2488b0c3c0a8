//! Requests to a stub and its answers.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use tracewire_packets::family::features::{FeatureList, FeatureRequest};
use tracewire_packets::family::resume::ResumeRequest;
use tracewire_packets::family::setting::SettingRequest;
use tracewire_packets::family::transfer::{Object, Operation, Transfer, TransferRequest};
use tracewire_packets::{Reply, ReplyKind, Request};

use crate::error::RemoteError;
use crate::link::{Link, Message};

/// The longest object that is read, in bytes.
const MOST_OBJECT: usize = 4 << 20;
/// How much of an object is asked for at once, where the stub does not say how long its packets may be.
const USUAL_WINDOW: usize = 0x180;
/// How long a stub may take to answer the second of two requests at once.
const TRIAL: Duration = Duration::from_secs(2);
/// The longest packet that is sent, whatever the stub takes, in bytes of payload.
const LONGEST_REQUEST: usize = 1 << 16;
/// What a packet has beside the data of an object, in bytes.
const WINDOW_OVERHEAD: usize = 16;

/// A connection to a stub on which requests are answered.
#[derive(Debug)]
pub(crate) struct Talk {
    pub(crate) link: Link,
    pub(crate) limit: Duration,
    /// Requests whose `OK` has not come yet.
    expected: VecDeque<String>,
    packet_size: Option<usize>,
    /// Whether the stub takes packets that come before it has answered others.
    takes_batches: bool,
    round_trips: u64,
}

impl Talk {
    pub(crate) fn new(link: Link, limit: Duration) -> Self {
        Self {
            link,
            limit,
            expected: VecDeque::new(),
            packet_size: None,
            takes_batches: false,
            round_trips: 0,
        }
    }

    /// The longest packet that the stub takes, in bytes of payload, where it says so.
    pub(crate) const fn packet_size(&self) -> Option<usize> {
        self.packet_size
    }

    /// How often an answer was waited for.
    pub(crate) const fn round_trips(&self) -> u64 {
        self.round_trips
    }

    /// Says what this debugger can do, and hears what the stub can.
    pub(crate) fn negotiate(&mut self) -> Result<FeatureList, RemoteError> {
        let mut ours = FeatureList::default();
        for feature in ["swbreak", "hwbreak", "vContSupported"] {
            ours.announce(feature);
        }
        // Without it gdbserver describes no registers on x86.
        ours.announce_value("xmlRegisters", "i386".to_owned());
        let supported = FeatureRequest::Supported {
            features: Some(ours),
        };
        let answer = self.request(&Request::from(supported).to_bytes())?;
        let features = features_of(&answer);
        let size = features.packet_size().filter(|size| *size >= 64);
        self.packet_size = size.map(|size| size.min(LONGEST_REQUEST));
        if features.supports("QStartNoAckMode")
            && self.ask(&SettingRequest::NoAcknowledgements.into())? == Reply::Ok
        {
            self.link.stop_acknowledging();
        }
        self.takes_batches = self.try_batch()?;
        Ok(features)
    }

    /// Sends two requests at once, and sees whether both are answered. A stub at a serial line may lose the second. That of QEMU for
    /// programs of a system has read the acknowledgement with the requests by then, and waits for one that comes by itself.
    fn try_batch(&mut self) -> Result<bool, RemoteError> {
        let request = Request::from(ResumeRequest::Supported).to_bytes();
        self.link.queue(&request);
        self.link.acknowledge_ahead();
        self.link.queue(&request);
        self.link.flush()?;
        let first = self.next_answer(&request)?;
        let within = TRIAL.min(self.limit);
        if let Some(Message::Packet(second)) = self.link.receive(Instant::now() + within)? {
            return Ok(second == first);
        }
        self.link.acknowledge_again()?;
        // What it answers now belongs to the trial.
        self.link.receive(Instant::now() + within)?;
        Ok(false)
    }

    /// Whether several requests may be sent at once.
    pub(crate) const fn takes_batches(&self) -> bool {
        self.takes_batches
    }

    /// Sends a request and waits for its answer.
    pub(crate) fn request(&mut self, payload: &[u8]) -> Result<Vec<u8>, RemoteError> {
        self.send(payload)?;
        self.answer(payload)
    }

    /// As [`request`](Self::request), of a known packet. An answer that makes no sense is an unknown one.
    pub(crate) fn ask(&mut self, request: &Request) -> Result<Reply, RemoteError> {
        let answer = self.request(&request.to_bytes())?;
        Ok(Reply::parse(request.reply_kind(), &answer).unwrap_or(Reply::Unknown(answer)))
    }

    /// Sends several requests, and waits for the answers to all.
    pub(crate) fn ask_all(&mut self, requests: &[Request]) -> Result<Vec<Reply>, RemoteError> {
        if !self.takes_batches {
            return requests.iter().map(|request| self.ask(request)).collect();
        }
        self.settle()?;
        for (place, request) in requests.iter().enumerate() {
            self.link.queue(&request.to_bytes());
            if place + 1 < requests.len() {
                self.link.acknowledge_ahead();
            }
        }
        self.link.flush()?;
        let answers = requests.iter().map(|request| {
            let answer = self.next_answer(&request.to_bytes())?;
            Ok(Reply::parse(request.reply_kind(), &answer).unwrap_or(Reply::Unknown(answer)))
        });
        let answers = answers.collect();
        self.round_trips += 1;
        answers
    }

    /// Sends a request that is answered with `OK`, together with the next one, where that may be.
    pub(crate) fn ask_along(&mut self, request: &Request) -> Result<(), RemoteError> {
        let payload = request.to_bytes();
        self.expected.push_back(shown(&payload));
        self.link.queue(&payload);
        if self.takes_batches {
            self.link.acknowledge_ahead();
        } else {
            self.link.flush()?;
            self.settle()?;
            self.round_trips += 1;
        }
        Ok(())
    }

    /// Sends a request, with what is to go along with it.
    pub(crate) fn send(&mut self, payload: &[u8]) -> Result<(), RemoteError> {
        self.link.queue(payload);
        self.link.flush()
    }

    /// Waits for the answer to a request that was sent, and for those that went along.
    pub(crate) fn answer(&mut self, request: &[u8]) -> Result<Vec<u8>, RemoteError> {
        self.settle()?;
        let answer = self.next_answer(request);
        self.round_trips += 1;
        answer
    }

    fn next_answer(&mut self, request: &[u8]) -> Result<Vec<u8>, RemoteError> {
        let deadline = Instant::now() + self.limit;
        loop {
            match self.link.receive(deadline)? {
                Some(Message::Packet(payload)) => return Ok(payload),
                // None are asked for.
                Some(Message::Notification(_)) => {}
                None => {
                    return Err(RemoteError::Silent {
                        request: shown(request),
                        seconds: self.limit.as_secs(),
                    });
                }
            }
        }
    }

    /// Waits for the answers to what went along.
    pub(crate) fn settle(&mut self) -> Result<(), RemoteError> {
        while let Some(request) = self.expected.front().cloned() {
            let answer = self.next_answer(request.as_bytes())?;
            self.expected.pop_front();
            if answer != b"OK" {
                return Err(RemoteError::Refused {
                    request,
                    reply: shown(&answer),
                });
            }
        }
        Ok(())
    }

    /// What the stub has sent by the deadline, after the answers to what went along with the last request.
    pub(crate) fn receive(&mut self, deadline: Instant) -> Result<Option<Message>, RemoteError> {
        self.settle()?;
        let received = self.link.receive(deadline);
        if matches!(received, Ok(Some(Message::Packet(_)))) {
            self.round_trips += 1;
        }
        received
    }

    /// A document of the target description.
    pub(crate) fn document(&mut self, name: &str) -> Result<Option<String>, RemoteError> {
        let bytes = self.object(Object::Features, name)?;
        Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// A whole object; none where the stub does not have it.
    pub(crate) fn object(
        &mut self,
        object: Object,
        annex: &str,
    ) -> Result<Option<Vec<u8>>, RemoteError> {
        let window = self.packet_size.unwrap_or(USUAL_WINDOW) - WINDOW_OVERHEAD;
        let mut bytes = Vec::new();
        loop {
            let request = TransferRequest::Transfer {
                window: Transfer {
                    object: object.clone(),
                    annex: annex.to_owned(),
                    offset: bytes.len() as u64,
                    operation: Operation::Read {
                        length: window as u64,
                    },
                },
            };
            let Reply::Chunk(chunk) = self.ask(&request.into())? else {
                return Ok(None);
            };
            bytes.extend_from_slice(&chunk.data);
            if chunk.last {
                return Ok(Some(bytes));
            }
            // One that goes on without content never ends.
            if chunk.data.is_empty() || bytes.len() > MOST_OBJECT {
                return Err(RemoteError::Unreadable("an object does not end"));
            }
        }
    }
}

/// The features in an answer to `qSupported`, as far as they are some.
pub(crate) fn features_of(answer: &[u8]) -> FeatureList {
    let mut features = FeatureList::default();
    for one in answer.split(|byte| *byte == b';') {
        if let Ok(Reply::Features(parsed)) = Reply::parse(ReplyKind::Features, one) {
            features.0.extend(parsed.0);
        }
    }
    features
}

/// A packet as a message may have it.
pub(crate) fn shown(payload: &[u8]) -> String {
    /// How much of it.
    const MOST: usize = 60;
    let text: String = String::from_utf8_lossy(payload)
        .chars()
        .map(|letter| if letter.is_control() { '?' } else { letter })
        .take(MOST)
        .collect();
    text
}

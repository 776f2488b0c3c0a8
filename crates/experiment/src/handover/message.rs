//! The messages between the two sides.

use std::io::{self, BufRead, Read, Write};

use tracewire_arch::Architecture;
use tracewire_model::Address;

use super::progress::{Progress, ProgressError};

/// The version of these messages, and of the form of frames in them.
const VERSION: u32 = 1;
/// The longest line, in bytes: a reason may be one.
const MOST_LINE: u64 = 4096;
/// The longest text that follows a line, in bytes.
const MOST_TEXT: u64 = 256 << 20;
/// The most bytes of frames in one message.
const MOST_FRAMES: u64 = 1 << 32;

/// Why a message cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum MessageError {
    /// The connection has failed, or ends within a message.
    #[error(transparent)]
    Connection(#[from] io::Error),
    /// A line of another form.
    #[error("{line:?} is not {expected}")]
    Line {
        /// The line, shortened.
        line: String,
        /// What a line can be there.
        expected: &'static str,
    },
    /// The other side speaks another version.
    #[error("the plugin speaks version {0} of the messages, this program version {VERSION}")]
    Version(u32),
    /// The progress of a run that cannot be understood.
    #[error(transparent)]
    Progress(#[from] ProgressError),
}

/// The first line, which the program that runs experiments sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Greeting {
    /// The machine that it runs them on.
    pub machine: Architecture,
}

/// What the debugger's side wants.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request {
    /// Begin a run of these definitions ([`Definitions::to_text`](crate::Definitions::to_text)).
    Begin(Vec<u8>),
    /// The next instruction of a cpu, at this address, is before the run: it is no hit.
    Pass {
        /// The number of the cpu, from 0.
        cpu: u32,
        /// The address of the instruction.
        address: Address,
    },
    /// Tell what the run has come to, with the frames after so many that it has made.
    Progress {
        /// How many frames are known.
        since: u64,
    },
    /// End the run, and forget it. There may be none.
    End,
}

/// What the other side answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// The run has begun.
    Begun {
        /// Whether the run sees all instructions. Otherwise it misses those that were translated before it began.
        sees_all: bool,
    },
    /// It is done.
    Done,
    /// The state of the run, and frames in the form of the buffer.
    Progress {
        /// The state.
        progress: Box<Progress>,
        /// The frames.
        frames: Vec<u8>,
    },
    /// It cannot be done, for this reason.
    Refused(String),
}

impl Greeting {
    /// Sends it.
    ///
    /// # Errors
    /// When the connection has failed.
    pub fn write(self, into: &mut impl Write) -> io::Result<()> {
        writeln!(
            into,
            "tracewire-experiment {VERSION} {}",
            self.machine.name()
        )
    }

    /// Reads it.
    ///
    /// # Errors
    /// When the connection has failed, or the line is not a greeting of this version.
    pub fn read(from: &mut impl BufRead) -> Result<Self, MessageError> {
        let line = some_line_of(from)?;
        let words: Vec<&str> = line.split(' ').collect();
        let wrong = || wrong(&line, "`tracewire-experiment VERSION MACHINE`");
        let ["tracewire-experiment", version, machine] = words[..] else {
            return Err(wrong());
        };
        match version.parse() {
            Ok(VERSION) => {}
            Ok(other) => return Err(MessageError::Version(other)),
            Err(_) => return Err(wrong()),
        }
        let machine = machine.parse().map_err(|_| wrong())?;
        Ok(Self { machine })
    }
}

impl Request {
    /// Sends it.
    ///
    /// # Errors
    /// When the connection has failed.
    pub fn write(&self, into: &mut impl Write) -> io::Result<()> {
        match self {
            Self::Begin(definitions) => {
                writeln!(into, "begin {}", definitions.len())?;
                into.write_all(definitions)
            }
            Self::Pass { cpu, address } => writeln!(into, "pass {cpu} {:x}", address.0),
            Self::Progress { since } => writeln!(into, "progress {since}"),
            Self::End => into.write_all(b"end\n"),
        }
    }

    /// Reads one; none where the connection has ended.
    ///
    /// # Errors
    /// When the connection has failed, or the message is not a request.
    pub fn read(from: &mut impl BufRead) -> Result<Option<Self>, MessageError> {
        let Some(line) = line_of(from)? else {
            return Ok(None);
        };
        let wrong = || {
            wrong(
                &line,
                "`begin BYTES`, `pass CPU ADDRESS`, `progress FRAMES` or `end`",
            )
        };
        let words: Vec<&str> = line.split(' ').collect();
        let request = match words[..] {
            ["begin", length] => {
                let length = number(length, MOST_TEXT).ok_or_else(wrong)?;
                Self::Begin(bytes_of(from, length)?)
            }
            ["pass", cpu, address] => Self::Pass {
                cpu: cpu.parse().map_err(|_| wrong())?,
                address: Address(u64::from_str_radix(address, 16).map_err(|_| wrong())?),
            },
            ["progress", since] => Self::Progress {
                since: since.parse().map_err(|_| wrong())?,
            },
            ["end"] => Self::End,
            _ => return Err(wrong()),
        };
        Ok(Some(request))
    }
}

impl Answer {
    /// Sends it.
    ///
    /// # Errors
    /// When the connection has failed.
    pub fn write(&self, into: &mut impl Write) -> io::Result<()> {
        match self {
            Self::Begun { sees_all: true } => into.write_all(b"begun all\n"),
            Self::Begun { sees_all: false } => into.write_all(b"begun new\n"),
            Self::Done => into.write_all(b"done\n"),
            Self::Progress { progress, frames } => {
                let text = progress.to_text();
                writeln!(into, "progress {} {}", text.len(), frames.len())?;
                into.write_all(text.as_bytes())?;
                into.write_all(frames)
            }
            Self::Refused(reason) => {
                let mut words: String = (reason.chars())
                    .map(|letter| if letter.is_control() { ' ' } else { letter })
                    .collect();
                let most = words.floor_char_boundary(MOST_LINE as usize / 2);
                words.truncate(most);
                writeln!(into, "refused {words}")
            }
        }
    }

    /// Reads one.
    ///
    /// # Errors
    /// When the connection has failed or ended, or the message is not an answer.
    pub fn read(from: &mut impl BufRead) -> Result<Self, MessageError> {
        let line = some_line_of(from)?;
        if let Some(reason) = line.strip_prefix("refused ") {
            return Ok(Self::Refused(reason.to_owned()));
        }
        let wrong = || {
            wrong(
                &line,
                "`begun all`, `begun new`, `done`, `progress BYTES BYTES` or `refused REASON`",
            )
        };
        let words: Vec<&str> = line.split(' ').collect();
        Ok(match words[..] {
            ["begun", "all"] => Self::Begun { sees_all: true },
            ["begun", "new"] => Self::Begun { sees_all: false },
            ["done"] => Self::Done,
            ["progress", text, frames] => {
                let text = number(text, MOST_TEXT).ok_or_else(wrong)?;
                let frames = number(frames, MOST_FRAMES).ok_or_else(wrong)?;
                let progress = Box::new(Progress::parse(&bytes_of(from, text)?)?);
                let frames = bytes_of(from, frames)?;
                Self::Progress { progress, frames }
            }
            _ => return Err(wrong()),
        })
    }
}

fn wrong(line: &str, expected: &'static str) -> MessageError {
    /// How much of it a reason shows.
    const SHOWN: usize = 60;
    let line = line.chars().take(SHOWN).collect();
    MessageError::Line { line, expected }
}

/// A number that is not above a limit.
fn number(text: &str, most: u64) -> Option<u64> {
    text.parse().ok().filter(|number| *number <= most)
}

/// A line without its end; none where the connection has ended before it.
fn line_of(from: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    from.take(MOST_LINE).read_until(b'\n', &mut line)?;
    match line.pop() {
        None => Ok(None),
        Some(b'\n') => Ok(Some(String::from_utf8_lossy(&line).into_owned())),
        Some(_) => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// A line without its end.
fn some_line_of(from: &mut impl BufRead) -> io::Result<String> {
    line_of(from)?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

/// So many bytes. Memory is taken as they come.
fn bytes_of(from: &mut impl BufRead, length: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(length).read_to_end(&mut bytes)?;
    if (bytes.len() as u64) < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_as_they_are_written() {
        let requests = [
            Request::Begin(b"machine arm\n".to_vec()),
            Request::Pass {
                cpu: 3,
                address: Address(0xffff_ffff_8011_0000),
            },
            Request::Progress { since: 17 },
            Request::End,
        ];
        let mut bytes = Vec::new();
        for request in &requests {
            request.write(&mut bytes).expect("memory");
        }
        let mut from = bytes.as_slice();
        for request in requests {
            let read = Request::read(&mut from).expect("a request");
            assert_eq!(read, Some(request));
        }
        assert!(matches!(Request::read(&mut from), Ok(None)));
    }

    #[test]
    fn answers_are_read_as_they_are_written() {
        let answers = [
            Answer::Begun { sees_all: true },
            Answer::Begun { sees_all: false },
            Answer::Done,
            Answer::Progress {
                progress: Box::default(),
                frames: vec![1, 2, 3],
            },
            Answer::Refused("no such register".to_owned()),
        ];
        let mut bytes = Vec::new();
        for answer in &answers {
            answer.write(&mut bytes).expect("memory");
        }
        let mut from = bytes.as_slice();
        for answer in answers {
            assert_eq!(Answer::read(&mut from).expect("an answer"), answer);
        }
        // A reason is one line, of a length that is read.
        let long = Answer::Refused("two\nlines ä".repeat(1000));
        bytes.clear();
        long.write(&mut bytes).expect("memory");
        assert!(matches!(
            Answer::read(&mut bytes.as_slice()),
            Ok(Answer::Refused(_))
        ));
    }

    #[test]
    fn wrong_messages_are_refused() {
        for wrong in [
            "begin 5\nfour",
            "begin 268435457\n",
            "begin -1\n",
            "pass 1\n",
            "pass 1 zz\n",
            "progress\n",
            "end",
            "stop\n",
        ] {
            assert!(Request::read(&mut wrong.as_bytes()).is_err(), "{wrong}");
        }
        for wrong in [
            "",
            "begun\n",
            "progress 0 5\n1234",
            "progress 7 0\nnothing",
            "done",
        ] {
            assert!(Answer::read(&mut wrong.as_bytes()).is_err(), "{wrong}");
        }
        for wrong in [
            "tracewire-experiment 1\n",
            "tracewire-experiment 1 pdp11\n",
            "hello\n",
        ] {
            assert!(Greeting::read(&mut wrong.as_bytes()).is_err(), "{wrong}");
        }
        let newer = Greeting::read(&mut "tracewire-experiment 2 arm\n".as_bytes());
        assert!(matches!(newer, Err(MessageError::Version(2))), "{newer:?}");
    }
}

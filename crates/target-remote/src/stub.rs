//! A stub as a debugger sees it: what it can do, its threads, memory and registers.

use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use tracewire_arch::Architecture;
use tracewire_model::{Address, RegisterNumber};
use tracewire_packets::family::breakpoint::{BreakpointKind, BreakpointOptions, BreakpointRequest};
use tracewire_packets::family::features::FeatureList;
use tracewire_packets::family::memory::MemoryRequest;
use tracewire_packets::family::register::{RegisterBytes, RegisterRequest};
use tracewire_packets::family::resume::{ResumeAction, ResumeActions, ResumeKind, ResumeRequest};
use tracewire_packets::family::thread::ThreadRequest;
use tracewire_packets::family::transfer::Object;
use tracewire_packets::{CountedHex, HexBytes, Reply, Request, Signal, ThreadSelector};

use crate::description;
use crate::error::RemoteError;
use crate::link::{Link, Message};
use crate::machine::RemoteMachine;
use crate::stop::{Stop, StopEvent};
use crate::talk::{Talk, features_of};
use tracewire_packets::ConnectionAddress;

/// How long a stub may take to answer.
const LIMIT: Duration = Duration::from_secs(10);
/// How much memory is asked for at once, where the stub does not say how long its packets may be, in bytes of payload.
const USUAL_PACKET: usize = 400;

/// A piece of memory: where it starts, and how many bytes it has.
pub(crate) type Piece = (Address, usize);

/// The bytes of a register block; none where it cannot be read.
type Block = Option<Vec<Option<u8>>>;

/// How a stub is taken.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The machine, for a stub that does not describe its registers, or a description that leaves open the byte order.
    pub architecture: Option<Architecture>,
    /// How long the stub may take to answer.
    pub limit: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            architecture: None,
            limit: LIMIT,
        }
    }
}

/// A stub.
#[derive(Debug)]
pub struct Stub {
    talk: Talk,
    features: FeatureList,
    /// Whether it reads memory in binary.
    reads_binary: bool,
    machine: RemoteMachine,
    /// The letters of `vCont`; none for a stub that does not have it.
    resume_actions: Option<Vec<u8>>,
    /// The thread that `g` and `m` are about, as the stub has it.
    selected: Option<ThreadSelector>,
    /// The stop that it was found in.
    first_stop: Option<Box<Stop>>,
}

impl Stub {
    /// Connects to a stub, and finds out what it can do. That stops its program.
    ///
    /// # Errors
    /// When there is none, it does not answer, it has no program, or its registers are not known.
    pub fn connect(address: &ConnectionAddress, options: &Options) -> Result<Self, RemoteError> {
        Self::begin(Link::connect(address, options.limit)?, options)
    }

    /// As [`connect`](Self::connect), where the connection is there already.
    ///
    /// # Errors
    /// As with [`connect`](Self::connect).
    pub fn over(stream: UnixStream, options: &Options) -> Result<Self, RemoteError> {
        Self::begin(Link::over(stream, options.limit)?, options)
    }

    fn begin(link: Link, options: &Options) -> Result<Self, RemoteError> {
        let mut talk = Talk::new(link, options.limit);
        let features = talk.negotiate()?;
        let resume_actions = match talk.ask(&ResumeRequest::Supported.into())? {
            Reply::ResumeActions(letters) => Some(letters),
            _ => None,
        };
        // It stops what runs.
        let why = talk.request(b"?")?;
        let StopEvent::Stopped(stop) = StopEvent::parse(why) else {
            return Err(RemoteError::NoProgram);
        };
        let described = if features.supports("qXfer:features:read") {
            description::whole(&mut |name| talk.document(name))?
        } else {
            None
        };
        let selected = stop.thread;
        // Not every stub has selected the thread that it has reported.
        if let Some(thread) = selected {
            talk.ask(&ThreadRequest::Select { thread }.into())?;
        }
        let Reply::Registers(RegisterBytes(block)) = talk.ask(&RegisterRequest::ReadAll.into())?
        else {
            return Err(RemoteError::NoProgram);
        };
        let machine = RemoteMachine::new(described.as_deref(), options.architecture, block.len())?;
        Ok(Self {
            talk,
            reads_binary: features.supports("binary-upload"),
            features,
            machine,
            resume_actions,
            selected,
            first_stop: Some(stop),
        })
    }

    /// The features in an answer to `qSupported`, as far as they are some.
    #[must_use]
    pub fn features_of(answer: &[u8]) -> FeatureList {
        features_of(answer)
    }

    /// What it says it can do.
    #[must_use]
    pub const fn features(&self) -> &FeatureList {
        &self.features
    }

    /// Its machine.
    #[must_use]
    pub const fn machine(&self) -> &RemoteMachine {
        &self.machine
    }

    /// How often an answer was waited for.
    #[must_use]
    pub const fn round_trips(&self) -> u64 {
        self.talk.round_trips()
    }

    /// How long an answer may take.
    #[must_use]
    pub const fn limit(&self) -> Duration {
        self.talk.limit
    }

    pub(crate) fn take_first_stop(&mut self) -> Option<Box<Stop>> {
        self.first_stop.take()
    }

    /// A stop of a thread has been reported, which the stub has selected with that.
    pub(crate) fn is_stopped(&mut self, thread: Option<ThreadSelector>) {
        self.selected = thread;
    }

    /// Sends a request as it is and waits for its answer.
    ///
    /// # Errors
    /// When the stub does not answer.
    pub fn request(&mut self, payload: &[u8]) -> Result<Vec<u8>, RemoteError> {
        self.talk.request(payload)
    }

    /// Sends a request as it is; [`receive`](Self::receive) gives what comes of it.
    ///
    /// # Errors
    /// When the connection has failed.
    pub fn send(&mut self, payload: &[u8]) -> Result<(), RemoteError> {
        self.talk.send(payload)
    }

    /// Asks for what runs to be stopped.
    ///
    /// # Errors
    /// When the connection has failed.
    pub fn interrupt(&mut self) -> Result<(), RemoteError> {
        self.talk.link.queue_interrupt();
        self.talk.link.flush()
    }

    /// A packet that has come by the deadline; none where none has.
    ///
    /// # Errors
    /// When the connection has failed.
    pub fn receive(&mut self, deadline: Instant) -> Result<Option<Vec<u8>>, RemoteError> {
        loop {
            match self.talk.receive(deadline)? {
                Some(Message::Packet(payload)) => return Ok(Some(payload)),
                Some(Message::Notification(_)) => {}
                None => return Ok(None),
            }
        }
    }

    /// Sends what is held back for the next request: the acknowledgement of the last packet. It is to be called before somebody waits
    /// for something else than the stub's next packet.
    ///
    /// # Errors
    /// When the connection has failed.
    pub fn flush(&mut self) -> Result<(), RemoteError> {
        self.talk.link.flush()
    }

    /// Whether something has been read that was not looked at.
    #[must_use]
    pub fn has_input(&self) -> bool {
        self.talk.link.has_input()
    }

    /// A whole object (`qXfer`); none where the stub does not have it.
    ///
    /// # Errors
    /// When the stub does not answer.
    pub fn object(&mut self, object: Object, annex: &str) -> Result<Option<Vec<u8>>, RemoteError> {
        self.talk.object(object, annex)
    }

    /// Selects the thread that registers and memory are read of.
    ///
    /// # Errors
    /// When the stub does not answer. A refusal shows in what is asked of the thread.
    pub fn select(&mut self, thread: Option<ThreadSelector>) -> Result<(), RemoteError> {
        if self.selected == thread {
            return Ok(());
        }
        if let Some(thread) = thread {
            self.talk.ask(&ThreadRequest::Select { thread }.into())?;
        }
        self.selected = thread;
        Ok(())
    }

    /// The thread that is selected.
    #[must_use]
    pub const fn selected(&self) -> Option<ThreadSelector> {
        self.selected
    }

    /// A debugger in front has selected a thread by itself.
    pub const fn note_selected(&mut self, thread: Option<ThreadSelector>) {
        self.selected = thread;
    }

    /// The register block of the selected thread; none where it cannot be read.
    pub(crate) fn registers(&mut self) -> Result<Block, RemoteError> {
        match self.talk.ask(&RegisterRequest::ReadAll.into())? {
            Reply::Registers(RegisterBytes(bytes)) => Ok(Some(bytes)),
            _ => Ok(None),
        }
    }

    /// The register block of the selected thread, and pieces of memory with the same round trip; no pieces of a stub that takes one
    /// request at a time.
    pub(crate) fn registers_and_memory(
        &mut self,
        pieces: &[Piece],
    ) -> Result<(Block, Vec<Vec<u8>>), RemoteError> {
        if pieces.is_empty() || !self.talk.takes_batches() {
            return Ok((self.registers()?, Vec::new()));
        }
        let mut requests = vec![Request::from(RegisterRequest::ReadAll)];
        requests.extend(pieces.iter().map(|piece| self.memory_request(*piece)));
        let mut replies = self.talk.ask_all(&requests)?.into_iter();
        let registers = match replies.next() {
            Some(Reply::Registers(RegisterBytes(bytes))) => Some(bytes),
            _ => None,
        };
        let memory = replies.zip(pieces).map(memory_of);
        Ok((registers, memory.collect()))
    }

    fn memory_request(&self, (address, length): Piece) -> Request {
        let length = length as u64;
        Request::from(if self.reads_binary {
            MemoryRequest::ReadBinary { address, length }
        } else {
            MemoryRequest::Read { address, length }
        })
    }

    /// A register of the selected thread; none where it cannot be read.
    pub(crate) fn register(
        &mut self,
        register: RegisterNumber,
    ) -> Result<Option<Vec<Option<u8>>>, RemoteError> {
        match self.talk.ask(&RegisterRequest::Read { register }.into())? {
            Reply::Registers(RegisterBytes(bytes)) => Ok(Some(bytes)),
            _ => Ok(None),
        }
    }

    /// Writes a register of the selected thread; whether the stub has done it.
    pub(crate) fn write_register(
        &mut self,
        register: RegisterNumber,
        bytes: Vec<u8>,
    ) -> Result<bool, RemoteError> {
        let bytes = HexBytes(bytes);
        let request = RegisterRequest::Write { register, bytes };
        Ok(self.talk.ask(&request.into())? == Reply::Ok)
    }

    /// How much memory one packet can have.
    pub(crate) fn memory_window(&self) -> usize {
        let packet = self.talk.packet_size().unwrap_or(USUAL_PACKET);
        // Two digits a byte; in binary any byte may have to be escaped.
        packet.saturating_sub(4).min(1 << 16) / 2
    }

    /// Reads pieces of memory, each no longer than [`memory_window`](Self::memory_window), with one round trip: of each the bytes from its
    /// start on that can be read.
    pub(crate) fn read_memory(&mut self, pieces: &[Piece]) -> Result<Vec<Vec<u8>>, RemoteError> {
        let is_binary = self.reads_binary;
        let requests = pieces.iter().map(|piece| self.memory_request(*piece));
        let requests: Vec<Request> = requests.collect();
        let replies = self.talk.ask_all(&requests)?;
        // It announces what it does not have.
        if is_binary && replies.contains(&Reply::Unsupported) {
            self.reads_binary = false;
            return self.read_memory(pieces);
        }
        let read = replies.into_iter().zip(pieces).map(memory_of);
        Ok(read.collect())
    }

    /// Writes memory; whether the stub has done it.
    pub(crate) fn write_memory(
        &mut self,
        address: Address,
        bytes: &[u8],
    ) -> Result<bool, RemoteError> {
        let data = CountedHex(bytes.to_vec());
        let reply = self
            .talk
            .ask(&MemoryRequest::Write { address, data }.into())?;
        Ok(reply == Reply::Ok)
    }

    /// Writes pieces of memory with one round trip; of each whether the stub has done it.
    pub(crate) fn write_pieces(
        &mut self,
        pieces: impl IntoIterator<Item = (Address, Vec<u8>)>,
    ) -> Result<Vec<bool>, RemoteError> {
        let requests = pieces.into_iter().map(|(address, bytes)| {
            let data = CountedHex(bytes);
            Request::from(MemoryRequest::Write { address, data })
        });
        let requests: Vec<Request> = requests.collect();
        let replies = self.talk.ask_all(&requests)?;
        Ok(replies.iter().map(|reply| *reply == Reply::Ok).collect())
    }

    /// Inserts a breakpoint, and says what the stub answers.
    pub(crate) fn insert(
        &mut self,
        kind: BreakpointKind,
        address: Address,
        length: u64,
    ) -> Result<Reply, RemoteError> {
        self.talk.ask(&insertion(kind, address, length))
    }

    /// Removes one.
    pub(crate) fn remove(
        &mut self,
        kind: BreakpointKind,
        address: Address,
        length: u64,
    ) -> Result<Reply, RemoteError> {
        self.talk.ask(&removal(kind, address, length))
    }

    /// Inserts a breakpoint that was there before, together with the next request.
    pub(crate) fn insert_along(
        &mut self,
        kind: BreakpointKind,
        address: Address,
        length: u64,
    ) -> Result<(), RemoteError> {
        self.talk.ask_along(&insertion(kind, address, length))
    }

    /// Removes one, together with the next request.
    pub(crate) fn remove_along(
        &mut self,
        kind: BreakpointKind,
        address: Address,
        length: u64,
    ) -> Result<(), RemoteError> {
        self.talk.ask_along(&removal(kind, address, length))
    }

    /// Whether it can let one thread execute one instruction.
    #[must_use]
    pub fn steps(&self) -> bool {
        // A stub without `vCont` says nothing of it.
        let letters = self.resume_actions.as_ref();
        letters.is_none_or(|letters| letters.contains(&b's'))
    }

    /// Lets one thread execute one instruction, and no other thread anything.
    pub(crate) fn step(&mut self, thread: Option<ThreadSelector>) -> Result<(), RemoteError> {
        if !self.steps() {
            return Err(RemoteError::NoStep);
        }
        let request = if self.resume_actions.is_some() {
            let threads = thread;
            let kind = ResumeKind::Step;
            ResumeRequest::Continue {
                actions: ResumeActions(vec![ResumeAction { kind, threads }]),
            }
        } else {
            if let Some(thread) = thread {
                self.talk
                    .ask(&ThreadRequest::SelectForResuming { thread }.into())?;
            }
            ResumeRequest::StepFrom { address: None }
        };
        self.talk.send(&Request::from(request).to_bytes())
    }

    /// Lets all threads run, with a signal for one of them.
    pub(crate) fn resume(
        &mut self,
        signal: Option<(Signal, Option<ThreadSelector>)>,
    ) -> Result<(), RemoteError> {
        let all = ResumeAction {
            kind: ResumeKind::Continue,
            threads: None,
        };
        let request = if self.resume_actions.is_some() {
            let with_signal = signal.map(|(signal, threads)| ResumeAction {
                kind: ResumeKind::ContinueWithSignal(signal),
                threads,
            });
            // A signal for no thread in particular goes to the thread that has stopped; no other one is named.
            let rest = with_signal.is_none_or(|action| action.threads.is_some());
            let actions = with_signal.into_iter().chain(rest.then_some(all));
            ResumeRequest::Continue {
                actions: ResumeActions(actions.collect()),
            }
        } else {
            let thread = match signal {
                Some((_, Some(thread))) => thread,
                _ => ThreadSelector::ALL,
            };
            self.talk
                .ask(&ThreadRequest::SelectForResuming { thread }.into())?;
            match signal {
                Some((signal, _)) => ResumeRequest::ContinueWithSignal {
                    signal,
                    address: None,
                },
                None => ResumeRequest::ContinueFrom { address: None },
            }
        };
        self.talk.send(&Request::from(request).to_bytes())
    }

    /// The request that lets all threads run.
    #[must_use]
    pub fn request_to_resume_all(&self) -> Vec<u8> {
        match self.resume_actions {
            Some(_) => b"vCont;c".to_vec(),
            None => b"c".to_vec(),
        }
    }

    /// Waits for the stop that a step ends with.
    pub(crate) fn wait_for_step(&mut self) -> Result<Option<Vec<u8>>, RemoteError> {
        let deadline = Instant::now() + self.talk.limit;
        self.receive(deadline)
    }

    /// Lets the program go (`D`).
    ///
    /// # Errors
    /// When the connection has failed before that.
    pub fn detach(&mut self) -> Result<(), RemoteError> {
        self.talk.settle()?;
        self.talk.send(b"D")?;
        match self.talk.answer(b"D") {
            Ok(_) | Err(RemoteError::Closed) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

impl AsFd for Stub {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.talk.link.as_fd()
    }
}

/// The memory in a reply, up to the first byte that cannot be read.
fn memory_of((reply, (_, length)): (Reply, &Piece)) -> Vec<u8> {
    let mut bytes = match reply {
        Reply::Memory(bytes) | Reply::BinaryMemory(bytes) => bytes,
        _ => Vec::new(),
    };
    bytes.truncate(*length);
    bytes
}

fn insertion(kind: BreakpointKind, address: Address, length: u64) -> Request {
    let options = BreakpointOptions::default();
    Request::from(BreakpointRequest::Insert {
        kind,
        address,
        length,
        options,
    })
}

fn removal(kind: BreakpointKind, address: Address, length: u64) -> Request {
    Request::from(BreakpointRequest::Remove {
        kind,
        address,
        length,
    })
}

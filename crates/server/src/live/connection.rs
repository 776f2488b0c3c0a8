//! A client, which may want the program stopped while it runs.
//!
//! As long as nothing runs, the client's packets are read where they are answered. While something runs, a thread of their
//! own watches for what the client sends and keeps it for later; an interrupt among it, or the client's going away, breaks
//! the wait for the program. A packet that passed from thread to thread would take GDB half as long again, and it sends
//! hundreds of thousands of them to save a trace.

use std::io::{self, Read, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use tracewire_target_linux::Interrupter;

use crate::transport::Transport;

/// The most bytes of a read.
const READ: usize = 0x10000;
/// How much is kept for later. A client that sends more is not read until it has been looked at.
const KEPT: usize = 16 * READ;

/// The byte that asks for the program to be stopped, outside of packets.
const INTERRUPT: u8 = 3;

/// What a client has sent, and what of it breaks a wait for the program.
#[derive(Debug, Default)]
pub(super) struct Attention {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Whatever the client sends breaks the wait.
    everything: bool,
    /// Something runs, and an interrupt breaks the wait.
    running: bool,
    /// The client has asked for the program to be stopped.
    stop: bool,
    /// It has asked for that, and the program stopped for another reason, which it did not know of yet.
    owed: bool,
    /// That has been put off once.
    put_off: bool,
    /// What has been read and not been looked at, from `start` on.
    input: Vec<u8>,
    start: usize,
    /// Whether the input ends within a packet.
    in_packet: bool,
    /// How the connection has ended.
    end: Option<Result<(), io::ErrorKind>>,
    /// Nobody looks at what the client sends any more.
    closed: bool,
}

impl State {
    /// Whether the watching thread is the one to read.
    const fn is_watched(&self) -> bool {
        self.everything || self.running
    }

    fn rest(&self) -> &[u8] {
        self.input.get(self.start..).unwrap_or_default()
    }

    /// Takes note of a read; whether there is an interrupt in it.
    fn add(&mut self, read: io::Result<usize>, buffer: &[u8]) -> bool {
        match read {
            Ok(0) => self.end = Some(Ok(())),
            Ok(count) => {
                let bytes = buffer.get(..count).unwrap_or_default();
                if self.rest().is_empty() {
                    self.input.clear();
                    self.start = 0;
                }
                self.input.extend_from_slice(bytes);
                let (interrupted, in_packet) = interrupts(bytes, self.in_packet);
                self.in_packet = in_packet;
                return interrupted;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => self.end = Some(Err(error.kind())),
        }
        false
    }

    /// Takes the interrupts out of what has been read.
    fn drop_interrupts(&mut self) {
        let mut in_packet = false;
        let rest = self.input.split_off(self.start.min(self.input.len()));
        self.input.extend(rest.into_iter().filter(|byte| {
            in_packet = interrupts(&[*byte], in_packet).1;
            in_packet || *byte != INTERRUPT
        }));
    }

    /// Hands out what has been read, up to the end of its first packet: what comes behind is looked at with the program
    /// as that packet leaves it.
    fn take(&mut self, bytes: &mut [u8]) -> usize {
        let rest = self.rest();
        let packet = rest
            .iter()
            .position(|byte| *byte == b'#')
            .map_or(rest.len(), |end| (end + 3).min(rest.len()));
        let count = packet.min(bytes.len());
        if let Some(target) = bytes.get_mut(..count) {
            target.copy_from_slice(rest.get(..count).unwrap_or_default());
        }
        self.start += count;
        count
    }
}

/// Whether there is an interrupt in a part of the input, and whether it ends within a packet.
fn interrupts(bytes: &[u8], mut in_packet: bool) -> (bool, bool) {
    let mut interrupted = false;
    for byte in bytes {
        match byte {
            // A packet holds neither of them.
            b'$' => in_packet = true,
            b'#' => in_packet = false,
            &INTERRUPT if !in_packet => interrupted = true,
            _ => {}
        }
    }
    (interrupted, in_packet)
}

impl Attention {
    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing that holds it panics, and if it did, what it left would be good.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed
            .wait(state)
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether whatever the client sends breaks a wait for the program from now on.
    pub(super) fn want_everything(&self, wanted: bool) {
        self.state().everything = wanted;
        self.changed.notify_all();
    }

    /// Whether the client wants the program stopped; the wish is granted by this.
    pub(super) fn stop_is_wanted(&self) -> bool {
        let mut state = self.state();
        let wanted = std::mem::take(&mut state.stop);
        if wanted {
            state.owed = false;
            state.put_off = false;
            state.drop_interrupts();
        }
        wanted
    }

    /// Whether the connection has ended without an interrupt before its end. What was sent before is then dropped: it
    /// was meant for a program that is stopped.
    pub(super) fn is_lost(&self) -> bool {
        let mut state = self.state();
        let lost = state.end.is_some() && !state.stop;
        if lost {
            state.input.clear();
            state.start = 0;
        }
        lost
    }

    /// The client has asked for the program to be stopped when it did not run: the next run is.
    pub(super) fn owe_stop(&self) {
        self.state().owed = true;
    }

    /// Whether a run that ends by itself need not be stopped. A stop that is owed is put off once.
    pub(super) fn puts_off_stop(&self) -> bool {
        let mut state = self.state();
        let owed = state.owed;
        !(std::mem::replace(&mut state.put_off, owed) && owed)
    }

    /// Something is to run, and an interrupt of the client breaks the wait for it, until the mark is dropped.
    pub(super) fn while_running(self: &Arc<Self>, interrupter: &Interrupter) -> Running {
        let mut state = self.state();
        state.running = true;
        // An interrupt may have come with the packet that lets the program run.
        let (interrupted, in_packet) = interrupts(state.rest(), false);
        state.in_packet = in_packet;
        state.stop = interrupted || state.owed;
        let breaks = state.stop || state.end.is_some();
        drop(state);
        if breaks {
            interrupter.interrupt();
        }
        self.changed.notify_all();
        Running(self.clone())
    }
}

/// Something runs.
pub(super) struct Running(Arc<Attention>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.state().running = false;
    }
}

/// One client.
#[derive(Debug)]
pub(super) struct Client {
    attention: Arc<Attention>,
    watcher: Option<JoinHandle<()>>,
    transport: Transport,
    buffer: Vec<u8>,
}

impl Client {
    /// Starts to watch a client. Its interrupts, and its going away, end a run of the program.
    ///
    /// # Errors
    /// When the connection cannot be shared with another thread, or there is no thread to be had.
    pub(super) fn new(
        transport: Transport,
        said: &[u8],
        interrupter: Interrupter,
        attention: Arc<Attention>,
    ) -> io::Result<Self> {
        let mut shared = transport.duplicate()?;
        let everything = attention.state().everything;
        let mut state = State {
            everything,
            ..State::default()
        };
        if !said.is_empty() {
            state.add(Ok(said.len()), said);
        }
        *attention.state() = state;
        let watched = attention.clone();
        let thread = std::thread::Builder::new()
            .name("client".to_owned())
            .spawn(move || watch(&mut shared, &watched, &interrupter))?;
        // A wait for standard input cannot be broken off.
        let watcher = (!matches!(transport, Transport::Stdio)).then_some(thread);
        Ok(Self {
            attention,
            watcher,
            transport,
            buffer: vec![0; READ],
        })
    }

    /// Whether something can be read without waiting for it; also when there is nothing that the client could be told
    /// meanwhile.
    pub(super) fn has_sent(&mut self) -> bool {
        let state = self.attention.state();
        !state.everything || !state.rest().is_empty() || state.end.is_some()
    }
}

/// Reads what the client sends while something runs, until the client is gone, or nobody wants to know any more.
fn watch(transport: &mut Transport, attention: &Attention, interrupter: &Interrupter) {
    let mut buffer = vec![0; READ];
    loop {
        let mut state = attention.state();
        while !state.closed && (!state.is_watched() || state.rest().len() >= KEPT) {
            state = attention.wait(state);
        }
        drop(state);
        // Another thread may read meanwhile; this ends when there is something, or the connection is closed.
        let failed = transport.wait_readable(true).is_err();
        let mut state = attention.state();
        if state.closed || state.end.is_some() {
            return;
        }
        // Nobody else reads now.
        if !state.is_watched() || !failed && !matches!(transport.wait_readable(false), Ok(true)) {
            continue;
        }
        let read = transport.read(&mut buffer);
        let wanted = state.add(read, &buffer);
        state.stop |= wanted;
        let breaks = wanted || state.everything || state.end.is_some();
        drop(state);
        attention.changed.notify_all();
        if breaks {
            interrupter.interrupt();
        }
    }
}

impl Read for Client {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let mut state = self.attention.state();
        loop {
            if !state.rest().is_empty() {
                let full = state.rest().len() >= KEPT;
                let count = state.take(bytes);
                drop(state);
                if full {
                    // The watching thread may wait for room.
                    self.attention.changed.notify_all();
                }
                return Ok(count);
            }
            match state.end {
                Some(Ok(())) => return Ok(0),
                Some(Err(kind)) => return Err(kind.into()),
                None if state.is_watched() => state = self.attention.wait(state),
                None => {
                    drop(state);
                    let read = self.transport.read(&mut self.buffer);
                    state = self.attention.state();
                    state.add(read, &self.buffer);
                }
            }
        }
    }
}

impl Write for Client {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.transport.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.transport.flush()
    }
}

/// The other thread ends too, so that nothing of this client interrupts what is run for the next.
impl Drop for Client {
    fn drop(&mut self) {
        self.attention.state().closed = true;
        self.attention.changed.notify_all();
        self.transport.close();
        if let Some(watcher) = self.watcher.take() {
            // It does not panic, and if it did, it would be gone.
            let _ = watcher.join();
        }
    }
}

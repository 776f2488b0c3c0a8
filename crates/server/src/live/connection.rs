//! A client, which may interrupt the program while it runs.
//!
//! While nothing runs, packets are read by the thread that answers them. While something runs, a second thread reads
//! the client's input and keeps it for later. An interrupt in it, or the end of the connection, ends the wait for the
//! program. Passing each packet between threads would take GDB half as long again, and GDB sends hundreds of thousands
//! of them to save a trace.

use std::io::{self, Read, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use tracewire_target_linux::Interrupter;

use crate::transport::Transport;

/// The most bytes of a read.
const READ: usize = 0x10000;
/// How much input is kept for later. If a client sends more, it is read only after that was processed.
const KEPT: usize = 16 * READ;

/// The byte that requests an interrupt, outside of packets.
const INTERRUPT: u8 = 3;

/// The client's input, and whether it ends a wait for the program.
#[derive(Debug, Default)]
pub(super) struct Attention {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Any input ends the wait.
    everything: bool,
    /// Something runs, and an interrupt breaks the wait.
    running: bool,
    /// The client has requested an interrupt.
    stop: bool,
    /// It has requested one, and the program stopped for another reason that the client did not know yet.
    owed: bool,
    /// It was postponed once.
    put_off: bool,
    /// The input that was read and not processed, from `start` on.
    input: Vec<u8>,
    start: usize,
    /// Whether the input ends within a packet.
    in_packet: bool,
    /// How the connection has ended.
    end: Option<Result<(), io::ErrorKind>>,
    /// No thread reads the client's input any more.
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

    /// Adds the result of a read. Returns whether there is an interrupt in it.
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

    /// Removes the interrupts from the input.
    fn drop_interrupts(&mut self) {
        let mut in_packet = false;
        let rest = self.input.split_off(self.start.min(self.input.len()));
        self.input.extend(rest.into_iter().filter(|byte| {
            in_packet = interrupts(&[*byte], in_packet).1;
            in_packet || *byte != INTERRUPT
        }));
    }

    /// Returns the input up to the end of its first packet. The rest is examined after that packet is answered, with
    /// the program's new state.
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
        // The lock's holders do not panic, and the state would be valid if one did.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed
            .wait(state)
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets whether any input of the client ends a wait for the program from now on.
    pub(super) fn want_everything(&self, wanted: bool) {
        self.state().everything = wanted;
        self.changed.notify_all();
    }

    /// Whether the client has requested an interrupt; clears the request.
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

    /// Whether the connection has ended without an interrupt before its end. Earlier input is then dropped: it was meant for a
    /// program that is stopped.
    pub(super) fn is_lost(&self) -> bool {
        let mut state = self.state();
        let lost = state.end.is_some() && !state.stop;
        if lost {
            state.input.clear();
            state.start = 0;
        }
        lost
    }

    /// The client has requested an interrupt while nothing ran: the next run is interrupted.
    pub(super) fn owe_stop(&self) {
        self.state().owed = true;
    }

    /// Whether a run that ends by itself need not be interrupted. A postponed interrupt is skipped once.
    pub(super) fn puts_off_stop(&self) -> bool {
        let mut state = self.state();
        let owed = state.owed;
        !(std::mem::replace(&mut state.put_off, owed) && owed)
    }

    /// Something is to run, and an interrupt of the client breaks the wait for it, until the mark is dropped.
    pub(super) fn while_running(self: &Arc<Self>, interrupter: &Interrupter) -> Running {
        let mut state = self.state();
        state.running = true;
        // An interrupt may have come with the packet that resumes the program.
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
    /// Starts to watch a client. An interrupt, or the end of the connection, ends a run of the program.
    ///
    /// # Errors
    /// When the connection cannot be shared with another thread, or no thread can be created.
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
        // A wait for standard input cannot be interrupted.
        let watcher = (!matches!(transport, Transport::Stdio)).then_some(thread);
        Ok(Self {
            attention,
            watcher,
            transport,
            buffer: vec![0; READ],
        })
    }

    /// Whether something can be read without waiting; also when the client could not be notified of anything meanwhile.
    pub(super) fn has_sent(&mut self) -> bool {
        let state = self.attention.state();
        !state.everything || !state.rest().is_empty() || state.end.is_some()
    }
}

/// Reads the client's input while something runs, until the client has gone or the watch ends.
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
        // No other thread reads now.
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
                    // The watching thread may wait for space.
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

/// The other thread ends too, so that this client cannot interrupt the next client's run.
impl Drop for Client {
    fn drop(&mut self) {
        self.attention.state().closed = true;
        self.attention.changed.notify_all();
        self.transport.close();
        if let Some(watcher) = self.watcher.take() {
            // It does not panic, and if it did, it would have ended.
            let _ = watcher.join();
        }
    }
}

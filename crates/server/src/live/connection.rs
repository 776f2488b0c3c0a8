//! A client whose bytes are read by a thread of their own, so that an interrupt is seen while the program runs.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread::JoinHandle;

use tracewire_target_linux::Interrupter;

use crate::transport::Transport;

/// How many reads may wait to be looked at. A client that sends more is not read until they have been.
const WAITING: usize = 16;
/// The most bytes of a read.
const READ: usize = 0x10000;

/// The byte that asks for the program to be stopped, outside of packets.
const INTERRUPT: u8 = 3;

/// What of a client's doings breaks a wait for the program.
#[derive(Debug, Default)]
pub(super) struct Attention {
    /// Whatever it sends.
    everything: AtomicBool,
    /// It has asked for the program to be stopped, or has gone.
    stop: AtomicBool,
}

impl Attention {
    pub(super) fn want_everything(&self, wanted: bool) {
        self.everything.store(wanted, Ordering::SeqCst);
    }

    /// Whether the client wants the program stopped; the wish is granted by this.
    pub(super) fn stop_is_wanted(&self) -> bool {
        self.stop.swap(false, Ordering::SeqCst)
    }
}

/// One client.
#[derive(Debug)]
pub(super) struct Client {
    /// None once the client is given up.
    input: Option<Receiver<io::Result<Vec<u8>>>>,
    reader: Option<JoinHandle<()>>,
    rest: Vec<u8>,
    output: Transport,
}

impl Client {
    /// Starts to read a client. Its interrupts, and its going away, end a run of the program.
    ///
    /// # Errors
    /// When the connection cannot be shared with another thread, or there is no thread to be had.
    pub(super) fn new(
        transport: Transport,
        interrupter: Interrupter,
        attention: Arc<Attention>,
    ) -> io::Result<Self> {
        let mut reader = transport.duplicate()?;
        let (sender, input) = sync_channel(WAITING);
        let thread = std::thread::Builder::new()
            .name("client".to_owned())
            .spawn(move || read(&mut reader, &sender, &interrupter, &attention))?;
        // A read of standard input cannot be broken off.
        let reader = (!matches!(transport, Transport::Stdio)).then_some(thread);
        Ok(Self {
            input: Some(input),
            reader,
            rest: Vec::new(),
            output: transport,
        })
    }
}

/// Reads until the client is gone, or nobody wants to know any more.
fn read(
    transport: &mut Transport,
    sender: &SyncSender<io::Result<Vec<u8>>>,
    interrupter: &Interrupter,
    attention: &Attention,
) {
    let mut in_packet = false;
    let mut buffer = vec![0; READ];
    loop {
        let bytes = match transport.read(&mut buffer) {
            Ok(count) => buffer.get(..count).unwrap_or_default().to_vec(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => {
                let _ = sender.send(Err(error));
                attention.stop.store(true, Ordering::SeqCst);
                interrupter.interrupt();
                return;
            }
        };
        let gone = bytes.is_empty();
        let mut wanted = gone;
        for byte in &bytes {
            match byte {
                // A packet holds neither of them.
                b'$' => in_packet = true,
                b'#' => in_packet = false,
                &INTERRUPT if !in_packet => wanted = true,
                _ => {}
            }
        }
        if sender.send(Ok(bytes)).is_err() {
            return;
        }
        if wanted {
            attention.stop.store(true, Ordering::SeqCst);
        }
        if wanted || attention.everything.load(Ordering::SeqCst) {
            interrupter.interrupt();
        }
        if gone {
            return;
        }
    }
}

impl Client {
    /// Whether something can be read without waiting for it.
    pub(super) fn has_sent(&mut self) -> bool {
        if self.rest.is_empty() {
            match self.input.as_ref().map(Receiver::try_recv) {
                Some(Ok(Ok(read))) if !read.is_empty() => self.rest = read,
                Some(Err(TryRecvError::Empty)) => return false,
                // Its end, which is there to be read for good.
                _ => self.input = None,
            }
        }
        true
    }
}

impl Read for Client {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if self.rest.is_empty() {
            self.rest = match self.input.as_ref().map(Receiver::recv) {
                Some(Ok(read)) => read?,
                Some(Err(_)) | None => return Ok(0),
            };
        }
        let count = self.rest.len().min(bytes.len());
        for (target, byte) in bytes.iter_mut().zip(self.rest.drain(..count)) {
            *target = byte;
        }
        Ok(count)
    }
}

impl Write for Client {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.output.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

/// The other thread ends too, so that nothing of this client interrupts what is run for the next.
impl Drop for Client {
    fn drop(&mut self) {
        self.output.close();
        self.input = None;
        if let Some(reader) = self.reader.take() {
            // It does not panic, and if it did, it would be gone.
            let _ = reader.join();
        }
    }
}

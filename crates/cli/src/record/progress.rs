//! One line on a terminal's stderr that is written over as the run goes on.

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tracewire_views::words;

use super::buffer::Counters;

/// How often the line is written.
const EVERY: Duration = Duration::from_millis(500);

/// The line; it is wiped when this is dropped.
#[derive(Debug)]
pub struct Progress {
    thread: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Progress {
    /// Begins to show how far the run is, where there is a terminal that the program does not write to itself.
    pub fn begin(counters: Arc<Counters>, spawned: bool) -> Self {
        let ours = std::io::stderr().is_terminal() && !(spawned && std::io::stdout().is_terminal());
        if !ours {
            return Self { thread: None };
        }
        let (stop, stopped) = channel();
        let begun = Instant::now();
        let thread = std::thread::spawn(move || {
            while stopped.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                let _ = write!(
                    std::io::stderr(),
                    "\r\x1b[2Ktracewire: {}, {}, {} s  (^C ends the run)",
                    words::count(counters.frames.load(Ordering::Relaxed), "frame"),
                    words::bytes(counters.bytes.load(Ordering::Relaxed)),
                    begun.elapsed().as_secs(),
                );
            }
            let _ = write!(std::io::stderr(), "\r\x1b[2K");
        });
        Self {
            thread: Some((stop, thread)),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.thread.take() {
            drop(stop);
            let _ = thread.join();
        }
    }
}

//! The log of a session: every packet, with its time and its meaning.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use tracewire_packets::log::{Direction, line};
use tracewire_tracefile::private;

/// A log of packets, in the form that [`tracewire_packets::log`] reads; or none. Several sessions may share it.
#[derive(Debug)]
pub struct SessionLog {
    sink: Option<Mutex<BufWriter<File>>>,
    /// Whether packets are shown on standard error too.
    shown: Arc<AtomicBool>,
    start: Instant,
}

impl SessionLog {
    /// No log.
    #[must_use]
    pub fn none() -> Self {
        Self {
            sink: None,
            shown: Arc::default(),
            start: Instant::now(),
        }
    }

    /// A log in a new file that only its owner can read: it contains memory of the program.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub fn create(path: &Path) -> io::Result<Self> {
        let sink = Some(Mutex::new(BufWriter::new(private::create(path)?)));
        Ok(Self {
            sink,
            shown: Arc::default(),
            start: Instant::now(),
        })
    }

    /// The flag that shows packets on standard error too.
    pub(crate) fn shown(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.shown)
    }

    /// Adds a packet. If the log cannot be written, logging ends silently: it must not end the session.
    pub(crate) fn packet(
        &self,
        direction: Direction,
        payload: &[u8],
        meaning: impl FnOnce() -> String,
    ) {
        let shown = self.shown.load(Ordering::Relaxed);
        if self.sink.is_none() && !shown {
            return;
        }
        let text = line(
            self.start.elapsed().as_secs_f64(),
            direction,
            payload,
            &meaning(),
        );
        if shown {
            // A log that cannot be written ends no session.
            let _ = writeln!(std::io::stderr(), "{text}");
        }
        let Some(sink) = &self.sink else { return };
        let mut sink = sink.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = writeln!(sink, "{text}").and_then(|()| sink.flush());
    }
}

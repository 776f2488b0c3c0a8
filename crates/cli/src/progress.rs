//! The progress of long work: one line on a terminal's stderr that is overwritten, and erased at the end.

use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tracewire_tracefile::TraceFile;
use tracewire_views::words;

/// How often the line is written. Short work has no progress line.
const EVERY: Duration = Duration::from_millis(500);

/// Wipes the terminal's line.
const WIPE: &str = "\r\x1b[2K";

/// The line; it is erased when this is dropped. Nothing else may be written to stderr meanwhile.
#[derive(Debug, Default)]
pub struct Progress(Option<Running>);

#[derive(Debug)]
struct Running {
    /// Held by the thread that writes to the terminal.
    terminal: Arc<Mutex<Line>>,
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

/// The state of the terminal's line.
#[derive(Debug, Default)]
pub struct Line {
    is_there: bool,
}

impl Line {
    fn write(&mut self, text: &str) {
        // An error of the terminal does not stop the work.
        let _ = std::io::stderr().write_all(format!("{WIPE}tracewire: {text}").as_bytes());
        self.is_there = true;
    }

    fn wipe(&mut self) {
        if std::mem::take(&mut self.is_there) {
            let _ = std::io::stderr().write_all(WIPE.as_bytes());
        }
    }
}

impl Progress {
    /// Begins to show the text of `text` after this time, if stderr is a terminal.
    pub fn begin(text: impl Fn(Duration) -> String + Send + 'static) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self(None);
        }
        let terminal = Arc::new(Mutex::new(Line::default()));
        let (stop, stopped) = channel();
        let begun = Instant::now();
        let shared = Arc::clone(&terminal);
        let thread = std::thread::Builder::new().spawn(move || {
            while stopped.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                let text = text(begun.elapsed());
                alone(&shared).write(&text);
            }
            alone(&shared).wipe();
        });
        // Without a thread, the work is done and not shown.
        Self(thread.ok().map(|thread| Running {
            terminal,
            stop,
            thread,
        }))
    }

    /// Of reading a file whose parts are not counted.
    pub fn reading(path: &Path) -> Self {
        let name = path.display().to_string();
        Self::begin(move |elapsed| format!("{name}: {} s", elapsed.as_secs()))
    }

    /// Of looking at the frames of a file, one after the other.
    pub fn over_frames(path: &Path, file: &TraceFile) -> Self {
        let (name, latest, all) = (
            path.display().to_string(),
            file.latest_frame(),
            file.frame_count(),
        );
        Self::begin(move |elapsed| {
            let share = latest.load(Ordering::Relaxed).saturating_mul(100) / all.max(1);
            let frames = words::count(all, "frame");
            format!("{name}: {share} % of {frames}, {} s", elapsed.as_secs())
        })
    }

    /// Clears the line for other output while the returned guard is held.
    pub fn aside(&self) -> Option<MutexGuard<'_, Line>> {
        let mut line = alone(&self.0.as_ref()?.terminal);
        line.wipe();
        Some(line)
    }
}

fn alone(terminal: &Mutex<Line>) -> MutexGuard<'_, Line> {
    terminal.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(running) = self.0.take() {
            drop(running.stop);
            let _ = running.thread.join();
        }
    }
}

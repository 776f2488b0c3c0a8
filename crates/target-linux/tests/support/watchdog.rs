//! A time limit for tests whose wait may not end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Ends the test process with a message if a wait does not end, since nothing else would.
pub struct Watchdog(Arc<AtomicBool>);

impl Watchdog {
    pub fn start(what: &'static str) -> Self {
        const LIMIT: std::time::Duration = std::time::Duration::from_secs(120);
        let over = Arc::new(AtomicBool::new(false));
        let own = Arc::clone(&over);
        std::thread::spawn(move || {
            let begun = std::time::Instant::now();
            while begun.elapsed() < LIMIT {
                if own.load(Ordering::Acquire) {
                    return;
                }
                std::thread::park_timeout(LIMIT / 100);
            }
            eprintln!("{what} does not end");
            std::process::abort();
        });
        Self(over)
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

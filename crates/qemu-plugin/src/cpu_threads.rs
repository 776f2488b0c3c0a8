//! The threads that the guest's cpus run on.

use std::thread::ThreadId;

/// The message if a thread runs several cpus.
pub const SHARED: &str = "tracewire: QEMU runs all cpus on one thread (thread=single or -icount), and does not tell the plugin which of them \
                          executes: instructions of others are recorded as those of cpu 0; use -accel tcg,thread=multi";

/// The threads of the cpus that were made.
#[derive(Debug, Default)]
pub struct CpuThreads(Vec<ThreadId>);

impl CpuThreads {
    /// A cpu is made, on the thread that calls.
    ///
    /// Returns whether it is the second one of all, on the thread of the first. QEMU then takes the number of the first cpu into code that was
    /// translated before the second one was there, and callbacks have the wrong number.
    pub fn add(&mut self) -> bool {
        let thread = std::thread::current().id();
        let shares = self.0.contains(&thread);
        self.0.push(thread);
        shares && self.0.len() == 2
    }
}

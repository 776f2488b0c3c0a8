//! Threads: which there are, and which are meant.

use std::fmt::Write;

use tracewire_model::ThreadId;
use tracewire_packets::family::thread::ThreadRequest;
use tracewire_packets::{HexBytes, Reply, ThreadList, ThreadSelector, Which};

use super::{Debuggee, FAILED, done, escaped};

/// A row of the table of threads.
pub(crate) struct ThreadEntry {
    /// The process, if the client supports several.
    pub(crate) process: Option<u32>,
    pub(crate) thread: ThreadId,
    /// The cpu that it ran on last.
    pub(crate) cpu: u32,
    pub(crate) name: String,
}

/// The thread of a selector; `None` if it means any, or all.
pub(crate) const fn named(selector: &ThreadSelector) -> Option<ThreadId> {
    match selector.thread {
        Which::One(thread) => Some(ThreadId(thread)),
        Which::Any | Which::All => None,
    }
}

pub(super) fn answer(of: &mut dyn Debuggee, request: &ThreadRequest) -> Reply {
    match request {
        ThreadRequest::SelectForResuming { thread } => done(of.select_to_resume(thread)),
        ThreadRequest::Select { thread } => done(of.select(thread)),
        ThreadRequest::IsAlive { thread } => done(of.is_alive(thread)),
        ThreadRequest::Current => of.current_thread().map_or(FAILED, Reply::CurrentThread),
        ThreadRequest::FirstThreads => match of.threads() {
            threads if threads.is_empty() => Reply::End,
            threads => Reply::Threads(ThreadList(threads)),
        },
        ThreadRequest::MoreThreads => Reply::End,
        ThreadRequest::Describe { thread } => of
            .describe_thread(thread)
            .map_or(Reply::Unsupported, |text| {
                Reply::Text(HexBytes(text.into_bytes()))
            }),
        ThreadRequest::ThreadLocalAddress {
            thread,
            offset,
            module,
        } => of.thread_local(thread, *module, *offset),
        _ => Reply::Unsupported,
    }
}

/// The table as GDB reads it (`qXfer:threads:read`).
pub(super) fn xml(table: &[ThreadEntry]) -> String {
    let mut text = String::from("<threads>\n");
    for entry in table {
        let process = entry.process.map(|process| format!("p{process:x}."));
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "<thread id=\"{}{:x}\" core=\"{}\" name=\"{}\"/>",
            process.unwrap_or_default(),
            entry.thread.0,
            entry.cpu,
            escaped(&entry.name)
        );
    }
    text.push_str("</threads>\n");
    text
}

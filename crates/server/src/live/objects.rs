//! Objects of the program that GDB reads in windows (`qXfer`).

use std::fmt::Write;
use std::path::Path;

use tracewire_packets::family::transfer::{Chunk, Object, Operation, Transfer};
use tracewire_packets::{Failure, Reply};

use super::libraries::libraries;
use super::osdata;
use super::program::LiveProgram;
use crate::session::PACKET_SIZE;
use crate::trace::static_data;

impl LiveProgram {
    pub(super) fn transfer(&mut self, window: &Transfer) -> Reply {
        let length = match &window.operation {
            Operation::Read { length } => *length,
            Operation::Write { data } => return self.write_object(window, &data.0),
        };
        let failed = || Reply::Error(Failure::Number(1));
        let current = self.inferiors.current().unwrap_or(0);
        let named = u32::from_str_radix(&window.annex, 16).unwrap_or(current);
        let object = match window.object {
            Object::Features
                if window.annex == "target.xml" && self.inferiors.current().is_some() =>
            {
                Some(self.machine().xml.into_bytes())
            }
            Object::Features => None,
            Object::AuxiliaryVector => std::fs::read(format!("/proc/{current}/auxv")).ok(),
            Object::ExecFile => program_file(named),
            Object::Threads => Some(self.threads().into_bytes()),
            Object::SignalInfo => {
                let thread = self.thread();
                self.inferiors
                    .process()
                    .and_then(|process| process.signal_info(thread))
            }
            Object::TraceframeInfo => match self.frame_info() {
                Some(info) => Some(info.to_xml().into_bytes()),
                None => {
                    return Reply::Error(Failure::text("No trace frame is selected"));
                }
            },
            Object::LibrariesSvr4 => self
                .inferiors
                .process()
                .and_then(|process| libraries(process, &window.annex))
                .map(String::into_bytes),
            Object::OsData => self.os_table(&window.annex, window.offset),
            Object::StaticTraceData => match self.trace.selected_frame(static_data) {
                Some(data) => Some(data),
                None => return Reply::Error(Failure::text("No trace frame is selected")),
            },
            _ => return Reply::Unsupported,
        };
        object.map_or_else(failed, |object| {
            Reply::Chunk(Chunk::window(&object, window.offset, length, PACKET_SIZE))
        })
    }

    fn write_object(&mut self, window: &Transfer, bytes: &[u8]) -> Reply {
        if window.object != Object::SignalInfo {
            return Reply::Unsupported;
        }
        let thread = self.thread();
        let offset = usize::try_from(window.offset).unwrap_or(usize::MAX);
        self.inferiors
            .process_mut()
            .and_then(|process| process.set_signal_info(thread, offset, bytes))
            .map_or(Reply::Error(Failure::Number(1)), |()| {
                Reply::Written(bytes.len() as u64)
            })
    }

    /// A table of the system, as it was when its first part was asked for.
    fn os_table(&mut self, name: &str, offset: u64) -> Option<Vec<u8>> {
        if offset == 0 || self.os_table.0 != name {
            self.os_table = (name.to_owned(), osdata::table(name).into_bytes());
        }
        Some(self.os_table.1.clone())
    }

    /// The threads, with names and cpus.
    fn threads(&mut self) -> String {
        let mut text = String::from("<threads>\n");
        for (process, thread) in self.inferiors.threads() {
            let core = self
                .inferiors
                .of_mut(process)
                .map_or(0, |process| process.cpu_of(thread));
            let id = if self.client.multiprocess {
                format!("p{process:x}.{:x}", thread.0)
            } else {
                format!("{:x}", thread.0)
            };
            let name = std::fs::read(format!("/proc/{process}/task/{}/comm", thread.0))
                .unwrap_or_default();
            let name = String::from_utf8_lossy(name.trim_ascii_end()).into_owned();
            // Writing to a string does not fail.
            let _ = writeln!(
                text,
                "<thread id=\"{id}\" core=\"{core}\" name=\"{}\"/>",
                escaped(&name)
            );
        }
        text.push_str("</threads>\n");
        text
    }
}

/// The file of a process's program, by the name that the process itself would know it by.
pub(super) fn program_file(process: u32) -> Option<Vec<u8>> {
    let file = std::fs::read_link(format!("/proc/{process}/exe")).ok()?;
    let root = std::fs::read_link(format!("/proc/{process}/root")).ok();
    let own = root
        .filter(|root| root.parent().is_some())
        .and_then(|root| Some(Path::new("/").join(file.strip_prefix(root).ok()?)));
    let name = own.unwrap_or(file);
    Some(name.into_os_string().into_encoded_bytes())
}

/// What a marker has said in the frame.
/// A text as it may stand in an attribute.
pub(super) fn escaped(text: &str) -> String {
    let mut safe = String::new();
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            letter if letter.is_control() => safe.push('?'),
            letter => safe.push(letter),
        }
    }
    safe
}

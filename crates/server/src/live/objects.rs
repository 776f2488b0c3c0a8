//! Objects of the program that GDB reads in windows (`qXfer`).

use std::fmt::Write;

use tracewire_packets::family::transfer::{Chunk, Object, Operation, Transfer};
use tracewire_packets::{Failure, Reply};

use super::program::LiveProgram;
use crate::session::PACKET_SIZE;

impl LiveProgram {
    pub(super) fn transfer(&mut self, window: &Transfer) -> Reply {
        let Operation::Read { length } = window.operation else {
            return Reply::Unsupported;
        };
        let failed = || Reply::Error(Failure::Number(1));
        let current = self.inferiors.current().unwrap_or(0);
        let named = u32::from_str_radix(&window.annex, 16).unwrap_or(current);
        let object = match window.object {
            Object::Features if window.annex == "target.xml" => {
                Some(self.registers.target_xml_64().into_bytes())
            }
            Object::Features => None,
            Object::AuxiliaryVector => std::fs::read(format!("/proc/{current}/auxv")).ok(),
            Object::ExecFile => std::fs::read_link(format!("/proc/{named}/exe"))
                .ok()
                .map(|path| path.into_os_string().into_encoded_bytes()),
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
            _ => return Reply::Unsupported,
        };
        object.map_or_else(failed, |object| {
            Reply::Chunk(Chunk::window(&object, window.offset, length, PACKET_SIZE))
        })
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

/// A text as it may stand in an attribute.
fn escaped(text: &str) -> String {
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

//! The live program as a session's debuggee: its registers, memory and threads, or those of the selected trace frame.

use std::borrow::Cow;
use std::ops::Range;

use tracewire_experiment::MemoryRead;
use tracewire_model::{Address, RegisterNumber};
use tracewire_packets::family::register::RegisterBytes;
use tracewire_packets::family::transfer::{self, Transfer};
use tracewire_packets::{Failure, Reply, ThreadSelector};
use tracewire_target_linux::Process;
use tracewire_tracefile::Frame;

use super::libraries::libraries;
use super::program::{LiveProgram, program_file};
use crate::answers::{Debuggee, FAILED, FRAME_IS_FIXED, Object, ThreadEntry, Writable};

impl Debuggee for LiveProgram {
    fn registers(&mut self) -> Option<RegisterBytes> {
        let inferiors = &mut self.inferiors;
        self.tracing.trace.registers(|| {
            let thread = inferiors.thread()?;
            let block = inferiors.process_mut()?.register_block(thread)?;
            Some(RegisterBytes::known(&block))
        })
    }

    fn register_place(&self, number: RegisterNumber) -> Option<Range<usize>> {
        let (start, size) = self.inferiors.process()?.register_place(number)?;
        Some(start..start + size)
    }

    fn memory(&mut self, address: Address, length: usize) -> Vec<u8> {
        let inferiors = &mut self.inferiors;
        self.tracing.trace.memory(address, length, || {
            let process = inferiors.process_mut();
            process
                .filter(|process| !process.has_ended())
                .map(|process| read(process, address, length))
                .unwrap_or_default()
        })
    }

    fn writable(&mut self) -> Result<&mut dyn Writable, &'static str> {
        match self.tracing.trace.has_selected_frame() {
            true => Err(FRAME_IS_FIXED),
            false => Ok(self),
        }
    }

    fn target_xml(&self) -> Option<Cow<'_, str>> {
        self.inferiors.current()?;
        Some(Cow::Owned(self.machine().xml))
    }

    fn threads(&self) -> Vec<ThreadSelector> {
        let threads = self.inferiors.threads().into_iter();
        threads
            .map(|(process, thread)| self.dialect.selector(process, thread))
            .collect()
    }

    fn current_thread(&self) -> Option<ThreadSelector> {
        let process = self.inferiors.current()?;
        Some(self.dialect.selector(process, self.inferiors.thread()?))
    }

    fn select(&mut self, thread: &ThreadSelector) -> bool {
        self.inferiors.select_named(thread)
    }

    fn select_to_resume(&mut self, thread: &ThreadSelector) -> bool {
        self.inferiors.select_to_resume(*thread);
        true
    }

    fn is_alive(&self, thread: &ThreadSelector) -> bool {
        self.inferiors.find(thread).is_some()
    }

    fn thread_table(&mut self) -> Option<Vec<ThreadEntry>> {
        let threads = self.inferiors.threads().into_iter();
        let table = threads.map(|(process, thread)| {
            let name = std::fs::read(format!("/proc/{process}/task/{thread}/comm"));
            let name = name.unwrap_or_default();
            let inferior = self.inferiors.of_mut(process);
            ThreadEntry {
                process: self.dialect.process(process),
                thread,
                cpu: inferior.map_or(0, |inferior| inferior.cpu_of(thread)),
                name: String::from_utf8_lossy(name.trim_ascii_end()).into_owned(),
            }
        });
        Some(table.collect())
    }

    fn thread_local(&mut self, thread: &ThreadSelector, module: Address, offset: u64) -> Reply {
        let Some((process, thread)) = self.inferiors.find(thread) else {
            return FAILED;
        };
        let Some(process) = self.inferiors.of_mut(process) else {
            return FAILED;
        };
        match process.thread_local_address(thread, module, offset) {
            Ok(address) => Reply::Address(address),
            Err(error) => Reply::Error(Failure::text(&error.to_string())),
        }
    }

    fn show_frame(&mut self, see: &mut dyn FnMut(&Frame<'_>)) -> bool {
        self.tracing.trace.selected_frame(see).is_some()
    }

    fn has_probes(&self) -> bool {
        true
    }

    fn object(&mut self, window: &Transfer) -> Object {
        let current = self.inferiors.current().unwrap_or(0);
        let bytes = match window.object {
            transfer::Object::AuxiliaryVector => {
                std::fs::read(format!("/proc/{current}/auxv")).ok()
            }
            transfer::Object::ExecFile => {
                program_file(u32::from_str_radix(&window.annex, 16).unwrap_or(current))
            }
            transfer::Object::SignalInfo => {
                let thread = self.thread();
                let process = self.inferiors.process();
                process.and_then(|process| process.signal_info(thread))
            }
            transfer::Object::LibrariesSvr4 => self
                .inferiors
                .process()
                .and_then(|process| libraries(process, &window.annex))
                .map(String::into_bytes),
            transfer::Object::OsData => Some(self.os_tables.read(&window.annex, window.offset)),
            _ => return Object::Unknown,
        };
        bytes.into()
    }

    fn write_object(&mut self, window: &Transfer, bytes: &[u8]) -> Reply {
        if window.object != transfer::Object::SignalInfo {
            return Reply::Unsupported;
        }
        let thread = self.thread();
        let offset = usize::try_from(window.offset).unwrap_or(usize::MAX);
        self.inferiors
            .process_mut()
            .and_then(|process| process.set_signal_info(thread, offset, bytes))
            .map_or(FAILED, |()| Reply::Written(bytes.len() as u64))
    }
}

impl Writable for LiveProgram {
    fn write_registers(&mut self, start: usize, bytes: &[u8]) -> bool {
        let Some(thread) = self.inferiors.thread() else {
            return false;
        };
        let Some(process) = self.inferiors.process_mut() else {
            return false;
        };
        let Some(mut block) = process.register_block(thread) else {
            return false;
        };
        for (byte, new) in block.iter_mut().skip(start).zip(bytes) {
            *byte = *new;
        }
        process.set_register_block(thread, &block).is_some()
    }

    fn write_memory(&mut self, address: Address, bytes: &[u8]) -> bool {
        let process = self.inferiors.process_mut();
        process.is_some_and(|process| process.write_memory(address, bytes).is_ok())
    }
}

/// Memory of a process, up to the first byte that cannot be read.
pub(super) fn read(process: &mut Process, address: Address, length: usize) -> Vec<u8> {
    let mut piece = [MemoryRead {
        address,
        bytes: vec![0; length],
        filled: 0,
    }];
    process.read_memory(&mut piece);
    let [
        MemoryRead {
            mut bytes, filled, ..
        },
    ] = piece;
    bytes.truncate(filled);
    bytes
}

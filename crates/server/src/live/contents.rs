//! Memory and registers of the program, or of the frame that is selected.

use tracewire_experiment::MemoryRead;
use tracewire_model::Address;
use tracewire_packets::family::memory::MemoryRequest;
use tracewire_packets::family::register::{RegisterBytes, RegisterRequest};
use tracewire_packets::{Failure, Reply};

use super::program::{LiveProgram, done};
use super::search;
use crate::session::PACKET_SIZE;

impl LiveProgram {
    /// Memory of the program, as far as it can be read.
    pub(super) fn live_memory(&mut self, address: Address, length: usize) -> Vec<u8> {
        let Some(process) = self
            .inferiors
            .process_mut()
            .filter(|process| !process.has_ended())
        else {
            return Vec::new();
        };
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

    fn memory(&mut self, address: Address, length: u64, most: usize) -> Vec<u8> {
        let length = usize::try_from(length).unwrap_or(most).min(most);
        if self.trace.selected.is_some() {
            self.frame_memory(address, length)
        } else {
            self.live_memory(address, length)
        }
    }

    pub(super) fn memory_request(&mut self, request: &MemoryRequest) -> Reply {
        match request {
            MemoryRequest::Read { address, length } => {
                let bytes = self.memory(*address, *length, PACKET_SIZE / 2);
                if bytes.is_empty() && *length > 0 {
                    Reply::Error(Failure::Number(1))
                } else {
                    Reply::Memory(bytes)
                }
            }
            MemoryRequest::Write { address, data } => self.write(*address, &data.0),
            MemoryRequest::WriteBinary { address, data } => self.write(*address, &data.0),
            MemoryRequest::Checksum { address, length } => {
                search::checksum(*address, *length, &mut |address, length| {
                    self.memory(address, length as u64, length)
                })
            }
            MemoryRequest::Search {
                address,
                length,
                pattern,
            } => search::search(*address, *length, &pattern.0, &mut |address, length| {
                self.memory(address, length as u64, length)
            }),
            _ => Reply::Unsupported,
        }
    }

    fn write(&mut self, address: Address, bytes: &[u8]) -> Reply {
        if bytes.is_empty() {
            return Reply::Ok;
        }
        if self.trace.selected.is_some() {
            return Reply::Error(Failure::text("A trace frame cannot be written to"));
        }
        let written = self
            .inferiors
            .process_mut()
            .is_some_and(|process| process.write_memory(address, bytes).is_ok());
        done(written)
    }

    /// All registers of the selected thread, or of the selected frame.
    fn all_registers(&mut self) -> Option<RegisterBytes> {
        if self.trace.selected.is_some() {
            return self.frame_registers();
        }
        let thread = self.thread();
        let block = self.inferiors.process_mut()?.register_block(thread)?;
        Some(RegisterBytes::known(&block))
    }

    pub(super) fn register_request(&mut self, request: &RegisterRequest) -> Reply {
        let failed = || Reply::Error(Failure::Number(1));
        match request {
            RegisterRequest::ReadAll => self.all_registers().map_or_else(failed, Reply::Registers),
            RegisterRequest::Read { register } => {
                let Some((start, size)) = self
                    .inferiors
                    .process()
                    .and_then(|process| process.register_place(*register))
                else {
                    return failed();
                };
                self.all_registers()
                    .and_then(|all| Some(all.0.get(start..start + size)?.to_vec()))
                    .map_or_else(failed, |bytes| Reply::Registers(RegisterBytes(bytes)))
            }
            RegisterRequest::Write { .. } | RegisterRequest::WriteAll { .. }
                if self.trace.selected.is_some() =>
            {
                Reply::Error(Failure::text("A trace frame cannot be written to"))
            }
            RegisterRequest::WriteAll { bytes } => done(self.set_registers(0, &bytes.0)),
            RegisterRequest::Write { register, bytes } => {
                let place = self
                    .inferiors
                    .process()
                    .and_then(|process| process.register_place(*register));
                match place {
                    Some((start, size)) if size == bytes.0.len() => {
                        done(self.set_registers(start, &bytes.0))
                    }
                    _ => failed(),
                }
            }
        }
    }

    fn set_registers(&mut self, start: usize, bytes: &[u8]) -> bool {
        let thread = self.thread();
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
}

//! Memory: read, write, compare, search.

use tracewire_model::Address;
use tracewire_packets::family::memory::MemoryRequest;
use tracewire_packets::{Failure, Reply};

use super::{Debuggee, FAILED, done, search};
use crate::session::PACKET_SIZE;

pub(super) fn answer(of: &mut dyn Debuggee, request: &MemoryRequest) -> Reply {
    match request {
        MemoryRequest::Read { address, length } => {
            match read(of, *address, *length, PACKET_SIZE / 2) {
                // An empty reply, even to a read of no bytes, would mean that the packet is not supported.
                bytes if bytes.is_empty() => FAILED,
                bytes => Reply::Memory(bytes),
            }
        }
        MemoryRequest::ReadBinary { address, length } => {
            let mut bytes = read(of, *address, *length, PACKET_SIZE);
            bytes.truncate(tracewire_packets::escaped_prefix(&bytes, PACKET_SIZE - 1));
            if bytes.is_empty() && *length > 0 {
                FAILED
            } else {
                Reply::BinaryMemory(bytes)
            }
        }
        MemoryRequest::Write { address, data } => write(of, *address, &data.0),
        MemoryRequest::WriteBinary { address, data } => write(of, *address, &data.0),
        MemoryRequest::Checksum { address, length } => {
            search::checksum(*address, *length, &mut |address, length| {
                of.memory(address, length)
            })
        }
        MemoryRequest::Search {
            address,
            length,
            pattern,
        } => search::search(*address, *length, &pattern.0, &mut |address, length| {
            of.memory(address, length)
        }),
        _ => Reply::Unsupported,
    }
}

fn read(of: &mut dyn Debuggee, address: Address, length: u64, most: usize) -> Vec<u8> {
    let length = usize::try_from(length).unwrap_or(most).min(most);
    of.memory(address, length)
}

fn write(of: &mut dyn Debuggee, address: Address, bytes: &[u8]) -> Reply {
    match of.writable() {
        Err(refusal) => Reply::Error(Failure::text(refusal)),
        // GDB checks in this way whether the packet is supported.
        Ok(_) if bytes.is_empty() => Reply::Ok,
        Ok(writable) => done(writable.write_memory(address, bytes)),
    }
}

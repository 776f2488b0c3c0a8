//! Any packets in any order to a session with a program that is not there, with whatever a line may make of them.
//! With `SESSION_PACKETS=FILE` the number of packets so far stands in a file.
#![no_main]

use std::io::{self, Read, Write};

use libfuzzer_sys::fuzz_target;
use tracewire_server::fake::{CODE, DATA, FakeSession, SIZE, THREADS, session as session_of};
use tracewire_server::{PACKET_SIZE, SessionLog, run};

#[path = "../../crates/server/tests/sequences/mod.rs"]
mod sequences;

use sequences::{Choices, Places};

/// What the client has sent, read in pieces, and the longest packet that comes back.
struct Wire<'a> {
    input: &'a [u8],
    piece: usize,
    length: usize,
    longest: usize,
}

impl Read for Wire<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let count = self.piece.min(bytes.len());
        self.input.read(&mut bytes[..count])
    }
}

impl Write for Wire<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for byte in bytes {
            self.length = if *byte == b'$' { 0 } else { self.length + 1 };
            self.longest = self.longest.max(self.length);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn talk(session: &mut FakeSession, input: &[u8], piece: usize) {
    let mut wire = Wire {
        input,
        piece,
        length: 0,
        longest: 0,
    };
    run(&mut wire, session, &SessionLog::none()).unwrap();
    // With its checksum.
    assert!(wire.longest <= PACKET_SIZE + 3, "{}", wire.longest);
}

fuzz_target!(|data: &[u8]| {
    let places = Places {
        code: (0..SIZE / 4).map(|n| CODE.0 + n * 4).collect(),
        data: DATA.0,
        threads: THREADS.to_vec(),
        harmful: true,
    };
    let mut session = session_of(None);
    let mut choices = Choices(data);
    let piece = 1 + choices.below(255) * 4;
    let mut input = Vec::new();
    let mut packets = 0u64;
    while !choices.is_empty() {
        let payload = choices.packet(&places);
        packets += 1;
        let mut packet = framed(&payload);
        match choices.below(24) {
            0 => input.extend_from_slice(b"+-\x03"),
            1 => packet.truncate(choices.below(packet.len())),
            2 => *packet.last_mut().unwrap() ^= 1,
            3 => packet.push(b'-'),
            // The client vanishes, and another one comes.
            4 => {
                talk(&mut session, &input, piece);
                session.client_gone();
                input.clear();
            }
            _ => {}
        }
        input.extend(packet);
    }
    talk(&mut session, &input, piece);
    session.client_gone();
    talk(&mut session, &framed(b"QTinit"), piece);
    assert!(session.target().inserted().is_empty() && !session.is_tracing());
    count(packets);
});

/// A packet as it goes over the wire.
fn framed(payload: &[u8]) -> Vec<u8> {
    let sum = payload.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
    let mut packet = vec![b'$'];
    packet.extend_from_slice(payload);
    packet.extend(format!("#{sum:02x}").bytes());
    packet
}

/// Adds to the number of packets, which is written down now and then.
fn count(packets: u64) {
    use std::sync::atomic::{AtomicU64, Ordering};
    static ALL: AtomicU64 = AtomicU64::new(0);
    let before = ALL.fetch_add(packets, Ordering::Relaxed);
    if (before + packets) / 100_000 > before / 100_000
        && let Some(file) = std::env::var_os("SESSION_PACKETS")
    {
        // It is there for the reader of a figure.
        let _ = std::fs::write(file, format!("{}\n", before + packets));
    }
}

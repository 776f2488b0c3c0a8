//! Any packets in any order to a session with a program that is not there.

use std::io::{self, Read, Write};

use proptest::prelude::*;
use tracewire_server::fake::{CODE, DATA, FakeSession, SIZE, THREADS};
use tracewire_server::{SessionLog, run};

mod sequences;

use sequences::{Choices, Places};

struct Wire<'a> {
    input: &'a [u8],
    output: Vec<u8>,
}

impl Read for Wire<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.input.read(bytes)
    }
}

impl Write for Wire<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.output.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What the session says to these bytes.
fn talk(session: &mut FakeSession, input: &[u8]) -> String {
    let mut wire = Wire {
        input,
        output: Vec::new(),
    };
    run(&mut wire, session, &SessionLog::none()).unwrap();
    String::from_utf8_lossy(&wire.output).into_owned()
}

fn places() -> Places {
    Places {
        code: (0..SIZE / 4).map(|n| CODE.0 + n * 4).collect(),
        data: DATA.0,
        threads: THREADS.to_vec(),
        harmful: true,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// Whatever came before, the next client can begin anew, and gets its tracepoints and frames.
    #[test]
    fn a_session_survives_any_packets(bytes in proptest::collection::vec(any::<u8>(), 0..800)) {
        let mut session = FakeSession::new(None);
        let mut choices = Choices(&bytes);
        let mut input = Vec::new();
        while !choices.is_empty() {
            input.extend(framed(&choices.packet(&places())));
        }
        talk(&mut session, &input);
        session.client_gone();
        let again = ["QTinit", "QTBuffer:size:-1", "qTStatus"];
        let input: Vec<u8> = again.iter().flat_map(|packet| framed(packet.as_bytes())).collect();
        let said = talk(&mut session, &input);
        prop_assert!(session.inserted().is_empty());
        prop_assert!(said.contains("T0;"), "{}", said);
        let again = ["QTDP:1:1004:E:0:1", "QTStart", "vCont;c", "QTFrame:0"];
        let input: Vec<u8> = again.iter().flat_map(|packet| framed(packet.as_bytes())).collect();
        let said = talk(&mut session, &input);
        // It may have ended by then.
        prop_assert!(said.contains("$F0T1#") || said.contains("$E01#"), "{}", said);
    }
}

/// A packet as it goes over the wire.
fn framed(payload: &[u8]) -> Vec<u8> {
    let sum = payload
        .iter()
        .fold(0u8, |sum, byte| sum.wrapping_add(*byte));
    let mut packet = vec![b'$'];
    packet.extend_from_slice(payload);
    packet.extend(format!("#{sum:02x}").bytes());
    packet
}

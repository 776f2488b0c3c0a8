//! Any packets in any order to a session with a simulated program.

use std::io::{self, Read, Write};

use proptest::prelude::*;
use tracewire_server::fake::{CODE, DATA, FakeSession, SIZE, THREADS, session as session_of};
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

/// The session's output for these bytes.
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

    /// After any input, the next client can begin again, and gets its tracepoints and frames.
    #[test]
    fn a_session_survives_any_packets(bytes in proptest::collection::vec(any::<u8>(), 0..800)) {
        let mut session = session_of(None);
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
        prop_assert!(session.target().inserted().is_empty());
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

/// The answers to packets, without acknowledgements.
fn answers(session: &mut FakeSession, packets: &[&str]) -> Vec<String> {
    let input: Vec<u8> = packets
        .iter()
        .flat_map(|packet| framed(packet.as_bytes()))
        .collect();
    let said = talk(session, &input);
    said.split('$')
        .skip(1)
        .filter_map(|answer| Some(answer.split_once('#')?.0.to_owned()))
        .collect()
}

/// How often a tracepoint was hit.
fn hits(session: &mut FakeSession, number: u32) -> u64 {
    let packet = format!("qTP:{number}:1004");
    let answer = answers(session, &[&packet]).pop().unwrap();
    let hits = answer.strip_prefix('V').and_then(|it| it.split_once(':'));
    u64::from_str_radix(hits.unwrap().0, 16).unwrap()
}

/// A tracepoint that is defined during a run takes effect when its last part has come.
#[test]
fn a_definition_in_pieces_takes_effect_when_it_is_complete() {
    let mut session = session_of(None);
    let all_right =
        |answers: Vec<String>| assert!(answers.iter().all(|it| it == "OK"), "{answers:?}");
    all_right(answers(&mut session, &["QTDP:1:1004:E:0:0", "QTStart"]));

    // New, at a place that is hit meanwhile.
    all_right(answers(&mut session, &["QTDP:2:1004:E:0:0-"]));
    answers(&mut session, &["vCont;c"]);
    all_right(answers(&mut session, &["QTDP:-2:1004:M-1,2000,4-"]));
    answers(&mut session, &["vCont;c"]);
    all_right(answers(&mut session, &["QTDP:-2:1004:R1"]));
    assert_eq!(hits(&mut session, 2), 0);
    answers(&mut session, &["vCont;c"]);
    assert!(hits(&mut session, 2) > 0);

    // A redefinition has no effect until it is complete.
    let before = hits(&mut session, 2);
    all_right(answers(&mut session, &["QTDP:2:1004:D:0:0-"]));
    answers(&mut session, &["vCont;c"]);
    all_right(answers(&mut session, &["QTDP:-2:1004:R1"]));
    let after = hits(&mut session, 2);
    assert!(after > before);
    answers(&mut session, &["vCont;c"]);
    assert_eq!(hits(&mut session, 2), after);

    // GDB announces actions that it does not send; the source strings follow.
    let source = "QTDPsrc:3:1004:at:0:4:7469636b";
    all_right(answers(&mut session, &["QTDP:3:1004:E:0:0-", source]));
    answers(&mut session, &["vCont;c"]);
    assert!(hits(&mut session, 3) > 0);

    // A definition that one client does not finish is not there for the next one.
    all_right(answers(
        &mut session,
        &["QTDisconnected:1", "QTDP:4:1004:E:0:0-"],
    ));
    session.client_gone();
    answers(&mut session, &["vCont;c"]);
    assert_eq!(hits(&mut session, 4), 0);
    let listed = answers(
        &mut session,
        &["qTfP", "qTsP", "qTsP", "qTsP", "qTsP", "qTsP", "qTsP"],
    );
    assert!(!listed.iter().any(|it| it.starts_with("T4:")), "{listed:?}");
    assert!(session.is_tracing());
}

/// The answers of every session about memory: reads in both forms, a search, a checksum.
#[test]
fn memory_is_read_searched_and_summed() {
    let mut session = session_of(None);
    let sum = (0..9u8).fold(u32::MAX, |sum, byte| {
        (0..8).fold(sum ^ u32::from(byte) << 24, |sum, _| {
            sum << 1 ^ if sum >> 31 == 1 { 0x04c1_1db7 } else { 0 }
        })
    });
    let packets = [
        "m1000,3",
        "m1000,0",
        "m8000,1",
        "x1001,2",
        "qSearch:memory:1000;40;\x05\x06",
        "qSearch:memory:1000;40;\x06\x05",
        "qCRC:1000,9",
        "qCRC:1000,800",
    ];
    let sum = format!("C{sum:x}");
    let expected = [
        "000102",
        "E01",
        "E01",
        "b\x01\x02",
        "1,1005",
        "0",
        &sum,
        "E01",
    ];
    assert_eq!(answers(&mut session, &packets), expected);
}

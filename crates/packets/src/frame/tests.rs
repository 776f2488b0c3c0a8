use proptest::prelude::*;

use super::{Connection, Decoder, Encoder, Event, Received, Side, Unreadable};

/// All events, and the payloads of those that have one, with the input cut in pieces.
fn decode(side: Side, limit: usize, pieces: &[&[u8]]) -> Vec<(Event, Vec<u8>)> {
    let mut decoder = Decoder::new(side, limit);
    let mut events = Vec::new();
    for piece in pieces {
        let mut input = *piece;
        while let Some(event) = decoder.decode(&mut input) {
            events.push((event, decoder.payload().to_vec()));
        }
    }
    events
}

fn payloads(events: Vec<(Event, Vec<u8>)>) -> Vec<Vec<u8>> {
    events
        .into_iter()
        .filter(|(event, _)| *event == Event::Packet)
        .map(|(_, payload)| payload)
        .collect()
}

#[test]
fn a_run_is_expanded_for_a_client_alone() {
    let wire = b"$0* #7a";
    assert_eq!(payloads(decode(Side::Client, 99, &[wire])), [b"0000"]);
    assert_eq!(payloads(decode(Side::Server, 99, &[wire])), [b"0* "]);
}

#[test]
fn a_run_without_a_byte_or_with_a_bad_count_is_unreadable() {
    for wire in [b"$* #4a".as_slice(), b"$0*\x1f#79", b"$0*\x7f#d9"] {
        let events = decode(Side::Client, 99, &[wire]);
        assert_eq!(
            events[0].0,
            Event::Unreadable(Unreadable::BadRun),
            "{wire:?}"
        );
    }
}

#[test]
fn framing_is_found_again_after_anything() {
    // A packet that lost its end, garbage, a packet with a wrong checksum, one without digits, then a good one.
    let wire = b"$qSuppor$qC#b4\x1b[0m+$qC#b5$qC#zz-\x03%Stop:N#2e$g#67";
    let events: Vec<Event> = decode(Side::Server, 99, &[wire])
        .into_iter()
        .map(|(event, _)| event)
        .collect();
    assert_eq!(
        events,
        [
            Event::Packet,
            Event::Garbage(4),
            Event::Ack,
            Event::Damaged {
                computed: 0xb4,
                sent: Some(0xb5)
            },
            Event::Damaged {
                computed: 0xb4,
                sent: None
            },
            Event::Garbage(2),
            Event::Nak,
            Event::Interrupt,
            Event::Notification,
            Event::Packet,
        ]
    );
}

#[test]
fn a_packet_over_the_limit_is_reported_and_the_next_one_read() {
    let events = decode(Side::Server, 4, &[b"$12345#ff$1234#ca"]);
    assert_eq!(events[0].0, Event::Unreadable(Unreadable::TooLong));
    assert_eq!(events[1], (Event::Packet, b"1234".to_vec()));
}

#[test]
fn a_damaged_packet_is_asked_for_again_and_a_lost_one_sent_again() {
    let mut stub = Connection::new(Side::Server, 99);
    assert_eq!(stub.receive(&mut b"$qC#00".as_slice()), None);
    assert_eq!(stub.output(), b"-");
    stub.written(1);
    assert_eq!(
        stub.receive(&mut b"$qC#b4".as_slice()),
        Some(Received::Packet(b"qC"))
    );
    stub.send(b"OK");
    assert_eq!(stub.output(), b"+$OK#9a");
    stub.written(7);
    assert_eq!(stub.receive(&mut b"-".as_slice()), None);
    assert_eq!(stub.output(), b"$OK#9a");
    assert_eq!(stub.receive(&mut b"+-".as_slice()), None);
    assert_eq!(
        stub.output(),
        b"$OK#9a",
        "nothing is sent again once it is acknowledged"
    );
}

#[test]
fn a_client_that_only_says_no_is_given_up() {
    let mut stub = Connection::new(Side::Server, 99);
    stub.send(b"OK");
    assert_eq!(stub.receive(&mut b"----".as_slice()), Some(Received::Lost));
}

#[test]
fn without_acknowledgements_nothing_is_acknowledged() {
    let mut stub = Connection::new(Side::Server, 99);
    stub.stop_acknowledging();
    assert_eq!(
        stub.receive(&mut b"$qC#00".as_slice()),
        Some(Received::Packet(b"qC"))
    );
    stub.send(b"OK");
    assert_eq!(stub.receive(&mut b"-".as_slice()), None);
    assert_eq!(stub.output(), b"$OK#9a");
}

proptest! {
    /// One side receives what the other sends, however the bytes are cut, with runs of any length.
    #[test]
    fn packets_arrive_as_they_were_sent(
        payloads_sent in proptest::collection::vec(
            proptest::collection::vec((proptest::char::range('0', 'z'), 1..130usize), 0..6),
            1..4,
        ),
        runs in any::<bool>(),
        cut in 0..200usize,
    ) {
        let encoder = if runs { Encoder::with_runs() } else { Encoder::plain() };
        let sent: Vec<Vec<u8>> = payloads_sent
            .iter()
            .map(|runs| runs.iter().flat_map(|(c, n)| vec![*c as u8; *n]).collect())
            .collect();
        let mut wire = Vec::new();
        for payload in &sent {
            encoder.packet(payload, &mut wire);
        }
        let (first, second) = wire.split_at(cut.min(wire.len()));
        let received = payloads(decode(Side::Client, 4096, &[first, second]));
        prop_assert_eq!(received, sent);
    }

    /// No bytes make a decoder panic, and it forgets nothing of a good packet that follows a frame's end.
    #[test]
    fn any_bytes_are_decoded_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let mut wire = bytes;
        wire.extend_from_slice(b"#00##$qC#b4");
        for side in [Side::Client, Side::Server] {
            let packets = payloads(decode(side, 50, &[&wire]));
            prop_assert_eq!(packets.last().map(Vec::as_slice), Some(b"qC".as_slice()));
        }
    }

    /// Escaped data is restored, and a prefix that fits does fit.
    #[test]
    fn escapes_read_back(data in proptest::collection::vec(any::<u8>(), 0..200), room in 0..100usize) {
        let mut escaped = Vec::new();
        crate::escape(&data, &mut escaped);
        prop_assert!(!escaped.iter().any(|byte| matches!(byte, b'$' | b'#' | b'*')));
        let plain = crate::unescape(&escaped);
        prop_assert_eq!(plain.as_deref(), Some(data.as_slice()));
        let fits = crate::escaped_prefix(&data, room);
        let mut part = Vec::new();
        crate::escape(&data[..fits], &mut part);
        prop_assert!(part.len() <= room);
        prop_assert!(fits == data.len() || part.len() + 2 > room);
    }
}

//! A whole session of GDB 13.1 with gdbserver 13.1, both directions.

use tracewire_packets::log::{Direction, Explainer, LoggedPacket, packets};
use tracewire_packets::{Reply, ReplyKind, Request};

const LOG: &[u8] = include_bytes!("data/session-packets.log");

/// What a packet prints as once it is parsed. One that the log cut short is shortened to its last whole piece.
fn back(packet: &mut LoggedPacket, parse: impl Fn(&[u8]) -> Result<Vec<u8>, String>) -> Vec<u8> {
    loop {
        match parse(&packet.payload) {
            Ok(printed) if packet.omitted == 0 || printed == packet.payload => return printed,
            _ if packet.omitted > 0 && !packet.payload.is_empty() => {
                packet.payload.pop();
            }
            Ok(printed) => return printed,
            Err(error) => panic!("line {}: {error}", packet.line),
        }
    }
}

#[test]
fn every_packet_of_a_session_parses_and_prints_back() {
    let mut last: Option<Request> = None;
    let (mut requests, mut replies, mut alone, mut cut) = (0, 0, 0, 0);
    for mut packet in packets(LOG) {
        let before = packet.payload.len();
        cut += usize::from(packet.omitted > 0);
        let printed = match packet.direction {
            Direction::Request => {
                requests += 1;
                let printed = back(&mut packet, |payload| match Request::parse(payload) {
                    Ok(Request::Unknown(_)) => Err("not known".to_owned()),
                    Ok(request) => Ok(request.to_bytes()),
                    Err(error) => Err(error.to_string()),
                });
                if packet.omitted == 0 {
                    let sum = packet
                        .payload
                        .iter()
                        .fold(0u8, |sum, byte| sum.wrapping_add(*byte));
                    assert_eq!(packet.checksum, Some(sum), "line {}", packet.line);
                }
                last = Request::parse(&packet.payload).ok();
                printed
            }
            Direction::Reply => {
                replies += 1;
                let kind = match (last.take(), packet.payload.first()) {
                    (Some(request), _) => request.reply_kind(),
                    // The program's output stood before some requests on their lines, and took them out of the log;
                    // all were reads: of memory, of a variable, of what a frame holds.
                    (None, first) => {
                        alone += 1;
                        match first {
                            Some(b'V') => ReplyKind::VariableValue,
                            Some(b'l') => ReplyKind::Chunk,
                            _ => ReplyKind::Memory,
                        }
                    }
                };
                back(&mut packet, |payload| match Reply::parse(kind, payload) {
                    Ok(Reply::Unknown(_)) => Err(format!("not known: {payload:?}")),
                    Ok(reply) => Ok(reply.to_bytes()),
                    Err(error) => Err(error.to_string()),
                })
            }
            Direction::Notification => panic!("line {}: the session is all-stop", packet.line),
        };
        assert!(before - packet.payload.len() < 32, "line {}", packet.line);
        assert_eq!(
            String::from_utf8_lossy(&printed),
            String::from_utf8_lossy(&packet.payload),
            "line {}",
            packet.line
        );
        assert_eq!(printed, packet.payload, "line {}", packet.line);
    }
    assert_eq!((requests, replies, alone, cut), (511, 524, 13, 71));
}

#[test]
fn every_packet_of_a_session_is_explained() {
    let mut explainer = Explainer::default();
    for packet in packets(LOG) {
        let text = explainer.explain(&packet);
        assert!(
            !text.starts_with("malformed") && !text.starts_with("unknown"),
            "{packet:?}: {text}"
        );
        assert!(
            !text.contains('\n') && text.len() < 300,
            "{packet:?}: {text}"
        );
    }
}

//! A whole session of GDB 13.1 with gdbserver 13.1, both directions.

use tracewire_packets::log::{Direction, Explainer, LoggedPacket, line, packets};
use tracewire_packets::{Reply, ReplyKind, Request};

const LOG: &[u8] = include_bytes!("data/session-packets.log");

/// The printed form of a parsed packet. One that the log cut short is shortened to its last whole part.
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
                    // The program's output was before some requests on their lines, and removed them from the log; all were reads:
                    // of memory, of a variable, of a frame's contents.
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

/// Direction, payload and bytes left out of each packet.
fn explained(log: &str) -> Vec<(Direction, String, usize)> {
    packets(log.as_bytes())
        .map(|packet| {
            let text = packet.payload.escape_ascii().to_string();
            (packet.direction, text, packet.omitted)
        })
        .collect()
}

#[test]
fn logs_of_every_gdb_are_read() {
    use Direction::{Notification, Reply, Request};
    let packet = |direction, payload: &str, omitted| (direction, payload.to_owned(), omitted);
    // GDB 12 and newer, among other output.
    assert_eq!(
        explained(
            "[remote] start_remote_1: enter\n  [remote] Sending packet: $qC#b4\n  \
             [remote] Received Ack\n  [remote] Packet received: QCp1.1\n  \
             [remote]   Notification received: Stop:N\nJunk: x\n"
        ),
        [
            packet(Request, "qC", 0),
            packet(Reply, "QCp1.1", 0),
            packet(Notification, "Stop:N", 0)
        ]
    );
    // GDB 10 and older: the reply on the request's line.
    assert_eq!(
        explained(
            "Sending packet: $m0,4#fd...Packet received: 00000000\r\nSending packet: $?#3f...Ack\nPacket received: S05\n"
        ),
        [
            packet(Request, "m0,4", 0),
            packet(Reply, "00000000", 0),
            packet(Request, "?", 0),
            packet(Reply, "S05", 0),
        ]
    );
    // Cut short, and escaped in every way.
    assert_eq!(
        explained(
            "Sending packet: $X0,99:\\000\\x41 [142 bytes omitted]\nPacket received: l\\n\\\\\\\" [7 bytes omitted]"
        ),
        [
            packet(Request, "X0,99:\\x00A", 142),
            packet(Reply, "l\\n\\\\\\\"", 7)
        ]
    );
}

#[test]
fn a_log_of_our_own_reads_back() {
    let payloads: [&[u8]; 3] = [b"qC", b"l<x>\n\t\\\x00\xff</x>", b"Stop:N"];
    let directions = [
        Direction::Request,
        Direction::Reply,
        Direction::Notification,
    ];
    let log: String = directions
        .iter()
        .zip(payloads)
        .map(|(direction, payload)| line(12.5, *direction, payload, "a meaning") + "\n")
        .collect();
    let read: Vec<(Direction, Vec<u8>)> = packets(log.as_bytes())
        .map(|packet| (packet.direction, packet.payload))
        .collect();
    let written: Vec<(Direction, Vec<u8>)> = directions
        .iter()
        .copied()
        .zip(payloads.map(<[u8]>::to_vec))
        .collect();
    assert_eq!(read, written);
}

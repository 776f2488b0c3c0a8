//! Each tracepoint packet, as GDB 13.1 and gdbserver 13.1 write it. The table in `TRACEPOINT_PACKETS.md` names a test
//! for each, and the last test here checks that.

use tracewire_model::{Address, TracepointNumber};
use tracewire_packets::tracepoint::TraceRequest;
use tracewire_packets::{Failure, HexBytes, Reply, Request};

mod define;
mod look;
mod run;

/// The text is read as the request, and the request is written as the text.
fn request(text: &str, expected: TraceRequest) {
    let expected = Request::Trace(expected);
    assert_eq!(
        Request::parse(text.as_bytes()).as_ref(),
        Ok(&expected),
        "{text}"
    );
    assert_eq!(String::from_utf8_lossy(&expected.to_bytes()), text);
}

/// The text is read as the reply to the request, and the reply is written as the text.
fn reply(to: &str, text: &str, expected: Reply) {
    let to = Request::parse(to.as_bytes()).unwrap();
    assert_eq!(
        Reply::parse(to.reply_kind(), text.as_bytes()).as_ref(),
        Ok(&expected),
        "{text}"
    );
    assert_eq!(String::from_utf8_lossy(&expected.to_bytes()), text);
}

/// The replies that are possible for every tracepoint packet.
fn done_unsupported_or_failed(to: &str) {
    reply(to, "OK", Reply::Ok);
    reply(to, "", Reply::Unsupported);
    reply(to, "E01", Reply::Error(Failure::Number(1)));
    reply(
        to,
        "E.No room in the trace buffer",
        Reply::Error(Failure::text("No room in the trace buffer")),
    );
}

/// Asserts that the request is malformed at this byte.
fn malformed(text: &str, packet: &str, column: usize) {
    let error = Request::parse(text.as_bytes()).unwrap_err();
    assert_eq!((error.packet, error.column), (packet, column), "{error}");
}

fn text(text: &str) -> HexBytes {
    HexBytes(text.as_bytes().to_vec())
}

const TWO: TracepointNumber = TracepointNumber(2);
const ADDRESS: Address = Address(0x5555_5555_5158);

/// The documentation's table, a row a packet, its cells without their padding.
fn rows() -> Vec<Vec<&'static str>> {
    include_str!("../../TRACEPOINT_PACKETS.md")
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect())
        .collect()
}

#[test]
fn every_packet_has_a_row_and_every_row_a_test() {
    let rows = rows();
    let source = concat!(
        include_str!("define.rs"),
        include_str!("run.rs"),
        include_str!("look.rs")
    );
    for row in &rows {
        assert_eq!(row.len(), 5, "{row:?}");
        assert!(row.iter().all(|cell| !cell.is_empty()), "{row:?}");
        let test = row[4].trim_matches('`');
        assert!(
            source.contains(&format!("#[test]\nfn {test}() {{")),
            "{} names the test {test}, which is not there",
            row[0]
        );
    }
    for prefix in TraceRequest::PREFIXES {
        let packet = prefix.trim_end_matches([':', '-']);
        assert!(
            rows.iter().any(|row| row[0].contains(packet)),
            "{packet} has no row in TRACEPOINT_PACKETS.md"
        );
    }
}

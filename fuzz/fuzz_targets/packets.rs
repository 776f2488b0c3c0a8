//! Any bytes as packets, both ways, and as a log.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tracewire_packets::frame::{Connection, Decoder, Event, Received, Side};
use tracewire_packets::log::{Explainer, packets};
use tracewire_packets::tracepoint::FrameInfo;
use tracewire_packets::{Notification, Reply, Request, explain_reply};

const LIMIT: usize = 512;

/// What is understood is understood again once it is printed, and says the same.
fn check_request(payload: &[u8]) {
    if let Ok(request) = Request::parse(payload) {
        assert_eq!(Request::parse(&request.to_bytes()).as_ref(), Ok(&request));
        assert!(!request.explain().is_empty());
    }
}

fn check_reply(request: &Request, payload: &[u8]) {
    assert!(!explain_reply(request, payload).is_empty());
    let kind = request.reply_kind();
    if let Ok(reply) = Reply::parse(kind, payload) {
        assert_eq!(Reply::parse(kind, &reply.to_bytes()).as_ref(), Ok(&reply));
    }
}

fuzz_target!(|data: &[u8]| {
    for side in [Side::Client, Side::Server] {
        let mut decoder = Decoder::new(side, LIMIT);
        let mut input = data;
        while let Some(event) = decoder.decode(&mut input) {
            assert!(decoder.payload().len() <= LIMIT);
            if event == Event::Packet {
                check_request(decoder.payload());
            }
        }
        let mut connection = Connection::new(side, LIMIT);
        let mut input = data;
        while let Some(received) = connection.receive(&mut input) {
            if received == Received::Lost {
                break;
            }
        }
    }
    check_request(data);
    // A request, and what may be its reply.
    if let Some(newline) = data.iter().position(|byte| *byte == b'\n') {
        let (request, reply) = (&data[..newline], &data[newline + 1..]);
        if let Ok(request) = Request::parse(request) {
            check_reply(&request, reply);
        }
    }
    if let Ok(notification) = Notification::parse(data) {
        let mut printed = Vec::new();
        notification.print(&mut printed);
        assert_eq!(Notification::parse(&printed), Ok(notification));
    }
    let mut explainer = Explainer::default();
    for packet in packets(data) {
        assert!(!explainer.explain(&packet).is_empty());
    }
    if let Ok(text) = std::str::from_utf8(data)
        && let Ok(info) = FrameInfo::parse(text)
    {
        assert_eq!(FrameInfo::parse(&info.to_xml()), Ok(info));
    }
});

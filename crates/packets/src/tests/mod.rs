use proptest::prelude::*;

use crate::field::{Field, Sample};
use crate::frame::{Decoder, Side};
use crate::reply::{Notification, Reply, ReplyKind, samples};
use crate::{Request, explain_request};
use tracewire_model::text::Scanner;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    /// Every request is parsed as it was printed, with any contents.
    #[test]
    fn every_request_reads_back(request in Request::strategy()) {
        let bytes = request.to_bytes();
        prop_assert_eq!(Request::parse(&bytes), Ok(request.clone()));
        prop_assert!(!request.explain().is_empty());
    }

    /// So is every reply, given the request it answers.
    #[test]
    fn every_reply_reads_back((kind, reply) in samples::replies()) {
        let bytes = reply.to_bytes();
        prop_assert_eq!(Reply::parse(kind, &bytes), Ok(reply.clone()));
        prop_assert!(!reply.to_string().is_empty());
    }

    /// A stop is the same as a notification.
    #[test]
    fn every_stop_notification_reads_back(stop in crate::family::stop::StopReply::strategy()) {
        let mut bytes = Vec::new();
        let notification = Notification::Stop(stop);
        notification.print(&mut bytes);
        prop_assert_eq!(Notification::parse(&bytes), Ok(notification));
    }

    /// No input makes a parser panic, and a parsed packet is parsed again after it is printed.
    #[test]
    fn any_bytes_are_read_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
        check_request(&bytes)?;
    }

    /// The same for bytes that begin like a packet.
    #[test]
    fn any_packet_with_anything_after_its_letters_is_read_without_harm(
        prefix in proptest::sample::select(Request::prefixes().collect::<Vec<_>>()),
        rest in "[-0-9a-fA-FX:;,.=+p*}SFLRME]{0,40}",
    ) {
        let text = format!("{prefix}{rest}");
        check_request(text.as_bytes())?;
        let letters = rest.as_bytes();
        for kind in [ReplyKind::Stop, ReplyKind::File, ReplyKind::TraceStatus, ReplyKind::DefinitionRecord,
                     ReplyKind::Markers, ReplyKind::Registers, ReplyKind::Features, ReplyKind::Frame] {
            if let Ok(reply) = Reply::parse(kind, letters) {
                prop_assert_eq!(Reply::parse(kind, &reply.to_bytes()), Ok(reply));
            }
        }
    }
}

fn check_request(bytes: &[u8]) -> Result<(), TestCaseError> {
    if let Ok(request) = Request::parse(bytes) {
        prop_assert_eq!(Request::parse(&request.to_bytes()), Ok(request));
    }
    prop_assert!(!explain_request(bytes).is_empty());
    Ok(())
}

#[test]
fn a_malformed_packet_is_reported_by_name_and_place() {
    let error = Request::parse(b"QTEnable:2:xyz").unwrap_err();
    assert_eq!(
        error.to_string(),
        "QTEnable: expected a hexadecimal number at byte 11 of `QTEnable:2:xyz`"
    );
    let error = Request::parse(b"QTDP:2:401000:E:0:0:Q1").unwrap_err();
    assert_eq!(
        (error.packet, error.column, error.expected),
        ("QTDP:", 20, "F, S or X")
    );
    let error = Request::parse(b"QTDP:-2:401000:R0fM-1,4").unwrap_err();
    assert_eq!((error.packet, error.column), ("QTDP:-", 23));
}

#[test]
fn no_packet_hides_behind_a_shorter_one() {
    let prefixes: Vec<&str> = Request::prefixes().collect();
    for (place, prefix) in prefixes.iter().enumerate() {
        for (before, shorter) in prefixes[..place].iter().enumerate() {
            let both = [shorter, prefix];
            // A packet of only letters matches no other packet.
            let exact = Request::parse(format!("{shorter}\u{1}").as_bytes())
                .is_ok_and(|request| matches!(request, Request::Unknown(_)));
            assert!(
                exact || !prefix.starts_with(shorter),
                "{both:?} at {before} and {place}"
            );
        }
    }
}

#[test]
fn a_length_that_is_not_true_is_refused() {
    assert!(Request::parse(b"M1000,3:0102").is_err());
    assert!(Request::parse(b"X1000,3:ab").is_err());
    assert!(Request::parse(b"Z0,1000,1;X3,0102").is_err());
}

#[test]
fn a_decoder_holds_no_more_than_its_limit() {
    let mut decoder = Decoder::new(Side::Client, 100);
    // 97 repeats, again and again.
    let bomb = [b"$a".as_slice(), &b"*~".repeat(100_000), b"#00"].concat();
    let mut input = bomb.as_slice();
    while decoder.decode(&mut input).is_some() {}
    assert!(decoder.payload().len() <= 100);
}

#[test]
fn text_in_field_positions_is_scanned_to_its_end() {
    let mut scanner = Scanner::new(b"p1.-1,");
    let thread = crate::ThreadSelector::scan(&mut scanner).unwrap();
    assert_eq!(thread.to_string(), "all threads of process 1");
    assert_eq!(scanner.rest(), b",");
}

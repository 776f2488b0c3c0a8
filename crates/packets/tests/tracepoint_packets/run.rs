//! The run.

use tracewire_model::{StopReason, TracepointUsage, VariableNumber};
use tracewire_packets::tracepoint::{BufferSize, Notes, TraceRequest};
use tracewire_packets::{Failure, Reply, Request};

use crate::*;

#[test]
fn forget_everything() {
    request("QTinit", TraceRequest::Initialize);
    done_unsupported_or_failed("QTinit");
}

#[test]
fn start_the_run() {
    request("QTStart", TraceRequest::Start);
    done_unsupported_or_failed("QTStart");
}

#[test]
fn stop_the_run() {
    request("QTStop", TraceRequest::Stop);
    done_unsupported_or_failed("QTStop");
}

#[test]
fn disconnected_tracing() {
    request("QTDisconnected:1", TraceRequest::Disconnected { on: true });
    request("QTDisconnected:0", TraceRequest::Disconnected { on: false });
    done_unsupported_or_failed("QTDisconnected:0");
    malformed("QTDisconnected:2", "QTDisconnected:", 15);
}

#[test]
fn status_of_the_run() {
    request("qTStatus", TraceRequest::Status);
    let ask = Request::parse(b"qTStatus").unwrap();
    for (text, running, reason, tracepoint) in [
        (
            "T0;tnotrun:0;tframes:0;tcreated:0",
            false,
            StopReason::NotRun,
            None,
        ),
        ("T1", true, StopReason::Unknown, None),
        (
            "T0;tstop:656e6f756768:0;tframes:18",
            false,
            StopReason::Command,
            None,
        ),
        ("T0;tstop:0", false, StopReason::Command, None),
        ("T0;tfull:0", false, StopReason::Full, None),
        ("T0;tdisconnected:0", false, StopReason::Disconnected, None),
        ("T0;tpasscount:2", false, StopReason::PassCount, Some(TWO)),
        ("T0;terror:646976:2", false, StopReason::Error, Some(TWO)),
        (
            "T0;tunknown:0;tsize:500000;circular:1;disconn:1;brandnew:1",
            false,
            StopReason::Unknown,
            None,
        ),
    ] {
        let status = match Reply::parse(ask.reply_kind(), text.as_bytes()) {
            Ok(Reply::TraceStatus(status)) => status,
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(status.fields.running, running, "{text}");
        assert_eq!(
            status.fields.stop_reason.unwrap_or(StopReason::Unknown),
            reason,
            "{text}"
        );
        assert_eq!(status.fields.stopping_tracepoint, tracepoint, "{text}");
        assert_eq!(
            String::from_utf8_lossy(&Reply::TraceStatus(status).to_bytes()),
            text
        );
    }
    reply(
        "qTStatus",
        "E.Not now",
        Reply::Error(Failure::text("Not now")),
    );
    reply("qTStatus", "", Reply::Unsupported);
    assert!(Reply::parse(ask.reply_kind(), b"X0").is_err());
}

#[test]
fn usage_of_a_tracepoint() {
    request(
        "qTP:2:555555555158",
        TraceRequest::Usage {
            number: TWO,
            address: ADDRESS,
        },
    );
    let usage = TracepointUsage {
        hits: 7,
        bytes: 0x52150,
    };
    reply(
        "qTP:2:555555555158",
        "V7:52150",
        Reply::TracepointUsage(usage),
    );
    reply(
        "qTP:2:555555555158",
        "E01",
        Reply::Error(Failure::Number(1)),
    );
    malformed("qTP:2", "qTP:", 5);
}

#[test]
fn value_of_a_variable() {
    request(
        "qTV:a",
        TraceRequest::VariableValue {
            number: VariableNumber(10),
        },
    );
    reply("qTV:a", "Vffffffffffffffff", Reply::VariableValue(Some(-1)));
    reply(
        "qTV:a",
        "V575a6222",
        Reply::VariableValue(Some(0x575a_6222)),
    );
    reply("qTV:a", "U", Reply::VariableValue(None));
    malformed("qTV:", "qTV:", 4);
}

#[test]
fn save_on_the_target() {
    request("QTSave:612e7466", TraceRequest::Save { file: text("a.tf") });
    done_unsupported_or_failed("QTSave:612e7466");
    malformed("QTSave:612e746", "QTSave:", 7);
}

#[test]
fn kind_and_size_of_the_buffer() {
    request("QTBuffer:circular:1", TraceRequest::Circular { on: true });
    request("QTBuffer:circular:0", TraceRequest::Circular { on: false });
    let size = |text, size| request(text, TraceRequest::BufferSize { size });
    size("QTBuffer:size:f4240", BufferSize::Bytes(1_000_000));
    size("QTBuffer:size:-1", BufferSize::Default);
    done_unsupported_or_failed("QTBuffer:size:f4240");
    malformed("QTBuffer:size:large", "QTBuffer:size:", 14);
}

#[test]
fn notes_on_the_run() {
    let notes = Notes {
        user: Some(text("alice")),
        notes: Some(text("first run")),
        stop: None,
    };
    request(
        "QTNotes:user:616c696365;notes:66697273742072756e;",
        TraceRequest::Notes {
            notes: notes.clone(),
        },
    );
    request(
        "QTNotes:tstop:656e6f756768;",
        TraceRequest::Notes {
            notes: Notes {
                stop: Some(text("enough")),
                ..Notes::default()
            },
        },
    );
    // As the manual has it, without the last `;`.
    assert_eq!(
        Request::parse(b"QTNotes:user:616c696365;notes:66697273742072756e"),
        Ok(Request::Trace(TraceRequest::Notes { notes }))
    );
    done_unsupported_or_failed("QTNotes:user:616c696365;");
    // The manual does not say that there are no other types.
    assert_eq!(
        Request::parse(b"QTNotes:author:61;tstop:6e6f77;"),
        Ok(Request::Trace(TraceRequest::Notes {
            notes: Notes {
                stop: Some(text("now")),
                ..Notes::default()
            }
        }))
    );
    malformed("QTNotes:author:6;", "QTNotes:", 15);
}

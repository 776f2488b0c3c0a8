//! The results of a run, and the target's state.

use tracewire_model::{
    Action, Address, DefinitionContent, DefinitionRecord, FrameNumber, SourceKind, TracepointKind,
    TracepointNumber, VariableDefinition, VariableNumber,
};
use tracewire_packets::family::transfer::{Chunk, Object, Operation, Transfer, TransferRequest};
use tracewire_packets::tracepoint::{
    FrameInfo, FramePart, FrameSelection, Marker, MarkerList, SelectedFrame, TraceRequest,
};
use tracewire_packets::{Failure, Reply, Request};

use crate::*;

#[test]
fn select_a_frame() {
    let select = |text, frame| {
        request(text, TraceRequest::SelectFrame { frame });
        reply(text, "FdT3", found(13, 3));
        reply(
            text,
            "F-1",
            Reply::Frame(SelectedFrame {
                frame: None,
                tracepoint: None,
            }),
        );
        done_unsupported_or_failed(text);
    };
    select("QTFrame:e", FrameSelection::Number(FrameNumber(14)));
    select("QTFrame:ffffffff", FrameSelection::None);
    select("QTFrame:pc:555555555158", FrameSelection::Pc(ADDRESS));
    select("QTFrame:tdp:2", FrameSelection::Tracepoint(TWO));
    let (start, end) = (Address(0x1000), Address(0x2000));
    select(
        "QTFrame:range:1000:2000",
        FrameSelection::Within { start, end },
    );
    select(
        "QTFrame:outside:1000:2000",
        FrameSelection::Outside { start, end },
    );
    malformed("QTFrame:range:1000", "QTFrame:", 18);
    malformed("QTFrame:first", "QTFrame:", 9);
}

fn found(frame: u64, tracepoint: i32) -> Reply {
    Reply::Frame(SelectedFrame {
        frame: Some(FrameNumber(frame)),
        tracepoint: Some(TracepointNumber(tracepoint)),
    })
}

#[test]
fn list_the_tracepoints() {
    request("qTfP", TraceRequest::FirstPiece);
    request("qTsP", TraceRequest::MorePieces);
    let piece = |text, content| {
        reply(
            "qTfP",
            text,
            Reply::DefinitionRecord(DefinitionRecord {
                number: TWO,
                address: ADDRESS,
                content,
            }),
        );
    };
    piece(
        "T2:555555555158:E:2:64:X1,27",
        DefinitionContent::Definition {
            enabled: true,
            kind: TracepointKind::Trap,
            step_count: 2,
            pass_count: 100,
            condition: Some(vec![0x27]),
        },
    );
    let expression = || vec![Action::Expression(vec![0x27])];
    piece(
        "A2:555555555158:X00000001,27",
        DefinitionContent::Actions(expression()),
    );
    piece(
        "S2:555555555158:X00000001,27",
        DefinitionContent::StepActions(expression()),
    );
    let bytes = b"end".to_vec();
    piece(
        "Z2:555555555158:cmd:0:3:656e64",
        DefinitionContent::Source {
            kind: SourceKind::Command,
            start: 0,
            total: 3,
            bytes,
        },
    );
    reply("qTsP", "l", Reply::End);
    reply("qTsP", "", Reply::Unsupported);
}

#[test]
fn list_the_variables() {
    request("qTfV", TraceRequest::FirstVariable);
    request("qTsV", TraceRequest::MoreVariables);
    let variable = VariableDefinition {
        number: VariableNumber(2),
        initial: 0,
        builtin: false,
        name: "hits".to_owned(),
    };
    reply("qTfV", "2:0:0:68697473", Reply::Variable(variable));
    reply("qTsV", "l", Reply::End);
}

#[test]
fn list_the_markers() {
    request("qTfSTM", TraceRequest::FirstMarkers);
    request("qTsSTM", TraceRequest::MoreMarkers);
    let marker = |address, id, extra| Marker {
        address: Address(address),
        id: text(id),
        extra: text(extra),
    };
    let one = marker(0x401000, "ust/bar", "str %s");
    reply(
        "qTfSTM",
        "m401000:7573742f626172:737472202573",
        Reply::Markers(MarkerList(vec![one.clone()])),
    );
    reply(
        "qTsSTM",
        "m401000:7573742f626172:737472202573,402000:62:",
        Reply::Markers(MarkerList(vec![one, marker(0x402000, "b", "")])),
    );
    reply("qTsSTM", "l", Reply::End);
    reply("qTfSTM", "E01", Reply::Error(Failure::Number(1)));
    reply("qTfSTM", "", Reply::Unsupported);
}

#[test]
fn markers_at_an_address() {
    request(
        "qTSTMat:555555555158",
        TraceRequest::MarkersAt { address: ADDRESS },
    );
    reply("qTSTMat:555555555158", "l", Reply::End);
    malformed("qTSTMat:", "qTSTMat:", 8);
}

#[test]
fn read_the_buffer() {
    request(
        "qTBuffer:fa0,7d0",
        TraceRequest::Buffer {
            offset: 4000,
            length: 2000,
        },
    );
    reply(
        "qTBuffer:fa0,7d0",
        "02000001",
        Reply::TraceBuffer(vec![2, 0, 0, 1]),
    );
    reply("qTBuffer:fa0,7d0", "l", Reply::End);
    reply("qTBuffer:fa0,7d0", "E01", Reply::Error(Failure::Number(1)));
    malformed("qTBuffer:fa0", "qTBuffer:", 12);
}

fn object(text: &str, object: Object) {
    let window = Transfer {
        object,
        annex: String::new(),
        offset: 0,
        operation: Operation::Read { length: 0x1000 },
    };
    let expected = Request::Transfer(TransferRequest::Transfer { window });
    assert_eq!(Request::parse(text.as_bytes()).as_ref(), Ok(&expected));
    assert_eq!(expected.to_bytes(), text.as_bytes());
    reply(
        text,
        "lend",
        Reply::Chunk(Chunk {
            last: true,
            data: b"end".to_vec(),
        }),
    );
    reply(
        text,
        "m}\u{3}more",
        Reply::Chunk(Chunk {
            last: false,
            data: b"#more".to_vec(),
        }),
    );
    reply(
        text,
        "E.No frame is selected",
        Reply::Error(Failure::text("No frame is selected")),
    );
}

#[test]
fn what_a_frame_holds() {
    object("qXfer:traceframe-info:read::0,1000", Object::TraceframeInfo);
    let xml = "<traceframe-info>\n<memory start=\"0x555555558080\" length=\"0x4\"/>\n\
               <tvar id=\"1\"/>\n</traceframe-info>\n";
    let info = FrameInfo(vec![
        FramePart::Memory {
            start: Address(0x5555_5555_8080),
            length: 4,
        },
        FramePart::Variable(VariableNumber(1)),
    ]);
    assert_eq!(FrameInfo::parse(xml).unwrap(), info);
    assert_eq!(info.to_xml(), xml);
    assert!(FrameInfo::parse("<threads/>").is_err());
    assert!(FrameInfo::parse("<traceframe-info><memory start=\"x\"/></traceframe-info>").is_err());
}

#[test]
fn static_trace_data() {
    object("qXfer:statictrace:read::0,1000", Object::StaticTraceData);
}

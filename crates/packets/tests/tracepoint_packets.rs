//! Each tracepoint packet, as GDB 13.1 and gdbserver 13.1 write it. The table in `TRACEPOINT_PACKETS.md` names a test
//! for each, and the last test here checks that.

use tracewire_packets::family::transfer::{Chunk, Object, Operation, Transfer, TransferRequest};
use tracewire_packets::tracepoint::{
    ActionPacket, BufferSize, Definition, FrameInfo, FramePart, FrameSelection, Marker, MarkerList,
    Notes, Ranges, SelectedFrame, SourceString, TraceRequest,
};
use tracewire_packets::{Failure, HexBytes, Reply, Request, WideAddress};
use tracewire_tracefile::{
    Action, Address, FrameNumber, Piece, PieceContent, RegisterMask, RegisterNumber, SourceKind,
    StopReason, TracepointKind, TracepointNumber, TracepointUsage, VariableDefinition,
    VariableNumber,
};

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

/// What every tracepoint packet may be answered with.
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

/// The request is told to be malformed, at this byte.
fn malformed(text: &str, packet: &str, column: usize) {
    let error = Request::parse(text.as_bytes()).unwrap_err();
    assert_eq!((error.packet, error.column), (packet, column), "{error}");
}

fn text(text: &str) -> HexBytes {
    HexBytes(text.as_bytes().to_vec())
}

const TWO: TracepointNumber = TracepointNumber(2);
const ADDRESS: Address = Address(0x5555_5555_5158);

#[test]
fn forget_everything() {
    request("QTinit", TraceRequest::Initialize);
    done_unsupported_or_failed("QTinit");
}

fn definition() -> Definition {
    Definition {
        number: TWO,
        address: ADDRESS,
        enabled: true,
        kind: TracepointKind::Trap,
        step_count: 0,
        pass_count: 0,
        condition: None,
        more: false,
    }
}

#[test]
fn define_a_tracepoint() {
    let define = |text, definition| request(text, TraceRequest::Define { definition });
    define("QTDP:2:0000555555555158:E:0:0", definition());
    define(
        "QTDP:2:0000555555555158:D:2:64:X3,220127-",
        Definition {
            enabled: false,
            step_count: 2,
            pass_count: 100,
            condition: Some(vec![0x22, 0x01, 0x27]),
            more: true,
            ..definition()
        },
    );
    let fast = Definition {
        kind: TracepointKind::Fast { length: 5 },
        ..definition()
    };
    define("QTDP:2:0000555555555158:E:0:0:F5", fast.clone());
    define(
        "QTDP:2:0000555555555158:E:0:0:S",
        Definition {
            kind: TracepointKind::Static,
            ..definition()
        },
    );
    // Options in another order, and an address without leading zeros, are the same.
    let conditional = Definition {
        condition: Some(vec![0x27]),
        ..fast
    };
    assert_eq!(
        Request::parse(b"QTDP:2:555555555158:E:0:0:X1,27:F5"),
        Ok(Request::Trace(TraceRequest::Define {
            definition: conditional
        }))
    );
    done_unsupported_or_failed("QTDP:2:0000555555555158:E:0:0");
    malformed("QTDP:2:0000555555555158:M:0:0", "QTDP:", 24);
    malformed("QTDP:2:0000555555555158:E:0:0:X4,27", "QTDP:", 33);
    malformed("QTDP:2", "QTDP:", 6);
}

#[test]
fn define_actions() {
    let registers = RegisterMask::from_iter([RegisterNumber(6)]);
    request(
        "QTDP:-2:0000555555555158:R40M-1,555555558080,4MF,8,1AX00000003,220127L-",
        TraceRequest::Actions {
            actions: ActionPacket {
                number: TWO,
                address: ADDRESS,
                starts_stepping: false,
                actions: vec![
                    Action::Registers(registers.clone()),
                    Action::Memory {
                        base: None,
                        offset: 0x5555_5555_8080,
                        length: 4,
                    },
                    Action::Memory {
                        base: Some(RegisterNumber(15)),
                        offset: 8,
                        length: 26,
                    },
                    Action::Expression(vec![0x22, 0x01, 0x27]),
                    Action::StaticData,
                ],
                more: true,
            },
        },
    );
    request(
        "QTDP:-2:0000555555555158:SR40",
        TraceRequest::Actions {
            actions: ActionPacket {
                number: TWO,
                address: ADDRESS,
                starts_stepping: true,
                actions: vec![Action::Registers(registers)],
                more: false,
            },
        },
    );
    done_unsupported_or_failed("QTDP:-2:0000555555555158:R40");
    malformed("QTDP:-2:0000555555555158:R40Y", "QTDP:-", 28);
    malformed("QTDP:-2:0000555555555158:X0000000F,27", "QTDP:-", 35);
}

#[test]
fn define_source_strings() {
    let source = SourceString {
        number: TWO,
        address: ADDRESS,
        kind: SourceKind::At,
        start: 0,
        total: 6,
        bytes: b"handle".to_vec(),
    };
    let define = |text, source| request(text, TraceRequest::Source { source });
    define("QTDPsrc:2:555555555158:at:0:6:68616e646c65", source.clone());
    define(
        "QTDPsrc:2:555555555158:cond:3:9:6c65",
        SourceString {
            kind: SourceKind::Condition,
            start: 3,
            total: 9,
            bytes: b"le".to_vec(),
            ..source.clone()
        },
    );
    define(
        "QTDPsrc:2:555555555158:cmd:0:3:656e64",
        SourceString {
            kind: SourceKind::Command,
            total: 3,
            bytes: b"end".to_vec(),
            ..source
        },
    );
    done_unsupported_or_failed("QTDPsrc:2:555555555158:cmd:0:3:656e64");
    malformed("QTDPsrc:2:555555555158:cmd:0:3:656e6", "QTDPsrc:", 35);
}

#[test]
fn define_a_variable() {
    let variable = |number, initial, builtin, name: &str| VariableDefinition {
        number: VariableNumber(number),
        initial,
        builtin,
        name: name.to_owned(),
    };
    let define = |text, variable| request(text, TraceRequest::Variable { variable });
    define(
        "QTDV:2:0000000000000000:0:68697473",
        variable(2, 0, false, "hits"),
    );
    define("QTDV:3:ffffffffffffffff:0:6d", variable(3, -1, false, "m"));
    define("QTDV:1:0000000000000000:1:74", variable(1, 0, true, "t"));
    done_unsupported_or_failed("QTDV:2:0000000000000000:0:68697473");
    malformed("QTDV:2:0", "QTDV:", 8);
}

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
fn shortest_fast_instruction() {
    request("qTMinFTPILen", TraceRequest::MinimumFastLength);
    reply("qTMinFTPILen", "5", Reply::Length(5));
    reply("qTMinFTPILen", "0", Reply::Length(0));
    reply("qTMinFTPILen", "", Reply::Unsupported);
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
fn enable_and_disable() {
    let address = WideAddress(ADDRESS);
    request(
        "QTEnable:2:0000555555555158",
        TraceRequest::Enable {
            number: TWO,
            address,
        },
    );
    request(
        "QTDisable:2:0000555555555158",
        TraceRequest::Disable {
            number: TWO,
            address,
        },
    );
    done_unsupported_or_failed("QTEnable:2:0000555555555158");
    malformed("QTEnable:2", "QTEnable:", 10);
    malformed("QTDisable:2:", "QTDisable:", 12);
}

#[test]
fn read_only_memory() {
    let ranges = vec![0x318..0x334, 0x1000..0x101b];
    request(
        "QTro:0000000000000318,0000000000000334:0000000000001000,000000000000101b",
        TraceRequest::ReadOnly {
            ranges: Ranges(ranges),
        },
    );
    request(
        "QTro",
        TraceRequest::ReadOnly {
            ranges: Ranges::default(),
        },
    );
    done_unsupported_or_failed("QTro");
    malformed("QTro:318", "QTro", 8);
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
fn list_the_tracepoints() {
    request("qTfP", TraceRequest::FirstPiece);
    request("qTsP", TraceRequest::MorePieces);
    let piece = |text, content| {
        reply(
            "qTfP",
            text,
            Reply::Piece(Piece {
                number: TWO,
                address: ADDRESS,
                content,
            }),
        );
    };
    piece(
        "T2:555555555158:E:2:64:X1,27",
        PieceContent::Definition {
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
        PieceContent::Actions(expression()),
    );
    piece(
        "S2:555555555158:X00000001,27",
        PieceContent::StepActions(expression()),
    );
    let bytes = b"end".to_vec();
    piece(
        "Z2:555555555158:cmd:0:3:656e64",
        PieceContent::Source {
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
fn save_on_the_target() {
    request("QTSave:612e7466", TraceRequest::Save { file: text("a.tf") });
    done_unsupported_or_failed("QTSave:612e7466");
    malformed("QTSave:612e746", "QTSave:", 7);
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
    malformed("QTNotes:author:61;", "QTNotes:", 8);
}

#[test]
fn move_an_instruction() {
    // The stub's question stands in place of the reply to a definition or a start.
    for to in ["QTDP:2:0000555555555158:E:0:0:F5", "QTStart"] {
        let (from, to_address) = (Address(0x401000), Address(0x7fff_0000));
        reply(
            to,
            "qRelocInsn:401000;7fff0000",
            Reply::Relocate {
                from,
                to: to_address,
            },
        );
    }
    // GDB's answer comes as a request, and the reply proper after it.
    request("qRelocInsn:5", TraceRequest::Relocated { size: 5 });
    request(
        "E01",
        TraceRequest::RelocationFailed {
            failure: Failure::Number(1),
        },
    );
    done_unsupported_or_failed("qRelocInsn:5");
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

/// The documentation's table, a row a packet, its cells without their padding.
fn rows() -> Vec<Vec<&'static str>> {
    include_str!("../TRACEPOINT_PACKETS.md")
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect())
        .collect()
}

#[test]
fn every_packet_has_a_row_and_every_row_a_test() {
    let rows = rows();
    let source = include_str!("tracepoint_packets.rs");
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

//! Definitions.

use tracewire_model::{
    Action, Address, RegisterMask, RegisterNumber, SourceKind, TracepointKind, VariableDefinition,
    VariableNumber,
};
use tracewire_packets::tracepoint::{ActionPacket, Definition, Ranges, SourceString, TraceRequest};
use tracewire_packets::{Failure, Reply, Request, WideAddress};

use crate::*;

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
fn shortest_fast_instruction() {
    request("qTMinFTPILen", TraceRequest::MinimumFastLength);
    reply("qTMinFTPILen", "5", Reply::Length(5));
    reply("qTMinFTPILen", "0", Reply::Length(0));
    reply("qTMinFTPILen", "", Reply::Unsupported);
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
fn move_an_instruction() {
    // The stub's question replaces the reply to a definition or a start.
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

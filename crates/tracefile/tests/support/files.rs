//! Trace files made up by proptest.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use tracewire_model::{
    Action, Address, ByteOrder, Pause, RegisterMask, RegisterNumber, Served, SourceStrings, Status,
    StatusFields, StopReason, Tracepoint, TracepointDefinition, TracepointKind, TracepointNumber,
    TracepointUsage, VariableDefinition, VariableNumber,
};
use tracewire_tracefile::{DescriptionParts, FrameEncoder, FrameFormat, Module};

/// A block to be written.
#[derive(Clone, Debug, PartialEq)]
pub enum Wanted {
    Registers(Vec<u8>),
    Memory(u64, Vec<u8>),
    Variable(i32, i64),
    StaticData(Vec<u8>),
}

/// A file to be written.
#[derive(Clone, Debug)]
pub struct WantedFile {
    pub order: ByteOrder,
    pub parts: DescriptionParts,
    pub frames: Vec<(i32, Vec<Wanted>)>,
}

impl WantedFile {
    pub fn format(&self) -> FrameFormat {
        FrameFormat {
            byte_order: self.order,
            register_block_size: self.parts.register_block_size,
        }
    }

    /// Every frame, written.
    pub fn encoded(&self) -> Vec<Vec<u8>> {
        let encode = |(number, blocks): &(i32, Vec<Wanted>)| {
            let mut buffer = Vec::new();
            let number = TracepointNumber(*number);
            let mut encoder = FrameEncoder::begin(&mut buffer, self.format(), number).unwrap();
            for block in blocks {
                match block {
                    Wanted::Registers(bytes) => encoder.registers(bytes).unwrap(),
                    Wanted::Memory(address, bytes) => encoder.memory(Address(*address), bytes),
                    Wanted::Variable(number, value) => {
                        encoder.variable(VariableNumber(*number), *value);
                    }
                    Wanted::StaticData(bytes) => encoder.static_data(bytes).unwrap(),
                }
            }
            encoder.finish().unwrap();
            buffer
        };
        self.frames.iter().map(encode).collect()
    }
}

pub fn actions() -> impl Strategy<Value = Vec<Action>> {
    let action = prop_oneof![
        vec(0u16..300, 0..20).prop_map(|registers| {
            Action::Registers(
                registers
                    .into_iter()
                    .map(RegisterNumber)
                    .collect::<RegisterMask>(),
            )
        }),
        (
            option::of(any::<u16>().prop_map(RegisterNumber)),
            any::<u64>(),
            any::<u64>()
        )
            .prop_map(|(base, offset, length)| Action::Memory {
                base,
                offset,
                length
            }),
        vec(any::<u8>(), 0..60).prop_map(Action::Expression),
        Just(Action::StaticData),
    ];
    vec(action, 0..12)
}

fn text() -> impl Strategy<Value = String> {
    "[ -~é]{0,40}"
}

fn kind() -> impl Strategy<Value = TracepointKind> {
    prop_oneof![
        Just(TracepointKind::Trap),
        Just(TracepointKind::Static),
        any::<u64>().prop_map(|length| TracepointKind::Fast { length }),
    ]
}

pub fn tracepoint(number: i32) -> impl Strategy<Value = Tracepoint> {
    let numbers = (any::<u64>(), any::<bool>(), any::<u64>(), any::<u64>());
    let rest = (
        kind(),
        option::of(vec(any::<u8>(), 0..400)),
        actions(),
        actions(),
        (
            option::of(text()),
            option::of(text()),
            vec(text(), 0..4),
            option::of(text()),
            option::of(text()),
            option::of(text()),
            option::of(text()),
            (option::of(text()), option::of(text())),
        ),
        option::of((any::<u64>(), any::<u64>())),
        (
            option::of(("[a-z ]{1,40}", option::of("[a-zé: ]{1,40}"))),
            any::<u64>(),
            proptest::collection::vec((any::<u64>(), any::<u64>()), 0..40),
        ),
    );
    (numbers, rest).prop_map(move |((address, enabled, step_count, pass_count), rest)| {
        let (kind, condition, actions, step_actions, source, usage, (served, skipped, pauses)) =
            rest;
        let (at, cond, commands, marker, frame, own_condition, own_location, (span, watch)) =
            source;
        Tracepoint {
            definition: TracepointDefinition {
                number: TracepointNumber(number),
                address: Address(address),
                enabled,
                kind,
                step_count,
                pass_count,
                condition,
                actions,
                step_actions,
                counting: tracewire_model::Counting::default(),
                withholds_registers: false,
                free_stack: None,
                source: SourceStrings {
                    at,
                    condition: cond,
                    commands,
                    marker,
                    frame,
                    own_condition,
                    own_location,
                    span,
                    watch,
                    counts: Vec::new(),
                },
            },
            usage: usage.map(|(hits, bytes)| TracepointUsage { hits, bytes }),
            served: served.map(|(mechanism, reason)| Served { mechanism, reason }),
            skipped,
            pauses: pauses
                .into_iter()
                .map(|(from, length)| Pause { from, length })
                .collect(),
        }
    })
}

pub fn status() -> impl Strategy<Value = Status> {
    let reason = prop_oneof![
        Just(StopReason::Unknown),
        Just(StopReason::NotRun),
        Just(StopReason::Command),
        Just(StopReason::Full),
        Just(StopReason::Disconnected),
        Just(StopReason::PassCount),
        Just(StopReason::Error),
    ];
    let number = || option::of(any::<u64>());
    let stop = option::of((reason, option::of("[ -~]{1,30}"), option::of(1i32..)));
    let numbers = (number(), number(), number(), number(), number(), number());
    let rest = (
        option::of(any::<bool>()),
        option::of(any::<bool>()),
        option::of(text()),
        option::of(text()),
    );
    (any::<bool>(), stop, numbers, rest).prop_map(|(running, stop, numbers, rest)| {
        let (reason, text, at) = match stop {
            Some((reason, text, at)) => (Some(reason), text, at.map(TracepointNumber)),
            None => (None, None, None),
        };
        Status::from(StatusFields {
            running,
            stop_reason: reason,
            stop_text: text,
            stopping_tracepoint: at,
            frames: numbers.0,
            frames_created: numbers.1,
            buffer_size: numbers.2,
            buffer_free: numbers.3,
            start_time: numbers.4,
            stop_time: numbers.5,
            circular: rest.0,
            disconnected: rest.1,
            notes: rest.2,
            user: rest.3,
            sealed: false,
            other: vec![("later".to_owned(), "1:2".to_owned())],
        })
    })
}

fn module() -> impl Strategy<Value = Module> {
    let times = (any::<u64>(), any::<u64>());
    let bytes = (vec(any::<u8>(), 0..24), vec(any::<u8>(), 0..2000));
    (any::<u64>(), any::<u64>(), any::<u64>(), times, bytes).prop_map(
        |(bias, start, end, (loaded, unloaded), (build_id, path))| Module {
            bias,
            start: Address(start),
            end: Address(end),
            loaded,
            unloaded,
            build_id,
            path,
        },
    )
}

pub fn wanted_file() -> impl Strategy<Value = WantedFile> {
    let variable = |number: usize| {
        (any::<i64>(), any::<bool>(), "[a-z_]{0,12}").prop_map(move |(initial, builtin, name)| {
            let number = VariableNumber(number as i32 + 1);
            VariableDefinition {
                number,
                initial,
                builtin,
                name,
            }
        })
    };
    let order = prop_oneof![Just(ByteOrder::Little), Just(ByteOrder::Big)];
    (order, 1u32..600, 1usize..5, 0usize..4).prop_flat_map(
        move |(order, block, tracepoints, variables)| {
            let parts = (
                (1..=tracepoints)
                    .map(|n| tracepoint(n as i32 * 300 + 1))
                    .collect::<Vec<_>>(),
                (0..variables).map(variable).collect::<Vec<_>>(),
                option::of(status()),
                vec(module(), 0..3),
            );
            let wanted = prop_oneof![
                vec(any::<u8>(), block as usize).prop_map(Wanted::Registers),
                (any::<u64>(), vec(any::<u8>(), 1..80)).prop_map(|(a, b)| Wanted::Memory(a, b)),
                (any::<i32>(), any::<i64>()).prop_map(|(n, v)| Wanted::Variable(n, v)),
                vec(any::<u8>(), 0..50).prop_map(Wanted::StaticData),
            ];
            let frame = (1..=tracepoints).prop_map(|n| n as i32 * 300 + 1);
            let frames = vec((frame, vec(wanted, 0..6)), 0..12);
            (parts, frames).prop_map(move |((tracepoints, variables, status, modules), frames)| {
                WantedFile {
                    order,
                    parts: DescriptionParts {
                        register_block_size: block,
                        target_xml: None,
                        status,
                        variables,
                        tracepoints,
                        modules,
                        ..DescriptionParts::default()
                    },
                    frames,
                }
            })
        },
    )
}

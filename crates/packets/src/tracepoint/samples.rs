use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::BoxedStrategy;
use tracewire_model::{
    Action, Address, DefinitionContent, DefinitionRecord, FrameNumber, RegisterMask,
    RegisterNumber, SourceKind, TracepointKind, TracepointNumber, TracepointUsage,
    VariableDefinition, VariableNumber,
};

use super::{
    ActionPacket, BufferSize, Definition, FrameSelection, Marker, MarkerList, Notes, Ranges,
    SelectedFrame, SourceString,
};
use crate::field::{HexBytes, Sample};

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..20)
}

fn number() -> impl Strategy<Value = TracepointNumber> {
    (0..=i32::MAX).prop_map(TracepointNumber)
}

fn address() -> impl Strategy<Value = Address> {
    any::<u64>().prop_map(Address)
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let base = proptest::option::of(any::<u16>().prop_map(RegisterNumber));
    let registers = vec((0..200u16).prop_map(RegisterNumber), 0..6);
    let action = prop_oneof![
        registers.prop_map(|registers| Action::Registers(RegisterMask::from_iter(registers))),
        (base, any::<u64>(), any::<u64>()).prop_map(|(base, offset, length)| Action::Memory {
            base,
            offset,
            length
        }),
        bytes().prop_map(Action::Expression),
        Just(Action::StaticData),
    ];
    vec(action, 0..5)
}

fn kind() -> impl Strategy<Value = TracepointKind> {
    prop_oneof![
        Just(TracepointKind::Trap),
        Just(TracepointKind::Static),
        any::<u64>().prop_map(|length| TracepointKind::Fast { length }),
    ]
}

fn source_kind() -> impl Strategy<Value = SourceKind> {
    prop_oneof![
        Just(SourceKind::At),
        Just(SourceKind::Condition),
        Just(SourceKind::Command),
        Just(SourceKind::Marker),
        Just(SourceKind::Frame),
        Just(SourceKind::OwnCondition),
        Just(SourceKind::OwnLocation),
        Just(SourceKind::Span),
        Just(SourceKind::Watch),
        Just(SourceKind::Count),
        "other[a-z]{0,5}".prop_map(SourceKind::Other),
    ]
}

impl Sample for Definition {
    fn strategy() -> BoxedStrategy<Self> {
        let flags = any::<(bool, bool)>();
        (
            number(),
            address(),
            flags,
            kind(),
            any::<(u64, u64)>(),
            proptest::option::of(bytes()),
        )
            .prop_map(
                |(number, address, (enabled, more), kind, counts, condition)| Self {
                    number,
                    address,
                    enabled,
                    kind,
                    step_count: counts.0,
                    pass_count: counts.1,
                    condition,
                    more,
                },
            )
            .boxed()
    }
}

impl Sample for ActionPacket {
    fn strategy() -> BoxedStrategy<Self> {
        (number(), address(), any::<(bool, bool)>(), actions())
            .prop_map(|(number, address, (starts_stepping, more), actions)| Self {
                number,
                address,
                starts_stepping,
                actions,
                more,
            })
            .boxed()
    }
}

impl Sample for SourceString {
    fn strategy() -> BoxedStrategy<Self> {
        (
            number(),
            address(),
            source_kind(),
            any::<(u64, u64)>(),
            bytes(),
        )
            .prop_map(|(number, address, kind, (start, total), bytes)| Self {
                number,
                address,
                kind,
                start,
                total,
                bytes,
            })
            .boxed()
    }
}

impl Sample for VariableDefinition {
    fn strategy() -> BoxedStrategy<Self> {
        (
            (0..=i32::MAX).prop_map(VariableNumber),
            any::<(i64, bool)>(),
            "[a-z_]{0,12}",
        )
            .prop_map(|(number, (initial, builtin), name)| Self {
                number,
                initial,
                builtin,
                name,
            })
            .boxed()
    }
}

impl Sample for Ranges {
    fn strategy() -> BoxedStrategy<Self> {
        vec(
            any::<(u64, u64)>().prop_map(|(start, end)| start..end),
            0..6,
        )
        .prop_map(Self)
        .boxed()
    }
}

impl Sample for BufferSize {
    fn strategy() -> BoxedStrategy<Self> {
        prop_oneof![Just(Self::Default), any::<u64>().prop_map(Self::Bytes)].boxed()
    }
}

impl Sample for Notes {
    fn strategy() -> BoxedStrategy<Self> {
        let text = Option::<HexBytes>::strategy;
        (text(), text(), text())
            .prop_map(|(user, notes, stop)| Self { user, notes, stop })
            .boxed()
    }
}

impl Sample for FrameSelection {
    fn strategy() -> BoxedStrategy<Self> {
        prop_oneof![
            Just(Self::None),
            (0..0xffff_ffffu64).prop_map(|number| Self::Number(FrameNumber(number))),
            address().prop_map(Self::Pc),
            number().prop_map(Self::Tracepoint),
            (address(), address()).prop_map(|(start, end)| Self::Within { start, end }),
            (address(), address()).prop_map(|(start, end)| Self::Outside { start, end }),
        ]
        .boxed()
    }
}

impl Sample for SelectedFrame {
    fn strategy() -> BoxedStrategy<Self> {
        (
            proptest::option::of(any::<u64>().prop_map(FrameNumber)),
            proptest::option::of(number()),
        )
            .prop_map(|(frame, tracepoint)| Self { frame, tracepoint })
            .boxed()
    }
}

impl Sample for MarkerList {
    fn strategy() -> BoxedStrategy<Self> {
        let marker = (address(), HexBytes::strategy(), HexBytes::strategy())
            .prop_map(|(address, id, extra)| Marker { address, id, extra });
        vec(marker, 1..4).prop_map(Self).boxed()
    }
}

impl Sample for DefinitionRecord {
    fn strategy() -> BoxedStrategy<Self> {
        let definition = (
            any::<bool>(),
            kind(),
            any::<(u64, u64)>(),
            proptest::option::of(bytes()),
        )
            .prop_map(
                |(enabled, kind, counts, condition)| DefinitionContent::Definition {
                    enabled,
                    kind,
                    step_count: counts.0,
                    pass_count: counts.1,
                    condition,
                },
            );
        let content = prop_oneof![
            definition,
            actions().prop_map(DefinitionContent::Actions),
            actions().prop_map(DefinitionContent::StepActions),
            (source_kind(), any::<(u64, u64)>(), bytes()).prop_map(|(kind, place, bytes)| {
                DefinitionContent::Source {
                    kind,
                    start: place.0,
                    total: place.1,
                    bytes,
                }
            }),
            any::<(u64, u64)>().prop_map(|(hits, bytes)| DefinitionContent::Usage(
                TracepointUsage { hits, bytes }
            )),
        ];
        (number(), address(), content)
            .prop_map(|(number, address, content)| Self {
                number,
                address,
                content,
            })
            .boxed()
    }
}

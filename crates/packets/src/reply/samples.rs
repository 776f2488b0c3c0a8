use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::BoxedStrategy;
use tracewire_model::{
    Address, DefinitionRecord, Status, StatusFields, TracepointUsage, VariableDefinition,
};

use super::{Failure, Reply, ReplyKind};
use crate::family::features::FeatureList;
use crate::family::file::FileReply;
use crate::family::file_io::FileIoCall;
use crate::family::process::Offsets;
use crate::family::register::RegisterBytes;
use crate::family::stop::StopReply;
use crate::family::transfer::Chunk;
use crate::field::{HexBytes, Sample};
use crate::thread_id::{ThreadList, ThreadSelector};
use crate::tracepoint::{MarkerList, SelectedFrame};

impl Sample for Failure {
    fn strategy() -> BoxedStrategy<Self> {
        prop_oneof![
            any::<u8>().prop_map(Self::Number),
            "[a-zA-Z .'{}]{0,20}".prop_map(|text| Self::Text(text.into_bytes())),
        ]
        .boxed()
    }
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 1..40)
}

fn some<T: Sample + std::fmt::Debug + 'static>(
    kind: ReplyKind,
    make: fn(T) -> Reply,
) -> BoxedStrategy<(ReplyKind, Reply)> {
    T::strategy()
        .prop_map(move |value| (kind, make(value)))
        .boxed()
}

/// Replies, with the kind under which each is read.
pub(crate) fn replies() -> impl Strategy<Value = (ReplyKind, Reply)> {
    use ReplyKind as Kind;
    let status =
        (any::<bool>(), proptest::option::of(any::<u64>())).prop_map(|(running, frames)| {
            let fields = StatusFields {
                running,
                frames,
                ..StatusFields::default()
            };
            (
                Kind::TraceStatus,
                Reply::TraceStatus(Box::new(Status::from(fields))),
            )
        });
    let listed = proptest::sample::select(vec![
        Kind::Threads,
        Kind::DefinitionRecord,
        Kind::Variable,
        Kind::Markers,
        Kind::TraceBuffer,
    ]);
    let always = prop_oneof![
        Just(Reply::Unsupported),
        Just(Reply::Ok),
        Failure::strategy().prop_map(Reply::Error)
    ];
    proptest::strategy::Union::new(vec![
        always.prop_map(|reply| (Kind::Done, reply)).boxed(),
        some::<StopReply>(Kind::Stop, Reply::Stop),
        some::<HexBytes>(Kind::Monitor, Reply::Output),
        some::<FileIoCall>(Kind::Stop, Reply::FileIo),
        any::<(u64, u64)>()
            .prop_map(|(from, to)| {
                (
                    Kind::Done,
                    Reply::Relocate {
                        from: Address(from),
                        to: Address(to),
                    },
                )
            })
            .boxed(),
        bytes()
            .prop_map(|bytes| (Kind::Memory, Reply::Memory(bytes)))
            .boxed(),
        bytes()
            .prop_map(|bytes| (Kind::BinaryMemory, Reply::BinaryMemory(bytes)))
            .boxed(),
        some::<RegisterBytes>(Kind::Registers, Reply::Registers),
        some::<u32>(Kind::Checksum, Reply::Checksum),
        some::<Option<Address>>(Kind::Search, Reply::Found),
        some::<HexBytes>(Kind::Tags, Reply::Tags),
        vec(b'a'..=b'z', 0..6)
            .prop_map(|letters| (Kind::ResumeActions, Reply::ResumeActions(letters)))
            .boxed(),
        some::<ThreadSelector>(Kind::CurrentThread, Reply::CurrentThread),
        vec(ThreadSelector::strategy(), 1..5)
            .prop_map(|threads| (Kind::Threads, Reply::Threads(ThreadList(threads))))
            .boxed(),
        bytes()
            .prop_map(|text| (Kind::ThreadDescription, Reply::Text(HexBytes(text))))
            .boxed(),
        // Three digits that start with E are an error, in GDB too.
        any::<u64>()
            .prop_filter("an error", |value| !(0xe00..=0xeff).contains(value))
            .prop_map(|value| (Kind::Address, Reply::Address(Address(value))))
            .boxed(),
        some::<bool>(Kind::Attached, Reply::Attached),
        some::<Offsets>(Kind::Offsets, Reply::Offsets),
        some::<HexBytes>(Kind::Symbol, Reply::Symbol),
        some::<Chunk>(Kind::Chunk, Reply::Chunk),
        (0..0xe00u64)
            .prop_map(|count| (Kind::Written, Reply::Written(count)))
            .boxed(),
        some::<FileReply>(Kind::File, Reply::File),
        some::<FeatureList>(Kind::Features, Reply::Features),
        listed.prop_map(|kind| (kind, Reply::End)).boxed(),
        some::<SelectedFrame>(Kind::Frame, Reply::Frame),
        status.boxed(),
        any::<(u64, u64)>()
            .prop_map(|(hits, bytes)| {
                (
                    Kind::TracepointUsage,
                    Reply::TracepointUsage(TracepointUsage { hits, bytes }),
                )
            })
            .boxed(),
        proptest::option::of(any::<i64>())
            .prop_map(|value| (Kind::VariableValue, Reply::VariableValue(value)))
            .boxed(),
        some::<DefinitionRecord>(Kind::DefinitionRecord, Reply::DefinitionRecord),
        some::<VariableDefinition>(Kind::Variable, Reply::Variable),
        some::<MarkerList>(Kind::Markers, Reply::Markers),
        bytes()
            .prop_map(|bytes| (Kind::TraceBuffer, Reply::TraceBuffer(bytes)))
            .boxed(),
        (0..100u64)
            .prop_map(|length| (Kind::Length, Reply::Length(length)))
            .boxed(),
    ])
}

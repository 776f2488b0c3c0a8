use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::BoxedStrategy;
use tracewire_model::{Address, RegisterNumber};

use super::{ReplayEnd, StopField, StopReply, WatchKind};
use crate::family::register::RegisterBytes;
use crate::field::{HexBytes, Sample, Signal};
use crate::thread_id::ThreadSelector;

impl Sample for RegisterBytes {
    fn strategy() -> BoxedStrategy<Self> {
        vec(proptest::option::of(any::<u8>()), 1..20)
            .prop_map(Self)
            .boxed()
    }
}

fn field() -> impl Strategy<Value = StopField> {
    let thread = ThreadSelector::strategy;
    let kind = proptest::sample::select(vec![WatchKind::Write, WatchKind::Read, WatchKind::Access]);
    prop_oneof![
        (any::<u16>(), RegisterBytes::strategy()).prop_map(|(register, bytes)| {
            StopField::Register {
                register: RegisterNumber(register),
                bytes,
            }
        }),
        thread().prop_map(StopField::Thread),
        any::<u32>().prop_map(StopField::Core),
        (kind, any::<u64>()).prop_map(|(kind, at)| StopField::Watch(kind, Address(at))),
        Just(StopField::SoftwareBreakpoint),
        Just(StopField::HardwareBreakpoint),
        Just(StopField::Library),
        Just(StopField::ReplayLog(ReplayEnd::Begin)),
        Just(StopField::ReplayLog(ReplayEnd::End)),
        thread().prop_map(StopField::Fork),
        thread().prop_map(StopField::Vfork),
        Just(StopField::VforkDone),
        HexBytes::strategy().prop_map(StopField::Exec),
        any::<u32>().prop_map(StopField::SyscallEntry),
        any::<u32>().prop_map(StopField::SyscallReturn),
        Just(StopField::Create),
        ("x[a-z]{1,6}", "[a-z0-9]{0,6}").prop_map(|(name, value)| StopField::Other {
            name,
            value: value.into_bytes()
        }),
    ]
}

impl Sample for StopReply {
    fn strategy() -> BoxedStrategy<Self> {
        let process = || proptest::option::of(any::<u32>());
        prop_oneof![
            any::<u8>().prop_map(|signal| Self::Signal(Signal(signal))),
            (any::<u8>(), vec(field(), 0..8)).prop_map(|(signal, fields)| Self::Stopped {
                signal: Signal(signal),
                fields
            }),
            (any::<u32>(), process())
                .prop_map(|(status, process)| Self::Exited { status, process }),
            (any::<u8>(), process()).prop_map(|(signal, process)| Self::Killed {
                signal: Signal(signal),
                process
            }),
            (any::<u64>(), ThreadSelector::strategy())
                .prop_map(|(status, thread)| Self::ThreadExited { status, thread }),
            Just(Self::NoneResumed),
        ]
        .boxed()
    }
}

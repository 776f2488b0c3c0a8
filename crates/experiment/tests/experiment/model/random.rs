//! Random operations on an experiment.

use proptest::prelude::*;
use proptest::sample::select;
use tracewire_experiment::fake::Moment;
use tracewire_model::{
    Action, Address, RegisterNumber, ThreadId, TracepointDefinition, TracepointNumber,
};

use crate::support::{CODE, expression, memory as plain, program, registers, tracepoint};

#[derive(Clone, Debug)]
pub enum Operation {
    Define(Box<TracepointDefinition>),
    Delete(TracepointNumber, Option<Address>),
    Enable(TracepointNumber, Option<Address>, bool),
    Start,
    Stop,
    Run(Vec<Moment>),
}

/// Addresses that are and are not there.
fn address() -> impl Strategy<Value = u64> {
    prop_oneof![
        8 => 0x1000..0x1060_u64,
        4 => 0x2000..0x2030_u64,
        1 => select(vec![0, 0xffff, u64::MAX - 2]),
    ]
}

fn code() -> impl Strategy<Value = Address> {
    (0..4_u64).prop_map(|place| Address(CODE.0 + place * 4))
}

fn number() -> impl Strategy<Value = TracepointNumber> {
    (1..5_i32).prop_map(TracepointNumber)
}

fn condition() -> impl Strategy<Value = Vec<u8>> {
    let fixed = [
        "reg 2\nconst8 5\nless_unsigned\nend",
        "getv 5\nconst8 1\nadd\nsetv 5\nconst8 1\nbit_and\nend",
        "reg 0\nref32\nend",
        "const8 7\nreg 2\ndiv_signed\nend",
        "reg 1\nref64\nref8\nconst8 0\nequal\nlog_not\nend",
    ];
    select(fixed.to_vec()).prop_map(program)
}

fn action() -> impl Strategy<Value = Action> {
    let based =
        (0..5_u16, -8..40_i64, 0..20_u64).prop_map(|(base, offset, length)| Action::Memory {
            base: Some(RegisterNumber(base)),
            offset: offset.cast_unsigned(),
            length,
        });
    let text = (address(), 0..50_u64)
        .prop_map(|(at, limit)| format!("const64 {at}\nconst8 {limit}\ntracenz\nend"));
    let pointer = (0..2_u16, 0..5_u64, 1..20_u64).prop_map(|(base, place, length)| {
        format!(
            "reg {base}\nconst8 {}\nadd\ntrace_quick 8\nref64\ntrace_quick {length}\nref64\n\
             const8 {length}\ntrace\nend",
            place * 8
        )
    });
    let chain = (0..3_u16)
        .prop_map(|base| format!("reg {base}\nref64\nref64\nref64\nref64\ntrace_quick 1\nend"));
    let variables = select(vec![
        "getv 5\nconst8 1\nadd\nsetv 5\nend",
        "tracev 5\nend",
        "getv 6\ntracev 6\npop\nend",
        "reg 0\nref8\nsetv 5\nend",
        "reg 1\nref64\nref8\ngetv 5\nadd\nsetv 6\ntracev 5\nend",
        "tracev 2\nend",
        "const8 1\nreg 2\nrem_unsigned\nend",
        "reg 1\nref64\nref64\nconst8 9\nsetv 6\nend",
    ])
    .prop_map(str::to_owned);
    let code = prop_oneof![2 => text, 3 => pointer, 2 => chain, 4 => variables];
    prop_oneof![
        1 => Just(registers()),
        3 => (address(), 0..30_u64).prop_map(|(at, length)| plain(at, length)),
        1 => based,
        6 => code.prop_map(|text| expression(&text)),
    ]
}

fn definition() -> impl Strategy<Value = TracepointDefinition> {
    (
        (number(), code(), proptest::bool::weighted(0.9)),
        (
            prop_oneof![3 => Just(0), 1 => 1..4_u64],
            prop_oneof![3 => Just(0), 1 => 1..6_u64],
        ),
        proptest::option::of(condition()),
        proptest::collection::vec(action(), 0..6),
        proptest::collection::vec(action(), 0..3),
    )
        .prop_map(
            |((number, address, enabled), (steps, passes), condition, actions, step_actions)| {
                TracepointDefinition {
                    enabled,
                    step_count: steps,
                    pass_count: passes,
                    condition,
                    step_actions,
                    ..tracepoint(number.0, address, actions)
                }
            },
        )
}

fn moment() -> impl Strategy<Value = Moment> {
    let pointers =
        prop_oneof![3 => select(vec![0x1000_u64, 0x1008, 0x1018, 0x2000]), 1 => address()];
    let registers =
        (pointers.clone(), pointers, 0..9_u64).prop_map(|(one, two, three)| vec![one, two, three]);
    (
        0..3_u32,
        (0..5_u64).prop_map(|place| Address(CODE.0 + place * 4)),
        registers,
        proptest::bool::weighted(0.03),
        proptest::option::weighted(
            0.2,
            (
                0x1000..0x1040_u64,
                proptest::collection::vec(any::<u8>(), 1..4),
            ),
        ),
    )
        .prop_map(|(thread, pc, registers, killed, write)| Moment {
            thread: ThreadId(thread),
            cpu: thread % 2,
            time: pc.0,
            pc,
            registers,
            killed,
            writes: write
                .into_iter()
                .map(|(address, bytes)| (Address(address), bytes))
                .collect(),
        })
}

pub fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let operation = prop_oneof![
        3 => definition().prop_map(|definition| Operation::Define(Box::new(definition))),
        1 => (number(), proptest::option::of(code()))
            .prop_map(|(number, address)| Operation::Delete(number, address)),
        1 => (number(), proptest::option::of(code()), any::<bool>())
            .prop_map(|(number, address, on)| Operation::Enable(number, address, on)),
        3 => Just(Operation::Start),
        1 => Just(Operation::Stop),
        8 => proptest::collection::vec(moment(), 1..12).prop_map(Operation::Run),
    ];
    proptest::collection::vec(operation, 1..14)
}

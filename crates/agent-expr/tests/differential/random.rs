//! Random programs: some that make sense, some that are any bytes.

use proptest::prelude::*;
use tracewire_agent_expr::{Builder, Opcode};

/// One piece of a program that leaves the stack deep enough.
#[derive(Clone, Debug)]
enum Part {
    /// An operation without operand, if the stack is deep enough for it; a constant otherwise.
    Op(Opcode),
    Constant(i64),
    Reg(u16),
    Load(u8),
    Ext(u8),
    ZeroExt(u8),
    Pick(u8),
    TraceQuick(u16),
    GetV(u16),
    SetV(u16),
    TraceV(u16),
    Printf(Vec<u8>, u8),
    /// If the top is not zero the one, otherwise the other; both leave the stack as deep as they found it.
    Choice(Vec<Part>, Vec<Part>),
    /// Again as long as the top, counted down, is not zero.
    Repeat(u8, Vec<Part>),
}

fn part() -> impl Strategy<Value = Part> {
    let ops: Vec<_> = Opcode::ALL
        .iter()
        .copied()
        .filter(|opcode| {
            opcode.operand() == tracewire_agent_expr::OperandKind::None
                && !opcode.is_reserved()
                && *opcode != Opcode::End
        })
        .collect();
    let constant = prop_oneof![
        -3..70_i64,
        any::<i64>(),
        any::<i16>().prop_map(i64::from),
        any::<u32>().prop_map(i64::from)
    ];
    let leaf = prop_oneof![
        8 => proptest::sample::select(ops).prop_map(Part::Op),
        6 => constant.prop_map(Part::Constant),
        2 => (0..4_u16).prop_map(Part::Reg),
        2 => proptest::sample::select(vec![1, 2, 4, 8]).prop_map(Part::Load),
        1 => any::<u8>().prop_map(Part::Ext),
        1 => (0..70_u8).prop_map(Part::Ext),
        1 => (0..70_u8).prop_map(Part::ZeroExt),
        1 => (0..6_u8).prop_map(Part::Pick),
        1 => (0..300_u16).prop_map(Part::TraceQuick),
        1 => (0..4_u16).prop_map(Part::GetV),
        1 => (0..4_u16).prop_map(Part::SetV),
        1 => (0..4_u16).prop_map(Part::TraceV),
        1 => (proptest::collection::vec(any::<u8>(), 0..8), 0..3_u8)
            .prop_map(|(format, arguments)| Part::Printf(format, arguments)),
    ];
    leaf.prop_recursive(2, 8, 4, |inner| {
        let list = proptest::collection::vec(inner, 0..5);
        prop_oneof![
            (list.clone(), list.clone()).prop_map(|(one, other)| Part::Choice(one, other)),
            (0..4_u8, list).prop_map(|(count, body)| Part::Repeat(count, body)),
        ]
    })
}

/// Programs that verify: the stack is kept between the depth at which a block began and the limit.
pub fn structured_program() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(part(), 0..16).prop_map(|parts| {
        let mut builder = Builder::new();
        let mut depth = 0;
        emit(&mut builder, &parts, 0, &mut depth);
        builder.op(Opcode::End).finish().expect("a short program")
    })
}

fn emit(builder: &mut Builder, parts: &[Part], floor: usize, depth: &mut usize) {
    for part in parts {
        let (needs, leaves) = match part {
            Part::Op(opcode) => (opcode.pops(), opcode.pushes()),
            Part::Constant(_) | Part::Reg(_) | Part::GetV(_) => (0, 1),
            Part::TraceV(_) | Part::Repeat(..) => (0, 0),
            Part::Pick(below) => (usize::from(*below) + 1, usize::from(*below) + 2),
            Part::Printf(_, arguments) => (2 + usize::from(*arguments), 0),
            Part::Choice(..) => (1, 0),
            _ => (1, 1),
        };
        while *depth - floor < needs {
            builder.constant(*depth as i64);
            *depth += 1;
        }
        if *depth + 8 > 100 {
            // Near the limit only what does not grow.
            if leaves > needs || matches!(part, Part::Choice(..) | Part::Repeat(..)) {
                continue;
            }
        }
        *depth = *depth - needs + leaves;
        match part {
            Part::Op(opcode) => _ = builder.op(*opcode),
            Part::Constant(number) => _ = builder.constant(*number),
            Part::Reg(register) => _ = builder.reg(*register),
            Part::Load(size) => _ = builder.load(*size),
            Part::Ext(bits) => _ = builder.ext(*bits),
            Part::ZeroExt(bits) => _ = builder.zero_ext(*bits),
            Part::Pick(below) => _ = builder.pick(*below),
            Part::TraceQuick(length) => _ = builder.trace_quick(*length),
            Part::GetV(number) => _ = builder.getv(*number),
            Part::SetV(number) => _ = builder.setv(*number),
            Part::TraceV(number) => _ = builder.tracev(*number),
            Part::Printf(format, arguments) => _ = builder.printf(format, *arguments),
            Part::Choice(one, other) => {
                let (then, join) = (builder.label(), builder.label());
                builder.if_goto(then);
                block(builder, other, *depth);
                builder.goto(join).place(then);
                block(builder, one, *depth);
                builder.place(join);
            }
            Part::Repeat(count, body) => {
                let again = builder.label();
                builder.constant(i64::from(*count)).place(again);
                block(builder, body, *depth + 1);
                builder.constant(-1).op(Opcode::Add).op(Opcode::Dup);
                builder
                    .constant(0)
                    .op(Opcode::LessSigned)
                    .op(Opcode::LogNot);
                builder
                    .pick(1)
                    .op(Opcode::BitAnd)
                    .if_goto(again)
                    .op(Opcode::Pop);
            }
        }
    }
}

/// Parts that touch nothing below `floor` and leave nothing.
fn block(builder: &mut Builder, parts: &[Part], floor: usize) {
    let mut depth = floor;
    emit(builder, parts, floor, &mut depth);
    for _ in floor..depth {
        builder.op(Opcode::Pop);
    }
}

/// Any bytes, opcodes more often than others, short jumps among them.
pub fn any_bytes() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        6 => (0..0x36_u8).prop_map(|byte| vec![byte]),
        2 => (0..40_u8, any::<u8>()).prop_map(|(number, _)| vec![0x22, number]),
        1 => (0x20..0x22_u8, 0..40_u8).prop_map(|(jump, target)| vec![jump, 0, target]),
        1 => any::<u8>().prop_map(|byte| vec![byte]),
    ];
    proptest::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat())
}

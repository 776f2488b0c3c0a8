//! The contents of the frame of one hit, and the number of calls to the target.

use tracewire_experiment::fake::{FakeTarget, Moment};
use tracewire_experiment::{Experiment, LinearStore, Missing, Options, Registers, Unreadable};
use tracewire_model::{Action, Address, RegisterNumber, StopReason, ThreadId};

use crate::support::{
    Block, CODE, block, experiment, expression, memory, moment, options, parse, program, registers,
    target, tracepoint,
};

/// One hit of these actions; the blocks of its frame.
fn hit(
    options: Options,
    target: &mut FakeTarget,
    moment: &Moment,
    actions: Vec<Action>,
) -> (Vec<Block>, Experiment<LinearStore>) {
    let mut experiment = experiment(options);
    experiment.define(tracepoint(7, CODE, actions)).unwrap();
    experiment.start(target, 0).unwrap();
    target.reset_calls();
    target.run(moment, &mut experiment);
    let frames = parse(experiment.store().bytes());
    assert_eq!(frames.len(), 1);
    let (number, blocks) = frames.into_iter().next().unwrap();
    assert_eq!(number, 7);
    (blocks, experiment)
}

/// `j` is in register 0; `j->name` at offset 8; strings.
fn jobs() -> FakeTarget {
    let mut target = target();
    let mut job = [0; 32];
    job[..4].copy_from_slice(&77_u32.to_le_bytes());
    job[8..16].copy_from_slice(&0x3000_u64.to_le_bytes());
    target.map(Address(0x2000), &job);
    target.map(Address(0x3000), b"hello\0world");
    target
}

#[test]
fn registers_come_first_then_stamps_then_the_actions_in_order() {
    let mut target = jobs();
    let moment = Moment {
        thread: ThreadId(42),
        cpu: 3,
        time: 1_700_000_000_000_000,
        ..moment(CODE, &[0x2000, 5])
    };
    let actions = vec![
        memory(0x3006, 5),
        expression("reg 0\nconst8 8\nadd\ntrace_quick 8\nref64\nconst8 200\ntracenz\nend"),
        Action::Memory {
            base: Some(RegisterNumber(0)),
            offset: 0x10_u64.wrapping_neg().wrapping_add(0x10),
            length: 4,
        },
        registers(),
        expression("getv 1\ntracev 1\npop\nend"),
        memory(0x3006, 5),
    ];
    let options = Options {
        stamp: true,
        ..options()
    };
    let (blocks, _) = hit(options, &mut target, &moment, actions);
    assert_eq!(
        blocks,
        [
            Block::R(block(&moment)),
            Block::V(1, 1_700_000_000_000_000),
            Block::V(2, 42),
            Block::V(3, 3),
            Block::M(0x3006, b"world".to_vec()),
            Block::M(0x2008, 0x3000_u64.to_le_bytes().to_vec()),
            Block::M(0x3000, b"hello\0".to_vec()),
            Block::M(0x2000, 77_u32.to_le_bytes().to_vec()),
            // The memory that is collected again at the end is there.
            Block::V(1, 1_700_000_000_000_000),
        ]
    );
}

#[test]
fn memory_is_read_in_as_few_calls_as_pointers_are_deep() {
    // Locals: one call, however many there are.
    let mut target = jobs();
    let locals = (0..8)
        .map(|place| expression(&format!("reg 0\nconst8 {place}\nadd\nconst8 4\ntrace\nend")))
        .collect();
    hit(options(), &mut target, &moment(CODE, &[0x2000]), locals);
    assert_eq!(target.calls().read_memory, 1);

    // Pointers: three of them in parallel, and their targets.
    let through = |at: u8| {
        expression(&format!(
            "reg {at}\nconst8 8\nadd\nref64\ntrace_quick 4\npop\nend"
        ))
    };
    let actions = vec![through(0), memory(0x2000, 4), through(1), through(0)];
    let mut target = jobs();
    let (blocks, _) = hit(
        options(),
        &mut target,
        &moment(CODE, &[0x2000, 0x2000]),
        actions,
    );
    assert_eq!(target.calls().read_memory, 2);
    // The pointer, the plain memory, and the memory that it points to; nothing twice.
    assert_eq!(target.calls().pieces, 3);
    let hell = Block::M(0x3000, b"hell".to_vec());
    let id = Block::M(0x2000, 77_u32.to_le_bytes().to_vec());
    // The first expression has already collected the memory of the last. That the second register has the same value is not known
    // before.
    assert_eq!(blocks, [hell.clone(), id, hell]);
}

#[test]
fn what_the_condition_read_is_not_read_again() {
    let mut target = jobs();
    let mut experiment = experiment(options());
    let mut definition = tracepoint(1, CODE, vec![memory(0x2000, 4)]);
    definition.condition = Some(program("reg 0\nref32\nconst8 77\nequal\nend"));
    experiment.define(definition).unwrap();
    experiment.start(&mut target, 0).unwrap();
    target.run(&moment(CODE, &[0x2000]), &mut experiment);
    assert_eq!(target.calls().read_memory, 1);
    assert_eq!(parse(experiment.store().bytes()).len(), 1);
}

#[test]
fn a_false_condition_touches_what_it_names_alone() {
    let mut target = jobs();
    let mut experiment = experiment(Options {
        stamp: true,
        registers: Registers::Always,
        ..options()
    });
    let mut definition = tracepoint(1, CODE, vec![registers(), memory(0x2000, 4)]);
    definition.condition = Some(program("reg 1\nconst8 3\nless_signed\nend"));
    definition.step_count = 3;
    experiment.define(definition).unwrap();
    experiment.start(&mut target, 0).unwrap();
    let outcome = target.run(&moment(CODE, &[0, 3]), &mut experiment).unwrap();
    assert!(!outcome.step && !outcome.run_ended);
    let calls = target.calls();
    assert_eq!(
        (calls.register, calls.register_block, calls.read_memory),
        (1, 0, 0)
    );
    assert_eq!(experiment.tracepoints().next().unwrap().usage().hits, 0);
}

#[test]
fn strings_end_at_their_nul_or_the_limit_and_never_touch_the_next_page() {
    let mut target = target();
    let mut page = vec![b'x'; 0x1000];
    page[0xffa..].copy_from_slice(b"short\0");
    target.map(Address(0x5000), &page);
    let text = |address: u64, limit: u64| {
        expression(&format!("const16 {address}\nconst32 {limit}\ntracenz\nend"))
    };
    let (blocks, experiment) = hit(
        options(),
        &mut target,
        &moment(CODE, &[]),
        vec![
            text(0x5ffa, 200),
            text(0x5ffa, 3),
            text(0x5000, 70_000),
            text(0x5ffa, 0),
        ],
    );
    assert_eq!(
        blocks,
        [
            Block::M(0x5ffa, b"short\0".to_vec()),
            Block::M(0x5ffa, b"sho".to_vec()),
            Block::M(0x5000, page.clone()),
        ]
    );
    assert_eq!(
        experiment.tracepoints().next().unwrap().missing(),
        Missing::default()
    );

    // Without a NUL the string ends where memory ends, and that is reported.
    page.fill(b'y');
    let mut target = crate::support::target();
    target.map(Address(0x5000), &page);
    let (blocks, experiment) = hit(
        options(),
        &mut target,
        &moment(CODE, &[]),
        vec![text(0x5ffe, 200)],
    );
    assert_eq!(blocks, [Block::M(0x5ffe, b"yy".to_vec())]);
    let missing = experiment.tracepoints().next().unwrap().missing();
    assert_eq!((missing.count, missing.first), (1, Some(Address(0x6000))));
}

#[test]
fn a_long_range_and_a_long_string_are_several_blocks() {
    let bytes: Vec<u8> = (0..200_000_u32).map(|at| (at % 251) as u8 + 1).collect();
    let mut target = target();
    target.map(Address(0x10_0000), &bytes);
    let actions = vec![
        memory(0x10_0000, 140_000),
        expression("const32 0x100000\nconst32 150000\ntracenz\nend"),
    ];
    let (blocks, _) = hit(options(), &mut target, &moment(CODE, &[]), actions);
    let lengths: Vec<_> = blocks
        .iter()
        .map(|block| match block {
            Block::M(address, part) => {
                let start = (address - 0x10_0000) as usize;
                assert_eq!(part[..], bytes[start..start + part.len()]);
                (start, part.len())
            }
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        lengths,
        [
            (0, 65535),
            (65535, 65535),
            (131_070, 8930),
            (0, 65535),
            (65535, 65535),
            (131_070, 18930)
        ]
    );
}

#[test]
fn what_cannot_be_read_is_missing_and_counted_and_the_rest_is_there() {
    let mut target = jobs();
    let actions = vec![
        expression("const8 0\nref64\nconst8 4\ntrace\nend"),
        memory(0x3008, 8),
        memory(0x9000, 4),
        memory(0x2000, 4),
        memory(u64::MAX - 1, 8),
    ];
    let (blocks, mut experiment) = hit(options(), &mut target, &moment(CODE, &[]), actions);
    assert_eq!(
        blocks,
        [
            Block::M(0x3008, b"rld".to_vec()),
            Block::M(0x2000, 77_u32.to_le_bytes().to_vec()),
        ]
    );
    let missing = experiment.tracepoints().next().unwrap().missing();
    assert_eq!((missing.count, missing.first), (4, Some(Address(0))));
    assert!(experiment.is_running());
    target.run(&moment(CODE, &[]), &mut experiment);
    assert_eq!(experiment.tracepoints().next().unwrap().missing().count, 8);

    // The other policy ends the run, and keeps the frame.
    let options = Options {
        unreadable: Unreadable::Stop,
        ..options()
    };
    let (blocks, experiment) = hit(
        options,
        &mut jobs(),
        &moment(CODE, &[]),
        vec![memory(0x2000, 4), memory(0x3008, 8)],
    );
    assert_eq!(blocks.len(), 2);
    let status = experiment.status();
    assert_eq!(status.stop_reason, Some(StopReason::Error));
    assert_eq!(
        status.stop_text.as_deref(),
        Some("cannot access memory at 0x300b")
    );
}

#[test]
fn variables_change_in_the_order_of_the_actions_though_memory_is_awaited() {
    let mut target = jobs();
    let collect = || expression("getv 9\ntracev 9\npop\nend");
    let actions = vec![
        collect(),
        // $9 = *(int *) r0, which waits for memory.
        expression("reg 0\nref32\nsetv 9\nend"),
        collect(),
        expression("getv 9\nconst8 1\nadd\nsetv 9\nend"),
        collect(),
        memory(0x2000, 1),
    ];
    let (blocks, experiment) = hit(options(), &mut target, &moment(CODE, &[0x2000]), actions);
    assert_eq!(
        blocks,
        [
            Block::V(9, 0),
            Block::V(9, 77),
            Block::V(9, 78),
            Block::M(0x2000, vec![77]),
        ]
    );
    let created = experiment
        .variables()
        .find(|variable| variable.number.0 == 9);
    assert!(
        created.is_some(),
        "a variable that is read before it was made is made"
    );
}

#[test]
fn too_much_at_once_ends_the_run_with_an_error() {
    let mut target = jobs();
    for (action, text) in [
        (
            expression("const16 0x2000\nconst32 0x1000001\ntrace\nend"),
            "a frame would hold more than 16777216 bytes",
        ),
        (
            expression("again: const16 0x2000\ntrace_quick 1\npop\ngoto again"),
            "a hit collects more than 4096 pieces",
        ),
        (
            expression("const8 1\nconst8 0\ndiv_signed\nend"),
            "divide by zero at offset 4",
        ),
        (
            expression("reg 99\nend"),
            "register 99 has no value at offset 0",
        ),
        (
            expression("again: goto again"),
            "too many steps at offset 0",
        ),
    ] {
        let mut experiment = experiment(options());
        experiment
            .define(tracepoint(3, CODE, vec![action, memory(0x2000, 1)]))
            .unwrap();
        experiment.start(&mut target, 0).unwrap();
        let outcome = target.run(&moment(CODE, &[]), &mut experiment).unwrap();
        assert!(outcome.run_ended);
        let status = experiment.status();
        assert_eq!(status.stop_reason, Some(StopReason::Error));
        assert_eq!(status.stop_text.as_deref(), Some(text));
        assert_eq!(status.stopping_tracepoint.unwrap().0, 3);
        // The data of the other actions is kept.
        let frames = parse(experiment.store().bytes());
        assert_eq!(
            frames[0].1.last(),
            Some(&Block::M(0x2000, vec![77])),
            "{text}"
        );
        experiment
            .stop(&mut target, StopReason::Command, None, 9)
            .unwrap();
        assert_eq!(
            experiment.status().stop_text.as_deref(),
            Some(text),
            "the first reason stays"
        );
    }
}

#[test]
fn a_thread_that_is_killed_while_it_stands_makes_no_frame_and_no_error() {
    let mut target = jobs();
    let killed = Moment {
        killed: true,
        ..moment(CODE, &[0x2000])
    };
    for (condition, actions) in [
        (Some("reg 0\nref32\nend"), vec![]),
        (None, vec![registers()]),
        (None, vec![expression("reg 0\nref32\nend")]),
        (None, vec![memory(0x2000, 4)]),
    ] {
        let mut experiment = experiment(options());
        let mut definition = tracepoint(3, CODE, actions);
        definition.condition = condition.map(program);
        experiment.define(definition).unwrap();
        experiment.start(&mut target, 0).unwrap();
        let outcome = target.run(&killed, &mut experiment).unwrap();
        assert!(!outcome.run_ended);
        assert!(experiment.store().bytes().is_empty());
        let tracepoint = experiment.tracepoints().next().unwrap();
        assert_eq!(
            (tracepoint.usage().hits, tracepoint.missing().count),
            (0, 0)
        );
        experiment
            .stop(&mut target, StopReason::Command, None, 9)
            .unwrap();
    }
}

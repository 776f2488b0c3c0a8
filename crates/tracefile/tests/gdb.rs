//! Files that this crate writes, opened by GDB itself.

mod support;

use support::{frame, stopped, tracepoint};
use tracewire_arch::{RegisterLayout, X86Registers};
use tracewire_model::{
    Action, Address, ByteOrder, RegisterMask, RegisterNumber, Status, StatusFields, StopReason,
    TracepointNumber, TracepointUsage, VariableDefinition, VariableNumber,
};
use tracewire_test_support::Gdb;
use tracewire_tracefile::{Description, DescriptionParts, TraceFileWriter};

/// A byte for every place of a register block, none of them equal to its neighbours.
fn pattern(size: u32) -> Vec<u8> {
    (0..size).map(|i| (i * 7 + i / 251) as u8).collect()
}

fn expected(layout: &RegisterLayout, block: &[u8], name: &str) -> u64 {
    let register = layout.by_name(name).unwrap();
    let bytes = &block[register.offset as usize..][..register.size().min(8) as usize];
    ByteOrder::Little.unsigned(bytes).unwrap()
}

/// GDB takes every register set, the smallest too, and shows each register where the layout has it.
#[test]
fn every_x86_register_set_is_one_that_gdb_reads() {
    let folder = tempfile::tempdir().unwrap();
    for set in X86Registers::ALL {
        for wide in [true, false] {
            let (layout, xml) = if wide {
                (set.layout_64(), set.target_xml_64())
            } else {
                (set.layout_32(), set.target_xml_32())
            };
            let parsed = RegisterLayout::parse(&xml).unwrap();
            assert!(parsed.registers().starts_with(layout.registers()));
            let description = Description::build(&DescriptionParts {
                register_block_size: layout.size(),
                target_xml: Some(xml),
                status: Some(stopped(1)),
                tracepoints: vec![tracepoint(1, 0x401000)],
                ..DescriptionParts::default()
            })
            .unwrap();
            let block = pattern(layout.size());
            let path = folder.path().join(format!("{set:?}-{wide}.tf"));
            let mut writer = TraceFileWriter::create(&path, &description).unwrap();
            let one = frame(
                ByteOrder::Little,
                |f| f.registers(&block).unwrap(),
                layout.size(),
            );
            writer.append(&one).unwrap();
            writer.finish().unwrap();

            // Each register and the expression with which GDB shows its lowest bytes.
            let mut asked = Vec::new();
            for register in layout.registers() {
                let name = register.name.as_str();
                let (expression, of) = match name.strip_suffix('h') {
                    Some(half) if half.starts_with("ymm") => (format!("${half}.v4_int64[2]"), name),
                    Some(half) if half.starts_with("zmm") => (format!("${half}.v8_int64[4]"), name),
                    _ if name.starts_with("xmm") => (format!("${name}.v2_int64[0]"), name),
                    // GDB shows a floating-point number, whose bytes are compared elsewhere.
                    _ if name.starts_with("st") => continue,
                    _ => (format!("${name}"), name),
                };
                asked.push((expression, expected(layout, &block, of)));
            }
            let mut commands = vec![format!("target tfile {}", path.display()), "tfind 0".into()];
            for (expression, _) in &asked {
                commands.push(format!("echo {expression} is \\ "));
                commands.push(format!("output/x {expression}"));
                commands.push("echo \\n".into());
            }
            commands.push("info registers float".into());
            let output = Gdb::new().commands(&commands).run().all();
            assert!(!output.contains("arning"), "{set:?} {wide}: {output}");
            assert!(!output.contains("rror"), "{set:?} {wide}: {output}");
            for (expression, value) in asked {
                let line = format!("{expression} is {value:#x}\n");
                assert!(
                    output.contains(&line),
                    "{set:?} {wide}: expected {line}in {output}"
                );
            }
            let shown = match layout.by_name("st3") {
                Some(st3) => {
                    let bytes = block[st3.offset as usize..][..10].iter().rev();
                    let raw: String = bytes.map(|byte| format!("{byte:02x}")).collect();
                    format!("(raw 0x{raw})")
                }
                // The block ends before it.
                None => "<unavailable>".to_owned(),
            };
            let mut lines = output.lines();
            let st3 = lines.find(|line| line.starts_with("st3 "));
            assert!(
                st3.is_some_and(|line| line.contains(&shown)),
                "{set:?} {wide}: {output}"
            );
        }
    }
}

/// Everything a description and a frame can say, as GDB's own commands show it.
#[test]
fn gdb_shows_what_was_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("full.tf");
    let set = X86Registers::Core;
    let layout = set.layout_64();

    let mut conditional = tracepoint(1, 0x401000);
    let definition = &mut conditional.definition;
    definition.pass_count = 9;
    definition.step_count = 2;
    definition.condition = Some(vec![0x26, 0, 6, 0x27]);
    // More actions than fit into one line.
    let registers = Action::Registers(RegisterMask::from_iter([RegisterNumber(16)]));
    definition.actions = vec![registers.clone()];
    definition.actions.extend((0..120).map(|i| Action::Memory {
        base: Some(RegisterNumber(7)),
        offset: i * 16,
        length: 16,
    }));
    definition.step_actions = vec![registers];
    definition.source.condition = Some("$rsp > 0".into());
    definition.source.commands = ["collect $regs", "while-stepping 2", "collect $pc", "end"]
        .map(str::to_owned)
        .to_vec();
    conditional.usage = Some(TracepointUsage {
        hits: 7,
        bytes: 1234,
    });
    let mut disabled = tracepoint(2, 0x402000);
    disabled.definition.enabled = false;
    let variable = |number, name: &str, initial| VariableDefinition {
        number: VariableNumber(number),
        initial,
        builtin: number == 1,
        name: name.to_owned(),
    };
    let description = Description::build(&DescriptionParts {
        register_block_size: layout.size(),
        target_xml: Some(set.target_xml_64()),
        status: Some(Status::from(StatusFields {
            stop_reason: Some(StopReason::PassCount),
            stopping_tracepoint: Some(TracepointNumber(1)),
            frames: Some(2),
            frames_created: Some(5),
            buffer_size: Some(100_000),
            buffer_free: Some(70_000),
            circular: Some(true),
            disconnected: Some(true),
            start_time: Some(1_000_000),
            stop_time: Some(2_500_000),
            notes: Some("why it is so".into()),
            user: Some("bob".into()),
            ..StatusFields::default()
        })),
        variables: vec![variable(1, "trace_timestamp", 0), variable(2, "low", -3)],
        tracepoints: vec![conditional, disabled],
        ..DescriptionParts::default()
    })
    .unwrap();
    assert!(
        description
            .lines()
            .filter(|line| line.text.starts_with(b"tp A1:"))
            .count()
            > 1
    );

    let mut block = vec![0; layout.size() as usize];
    let pc = layout.program_counter().unwrap();
    block[pc.offset as usize..][..8].copy_from_slice(&0x401004u64.to_le_bytes());
    let memory: Vec<u8> = (0..150_000u32).map(|i| (i / 3) as u8).collect();
    let one = frame(
        ByteOrder::Little,
        |f| {
            f.registers(&block).unwrap();
            f.memory(Address(0x60_0000), &memory);
            f.variable(VariableNumber(2), 5);
            f.variable(VariableNumber(2), -6);
        },
        layout.size(),
    );
    let mut writer = TraceFileWriter::create(&path, &description).unwrap();
    writer.append(&one).unwrap();
    writer.append(&one).unwrap();
    writer.finish().unwrap();

    let commands = [
        &format!("target tfile {}", path.display()),
        "tstatus",
        "info tracepoints",
        "info tvariables",
        "tfind 1",
        "x/1xw 0x60fffd",
        "x/1xb 0x6249ef",
        "x/1xb 0x6249f0",
        "output $low",
        "info registers pc",
        "tfind 2",
    ];
    let said = Gdb::new().commands(commands.map(str::to_owned)).run().all();
    for expected in [
        "Trace stopped by tracepoint 1.",
        "Buffer contains 2 trace frames (of 5 created total).",
        "Trace buffer has 70000 bytes of 100000 bytes free (30% full).",
        "Trace will continue if GDB disconnects",
        "Trace buffer is circular.",
        "Trace started at 1.000000 secs, stopped 1.500000 secs later.",
        "Trace user is bob.",
        "Trace notes: why it is so",
        "trace only if $rsp > 0",
        "tracepoint already hit 7 times",
        "trace buffer usage 1234 bytes",
        "pass count 9",
        "        while-stepping 2\n          collect $pc",
        "2       tracepoint     keep n",
        "$low            -3",
        "Found trace frame 1, tracepoint 1",
        "0x60fffd:\t0x55555454",
        "0x6249ef:\t0x4f",
        "0x6249f0:\t<unavailable>",
        "-6pc",
        "0x401004",
        "No trace frame found",
    ] {
        assert!(said.contains(expected), "expected {expected} in\n{said}");
    }
    assert!(!said.contains("arning"), "{said}");
}

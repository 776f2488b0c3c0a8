//! Registers and memory before each instruction, against the machine that made the trace.

use serde_json::Value;
use tracewire_sample_machine::{DATA, Machine};

use super::{run, sample, trace};

/// Registers that the machine has, by number, and whether the trace has told them.
fn compare(object: &Value, machine: &Machine, reported: &[bool; 34]) {
    let number = object["instruction"].as_u64().unwrap();
    let registers = object["registers"].as_object().unwrap();
    let names = (0..32)
        .map(|n| format!("r{n}"))
        .chain(["lo".to_owned(), "hi".to_owned()]);
    for (at, name) in names.enumerate() {
        let Some(shown) = registers.get(&name) else {
            assert!(!reported[at], "{name} before {number}");
            continue;
        };
        let expected = match reported[at] {
            true => format!("0x{:08x}", machine.register(at as u8)),
            false => "0x????????".to_owned(),
        };
        assert_eq!(shown, &expected, "{name} before {number}");
    }
    assert_eq!(
        registers["pc"],
        format!("0x{:08x}", machine.program_counter())
    );
}

#[test]
fn every_instant_is_the_machine_s() {
    let folder = tempfile::tempdir().unwrap();
    let (path, elf, instructions, options) = sample(&folder, 1, 250_000);
    let stack = options.stack() - 64;
    let objects = run(
        &path,
        &format!(
            "show --json @ --elf {} --memory {stack:#x},64 --memory {DATA:#x},16",
            elf.display()
        ),
    )
    .code(0)
    .json();
    assert_eq!(objects.len() as u64, instructions);
    let mut machine = Machine::new(&options);
    let mut reported = [false; 34];
    let mut written = [false; 64];
    for object in &objects {
        compare(object, &machine, &reported);
        let memory = object["memory"][0]["bytes"].as_str().unwrap();
        let known = machine.memory(stack, 64).unwrap();
        for (at, byte) in known.iter().enumerate() {
            let shown = &memory[at * 2..at * 2 + 2];
            // The stack is written before it is read: what was not written is not known.
            let expected = if written[at] {
                format!("{byte:02x}")
            } else {
                "??".to_owned()
            };
            assert_eq!(shown, expected, "{at} before {}", object["instruction"]);
        }
        let step = machine.step();
        for (register, _) in step.writes.iter().flatten() {
            reported[usize::from(*register)] = true;
        }
        if let Some(access) = step.access.filter(|access| access.address >= stack) {
            let at = (access.address - stack) as usize;
            written[at..at + access.size as usize].fill(true);
        }
    }
    // The same at single instants, by number and by time.
    for number in [0, 17, instructions / 2, instructions - 1] {
        let one = run(
            &path,
            &format!(
                "show --json @ --instruction {number} --elf {}",
                elf.display()
            ),
        );
        let one = one.code(0).json().remove(0);
        assert_eq!(one["registers"], objects[number as usize]["registers"]);
        let at_time = run(
            &path,
            &format!(
                "show --json @ --time {} --elf {}",
                number + 1,
                elf.display()
            ),
        );
        assert_eq!(at_time.code(0).json()[0]["registers"], one["registers"]);
    }
}

#[test]
fn cpus_are_kept_apart() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _, instructions, _) = sample(&folder, 3, 100_000);
    let of_cpu = run(&path, "show --json @ --cpu 2").code(0).json();
    assert_eq!(of_cpu.len() as u64, instructions / 3);
    assert!(of_cpu.iter().all(|one| one["cpu"] == 2));
    // Each has a stack of its own: the pointers never meet.
    let pointer = |one: &Value| one["registers"]["r29"].as_str().unwrap().to_owned();
    let other = run(&path, "show --json @ --cpu 1 --instruction 900..1100")
        .code(0)
        .json();
    let these: Vec<String> = of_cpu.iter().map(pointer).collect();
    assert!(other.iter().all(|one| !these.contains(&pointer(one))));
    let later = run(&path, "show --json @ --time 1000 --cpu 1")
        .code(0)
        .json();
    assert_eq!(later[0]["cpu"], 1);
}

#[test]
fn what_cannot_be_shown_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let path = trace(
        &folder,
        "1 clk 0 IT (1) 00000004 3c080001 A svc : lui t0,0x1\n",
    );
    run(&path, "show @ --instruction 1")
        .code(2)
        .says(&["there is no instruction 1", "1"]);
    run(&path, "show @ --time 99")
        .code(2)
        .says(&["no instruction is at time 99"]);
    run(&path, "show @ --frame 0")
        .code(2)
        .says(&["--frame is for trace files"]);
    run(&path, "show @ --cpu 7")
        .code(1)
        .says(&["no instruction to show"]);
    run(&path, "show @ --memory 4,none")
        .code(2)
        .says(&["expected a length after the comma"]);
    run(&path, "find @ --tracepoint 1")
        .code(2)
        .says(&["--tracepoint is for trace files"]);
    run(&path, "find @ --register r99")
        .code(2)
        .says(&["never writes a register `r99`"]);
    let shown = run(&path, "show @ --instruction 0").code(0);
    assert!(
        shown.stdout.contains("lui t0,0x1") && shown.stdout.contains("pc 0x00000004"),
        "{}",
        shown.stdout
    );
}

//! The machine, compared with GDB's disassembler, and with arithmetic.

use std::process::Command;

use tracewire_sample_machine::{Machine, Options, Program, Trace};

/// GDB's disassembly of the program's code, instruction by instruction.
#[test]
fn gdb_disassembles_the_same() {
    for big_endian in [true, false] {
        let options = Options {
            big_endian,
            ..Options::default()
        };
        let program = Program::of(&options);
        let path = std::env::temp_dir().join(format!(
            "tracewire-sample-{}-{big_endian}.elf",
            std::process::id()
        ));
        std::fs::write(&path, program.elf(&options)).unwrap();
        let count = program.words().len();
        let said = Command::new("gdb-multiarch")
            .args(["-nx", "-batch", "-ex"])
            .arg(format!("x/{count}i _start"))
            .arg(&path)
            .output()
            .unwrap();
        std::fs::remove_file(&path).unwrap();
        let said = String::from_utf8(said.stdout).unwrap();
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines.len(), count, "{said}");
        for (line, address) in lines.iter().zip((program.base()..).step_by(4)) {
            assert!(line.contains(&format!("{address:#x}")), "{line}");
            let text = line.split_once(":\t").unwrap().1;
            // GDB appends the function to an address.
            let text = text.split(" <").next().unwrap().replace('\t', " ");
            assert_eq!(program.text(address).unwrap(), text, "at {address:#x}");
        }
    }
}

#[test]
fn the_program_computes() {
    let options = Options::default();
    let mut machine = Machine::new(&options);
    let fib = machine.program().function("fib").unwrap();
    let (mut depth, mut deepest, mut results) = (0, 0, Vec::new());
    let mut returns = Vec::new();
    for _ in 0..200_000 {
        let step = machine.step();
        if step.address == fib.start {
            returns.push((machine.register(31), machine.register(4)));
            depth += 1;
            deepest = deepest.max(depth);
        }
        if returns
            .last()
            .is_some_and(|(to, _)| *to == machine.program_counter())
        {
            let (_, argument) = returns.pop().unwrap();
            depth -= 1;
            results.push((argument, machine.register(2)));
        }
    }
    assert!(deepest >= 6, "{deepest}");
    let known = [0, 1, 1, 2, 3, 5, 8, 13];
    assert!(results.len() > 50);
    for (argument, result) in results {
        assert_eq!(known[argument as usize], result, "fib({argument})");
    }
}

#[test]
fn processors_take_turns() {
    let options = Options {
        cpus: 3,
        ..Options::default()
    };
    let mut text = Vec::new();
    let mut trace = Trace::new(&options);
    let bytes = trace.write(&mut text, 10_000).unwrap();
    assert_eq!(bytes, text.len() as u64);
    let text = String::from_utf8(text).unwrap();
    let cpus: Vec<&str> = text
        .lines()
        .filter(|line| line.contains(" IT "))
        .map(|line| line.split(' ').nth(2).unwrap())
        .collect();
    assert_eq!(cpus[..6], ["0", "1", "2", "0", "1", "2"]);
    assert_eq!(trace.instructions(), cpus.len() as u64);
    assert_eq!(trace.machines().len(), 3);
}

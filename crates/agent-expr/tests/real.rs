//! Programs that GDB itself made.

use std::process::Command;

use tracewire_agent_expr::{
    Context, Evaluation, Opcode, assemble, disassemble, instructions, verify,
};

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
        .collect()
}

/// Register 6 and some memory.
struct Frame {
    base: u64,
    memory: Vec<(u64, Vec<u8>)>,
    hits: i64,
    collected: Vec<String>,
}

impl Context for Frame {
    fn register(&mut self, register: u16) -> Option<u64> {
        (register == 6).then_some(self.base)
    }

    fn memory(&mut self, address: u64, size: u8) -> Option<u64> {
        let (start, bytes) = self.memory.iter().find(|(start, bytes)| {
            *start <= address && address + u64::from(size) <= start + bytes.len() as u64
        })?;
        let at = (address - start) as usize;
        let mut number = [0; 8];
        number[..usize::from(size)].copy_from_slice(&bytes[at..at + usize::from(size)]);
        Some(u64::from_le_bytes(number))
    }

    fn variable(&mut self, number: u16) -> i64 {
        if number == 2 { self.hits } else { 0 }
    }

    fn set_variable(&mut self, number: u16, value: i64) {
        assert_eq!(number, 2);
        self.hits = value;
    }

    fn collect_memory(&mut self, address: u64, length: u64) {
        self.collected.push(format!("{address:#x},{length}"));
    }

    fn collect_string(&mut self, address: u64, limit: u64) {
        self.collected.push(format!("{address:#x} to NUL,{limit}"));
    }

    fn collect_variable(&mut self, number: u16) {
        self.collected.push(format!("${number}={}", self.hits));
    }
}

/// `handle (j, depth)` of the sample: `depth` is 44 bytes below the frame's base, `j` 40 bytes.
fn frame(depth: i32) -> Frame {
    let mut locals = vec![0; 64];
    locals[64 - 60..64 - 56].copy_from_slice(&depth.to_le_bytes());
    Frame {
        base: 0x7000,
        memory: vec![(0x7010 - 64, locals)],
        hits: 5,
        collected: vec![],
    }
}

#[test]
fn the_condition_of_the_sample_session() {
    let condition = bytes("26000622100222d416080219162022031427");
    let verified = verify(&condition).unwrap();
    assert!(verified.has_result() && !verified.has_loops() && !verified.collects_memory());
    assert_eq!(verified.registers().iter().collect::<Vec<_>>(), [&6]);
    for depth in [-1, 0, 2, 3, 4] {
        let mut context = Frame {
            base: 0x7000,
            memory: vec![(0x7000 - 28, i32::to_le_bytes(depth).to_vec())],
            ..frame(0)
        };
        let result = Evaluation::new().evaluate(&condition, &mut context);
        assert_eq!(result, Ok(Some(u64::from(depth < 3))), "depth {depth}");
    }
}

#[test]
fn the_actions_of_the_sample_session() {
    // teval $hits = $hits + 1, then collect $hits.
    let mut context = frame(0);
    let mut evaluation = Evaluation::new();
    for code in ["2c000222010216402d000227", "2c00022e00022927"] {
        let code = bytes(code);
        let verified = verify(&code).unwrap();
        assert!(verified.variables_read().contains(&2));
        evaluation.evaluate(&code, &mut context).unwrap();
    }
    assert_eq!(context.collected, ["$2=6"]);

    // collect/s j->name: the pointer, the pointer in it, the string.
    let code = bytes("26000622100222d81608020d081a2208020d081a2300c82f27");
    let mut context = frame(0);
    context.memory = vec![
        (0x7000 - 24, 0x9000_u64.to_le_bytes().to_vec()),
        (0x9008, 0xa000_u64.to_le_bytes().to_vec()),
    ];
    evaluation.evaluate(&code, &mut context).unwrap();
    assert_eq!(
        context.collected,
        ["0x6fe8,8", "0x9008,8", "0xa000 to NUL,200"]
    );
}

/// Every expression in the trace file that GDB wrote.
#[test]
fn every_program_of_the_sample_session_verifies_and_round_trips() {
    let mut programs = 0;
    for line in include_str!("sample-tracepoints.txt").lines() {
        for code in line
            .match_indices('X')
            .filter_map(|(at, _)| line[at + 1..].split_once(','))
        {
            let code = bytes(code.1);
            verify(&code).unwrap();
            assert_eq!(assemble(&disassemble(&code)).as_ref(), Ok(&code));
            programs += 1;
        }
    }
    assert_eq!(programs, 11);
}

/// GDB compiles expressions of every kind; its listing is parsed, and ours is the same.
#[test]
fn gdb_lists_its_programs_as_we_do() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let program = folder.join("agent-sample");
    let built = Command::new("cc")
        .args(["-g", "-O0", "-o"])
        .arg(&program)
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sample.c"))
        .status();
    assert!(built.expect("cc is needed").success());

    let expressions = [
        "maint agent -at handle, depth < 3",
        "maint agent -at handle, j->name",
        "maint agent -at handle, *j",
        "maint agent -at handle, j ? j->prio * 2 : -5",
        "maint agent-eval -at handle, depth < 3 && j->next != 0 || !depth",
        "maint agent-eval -at handle, j->narrow + j->wide",
        "maint agent-eval -at handle, -300000",
        "maint agent-eval -at handle, (unsigned char) depth / 3 % 2",
        "maint agent-eval -at handle, ~depth ^ (depth | 1) & 6",
        "maint agent-eval -at handle, depth << 2 >> 1",
        "maint agent-eval -at handle, 0x123456789abcdef0",
        "maint agent -at handle, table[depth].big",
        "maint agent -at handle, $found",
        "maint agent-eval -at handle, $found = $found + 1",
    ];
    let mut gdb = Command::new("gdb");
    gdb.args(["-batch", "-nx", "-ex", "tvariable $found = 3"]);
    for expression in expressions {
        gdb.args(["-ex", expression]);
    }
    let output = gdb.arg(&program).output().expect("gdb is needed");
    let output = String::from_utf8(output.stdout).unwrap();

    let listings: Vec<_> = output
        .split("Scope: ")
        .skip(1)
        .map(|listing| {
            let lines = listing.lines().filter(|line| is_listing(line));
            lines.map(|line| format!("{line}\n")).collect::<String>()
        })
        .collect();
    assert_eq!(listings.len(), expressions.len(), "{output}");
    let mut seen = std::collections::HashSet::new();
    for (listing, expression) in listings.iter().zip(expressions) {
        let code = assemble(listing).unwrap_or_else(|error| panic!("{expression}: {error}"));
        verify(&code).unwrap_or_else(|error| panic!("{expression}: {error}\n{listing}"));
        assert_eq!(&disassemble(&code), listing, "{expression}");
        seen.extend(instructions(&code).map(|each| each.unwrap().opcode));
    }
    assert!(seen.contains(&Opcode::IfGoto) && seen.contains(&Opcode::SetV));
    assert!(seen.contains(&Opcode::RemUnsigned) || seen.contains(&Opcode::RemSigned));
}

/// Three columns for the offset, then the name.
fn is_listing(line: &str) -> bool {
    line.trim_start()
        .split_once("  ")
        .is_some_and(|(offset, name)| {
            offset.parse::<u16>().is_ok() && name.starts_with(|first: char| first.is_alphabetic())
        })
}

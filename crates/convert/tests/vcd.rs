//! Value change dumps, read by another crate's parser, against the state that `show` has.

use std::collections::{BTreeSet, HashMap};

use proptest::prelude::*;
use tracewire_convert::execution::vcd::{TimeAxis, write};
use tracewire_exec_analysis::state::Registers;
use tracewire_exec_trace::record::{AccessKind, CpuNumber, InstructionNumber};
use tracewire_exec_trace::recording::{Executed, OpenOptions, Recording, RegisterId};
use tracewire_sample_machine::{Options, Trace};
use vcd::{Command, IdCode, Parser, ScopeItem, Value};

/// The values of all signals at a step, by cpu and name; vectors as text, without zeros before them.
type Values = HashMap<String, String>;

struct Dump {
    widths: HashMap<String, u32>,
    start: Values,
    steps: Vec<(u64, Values)>,
}

fn text(values: impl Iterator<Item = Value>) -> String {
    let all: String = values.map(|value| value.to_string()).collect();
    match all.trim_start_matches('0') {
        "" => "0".to_owned(),
        rest => rest.to_owned(),
    }
}

fn read(dump: &[u8]) -> Dump {
    let mut parser = Parser::new(dump);
    let header = parser.parse_header().unwrap();
    let mut names: HashMap<IdCode, String> = HashMap::new();
    let mut widths = HashMap::new();
    for item in &header.items {
        let ScopeItem::Scope(scope) = item else {
            continue;
        };
        for item in &scope.items {
            if let ScopeItem::Var(variable) = item {
                let name = format!("{}.{}", scope.identifier, variable.reference);
                assert!(
                    widths.insert(name.clone(), variable.size).is_none(),
                    "{name} twice"
                );
                names.insert(variable.code, name);
            }
        }
    }
    let mut values = Values::new();
    let mut start = None;
    let mut steps: Vec<(u64, Values)> = Vec::new();
    for command in parser {
        match command.unwrap() {
            Command::Timestamp(at) => {
                match steps.last_mut() {
                    Some(step) => step.1 = values.clone(),
                    None => start = Some(values.clone()),
                }
                assert!(steps.last().is_none_or(|step| step.0 < at));
                steps.push((at, Values::new()));
            }
            Command::ChangeVector(id, vector) => {
                values.insert(names[&id].clone(), text(vector.iter()));
            }
            Command::ChangeScalar(id, value) => {
                values.insert(names[&id].clone(), value.to_string());
            }
            Command::ChangeString(id, value) => {
                values.insert(names[&id].clone(), value);
            }
            _ => {}
        }
    }
    if let Some(step) = steps.last_mut() {
        step.1 = values;
    }
    Dump {
        widths,
        start: start.unwrap_or_default(),
        steps,
    }
}

fn dumped(recording: &Recording, range: std::ops::Range<u64>, axis: TimeAxis) -> Dump {
    let mut out = Vec::new();
    write(recording, range, axis, &mut out).unwrap();
    read(&out)
}

/// A value in base 2 as a dump has it.
fn bits(hex: &str) -> String {
    let digits = hex.chars().map(|digit| match digit.to_digit(16) {
        Some(digit) => format!("{digit:04b}"),
        None => "xxxx".to_owned(),
    });
    let all: String = digits.collect();
    match all.trim_start_matches('0') {
        "" => "0".to_owned(),
        rest => rest.to_owned(),
    }
}

/// Every step has its instruction, every register the value that the instruction left, every access its own signals.
fn compare(recording: &Recording, range: std::ops::Range<u64>, dump: &Dump) {
    let mut registers = Registers::at(recording, None, InstructionNumber(range.start)).unwrap();
    let cpus: BTreeSet<CpuNumber> = recording.summary().cpus.iter().copied().collect();
    let names = recording.register_names();
    let check_registers = |registers: &Registers<'_>, values: &Values| {
        for cpu in &cpus {
            for (at, name) in names.iter().enumerate() {
                let value = registers.value(*cpu, RegisterId(at as u32));
                let value = value.map_or("x".to_owned(), |value| bits(&value.to_string()));
                assert_eq!(values[&format!("cpu{cpu}.{name}")], value, "{name}");
            }
        }
    };
    check_registers(&registers, &dump.start);
    let mut executed: Vec<Executed> = Vec::new();
    recording
        .instructions(range, &mut |one| {
            executed.push(one);
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(executed.len(), dump.steps.len());
    for (one, (_, values)) in executed.iter().zip(&dump.steps) {
        registers.apply(one);
        check_registers(&registers, values);
        let value = |cpu: CpuNumber, name: &str| values[&format!("cpu{cpu}.{name}")].clone();
        assert_eq!(value(one.cpu, "pc"), format!("{:b}", one.address.0));
        assert_eq!(value(one.cpu, "instruction"), format!("{:b}", one.number.0));
        assert_eq!(value(one.cpu, "taken"), u8::from(one.taken).to_string());
        for cpu in &cpus {
            let accesses = if *cpu == one.cpu {
                &one.accesses[..]
            } else {
                &[]
            };
            for number in 1.. {
                let prefix = match number {
                    1 => "memory".to_owned(),
                    number => format!("memory{number}"),
                };
                if !values.contains_key(&format!("cpu{cpu}.{prefix}_address")) {
                    assert!(number > accesses.len());
                    break;
                }
                let signals = ["address", "size", "data", "write"]
                    .map(|name| value(*cpu, &format!("{prefix}_{name}")));
                let expected = match accesses.get(number - 1) {
                    None => ["z"; 4].map(str::to_owned),
                    Some(access) => [
                        format!("{:b}", access.address.0),
                        format!("{:b}", access.size),
                        bits(&access.number.to_string()),
                        u8::from(access.kind == AccessKind::Write).to_string(),
                    ],
                };
                assert_eq!(signals, expected, "{} {prefix}", one.number);
            }
        }
    }
}

#[test]
fn steps_are_instructions_with_their_state() {
    for cpus in [1, 2] {
        let options = Options {
            footprint: 1 << 16,
            cpus,
            ..Options::default()
        };
        let mut text = Vec::new();
        Trace::new(&options).write(&mut text, 200_000).unwrap();
        let recording = Recording::of_text(&text, &OpenOptions::default()).unwrap();
        for range in [0..recording.len(), 1000..1200] {
            let dump = dumped(&recording, range.clone(), TimeAxis::default());
            assert_eq!(dump.steps[0].0, 0);
            compare(&recording, range, &dump);
        }
    }
}

/// An instruction: how much later than the one before, and its accesses and register writes.
type Made = (u64, Vec<(bool, u8, u64)>, Vec<(u8, u64)>);

fn made() -> impl Strategy<Value = Vec<Made>> {
    let access = (any::<bool>(), 0..4u8, any::<u64>());
    let write = (0..4u8, any::<u64>());
    let one = (
        prop_oneof![3 => Just(0), 1 => 1..5u64],
        prop::collection::vec(access, 0..4),
        prop::collection::vec(write, 0..4),
    );
    prop::collection::vec(one, 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// Instructions of one time, several accesses of one, registers that are reported before the first.
    #[test]
    fn nothing_is_lost(at_start in 0..4u8, executions in made()) {
        const REGISTERS: [&str; 4] = ["X0", "X2", "fpexc", "Q1"];
        let register = |which: u8, value: u64| match which {
            2 => format!("fpexc {:08x}", value as u32),
            3 => format!("Q1 {value:016x}{value:016x}"),
            which => format!("{} {value:016x}", REGISTERS[usize::from(which)]),
        };
        let mut text = String::new();
        for which in 0..at_start {
            text += &format!("0 clk cpu0 R {}\n", register(which, 0x1234_5678_9abc_def0));
        }
        let mut at = 1;
        for (number, (later, accesses, writes)) in executions.iter().enumerate() {
            at += later;
            let address = 0x8000 + number * 4;
            text += &format!("{at} clk cpu0 IT ({number}) {address:016x} d503201f O EL1h_n : NOP\n");
            for (is_write, size, data) in accesses {
                let kind = if *is_write { "MW" } else { "MR" };
                let bytes = 1 << size;
                let digits = bytes * 2;
                let data = data & (u64::MAX >> (64 - bytes * 8));
                text += &format!("{at} clk cpu0 {kind}{bytes} 0000000000004000 {data:0digits$x}\n");
            }
            for (which, value) in writes {
                text += &format!("{at} clk cpu0 R {}\n", register(*which, *value));
            }
        }
        let recording = Recording::of_text(text.as_bytes(), &OpenOptions::default()).unwrap();
        prop_assert_eq!(recording.len(), executions.len() as u64);
        let dump = dumped(&recording, 0..u64::MAX, TimeAxis::Instructions);
        compare(&recording, 0..u64::MAX, &dump);
        if let Some(width) = dump.widths.get("cpu0.fpexc") {
            prop_assert_eq!(*width, 32);
        }
        if let Some(width) = dump.widths.get("cpu0.Q1") {
            prop_assert_eq!(*width, 128);
        }

        // On the trace's own axis: the same values, each within the time of its instruction.
        let timed = dumped(&recording, 0..u64::MAX, TimeAxis::Times);
        compare(&recording, 0..u64::MAX, &timed);
        let mut times = executions.iter().scan(1, |at, (later, ..)| { *at += later; Some(*at) });
        let first = times.next().unwrap();
        let unit = timed.steps[0].0 / first;
        prop_assert!([1, 10, 100].contains(&unit), "{}", unit);
        for (time, (at, _)) in times.zip(&timed.steps[1..]) {
            prop_assert_eq!(at / unit, time);
        }
    }
}

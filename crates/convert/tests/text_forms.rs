//! Text forms that are converted into one another: the state at every instruction is the same, also at the start.

use std::collections::BTreeMap;
use std::fmt::Write;

use proptest::prelude::*;
use tracewire_arch::Architecture;
use tracewire_convert::execution::{Lines, TextForm};
use tracewire_exec_trace::record::{Address, InstructionNumber};
use tracewire_exec_trace::recording::{OpenOptions, Recording};

const FORMS: [TextForm; 3] = [TextForm::Tarmac, TextForm::Qemu4v, TextForm::Microtesk];
const MEMORY: u64 = 0x4000;

fn opened(text: &str) -> Recording {
    let options = OpenOptions {
        architecture: Some(Architecture::Aarch64),
        ..OpenOptions::default()
    };
    Recording::of_text(text.as_bytes(), &options).unwrap()
}

fn converted(recording: &Recording, form: TextForm) -> (String, u64) {
    let mut out = Vec::new();
    let mut lines = Lines::new(recording, form, InstructionNumber(0)).unwrap();
    lines.write(0..u64::MAX, &mut out).unwrap();
    (String::from_utf8(out).unwrap(), lines.without_form)
}

type State = (BTreeMap<String, String>, Vec<Option<u8>>);

/// Registers and memory before each instruction and after the last.
fn states(recording: &Recording) -> Vec<State> {
    let cpu = recording.summary().cpus[0];
    (0..=recording.len())
        .map(|number| {
            let at = InstructionNumber(number);
            let values = recording.registers_at(cpu, at).unwrap();
            // QEMU4V has names in lower case.
            let names = recording
                .register_names()
                .iter()
                .map(|name| name.to_ascii_lowercase());
            let known = names
                .zip(values)
                .filter(|(_, value)| !value.is_unknown())
                .map(|(name, value)| (name, value.to_string()));
            let mut memory = vec![None; 64];
            recording
                .memory_at(at, Address(MEMORY), &mut memory)
                .unwrap();
            (known.collect(), memory)
        })
        .collect()
}

#[derive(Clone, Debug)]
enum Effect {
    Register(u8, u64),
    /// Whether it is written, the offset, the logarithm of the size, the data.
    Access(bool, u64, u32, u64),
}

fn effect() -> impl Strategy<Value = Effect> {
    prop_oneof![
        (0..4u8, any::<u64>()).prop_map(|(which, value)| Effect::Register(which, value)),
        (any::<bool>(), 0..32u64, 0..6u32, any::<u64>())
            .prop_map(|(is_write, at, size, data)| Effect::Access(is_write, at, size, data)),
    ]
}

fn put(text: &mut String, time: u64, effect: &Effect) {
    match effect {
        Effect::Register(which, value) => {
            let name = ["X0", "X2", "SP", "SCTLR_EL3"][usize::from(*which)];
            writeln!(text, "{time} clk cpu0 R {name} {value:016x}").unwrap();
        }
        Effect::Access(is_write, at, size, data) => {
            let kind = if *is_write { "MW" } else { "MR" };
            let (bytes, address) = (1usize << size, MEMORY + at);
            let digits: String = format!("{data:016x}").repeat(4)[..bytes * 2].to_owned();
            writeln!(
                text,
                "{time} clk cpu0 {kind}{bytes} {address:016x} {digits}"
            )
            .unwrap();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn every_form_keeps_every_state(
        start in prop::collection::vec(effect(), 0..6),
        executions in prop::collection::vec(prop::collection::vec(effect(), 0..4), 1..30),
    ) {
        let mut text = String::new();
        for effect in &start {
            put(&mut text, 0, effect);
        }
        for (number, effects) in executions.iter().enumerate() {
            let (time, address) = (number as u64 + 1, 0x8000 + number * 4);
            writeln!(text, "{time} clk cpu0 IT ({time}) {address:016x} d503201f O EL1h_n : NOP").unwrap();
            for effect in effects {
                put(&mut text, time, effect);
            }
        }
        let recording = opened(&text);
        let states_of_text = states(&recording);
        for form in FORMS {
            let (made, without_form) = converted(&recording, form);
            prop_assert_eq!(without_form, 0, "{}", made);
            prop_assert_eq!(&states(&opened(&made)), &states_of_text, "{:?}\n{}\n{}", form, text, made);
            if form == TextForm::Tarmac {
                // Its other readers take numbers of 64 bits.
                for line in made.lines().filter(|line| line.contains(" MW") || line.contains(" MR")) {
                    let digits = line.rsplit(' ').next().unwrap();
                    prop_assert!(digits.len() <= 16, "{}", line);
                }
            }
        }
    }
}

#[test]
fn unknown_bytes_and_both_cpus_have_a_form_in_tarmac() {
    let text = "\
        0 clk cpu1 R X1 0000000000000007\n\
        1 clk cpu0 IT (1) 0000000000008000 d503201f O EL1h_n : NOP\n\
        1 clk cpu0 ST 0000000000004000  ........ ######01 02030405 ......07\n\
        2 clk cpu1 IT (2) 0000000000008000 d503201f O EL1h_n : NOP\n";
    let recording = opened(text);
    let (made, without_form) = converted(&recording, TextForm::Tarmac);
    assert_eq!(without_form, 0);
    let lines: Vec<&str> = made.lines().collect();
    assert_eq!(lines[0], "0 clk cpu1 R X1 0000000000000007");
    let shown = made.replace("MW1 0000000000004000 07", "");
    assert!(
        shown.contains("ST 0000000000004000  ........ ######01 02030405 ........"),
        "{made}"
    );
    assert_eq!(states(&opened(&made)), states(&recording));
    // QEMU4V has no cpu on such a line.
    assert_eq!(converted(&recording, TextForm::Qemu4v).1, 1);
}

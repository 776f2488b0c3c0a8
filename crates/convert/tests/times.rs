//! Times of lines that are not their instruction's.

use proptest::prelude::*;
use tracewire_convert::execution::{Lines, TextForm};
use tracewire_exec_trace::record::InstructionNumber;
use tracewire_exec_trace::recording::{OpenOptions, Recording};

fn converted(recording: &Recording) -> String {
    let mut out = Vec::new();
    let mut lines = Lines::new(recording, TextForm::Qemu4v, InstructionNumber(0)).unwrap();
    lines.write(0..u64::MAX, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// How long after the one before an instruction executes, and of each of its lines how much later it is, whether it is
/// of memory, and its value.
type Execution = (u64, Vec<(u64, bool, u32)>);

fn executions() -> impl Strategy<Value = Vec<Execution>> {
    let line = (
        prop_oneof![2 => Just(0), 1 => 1..2000u64],
        any::<bool>(),
        any::<u32>(),
    );
    prop::collection::vec((1..40u64, prop::collection::vec(line, 0..4)), 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    /// For any times of the lines, the form with all of them restores them.
    #[test]
    fn text_comes_back_with_its_times(executions in executions(), unit in prop::sample::select(vec!["clk", "ps"])) {
        let mut text = String::new();
        let mut at = 0;
        let starts: Vec<u64> = executions.iter().scan(0, |at, (step, _)| { *at += step * 4; Some(*at) }).collect();
        for (number, (step, lines)) in executions.iter().enumerate() {
            at += step * 4;
            text += &format!("{at} {unit} 0 IT ({}) {:08x} 00000000 A svc : nop\n", number + 1, number * 4);
            // A line belongs to the instruction of its time: each of these has a different time.
            let time = |later: &u64| match starts.contains(&(at + later)) {
                true => at,
                false => at + later,
            };
            for (later, _, value) in lines.iter().filter(|line| line.1) {
                text += &format!("{} {unit} MW4 00001000 {value:08x}\n", time(later));
            }
            for (later, _, value) in lines.iter().filter(|line| !line.1) {
                text += &format!("{} {unit} R r8 {value:08x}\n", time(later));
            }
        }
        let recording = Recording::of_text(text.as_bytes(), &OpenOptions::default()).unwrap();
        prop_assert_eq!(&converted(&recording), &text);
        let compact = Recording::of_compact(recording.compact(), &OpenOptions::default()).unwrap();
        prop_assert_eq!(&converted(&compact), &text);
    }
}

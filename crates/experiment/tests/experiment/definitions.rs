//! Which definitions are accepted, and trace state variables.

use tracewire_experiment::DefineError;
use tracewire_model::{StopReason, VariableDefinition, VariableNumber};

use crate::runs::{by_thread, frames, mapped};
use crate::support::{Block, CODE, experiment, expression, memory, options, program, tracepoint};

#[test]
fn definitions_that_cannot_work_are_refused_with_a_reason() {
    let mut experiment = experiment(options());
    let mut reported = |definition| {
        let error: DefineError = experiment.define(definition).unwrap_err();
        error.to_string()
    };
    let number = "cannot be in a trace frame: 1 to 32767 can";
    assert_eq!(
        reported(tracepoint(0, CODE, vec![])),
        format!("tracepoint number 0 {number}")
    );
    assert_eq!(
        reported(tracepoint(32768, CODE, vec![])),
        format!("tracepoint number 32768 {number}")
    );
    assert_eq!(
        reported(tracepoint(
            1,
            CODE,
            vec![memory(0, 1), expression("add\nend")]
        )),
        "the agent expression of action 2 cannot be evaluated: \
         `add` at offset 0 needs 2 values on the stack, there are 0"
    );
    let mut definition = tracepoint(1, CODE, vec![]);
    definition.condition = Some(program("end"));
    assert_eq!(
        reported(definition),
        "the agent expression of the condition leaves no result"
    );
    let mut definition = tracepoint(1, CODE, vec![]);
    definition.step_actions = vec![memory(0, 1 << 40)];
    assert_eq!(
        reported(definition),
        "while-stepping action 1 collects 1099511627776 bytes, 16777216 are allowed in a frame"
    );
    let prints = expression("const8 0\ndup\nprintf \"x\", 0 args\nend");
    assert_eq!(
        reported(tracepoint(1, CODE, vec![prints])),
        "the agent expression of action 1 prints, which a tracepoint cannot"
    );
    assert_eq!(experiment.tracepoints().count(), 0);
}

#[test]
fn variables_start_at_their_initial_values_and_builtin_ones_move() {
    let mut target = mapped();
    let mut experiment = experiment(options());
    let variable = |number, initial, builtin, name: &str| VariableDefinition {
        number: VariableNumber(number),
        initial,
        builtin,
        name: name.to_owned(),
    };
    experiment.define_variable(variable(4, -5, false, "hits"));
    // A debugger gives this one another number.
    experiment.define_variable(variable(8, 0, true, "trace_thread"));
    let actions = vec![
        expression("getv 4\nconst8 1\nadd\nsetv 4\nend"),
        expression("const8 99\nsetv 8\nend"),
        expression("tracev 4\ntracev 8\ntracev 2\nend"),
    ];
    experiment.define(tracepoint(1, CODE, actions)).unwrap();
    for _ in 0..2 {
        experiment.start(&mut target, 0).unwrap();
        target.run(&by_thread(31, CODE), &mut experiment);
        target.run(&by_thread(32, CODE), &mut experiment);
        let expected = [(-4, 31), (-3, 32)].map(|(hits, thread)| {
            (
                1,
                vec![Block::V(4, hits), Block::V(8, thread), Block::V(2, 0)],
            )
        });
        assert_eq!(frames(&mut experiment), expected);
        assert_eq!(experiment.variable(VariableNumber(4)), Some(-3));
        assert_eq!(experiment.variable(VariableNumber(8)), None);
        experiment
            .stop(&mut target, StopReason::Command, None, 0)
            .unwrap();
    }
    let names: Vec<_> = experiment
        .variables()
        .map(|variable| (variable.number.0, variable.name.as_str()))
        .collect();
    assert_eq!(
        names,
        [
            (1, "trace_timestamp"),
            (2, ""),
            (3, "trace_cpu"),
            (4, "hits"),
            (8, "trace_thread")
        ]
    );
}

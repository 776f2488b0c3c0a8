//! Rules for types, of any text, on the types of a program: what they say is collected within limits, and verified.
#![no_main]

use std::path::Path;
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use tracewire_debuginfo::{Symbols, TypeRules};
use tracewire_expr::{CollectOptions, compile_collect};
use tracewire_model::{Action, VariableNumber};

/// A small program with debug information.
const PROGRAM: &[u8] = include_bytes!("../../crates/test-support/samples/sample");

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let mut rules = TypeRules::none();
    if rules.add_before(text, "my.types").is_err() {
        return;
    }
    let mut symbols = Symbols::new();
    if symbols
        .add_module_bytes(Path::new("program"), PROGRAM.to_vec(), 0)
        .is_err()
    {
        return;
    }
    symbols.set_type_rules(Arc::new(rules));
    let nothing = |_: &str| None::<VariableNumber>;
    let Ok(places) = symbols.resolve("main", None) else {
        return;
    };
    for place in places.iter().take(1) {
        let options = CollectOptions::default();
        let Ok((actions, _)) =
            compile_collect(&symbols, place.address, "$locals", options, &nothing)
        else {
            continue;
        };
        for action in actions {
            if let Action::Expression(program) = action {
                tracewire_agent_expr::verify(&program).expect("a program that was made is good");
            }
        }
    }
});

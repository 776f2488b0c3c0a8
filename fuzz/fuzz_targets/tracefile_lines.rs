//! The texts of a trace file's description, each by itself: status, tracepoint pieces, variables, actions, modules and
//! the target description, and definitions of an experiment. What is understood is printed so that it is understood as the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tracewire_tracefile::Module;
use tracewire_arch::RegisterLayout;
use tracewire_experiment::Definitions;
use tracewire_model::{Action, DefinitionRecord, Status, VariableDefinition};

fuzz_target!(|input: (u8, &[u8])| {
    let (kind, bytes) = input;
    match kind % 7 {
        0 => {
            if let Ok(status) = Status::parse(bytes) {
                let printed = status.to_string();
                assert_eq!(Status::parse(printed.as_bytes()), Ok(status));
            }
        }
        1 => {
            if let Ok(piece) = DefinitionRecord::parse(bytes) {
                assert_eq!(DefinitionRecord::parse(piece.to_string().as_bytes()), Ok(piece));
            }
        }
        2 => {
            if let Ok(variable) = VariableDefinition::parse(bytes) {
                let printed = variable.to_string();
                assert_eq!(VariableDefinition::parse(printed.as_bytes()), Ok(variable));
            }
        }
        3 => {
            if let Ok(actions) = std::str::from_utf8(bytes)
                .map_err(|_| ())
                .and_then(|text| Action::parse_list(text).map_err(|_| ()))
            {
                let printed: String = actions.iter().map(Action::to_string).collect();
                assert_eq!(Action::parse_list(&printed), Ok(actions));
            }
        }
        4 => {
            let _ = Module::parse(bytes);
        }
        5 => {
            if let Ok(definitions) = Definitions::parse(bytes)
                && let Ok(text) = definitions.to_text()
            {
                let reported = |of: &Definitions| {
                    let tracepoints = of.parts.tracepoints.iter();
                    tracepoints.map(|one| one.definition.clone()).collect::<Vec<_>>()
                };
                let again = Definitions::parse(&text).map(|again| reported(&again));
                assert_eq!(again, Ok(reported(&definitions)));
            }
        }
        _ => {
            if let Ok(text) = std::str::from_utf8(bytes)
                && let Ok(layout) = RegisterLayout::parse(text)
            {
                assert!(
                    layout
                        .registers()
                        .iter()
                        .all(|register| { register.offset <= layout.size() })
                );
            }
        }
    }
});

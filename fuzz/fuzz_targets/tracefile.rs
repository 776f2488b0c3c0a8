//! The reader of trace files, on any bytes: everything that a file offers is looked at.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tracewire_tracefile::{Description, TraceFile};
use tracewire_arch::RegisterLayout;
use tracewire_model::{Action, DefinitionRecord, Status, VariableDefinition};

#[path = "../../crates/tracefile/tests/support/touch.rs"]
mod touch;

fuzz_target!(|bytes: &[u8]| {
    // Most bytes have no header; the lines after it are what matters.
    let headed = [b"\x7fTRACE0\n", bytes].concat();
    if let Ok(file) = TraceFile::from_bytes(headed) {
        touch::everything(&file);
        round_trips(file.description());
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = RegisterLayout::parse(text);
    }
});

/// What was understood is printed so that it is understood as the same.
fn round_trips(description: &Description) {
    if let Some(status) = description.status() {
        let printed = status.to_string();
        assert_eq!(Status::parse(printed.as_bytes()).as_ref(), Ok(status));
    }
    for variable in description.variables() {
        let again = VariableDefinition::parse(variable.to_string().as_bytes());
        assert_eq!(again.as_ref(), Ok(variable));
    }
    for tracepoint in description.tracepoints() {
        for piece in tracepoint.definition.records(tracepoint.usage, 500) {
            assert_eq!(DefinitionRecord::parse(piece.to_string().as_bytes()), Ok(piece));
        }
        let actions: String = tracepoint
            .definition
            .actions
            .iter()
            .map(Action::to_string)
            .collect();
        assert_eq!(
            Action::parse_list(&actions).as_ref(),
            Ok(&tracepoint.definition.actions)
        );
    }
    if let Ok(built) = Description::build(&description.parts()) {
        let again = Description::build(&built.parts()).expect("what was built can be built again");
        assert_eq!(again.as_bytes(), built.as_bytes());
    }
}

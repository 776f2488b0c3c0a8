//! The reader of ELF, DWARF and linker's names, on a program that is damaged in any way. The first byte says how, and what is asked.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use tracewire_debuginfo::{ResolvedLocation, Symbols};
use tracewire_expr::{CollectOptions, compile_collect};
use tracewire_model::{Action, VariableNumber};

/// A program of optimised code, with few sections: most of it is debug information.
const PROGRAM: &[u8] = include_bytes!("../../crates/test-support/samples/optimized");

/// A name of it in the table of names.
const NAME: &[u8] = b"\0main\0";

/// Places in it: its functions and lines, and an address in an inlined copy.
const LOCATIONS: [&str; 5] = ["main", "handle", "weigh", "optimized.c:25", "*0x4001bb"];

fuzz_target!(|data: &[u8]| {
    let Some((kind, data)) = data.split_first() else {
        return;
    };
    let mut program = PROGRAM.to_vec();
    match kind % 4 {
        // Any bytes.
        0 => program = data.to_vec(),
        // A name: the linker's names are made readable.
        1 => {
            if let Some(at) = PROGRAM.windows(NAME.len()).position(|bytes| bytes == NAME) {
                let end = (at + 1 + data.len()).min(program.len());
                program[at + 1..end].copy_from_slice(&data[..end - at - 1]);
            }
        }
        // Damages: a place of three bytes, and a byte.
        _ => {
            for damage in data.chunks_exact(4) {
                let at = u32::from_le_bytes([damage[0], damage[1], damage[2], 0]) as usize;
                let at = at % program.len();
                program[at] = damage[3];
            }
        }
    }
    look(program, kind / 4);
});

fn look(program: Vec<u8>, question: u8) {
    let mut symbols = Symbols::new();
    let Ok(module) = symbols.add_module_bytes(Path::new("program"), program, 0) else {
        return;
    };
    let question = question % 7;
    match LOCATIONS.get(usize::from(question)) {
        Some(location) => {
            for place in symbols
                .resolve(location, None)
                .unwrap_or_default()
                .iter()
                .take(8)
            {
                look_at(&symbols, &place);
            }
        }
        None if question == 5 => {
            for function in symbols.functions().iter().take(32) {
                let _ = format!("{function:?}");
            }
        }
        None => {
            let _ = symbols.unread_debug_information(module);
            let _ = symbols.files();
            let _ = symbols.markers();
        }
    }
}

fn look_at(symbols: &Symbols, place: &ResolvedLocation) {
    let address = place.address;
    let _ = symbols.place(address);
    let _ = symbols.symbol_at(address);
    let _ = symbols.unwind(address);
    let _ = symbols.frame_base(address);
    let scope = symbols.variables_at(place.scope());
    for variable in scope.arguments.iter().chain(&scope.locals) {
        let _ = symbols.size_of(variable.type_id);
        let _ = format!("{:?}", symbols.type_of(variable.type_id));
    }
    let nothing = |_: &str| None::<VariableNumber>;
    for items in ["$args", "$locals"] {
        let options = CollectOptions::default();
        let compiled = compile_collect(symbols, place.scope(), items, options, &nothing);
        for action in compiled.map(|(actions, _)| actions).unwrap_or_default() {
            if let Action::Expression(program) = action {
                tracewire_agent_expr::verify(&program).expect("a program that was made is good");
            }
        }
    }
}

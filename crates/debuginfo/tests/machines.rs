//! Programs of other machines: locations and registers as GDB has them.

use std::path::{Path, PathBuf};

use tracewire_debuginfo::Symbols;
use tracewire_test_support::Gdb;

const MACHINES: [&str; 7] = [
    "mips", "mipsel", "arm", "aarch64", "riscv32", "riscv64", "ppc",
];

/// The program of a recording that the replay target's tests are of.
fn program(machine: &str, folder: &Path) -> PathBuf {
    let packed = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join(format!("../target-replay/tests/data/{machine}.elf.zst"));
    let path = folder.join(machine);
    let bytes = zstd::decode_all(std::fs::File::open(packed).unwrap()).unwrap();
    std::fs::write(&path, bytes).unwrap();
    path
}

const FUNCTIONS: [&str; 12] = [
    "main",
    "fibonacci",
    "length",
    "append",
    "add",
    "negate",
    "fill",
    "sum_list",
    "shift",
    "sort",
    "choose",
    "random_number",
];

#[test]
fn functions_and_lines_are_where_gdb_has_them() {
    let folder = tempfile::tempdir().unwrap();
    for machine in MACHINES {
        let path = program(machine, folder.path());
        let mut symbols = Symbols::new();
        symbols.add_module(&path, 0).unwrap();
        assert_eq!(symbols.architecture().unwrap().name(), machine);
        // On PowerPC, GDB moves lines before a function's first one past its prologue where it leaves them on others.
        let last = if machine == "ppc" { 160 } else { 220 };
        let lines = (40..last).map(|line| format!("program.c:{line}"));
        let wanted: Vec<String> = FUNCTIONS
            .iter()
            .map(|name| (*name).to_owned())
            .chain(lines)
            .collect();
        // One place for each of GDB's, printed in the order of the breakpoints.
        let mut commands: Vec<String> = wanted
            .iter()
            .map(|place| format!("break {place}"))
            .collect();
        commands.push("info breakpoints".to_owned());
        let said = Gdb::multiarch().program(&path).commands(&commands);
        let said = said.run().all();
        let mut places = said
            .lines()
            .filter(|line| line.contains("breakpoint     keep y"))
            .filter_map(|line| line.split_whitespace().nth(4))
            .map(|word| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok());
        let mut reported = said.lines().filter(|line| {
            line.starts_with("Breakpoint ") || line.contains("No ") || line.contains("(y or [n])")
        });
        let mut compared = 0;
        for place in &wanted {
            if !reported
                .next()
                .is_some_and(|line| line.starts_with("Breakpoint "))
            {
                continue;
            }
            let Some(gdbs) = places.next().expect("as many as were made") else {
                // Several locations.
                continue;
            };
            let ours = symbols.resolve(place, Some("program.c"));
            let ours: Vec<u64> = ours
                .unwrap_or_else(|error| panic!("{machine} {place}: {error}"))
                .iter()
                .map(|location| location.address.0)
                .collect();
            assert_eq!(ours, [gdbs], "{machine} {place}: {said}");
            compared += 1;
        }
        assert!(compared > 100, "{machine}: {compared}\n{said}");
    }
}

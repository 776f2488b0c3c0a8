//! Symbols of machines whose symbol tables say more than names: bit 0 of Thumb's addresses, mapping symbols, labels.

use std::path::{Path, PathBuf};

use tracewire_debuginfo::{Function, Symbols};
use tracewire_model::Address;
use tracewire_test_support::{Cc, Gdb};

/// Clang's target, and options.
const BUILDS: [(&str, &[&str]); 10] = [
    ("armv7a-none-eabi", &["-mthumb"]),
    ("armv7a-none-eabi", &["-marm"]),
    ("armv7a-none-eabi", &["-mthumb", "-DMIXED"]),
    ("armv7a-none-eabi", &["-marm", "-DMIXED"]),
    ("armv6m-none-eabi", &[]),
    ("aarch64-none-elf", &[]),
    ("riscv32-unknown-elf", &[]),
    ("riscv64-unknown-elf", &[]),
    ("mips-unknown-linux", &[]),
    ("x86_64-linux", &[]),
];

const FUNCTIONS: [&str; 7] = [
    "_start", "choose", "main", "next", "other", "sizeless", "untyped",
];

fn build(target: &str, options: &[&str], debug: &str, directory: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/bare.c");
    let name = format!("{target}{}{debug}", options.concat());
    Cc::of("clang")
        .option(format!("--target={target}"))
        .options(&["-O1", "-ffreestanding", "-nostdlib", "-static"])
        .options(&["-fuse-ld=lld", "-Wl,--entry=_start", debug])
        .options(options)
        .source(source)
        .build(directory, &name)
}

fn gdb(program: &Path, commands: impl Iterator<Item = String>) -> Vec<String> {
    let said = Gdb::multiarch().program(program).commands(commands).run();
    said.output.lines().map(str::to_owned).collect()
}

fn address_in(text: &str) -> Option<u64> {
    let digits = text.split("0x").nth(1)?;
    let end = digits.find(|c: char| !c.is_ascii_hexdigit());
    u64::from_str_radix(&digits[..end.unwrap_or(digits.len())], 16).ok()
}

#[test]
fn functions_and_addresses_have_gdbs_names_and_places() {
    let directory = tempfile::tempdir().unwrap();
    for (target, options) in BUILDS {
        // Debug information has even addresses on Arm too: its functions must match those of the symbols.
        let with_debug: &[&str] = if target.starts_with("armv7a") {
            &["-g"]
        } else {
            &[]
        };
        for debug in with_debug.iter().copied().chain(["-g0"]) {
            let what = format!("{target} {options:?} {debug}");
            let path = build(target, options, debug, directory.path());
            let mut symbols = Symbols::new();
            symbols.add_module(&path, 0).unwrap();
            let functions = symbols.functions();

            // Each once, and no mapping symbols or labels within functions.
            let mut names: Vec<&str> = functions.iter().map(|one| &*one.name).collect();
            names.sort_unstable();
            assert_eq!(names, FUNCTIONS, "{what}");
            let by_name = |name: &str| -> &Function {
                functions.iter().find(|one| one.name == name).unwrap()
            };
            assert!(by_name("untyped").is_label && !by_name("sizeless").is_label);
            // Every address of the code. Clang adds padding after functions, where GDB uses the function before it.
            let addresses: Vec<u64> = (functions.iter())
                .filter(|one| one.name != "untyped")
                .flat_map(|one| (one.ranges[0].0.0..one.ranges[0].1.0).step_by(2))
                .collect();
            let entries = FUNCTIONS.iter().map(|name| format!("info address {name}"));
            let pointers = (0..3).map(|at| format!("print/a ((void **) &operations)[{at}]"));
            let places = addresses.iter().map(|at| format!("info symbol {at:#x}"));
            let said = gdb(&path, entries.chain(pointers).chain(places));
            assert_eq!(said.len(), 10 + addresses.len(), "{what}: {said:#?}");

            let entries: Vec<u64> = said[..7]
                .iter()
                .filter_map(|line| address_in(line))
                .collect();
            let ours: Vec<u64> = FUNCTIONS.map(|name| by_name(name).entry.0).to_vec();
            assert_eq!(ours, entries, "{what}: {said:#?}");
            // A pointer to a function names it, bit 0 or not.
            for (pointer, name) in said[7..].iter().zip(["other", "next", "choose"]) {
                let pointer = address_in(pointer).unwrap();
                let found = symbols.symbol_at(Address(pointer));
                assert_eq!(found, Some((name.to_owned(), 0)), "{what} {pointer:#x}");
            }
            for (address, said) in addresses.iter().zip(&said[10..]) {
                let (name, offset) = symbols.symbol_at(Address(*address)).unwrap();
                let ours = match offset {
                    0 => format!("{name} in section .text"),
                    offset => format!("{name} + {offset} in section .text"),
                };
                assert_eq!(ours, *said, "{what}: {address:#x}");
            }

            // One place for a tracepoint, where an instruction begins.
            for name in FUNCTIONS {
                let places = symbols.resolve(name, None).unwrap();
                let [place] = &places[..] else {
                    panic!("{what} {name}: {places:?}");
                };
                let range = by_name(name).ranges[0];
                assert!(range.0 <= place.address && place.address < range.1);
                assert!(
                    place.address.0 % 2 == 0 || target.starts_with("x86"),
                    "{what}"
                );
            }
        }
    }
}

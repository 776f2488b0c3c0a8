//! Registers in expressions of programs of other machines.

use std::path::{Path, PathBuf};

use tracewire_debuginfo::Symbols;
use tracewire_expr::compile_condition;
use tracewire_model::VariableNumber;

/// The program of a recording that the replay target's tests are of.
fn program(machine: &str, folder: &Path) -> PathBuf {
    let packed = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join(format!("../target-replay/tests/data/{machine}.elf.zst"));
    let path = folder.join(machine);
    let bytes = zstd::decode_all(std::fs::File::open(packed).unwrap()).unwrap();
    std::fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn registers_have_their_machines_names() {
    let folder = tempfile::tempdir().unwrap();
    let number = |_: &str| None::<VariableNumber>;
    for (machine, names) in [
        (
            "mips",
            &["$a0 == $r4", "$sp == $r29", "$fp == $s8", "$pc", "$hi"][..],
        ),
        ("arm", &["$sp == $r13", "$lr", "$cpsr", "$a1 == $r0", "$fp"]),
        ("aarch64", &["$x0", "$sp", "$lr == $x30", "$pc"]),
        ("riscv64", &["$x5 == $t0", "$s0 == $fp", "$a7"]),
        ("ppc", &["$r31", "$lr", "$ctr", "$cr"]),
    ] {
        let mut symbols = Symbols::new();
        symbols
            .add_module(&program(machine, folder.path()), 0)
            .unwrap();
        let main = symbols.resolve("main", None).unwrap()[0].address;
        for text in names {
            let code = compile_condition(&symbols, main, text, &number);
            assert!(code.is_ok(), "{machine} {text}: {code:?}");
        }
        assert!(
            compile_condition(&symbols, main, "$rax", &number).is_err(),
            "{machine}"
        );
    }
}

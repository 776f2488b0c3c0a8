//! Which of an address's names is shown.

mod support;

use support::Build;
use tracewire_debuginfo::Symbols;
use tracewire_model::Address;

/// Of the names that an address has, GDB's is shown: of a small program's that has them in all orders, and of all of libc's.
#[test]
fn of_several_names_it_is_gdb_s() {
    let directory = tempfile::tempdir().expect("a directory");
    let build = Build {
        compiler: "cc",
        source: "aliases.c",
        options: &["-O1", "-static"],
    };
    let program = build.run(directory.path());
    let mut symbols = Symbols::new();
    symbols
        .add_module(&program, 0)
        .expect("the program is read");
    let addresses: Vec<u64> = symbols
        .functions()
        .iter()
        .map(|function| function.entry.0)
        .collect();
    let python = format!(
        "datum = int(gdb.parse_and_eval('(long) &datum'))\n\
         for address in {addresses:?} + [datum]:\n    \
             print('@', address, gdb.execute('info symbol %d' % address, to_string=True).split()[0])"
    );
    let output = support::gdb(&program, directory.path(), &python);
    let theirs: Vec<(u64, &str)> = output
        .lines()
        .filter_map(|line| line.strip_prefix("@ ")?.split_once(' '))
        .map(|(address, name)| (address.parse().expect("a number"), name))
        .collect();
    assert_eq!(theirs.len(), addresses.len() + 1, "{output}");
    for name in ["first", "zfourth", "zfifth", "zdatum", "printf"] {
        assert!(theirs.iter().any(|(_, theirs)| *theirs == name), "{name}");
    }
    let differences: Vec<_> = theirs
        .iter()
        .map(|(address, theirs)| (symbols.symbol_at(Address(*address)), theirs))
        // The compiler's clones of a function have other names in GDB.
        .filter(|(ours, _)| ours.as_ref().is_none_or(|(ours, _)| !ours.contains('.')))
        .filter(|(ours, theirs)| ours.as_ref().is_none_or(|(ours, _)| ours != **theirs))
        .collect();
    assert!(differences.is_empty(), "{differences:?}");
}

//! At every address of a program's functions: the source line, the function, the arguments and the local variables
//! that GDB's symbol tables have there.

mod support;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use support::{Build, gdb};
use tracewire_debuginfo::Symbols;
use tracewire_model::Address;

/// For each address one line: `address|file|line|function|arguments|locals`; names sorted, sizes with them.
const PYTHON: &str = r#"
import gdb
def names(block):
    arguments, locals = [], []
    while block is not None and not block.is_global and not block.is_static:
        for symbol in block:
            if symbol.addr_class in (gdb.SYMBOL_LOC_TYPEDEF, gdb.SYMBOL_LOC_BLOCK, gdb.SYMBOL_LOC_LABEL, gdb.SYMBOL_LOC_UNRESOLVED):
                continue
            type = symbol.type
            if type.code in (gdb.TYPE_CODE_REF, gdb.TYPE_CODE_RVALUE_REF):
                type = type.target()
            entry = "%s:%d" % (symbol.name, type.sizeof)
            (arguments if symbol.is_argument else locals).append(entry)
        if block.function is not None:
            return block.function.name, arguments, locals
        block = block.superblock
    return None, [], []
for line in open(RANGES).read().split("\n"):
    if not line:
        continue
    start, end = line.split()
    for pc in range(int(start), int(end)):
        place = gdb.find_pc_line(pc)
        function, arguments, locals = names(gdb.block_for_pc(pc))
        print("@@%x|%s|%d|%s|%s|%s" % (pc, place.symtab.filename if place.symtab else None, place.line, function, " ".join(sorted(arguments)), " ".join(sorted(locals))))
"#;

fn ours(symbols: &Symbols, pc: u64) -> String {
    let pc = Address(pc);
    let place = symbols.place(pc);
    let scope = symbols.variables_at(pc);
    let list = |variables: &[tracewire_debuginfo::Variable]| {
        let mut names: Vec<String> = variables
            .iter()
            .map(|variable| {
                let size = symbols.size_of(variable.type_id).unwrap_or(0);
                format!("{}:{size}", variable.name)
            })
            .collect();
        names.sort();
        names.join(" ")
    };
    let mut text = String::new();
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "None".to_owned());
    write!(
        text,
        "{:x}|{}|{}|{}|{}|{}",
        pc.0,
        or_none(place.as_ref().and_then(|place| place.file.clone())),
        place.as_ref().map_or(0, |place| place.line),
        or_none(place.as_ref().and_then(|place| place.function.clone())),
        list(&scope.arguments),
        list(&scope.locals)
    )
    .expect("a string takes all");
    text
}

/// A C++ name as GDB's symbol has it, without parameters.
fn without_parameters(line: &str) -> String {
    let mut parts: Vec<String> = line.split('|').map(str::to_owned).collect();
    if let Some(name) = parts.get_mut(3) {
        let constant = name.strip_suffix(" const").unwrap_or(name).to_owned();
        let mut depth = 0usize;
        let mut end = constant.len();
        if constant.ends_with(')') && !constant.ends_with("operator()") {
            for (index, character) in constant.char_indices().rev() {
                match character {
                    ')' => depth += 1,
                    '(' => {
                        depth -= 1;
                        if depth == 0 {
                            end = index;
                            break;
                        }
                    }
                    _ => {}
                }
            }
        }
        *name = constant[..end].to_owned();
    }
    parts.join("|")
}

fn compare(build: Build) {
    let directory = tempfile::tempdir().expect("a directory");
    let program = build.run(directory.path());
    let mut symbols = Symbols::new();
    symbols
        .add_module(&program, 0)
        .expect("the program is read");
    let ranges: Vec<(u64, u64)> = symbols
        .functions()
        .into_iter()
        .filter(|function| {
            function
                .file
                .as_deref()
                .is_some_and(|file| file.ends_with(build.source))
        })
        .flat_map(|function| function.ranges)
        .map(|(start, end)| (start.0, end.0))
        .collect();
    let list: String = ranges
        .iter()
        .map(|(start, end)| format!("{start} {end}\n"))
        .collect();
    let file = directory.path().join("ranges.txt");
    std::fs::write(&file, list).expect("the list is written");
    let python = PYTHON.replace("RANGES", &format!("{file:?}"));
    let output = gdb(&program, directory.path(), &python);
    let mut wrong = Vec::new();
    let mut count = 0;
    let mut seen = BTreeMap::new();
    for line in output.lines().filter_map(|line| line.strip_prefix("@@")) {
        count += 1;
        let wanted = without_parameters(line);
        let pc = line.split('|').next().expect("the address");
        let pc = u64::from_str_radix(pc, 16).expect("hex");
        let found = ours(&symbols, pc);
        if found != wanted {
            // One of each kind is enough.
            let kind = (
                found.split_once('|').map(|(_, rest)| rest.to_owned()),
                wanted.split_once('|').map(|(_, rest)| rest.to_owned()),
            );
            if seen.insert(kind, ()).is_none() {
                wrong.push(format!("ours {found}\nGDB  {wanted}"));
            }
        }
    }
    assert!(count > 200, "GDB named {count} addresses:\n{output}");
    assert!(
        wrong.is_empty(),
        "{build:?}: of {count} addresses these differ:\n{}",
        wrong.join("\n")
    );
}

macro_rules! builds {
    ($($name:ident: $compiler:literal $source:literal $options:expr;)*) => {$(
        #[test]
        fn $name() {
            compare(Build { compiler: $compiler, source: $source, options: $options });
        }
    )*};
}

builds! {
    c_unoptimized: "cc" "shapes.c" &["-g", "-O0"];
    c_o2: "cc" "shapes.c" &["-g", "-O2"];
    c_dwarf_4_o2: "cc" "shapes.c" &["-g", "-gdwarf-4", "-O2", "-no-pie"];
    c_32_bit: "cc" "shapes.c" &["-g", "-O1", "-m32"];
    cpp_unoptimized: "g++" "classes.cpp" &["-g", "-O0"];
    cpp_o2: "g++" "classes.cpp" &["-g", "-O2"];
    rust_debug: "rustc" "modules.rs" &["-g", "--edition=2021"];
    rust_release: "rustc" "modules.rs" &["-g", "-O", "--edition=2021"];
}

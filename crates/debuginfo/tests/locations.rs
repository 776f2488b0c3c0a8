//! Locations resolve to the addresses where GDB puts a breakpoint, with GDB's lines.

mod support;

use std::collections::BTreeSet;
use std::path::Path;

use support::{Build, gdb_locations};
use tracewire_debuginfo::{ResolvedLocation, Symbols};

/// The places of a location as in GDB 13, with their lines, and the number of further ones that GDB 13 puts at other addresses: it
/// does not support `DW_AT_entry_pc`. If a function begins with an inlined copy of another, GDB has that one's line.
fn resolved(symbols: &Symbols, location: &str, wanted: &[(u64, u64)]) -> (Vec<(u64, u64)>, usize) {
    let places = symbols.resolve(location, None).unwrap_or_default();
    let (elsewhere, of_gdb): (Vec<_>, Vec<_>) =
        places.into_iter().partition(|place| place.elsewhere_in_gdb);
    let line = |place: &ResolvedLocation| match place.level {
        0 => place.line,
        _ if wanted.contains(&(place.address.0, place.line)) => place.line,
        _ => symbols
            .place(place.address)
            .map_or(0, |innermost| innermost.line),
    };
    let mut found: Vec<(u64, u64)> = of_gdb
        .iter()
        .map(|place| (place.address.0, line(place)))
        .collect();
    found.sort_unstable();
    (found, elsewhere.len())
}

/// Other ways to name places, by source: bare names, overloads, templates, inlined functions, symbols.
const NAMES: &[(&str, &[&str])] = &[
    (
        "shapes.c",
        &[
            "twice",
            "helper",
            "shapes.c:helper",
            "shapes.c:twice",
            "sum",
            "_start",
            "nonsense",
            "*main",
            "*main+4",
            "*&helper",
            "shapes.c:nonsense",
            "nonsense.c:3",
            "shapes.c:9999",
            "'shapes.c':70",
            "counter",
            "main",
            "_init",
            "-function sum",
            "-source shapes.c -line 40",
            "-qualified twice",
        ],
    ),
    (
        "classes.cpp",
        &[
            "cost",
            "Item::cost",
            "shop::Item::cost",
            "shop::Item::cost(int)",
            "shop::Item::cost(double) const",
            "Special::cost",
            "cost(int)",
            "largest",
            "shop::largest<int>",
            "largest<double>",
            "push",
            "Ring<int, 4>::push",
            "shop::Ring<double,2>::push",
            "overloaded",
            "overloaded(int)",
            "overloaded(char)",
            "overloaded(const char *, unsigned long)",
            "overloaded(char const*, unsigned long)",
            "add",
            "shop::add",
            "Item",
            "Item::Item",
            "Item::~Item",
            "operator<",
            "operator()",
            "shop::Item::operator()",
            "run",
            "(anonymous namespace)::Local::run",
            "Local::run",
            "by_reference",
            "main",
            "-qualified add",
            "-qualified shop::add",
            "-qualified main",
            "classes.cpp:add",
            "classes.cpp:main",
            "classes.cpp:shop::Item::cost",
            "hop::add",
            "_ZN4shop4ItemC2EiNS_4KindE",
            "std::vector<int>::size",
        ],
    ),
    (
        "cold.cpp",
        &[
            "shop::Cart::total",
            "shop::Cart::total(int)",
            "total",
            "checked",
            "risky",
            "choose",
            "choose(int)",
            "nested",
            "guarded",
            "main",
            "_Z6choosei",
            "_ZN4shop4Cart5totalEi",
        ],
    ),
    (
        "modules.rs",
        &[
            "main",
            "modules::main",
            "modules::work",
            "modules::store::twice",
            "modules::store::largest<i32>",
            "modules::store::Shelf::add",
            "modules::{impl#0}::weigh",
        ],
    ),
];

/// Every function of the source, and every line of it.
fn compare(build: Build) {
    let directory = tempfile::tempdir().expect("a directory");
    let program = build.run(directory.path());
    let mut symbols = Symbols::new();
    symbols
        .add_module(&program, 0)
        .expect("the program is read");
    let functions: BTreeSet<String> = symbols
        .functions()
        .into_iter()
        .filter(|function| {
            function
                .file
                .as_deref()
                .is_some_and(|file| file.ends_with(build.source))
        })
        .map(|function| function.name)
        .collect();
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/programs")
        .join(build.source);
    let lines = std::fs::read_to_string(source)
        .expect("the source is there")
        .lines()
        .count();
    let locations: Vec<String> = functions
        .into_iter()
        .chain((1..=lines).map(|line| format!("{}:{line}", build.source)))
        .chain(
            NAMES
                .iter()
                .filter(|(source, _)| *source == build.source)
                .flat_map(|(_, names)| names.iter().map(|name| (*name).to_owned())),
        )
        .collect();
    let expected = gdb_locations(&program, directory.path(), &locations);
    let mut wrong = Vec::new();
    for location in &locations {
        let wanted = &expected[location];
        let (found, elsewhere) = resolved(&symbols, location, wanted);
        let rest: Vec<_> = wanted
            .iter()
            .filter(|place| !found.contains(place))
            .collect();
        let same = rest.len() <= elsewhere && found.iter().all(|place| wanted.contains(place));
        // GDB does not find a Rust function by its symbol only.
        let more = wanted.is_empty() && location.starts_with("modules::");
        if !same && !more {
            let error = symbols.resolve(location, None).err();
            wrong.push(format!("{location}: {found:x?} {error:?}, GDB {wanted:x?}"));
        }
    }
    let resolved_by_gdb = expected
        .values()
        .filter(|places| !places.is_empty())
        .count();
    let enough = if build.options.iter().any(|option| option.contains('g')) {
        locations.len() / 2
    } else {
        4
    };
    assert!(resolved_by_gdb > enough, "{expected:?}");
    assert!(
        wrong.is_empty(),
        "{build:?}: {} of {} differ:\n{}",
        wrong.len(),
        locations.len(),
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
    c_o1: "cc" "shapes.c" &["-g", "-O1"];
    c_o2: "cc" "shapes.c" &["-g", "-O2"];
    c_dwarf_4: "cc" "shapes.c" &["-g", "-gdwarf-4", "-O0"];
    c_dwarf_4_o2: "cc" "shapes.c" &["-g", "-gdwarf-4", "-O2"];
    c_fixed_address: "cc" "shapes.c" &["-g", "-O0", "-no-pie"];
    c_compressed: "cc" "shapes.c" &["-g", "-O0", "-gz"];
    c_branch_protection: "cc" "shapes.c" &["-g", "-O0", "-fcf-protection=full"];
    c_static: "cc" "shapes.c" &["-g", "-O0", "-static"];
    c_32_bit: "cc" "shapes.c" &["-g", "-O0", "-m32"];
    c_32_bit_o2: "cc" "shapes.c" &["-g", "-O2", "-m32"];
    c_small: "cc" "shapes.c" &["-g", "-Os"];
    c_o3: "cc" "shapes.c" &["-g3", "-O3"];
    c_link_time: "cc" "shapes.c" &["-g", "-O2", "-flto"];
    c_dropped_sections: "cc" "shapes.c" &["-g", "-O0", "-ffunction-sections", "-Wl,--gc-sections"];
    c_static_pie: "cc" "shapes.c" &["-g", "-O1", "-static-pie"];
    c_without_debug_information: "cc" "shapes.c" &["-O0"];
    c_without_symbols: "cc" "shapes.c" &["-O2", "-s", "-rdynamic"];
    cpp_unoptimized: "g++" "classes.cpp" &["-g", "-O0"];
    cpp_o2: "g++" "classes.cpp" &["-g", "-O2"];
    cpp_type_units: "g++" "classes.cpp" &["-g", "-O1", "-fdebug-types-section"];
    cpp_link_time: "g++" "classes.cpp" &["-g", "-O2", "-flto"];
    cpp_dwarf_4: "g++" "classes.cpp" &["-g", "-gdwarf-4", "-O0"];
    cold_parts: "g++" "cold.cpp" &["-O2"];
    cold_parts_with_debug_information: "g++" "cold.cpp" &["-g", "-O2"];
    cold_parts_dwarf_4: "g++" "cold.cpp" &["-gdwarf-4", "-O3", "-freorder-blocks-and-partition"];
    cold_parts_in_sections: "g++" "cold.cpp" &["-g", "-O2", "-ffunction-sections"];
    cold_parts_link_time: "g++" "cold.cpp" &["-O2", "-flto"];
    cold_parts_clang: "clang++" "cold.cpp" &["-O2", "-mllvm", "-hot-cold-split"];
    cold_parts_clang_with_debug_information: "clang++" "cold.cpp" &["-g", "-O2", "-mllvm", "-hot-cold-split"];
    rust_debug: "rustc" "modules.rs" &["-g", "--edition=2021"];
    rust_o1: "rustc" "modules.rs" &["-g", "-Copt-level=1", "--edition=2021"];
    rust_lines_only: "rustc" "modules.rs" &["-Cdebuginfo=line-tables-only", "--edition=2021"];
    rust_limited: "rustc" "modules.rs" &["-Cdebuginfo=1", "-O", "--edition=2021"];
    rust_release: "rustc" "modules.rs" &["-g", "-O", "--edition=2021"];
}

/// A static program contains the C library's two thousand functions without debug information, written by hand or by a compiler.
#[test]
fn symbols_of_a_static_program() {
    let directory = tempfile::tempdir().expect("a directory");
    let build = Build {
        compiler: "cc",
        source: "shapes.c",
        options: &["-static", "-O1"],
    };
    let program = build.run(directory.path());
    let mut symbols = Symbols::new();
    symbols
        .add_module(&program, 0)
        .expect("the program is read");
    let names: BTreeSet<String> = symbols
        .functions()
        .into_iter()
        .map(|function| function.name)
        .collect();
    assert!(names.len() > 500);
    let names: Vec<String> = names.into_iter().collect();
    let expected = gdb_locations(&program, directory.path(), &names);
    let mut wrong = Vec::new();
    for name in &names {
        let (found, _) = resolved(&symbols, name, &[]);
        if found != expected[name] {
            wrong.push(format!("{name}: {found:x?}, GDB {:x?}", expected[name]));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {} differ:\n{}",
        wrong.len(),
        names.len(),
        wrong.join("\n")
    );
}

/// Thousands of names that are not there cost no search for close ones each.
#[test]
fn close_names_are_suggested_for_the_first_unknown_ones() {
    let directory = tempfile::tempdir().expect("a directory");
    let build = Build {
        compiler: "cc",
        source: "shapes.c",
        options: &["-O1", "-g"],
    };
    let program = build.run(directory.path());
    let mut symbols = Symbols::new();
    symbols
        .add_module(&program, 0)
        .expect("the program is read");
    let suggested: Vec<bool> = (0..100)
        .map(|_| {
            let error = symbols.resolve("twicf", None).expect_err("it is not there");
            error.to_string().contains("did you mean twice")
        })
        .collect();
    assert!(suggested[0]);
    assert!(!suggested[99]);
}

//! Functions are found by their names as `nm -C`, `perf` and Rust's backtraces print them, by module, and by patterns.

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use support::Build;
use tracewire_debuginfo::{LocationError, Segment, Symbols};
use tracewire_model::Address;
use tracewire_test_support::tool;

fn symbols_of(program: &Path) -> Symbols {
    let mut symbols = Symbols::new();
    symbols.add_module(program, 0).expect("the program is read");
    symbols
}

fn built(
    source: &'static str,
    compiler: &'static str,
    options: &'static [&'static str],
) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a directory");
    let build = Build {
        compiler,
        source,
        options,
    };
    let program = build.run(directory.path());
    (directory, program)
}

/// The names of code that `nm -C` prints, each with its addresses.
fn printed_names(program: &Path) -> BTreeMap<String, BTreeSet<u64>> {
    let mut found: BTreeMap<String, BTreeSet<u64>> = BTreeMap::new();
    for options in ["-C", "-CD"] {
        let output = Command::new("nm")
            .args([options, "--defined-only"])
            .arg(program)
            .output()
            .expect("nm runs");
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            let mut words = line.splitn(3, ' ');
            let (Some(address), Some(kind), Some(name)) =
                (words.next(), words.next(), words.next())
            else {
                continue;
            };
            if matches!(kind, "t" | "T" | "w" | "W" | "i") {
                let address = u64::from_str_radix(address, 16).expect("an address");
                found.entry(name.to_owned()).or_default().insert(address);
            }
        }
    }
    found
}

/// Errors in the lookup of a program's names; one in `each` is tested.
fn wrong_names(program: &Path, each: usize) -> Vec<String> {
    let symbols = symbols_of(program);
    let mut names = printed_names(program);
    let code: Vec<_> = (symbols.modules().iter())
        .flat_map(|module| module.segments.clone())
        .filter(|segment| segment.executable)
        .collect();
    // `W` is weak data, too.
    names.retain(|_, addresses| {
        addresses.iter().any(|address| {
            let (start, end) = (
                |segment: &Segment| segment.address.0,
                |segment: &Segment| segment.address.0 + segment.size,
            );
            code.iter()
                .any(|segment| (start(segment)..end(segment)).contains(address))
        })
    });
    assert!(names.len() > 20, "{names:?}");
    let mut wrong = Vec::new();
    for (name, addresses) in names.iter().step_by(each) {
        match symbols.resolve(name, None) {
            Ok(places) => {
                // A place after the prologue is of the function whose entry has the name.
                let entries: BTreeSet<u64> = places
                    .iter()
                    .filter_map(|place| symbols.function_at(place.address))
                    .map(|function| function.entry.0)
                    .chain(places.iter().map(|place| place.address.0))
                    .collect();
                let missing = addresses.iter().find(|address| {
                    let covered = symbols.function_at(Address(**address));
                    !entries.contains(address)
                        && covered.is_none_or(|function| !entries.contains(&function.entry.0))
                });
                if let Some(address) = missing {
                    wrong.push(format!("{name}: not at {address:#x}, but {places:x?}"));
                }
            }
            Err(LocationError::PartOfFunction { function, .. }) => {
                if symbols.resolve(&function, None).is_err() {
                    wrong.push(format!("{name}: is refused, and so is {function}"));
                }
            }
            Err(LocationError::IndirectFunction { .. }) => {}
            // It is refused with the name that is.
            Err(LocationError::NoFunction { near, .. })
                if near.iter().any(|near| {
                    let places = symbols.resolve(near, None).unwrap_or_default();
                    places
                        .iter()
                        .filter_map(|place| symbols.function_at(place.address))
                        .any(|function| addresses.contains(&function.entry.0))
                }) => {}
            Err(error) => wrong.push(format!("{name}: {error}")),
        }
    }
    wrong
}

#[track_caller]
fn assert_names(program: &Path, each: usize) {
    let wrong = wrong_names(program, each);
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        program.display(),
        wrong.join("\n")
    );
}

#[test]
fn every_name_of_a_cpp_program_is_taken() {
    for (compiler, options, each) in [
        ("g++", &["-g", "-O2"][..], 1),
        ("g++", &["-O0"], 2),
        ("clang++", &["-g", "-O1"], 3),
    ] {
        let (_directory, program) = built("names.cpp", compiler, options);
        assert_names(&program, each);
    }
}

#[test]
fn every_name_of_a_rust_program_is_taken() {
    let (_directory, program) = built("names.rs", "rustc", &["-g", "-O", "--edition=2021"]);
    assert_names(&program, 4);
    let (_directory, program) = built(
        "names.rs",
        "rustc",
        &["-g", "-Csymbol-mangling-version=v0", "--edition=2021"],
    );
    assert_names(&program, 4);
}

/// The functions that a location's places are in, without what they are inlined into.
fn functions(symbols: &Symbols, location: &str) -> Vec<String> {
    let places = symbols
        .resolve(location, None)
        .unwrap_or_else(|error| panic!("{location}: {error}"));
    let names: BTreeSet<String> = places
        .iter()
        .filter_map(|place| place.function.clone())
        .collect();
    names.into_iter().collect()
}

#[test]
fn functions_of_cpp_are_named_in_many_ways() {
    let (_directory, program) = built("names.cpp", "g++", &["-g", "-O0"]);
    let symbols = symbols_of(&program);
    for (location, expected) in [
        ("shop::label(Label const&)", &["shop::label"][..]),
        ("label(std::string const&)", &["shop::label"]),
        ("label(const std::string &, char const*)", &["shop::label"]),
        ("orders(Orders const&)", &["shop::orders"]),
        ("each(std::vector<Item> const&)", &["shop::each"]),
        ("each(const std::vector<shop::Item> &)", &["shop::each"]),
        ("int shop::largest<int>(int, int)", &["shop::largest<int>"]),
        ("hidden((anonymous namespace)::Local)", &[]),
        ("names.cpp:twice", &["twice"]),
        ("Ring<double, 4>::*", &["shop::Ring<double, 4>::at"]),
        (
            "shop::l*",
            &["shop::label", "shop::largest<double>", "shop::largest<int>"],
        ),
        ("/^shop::(each|orders)$/", &["shop::each", "shop::orders"]),
        ("names.cpp:/^tw/", &["twice"]),
    ] {
        if expected.is_empty() {
            assert!(symbols.resolve(location, None).is_err(), "{location}");
        } else {
            assert_eq!(functions(&symbols, location), expected, "{location}");
        }
    }
    let overloads = |location: &str| symbols.resolve(location, None).expect(location).len();
    assert_eq!(overloads("label"), 2);
    assert_eq!(overloads("label(std::string const&)"), 1);
    assert_eq!(overloads("label(Label const&, const char *)"), 1);
    // All functions that the file declares, and none of the library's that were compiled with it.
    let all = functions(&symbols, "names.cpp:*");
    assert!(all.len() >= 17, "{all:?}");
    assert!(all.iter().all(|name| !name.starts_with("std::")), "{all:?}");
    let lambda = functions(&symbols, "main::{lambda(int)#1}::operator()(int) const");
    assert_eq!(lambda.len(), 1, "{lambda:?}");
    for (wrong, message) in [
        ("Nobody::*", "no function matches `Nobody::*`"),
        ("/(/", "unclosed group"),
        ("nolib.so:main", "no source file or module named nolib.so"),
        ("shop::label(std::map<int, int>)", "not defined"),
    ] {
        let error = symbols.resolve(wrong, None).expect_err(wrong).to_string();
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn parts_of_functions_are_refused_with_the_function_s_name() {
    let (_directory, program) = built("cold.cpp", "g++", &["-O2"]);
    let symbols = symbols_of(&program);
    let error = symbols
        .resolve("shop::Cart::total(int) [clone .cold]", None)
        .expect_err("it is no function");
    let LocationError::PartOfFunction { function, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!(function, "shop::Cart::total(int)");
    assert!(symbols.resolve(function, None).is_ok());
}

#[test]
fn functions_of_rust_are_named_in_many_ways() {
    for options in [
        &["-g", "-O", "--edition=2021", "-Ccodegen-units=1"][..],
        &["-g", "--edition=2021", "-Csymbol-mangling-version=v0"],
    ] {
        let (_directory, program) = built("names.rs", "rustc", options);
        let symbols = symbols_of(&program);
        let shape_area = functions(&symbols, "<names::Shape as names::Area>::area");
        assert_eq!(shape_area.len(), 1, "{shape_area:?}");
        for location in ["<Shape as Area>::area", "Shape::area", "names::Shape::area"] {
            assert_eq!(functions(&symbols, location), shape_area, "{location}");
        }
        assert_eq!(functions(&symbols, "/^names::Shape::area$/"), shape_area);
        assert_eq!(functions(&symbols, "Shape::are*"), shape_area);
        assert_eq!(functions(&symbols, "store::apply"), ["names::store::apply"]);
        assert_eq!(functions(&symbols, "Shape::new").len(), 1);
        let closures = functions(&symbols, "main::{{closure}}");
        assert_eq!(
            closures,
            ["names::main::{closure#0}", "names::main::{closure#1}"]
        );
        assert_eq!(functions(&symbols, "names::main::{{closure}}"), closures);
        assert_eq!(
            functions(&symbols, "main::{closure#1}"),
            ["names::main::{closure#1}"]
        );
        // There are only inlined copies of it.
        assert_eq!(
            functions(&symbols, "store::always"),
            ["names::store::always"]
        );
    }
}

#[test]
fn a_module_limits_a_name() {
    let (_directory, program) = built("shapes.c", "cc", &["-g", "-O0"]);
    let mut symbols = symbols_of(&program);
    let library = Command::new("cc")
        .arg("-print-file-name=libc.so.6")
        .output()
        .expect("cc runs");
    let library = PathBuf::from(String::from_utf8_lossy(&library.stdout).trim());
    let library = library.canonicalize().expect("libc is there");
    let id = symbols
        .add_module(&library, 0x7000_0000_0000)
        .expect("libc is read");
    for location in [
        "libc.so.6:getenv",
        "libc:getenv",
        "libc:/^getenv$/",
        "libc:getenv*",
    ] {
        let places = symbols.resolve(location, None).expect(location);
        assert!(places.iter().all(|place| place.module == id), "{places:?}");
        assert_eq!(places.len(), 1, "{location}: {places:?}");
        assert!(!places[0].known_to_gdb);
    }
    // The selection of an indirect function is not known before a program runs; the resolver is.
    assert!(!symbols.unselected("libc:strlen").is_empty());
    assert!(symbols.unselected("libc:str*").len() > 10);
    let main = program
        .file_name()
        .expect("a name")
        .to_string_lossy()
        .into_owned();
    let own = symbols
        .resolve(&format!("{main}:main"), None)
        .expect("its own");
    assert_eq!(own.len(), 1);
    assert!(symbols.resolve("libc.so.6:twice", None).is_err());
}

/// The whole of what `nm -C` prints of three real programs. Of large ones each so many'th name.
#[test]
fn names_of_real_programs_are_taken() {
    let library = Command::new("g++")
        .arg("-print-file-name=libstdc++.so.6")
        .output()
        .expect("g++ runs");
    let library = PathBuf::from(String::from_utf8_lossy(&library.stdout).trim());
    let each = std::env::var("TRACEWIRE_EACH_NAME").ok();
    let each = |usual: usize| {
        each.as_deref()
            .map_or(usual, |each| each.parse().expect("a number"))
    };
    assert_names(
        &library.canonicalize().expect("libstdc++ is there"),
        each(40),
    );
    let own = std::env::current_exe().expect("this program");
    assert_names(&own, each(2000));
    assert_names(Path::new("/usr/bin/python3"), each(20));
}

const GO: &str = r#"
package main

import "os"

type Order struct{ items []int }

//go:noinline
func (o *Order) Total(by int) int {
	sum := 0
	for _, item := range o.items {
		sum += item * by
	}
	return sum
}

type Other struct{ count int }

//go:noinline
func (o *Other) Total(by int) int { return o.count * by }

//go:noinline
func handle(count int) int { return count + 1 }

func main() {
	order := &Order{items: []int{1, 2, len(os.Args)}}
	other := &Other{count: 3}
	println(order.Total(2) + other.Total(1) + handle(len(os.Args)))
}
"#;

/// A stripped Go program keeps its functions' names for its runtime.
#[test]
fn functions_of_a_stripped_go_program_are_found() {
    let directory = tempfile::tempdir().expect("a directory");
    let source = directory.path().join("main.go");
    std::fs::write(&source, GO).expect("the source is written");
    for mode in ["exe", "pie"] {
        let whole = directory.path().join(format!("whole-{mode}"));
        let stripped = directory.path().join(format!("stripped-{mode}"));
        for (output, flags) in [(&whole, ""), (&stripped, "-s -w")] {
            let built = tool("go")
                .args(["build", "-buildmode", mode, "-ldflags", flags, "-o"])
                .arg(output)
                .arg(&source)
                .env("GOFLAGS", "-mod=mod")
                .env("GOCACHE", directory.path().join("cache"))
                .status();
            assert!(built.expect("go runs").success());
        }
        let (whole, stripped) = (symbols_of(&whole), symbols_of(&stripped));
        for name in [
            "main.main",
            "main.handle",
            "main.(*Order).Total",
            "main.(*Other).Total",
            "runtime.gcStart",
        ] {
            let entry = |symbols: &Symbols| {
                let places = symbols.resolve(name, None).expect(name);
                assert_eq!(places.len(), 1, "{name}: {places:?}");
                let function = symbols.function_at(places[0].address).expect(name);
                (function.name, function.entry)
            };
            assert_eq!(entry(&stripped), entry(&whole), "{mode}");
        }
        let totals = functions(&stripped, "main.(*Order).*");
        assert_eq!(totals, ["main.(*Order).Total"]);
        assert_eq!(functions(&stripped, "/^main\\..*Total$/").len(), 2);
    }
}

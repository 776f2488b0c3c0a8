//! Values in readable form: a program's own output of its variables, compared with `show` of the recorded ones.

mod stock_server;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../wire/mod.rs"]
mod wire;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;
use tracewire_test_support::{
    Gdb, assert_clean, assert_clean_but, is_unreadable, is_written_in_between,
};

const CPP: &str = include_str!("values.cpp");
const RUST: &str = include_str!("values.rs");
const C: &str = include_str!("values.c");
const GO: &str = include_str!("values.go");

/// How many variables of each language's program are compared at least: each is in a separate line, or has a separate type.
const VARIABLES_OF_CPP: usize = 180;
const VARIABLES_OF_RUST: usize = 220;
const VARIABLES_OF_C: usize = 28;
const VARIABLES_OF_GO: usize = 65;
const _: () =
    assert!(VARIABLES_OF_CPP + VARIABLES_OF_RUST + VARIABLES_OF_C + VARIABLES_OF_GO >= 400);

fn tracewire(directory: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tracewire"));
    command
        .current_dir(directory)
        // Without type rules of the user who runs the tests.
        .env("XDG_CONFIG_HOME", directory);
    command
}

#[track_caller]
fn compiled(directory: &Path, compiler: &str, options: &[&str], source: &str) -> PathBuf {
    let extension = match compiler {
        "rustc" => "rs",
        "go" => "go",
        "gcc" | "clang" => "c",
        _ => "cpp",
    };
    let path = directory.join(format!("values.{extension}"));
    std::fs::write(&path, source).expect("the source is written");
    let built = Command::new(compiler)
        .current_dir(directory)
        .env("GO111MODULE", "off")
        .args(options)
        .args(["-o", "program"])
        .arg(&path)
        .output()
        .unwrap_or_else(|error| panic!("{compiler}: {error}"));
    let said = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "{compiler} {options:?}: {said}");
    directory.join("program")
}

/// Records a program into a file without errors. Returns the program's output by lines.
#[track_caller]
fn recorded(directory: &Path, program: &Path, arguments: &[&str]) -> Vec<String> {
    let (printed, _) = record(directory, program, arguments);
    assert_clean(&directory.join("out.tf"));
    printed
}

/// Records a program. Returns the program's output by lines, and the messages of `record`.
#[track_caller]
fn record(directory: &Path, program: &Path, arguments: &[&str]) -> (Vec<String>, String) {
    let ran = tracewire(directory)
        .args(["record", "-o", "out.tf"])
        .args(arguments)
        .arg("--")
        .arg(program)
        .stdin(Stdio::null())
        .output()
        .expect("tracewire runs");
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert_eq!(ran.status.code(), Some(0), "{said}");
    let printed = String::from_utf8(ran.stdout).expect("text");
    (printed.lines().map(str::to_owned).collect(), said)
}

/// Whether GDB has no value of `value` either, where it stops in a function.
fn is_optimized_out_in_gdb(program: &Path, function: &str) -> bool {
    let gdb = Gdb::new()
        .program(program)
        .command(format!("break {function}"));
    let said = gdb.commands(["run", "print value"]).run().output;
    said.lines().last() == Some("$1 = <optimized out>")
}

/// Every frame of `out.tf`.
#[track_caller]
fn frames(directory: &Path, arguments: &[&str]) -> Vec<Value> {
    let ran = tracewire(directory)
        .args(["show", "--json", "out.tf"])
        .args(arguments)
        .output()
        .expect("tracewire runs");
    let said = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(0), "{said}");
    let lines = String::from_utf8(ran.stdout).expect("text");
    let frame = |line: &str| serde_json::from_str(line).expect("JSON");
    lines.lines().map(frame).collect()
}

fn value(frame: &Value) -> &str {
    frame["values"][0]["value"].as_str().unwrap_or("<none>")
}

/// Whether a value is the one that the program printed. Where the program leaves elements out, more of them may have been collected
/// on the way: for tables, and for booleans, which are collected by bytes.
fn is_same(found: &str, printed: &str) -> bool {
    if let Some(start) = printed.strip_suffix("...}") {
        return found.starts_with(start) && found.ends_with("...}");
    }
    match printed.strip_suffix("...]") {
        Some(start) if start.ends_with("true") => {
            let rest = found.strip_prefix(start).unwrap_or("?");
            rest.replace(", true", "") == "]"
        }
        _ => found == printed,
    }
}

/// Whether a value of Go is the one that the program printed: all of it, or a part that is marked as cut.
fn is_same_in_go(found: &str, printed: &str) -> bool {
    if let Some(inside) = found.strip_suffix("...]") {
        let (open, elements) = inside.split_at(inside.find('[').map_or(0, |at| at + 1));
        let all: Vec<&str> = printed.split([' ', '[', ']']).collect();
        return printed.starts_with(open) && elements.split(' ').all(|one| all.contains(&one));
    }
    match found.strip_suffix("...") {
        Some(start) => start.len() >= 200 && printed.starts_with(start),
        None => found == printed,
    }
}

/// Records `function`, and compares each value with the line that the program printed of it, after the number of the variable's
/// line. Prints the number of variables.
#[track_caller]
fn assert_as_printed(
    compiler: &str,
    options: &[&str],
    source: &str,
    function: &str,
    at_least: usize,
    is_same: fn(&str, &str) -> bool,
) {
    let directory = TempDir::new().expect("a directory");
    let directory = directory.path();
    let program = compiled(directory, compiler, options, source);
    let (printed, said) = record(directory, &program, &["-t", &format!("{function} : value")]);
    assert_clean(&directory.join("out.tf"));
    let frames = frames(directory, &[]);
    assert_eq!(frames.len(), printed.len());
    let mut variables = BTreeSet::new();
    let mut wrong = Vec::new();
    let mut lost = BTreeSet::new();
    for (frame, printed) in frames.iter().zip(&printed) {
        let (line, printed) = printed.split_once('\t').expect("a line's number");
        variables.insert((line, frame["values"][0]["type"].to_string()));
        let shown = value(frame);
        if shown == "<optimized out>" {
            let text = |name: &str| frame[name].as_str().unwrap_or("").to_owned();
            lost.insert((text("function"), text("pc")));
        } else if !is_same(shown, printed) {
            wrong.push(format!("line {line}: printed {printed}\nshown   {shown}\n"));
        }
    }
    println!(
        "{compiler} {options:?}: {} variables, {} values, optimized out in {lost:?}",
        variables.len(),
        frames.len()
    );
    for (function, pc) in &lost {
        let reason = said.lines().find(|line| {
            line.contains("`value' has been optimized out") && line.ends_with(&format!("(at {pc})"))
        });
        assert!(reason.is_some(), "no reason at {pc}: {said}");
        assert!(
            is_optimized_out_in_gdb(&program, function),
            "GDB has it: {function}"
        );
    }
    assert!(variables.len() >= at_least, "{} variables", variables.len());
    assert!(
        wrong.is_empty(),
        "{compiler} {options:?}: {} of {} values:\n{}",
        wrong.len(),
        printed.len(),
        wrong.join("\n")
    );
}

#[track_caller]
fn assert_cpp_as_printed(compiler: &str, options: &[&str]) {
    assert_as_printed(compiler, options, CPP, "see_at", VARIABLES_OF_CPP, is_same);
}

#[test]
fn cpp_values_are_what_the_program_prints() {
    assert_cpp_as_printed("g++", &["-std=c++20", "-g", "-O0"]);
}

#[test]
fn cpp_values_of_optimized_code_are_what_the_program_prints() {
    assert_cpp_as_printed("g++", &["-std=c++20", "-g", "-O2"]);
}

#[test]
fn cpp_values_of_clang_are_what_the_program_prints() {
    assert_cpp_as_printed("clang++", &["-std=c++17", "-g", "-O2"]);
}

#[test]
fn cpp_values_of_libcxx_are_what_the_program_prints() {
    assert_cpp_as_printed("clang++", &["-stdlib=libc++", "-std=c++17", "-g", "-O0"]);
}

#[test]
fn cpp_values_of_libcxx_and_optimized_code_are_what_the_program_prints() {
    assert_cpp_as_printed("clang++", &["-stdlib=libc++", "-std=c++17", "-g", "-O2"]);
}

#[track_caller]
fn assert_rust_as_printed(options: &[&str]) {
    assert_as_printed("rustc", options, RUST, "see_at", VARIABLES_OF_RUST, is_same);
}

#[test]
fn rust_values_are_what_the_program_prints() {
    assert_rust_as_printed(&["-g"]);
}

#[test]
fn rust_values_of_optimized_code_are_what_the_program_prints() {
    assert_rust_as_printed(&["-g", "-C", "opt-level=2"]);
}

#[track_caller]
fn assert_c_as_printed(compiler: &str, options: &[&str]) {
    assert_as_printed(compiler, options, C, "/^see_/", VARIABLES_OF_C, is_same);
}

#[test]
fn c_values_are_what_the_program_prints() {
    assert_c_as_printed("gcc", &["-g", "-O0"]);
    assert_c_as_printed("clang", &["-g", "-O0"]);
}

#[test]
fn c_values_of_optimized_code_are_what_the_program_prints() {
    assert_c_as_printed("gcc", &["-g", "-O2"]);
    assert_c_as_printed("clang", &["-g", "-O2"]);
}

/// Inlined copies of the functions, where compilers have wrong locations for some arguments: GCC's of slots on the stack that are
/// stored to later and of numbers that are computed in the lower half of a register, clang's of numbers that are computed with a
/// slot's address.
#[test]
fn c_values_of_inlined_copies_are_what_the_program_prints_or_unavailable() {
    // The call in a line of the source, by its function.
    let function = |line: &str| {
        let number: usize = line.parse().expect("a number");
        let call = C.lines().nth(number - 1).expect("a line").trim();
        let name = call
            .strip_prefix("see(")
            .and_then(|rest| rest.split(',').next());
        format!("see_{}", name.expect("a call"))
    };
    for (compiler, options) in [
        ("gcc", &["-g", "-O1"][..]),
        ("gcc", &["-g", "-O2", "-fno-ipa-icf"]),
        ("clang", &["-g", "-O1"]),
        ("clang", &["-g", "-O2"]),
    ] {
        let directory = TempDir::new().expect("a directory");
        let directory = directory.path();
        let options = [options, &["-DCOPIES"]].concat();
        let program = compiled(directory, compiler, &options, C);
        let printed = recorded(directory, &program, &["-t", "/^see_/ : value"]);
        let mut values: BTreeSet<(String, String)> = BTreeSet::new();
        for line in &printed {
            let (line, printed) = line.split_once('\t').expect("a line's number");
            values.insert((function(line), printed.to_owned()));
        }
        let frames = frames(directory, &[]);
        assert!(frames.len() >= 140, "{}", frames.len());
        let mut known = 0;
        for frame in &frames {
            let shown = value(frame);
            let function = frame["function"].as_str().expect("a function").to_owned();
            if shown.contains("<optimized out>") {
                continue;
            }
            known += 1;
            assert!(
                values.contains(&(function.clone(), shown.to_owned())),
                "{compiler} {options:?}: {function}: {shown}"
            );
        }
        println!("{compiler} {options:?}: {known} of {} values", frames.len());
        assert!(known >= 60, "{known} values");
    }
}

#[track_caller]
fn assert_go_as_printed(options: &[&str]) {
    let options = [&["build"], options].concat();
    let functions = r"/^main\.see/";
    assert_as_printed(
        "go",
        &options,
        GO,
        functions,
        VARIABLES_OF_GO,
        is_same_in_go,
    );
}

#[test]
fn go_values_are_what_the_program_prints() {
    assert_go_as_printed(&["-gcflags=-N -l"]);
}

#[test]
fn go_values_of_optimized_code_are_what_the_program_prints() {
    assert_go_as_printed(&[]);
}

/// Parts of values, as expressions: what each gives at the one hit.
const PARTS: &str = r#"
#include <array>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <list>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>
struct Item { int id; std::string name; };
struct Tables {
    std::map<std::string, int> ages;
    std::map<int, std::string> names;
    std::unordered_map<std::string, std::string> hosts;
    std::set<std::string> tags;
    std::list<int> chain;
    std::deque<int> queue;
    std::vector<bool> flags;
};
__attribute__((noinline)) long look(const Tables &t) { return t.chain.size(); }
struct Request {
    std::string path;
    std::vector<int> parts;
    std::vector<Item> items;
    std::optional<int> limit, none;
    std::unique_ptr<Item> owned;
    std::shared_ptr<Item> shared;
    std::map<int, int> headers;
};
__attribute__((noinline)) long handle(const Request &r, const Request *p, std::string text) {
    return r.parts.size() + p->parts.size() + text.size();
}
int main() {
    Request r{"/item/1", {4, 5, 6}, {{7, "seven"}}, 9, {}, {}, {}, {{1, 2}}};
    r.owned = std::make_unique<Item>(Item{3, "three"});
    r.shared = std::make_shared<Item>(Item{2, "two"});
    long sum = 0;
    for (int i = 0; i < 10; i++) {
        r.path = "/item/" + std::to_string(i);
        sum += handle(r, &r, i % 2 ? "odd, which is longer than a short string" : "even");
    }
    Tables t{{{"ada", 36}, {"bob", 7}}, {{-5, "minus"}}, {{"a", "host a"}, {"key two", "a value that is rather long"}},
             {"x", "y"}, {10, 20, 30}, {}, {true, false}};
    for (int i = 0; i < 100; i++) {
        t.ages["k" + std::to_string(i)] = i;
        t.names[i * 7] = std::to_string(i);
        t.queue.push_back(i);
        t.flags.push_back(i % 2);
        if (i % 3 == 0) t.queue.pop_front();
    }
    sum += look(t);
    t.ages["ada"] = 37;
    t.ages.erase("bob");
    sum += look(t);
    return sum == 0;
}
"#;

#[test]
fn elements_are_found_by_their_keys() {
    for (compiler, options) in [
        ("g++", &["-std=c++17", "-g", "-O2"][..]),
        ("clang++", &["-stdlib=libc++", "-std=c++17", "-g", "-O0"]),
    ] {
        let directory = TempDir::new().expect("a directory");
        let directory = directory.path();
        let program = compiled(directory, compiler, options, PARTS);
        let parts = [
            ("t.ages[\"ada\"]", "37"),
            ("t.ages[\"k42\"]", "42"),
            ("t.ages.contains(\"bob\")", "false"),
            ("t.names[-5]", "\"minus\""),
            ("t.names[7 * 9]", "\"9\""),
            ("t.hosts[\"key two\"]", "\"a value that is rather long\""),
            ("t.hosts[\"a\"].size()", "6"),
            ("t.hosts[\"a\"] == \"host a\"", "true"),
            ("t.tags.contains(\"y\")", "true"),
            ("t.chain[2]", "30"),
            ("t.queue[10]", "44"),
            ("t.flags[1]", "false"),
        ];
        let list: Vec<&str> = parts.iter().map(|(expression, _)| *expression).collect();
        let all = format!("look : {}", list.join(", "));
        record(
            directory,
            &program,
            &[
                "-t",
                &all,
                "-t",
                "look if t.ages[\"ada\"] == 37 : t.ages[\"bob\"]",
                "-t",
                "look if t.ages.contains(\"bob\") : t.ages[\"bob\"]",
                "-t",
                "look if t.hosts[\"a\"] == \"host a\" : t.chain[0]",
                "-t",
                "look if t.names[14] == \"3\" : t.chain[0]",
            ],
        );
        // A search that finds nothing reads address 0.
        assert_clean_but(&directory.join("out.tf"), is_unreadable);
        let frames = frames(directory, &[]);
        let of = |number: u64| {
            frames
                .iter()
                .filter(move |frame| frame["tracepoint"] == number)
        };
        let values = of(1).nth(1).expect("a second hit")["values"].as_array();
        let text = |value: &Value, name: &str| value[name].as_str().unwrap_or("").to_owned();
        let found: Vec<(String, String)> = (values.into_iter().flatten())
            .map(|value| (text(value, "expression"), text(value, "value")))
            .collect();
        let wanted = parts.map(|(expression, value)| (expression.to_owned(), value.to_owned()));
        assert_eq!(found, wanted, "{compiler}");
        let second: Vec<&str> = of(2).map(value).collect();
        assert_eq!(second, ["<unavailable>"], "the one after the change");
        let third: Vec<&str> = of(3).map(value).collect();
        assert_eq!(third, ["7"], "the one before the change");
        assert_eq!((of(4).count(), of(5).count()), (2, 0));
        // The same of what has been collected.
        for (condition, frames) in [
            ("t.ages[\"ada\"] == 37", "1\n"),
            ("t.ages[\"ada\"] > 0", "0\n1\n"),
        ] {
            let ran = tracewire(directory)
                .args(["find", "--tracepoint", "1", "--where", condition, "out.tf"])
                .output()
                .expect("tracewire runs");
            let found = String::from_utf8_lossy(&ran.stdout).into_owned();
            assert_eq!(found.lines().count(), frames.lines().count(), "{found}");
        }
    }
}

#[test]
fn parts_of_values_are_expressions() {
    let directory = TempDir::new().expect("a directory");
    let directory = directory.path();
    let program = compiled(directory, "g++", &["-std=c++17", "-g", "-O0"], PARTS);
    let parts = [
        ("r.path.size()", "7"),
        ("r.path == \"/item/3\"", "true"),
        ("r.path != \"/item/3\"", "false"),
        ("r.path.starts_with(\"/item/\")", "true"),
        ("r.path[6]", "51 '3'"),
        ("r.parts[0]", "4"),
        ("r.parts[2] + p->parts[1]", "11"),
        ("r.parts.size()", "3"),
        ("p->path.length()", "7"),
        ("r.parts.empty()", "false"),
        ("r.items[0].name", "\"seven\""),
        ("r.items[0].name.size()", "5"),
        ("r.limit.value", "9"),
        ("*r.limit", "9"),
        ("r.none.has_value()", "false"),
        ("r.owned->name", "\"three\""),
        ("*r.shared", "{id = 2, name = \"two\"}"),
        ("(*r.owned).id", "3"),
        ("r.headers.size()", "1"),
        ("text", "\"odd, which is longer than a short string\""),
    ];
    let list: Vec<&str> = parts.iter().map(|(expression, _)| *expression).collect();
    let one = format!("handle if r.path == \"/item/3\" : {}", list.join(", "));
    let long = "handle if text.starts_with(\"odd\") && r.path.size() == 7 && r.parts[1] == 5";
    recorded(directory, &program, &["-t", &one, "-t", long]);
    let all = frames(directory, &[]);
    let of = |number: u64| {
        all.iter()
            .filter(move |frame| frame["tracepoint"] == number)
    };
    assert_eq!(of(2).count(), 5, "the odd ones");
    let hits: Vec<&Value> = of(1).collect();
    let [hit] = hits[..] else {
        panic!("{} hits", hits.len());
    };
    let values = hit["values"].as_array().expect("values");
    let found: Vec<(&str, &str)> = values
        .iter()
        .map(|value| {
            let text = |name: &str| value[name].as_str().unwrap_or("");
            (text("expression"), text("value"))
        })
        .collect();
    assert_eq!(found, parts);
}

#[test]
fn limits_of_what_is_collected_are_options() {
    let directory = TempDir::new().expect("a directory");
    let directory = directory.path();
    let program = compiled(directory, "g++", &["-std=c++17", "-g", "-O0"], PARTS);
    let options = [
        "--max-string=3",
        "--max-elements=2",
        "-t",
        "handle : r.path, r.parts",
    ];
    recorded(directory, &program, &options);
    let all = frames(directory, &[]);
    let shown = |index: usize| all[0]["values"][index]["value"].as_str().unwrap_or("");
    // A short string is in the object itself.
    assert_eq!((shown(0), shown(1)), ("\"/item/0\"", "[4, 5...]"));
    recorded(
        directory,
        &program,
        &["--max-depth=0", "-t", "handle : r.parts"],
    );
    assert_eq!(value(&frames(directory, &[])[0]), "<unavailable>");
    recorded(
        directory,
        &program,
        &["--max-elements=2", "-t", "look : t.flags"],
    );
    let all = frames(directory, &[]);
    let flags = value(&all[0]);
    // Whole bytes are collected, and the first bit may be any of a word's.
    assert!(flags.starts_with("[true, false, false, true, "), "{flags}");
    assert!(flags.ends_with("...]"), "{flags}");
    assert_eq!(flags.split(", ").count(), 72, "{flags}");
}

/// Another thread pushes into a vector, a map and a string while they are collected.
const CHANGED: &str = r#"
#include <atomic>
#include <cstdio>
#include <map>
#include <string>
#include <thread>
#include <vector>
std::vector<int> numbers;
std::map<int, int> doubles;
std::string letters;
std::atomic<bool> done;
__attribute__((noinline)) void look(int n) { asm volatile("" ::"r"(n) : "memory"); }
int main(int, char **arguments) {
    std::thread writer([] {
        for (int i = 0; !done; i++) {
            numbers.push_back(i);
            int key = i * 7919 % 100003;
            doubles.emplace(key, 2 * key);
            letters.push_back('a' + i % 26);
        }
    });
    for (int n = 0; n < 1000; n++) {
        look(n);
        std::this_thread::yield();
    }
    done = true;
    writer.join();
    std::puts("unharmed");
}
"#;

/// How many bytes of a vector and of a string the allocator may have overwritten. When they move to a larger place, the library
/// frees the old one before it replaces the pointer, and may be stopped between the two.
const FREED: usize = 32;

/// The bytes of a string as it is shown, with its escapes in octal.
fn unescaped(shown: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = shown;
    while let Some(first) = rest.bytes().next() {
        // `\220`, or a letter as in `\a`.
        let escaped = rest.strip_prefix('\\');
        let octal = escaped.and_then(|after| u8::from_str_radix(after.get(..3)?, 8).ok());
        let length = match (escaped, octal) {
            (Some(_), Some(_)) => 4,
            (Some(_), None) => 2,
            (None, _) => 1,
        };
        bytes.push(octal.unwrap_or(first));
        rest = rest.get(length..).unwrap_or("");
    }
    bytes
}

/// Whether the output is a former value, or marked as none.
fn was_so(expression: &str, shown: &str) -> bool {
    if shown.contains("<changed") || shown.contains("<unavailable>") {
        return true;
    }
    let inside = shown.trim_end_matches("...");
    let inside = inside
        .get(1..inside.len().saturating_sub(1))
        .unwrap_or("")
        .trim_end_matches("...");
    let items = || inside.split(", ").filter(|item| !item.is_empty());
    match expression {
        "numbers" => (0..)
            .zip(items())
            .skip(FREED / 4)
            .all(|(index, item)| item == format!("{index}")),
        "doubles" => {
            let pairs: Option<Vec<(i64, i64)>> = items()
                .map(|item| {
                    let (key, value) = item.split_once(": ")?;
                    Some((key.parse().ok()?, value.parse().ok()?))
                })
                .collect();
            pairs.is_some_and(|pairs| {
                pairs.iter().all(|(key, value)| value == &(key * 2))
                    && pairs.windows(2).all(|two| two[0].0 < two[1].0)
            })
        }
        _ => (0..)
            .zip(unescaped(inside))
            .skip(FREED)
            .all(|(index, byte)| byte == b'a' + (index % 26) as u8),
    }
}

/// Whether the part of a vector or a string that the allocator may have written over is as it was.
fn begins_right(expression: &str, shown: &str) -> bool {
    match expression {
        "numbers" => "[0, 1, 2, 3, 4, 5, 6, 7".starts_with(shown.get(..23).unwrap_or("[")),
        "letters" => {
            "\"abcdefghijklmnopqrstuvwxyzabcdef".starts_with(shown.get(..33).unwrap_or("\""))
        }
        _ => true,
    }
}

#[test]
fn a_value_that_another_thread_changes_is_right_or_says_so() {
    let directory = TempDir::new().expect("a directory");
    let directory = directory.path();
    let program = compiled(
        directory,
        "g++",
        &["-std=c++17", "-g", "-O1", "-pthread"],
        CHANGED,
    );
    let times = std::env::var("TRACEWIRE_CHANGED_TIMES").ok();
    let times: u32 = times.map_or(1, |times| times.parse().expect("a number"));
    for _ in 0..times {
        changed_values_are_right_or_say_so(directory, &program);
    }
}

#[track_caller]
fn changed_values_are_right_or_say_so(directory: &Path, program: &Path) {
    let (printed, _) = record(
        directory,
        program,
        &["-t", "look : numbers, doubles, letters"],
    );
    assert_eq!(printed, ["unharmed"]);
    // The other thread may have freed memory before it is read. It may also write a place between two readings: a node of the map
    // in freed memory of the vector.
    assert_clean_but(&directory.join("out.tf"), |fault| {
        is_unreadable(fault) || is_written_in_between(fault)
    });
    let frames = frames(directory, &[]);
    assert_eq!(frames.len(), 1000);
    let (mut whole, mut marked) = (0, 0);
    // Values whose first bytes are of memory that was freed.
    let mut freed = 0;
    let mut wrong = Vec::new();
    for frame in &frames {
        for value in frame["values"].as_array().expect("values") {
            let text = |name: &str| value[name].as_str().unwrap_or("");
            let (expression, shown) = (text("expression"), text("value"));
            if !was_so(expression, shown) {
                wrong.push(format!("{expression} = {shown}"));
            } else if shown.contains('<') {
                marked += 1;
            } else {
                whole += 1;
                freed += u32::from(!begins_right(expression, shown));
            }
        }
    }
    assert!(wrong.is_empty(), "{}: {}", wrong.len(), wrong.join("\n"));
    println!("{whole} whole values, {marked} marked, {freed} that begin with freed memory");
    assert!(whole > 100, "{whole} whole values");
}

/// The program's own function of a name that is a part of values.
const COUNTED: &str = r#"
#include <cstdio>
struct Bag {
    int *data;
    long count;
    static long calls;
    __attribute__((noinline)) long size() const { calls++; return count; }
};
long Bag::calls;
__attribute__((noinline)) long handle(const Bag &bag) { return bag.data[0]; }
int main() {
    int data[3] = {1, 2, 3};
    Bag bag = {data, 3};
    long sum = handle(bag) + bag.size();
    std::printf("%ld %ld\n", sum, Bag::calls);
}
"#;

#[test]
fn parts_are_read_and_nothing_is_called() {
    let directory = TempDir::new().expect("a directory");
    let directory = directory.path();
    let program = compiled(directory, "g++", &["-std=c++17", "-g", "-O1"], COUNTED);
    let rules = "type Bag\n    sequence\n    first = data\n    length = count\n";
    std::fs::write(directory.join("bag.types"), rules).expect("written");
    let types = ["--types", "bag.types"];
    let specification = "handle if bag.size() == 3 : bag.size(), bag";
    let printed = recorded(
        directory,
        &program,
        &[&types[..], &["-t", specification]].concat(),
    );
    // The only call is its own.
    assert_eq!(printed, ["4 1"]);
    let all = frames(directory, &types);
    assert_eq!(all.len(), 1);
    let shown = |index: usize| all[0]["values"][index]["value"].as_str().unwrap_or("");
    assert_eq!((shown(0), shown(1)), ("3", "[1, 2, 3]"));
}

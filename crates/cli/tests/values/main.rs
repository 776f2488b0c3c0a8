//! Values as people read them: what a program prints of its variables, against what `show` prints of what was recorded.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;
use tracewire_test_support::{assert_clean, assert_clean_but, is_unreadable};

const CPP: &str = include_str!("values.cpp");
const RUST: &str = include_str!("values.rs");

fn tracewire(directory: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tracewire"));
    command
        .current_dir(directory)
        // No rules of the user who runs the tests.
        .env("XDG_CONFIG_HOME", directory);
    command
}

#[track_caller]
fn compiled(directory: &Path, compiler: &str, options: &[&str], source: &str) -> PathBuf {
    let extension = if compiler == "rustc" { "rs" } else { "cpp" };
    let path = directory.join(format!("values.{extension}"));
    std::fs::write(&path, source).expect("the source is written");
    let built = Command::new(compiler)
        .current_dir(directory)
        .args(options)
        .args(["-o", "program"])
        .arg(&path)
        .output()
        .unwrap_or_else(|error| panic!("{compiler}: {error}"));
    let said = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "{compiler} {options:?}: {said}");
    directory.join("program")
}

/// Records a program into a file without fault; what it printed, a line each.
#[track_caller]
fn recorded(directory: &Path, program: &Path, arguments: &[&str]) -> Vec<String> {
    let printed = record(directory, program, arguments);
    assert_clean(&directory.join("out.tf"));
    printed
}

/// Records a program; what it printed, a line each.
#[track_caller]
fn record(directory: &Path, program: &Path, arguments: &[&str]) -> Vec<String> {
    let ran = tracewire(directory)
        .args(["record", "-o", "out.tf"])
        .args(arguments)
        .arg("--")
        .arg(program)
        .stdin(Stdio::null())
        .output()
        .expect("tracewire runs");
    let said = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(0), "{said}");
    let printed = String::from_utf8(ran.stdout).expect("text");
    printed.lines().map(str::to_owned).collect()
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

/// Whether a value is what the program printed. Where the program leaves elements out, more of them may have been collected on
/// the way.
fn is_same(found: &str, printed: &str) -> bool {
    match printed.strip_suffix("...}") {
        Some(start) => found.starts_with(start) && found.ends_with("...}"),
        None => found == printed,
    }
}

/// Records `see`, and compares each value with the line that the program printed of it.
#[track_caller]
fn assert_as_printed(compiler: &str, options: &[&str], source: &str, at_least: usize) {
    let directory = TempDir::new().expect("a directory");
    let directory = directory.path();
    let program = compiled(directory, compiler, options, source);
    let printed = recorded(directory, &program, &["-t", "see : value"]);
    let frames = frames(directory, &[]);
    assert_eq!(frames.len(), printed.len());
    assert!(printed.len() >= at_least, "{} values", printed.len());
    let wrong: Vec<String> = frames
        .iter()
        .zip(&printed)
        .filter(|(frame, printed)| !is_same(value(frame), printed))
        .map(|(frame, printed)| format!("printed {printed}\nshown   {}\n", value(frame)))
        .collect();
    assert!(
        wrong.is_empty(),
        "{compiler} {options:?}: {} of {} values:\n{}",
        wrong.len(),
        printed.len(),
        wrong.join("\n")
    );
}

#[test]
fn cpp_values_are_what_the_program_prints() {
    assert_as_printed("g++", &["-std=c++17", "-g", "-O0"], CPP, 150);
}

#[test]
fn cpp_values_of_optimized_code_are_what_the_program_prints() {
    assert_as_printed("g++", &["-std=c++17", "-g", "-O2"], CPP, 150);
}

#[test]
fn cpp_values_of_libcxx_are_what_the_program_prints() {
    let options = ["-stdlib=libc++", "-std=c++17", "-g", "-O1"];
    assert_as_printed("clang++", &options, CPP, 150);
}

#[test]
fn rust_values_are_what_the_program_prints() {
    assert_as_printed("rustc", &["-g"], RUST, 200);
}

#[test]
fn rust_values_of_optimized_code_are_what_the_program_prints() {
    assert_as_printed("rustc", &["-g", "-C", "opt-level=2"], RUST, 200);
}

/// Parts of values, as expressions: what each gives at the one hit.
const PARTS: &str = r#"
#include <array>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>
struct Item { int id; std::string name; };
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
    return sum == 0;
}
"#;

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
    for (int n = 0; n < 300; n++) {
        look(n);
        std::this_thread::yield();
    }
    done = true;
    writer.join();
    std::puts("unharmed");
}
"#;

/// How many elements of a vector and characters of a string the allocator may have written over: while they move to a larger
/// place, the library frees the old one before it lets go of the pointer, and may be stopped between the two.
const FREED: usize = 8;

/// Whether what is shown is a value that was, or says that it is none.
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
            .skip(FREED)
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
            .zip(inside.bytes())
            .skip(4 * FREED)
            .all(|(index, byte)| byte == b'a' + (index % 26) as u8),
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
    let printed = record(
        directory,
        &program,
        &["-t", "look : numbers, doubles, letters"],
    );
    assert_eq!(printed, ["unharmed"]);
    // The other thread may have given memory back by the time that it is read.
    assert_clean_but(&directory.join("out.tf"), is_unreadable);
    let frames = frames(directory, &[]);
    assert_eq!(frames.len(), 300);
    let mut whole = 0;
    let mut wrong = Vec::new();
    for frame in &frames {
        for value in frame["values"].as_array().expect("values") {
            let text = |name: &str| value[name].as_str().unwrap_or("");
            let (expression, shown) = (text("expression"), text("value"));
            if !was_so(expression, shown) {
                wrong.push(format!("{expression} = {shown}"));
            } else if !shown.contains('<') {
                whole += 1;
            }
        }
    }
    assert!(wrong.is_empty(), "{}: {}", wrong.len(), wrong.join("\n"));
    assert!(whole > 30, "{whole} whole values");
}

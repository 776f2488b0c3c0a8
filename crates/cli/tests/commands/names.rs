//! Places by patterns and by module, the list of what can be traced, and the shell's completion of names.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use tracewire_test_support::{Cc, have};

use crate::support::{Built, Ran};

const SHOP: &str = r#"
#include <cstdio>
#include <string>
#include <sys/sdt.h>

namespace shop {
struct Cart {
    int count = 0;
    __attribute__((noinline)) void add(std::string const &name, int price) {
        count += price;
        DTRACE_PROBE2(shop, added, (short) price, name.c_str());
    }
    __attribute__((noinline)) int total(int by) {
        int sum = count * by;
        std::printf("%d\n", sum);
        return sum;
    }
};
} // namespace shop

__attribute__((noinline)) int cartel(int value) { return value + 1; }

int main(int argc, char **argv) {
    shop::Cart cart;
    cart.add("apple", 3);
    cart.add("pear", 4);
    int total = cart.total(2) + cartel(argc);
    if (argc > 1) {
        getchar();
    }
    return total == 16 ? 0 : 3;
}
"#;

fn shop() -> Built {
    let folder = tempfile::tempdir().expect("a folder");
    let built = Built::at(folder);
    Cc::cpp()
        .options(&["-g", "-O1"])
        .text_as("cpp", SHOP)
        .build(built.folder.path(), "program");
    built
}

fn of_kind<'a>(lines: &'a [Value], kind: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["kind"] == kind).collect()
}

fn names(lines: &[&Value]) -> Vec<String> {
    lines
        .iter()
        .map(|line| line["name"].as_str().expect("a name").to_owned())
        .collect()
}

#[test]
fn functions_lines_and_probes_are_listed() {
    let built = shop();
    let all = built.run(&["list", "program", "--json"]).code(0).json();
    let functions = names(&of_kind(&all, "function"));
    for name in ["main", "cartel(int)", "shop::Cart::total(int)"] {
        assert!(functions.iter().any(|one| one == name), "{functions:?}");
    }
    let probes = of_kind(&all, "probe");
    assert_eq!(probes.len(), 1, "{probes:?}");
    assert_eq!(probes[0]["provider"], "shop");
    assert_eq!(probes[0]["name"], "added");
    let types: Vec<&str> = probes[0]["arguments"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|argument| argument["type"].as_str().expect("a type"))
        .collect();
    assert_eq!(types, ["int16_t", "uint64_t"]);

    let some = built
        .run(&["list", "program", "Cart::*", "--json"])
        .code(0)
        .json();
    let functions = names(&of_kind(&some, "function"));
    assert_eq!(functions.len(), 2, "{functions:?}");
    // Each name is a location.
    for name in &functions {
        let again = built
            .run(&["list", "program", name, "--json"])
            .code(0)
            .json();
        assert_eq!(names(&of_kind(&again, "function")), [name.as_str()]);
    }
    let lines = of_kind(&some, "line");
    let sum = lines
        .iter()
        .flat_map(|line| line["variables"].as_array().expect("a list"))
        .find(|variable| variable["name"] == "by")
        .expect("it is seen");
    assert_eq!(
        (&sum["type"], &sum["kind"]),
        (&"int".into(), &"argument".into())
    );

    let text = built.run(&["list", "program", "shop:added"]).code(0).stdout;
    assert_eq!(
        text,
        "-m shop:added(int16_t $_probe_arg0, uint64_t $_probe_arg1)\n"
    );
    let text = built.run(&["list", "program", "total"]).code(0).stdout;
    assert!(
        text.starts_with("shop::Cart::total(int)  program.cpp:13\n"),
        "{text}"
    );
    assert!(text.contains("  program.cpp:14  "), "{text}");
    let line = built
        .run(&["list", "program", "program.cpp:14", "--json"])
        .code(0)
        .json();
    assert_eq!(line[0]["line"], 14);
    assert_eq!(line[0]["function"], "shop::Cart::total");
    let file = built
        .run(&["list", "program", "program.cpp", "--json"])
        .code(0)
        .json();
    assert!(of_kind(&file, "function").len() >= 4);

    built
        .run(&["list", "program", "nonsense"])
        .code(1)
        .says(&["not defined"]);
    built
        .run(&["list", "program", "/(/"])
        .code(2)
        .says(&["unclosed group"]);
    built
        .run(&["list", "nonsense"])
        .code(2)
        .says(&["cannot read nonsense"]);
}

#[test]
fn a_process_is_listed_with_its_libraries() {
    let built = shop();
    let mut child = Command::new(&built.program)
        .arg("wait")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("it runs");
    // Its libraries are loaded once it has been in `main`.
    let id = child.id().to_string();
    let maps = format!("/proc/{id}/maps");
    while !std::fs::read_to_string(&maps)
        .expect("it runs")
        .contains("libc.so.6")
    {
        std::thread::yield_now();
    }
    let found = built
        .run(&["list", &id, "libc:getenv", "--json"])
        .code(0)
        .json();
    assert_eq!(found[0]["name"], "getenv");
    assert!(
        found[0]["module"]
            .as_str()
            .expect("a path")
            .contains("libc.so.6")
    );
    let own = built.run(&["list", &id, "cartel", "--json"]).code(0).json();
    let address = own[0]["address"].as_str().expect("an address").to_owned();
    let address = u64::from_str_radix(address.trim_start_matches("0x"), 16).expect("hexadecimal");
    let maps = std::fs::read_to_string(&maps).expect("it runs");
    let mapped = maps
        .lines()
        .filter(|line| line.ends_with("/program"))
        .any(|line| {
            let (start, end) = line
                .split(' ')
                .next()
                .and_then(|range| range.split_once('-'))
                .expect("a range");
            let number = |text| u64::from_str_radix(text, 16).expect("hexadecimal");
            (number(start)..number(end)).contains(&address)
        });
    assert!(mapped, "{address:#x}\n{maps}");
    drop(child.stdin.take());
    child.wait().expect("it ends");
}

fn recorded(built: &Built, specification: &str, more: &[&str]) -> Ran {
    let mut arguments = vec!["record", "-t", specification, "-o", "out.tf"];
    arguments.extend(more);
    arguments.extend(["--", "./program"]);
    built.run(&arguments)
}

#[test]
fn patterns_and_modules_are_recorded() {
    let built = shop();
    recorded(&built, "Cart::*", &[]).code(0);
    let functions: Vec<String> = (built.frames().iter())
        .map(|frame| frame["function"].as_str().expect("a name").to_owned())
        .collect();
    assert_eq!(
        functions,
        ["shop::Cart::add", "shop::Cart::add", "shop::Cart::total"]
    );
    recorded(&built, "/^(cartel|main)$/ : argc", &[]).code(0);
    assert_eq!(built.frames().len(), 2);
    recorded(
        &built,
        "add(std::string const&, int) if price == 4 : price",
        &[],
    )
    .code(0);
    assert_eq!(built.frames().len(), 1);
    recorded(&built, "libc.so.6:/^(putchar|printf|vprintf)$/", &[]).code(0);
    assert!(!built.frames().is_empty());
    // The file has the user's words, and an address where GDB looks for a place.
    let info = built.info();
    assert_eq!(
        info["tracepoints"][0]["source"]["at"],
        "libc.so.6:/^(putchar|printf|vprintf)$/"
    );
    let file = std::fs::read(built.path("out.tf")).expect("read");
    let address: Vec<u8> = b"*0x"
        .iter()
        .flat_map(|byte| format!("{byte:02x}").into_bytes())
        .collect();
    assert!(file.windows(address.len()).any(|bytes| bytes == address));
    recorded(&built, "nolib.so:main", &[])
        .code(2)
        .says(&["no source file or module named nolib.so"]);
}

/// A pattern of more than 1000 places.
#[test]
fn very_many_places_are_asked_about() {
    let folder = tempfile::tempdir().expect("a folder");
    let built = Built::at(folder);
    let functions: String = (0..1100)
        .map(|number| format!("int many_{number}(void) {{ return {number}; }}\n"))
        .collect();
    built.compile(
        "program",
        &format!("{functions}int main(void) {{ return many_7() - 7; }}\n"),
        &[],
    );
    recorded(&built, "many_*", &[])
        .code(2)
        .says(&["many_* is at 1100 places", "--yes"]);
    assert!(!built.path("out.tf").exists());
    recorded(&built, "many_*", &["--yes"]).code(0);
    assert_eq!(built.frames().len(), 1);
    std::fs::remove_file(built.path("out.tf")).expect("removed");
    // Names that are no patterns are not asked about.
    for (answer, expected) in [("n\n", false), ("y\n", true)] {
        let program = env!("CARGO_BIN_EXE_tracewire");
        let command = format!("'{program}' record -t 'many_*' -o out.tf -- ./program");
        let mut terminal = Command::new("script")
            .args(["-qec", &command, "/dev/null"])
            .current_dir(built.path("."))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("script runs");
        let mut output = terminal.stdout.take().expect("a pipe");
        let mut said = Vec::new();
        let mut byte = [0];
        while !said.ends_with(b"[y/N] ") {
            let text = String::from_utf8_lossy(&said).into_owned();
            assert_eq!(output.read(&mut byte).expect("read"), 1, "{text}");
            said.push(byte[0]);
        }
        let mut input = terminal.stdin.take().expect("a pipe");
        input.write_all(answer.as_bytes()).expect("written");
        let mut rest = String::new();
        output.read_to_string(&mut rest).expect("text");
        let ended = terminal.wait().expect("ends");
        assert_eq!(ended.success(), expected, "{rest}");
        assert_eq!(built.path("out.tf").exists(), expected, "{rest}");
    }
}

/// The completions of bash at TAB: the words that its function returns.
fn completed(folder: &Path, line: &str, word: &str) -> Vec<String> {
    let program = Path::new(env!("CARGO_BIN_EXE_tracewire"));
    let script = "PATH=$3:$PATH; source <(tracewire completions bash); COMP_LINE=$1 COMP_POINT=${#1} COMP_WORDS=($1) \
                  COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _tracewire_names tracewire \"$2\" ''; \
                  printf '%s\\n' \"${COMPREPLY[@]}\"";
    let output = Command::new("bash")
        .args(["-c", script, "bash", line, word])
        .arg(program.parent().expect("its folder"))
        .current_dir(folder)
        .output()
        .expect("bash runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines()
        .filter(|line| !line.is_empty())
        .map(str::to_owned)
        .collect()
}

#[test]
fn bash_completes_names_of_the_program() {
    if !have(&["bash"]) {
        return;
    }
    let built = shop();
    let folder = built.folder.path();
    assert_eq!(
        completed(folder, "tracewire list ./program shop::Cart::t", "t"),
        ["total\\(int\\)"]
    );
    assert_eq!(
        completed(folder, "tracewire list ./program 'Cart::to", "'Cart::to"),
        ["Cart::total(int)"]
    );
    assert_eq!(
        completed(folder, "tracewire list ./program prog", "prog"),
        ["program.cpp:"]
    );
    // All else is the script's.
    let options = completed(folder, "tracewire record --keep", "--keep");
    assert_eq!(options, ["--keep-going"]);
}

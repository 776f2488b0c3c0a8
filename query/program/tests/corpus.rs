//! Generated programs of many types: what `show --json` has of their runs is in every format, and a dataset gives back the rows of the trace file.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use fastrand::Rng;
use tracewire_test_support::{Cc, python_with, setting};

const QUERY: &str = env!("CARGO_BIN_EXE_tracewire-query");

/// How many runs; `cargo xtask torture formats` has 200.
fn runs() -> u64 {
    setting("TRACEWIRE_CORPUS_RUNS", 4)
}

/// Types without parts, and values for them in the loop of `i`.
const SCALARS: [(&str, &[&str]); 17] = [
    ("signed char", &["i - 128", "'a' + i", "-1"]),
    ("unsigned char", &["255 - i", "'\\n'", "i"]),
    ("short", &["-32768 + i", "i"]),
    ("unsigned short", &["65535 - i", "i * 1000"]),
    ("int", &["-2147483647 - 1 + i", "i * i - 7", "0"]),
    ("unsigned int", &["4294967295u - i", "i"]),
    (
        "long",
        &["-9223372036854775807L - 1 + i", "i * 1234567890123L"],
    ),
    ("uint64_t", &["18446744073709551615ul - i", "i"]),
    ("wide", &["-((wide)1 << 100) - i", "(wide)i << 64"]),
    (
        "unsigned_wide",
        &["~(unsigned_wide)0 - i", "(unsigned_wide)i << 90"],
    ),
    ("float", &["0.1f * i", "NAN", "-INFINITY", "1e-40f"]),
    (
        "double",
        &["i / 3.0", "NAN", "INFINITY", "-0.0", "1e300 * i"],
    ),
    ("long double", &["i / 3.0L", "1e4000L"]),
    ("bool", &["i % 2 == 0", "true"]),
    (
        "enum color",
        &["(enum color)(i % 3)", "(enum color)77", "BLUE"],
    ),
    ("const char *", &["texts[i % 7]", "texts[(i + 3) % 7]"]),
    ("int *", &["&numbers[i % 4]", "0"]),
];

/// Members with parts: their declarations and statements that fill them.
const MEMBERS: [(&str, &str); 6] = [
    ("char NAME[8]", "snprintf(p->NAME, 8, \"n%d\\\"\", i);"),
    ("int NAME[3]", "p->NAME[i % 3] = i;"),
    ("double NAME[2][2]", "p->NAME[i % 2][1] = i * 0.25;"),
    ("unsigned NAME : 3", "p->NAME = i % 8;"),
    ("int NAME : 5", "p->NAME = i % 32 - 16;"),
    (
        "union { int number; float real; } NAME",
        "p->NAME.number = i << 20;",
    ),
];

/// Members of C++.
const CONTAINERS: [(&str, &str); 6] = [
    (
        "std::string NAME",
        "p->NAME = texts[i % 5] ? texts[i % 5] : \"\";",
    ),
    ("std::vector<int> NAME", "p->NAME.push_back(i);"),
    (
        "std::vector<std::string> NAME",
        "p->NAME.push_back(\"v\" + std::to_string(i));",
    ),
    (
        "std::map<std::string, long> NAME",
        "p->NAME[\"k\" + std::to_string(i % 3)] = i;",
    ),
    (
        "std::optional<double> NAME",
        "if (i % 2) p->NAME = i * 0.5; else p->NAME.reset();",
    ),
    (
        "std::unique_ptr<inner> NAME",
        "if (i % 3) p->NAME.reset(new inner{i, {1.5, 2.5}});",
    ),
];

const BEGINNING: &str = r#"
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
typedef __int128 wide;
typedef unsigned __int128 unsigned_wide;
enum color { RED, GREEN, BLUE };
struct inner { int id; double pair[2]; };
static int numbers[4] = {1, 2, 3, 4};
static const char *texts[] = {"plain", "gr\303\274n \342\202\254", "a \"quote\", a comma\n", "bad \377 byte", 0, "", (const char *)16};
"#;

const CONTAINERS_BEGINNING: &str = "
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>
";

/// A program, and the tracepoints of its run with the expressions that they collect.
struct Generated {
    is_cpp: bool,
    option: &'static str,
    source: String,
    tracepoints: Vec<String>,
    expressions: Vec<String>,
}

fn generate(seed: u64) -> Generated {
    let mut random = Rng::with_seed(seed);
    let is_cpp = seed % 2 == 1;
    let mut source = BEGINNING.to_owned();
    if is_cpp {
        source.insert_str(0, CONTAINERS_BEGINNING);
    }
    let (mut calls, mut tracepoints) = (String::new(), Vec::new());
    let mut expressions: Vec<String> = Vec::new();
    for function in 0..2 + random.usize(..2) {
        let (mut members, mut fill) = (String::new(), String::new());
        let mut collected = vec!["*p".to_owned()];
        for member in 0..2 + random.usize(..4) {
            let name = format!("m{member}");
            let (declaration, statement) = match random.usize(..3) {
                0 if is_cpp => random.choice(CONTAINERS).expect("one"),
                1 => random.choice(MEMBERS).expect("one"),
                _ => {
                    let (kind, values) = random.choice(SCALARS).expect("one");
                    let value = random.choice(values).copied().expect("one");
                    collected.push(format!("p->{name}"));
                    writeln!(members, "    {kind} {name};").expect("written");
                    writeln!(fill, "        p->{name} = {value};").expect("written");
                    continue;
                }
            };
            writeln!(members, "    {};", declaration.replace("NAME", &name)).expect("written");
            writeln!(fill, "        {}", statement.replace("NAME", &name)).expect("written");
        }
        writeln!(members, "    struct inner nested;").expect("written");
        writeln!(
            fill,
            "        p->nested.id = i; p->nested.pair[1] = i * 1.5;"
        )
        .expect("written");
        let (first, first_values) = random.choice(SCALARS).expect("one");
        let (second, second_values) = random.choice(SCALARS).expect("one");
        let (returned, returned_values) = random.choice(SCALARS).expect("one");
        let value = random.choice(returned_values).copied().expect("one");
        write!(
            source,
            "struct s{function} {{\n{members}}};\nstatic struct s{function} v{function};\n\
             __attribute__((noinline)) {returned} work{function}(struct s{function} *p, int i, {first} a, {second} b) {{\n    \
             __asm__ volatile(\"\" : : \"r\"(p) : \"memory\");\n    return {value};\n}}\n"
        )
        .expect("written");
        let (a, b) = (
            random.choice(first_values).copied().expect("one"),
            random.choice(second_values).copied().expect("one"),
        );
        write!(
            calls,
            "    for (int i = 0; i < 9; i++) {{\n        struct s{function} *p = &v{function};\n{fill}        \
             work{function}(p, i, {a}, {b});\n    }}\n"
        )
        .expect("written");
        collected.extend(["p->nested.pair", "i", "a", "b", "i * 2 - 1"].map(str::to_owned));
        let (kind, more) = random
            .choice([
                ("", ""),
                ("", " if i % 2 == 1"),
                ("span ", ""),
                ("span ", " if i > 2"),
            ])
            .expect("one");
        expressions.extend(collected.iter().cloned());
        if kind == "span " {
            collected.extend(["$retval", "$duration"].map(str::to_owned));
        } else if random.usize(..2) == 0 {
            tracepoints.push(format!("return work{function} : $retval"));
        }
        let list = collected.join(", ");
        tracepoints.push(format!("{kind}work{function}{more} : {list}"));
    }
    writeln!(source, "int main(void) {{\n{calls}    return 0;\n}}").expect("written");
    expressions.sort();
    expressions.dedup();
    Generated {
        is_cpp,
        option: random.choice(["-O0", "-O1", "-O2"]).expect("one"),
        source,
        tracepoints,
        expressions,
    }
}

#[track_caller]
fn done(command: &mut Command) -> Vec<u8> {
    let output = command.output().expect("the program runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    output.stdout
}

fn tracewire(directory: &Path) -> Command {
    let program = Path::new(QUERY).with_file_name("tracewire");
    assert!(
        program.exists(),
        "{} is missing: build it with `cargo build -p tracewire-cli`",
        program.display()
    );
    let mut command = Command::new(program);
    command
        .current_dir(directory)
        .env("XDG_CONFIG_HOME", directory);
    command
}

fn query(directory: &Path) -> Command {
    let mut command = Command::new(QUERY);
    command
        .current_dir(directory)
        .env("XDG_CONFIG_HOME", directory);
    command
}

/// Records a run, and writes it in every format.
fn write_run(directory: &Path, generated: &Generated) {
    let compiler = match generated.is_cpp {
        true => Cc::cpp().options(&["-std=c++17", "-w"]),
        false => Cc::new().options(&["-w"]),
    };
    let kind = if generated.is_cpp { "cpp" } else { "c" };
    let program = compiler
        .options(&["-g", generated.option])
        .text_as(kind, &generated.source)
        .build(directory, "program");
    let mut record = tracewire(directory);
    record.args(["record", "-o", "run.tf"]);
    for tracepoint in &generated.tracepoints {
        record.args(["-t", tracepoint]);
    }
    done(record.arg("--").arg(program));
    let shown = done(tracewire(directory).args(["show", "--json", "run.tf"]));
    fs::write(directory.join("shown.json"), shown).expect("written");
    for out in [
        "out.perfetto-trace",
        "out.otlp.json",
        "out.chrome.json",
        "out.jsonl",
    ] {
        done(tracewire(directory).args(["convert", "run.tf", out]));
    }
    done(tracewire(directory).args(["convert", "out.jsonl", "again.tf"]));
    let file = |name: &str| fs::read(directory.join(name)).expect("read");
    assert!(
        file("run.tf") == file("again.tf"),
        "JSON lines lose something"
    );
    let mut csv = tracewire(directory);
    csv.args(["convert", "run.tf", "out.csv", "--column", "frame"]);
    for expression in &generated.expressions {
        csv.args(["--column", expression]);
    }
    done(&mut csv);

    done(query(directory).args(["dataset", "add", "--run", "run", "run.tf", "traces"]));
    fs::create_dir(directory.join("rows")).expect("a directory");
    let tables = fs::read_dir(directory.join("traces/batch=run"))
        .expect("hosts")
        .flatten()
        .flat_map(|host| fs::read_dir(host.path()).expect("days").flatten())
        .flat_map(|day| fs::read_dir(day.path()).expect("tables").flatten());
    for table in tables {
        let name = table.file_name().to_string_lossy().replace("table=", "");
        let to = format!("rows/{name}.parquet");
        let mut rows = query(directory);
        rows.args([
            "query",
            "run.tf",
            "-o",
            &to,
            &format!("select * from \"{name}\""),
        ]);
        // Without rows the status is 1, and the file has the columns.
        let output = rows.output().expect("tracewire-query runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() < Some(2), "{name}: {said}");
    }
}

#[test]
fn every_value_is_in_every_format() {
    let packages = [
        "duckdb==2.0.0",
        "perfetto==0.59.1",
        "opentelemetry-proto==1.45.2",
        "protobuf==7.36.2",
        "jsonschema==4.26.0",
    ];
    let python = python_with(
        &Path::new(env!("CARGO_TARGET_TMPDIR")).join("formats-1"),
        &packages,
    );
    let temporary = tempfile::tempdir().expect("a directory");
    let mut directories: Vec<PathBuf> = Vec::new();
    for seed in 0..runs() {
        let directory = temporary.path().join(format!("run-{seed:03}"));
        fs::create_dir(&directory).expect("a directory");
        let generated = generate(seed);
        fs::write(
            directory.join("tracepoints"),
            generated.tracepoints.join("\n"),
        )
        .expect("written");
        write_run(&directory, &generated);
        directories.push(directory);
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let compared = Command::new(python)
        .arg(root.join("query/test/formats.py"))
        .arg(root.join("crates/cli/tests/convert"))
        .args(&directories)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .expect("python runs");
    let said = String::from_utf8_lossy(&[compared.stdout, compared.stderr].concat()).into_owned();
    if !compared.status.success() {
        let kept = temporary.keep();
        panic!("{}: {said}", kept.display());
    }
    eprint!("{said}");
}

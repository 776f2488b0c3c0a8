//! Runs in the formats of other tools, read by the published readers of these: they have the contents of `show --json`.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;

use serde_json::Value;
use tracewire_test_support::{Cc, python_with, sample};

/// The packages of Python that have the published descriptors of the formats.
const PACKAGES: [&str; 3] = [
    "perfetto==0.59.1",
    "opentelemetry-proto==1.45.2",
    "protobuf==7.36.2",
];

/// The recorded data of the shop: spans, hits with stacks and counts, returns; strings that are not UTF-8, NaN, integers of 128
/// bits, unreadable and redacted values.
const SHOP: [&str; 3] = [
    "span serve : order, $duration, $retval",
    "charge : order, order.note, /s order.note, *order.note, order.kind, token, large, order.items.size(), $stack, count() by order.kind, \
     hist(order.id)",
    "return charge : $retval, line",
];

/// A Python with the packages, made the first time.
fn python() -> &'static Path {
    static PYTHON: LazyLock<PathBuf> = LazyLock::new(|| {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("perfetto-0.59.1");
        python_with(&directory, &PACKAGES)
    });
    &PYTHON
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/convert")
        .join(name)
}

/// A folder with runs.
struct Runs(tempfile::TempDir);

impl Runs {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn shop() -> Self {
        let runs = Self::new();
        let source = script("../report/shop.cpp");
        fs::copy(source, runs.path().join("shop.cpp")).expect("copied");
        Cc::of("g++")
            .options(&["-g", "-O1"])
            .source(runs.path().join("shop.cpp"))
            .build(runs.path(), "shop");
        runs
    }

    fn tracewire(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_tracewire"))
            .args(arguments)
            .current_dir(self.path())
            // Without type rules of the user who runs the tests.
            .env("XDG_CONFIG_HOME", self.path())
            .stdin(Stdio::null())
            .output()
            .expect("tracewire runs")
    }

    #[track_caller]
    fn done(&self, arguments: &[&str]) -> String {
        let output = self.tracewire(arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {said}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn record(&self, options: &[&str], specifications: &[&str], program: &[&str]) {
        let mut arguments = vec!["record"];
        arguments.extend(options);
        for specification in specifications {
            arguments.extend(["-t", specification]);
        }
        arguments.push("--");
        arguments.extend(program);
        self.done(&arguments);
    }

    /// Writes what `show --json` has of a run.
    fn show(&self, run: &str) {
        let shown = self.done(&["show", "--json", run]);
        fs::write(self.path().join("shown.json"), shown).expect("written");
    }

    /// Runs a script that reads a file and compares it with the output of `show`. Returns its last output.
    #[track_caller]
    fn read(&self, python: &Path, name: &str, files: &[&str]) -> String {
        let output = Command::new(python)
            .arg(script(name))
            .args(files)
            .current_dir(self.path())
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .output()
            .expect("python runs");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            output.status.success(),
            "{name}: {said}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        said
    }

    /// Compares a run in every format with typed values with the output of `show`. Returns each reader's output.
    #[track_caller]
    fn compare(&self, run: &str) -> [String; 3] {
        self.show(run);
        self.done(&["convert", run, "out.perfetto-trace"]);
        self.done(&["convert", run, "out.otlp.json"]);
        self.done(&["convert", run, "out.chrome.json"]);
        let schema = script("chrome.schema.json").display().to_string();
        [
            self.read(
                python(),
                "read_perfetto.py",
                &["out.perfetto-trace", "shown.json"],
            ),
            self.read(python(), "read_otlp.py", &["out.otlp.json", "shown.json"]),
            self.read(
                // This one has the Debian package python3-jsonschema.
                Path::new("/usr/bin/python3"),
                "read_chrome.py",
                &[&schema, "out.chrome.json", "shown.json"],
            ),
        ]
    }
}

#[test]
fn spans_hits_stacks_and_counts_are_in_every_format() {
    let runs = Runs::shop();
    runs.record(&["-o", "run.tf"], &SHOP, &["./shop"]);
    let [perfetto, otlp, chrome] = runs.compare("run.tf");
    assert!(
        perfetto.contains("0 errors, 120 slices") && perfetto.contains("40 stacks"),
        "{perfetto}"
    );
    assert!(
        otlp.contains("80 spans, 40 logs, 3 metrics, 472 values"),
        "{otlp}"
    );
    assert!(chrome.contains("120 events, 472 values"), "{chrome}");

    // Equal values of an expression connect hits.
    runs.done(&[
        "convert",
        "run.tf",
        "out.perfetto-trace",
        "--flow",
        "order.kind",
    ]);
    let flows = runs.read(
        python(),
        "read_perfetto.py",
        &["out.perfetto-trace", "shown.json"],
    );
    assert!(flows.contains("37 flows"), "{flows}");

    // As `show --folded` has them.
    runs.done(&["convert", "run.tf", "out.folded"]);
    let folded = fs::read_to_string(runs.path().join("out.folded")).expect("written");
    assert_eq!(folded, runs.done(&["show", "--folded", "run.tf"]));
    assert!(folded.ends_with("main;serve;charge 40\n"), "{folded}");

    runs.done(&["convert", "run.tf", "out.firefox.json"]);
    let profile = fs::read(runs.path().join("out.firefox.json")).expect("written");
    assert_profile(&serde_json::from_slice(&profile).expect("JSON"));
}

/// Every hit with a stack is a sample, whose functions are those on the stack, and every hit and span is a marker.
fn assert_profile(profile: &Value) {
    let thread = &profile["threads"][0];
    let strings = thread["stringArray"].as_array().expect("strings");
    let samples = &thread["samples"];
    assert_eq!(samples["length"], 40);
    assert_eq!(thread["markers"]["length"], 120);
    let mut functions = Vec::new();
    let mut at = samples["stack"][0].as_u64();
    while let Some(stack) = at {
        let frame = thread["stackTable"]["frame"][stack as usize].as_u64();
        let function = &thread["frameTable"]["func"][frame.expect("a frame") as usize];
        let name = &thread["funcTable"]["name"][function.as_u64().expect("a function") as usize];
        functions.push(strings[name.as_u64().expect("a name") as usize].clone());
        at = thread["stackTable"]["prefix"][stack as usize].as_u64();
    }
    assert_eq!(functions, ["charge", "serve", "main"]);
    let data = &thread["markers"]["data"][0];
    assert_eq!(data["type"], "tracewire");
    let values = match &data["values"] {
        Value::String(text) => text.clone(),
        index => strings[index.as_u64().expect("a string") as usize]
            .as_str()
            .expect("text")
            .to_owned(),
    };
    assert!(values.starts_with("order = {id = 0, "), "{values}");
}

#[test]
fn processes_of_a_run_are_processes() {
    let runs = Runs::shop();
    runs.record(
        &["--follow-forks", "-o", "run"],
        &[
            "span serve : order, $duration, $retval",
            "charge : order, $stack",
        ],
        &["./shop", "20", "2"],
    );
    let [perfetto, otlp, _] = runs.compare("run");
    assert!(
        perfetto.contains("0 errors, 120 slices") && perfetto.contains("3 processes"),
        "{perfetto}"
    );
    assert!(otlp.contains("3 services"), "{otlp}");
    runs.done(&["convert", "run", "out.folded"]);
    let folded = fs::read_to_string(runs.path().join("out.folded")).expect("written");
    assert_eq!(folded, "shop;main;serve;charge 60\n");
}

#[test]
fn values_of_each_language_keep_their_types() {
    let programs: [(&str, &str, &[&str], &str, &str); 3] = [
        ("gcc", "values.c", &["-g"], "/^see_/ : value", "144 values"),
        (
            "g++",
            "values.cpp",
            &["-g", "-std=c++20"],
            "see_at : value",
            "351 values",
        ),
        (
            "rustc",
            "values.rs",
            &["-g"],
            "see_at : value",
            "468 values",
        ),
    ];
    for (compiler, source, options, specification, count) in programs {
        let runs = Runs::new();
        let built = Command::new(compiler)
            .args(options)
            .args(["-o", "program"])
            .arg(script("../values").join(source))
            .current_dir(runs.path())
            .output()
            .unwrap_or_else(|error| panic!("{compiler}: {error}"));
        let said = String::from_utf8_lossy(&built.stderr);
        assert!(built.status.success(), "{compiler}: {said}");
        runs.record(&["-o", "run.tf"], &[specification], &["./program"]);
        for said in runs.compare("run.tf") {
            assert!(said.contains(count), "{said}");
        }
    }
}

#[test]
fn calls_that_are_left_in_every_way_are_slices() {
    let runs = Runs::new();
    let source = script("../spans/programs");
    Cc::of("g++")
        .options(&["-g", "-O1", "-pthread"])
        .source(source.join("calls.cpp"))
        .build(runs.path(), "calls");
    runs.record(
        &["-o", "run.tf"],
        &["span /(^|::)t_[a-z]+$/ : n, $retval, $duration"],
        &["./calls"],
    );
    runs.compare("run.tf");
}

#[test]
fn a_file_of_gdb_without_its_program_has_registers_and_memory() {
    let runs = Runs::new();
    let file = sample("sample.tf").display().to_string();
    runs.done(&["convert", &file, "out.chrome.json"]);
    let schema = script("chrome.schema.json").display().to_string();
    let python = Path::new("/usr/bin/python3");
    runs.read(python, "read_chrome.py", &[&schema, "out.chrome.json"]);
    let trace = fs::read(runs.path().join("out.chrome.json")).expect("written");
    let trace: Value = serde_json::from_slice(&trace).expect("JSON");
    let events = trace["traceEvents"].as_array().expect("events");
    let hits: Vec<&Value> = events.iter().filter(|event| event["ph"] == "i").collect();
    assert_eq!(hits.len(), 24);
    assert_eq!(hits[0]["args"]["registers"]["rip"], "0x555555555158");
    assert_eq!(hits[0]["args"]["variables"]["hits"], 1);
    assert_eq!(hits[1]["cat"], "step");
    assert_eq!(hits[6]["name"], "sample.c:14");
    let origin: u64 = trace["otherData"]["time_origin_ns"]
        .as_str()
        .and_then(|text| text.parse().ok())
        .expect("a time");
    let since = hits[6]["ts"].as_f64().expect("a number");
    assert_eq!(origin + (since * 1e3) as u64, 1_465_540_656_000);
    assert_eq!(trace["otherData"]["notes"], "first run");
}

#[test]
fn a_collector_gets_what_a_file_has() {
    let runs = Runs::shop();
    runs.record(&["-o", "run.tf"], &SHOP, &["./shop"]);
    runs.show("run.tf");
    let with_collector = |arguments: &[&str]| {
        let mut collector = Command::new(python())
            .arg(script("collector.py"))
            .args(arguments)
            .current_dir(runs.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python runs");
        let mut port = String::new();
        let mut output = BufReader::new(collector.stdout.take().expect("a pipe"));
        output.read_line(&mut port).expect("a port");
        let sent = runs.tracewire(&[
            "convert",
            "run.tf",
            &format!("http://127.0.0.1:{}", port.trim()),
        ]);
        // Its input ends, and so does it.
        drop(collector.stdin.take());
        collector.wait().expect("it ends");
        sent
    };
    let sent = with_collector(&["sent.json"]);
    let said = String::from_utf8_lossy(&sent.stderr);
    assert!(sent.status.success(), "{said}");
    assert!(
        said.contains("80 spans, 40 log records and 3 metrics sent to http://127.0.0.1:"),
        "{said}"
    );
    runs.read(python(), "read_otlp.py", &["sent.json", "shown.json"]);
    runs.done(&["convert", "run.tf", "out.otlp.json"]);
    let read = |name: &str| fs::read(runs.path().join(name)).expect("written");
    assert!(read("sent.json") == read("out.otlp.json"));

    let sent = with_collector(&["sent.json", "reject"]);
    assert_eq!(sent.status.code(), Some(1));
    let said = String::from_utf8_lossy(&sent.stderr);
    assert!(said.contains("1 rejected: too old"), "{said}");
}

#[test]
fn what_cannot_be_is_refused() {
    let runs = Runs::new();
    let file = sample("sample.tf").display().to_string();
    for (arguments, word) in [
        (&["out.folded"][..], "no frame has a stack"),
        (&["https://localhost:4318"], "https is not built in"),
        (
            &["http://"],
            "expected an address such as http://127.0.0.1:4318",
        ),
        (
            &["http://127.0.0.1:1"],
            "cannot send to http://127.0.0.1:1/v1/logs",
        ),
        (
            &["http://127.0.0.1:1", "--to", "perfetto"],
            "is an endpoint, which takes otlp",
        ),
        (
            &["http://127.0.0.1:1", "--split-by", "thread"],
            "makes several files",
        ),
        (
            &["out.chrome.json", "--flow", "x"],
            "--flow is for perfetto",
        ),
    ] {
        let output = runs.tracewire(&[&["convert", file.as_str()], arguments].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(word), "{arguments:?}: {said}");
    }
    let left = fs::read_dir(runs.path()).expect("a folder").count();
    assert_eq!(left, 0);
}

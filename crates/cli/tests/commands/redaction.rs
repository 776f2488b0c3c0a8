//! Redaction by names.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use tracewire_test_support::Gdb;

use crate::support::{Built, ran, tracewire, value};

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/secrets.cpp");

/// Ways to name the secret: all of them are shown as redacted.
const WAYS: &[&str] = &[
    "password",
    "*password",
    "password[3]",
    "*password@24",
    "(long) password",
    "token",
    "token + 1",
    "(char) token",
    "creds",
    "creds.text",
    "other",
    "&other",
    "authToken",
    "authToken.size()",
    "passwd",
    "passwd[5]",
    "&passwd",
    "(char *) passwd + 1",
    "*(unsigned long *) &token",
    "plain",
    "apiKey",
    "user->password",
    "user->password[1]",
    "&user->password",
    "*(char (*)[64]) user",
    "((unsigned long *) user)[1]",
    "user->token",
    "user[0].api_key",
    "copy.password",
    "array[1].token",
    "both[0].password",
    "outer.inner.password",
    "derived.text",
    "Holder::cookie",
    "holder.cookie",
    "mixed.token",
    "mixed.plain",
    "mixed",
    "bits.passcode",
    "creds_of[0]",
    "creds_of[0].text",
    "users[1].password",
    "owned->token",
    "by_id[1].password",
    "cookie",
    "*cookie",
    "pair.second",
    "g_password",
    "ns::client_secret",
    "kept_secret",
    "id ? password : apiKey",
    "(id, passwd)",
];

/// The output for values that have the secret as a part.
const USER: &str =
    "{id = 1, password = <redacted>, age = 41, token = <redacted>, api_key = <redacted>}";

const AROUND: &[(&str, &str)] = &[
    ("id", "100"),
    ("*user", "U"),
    ("copy", "U"),
    ("copy.age", "41"),
    ("array", "[U, U]"),
    ("both", "{U, U}"),
    ("both[1]", "U"),
    ("*user@1", "{U}"),
    ("outer", "{before = 1, inner = U, after = 3}"),
    (
        "derived",
        "{<Credentials> = {text = <redacted>}, extra = 9}",
    ),
    ("holder", "{held = 7, static cookie = <redacted>}"),
    ("bits", "{low = 5, passcode = <redacted>}"),
    ("bits.low", "5"),
    ("creds_of", "[<redacted>, <redacted>]"),
    ("users", "[U, U]"),
    ("users[1].age", "41"),
    ("queue", "[U]"),
    ("chain", "[U]"),
    ("by_id", "{1: U}"),
    ("*owned", "U"),
    ("pair", "(1, <redacted>)"),
    ("tuple", "(2, U)"),
    ("names", "[\"ann\", \"bob\"]"),
];

/// The bytes of the secret, as the program makes them.
fn secret() -> Vec<u8> {
    (0..24).map(|place| b'A' + (place * 7 + 5) % 26).collect()
}

/// Whether six bytes of the secret that follow each other are in others, forwards or backwards, as they are or as hexadecimal digits.
fn has_secret(bytes: &[u8]) -> bool {
    let secret = secret();
    let backwards: Vec<u8> = secret.iter().rev().copied().collect();
    let hex = |bytes: &[u8]| -> String { bytes.iter().map(|byte| format!("{byte:02x}")).collect() };
    let mut parts = HashSet::new();
    for part in secret.windows(6).chain(backwards.windows(6)) {
        parts.insert(part.to_vec());
        parts.insert(hex(part).into_bytes());
    }
    let pair = |part: &[u8]| usize::from(part[0]) << 8 | usize::from(part[1]);
    // What most of the bytes are told by, of which there may be a hundred million.
    let mut begins = vec![false; 1 << 16];
    for part in &parts {
        begins[pair(part)] = true;
    }
    bytes
        .windows(12)
        .any(|part| begins[pair(part)] && (parts.contains(&part[..6]) || parts.contains(part)))
        || (bytes.len().saturating_sub(11)..bytes.len().saturating_sub(5))
            .any(|at| parts.contains(&bytes[at..at + 6]))
}

fn assert_no_secret(bytes: &[u8], what: &str) {
    assert!(!bytes.is_empty(), "{what} is empty");
    assert!(!has_secret(bytes), "the secret is in {what}");
}

fn built(level: &str) -> Built {
    let built = Built::at(tempfile::tempdir().expect("a folder"));
    let status = Command::new("c++")
        .args(["-std=c++17", "-g", level, SOURCE, "-o"])
        .arg(&built.program)
        .status()
        .expect("c++ runs");
    assert!(status.success());
    built
}

/// The line at which all variables are initialized.
fn line() -> usize {
    let source = std::fs::read_to_string(SOURCE).expect("the source");
    let place = source
        .lines()
        .position(|line| line.contains("int sum = number"));
    place.expect("the line") + 1
}

/// The pages of a process that are not all zeros, of the mappings whose line in `/proc/PID/maps` is chosen.
fn memory_of(process: u32, is_chosen: impl Fn(&str) -> bool) -> Vec<u8> {
    let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).expect("its maps");
    let memory = std::fs::File::open(format!("/proc/{process}/mem")).expect("its memory");
    let mut bytes = Vec::new();
    for map in maps.lines().filter(|map| is_chosen(map)) {
        let (start, rest) = map.split_once('-').expect("a range");
        let end = rest.split_whitespace().next().expect("its end");
        let number = |text| u64::from_str_radix(text, 16).expect("a number");
        let (start, end) = (number(start), number(end));
        let mut piece = vec![0; (end - start) as usize];
        use std::os::unix::fs::FileExt;
        if memory.read_exact_at(&mut piece, start).is_ok() {
            // Most of it was never written.
            let written = piece
                .chunks(4096)
                .filter(|page| page.iter().any(|byte| *byte != 0));
            written.for_each(|page| bytes.extend(page));
        }
    }
    bytes
}

/// The memory of a process that it shares with the tracer.
fn rings(process: u32) -> Vec<u8> {
    memory_of(process, |map| map.contains("memfd:tracewire"))
}

/// The memory that a process can write, without the rings.
fn written_memory(process: u32) -> Vec<u8> {
    memory_of(process, |map| {
        map.contains(" rw") && !map.contains("memfd:tracewire")
    })
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths
        .filter(|path| {
            path.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("out"))
        })
        .collect()
}

/// Records with the list, reads everything while the program still runs, and returns the output of `show`. Each list is that of a
/// tracepoint.
fn recorded(built: &Built, options: &[&str], lists: &[String]) -> Vec<Value> {
    let line = line();
    let specifications = lists
        .iter()
        .map(|list| format!("-tsecrets.cpp:{line} : {list}"));
    let mut child = tracewire()
        .current_dir(built.folder.path())
        .args(["record", "--live", "--json", "-o", "out.tf"])
        .args(specifications)
        .args(options)
        .arg("--")
        .arg(&built.program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("tracewire runs");
    let mut output = BufReader::new(child.stdout.take().expect("its output"));
    let mut lines = String::new();
    let mut rows = 0;
    while rows < 20 * lists.len() || !lines.contains("done\n") {
        let before = lines.len();
        let count = output.read_line(&mut lines).expect("read");
        if count == 0 {
            break;
        }
        rows += usize::from(lines[before..].starts_with('{'));
    }
    let tracer = child.id();
    assert_no_secret(&written_memory(tracer), "the tracer's memory");
    let children = std::fs::read_to_string(format!("/proc/{tracer}/task/{tracer}/children"));
    for process in children.unwrap_or_default().split_whitespace() {
        let shared = rings(process.parse().expect("a process"));
        if options.is_empty() {
            assert_no_secret(&shared, "the shared memory");
        }
    }
    let spools = files(built.folder.path());
    assert!(!spools.is_empty());
    for path in &spools {
        assert_no_secret(
            &std::fs::read(path).expect("a file"),
            &path.display().to_string(),
        );
    }
    drop(child.stdin.take());
    output.read_to_string(&mut lines).expect("read");
    let done = ran(child.wait_with_output().expect("it ends")).code(0);
    assert_no_secret(lines.as_bytes(), "standard output");
    assert_no_secret(done.stderr.as_bytes(), "standard error");
    assert_no_secret(
        &std::fs::read(built.path("out.tf")).expect("a file"),
        "the trace file",
    );
    built.frames()
}

#[test]
fn no_way_to_name_a_secret_records_it() {
    let built = built("-O0");
    assert!(WAYS.len() >= 40);
    let all: Vec<&str> = (WAYS.iter().copied())
        .chain(AROUND.iter().map(|(item, _)| *item))
        .collect();
    // GDB reads lines of so many bytes.
    let mut lists: Vec<String> = all.chunks(20).map(|items| items.join(", ")).collect();
    // A string with the secret right behind its end.
    lists.push("/s nick".to_owned());
    lists.push("$regs, $stack_fp".to_owned());
    lists.push("$args, $locals, $regs, $stack, $rdi, $xmm0".to_owned());
    for options in [&[][..], &["--mechanism", "trap"]] {
        let frames = recorded(&built, options, &lists);
        assert_eq!(frames.len(), 20 * lists.len());
        let (first, _) = frames.split_at(lists.len());
        let shown = |item: &str| first.iter().find_map(|frame| value(frame, item));
        for way in WAYS {
            assert_eq!(shown(way), Some("<redacted>"), "{way}");
        }
        for (item, wanted) in AROUND {
            let wanted = wanted.replace('U', USER);
            assert_eq!(shown(item), Some(wanted.as_str()), "{item}");
        }
        let nick = shown("nick").expect("the string");
        assert!(nick.ends_with("\"ab\""), "{nick}");
        let last = first.last().expect("a frame");
        let stack = last["stack"].as_array().expect("a stack");
        assert_eq!(
            stack.get(1).map(|frame| &frame["function"]),
            Some(&"main".into())
        );
        let shown = built.run(&["show", "out.tf"]).code(0);
        assert_no_secret(shown.stdout.as_bytes(), "what show prints");
        for format in [
            "out.csv",
            "out.jsonl",
            "out.chrome.json",
            "out.perfetto-trace",
            "out.otlp.json",
            "out.firefox.json",
        ] {
            built.run(&["convert", "out.tf", format]).code(0);
            let bytes = std::fs::read(built.path(format)).expect("a file");
            assert_no_secret(&bytes, format);
        }
    }
}

#[test]
fn optimised_code_hides_no_secret_in_registers() {
    let built = built("-O2");
    for options in [&[][..], &["--mechanism", "trap"]] {
        let list = "id, $args, $locals, $regs, users, by_id, chain".to_owned();
        let frames = recorded(&built, options, &[list]);
        let first = frames.first().expect("a frame");
        assert_eq!(value(first, "password"), Some("<redacted>"));
    }
}

#[test]
fn what_would_keep_a_secret_is_refused() {
    let built = built("-O0");
    let place = format!("secrets.cpp:{}", line());
    for list in [
        "count() by token",
        "top(3, authToken)",
        "sum(user->password[0])",
        "min(token)",
    ] {
        let spec = format!("{place} : {list}");
        let refused = built.run(&["record", "-t", &spec, "-o", "out.tf", "--", "./program"]);
        refused.code(2).says(&["value is redacted"]);
    }
    let script = format!("tvariable $kept\ntrace {place}\nactions\nteval $kept = token\nend\n");
    built
        .record(&script, &[])
        .code(2)
        .says(&["value is redacted"]);
    let script = format!("tvariable $kept\ntrace {place} if ($kept = token) != 0\n");
    built
        .record(&script, &[])
        .code(2)
        .says(&["value is redacted"]);
    let spec = "span seen if token > $retval : id";
    let refused = built.run(&["record", "-t", spec, "-o", "out.tf", "--", "./program"]);
    refused.code(2).says(&["value is redacted"]);
    // A condition keeps nothing.
    let spec = format!("{place} if token != 0 && id < 103 : id");
    built
        .run(&["record", "-t", &spec, "-o", "out.tf", "--", "./program"])
        .code(0);
    assert_eq!(built.frames().len(), 3);
    assert_no_secret(
        &std::fs::read(built.path("out.tf")).expect("a file"),
        "the trace file",
    );
}

#[test]
fn patterns_are_chosen() {
    let built = built("-O0");
    let spec = format!(
        "{} : id, names, copy.age, g_password, token",
        format_args!("secrets.cpp:{}", line())
    );
    let record = |options: &[&str]| {
        let mut arguments = vec!["record", "-t", &spec, "-o", "out.tf"];
        arguments.extend(options);
        arguments.extend(["--", "./program"]);
        built.run(&arguments)
    };
    record(&["--no-default-redactions"]).code(0);
    let frame = built.frames().remove(0);
    assert!(value(&frame, "g_password").is_some_and(|value| value.contains("FMTAHO")));
    let words = [
        "--no-default-redactions",
        "--redact",
        "N?mes",
        "--redact",
        "A_G*",
    ];
    record(&words).code(0);
    let frame = built.frames().remove(0);
    assert_eq!(value(&frame, "names"), Some("<redacted>"));
    assert_eq!(value(&frame, "copy.age"), Some("<redacted>"));
    assert_eq!(value(&frame, "id"), Some("100"));
    assert!(value(&frame, "g_password").is_some_and(|value| value.contains("FMTAHO")));
    record(&["--redact", ""])
        .code(2)
        .says(&["expected a pattern"]);
    // GDB passes over the line, and reads the rest.
    record(&[]).code(0);
    let script = built.run(&["show", "out.tf", "--gdb"]).code(0);
    std::fs::write(built.path("run.gdb"), script.stdout).expect("written");
    let gdb = Gdb::new().directory(built.folder.path());
    let gdb = gdb.script(&built.path("run.gdb"));
    let said = gdb
        .commands(["tfind 0", "print id", "print token"])
        .run()
        .output;
    assert!(said.contains("$1 = 100"), "{said}");
    assert!(!has_secret(said.as_bytes()));
}

/// A register may hold a secret at one copy of a function: the others are counted.
#[test]
fn a_count_leaves_out_the_places_of_secrets() {
    let built = Built::new(
        "static inline __attribute__ ((always_inline)) int own_step (int n) { asm volatile (\"nop; nop; nop; nop; nop\"); return n; }\n\
         __attribute__ ((noipa)) int plain (int n) { return own_step (n) + 1; }\n\
         __attribute__ ((noipa)) int login (int n, const char *password) { return own_step (n) + password[0]; }\n\
         int main (void) { return plain (1) + plain (1) + login (2, \"x\") < 0; }\n",
        &["-O1"],
    );
    let spec = "own_step : count() by $rdi";
    let ran = built.run(&["record", "-t", spec, "-o", "out.tf", "--", "./program"]);
    ran.code(0).says(&[
        "tracepoint 1 is not set in own_step (",
        ": value is redacted (--no-default-redactions records",
        "hits: tracepoint 1 2\n",
    ]);
    let spec = "login : count() by $rdi";
    let ran = built.run(&["record", "-t", spec, "-o", "out.tf", "--", "./program"]);
    ran.code(2)
        .says(&["value is redacted (--no-default-redactions records"]);
}

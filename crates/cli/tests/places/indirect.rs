//! GNU indirect functions: the implementation that the program has selected is the function, however the program came to
//! it. Hits are the program's own calls.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::programs::{build, counts, hits, record};
use crate::support::tracewire;
use tracewire_test_support::assert_clean;

const FUNCTIONS: [&str; 4] = ["strlen", "memcpy", "memset", "strchr"];

/// Only the program's own calls: the C library calls these functions too.
const SPECIFICATIONS: [&str; 4] = [
    "strlen if $rdi == (unsigned long) probe_text",
    "memcpy if $rsi == (unsigned long) probe_text",
    "memset if $rdi == (unsigned long) probe_buffer",
    "strchr if $rdi == (unsigned long) probe_text",
];

fn program(directory: &Path, options: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/selected.c");
    let options = [&["-g", "-O1", "-fno-builtin"], options].concat();
    build(directory, "gcc", &options, &[&source])
}

/// The program's own counts, in the order of the functions.
fn calls(output: &str) -> Vec<u64> {
    let counted = counts(output);
    let calls: Vec<u64> = FUNCTIONS.iter().map(|name| counted[*name]).collect();
    assert!(calls.iter().all(|calls| *calls >= 7), "{output}");
    calls
}

#[track_caller]
fn launched(options: &[&str]) {
    let directory = tempfile::tempdir().unwrap();
    let program = program(directory.path(), options);
    let ran = record(&program, &SPECIFICATIONS, &[]).code(0);
    let calls = calls(&ran.stdout);
    assert_eq!(hits(directory.path()), calls, "{options:?}: {}", ran.stderr);
    ran.says(
        &FUNCTIONS
            .map(|name| format!(", selected for {name}"))
            .each_ref()
            .map(String::as_str),
    );
}

#[track_caller]
fn attached(options: &[&str]) {
    let directory = tempfile::tempdir().unwrap();
    let program = program(directory.path(), options);
    let mut traced = Command::new(&program)
        .arg("wait")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(traced.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    let mut recorder = tracewire();
    recorder
        .current_dir(directory.path())
        .args(["record", "-o", "out.tf"]);
    for specification in SPECIFICATIONS {
        recorder.args(["-t", specification]);
    }
    let mut recorder = recorder
        .args(["-p", &traced.id().to_string()])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(recorder.stderr.take().unwrap());
    let mut before = String::new();
    // Every tracepoint is inserted, or waits for the program's selection.
    let settled = |before: &str| {
        (1..=FUNCTIONS.len()).all(|number| {
            [" by ", " waits: "]
                .iter()
                .any(|word| before.contains(&format!("tracepoint {number}{word}")))
        }) && !before
            .lines()
            .last()
            .is_some_and(|last| last.contains(" at "))
    };
    while !settled(&before) {
        assert_ne!(said.read_line(&mut before).unwrap(), 0, "{before}");
    }
    traced.stdin.take().unwrap().write_all(b"go on\n").unwrap();
    let mut text = String::new();
    output.read_to_string(&mut text).unwrap();
    traced.wait().unwrap();
    said.read_to_string(&mut before).unwrap();
    assert!(recorder.wait().unwrap().success(), "{before}");
    assert_clean(&directory.path().join("out.tf"));
    assert_eq!(
        hits(directory.path()),
        calls(&text),
        "{options:?}: {before}"
    );
}

macro_rules! builds {
    ($($name:ident: $how:ident $options:expr;)*) => {$(
        #[test]
        fn $name() {
            $how(&$options);
        }
    )*};
}

builds! {
    launched_dynamic: launched ["-Wl,-z,now"];
    launched_lazy: launched ["-Wl,-z,lazy"];
    launched_at_fixed_address: launched ["-no-pie"];
    launched_static: launched ["-static"];
    launched_static_pie: launched ["-static-pie"];
    attached_dynamic: attached ["-Wl,-z,now"];
    attached_lazy: attached ["-Wl,-z,lazy"];
    attached_static: attached ["-static"];
    attached_static_pie: attached ["-static-pie"];
}

const OPENED: &str = r#"
#include <dlfcn.h>
#include <stdio.h>
int main (void)
{
  volatile double sum = 0;
  int calls = 0;
  void *library = dlopen ("libm.so.6", RTLD_LAZY);
  double (*volatile f) (double) = dlsym (library, "floor");
  for (int i = 0; i < 12; i++, calls++)
    sum += f (i * 0.75);
  fprintf (stderr, "%g\n", sum);
  printf ("floor %d\n", calls);
  return 0;
}
"#;

/// In a library that is opened later, selected at the first request for the function.
#[test]
fn opened_later() {
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("opened.c");
    std::fs::write(&source, OPENED).unwrap();
    let program = build(directory.path(), "gcc", &["-g"], &[&source]);
    let script = directory.path().join("script.gdb");
    std::fs::write(&script, "set breakpoint pending on\ntrace floor\n").unwrap();
    let output = tracewire()
        .current_dir(directory.path())
        .args(["record", "-x", "script.gdb", "-o", "out.tf", "--"])
        .arg(&program)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains(", selected for floor"), "{said}");
    assert_clean(&directory.path().join("out.tf"));
    let counted = counts(&String::from_utf8_lossy(&output.stdout));
    assert_eq!(hits(directory.path()), [counted["floor"]], "{said}");
}

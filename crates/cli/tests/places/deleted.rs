//! A program whose file is deleted while it runs: it can be recorded, and shown with a copy.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Command, Stdio};

use crate::programs::build;
use crate::support::{ran, tracewire};
use tracewire_test_support::assert_clean;

const PROGRAM: &str = r#"
#include <stdio.h>
__attribute__((noinline)) int work (int number) { return number * 2 + (int) (long) stdin; }
int main (void)
{
  char line[16];
  int sum = 0;
  puts ("ready");
  fflush (stdout);
  if (!fgets (line, sizeof line, stdin))
    return 1;
  for (int i = 0; i < 5; i++)
    sum += work (i);
  return sum == 1;
}
"#;

#[test]
fn a_copy_has_the_names() {
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("deleted.c");
    std::fs::write(&source, PROGRAM).unwrap();
    let program = build(directory.path(), "gcc", &["-g", "-O1"], &[&source]);
    let mut traced = Command::new(&program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut output = BufReader::new(traced.stdout.take().unwrap());
    output.read_line(&mut line).unwrap();
    let copy = directory.path().join("copy");
    std::fs::copy(&program, &copy).unwrap();
    std::fs::remove_file(&program).unwrap();
    let mut recorder = tracewire()
        .current_dir(directory.path())
        .args(["record", "-t", "work : number", "-o", "out.tf", "-p"])
        .arg(traced.id().to_string())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(recorder.stderr.take().unwrap());
    let mut text = String::new();
    while !text.contains("tracepoint 1 by ") {
        assert_ne!(said.read_line(&mut text).unwrap(), 0, "{text}");
    }
    traced.stdin.take().unwrap().write_all(b"go on\n").unwrap();
    said.read_to_string(&mut text).unwrap();
    assert!(recorder.wait().unwrap().success(), "{text}");
    traced.wait().unwrap();
    assert!(text.contains("has been deleted or replaced"), "{text}");
    assert_clean(&directory.path().join("out.tf"));
    let show = |arguments: &[&str]| {
        let mut command = tracewire();
        command
            .current_dir(directory.path())
            .args(["show", "--json", "--frame", "3", "out.tf"]);
        ran(command.args(arguments).output().unwrap()).code(0)
    };
    show(&[]).says(&["its symbols are not used", "with --elf"]);
    let frames = show(&["--elf", "copy"]).json();
    assert_eq!(frames[0]["values"][0]["value"], "3");
}

//! GDB opens a file by the commands that `show --gdb` prints, and shows what was collected.

use std::path::Path;
use std::process::Command;

use crate::support::Built;
use tracewire_test_support::{Gdb, sample};

const PROGRAM: &str = r#"
#include <stdio.h>
__attribute__ ((noinline)) long leaf (long a, long b)
{
  long product = a * b;
  return product + 1;
}
__attribute__ ((noinline)) long twice (long a) { return a * 2; }
int main (void)
{
  long sum = 0;
  for (int i = 0; i < 3; i++)
    sum += leaf (i, i - 30) + twice (i);
  printf ("%ld\n", sum);
  return 0;
}
"#;

/// GDB's output and errors after it has opened `out.tf` by our commands.
fn in_gdb(built: &Built, arguments: &[&str], commands: &[&str]) -> String {
    let show = [&["show", "--gdb", "out.tf"], arguments].concat();
    let shown = built.run(&show).code(0).stdout;
    std::fs::write(built.path("open.gdb"), &shown).expect("written");
    let gdb = Gdb::new().directory(built.folder.path());
    let said = gdb.script(Path::new("open.gdb")).commands(commands).run();
    shown + &said.all()
}

/// Where an instruction is shorter than a jump GDB would refuse a fast tracepoint, and all that follow it.
#[test]
fn a_jump_over_a_short_instruction_is_no_obstacle() {
    let built = Built::new(PROGRAM, &["-O0"]);
    let script = "ftrace leaf\nactions\ncollect a, b\nend\n\
                  trace twice\nactions\ncollect a\nend\n";
    built.record(script, &[]).code(0);
    let said = in_gdb(
        &built,
        &[],
        &["tfind 2", "tdump", "tfind 3", "tdump", "info tracepoints"],
    );
    assert!(!said.contains("May not have"), "{said}");
    assert!(said.contains("\na = 1\nb = -29\n"), "{said}");
    assert!(
        said.contains("tracepoint 2, trace frame 3:\na = 1\n"),
        "{said}"
    );
    // The file still shows that it was a jump.
    let info = built.run(&["info", "out.tf"]).code(0).stdout;
    let (_, leaf) = info.split_once(" leaf\n").expect("the tracepoint");
    let (leaf, _) = leaf.split_once(" twice\n").expect("the other");
    assert!(leaf.contains("jump"), "{info}");
}

/// A file of GDB's does not have its program's load address.
#[test]
fn a_program_that_was_moved_is_where_the_tracepoints_are() {
    let folder = Built::at(tempfile::tempdir().expect("a folder"));
    std::fs::copy(sample("sample.tf"), folder.path("out.tf")).expect("copied");
    let program = sample("sample");
    let program = program.to_str().expect("a name");
    let said = in_gdb(
        &folder,
        &["--elf", program],
        &["tfind 0", "print depth", "print j->id", "info symbol $pc"],
    );
    assert!(said.contains("\n$1 = 0\n$2 = 1\nhandle + "), "{said}");
    folder
        .run(&["show", "--gdb", "out.tf", "--elf", "nosuch"])
        .code(2)
        .says(&["nosuch"]);
}

/// Its symbols would have the values of others.
#[test]
fn a_program_that_was_built_again_is_not_used() {
    const NOT_TRACED: &str = "program is not the file that was traced";
    let built = Built::new(PROGRAM, &["-O0"]);
    let script = "trace leaf\nactions\ncollect a, b\nend\n";
    built.record(script, &[]).code(0);
    built.compile("program", &PROGRAM.replace("+ 1", "+ 2"), &["-O2"]);
    let shown = built.run(&["show", "out.tf"]).code(0).says(&[NOT_TRACED]);
    assert!(!shown.stdout.contains("leaf"), "{}", shown.stdout);
    let said = in_gdb(&built, &[], &["tfind 0", "info symbol $pc"]);
    assert!(said.contains(&format!("/{NOT_TRACED}")), "{said}");
    assert!(said.contains("Found trace frame 0"), "{said}");
    assert!(!said.contains("leaf + "), "{said}");
    for form in [&["show"][..], &["show", "--gdb"]] {
        built
            .run(&[form, &["out.tf", "--elf", "program"]].concat())
            .code(2)
            .says(&[NOT_TRACED]);
    }
}

/// GDB does not identify a tracepoint by its number.
#[test]
fn a_tracepoint_that_gdb_takes_for_another_is_named() {
    let built = Built::new(PROGRAM, &["-O0"]);
    let script = "trace leaf\nactions\ncollect a\nend\n\
                  trace leaf if b < 0\nactions\ncollect a\nend\n\
                  trace leaf\nactions\ncollect b\nend\n";
    let words = "GDB takes tracepoint 3 for tracepoint 1, since both are at 0x";
    built.record(script, &[]).code(0).says(&[words]);
    let said = in_gdb(&built, &[], &["tfind 2", "print b", "tdump"]);
    assert_eq!(said.matches(&format!("\n{words}")).count(), 1, "{said}");
    // So it is, and what was collected is there all the same.
    assert!(
        said.contains("Assuming tracepoint 1 is same as target's tracepoint 3 "),
        "{said}"
    );
    assert!(!said.contains("same as target's tracepoint 2 "), "{said}");
    assert!(said.contains("\n$1 = -30\n"), "{said}");
}

/// GDB reads `*shop::look` as the value of a type in a Rust program; the file has the address.
#[test]
fn an_address_by_a_name_of_rust_is_opened() {
    let folder = tempfile::tempdir().expect("a folder");
    let source = "mod shop { #[inline(never)] pub fn look(n: u64) -> u64 { std::hint::black_box(n) + 1 } }\n\
                  fn main() { for n in 40..43 { std::hint::black_box(shop::look(n)); } }\n";
    std::fs::write(folder.path().join("program.rs"), source).expect("written");
    let compiled = Command::new("rustc")
        .current_dir(folder.path())
        .args(["-g", "--edition=2021", "program.rs"])
        .status();
    assert!(compiled.expect("rustc runs").success());
    let built = Built::at(folder);
    let place = "*program::shop::look : $rdi";
    built
        .run(&["record", "-t", place, "-o", "out.tf", "--", "./program"])
        .code(0);
    let said = in_gdb(&built, &[], &["tfind 2", "print $rdi", "info symbol $pc"]);
    // GDB reads no line after one that it refuses: `tfind` works all the same, and no tracepoint is known.
    assert!(!said.contains("Error in sourced command file"), "{said}");
    assert!(
        said.contains("Created tracepoint 1 for target's tracepoint 1 "),
        "{said}"
    );
    assert!(said.contains("\n$1 = 42\n"), "{said}");
    assert!(said.contains("shop::look"), "{said}");
}

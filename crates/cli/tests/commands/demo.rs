//! `demo`: a complete use, with only the program itself.

use std::process::Command;

use crate::support::{Built, ran, run, tracewire, value};
use tracewire_test_support::{assert_clean_but, is_unreadable};

#[test]
fn it_records_shows_and_says_what_comes_next() {
    let folder = tempfile::tempdir().expect("a folder");
    let cache = tempfile::tempdir().expect("a folder");
    let output = tracewire()
        .arg("demo")
        .current_dir(folder.path())
        .env("XDG_CACHE_HOME", cache.path())
        .output();
    let demo = ran(output.expect("runs")).code(0);
    // No file is left in the current directory.
    let left = std::fs::read_dir(folder.path()).expect("read").count();
    assert_eq!(left, 0, "{}", demo.stderr);
    assert!(
        demo.stdout.contains("9 orders, takings 233.84"),
        "{}",
        demo.stdout
    );
    // The threads take turns, so that the order of the frames is fixed.
    for words in [
        "serve tracewire-demo.c:53",
        "worker = 1",
        "kind = TOY",
        "\"Grace\"",
        "$big = 5",
        "order->customer->name = <unavailable>",
        "discount tracewire-demo.c:44 (step)",
        "sum = 56.25",
    ] {
        assert!(demo.stdout.contains(words), "{words} in:\n{}", demo.stdout);
    }
    // Every command that it proposes works, where it proposes to type it.
    let mut tried = 0;
    for line in demo
        .stdout
        .lines()
        .filter_map(|line| line.strip_prefix("  "))
    {
        let Some(arguments) = line
            .strip_prefix("tracewire ")
            .filter(|line| !line.contains("PROGRAM"))
        else {
            continue;
        };
        let mut command = format!("{} {arguments}", env!("CARGO_BIN_EXE_tracewire"));
        if arguments.contains("gdb -x") {
            command = command.replace("gdb -x", "gdb -nx -batch -x") + " -ex 'tfind start'";
        }
        let done = Command::new("sh")
            .args(["-c", &command])
            .current_dir(folder.path())
            .output();
        let done = ran(done.expect("sh runs"));
        if arguments.contains("gdb -x") {
            assert!(
                done.stdout.contains("Found trace frame 0"),
                "{}{}",
                done.stdout,
                done.stderr
            );
        } else {
            done.code(0);
        }
        tried += 1;
    }
    assert!(tried >= 6, "{}", demo.stdout);
}

#[test]
fn the_output_can_be_elsewhere() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("other name.tf");
    let output = tracewire().arg("demo").arg("-o").arg(&file).output();
    ran(output.expect("runs")).code(0);
    // The name of a missing customer.
    assert_clean_but(&file, is_unreadable);
    let built = Built::at(folder);
    let shown = built
        .run(&["show", "other name.tf", "--json"])
        .code(0)
        .json();
    assert_eq!(shown.len(), 26);
    let threads: std::collections::BTreeSet<_> = shown
        .iter()
        .filter_map(|frame| frame["thread"].as_u64())
        .collect();
    assert_eq!(threads.len(), 3);
    assert_eq!(
        shown
            .iter()
            .filter(|frame| frame["stepping"] == true)
            .count(),
        9
    );
    let last = shown
        .iter()
        .rfind(|frame| frame["tracepoint"] == 1)
        .expect("a frame");
    assert_eq!(value(last, "$big"), Some("5"));
    run("demo -o /nonexistent/x.tf")
        .code(2)
        .says(&["/nonexistent", "-o"]);
}

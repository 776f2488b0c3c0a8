//! Static tracepoints on the markers of `sys/sdt.h`.

use std::process::Command;

use super::support::{Program, TRACEWIRE};

#[test]
fn markers_are_listed_traced_and_heard() {
    let program = Program::build("markers.c", &[]);
    std::fs::write(
        program.folder.path().join("actions"),
        "actions 2\ncollect $_sdata, count\nend\n",
    )
    .unwrap();
    let said = program.debug_to_the_end(&[
        "break main",
        "continue",
        "info static-tracepoint-markers",
        "strace -m shop:sold",
        "source actions",
        "tstart",
        "print shop_sold_semaphore",
        // GDB's own reading of the same arguments.
        "break -probe-stap shop:sold",
        "condition 3 count == 2",
        "continue",
        "print $_probe_argc",
        "print $_probe_arg0",
        "print $_probe_arg1",
        "print $_probe_arg2",
        "print $_probe_arg3",
        "print $_probe_arg4",
        "delete 3",
        "tstop",
        "print shop_sold_semaphore",
        "tfind 0",
        "print $_sdata",
        "print count",
        "tfind 2",
        "print $_sdata",
        "tfind 9",
        "print $_sdata",
        "tfind none",
        "info tracepoints",
        "continue",
    ]);
    said.assert_in_order(&[
        "shop:sold",
        "Data: \"8@",
        "Static tracepoint 2 at",
        "$1 = 1",
        "$2 = 5",
        "$3 = ",
        "$4 = 3",
        "$5 = 7",
        "$6 = -1",
        "$7 = 2",
        "$8 = 0",
        "Found trace frame 0, tracepoint 2",
        " arg2=3 arg3=7 arg4=-1 arg5=-1\"",
        "$10 = -1",
        " arg2=1099511627776 arg3=-2 arg4=127 arg5=-1\"",
        " arg2=3 arg3=7 arg4=-1 arg5=2\"",
        "exited normally",
    ]);
    // The tenth hit was the last one that was wanted; GDB's own breakpoint had raised the counter as well.
    assert!(
        said.errors.contains("seen 10, semaphore 0"),
        "{}",
        said.errors
    );
}

#[test]
fn markers_are_recorded_by_their_names() {
    let program = Program::build("markers.c", &[]);
    let output = Command::new(TRACEWIRE)
        .args(["record", "-t", "-m shop:sold", "-o", "out.tf", "--"])
        .arg(&program.path)
        .current_dir(program.folder.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(words.contains("seen 12, semaphore 1"), "{words}");
    let shown = Command::new(TRACEWIRE)
        .args(["show", "out.tf"])
        .current_dir(program.folder.path())
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    let heard: Vec<&str> = shown
        .lines()
        .filter(|line| line.contains("$_sdata"))
        .collect();
    assert_eq!(heard.len(), 12);
    assert!(
        heard[1].contains("arg2=-5 arg3=300 arg4=2 arg5=-1"),
        "{}",
        heard[1]
    );
}

#[test]
fn markers_of_a_file_are_listed() {
    let program = Program::build("markers.c", &[]);
    let info = |options: &[&str]| {
        let output = Command::new(TRACEWIRE)
            .arg("info")
            .args(options)
            .arg(&program.path)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let text = info(&[]);
    assert!(text.contains("ELF file, x86_64, 2 markers"), "{text}");
    assert!(text.contains("shop:sold"), "{text}");
    let json = info(&["--json"]);
    assert!(
        json.contains(r#"{"name":"shop:open","address":"0x"#),
        "{json}"
    );
    assert!(json.contains(r#""function":"sell""#), "{json}");
}

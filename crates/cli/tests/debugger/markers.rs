//! Static tracepoints on the markers of `sys/sdt.h`.

use std::path::Path;
use std::process::Command;

use tracewire_test_support::{assert_clean, assert_clean_but, is_static_data};

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
    // The tenth hit was the last one needed; GDB's own breakpoint had incremented the counter as well.
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
        .args(["record", "-t", "-m shop:sold", "-t"])
        .args(["-m shop:sold : $_sdata", "-o", "out.tf", "--"])
        .arg(&program.path)
        .current_dir(program.folder.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(words.contains("seen 12, semaphore 1"), "{words}");
    assert_clean_but(&program.folder.path().join("out.tf"), is_static_data);
    assert!(words.contains("by trap: static tracepoint data"), "{words}");
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
    // Without a list, each argument separately.
    for value in ["1 = -5", "2 = 300", "3 = 2", "4 = -1"] {
        let value = format!("$_probe_arg{value}\n");
        assert!(shown.contains(&value), "{value} in {shown}");
    }
    assert_eq!(shown.matches("$_probe_arg4 = ").count(), 12, "{shown}");
    // That needs no trap.
    let output = Command::new(TRACEWIRE)
        .args(["record", "-t", "-m shop:sold", "--mechanism", "jump"])
        .args(["-o", "out.tf", "--"])
        .arg(&program.path)
        .current_dir(program.folder.path())
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(words.contains("12 frames in out.tf"), "{words}");
    assert_clean(&program.folder.path().join("out.tf"));
}

/// GDB's names for a marker's arguments, in a condition, collected, searched for, and read again by GDB.
#[test]
fn arguments_of_markers_have_the_names_that_gdb_gives_them() {
    let program = Program::build("markers.c", &[]);
    let run = |command: &mut Command| {
        let output = command.current_dir(program.folder.path()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let tracepoint = "-m shop:sold if $_probe_arg4 == 0 || $_probe_arg2 < 0 : collect $_probe_argc, $_probe_arg1, \
                      $_probe_arg3, *(char *) $_probe_arg0@4";
    run(Command::new(TRACEWIRE)
        .args(["record", "-o", "out.tf", "-t", tracepoint, "--"])
        .arg(&program.path));
    assert_clean(&program.folder.path().join("out.tf"));
    let info = run(Command::new(TRACEWIRE).args(["info", "out.tf"]));
    assert!(
        info.contains("-m shop:sold (static) if $_probe_arg4 == 0"),
        "{info}"
    );
    // Of twelve sales, three of the second round and the plums of all.
    let shown = run(Command::new(TRACEWIRE).args(["show", "out.tf"]));
    let of = |item: &str| {
        shown
            .matches(&format!("$_probe_arg0@4 = \"{item}\""))
            .count()
    };
    assert_eq!((of("appl"), of("pear"), of("plum")), (1, 1, 4), "{shown}");
    assert_eq!(shown.matches("$_probe_argc = 5").count(), 6, "{shown}");
    assert_eq!(shown.matches("  shop:sold sell ").count(), 6, "{shown}");
    assert_eq!(shown.matches("$_probe_arg3 = 127").count(), 4, "{shown}");
    let found =
        run(Command::new(TRACEWIRE).args(["find", "out.tf", "--where", "$_probe_arg1 == -5"]));
    assert_eq!(found.lines().count(), 1, "{found}");
    let frame = found.trim();
    // GDB cannot collect a value in a part of a register, such as the grade, and is not asked to.
    let script = run(Command::new(TRACEWIRE).args(["show", "out.tf", "--gdb"]));
    std::fs::write(program.folder.path().join("run.gdb"), script).unwrap();
    let gdb = run(Command::new("gdb")
        .args(["-nx", "-batch", "-x", "run.gdb"])
        .args([
            "-ex",
            &format!("tfind {frame}"),
            "-ex",
            "tdump",
            "-ex",
            "info tracepoints",
        ]));
    for words in [
        &format!("Found trace frame {frame}, tracepoint 1"),
        "$_probe_argc = 5",
        "$_probe_arg1 = -5",
        "*(char *) $_probe_arg0@4 = \"pear\"",
        "static tracepoint keep y",
    ] {
        assert!(gdb.contains(words), "{words} in {gdb}");
    }
}

/// Missing arguments and unknown probes are reported before the program starts.
#[test]
fn arguments_that_a_marker_does_not_have_are_refused() {
    let program = Program::build("markers.c", &[]);
    for (tracepoint, words) in [
        (
            "-m shop:sold if $_probe_arg5 > 0",
            "Invalid probe argument 5 -- probe has 5 arguments available",
        ),
        ("sell : collect $_probe_arg0", "No probe at PC 0x"),
    ] {
        let output = Command::new(TRACEWIRE)
            .args(["record", "-o", "out.tf", "-t", tracepoint, "--"])
            .arg(&program.path)
            .current_dir(program.folder.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(words), "{said}");
    }
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

/// The values of a packaged program's or library's probes at each hit, by GDB alone and by a recording, at the same addresses. (GDB
/// 13 itself crashes now and then where `strace` meets code without debug information.)
fn heard_twice(folder: &Path, program: &[&str], markers: &[(&str, usize)]) -> [Vec<String>; 2] {
    let mut script = "set pagination off\nset breakpoint pending on\n".to_owned();
    for (marker, count) in markers {
        let names: Vec<String> = (1..=*count)
            .map(|number| format!("arg{number}=%ld"))
            .collect();
        let values: Vec<String> = (0..*count)
            .map(|number| format!("(long) $_probe_arg{number}"))
            .collect();
        script.push_str(&format!(
            "break -probe-stap {marker}\ncommands\nsilent\nprintf \"$_sdata = \\\"{}\\\"\\n\", {}\ncontinue\nend\n",
            names.join(" "),
            values.join(", ")
        ));
    }
    script.push_str("run\n");
    std::fs::write(folder.join("commands.gdb"), script).unwrap();
    let run = |command: &mut Command| -> Vec<String> {
        let output = command
            .current_dir(folder)
            .env("PYTHONHASHSEED", "0")
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout)
            .lines()
            .filter_map(|line| line.split_once("$_sdata = "))
            .map(|(_, data)| data.to_owned())
            .collect()
    };
    let theirs = run(Command::new("gdb")
        .args(["-nx", "-batch", "-x", "commands.gdb", "--args"])
        .args(program));
    let mut record = Command::new("setarch");
    record.args(["-R", TRACEWIRE, "record", "-o", "out.tf"]);
    for (marker, _) in markers {
        record.args(["-t", &format!("-m {marker} : $_sdata")]);
    }
    run(record.arg("--").args(program));
    assert_clean_but(&folder.join("out.tf"), is_static_data);
    let ours = run(Command::new(TRACEWIRE).args(["show", "out.tf"]));
    [theirs, ours]
}

#[test]
fn markers_of_libstdcxx_say_what_gdb_reads() {
    let program = Program::build_cpp("throws.cpp");
    let path = program.path.display().to_string();
    let markers = [
        ("libstdcxx:throw", 2),
        ("libstdcxx:catch", 2),
        ("libstdcxx:rethrow", 2),
    ];
    let [theirs, ours] = heard_twice(program.folder.path(), &[&path], &markers);
    assert_eq!(theirs.len(), 4, "{theirs:?}");
    assert_eq!(ours, theirs);
}

/// The interpreter reaches its probes only while they are in use.
#[test]
fn markers_of_python_say_what_gdb_reads() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("script.py"),
        "import gc\ndef leaf(n): return n + 1\nfor n in range(3): leaf(n)\ngc.collect(1)\n",
    )
    .unwrap();
    let program = ["/usr/bin/python3", "-S", "script.py"];
    let markers = [("python:gc__start", 1), ("python:function__entry", 3)];
    let [theirs, ours] = heard_twice(folder.path(), &program, &markers);
    assert!(theirs.contains(&"\"arg1=1\"".to_owned()), "{theirs:?}");
    // Where the interpreter keeps its strings depends on its environment.
    let stable = |heard: Vec<String>| -> Vec<String> {
        heard
            .into_iter()
            .map(|data| match data.rsplit_once(" arg3=") {
                Some((_, last)) => format!("arg3={last}"),
                None => data,
            })
            .collect()
    };
    let (theirs, ours) = (stable(theirs), stable(ours));
    assert!(theirs.iter().any(|data| data.starts_with("arg3=")));
    assert_eq!(ours, theirs);
}

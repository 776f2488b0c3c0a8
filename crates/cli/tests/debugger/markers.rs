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

/// The number that GDB printed for a history value.
fn value(said: &str, number: u32) -> u64 {
    let line = said
        .lines()
        .find_map(|line| line.strip_prefix(&format!("${number} = ")))
        .unwrap_or_else(|| panic!("${number} is not in:\n{said}"));
    let signed: i64 = line.parse().unwrap_or_else(|_| {
        line.parse::<u64>()
            .unwrap_or_else(|_| panic!("{line} is no number"))
            .cast_signed()
    });
    signed.cast_unsigned()
}

#[test]
fn markers_of_libstdcxx_say_what_gdb_reads() {
    let program = Program::build_cpp("throws.cpp");
    let mut commands = vec!["break main", "continue", "delete"];
    // A tracepoint and a breakpoint on each, the same arguments at the same hit.
    for name in ["throw", "catch", "rethrow"] {
        commands.extend([
            name_of("strace -m", name),
            "actions_here",
            name_of("break -probe-stap", name),
        ]);
    }
    commands.push("tstart");
    for _ in 0..4 {
        commands.extend(["continue", "print $_probe_arg0", "print $_probe_arg1"]);
    }
    commands.push("tstop");
    for frame in ["tfind 0", "tfind 1", "tfind 2", "tfind 3"] {
        commands.extend([frame, "print $_sdata"]);
    }
    std::fs::write(
        program.folder.path().join("actions"),
        "actions\ncollect $_sdata\nend\n",
    )
    .unwrap();
    let commands: Vec<&str> = commands
        .into_iter()
        .map(|command| match command {
            "actions_here" => "source actions",
            command => command,
        })
        .collect();
    let said = program.debug(&commands);
    for hit in 0..4 {
        let (first, second) = (
            value(&said.output, 1 + 2 * hit),
            value(&said.output, 2 + 2 * hit),
        );
        let heard = format!("${} = \"arg1={first} arg2={second}\"", 9 + hit);
        assert!(said.output.contains(&heard), "{heard} in {}", said.output);
    }
}

fn name_of(command: &str, name: &str) -> &'static str {
    format!("{command} libstdcxx:{name}").leak()
}

/// A packaged program without symbols, whose markers nobody reaches unless somebody wants to know.
#[test]
fn markers_of_python_say_what_gdb_reads() {
    const PYTHON: &str = "/usr/bin/python3";
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("script.py"),
        "import gc\ndef leaf(n): return n + 1\nfor n in range(3): leaf(n)\ngc.collect(1)\n",
    )
    .unwrap();
    std::fs::write(
        folder.path().join("commands.gdb"),
        "set pagination off\nset breakpoint pending on\nbreak -probe-stap python:gc__start\n\
         commands\nsilent\nprintf \"$_sdata = \\\"arg1=%d\\\"\\n\", $_probe_arg0\ncontinue\nend\n\
         break -probe-stap python:function__entry\n\
         commands\nsilent\nprintf \"$_sdata = \\\"arg1=%lu arg2=%lu arg3=%d\\\"\\n\", $_probe_arg0, \
         $_probe_arg1, $_probe_arg2\ncontinue\nend\nrun -S script.py\n",
    )
    .unwrap();
    let run = |command: &mut Command| {
        let output = command
            .current_dir(folder.path())
            .env("PYTHONHASHSEED", "0")
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    // Addresses are not compared: the two runs have their own.
    let heard = |said: &str| -> Vec<String> {
        said.lines()
            .filter_map(|line| line.split_once("$_sdata = "))
            .map(|(_, data)| match data.rsplit_once(" arg3=") {
                Some((_, last)) => format!("arg3={last}"),
                None => data.to_owned(),
            })
            .collect()
    };
    let theirs = run(Command::new("gdb")
        .args(["-nx", "-batch", "-x", "commands.gdb"])
        .arg(PYTHON));
    run(Command::new(TRACEWIRE)
        .args([
            "record",
            "-t",
            "-m python:gc__start",
            "-t",
            "-m python:function__entry",
        ])
        .args(["-o", "out.tf", "--", PYTHON, "-S", "script.py"]));
    let ours = run(Command::new(TRACEWIRE).args(["show", "out.tf"]));
    let (theirs, ours) = (heard(&theirs), heard(&ours));
    assert!(theirs.contains(&"\"arg1=1\"".to_owned()), "{theirs:?}");
    assert!(theirs.iter().any(|data| data.starts_with("arg3=")));
    assert_eq!(ours, theirs);
}

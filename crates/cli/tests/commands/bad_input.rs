//! Errors are reported clearly, and leave no files except requested ones.

use std::process::{Command, Stdio};

use tracewire_test_support::write_program;

use crate::support::{Built, ran, run};

const SMALL: &str = "int step (int n) { return n + 1; }\nint main (void)\n{\n  int sum = 0;\n  \
                     for (int i = 0; i < 10; i++)\n    sum += step (i);\n  return sum == 55 ? 0 : 1;\n}\n";

#[test]
fn programs_that_cannot_be_started() {
    let built = Built::new(SMALL, &[]);
    let record =
        |program: &str| built.run(&["record", "-t", "step", "-o", "out.tf", "--", program]);
    record("./nosuch")
        .code(2)
        .says(&["there is no program `./nosuch`"]);
    record("nosuch-program")
        .code(2)
        .says(&["nosuch-program", "PATH"]);
    record("/").code(2).says(&["may not be executed"]);
    std::fs::write(built.path("plain"), "no program\n").expect("written");
    record("./plain").code(2).says(&["permission denied"]);
    write_program(&built.path("text"), b"no program\n");
    record("./text").code(2).says(&["not a program", "#!"]);
    assert!(!built.path("out.tf").exists());
    assert!(!built.path("out.tf.recording").exists());
}

#[test]
fn processes_that_cannot_be_attached_to() {
    run("record -t step -o /tmp/none.tf -p 4194305")
        .code(2)
        .says(&["no process 4194305"]);
    for command in ["record -t step", "rescue"] {
        run(&format!("{command} -o /tmp/none.tf -p no-such-name"))
            .code(2)
            .says(&[
                "a process id is a number of 1 or more",
                "`pgrep NAME`",
                "none runs as no-such-name now",
            ]);
        run(&format!("{command} -o /tmp/none.tf -p 0"))
            .code(2)
            .says(&["a process id is a number of 1 or more"]);
    }
    // Already traced by another.
    let built = Built::new(
        "#include <unistd.h>\nint main (void) { pause (); return 0; }\n",
        &[],
    );
    let mut program = Command::new(&built.program).spawn().expect("runs");
    let pid = program.id().to_string();
    let named = run("record -t step -o /tmp/none.tf -p program").code(2);
    assert!(
        named.stderr.contains("program runs as ") && named.stderr.contains("process"),
        "{}",
        named.stderr
    );
    let mut tracer = Command::new("gdb")
        .args(["-nx", "-q", "-ex", "attach"])
        .args(
            [format!("attach {pid}"), "echo attached\\n".to_owned()]
                .iter()
                .flat_map(|c| ["-ex", c]),
        )
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("gdb runs");
    let lines = std::io::BufRead::lines(std::io::BufReader::new(
        tracer.stdout.take().expect("stdout"),
    ));
    assert!(
        lines
            .map_while(Result::ok)
            .any(|line| line.contains("attached"))
    );
    built
        .run(&["record", "-t", "main", "-o", "out.tf", "-p", &pid])
        .code(2)
        .says(&["already traced by process", &tracer.id().to_string()]);
    drop(tracer.stdin.take());
    tracer.wait().expect("ended");
    program.kill().expect("killed");
    program.wait().expect("ended");
}

#[test]
fn scripts_that_are_wrong() {
    let built = Built::new(SMALL, &[]);
    let record = |script: &str| built.record(script, &[]);
    record("trace step\nactions\n  colect n\nend\n")
        .code(2)
        .says(&[
            "script.gdb:3:3: `colect`",
            "did you mean `collect`?",
            "^^^^^^",
        ]);
    record("trace stpe\n")
        .code(2)
        .says(&["script.gdb:1:7", "stpe", "step"]);
    record("trace step if m > 3\n")
        .code(2)
        .says(&["No symbol \"m\"", "^"]);
    record("trace step\nactions\ncollect n.x\nend\n")
        .code(2)
        .says(&["script.gdb:3:"]);
    record("trace program.c:900\n").code(2).says(&["900"]);
    record("trace progam.c:1\n")
        .code(2)
        .says(&["progam.c", "program.c"]);
    record("trace *0x10\n").code(2).says(&["0x10"]);
    record("").code(2).says(&["sets no tracepoint"]);
    record("trace step\nactions\ncollect missing_one\nend\ntrace step if missing_two\n")
        .code(2)
        .says(&["missing_one", "missing_two"]);
    run("record -x nosuch.gdb -o /tmp/none.tf -- true")
        .code(2)
        .says(&["nosuch.gdb"]);
    run("record -o /tmp/none.tf -- true")
        .code(2)
        .says(&["--tracepoint"]);
    run("record -t main -- true").code(2).says(&["--output"]);
    run("record -t main -o /tmp/none.tf")
        .code(2)
        .says(&["PROGRAM"]);
    run("record -t main -o /tmp/none.tf --buffer-size many -- true")
        .code(2)
        .says(&["5MiB"]);
    assert!(!built.path("out.tf").exists());
    assert!(!built.path("out.tf.recording").exists());
}

#[test]
fn a_script_that_is_wrong_does_not_start_the_program() {
    let built = Built::new(
        "#include <stdio.h>\nint main (void) { puts (\"started\"); return 0; }\n",
        &[],
    );
    let done = built
        .record("trace maim\n", &[])
        .code(2)
        .says(&["maim", "main"]);
    assert_eq!(done.stdout, "");
}

#[test]
fn outputs_that_cannot_be_written() {
    let built = Built::new(SMALL, &[]);
    let record = |output: &str| {
        built
            .run(&["record", "-t", "step", "-o", output, "--", "./program"])
            .code(2)
    };
    record("nosuch/out.tf").says(&["cannot write nosuch/out.tf", "No such file"]);
    record(".").says(&["folder"]);
    let _socket = std::os::unix::net::UnixListener::bind(built.path("socket")).expect("bound");
    record("socket").says(&["no ordinary file"]);
    record("/proc/out.tf").says(&["cannot write /proc/out.tf"]);
}

#[test]
fn an_old_file_stays_until_the_new_one_is_whole() {
    let built = Built::new(SMALL, &[]);
    std::fs::write(built.path("out.tf"), "old").expect("written");
    built.record("trace stpe\n", &[]).code(2);
    assert_eq!(std::fs::read(built.path("out.tf")).expect("read"), b"old");
    built.record("trace step\n", &[]).code(0);
    assert_eq!(built.frames().len(), 10);
    std::os::unix::fs::symlink("out.tf", built.path("link.tf")).expect("linked");
    built
        .run(&[
            "record",
            "-t",
            "step if n == 3",
            "-o",
            "link.tf",
            "--",
            "./program",
        ])
        .code(0);
    assert!(built.path("link.tf").is_symlink());
    assert_eq!(built.frames().len(), 1);
}

#[test]
fn a_full_disk_ends_the_run_with_what_there_is() {
    let built = Built::new(
        "int one_step (int n) { return n + 1; }\nint main (void)\n{\n  long sum = 0;\n  \
         for (int i = 0; i < 100000; i++)\n    sum += one_step (i);\n  return sum == 5000050000 ? 0 : 1;\n}\n",
        &["-O1", "-fno-inline", "-fno-ipa-icf"],
    );
    // A limit on the file size has the effect of a full disk, without filling one.
    let shell = format!(
        "ulimit -f 20000; exec {} record -t one_step -o out.tf -- ./program",
        env!("CARGO_BIN_EXE_tracewire")
    );
    let output = Command::new("sh")
        .args(["-c", &shell])
        .current_dir(built.folder.path())
        .output()
        .expect("sh runs");
    let done = ran(output);
    assert!(
        matches!(done.code, Some(0 | 2)),
        "{:?} {}",
        done.code,
        done.stderr
    );
    let frames = built.frames();
    assert!(frames.len() > 1000, "{}: {}", frames.len(), done.stderr);
    // All the room there is was used: 20000 blocks of 512 bytes, but for less than a page and a frame.
    let length = std::fs::metadata(built.path("out.tf"))
        .expect("the file")
        .len();
    assert!(20_000 * 512 - length < 8192, "{length} bytes");
}

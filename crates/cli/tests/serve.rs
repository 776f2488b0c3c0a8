//! `tracewire serve` with real GDB over its standard input and output, and `tracewire packets` on the logs of both.

use std::path::{Path, PathBuf};
use std::process::Command;

use tracewire_test_support::{Gdb, sample};

const TRACEWIRE: &str = env!("CARGO_BIN_EXE_tracewire");

#[test]
fn gdb_looks_at_a_trace_through_a_pipe() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let serve = format!(
        "target remote | {TRACEWIRE} serve - {} --elf {} --debug-log {}",
        sample("sample.tf").display(),
        sample("sample").display(),
        log.display()
    );
    let gdb = Gdb::new().commands(["set debug remote 1", &serve]);
    let gdb = gdb.commands(["tfind pc 0x555555555183", "print j->name", "detach"]);
    let gdb = gdb.run();
    let said = gdb.output;
    assert!(said.contains("Found trace frame 6"), "{said}");
    assert!(said.contains("\"beta\""), "{said}");

    // Both logs have the same session.
    let of_gdb = folder.path().join("of-gdb");
    std::fs::write(&of_gdb, gdb.errors).unwrap();
    let meanings = |path: &Path| {
        let output = Command::new(TRACEWIRE)
            .arg("packets")
            .arg(path)
            .arg("--json")
            .output()
            .unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout)
            .unwrap()
            .lines()
            .map(|line| {
                let object: serde_json::Value = serde_json::from_str(line).unwrap();
                object["meaning"].as_str().unwrap().to_owned()
            })
            .filter(|meaning| !meaning.contains("more than the log has"))
            .collect::<Vec<_>>()
    };
    let (ours, theirs) = (meanings(&log), meanings(&of_gdb));
    assert!(
        ours.contains(&"select the next trace frame at 0x555555555183".to_owned()),
        "{ours:?}"
    );
    assert!(
        ours.contains(&"frame 6 is selected, of tracepoint 3".to_owned()),
        "{ours:?}"
    );
    // GDB cuts long packets in its log, which were left out above.
    assert!(theirs.len() > 40, "{theirs:?}");
    let mut rest = ours.iter();
    for meaning in &theirs {
        assert!(
            rest.any(|other| other == meaning),
            "`{meaning}` is not in our log: {ours:?}"
        );
    }
}

#[test]
fn a_log_without_packets_and_a_file_that_is_none_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    std::fs::write(&path, "nothing here\n").unwrap();
    let output = Command::new(TRACEWIRE)
        .arg("packets")
        .arg(&path)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let output = Command::new(TRACEWIRE)
        .args(["serve", "-"])
        .arg(&path)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot be used"));
    let output = Command::new(TRACEWIRE)
        .args(["serve", "nowhere"])
        .arg(&path)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
}

/// A trace that comes slowly: a pipe, with only the first half written.
struct Slow {
    path: PathBuf,
    writer: std::fs::File,
}

/// The lines of a small program of MIPS.
fn lines(from: u32, to: u32) -> String {
    (from..to)
        .map(|at| {
            format!(
                "{at} clk 0 IT ({at}) {:08x} 24080000 A svc : addiu t0,zero,{at}\n{at} clk R r8 {at:08x}\n",
                0x8000_0000u32 + at * 4
            )
        })
        .collect()
}

impl Slow {
    fn make(path: PathBuf) -> PathBuf {
        let made = Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        path
    }

    /// Waits until the trace is read.
    fn begin(path: PathBuf) -> Self {
        use std::io::Write;
        let mut writer = std::fs::File::options().write(true).open(&path).unwrap();
        writer.write_all(lines(1, 500).as_bytes()).unwrap();
        Self { path, writer }
    }

    fn finish(mut self) {
        use std::io::Write;
        self.writer.write_all(lines(500, 1000).as_bytes()).unwrap();
        drop(self.writer);
        std::fs::remove_file(&self.path).unwrap();
    }
}

/// GDB gives up after two seconds without a byte: it is kept waiting for as long as the index takes, through a pipe and
/// at a socket, which is there at once.
#[test]
fn gdb_waits_while_a_trace_is_indexed() {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    use std::process::Stdio;

    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let (socket, piped, listened) = (
        at("socket"),
        Slow::make(at("piped")),
        Slow::make(at("listened")),
    );
    let gdb = |target: &str| {
        let gdb = Gdb::multiarch().commands([
            // What GDB has unless a test gives it more.
            "set remotetimeout 2",
            "set architecture mips",
            "set endian big",
            &format!("target remote {target}"),
            "print/x $pc",
            "monitor when",
        ]);
        std::thread::spawn(|| gdb.run().all())
    };
    let _server = Server(
        Command::new(TRACEWIRE)
            .arg("serve")
            .args([&socket, &listened])
            .args(["--architecture", "mips"])
            .stderr(Stdio::null())
            .spawn()
            .unwrap(),
    );
    // The reader of the trace has listened before.
    let at_socket = Slow::begin(listened);
    let through_pipe = gdb(&format!(
        "| {TRACEWIRE} serve - {} --architecture mips",
        piped.display()
    ));
    let in_pipe = Slow::begin(piped);
    let with_socket = gdb(&socket.display().to_string());
    let mut client = UnixStream::connect(&socket).unwrap();
    client
        .set_read_timeout(Some(std::time::Duration::from_secs(120)))
        .unwrap();
    client.write_all(b"$qSupported:swbreak+#8b").unwrap();
    // The server's own ticks are the clock: five seconds of them.
    let mut ticks = [0; 10];
    client.read_exact(&mut ticks).unwrap();
    assert_eq!(ticks, [b'+'; 10]);
    at_socket.finish();
    in_pipe.finish();
    let mut answer = Vec::new();
    let mut buffer = [0; 256];
    while !answer.contains(&b'#') {
        let count = client.read(&mut buffer).unwrap();
        assert_ne!(count, 0);
        answer.extend_from_slice(&buffer[..count]);
    }
    let answer = String::from_utf8_lossy(&answer).into_owned();
    assert!(
        answer.trim_start_matches('+').starts_with("$PacketSize="),
        "{answer}"
    );
    for gdb in [through_pipe, with_socket] {
        let said = gdb.join().unwrap();
        assert!(said.contains("$1 = 0x80000004"), "{said}");
        assert!(!said.contains("unexpectedly"), "{said}");
    }
}

/// A server without an end of its own, which is killed with the test.
struct Server(std::process::Child);

impl Drop for Server {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

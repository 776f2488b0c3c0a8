//! An editor's session: GDB's machine interface in non-stop mode, where a trace run is started, watched, stopped and looked
//! at while the program runs.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use crate::{TRACEWIRE, build};

/// GDB, as an editor has it.
struct Gdb {
    gdb: Child,
    input: ChildStdin,
    lines: Receiver<String>,
    /// Its output without a command.
    unasked: Vec<String>,
    commands: u32,
}

impl Gdb {
    fn start(program: &Path) -> Self {
        let mut gdb = Command::new("gdb")
            .args(["-nx", "--interpreter=mi3"])
            .arg(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("gdb is installed");
        let output = gdb.stdout.take().unwrap();
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self {
            input: gdb.stdin.take().unwrap(),
            gdb,
            lines,
            unasked: Vec::new(),
            commands: 0,
        }
    }

    fn line(&mut self) -> String {
        self.lines
            .recv_timeout(Duration::from_secs(60))
            .unwrap_or_else(|_| panic!("GDB says nothing more; it said {:#?}", self.unasked))
    }

    /// Gives a command: its result record, which must be no error.
    #[track_caller]
    fn command(&mut self, command: &str) -> String {
        self.commands += 1;
        let token = format!("{}^", self.commands);
        writeln!(self.input, "{}{command}", self.commands).unwrap();
        loop {
            let line = self.line();
            if let Some(result) = line.strip_prefix(&token) {
                assert!(!result.starts_with("error"), "{command}: {result}");
                return result.to_owned();
            }
            self.unasked.push(line);
        }
    }

    /// Waits for output without a command.
    fn wait(&mut self, wanted: &str) -> String {
        loop {
            if let Some(place) = self.unasked.iter().position(|line| line.contains(wanted)) {
                return self.unasked.remove(place);
            }
            let line = self.line();
            self.unasked.push(line);
        }
    }
}

impl Drop for Gdb {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.gdb.kill();
        let _ = self.gdb.wait();
    }
}

/// A number of a record.
fn number(record: &str, name: &str) -> u64 {
    let (_, rest) = record
        .split_once(&format!("{name}=\""))
        .unwrap_or_else(|| panic!("no {name} in {record}"));
    rest.split('"').next().unwrap().parse().unwrap()
}

#[test]
fn a_trace_run_is_started_watched_and_looked_at_while_the_program_runs() {
    let folder = tempfile::tempdir().unwrap();
    let program = build(folder.path(), "ticking.c");
    let mut gdb = Gdb::start(&program);
    gdb.command("-gdb-set mi-async on");
    gdb.command("-gdb-set non-stop on");
    gdb.command("-gdb-set sysroot");
    gdb.command(&format!(
        "-target-select remote | {TRACEWIRE} gdbserver --once - {}",
        program.display()
    ));
    gdb.command("-break-insert main");
    gdb.command("-exec-continue --all");
    gdb.wait("*stopped,reason=\"breakpoint-hit\"");
    let made = gdb.command("-break-insert -a -c number%10==0 tick");
    assert!(made.contains("type=\"tracepoint\""), "{made}");
    gdb.command("-break-commands 2 \"collect number\"");
    gdb.command("-exec-continue --all");

    gdb.command("-trace-start");
    // The frames come meanwhile.
    let mut seen = 0;
    while seen < 5 {
        let status = gdb.command("-trace-status");
        assert!(status.contains("running=\"1\""), "{status}");
        seen = number(&status, "frames");
    }
    let running = gdb.command("-thread-info");
    assert_eq!(running.matches("state=\"running\"").count(), 2, "{running}");
    let value = gdb.command("-data-evaluate-expression rounds");
    assert!(number(&value, "value") > 0, "{value}");
    gdb.command("-trace-stop");

    let found = gdb.command("-trace-find frame-number 3");
    assert!(found.contains("found=\"1\",tracepoint=\"2\""), "{found}");
    assert!(found.contains("func=\"tick\""), "{found}");
    let third = gdb.command("-trace-frame-collected");
    let value = number(&third, "explicit-variables=[{name=\"number\",value");
    gdb.command("-trace-find frame-number 4");
    let fourth = gdb.command("-trace-frame-collected");
    assert_eq!(
        number(&fourth, "explicit-variables=[{name=\"number\",value"),
        value + 10
    );
    gdb.command("-trace-find none");

    gdb.command("-exec-interrupt --all");
    for thread in ["\"1\"", "\"2\""] {
        let stopped = gdb.wait(&format!("thread-id={thread},stopped-threads"));
        assert!(stopped.contains("signal-name=\"0\""), "{stopped}");
    }
    // One runs, the other is stopped.
    gdb.command("-exec-continue --thread 2");
    let threads = gdb.command("-thread-info");
    assert_eq!(threads.matches("state=\"running\"").count(), 1, "{threads}");
    gdb.command("-gdb-exit");
}

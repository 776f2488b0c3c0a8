//! Programs and stubs.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use nix::unistd::Pid;
use tracewire_test_support::{Cc, tool};

/// A script about hits of `work` and of rounds, for any machine.
pub const SCRIPT: &str = "\
tvariable $hits
trace work if n == 3
actions
  collect n, *item, total, $regs
  collect/s item->name
  teval $hits = $hits + 1
  while-stepping 2
    collect $pc
  end
end
passcount 4
";

pub fn tracewire(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tracewire"));
    command.args(arguments);
    command
}

/// Runs it to its end, which must be good.
#[track_caller]
pub fn run(arguments: &[&str]) -> Output {
    let output = tracewire(arguments).output().expect("tracewire runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    output
}

/// The lines that `show --json` prints, with a program where the file does not name it.
#[track_caller]
pub fn shown(file: &Path, elf: Option<&Path>) -> Vec<serde_json::Value> {
    let word = |path: &'_ Path| path.to_str().expect("UTF-8").to_owned();
    let elf = elf.map(|elf| format!("--elf={}", word(elf)));
    let file = word(file);
    let arguments = ["show", "--json", &file].into_iter().chain(elf.as_deref());
    let output = run(&arguments.collect::<Vec<_>>());
    let text = String::from_utf8(output.stdout).expect("JSON is UTF-8");
    text.lines()
        .map(|line| serde_json::from_str(line).expect("a line is an object"))
        .collect()
}

/// The value of an expression in a frame.
pub fn value<'f>(frame: &'f serde_json::Value, expression: &str) -> Option<&'f str> {
    let values = frame["values"].as_array()?;
    let found = values
        .iter()
        .find(|value| value["expression"] == expression);
    found?["value"].as_str()
}

/// A program of Linux that calls `work` from several threads.
pub fn linux_program(directory: &Path) -> PathBuf {
    let text = "\
#include <pthread.h>
#include <stdio.h>
int total, calls;
struct pair { int first; const char *name; } pair = {1, \"one\"};
pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
__attribute__((noinline)) int work(int n) { total += n; calls++; pair.first = n; return total; }
__attribute__((noinline)) void finish(void) { pair.name = \"end\"; }
static void *run(void *from) {
    for (int n = 0; n < 20; n++) {
        pthread_mutex_lock(&lock);
        work(n + (int)(long)from);
        pthread_mutex_unlock(&lock);
    }
    return 0;
}
int main(void) {
    pthread_t threads[3];
    for (long i = 0; i < 3; i++) pthread_create(&threads[i], 0, run, (void *)(i * 100));
    for (int i = 0; i < 3; i++) pthread_join(threads[i], 0);
    finish();
    printf(\"%d\\n\", total);
    return 3;
}
";
    Cc::new()
        .options(&["-g", "-O0", "-pthread"])
        .text(text)
        .build(directory, "linux-program")
}

/// A child whose port is in a line that it prints, and which ends with this.
pub struct Listening {
    child: Child,
    pub port: u16,
}

impl Listening {
    /// The process, for a signal.
    pub fn id(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).expect("a process"))
    }

    /// Waits for its end.
    pub fn end(&mut self) -> std::process::ExitStatus {
        self.child.wait().expect("it ends")
    }

    #[track_caller]
    pub fn new(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        let port = lines.by_ref().map_while(Result::ok).find_map(|line| {
            let digits = |text: &str| {
                let text = text.trim_end();
                let start = text.rfind(|c: char| !c.is_ascii_digit())? + 1;
                text.get(start..)?.parse().ok()
            };
            (line.contains("ort ") || line.contains("target remote"))
                .then(|| digits(&line))
                .flatten()
        });
        // The rest is read, so that the server is not blocked.
        std::thread::spawn(move || lines.for_each(drop));
        let port = port.expect("a port is printed");
        Self { child, port }
    }

    pub fn address(&self) -> String {
        format!("localhost:{}", self.port)
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// gdbserver with a program that is stopped at its first instruction.
#[track_caller]
pub fn gdbserver(program: &Path) -> Listening {
    Listening::new(
        tool("gdbserver")
            .args(["--once", "localhost:0"])
            .arg(program),
    )
}

//! `tracewire gdbserver` as a server: its command line, its messages, several processes, its end.

mod command_line;
mod machine_interface;
mod processes;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};

use tracewire_test_support::{Cc, Gdb};

const TRACEWIRE: &str = env!("CARGO_BIN_EXE_tracewire");

/// Builds one of the programs of these tests.
fn build(folder: &Path, source: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/programs")
        .join(source);
    Cc::new()
        .options(&["-O0", "-pthread"])
        .source(source)
        .build_in(folder)
}

/// A server, and its output.
struct Server {
    server: Child,
    words: BufReader<ChildStderr>,
}

impl Server {
    fn start(arguments: &[&str]) -> Self {
        let mut server = Command::new(TRACEWIRE)
            .arg("gdbserver")
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let words = BufReader::new(server.stderr.take().unwrap());
        Self { server, words }
    }

    /// The next line that begins so: what follows in it.
    #[track_caller]
    fn says(&mut self, beginning: &str) -> String {
        let mut said = String::new();
        loop {
            let mut line = String::new();
            if self.words.read_line(&mut line).unwrap() == 0 {
                panic!("`{beginning}` was not said, but:\n{said}");
            }
            if let Some(rest) = line.strip_prefix(beginning) {
                return rest.trim_end().to_owned();
            }
            said.push_str(&line);
        }
    }

    /// The port that it listens at.
    fn port(&mut self) -> String {
        self.says("Listening on port ")
    }

    /// Waits for its end.
    fn end(mut self) {
        self.server.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// Makes GDB execute commands. Returns its output on both streams.
fn gdb(commands: &[&str]) -> String {
    Gdb::new().commands(commands).run().all()
}

//! Running `tracewire`, and building programs for it.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use tracewire_test_support::{Cc, assert_clean, samples};

/// The result of a command.
pub struct Ran {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    /// Fails the test unless the command ended so.
    #[track_caller]
    pub fn code(self, expected: i32) -> Self {
        assert_eq!(
            self.code,
            Some(expected),
            "stdout:\n{}\nstderr:\n{}",
            self.stdout,
            self.stderr
        );
        self
    }

    /// Every line of standard output as JSON.
    pub fn json(&self) -> Vec<Value> {
        self.stdout
            .lines()
            .map(|line| {
                serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
            })
            .collect()
    }

    /// Fails the test unless standard error contains all of this.
    #[track_caller]
    pub fn says(self, words: &[&str]) -> Self {
        for word in words {
            assert!(self.stderr.contains(word), "{word:?} in:\n{}", self.stderr);
        }
        self
    }
}

pub fn ran(output: Output) -> Ran {
    Ran {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// The program, ready to be given arguments.
pub fn tracewire() -> Command {
    // A shell that has the tests run in the background has them ignore ^C, nohup has them ignore SIGHUP, and so would
    // what they start.
    let mut command = Command::new("env");
    command.args(["--default-signal=INT,HUP", env!("CARGO_BIN_EXE_tracewire")]);
    command.stdin(Stdio::null());
    command
}

/// Runs it with arguments in one string, parted at blanks.
pub fn run(arguments: &str) -> Ran {
    ran(tracewire()
        .args(arguments.split_whitespace())
        .current_dir(samples())
        .output()
        .expect("tracewire runs"))
}

/// A folder with a C program in it.
///
/// At the end `out.tf`, if there is one, must be without fault, as must be what [`run`](Self::run) records.
pub struct Built {
    pub folder: tempfile::TempDir,
    pub program: PathBuf,
}

impl Drop for Built {
    fn drop(&mut self) {
        let file = self.path("out.tf");
        if !std::thread::panicking() && file.is_file() {
            assert_clean(&file);
        }
    }
}

impl Built {
    /// Compiles a source text.
    pub fn new(source: &str, options: &[&str]) -> Self {
        Self::named("program", source, options)
    }

    /// Compiles a source text into a program of this name, from a source file of the same name.
    pub fn named(name: &str, source: &str, options: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let built = Self {
            program: folder.path().join(name),
            folder,
        };
        built.compile(name, source, options);
        built
    }

    /// Compiles another source text beside the program.
    pub fn compile(&self, name: &str, source: &str, options: &[&str]) -> PathBuf {
        let cc = Cc::new().text(source).options(options);
        cc.build(self.folder.path(), name)
    }

    /// A folder with no program in it.
    pub fn at(folder: tempfile::TempDir) -> Self {
        Self {
            program: folder.path().join("program"),
            folder,
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `record` into `out.tf`, with a script and the program's arguments.
    pub fn record(&self, script: &str, arguments: &[&str]) -> Ran {
        ran(self
            .recorder(script, arguments)
            .output()
            .expect("tracewire runs"))
    }

    /// The same, to be started.
    pub fn recorder(&self, script: &str, arguments: &[&str]) -> Command {
        std::fs::write(self.path("script.gdb"), script).expect("written");
        let mut command = tracewire();
        command
            .current_dir(self.folder.path())
            .args(["record", "-x", "script.gdb", "-o", "out.tf", "--"])
            .arg(&self.program)
            .args(arguments);
        command
    }

    /// A command on files in the folder.
    #[track_caller]
    pub fn run(&self, arguments: &[&str]) -> Ran {
        let done = ran(tracewire()
            .current_dir(self.folder.path())
            .args(arguments)
            .output()
            .expect("tracewire runs"));
        let output = arguments
            .iter()
            .position(|argument| *argument == "-o")
            .and_then(|place| arguments.get(place + 1));
        if let ["record" | "collect" | "rescue", ..] = arguments
            && let Some(file) = output.map(|name| self.path(name))
            && done.code == Some(0)
            && file.is_file()
        {
            assert_clean(&file);
        }
        done
    }

    /// The frames of `out.tf`.
    pub fn frames(&self) -> Vec<Value> {
        self.run(&["show", "out.tf", "--json"]).code(0).json()
    }

    /// The output of `info` for `out.tf`.
    pub fn info(&self) -> Value {
        self.run(&["info", "out.tf", "--json"])
            .code(0)
            .json()
            .remove(0)
    }
}

/// The value of an expression in a frame.
pub fn value<'a>(frame: &'a Value, expression: &str) -> Option<&'a str> {
    let values = frame["values"].as_array()?;
    let named = values
        .iter()
        .find(|value| value["expression"] == expression)?;
    named["value"].as_str()
}

/// Calls `work` once for each byte of its standard input, and prints its number and how often at the end.
pub const OBEYS: &str = r#"
#include <stdio.h>
#include <unistd.h>
__attribute__ ((noinline)) int work (int n) { __asm__ volatile ("" : : "r" (n) : "memory"); return n; }
int main (void)
{
  char byte;
  int n = 0;
  while (read (0, &byte, 1) == 1)
    work (n++);
  fprintf (stderr, "%d %d calls\n", (int) getpid (), n);
  return 0;
}
"#;

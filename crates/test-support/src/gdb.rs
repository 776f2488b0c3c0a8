//! GDB in batch mode.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::tools::tool;

/// A run of GDB in batch mode, without the user's settings.
#[derive(Debug)]
pub struct Gdb {
    command: Command,
}

/// GDB's output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// On stdout.
    pub output: String,
    /// On stderr, where the output of a program under GDB may be, too.
    pub errors: String,
    /// Whether its exit status was 0.
    pub success: bool,
}

impl Default for Gdb {
    fn default() -> Self {
        Self::new()
    }
}

impl Gdb {
    /// The machine's GDB.
    #[must_use]
    #[track_caller]
    pub fn new() -> Self {
        Self::at("gdb")
    }

    /// Debian's GDB for all machines.
    #[must_use]
    #[track_caller]
    pub fn multiarch() -> Self {
        Self::at("gdb-multiarch")
    }

    /// Another GDB, by its name or path.
    #[must_use]
    #[track_caller]
    pub fn at(program: &str) -> Self {
        let mut command = tool(program);
        command
            .stdin(Stdio::null())
            .env("LC_ALL", "C.UTF-8")
            .args(["-q", "-nx", "-batch"]);
        for setting in [
            "set debuginfod enabled off",
            "set auto-load off",
            "set pagination off",
            "set confirm off",
            "set width 0",
            // A target's files are this machine's.
            "set sysroot",
            // A machine that has much to do answers late.
            "set remotetimeout 60",
        ] {
            command.args(["-iex", setting]);
        }
        Self { command }
    }

    /// Debugs a program.
    #[must_use]
    pub fn program(self, program: &Path) -> Self {
        self.argument(program)
    }

    /// Adds a command, executed after those before it. One that fails does not keep the next from being executed.
    #[must_use]
    pub fn command(self, command: impl AsRef<str>) -> Self {
        self.argument("-ex").argument(command.as_ref())
    }

    /// Adds commands.
    #[must_use]
    pub fn commands<C: AsRef<str>>(self, commands: impl IntoIterator<Item = C>) -> Self {
        commands.into_iter().fold(self, Self::command)
    }

    /// Adds a file of commands or, by the extension `py`, of Python.
    #[must_use]
    pub fn script(self, file: &Path) -> Self {
        self.argument("-x").argument(file)
    }

    /// Sets the working directory.
    #[must_use]
    pub fn directory(mut self, directory: &Path) -> Self {
        self.command.current_dir(directory);
        self
    }

    /// Sets a variable of its environment.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    fn argument(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.command.arg(argument);
        self
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// When it cannot be started.
    #[track_caller]
    pub fn run(mut self) -> Said {
        let output = self
            .command
            .output()
            .unwrap_or_else(|error| panic!("{:?}: {error}", self.command));
        Said {
            output: String::from_utf8_lossy(&output.stdout).into_owned(),
            errors: String::from_utf8_lossy(&output.stderr).into_owned(),
            success: output.status.success(),
        }
    }
}

impl Said {
    /// Its output on stdout and then on stderr.
    #[must_use]
    pub fn all(&self) -> String {
        format!("{}{}", self.output, self.errors)
    }

    /// Fails the test unless stdout has all of this, in this order.
    #[track_caller]
    pub fn assert_in_order(&self, wanted: &[&str]) {
        if let Some(missing) = not_in_order(&self.output, wanted) {
            panic!(
                "`{missing}` is missing, or too early, in:\n{}\nbeside it:\n{}",
                self.output, self.errors
            );
        }
    }
}

/// Fails the test unless a text has all of this, in this order.
#[track_caller]
pub fn assert_in_order(text: &str, wanted: &[&str]) {
    if let Some(missing) = not_in_order(text, wanted) {
        panic!("`{missing}` is missing, or too early, in:\n{text}");
    }
}

/// The first of these that a text does not have after those before it.
fn not_in_order<'w>(text: &str, wanted: &[&'w str]) -> Option<&'w str> {
    let mut rest = text;
    for &wanted in wanted {
        let Some((_, after)) = rest.split_once(wanted) else {
            return Some(wanted);
        };
        rest = after;
    }
    None
}

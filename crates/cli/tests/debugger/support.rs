//! Programs built for a test, and GDB given commands.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;
use tracewire_test_support::{Cc, Gdb, Said};

pub const TRACEWIRE: &str = env!("CARGO_BIN_EXE_tracewire");

/// A program in a temporary directory.
pub struct Program {
    pub folder: TempDir,
    pub path: PathBuf,
}

/// The source of a program of these tests.
pub fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/debugger/programs")
        .join(name)
}

impl Program {
    pub fn build(name: &str, flags: &[&str]) -> Self {
        Self::build_in(tempfile::tempdir().unwrap(), name, flags)
    }

    /// The same, of C++.
    pub fn build_cpp(name: &str) -> Self {
        Self::build_with("c++", tempfile::tempdir().unwrap(), name, &[])
    }

    /// Builds it in a folder that is there already.
    pub fn build_in(folder: TempDir, name: &str, flags: &[&str]) -> Self {
        Self::build_with("cc", folder, name, flags)
    }

    fn build_with(compiler: &str, folder: TempDir, name: &str, flags: &[&str]) -> Self {
        let path = Cc::of(compiler)
            .options(&["-g", "-O0", "-fPIE", "-pie", "-pthread"])
            .options(flags)
            .source(source(name))
            .build_in(folder.path());
        Self { folder, path }
    }

    /// Connects GDB to the program through a pipe and gives it commands.
    pub fn debug(&self, commands: &[&str]) -> Said {
        self.debug_with("", commands)
    }

    /// The same, with options for the server.
    pub fn debug_with(&self, options: &str, commands: &[&str]) -> Said {
        let server = format!(
            "| {TRACEWIRE} gdbserver --once {options} - {}",
            self.path.display()
        );
        self.connect(&server, commands)
    }

    /// Connects GDB to the program by a separate server, and waits for the end of both, so that the program's output after GDB has
    /// gone is included.
    pub fn debug_to_the_end(&self, commands: &[&str]) -> Said {
        let mut server = Command::new(TRACEWIRE)
            .args(["gdbserver", "--once", "127.0.0.1:0"])
            .arg(&self.path)
            .current_dir(self.folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut errors = BufReader::new(server.stderr.take().unwrap());
        let mut line = String::new();
        let port = loop {
            line.clear();
            errors.read_line(&mut line).unwrap();
            if let Some(port) = line.strip_prefix("Listening on port ") {
                break port.trim();
            }
        };
        let mut said = self.connect(&format!(":{port}"), commands);
        errors.read_to_string(&mut said.errors).unwrap();
        server.wait().unwrap();
        said
    }

    pub fn connect(&self, server: &str, commands: &[&str]) -> Said {
        let connect = format!("target remote {server}");
        let gdb = Gdb::new().directory(self.folder.path());
        gdb.program(&self.path)
            .command(connect)
            .commands(commands)
            .run()
    }
}

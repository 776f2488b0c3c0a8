//! Programs built for a test, and GDB given commands.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

pub const TRACEWIRE: &str = env!("CARGO_BIN_EXE_tracewire");

/// A program in a folder of its own.
pub struct Program {
    pub folder: TempDir,
    pub path: PathBuf,
}

/// What GDB said, and what went to the error stream: the program's words too, since GDB's pipe is in use.
pub struct Said {
    pub output: String,
    pub errors: String,
}

impl Program {
    pub fn build(source: &str, flags: &[&str]) -> Self {
        let source = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/debugger/programs")
            .join(source);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(source.file_stem().unwrap());
        let status = Command::new("cc")
            .args(["-g", "-O0", "-fPIE", "-pie", "-pthread", "-o"])
            .arg(&path)
            .arg(&source)
            .args(flags)
            .status()
            .expect("cc is installed");
        assert!(status.success());
        Self { folder, path }
    }

    /// Connects GDB to the program through a pipe and gives it commands.
    pub fn debug(&self, commands: &[&str]) -> Said {
        self.debug_with("", commands)
    }

    /// The same, with options for the server.
    pub fn debug_with(&self, options: &str, commands: &[&str]) -> Said {
        let connect = format!(
            "target remote | {TRACEWIRE} gdbserver --once {options} - {}",
            self.path.display()
        );
        let mut gdb = Command::new("gdb");
        gdb.current_dir(self.folder.path()).args(["-nx", "-batch"]);
        let first = ["set pagination off", "set confirm off", "set sysroot"];
        for command in first.iter().chain([&connect.as_str()]).chain(commands) {
            gdb.args(["-ex", command]);
        }
        let output = gdb.arg(&self.path).output().expect("gdb is installed");
        Said {
            output: String::from_utf8_lossy(&output.stdout).into_owned(),
            errors: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl Said {
    #[track_caller]
    pub fn assert_in_order(&self, wanted: &[&str]) {
        let mut rest = self.output.as_str();
        for wanted in wanted {
            match rest.split_once(wanted) {
                Some((_, after)) => rest = after,
                None => panic!(
                    "`{wanted}` is not where it should be in:\n{}\nand beside it:\n{}",
                    self.output, self.errors
                ),
            }
        }
    }
}

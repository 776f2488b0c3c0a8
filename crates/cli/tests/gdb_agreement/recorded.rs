//! Programs built, recorded, and shown by Tracewire.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use tracewire_test_support::{assert_clean_but, is_unreadable};

/// How a program is built.
pub struct Build {
    compiler: &'static str,
    source: &'static str,
    arguments: Vec<&'static str>,
}

impl Build {
    pub fn cc(source: &'static str) -> Self {
        Self::with("cc", source)
    }

    pub fn cpp(source: &'static str) -> Self {
        Self::with("c++", source)
    }

    pub fn rust(source: &'static str) -> Self {
        Self::with("rustc", source)
    }

    fn with(compiler: &'static str, source: &'static str) -> Self {
        Self {
            compiler,
            source,
            arguments: vec!["-g"],
        }
    }

    pub fn arguments(mut self, arguments: &[&'static str]) -> Self {
        self.arguments.extend(arguments);
        self
    }

    fn program(&self, folder: &Path) -> PathBuf {
        let program = folder.join("program");
        run(Command::new(self.compiler)
            .args(&self.arguments)
            .arg("-o")
            .arg(&program)
            .arg(tests().join("programs").join(self.source)));
        program
    }
}

/// A recorded program and Tracewire's output about it.
pub struct Recorded {
    pub folder: TempDir,
    pub file: PathBuf,
    /// `tracewire info --json`.
    pub info: Value,
    /// `tracewire show --json`, a line a frame.
    pub frames: Vec<Value>,
    /// The commands that `tracewire show --gdb` prints for GDB.
    pub gdb_commands: Vec<String>,
}

impl Recorded {
    pub fn new(build: Build, script: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let program = build.program(folder.path());
        let file = folder.path().join("recorded.tf");
        record(tracewire(), &program, script, &file);
        Self::of(folder, file)
    }

    /// A program recorded into a trace file, and into a lean recording of which a trace file was made. Its addresses are the same both
    /// times.
    pub fn plain_and_lean(build: &Build, script: &str) -> [Self; 2] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let program = build.program(folder.path());
        let other = tempfile::tempdir().expect("a temporary folder");
        let plain = other.path().join("recorded.tf");
        let recording = folder.path().join("recorded.twr");
        for file in [&plain, &recording] {
            let mut tracewire = Command::new("setarch");
            tracewire.arg("-R").arg(env!("CARGO_BIN_EXE_tracewire"));
            record(tracewire, &program, script, file);
        }
        assert_clean_but(&recording, is_unreadable);
        let file = folder.path().join("converted.tf");
        run(tracewire().arg("convert").arg(&recording).arg(&file));
        let shown = |file: &Path| run(tracewire().args(["show", "--raw", "--json"]).arg(file));
        assert_eq!(shown(&recording), shown(&file));
        let sizes = [&plain, &recording].map(|file| {
            let metadata = std::fs::metadata(file);
            metadata.expect("it is there").len()
        });
        assert!(sizes[1] < sizes[0], "{sizes:?}");
        [Self::of(other, plain), Self::of(folder, file)]
    }

    fn of(folder: TempDir, file: PathBuf) -> Self {
        // The lists that are followed end at a null pointer.
        assert_clean_but(&file, is_unreadable);
        let lines = |arguments: &[&str]| {
            run(tracewire().args(arguments).arg(&file))
                .lines()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let json = |line: &String| serde_json::from_str(line).expect("a line of JSON");
        Self {
            info: json(&lines(&["info", "--json"])[0]),
            frames: lines(&["show", "--raw", "--json"])
                .iter()
                .map(json)
                .collect(),
            gdb_commands: lines(&["show", "--gdb"]),
            file,
            folder,
        }
    }
}

/// Records a program.
fn record(mut tracewire: Command, program: &Path, script: &str, file: &Path) {
    run(tracewire
        .arg("record")
        .arg("-x")
        .arg(tests().join("gdb_agreement").join(script))
        .arg("-o")
        .arg(file)
        .arg("--")
        .arg(program));
}

/// The folder of these tests.
pub fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

fn tracewire() -> Command {
    Command::new(env!("CARGO_BIN_EXE_tracewire"))
}

/// Runs a command that must succeed. Returns its output.
pub fn run(command: &mut Command) -> String {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

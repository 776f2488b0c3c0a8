//! DuckDB for tests: its Python package, in an environment of its own in the directory of the build.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The version that the tests are written for.
const DUCKDB: &str = "duckdb==2.0.0";

/// A Python with DuckDB, made the first time.
pub fn python() -> &'static Path {
    static PYTHON: OnceLock<PathBuf> = OnceLock::new();
    PYTHON.get_or_init(|| {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("duckdb-2.0.0");
        let python = directory.join("bin/python");
        let whole = directory.join("whole");
        if whole.exists() {
            return python;
        }
        let venv = Command::new("python3")
            .args(["-m", "venv"])
            .arg(&directory)
            .output()
            .expect("python3 runs");
        let said = String::from_utf8_lossy(&venv.stdout);
        assert!(
            venv.status.success(),
            "python3 -m venv (it is in the Debian package python3-venv): {said}"
        );
        let pip = Command::new(&python)
            .args(["-m", "pip", "install", "--quiet", DUCKDB])
            .output()
            .expect("pip runs");
        let said = String::from_utf8_lossy(&pip.stderr);
        assert!(pip.status.success(), "pip install {DUCKDB}: {said}");
        fs::write(whole, "").expect("written");
        python
    })
}

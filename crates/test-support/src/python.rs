//! A Python with packages of PyPI, in a separate environment.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The interpreter of an environment with these packages, such as `duckdb==2.0.0`. It is made the first time, in `directory`, whose name
/// has the versions.
///
/// # Panics
/// When the environment cannot be made, with the message of `venv` or `pip`.
#[must_use]
pub fn python_with(directory: &Path, packages: &[&str]) -> PathBuf {
    let python = directory.join("bin/python");
    let whole = directory.join("whole");
    if whole.exists() {
        return python;
    }
    let venv = Command::new("python3")
        .args(["-m", "venv"])
        .arg(directory)
        .output()
        .expect("python3 runs");
    let said = String::from_utf8_lossy(&venv.stdout);
    assert!(
        venv.status.success(),
        "python3 -m venv (it is in the Debian package python3-venv): {said}"
    );
    let pip = Command::new(&python)
        .args(["-m", "pip", "install", "--quiet"])
        .args(packages)
        .output()
        .expect("pip runs");
    let said = String::from_utf8_lossy(&pip.stderr);
    assert!(
        pip.status.success(),
        "pip install {}: {said}",
        packages.join(" ")
    );
    fs::write(whole, "").expect("written");
    python
}

//! Trace files written by GDB and gdbserver, and the files that belong to them.

use std::path::{Path, PathBuf};

/// The trace files: of a session of GDB with gdbserver (its program is `sample`, its source `sample.c`), and the two that
/// GDB's own test suite makes.
pub const SAMPLES: [&str; 3] = ["sample.tf", "tfile-basic.tf", "tfile-error.tf"];

/// The directory of the samples.
#[must_use]
pub fn samples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("samples")
}

/// The path of a sample.
///
/// # Panics
/// When there is none of this name.
#[must_use]
#[track_caller]
pub fn sample(name: &str) -> PathBuf {
    let path = samples().join(name);
    assert!(path.exists(), "no sample {name}");
    path
}

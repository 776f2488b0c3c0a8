//! DuckDB for tests: its Python package, in an environment in the build directory.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use tracewire_test_support::python_with;

/// A Python with DuckDB of the version that the tests are written for, made the first time.
pub fn python() -> &'static Path {
    static PYTHON: LazyLock<PathBuf> = LazyLock::new(|| {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("duckdb-2.0.0");
        python_with(&directory, &["duckdb==2.0.0"])
    });
    &PYTHON
}

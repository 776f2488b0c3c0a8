//! DuckDB and Spark for tests: their Python packages, in environments in the build directory.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use tracewire_test_support::python_with;

/// The versions that the tests are written for.
const DUCKDB: &str = "duckdb==2.0.0";
const SPARK: &str = "pyspark==4.3.0";

fn environment(name: &str, packages: &[&str]) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    python_with(&directory, packages)
}

/// A Python with DuckDB, made the first time.
#[allow(dead_code, reason = "no test uses all of it")]
pub fn python() -> &'static Path {
    static PYTHON: LazyLock<PathBuf> = LazyLock::new(|| environment("duckdb-2.0.0", &[DUCKDB]));
    &PYTHON
}

/// A Python with DuckDB and Spark, made the first time. Spark needs Java.
#[allow(dead_code, reason = "no test uses all of it")]
pub fn python_with_spark() -> &'static Path {
    static PYTHON: LazyLock<PathBuf> =
        LazyLock::new(|| environment("spark-4.3.0", &[DUCKDB, SPARK]));
    &PYTHON
}

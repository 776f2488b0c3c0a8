//! Examples of crates, run as their readers run them.

use std::path::PathBuf;
use std::process::Command;

/// The environment variable with the directory of the examples that were built with the tests, where `cargo xtask test` runs them.
const EXAMPLES: &str = "TRACEWIRE_EXAMPLES";

/// The command that runs an example of a crate; arguments can be added. Cargo builds it, unless it was built with the tests. Cargo
/// may build the crate's dependencies again, if other crates enable other features of them.
#[must_use]
pub fn example(package: &str, name: &str) -> Command {
    let built = std::env::var_os(EXAMPLES).map(|directory| PathBuf::from(directory).join(name));
    if let Some(program) = built.filter(|program| program.is_file()) {
        return Command::new(program);
    }
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .args(["run", "--quiet", "--package", package])
        .args(["--example", name, "--"]);
    cargo
}

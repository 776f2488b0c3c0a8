//! Where the workspace is, and how commands run in it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use anyhow::{Context, Result, bail};

/// The root of the workspace: of the one that cargo runs this for, since checkouts that share a target folder share this
/// program, too.
pub fn root() -> &'static Path {
    static MANIFEST: LazyLock<PathBuf> = LazyLock::new(|| {
        std::env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from)
    });
    MANIFEST.parent().unwrap_or(Path::new("."))
}

/// A cargo command in the workspace.
pub fn cargo(subcommand: &str) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.arg(subcommand).current_dir(root());
    command
}

/// Runs a command that must succeed; its output goes to ours.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("cannot start {command:?}"))?;
    if !status.success() {
        bail!("{command:?}: {status}");
    }
    Ok(())
}

/// Runs a command that must succeed and returns its stdout.
pub fn output(command: &mut Command) -> Result<String> {
    let output = command
        .output()
        .with_context(|| format!("cannot start {command:?}"))?;
    if !output.status.success() {
        bail!(
            "{command:?}: {}\n{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The release build of the `tracewire` program.
pub fn tracewire() -> Result<PathBuf> {
    run(cargo("build").args(["--release", "--quiet", "--package", "tracewire-cli"]))?;
    Ok(target().join("release/tracewire"))
}

/// Builds the plugin of QEMU with optimisation, and returns its path.
pub fn qemu_plugin() -> Result<PathBuf> {
    run(cargo("build").args(["--release", "--quiet", "--package", "tracewire-qemu-plugin"]))?;
    Ok(target().join("release/libtracewire_qemu_plugin.so"))
}

/// Cargo's build directory.
pub fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Builds the programs of the workspace `query`, for speed.
pub fn build_query() -> Result<()> {
    let mut build = cargo("build");
    build.args([
        "--release",
        "--quiet",
        "--manifest-path",
        "query/Cargo.toml",
    ]);
    run(build.args(["--target-dir", "target"]))
}

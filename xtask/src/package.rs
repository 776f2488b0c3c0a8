//! `cargo xtask package`: the Debian package, with manual pages and completions, and a program without shared libraries.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::workspace;

#[derive(clap::Args)]
pub struct Arguments {
    /// Make the Debian package only
    #[arg(long, conflicts_with = "only_static")]
    only_deb: bool,
    /// Build the static program only
    #[arg(long)]
    only_static: bool,
}

/// Where completions of each shell go, by the names that `tracewire completions` takes; `assets` in the program's Cargo.toml
/// has the same names.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "tracewire"),
    ("zsh", "_tracewire"),
    ("fish", "tracewire.fish"),
];

const MUSL: &str = "x86_64-unknown-linux-musl";
const GLIBC: &str = "x86_64-unknown-linux-gnu";

pub fn run(arguments: &Arguments) -> Result<()> {
    if !arguments.only_static {
        let package = debian_package()?;
        report("Debian package", &package)?;
    }
    if !arguments.only_deb {
        let program = static_program()?;
        report("static program", &program)?;
    }
    Ok(())
}

fn report(what: &str, path: &Path) -> Result<()> {
    let size = fs::metadata(path)
        .with_context(|| format!("{} was not made", path.display()))?
        .len();
    println!("{what}: {} ({size} bytes)", path.display());
    Ok(())
}

/// Builds the program, generates its manual pages and completions, and packs them.
fn debian_package() -> Result<PathBuf> {
    let tracewire = workspace::tracewire()?;
    let directory = workspace::target().join("release/package");
    let man = directory.join("man");
    // Pages of removed commands must not remain.
    if directory.exists() {
        fs::remove_dir_all(&directory)?;
    }
    fs::create_dir_all(&man)?;
    workspace::run(Command::new(&tracewire).arg("man").arg(&man))?;
    for (shell, name) in COMPLETIONS {
        let script = workspace::output(Command::new(&tracewire).args(["completions", shell]))?;
        let directory = directory.join(shell);
        fs::create_dir(&directory)?;
        fs::write(directory.join(name), script)?;
    }
    let printed = workspace::output(workspace::cargo("deb").args([
        "--package",
        "tracewire-cli",
        "--no-build",
        "--quiet",
    ]))
    .context("`cargo deb` failed; `cargo install cargo-deb --locked` installs it")?;
    let package = printed.trim();
    if package.is_empty() {
        bail!("cargo deb has named no package");
    }
    Ok(PathBuf::from(package))
}

/// Builds the program with musl, or with glibc's static libraries where Rust's musl target is not installed.
fn static_program() -> Result<PathBuf> {
    let has_musl = workspace::output(Command::new("rustc").args([
        "--print",
        "target-libdir",
        "--target",
        MUSL,
    ]))
    .is_ok_and(|directory| Path::new(directory.trim()).exists());
    let target = if has_musl { MUSL } else { GLIBC };
    eprintln!("building for {target}");
    workspace::run(
        workspace::cargo("build")
            .args(["--release", "--quiet", "--package", "tracewire-cli"])
            .args(["--target", target])
            // Not of build scripts and macros: those are for the target only where one is named.
            .env("RUSTFLAGS", "-C target-feature=+crt-static"),
    )?;
    let program = workspace::target().join(target).join("release/tracewire");
    let headers = workspace::output(Command::new("readelf").arg("-lW").arg(&program))?;
    if headers.contains("INTERP") {
        bail!("{} needs a dynamic linker", program.display());
    }
    Ok(program)
}

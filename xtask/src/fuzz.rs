//! `cargo xtask fuzz`: the fuzz targets under `fuzz/`, with the installed toolchain.
//!
//! A target runs as an unprivileged user if this runs as root, and in separate namespaces without a network: hostile input has no
//! effect outside. A target that tries many formats has parts, of one format each: `simulator_logs:spike`.

use std::fmt::{self, Write as _};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::{setup, workspace};

mod parts;

/// The target that has parts.
const WITH_PARTS: &str = "simulator_logs";

/// The user and the group that own nothing.
const NOBODY: u32 = 65534;

#[derive(clap::Args)]
pub struct Arguments {
    #[arg(help = help(), value_name = "TARGET")]
    targets: Vec<Target>,
    /// How many inputs each target gets
    #[arg(long, default_value_t = 100_000)]
    runs: u64,
    /// How long each target runs at most, in seconds; 0: as long as it takes
    #[arg(long, default_value_t = 0)]
    seconds: u64,
    /// How many bytes an input has at most; 0: the fuzzer chooses
    #[arg(long, default_value_t = 0)]
    longest: u64,
    /// The sanitizer to build with, or `none`: that is faster, and finds what is not about memory
    #[arg(long, default_value = "address")]
    sanitizer: String,
}

/// A target, or one part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Target {
    name: String,
    part: Option<&'static str>,
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, part) = match text.split_once(':') {
            None => (text, None),
            Some((WITH_PARTS, wanted)) => {
                let known = parts::PARTS.iter().find(|(part, _)| *part == wanted);
                let unknown = || format!("{WITH_PARTS} has the parts {}", parts::names());
                (WITH_PARTS, Some(known.ok_or_else(unknown)?.0))
            }
            Some(_) => return Err(format!("only {WITH_PARTS} has parts")),
        };
        let name = name.to_owned();
        Ok(Self { name, part })
    }
}

/// As it is given on the command line.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.part {
            None => f.pad(&self.name),
            Some(part) => f.pad(&format!("{}:{part}", self.name)),
        }
    }
}

impl Target {
    /// What its corpus and its findings are kept under.
    fn folder(&self) -> String {
        self.to_string().replace(':', "-")
    }
}

/// What `--help` says of the targets.
fn help() -> String {
    format!(
        "The targets to run; all of them by default. {WITH_PARTS}:PART gives all inputs to one format's reader: {}",
        parts::names()
    )
}

/// The result of a target.
struct Outcome {
    target: Target,
    inputs: u64,
    seconds: f64,
    findings: usize,
}

/// Runs the targets one after the other. A finding is an error, once all have run.
pub fn run(arguments: &Arguments) -> Result<()> {
    if setup::find_program("cargo-fuzz").is_none() {
        workspace::run(workspace::cargo("install").args(["cargo-fuzz", "--locked"]))?;
    }
    let targets = if arguments.targets.is_empty() {
        workspace::output(cargo_fuzz("list").arg("--fuzz-dir").arg("fuzz"))?
            .lines()
            .map(|name| Target {
                name: name.to_owned(),
                part: None,
            })
            .collect()
    } else {
        arguments.targets.clone()
    };
    let host = host()?;
    let mut outcomes = Vec::new();
    for target in &targets {
        workspace::run(
            cargo_fuzz("build")
                .args(["--fuzz-dir", "fuzz", "--release", "--debug-assertions"])
                .args(["--sanitizer", &arguments.sanitizer])
                .args(["--target", &host, &target.name]),
        )?;
        let built = format!("target/{host}/release/{}", target.name);
        outcomes.push(fuzz(target, Path::new(&built), arguments)?);
        print!("{}", table(&outcomes));
    }
    let findings: usize = outcomes.iter().map(|outcome| outcome.findings).sum();
    if findings > 0 {
        bail!("{findings} findings, in fuzz/artifacts");
    }
    Ok(())
}

fn table(outcomes: &[Outcome]) -> String {
    let mut table = format!(
        "{:<28} {:>12} {:>10} {:>9}\n",
        "target", "inputs", "inputs/s", "findings"
    );
    for outcome in outcomes {
        let _ = writeln!(
            table,
            "{:<28} {:>12} {:>10.0} {:>9}",
            outcome.target,
            outcome.inputs,
            outcome.inputs as f64 / outcome.seconds,
            outcome.findings
        );
    }
    table
}

/// The compiler's name of this machine.
fn host() -> Result<String> {
    let version = workspace::output(Command::new("rustc").arg("-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc does not say its host")?.to_owned())
}

/// Runs a target that has been built.
fn fuzz(target: &Target, built: &Path, arguments: &Arguments) -> Result<Outcome> {
    let folder = workspace::root().join("fuzz");
    let (corpus, artifacts) = (
        folder.join("corpus").join(target.folder()),
        folder.join("artifacts").join(target.folder()),
    );
    let built = folder.join(built);
    // The unprivileged user may not get into the checkout.
    let room = tempfile::tempdir()?;
    let own = ["program", "corpus", "artifacts"].map(|name| room.path().join(name));
    let [program, own_corpus, own_artifacts] = &own;
    std::fs::copy(&built, program).with_context(|| format!("no {}", built.display()))?;
    copy(&corpus, own_corpus)?;
    copy(&artifacts, own_artifacts)?;
    let before = std::fs::read_dir(own_artifacts)?.count();
    if is_root() {
        give_away(room.path())?;
    }
    let begun = Instant::now();
    let mut command = confined(program);
    match target.part {
        Some(part) => command.env(parts::VARIABLE, part),
        None => command.env_remove(parts::VARIABLE),
    };
    let mut child = command
        .arg(own_corpus)
        .arg(format!("-artifact_prefix={}/", own_artifacts.display()))
        .arg(format!("-runs={}", arguments.runs))
        .arg(format!("-max_total_time={}", arguments.seconds))
        .arg(format!("-max_len={}", arguments.longest))
        .arg("-print_final_stats=1")
        .current_dir(room.path())
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut inputs = 0;
    let messages = child.stderr.take().context("no messages")?;
    for line in BufReader::new(messages).split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        eprintln!("{line}");
        // The last line with the number: `#4096 pulse …`, and at the end `stat::number_of_executed_units: 4096`.
        let number = line
            .strip_prefix("stat::number_of_executed_units:")
            .or_else(|| line.strip_prefix('#')?.split_whitespace().next());
        if let Some(number) = number.and_then(|number| number.trim().parse().ok()) {
            inputs = number;
        }
    }
    let status = child.wait()?;
    let seconds = begun.elapsed().as_secs_f64();
    copy(own_corpus, &corpus)?;
    copy(own_artifacts, &artifacts)?;
    let findings = std::fs::read_dir(&artifacts)?.count() - before;
    if !status.success() && findings == 0 {
        bail!("{target} has ended by {status}, and has left no input");
    }
    Ok(Outcome {
        target: target.clone(),
        inputs,
        seconds,
        findings,
    })
}

fn is_root() -> bool {
    // SAFETY: geteuid cannot fail and touches nothing.
    unsafe { libc::geteuid() == 0 }
}

/// Runs a program without privileges, a network, and others' processes.
fn confined(program: &Path) -> Command {
    let mut command = Command::new("unshare");
    if !is_root() {
        command.arg("--user");
    }
    command.args(["--net", "--ipc", "--pid", "--fork", "--kill-child", "--"]);
    if is_root() {
        let (user, group) = (format!("--reuid={NOBODY}"), format!("--regid={NOBODY}"));
        command.args(["setpriv", &user, &group, "--clear-groups"]);
        command.args(["--no-new-privs", "--bounding-set=-all", "--"]);
    }
    command.arg(program);
    command
}

/// Copies the files of a folder, which may not be there yet, into another one.
fn copy(from: &Path, into: &Path) -> Result<()> {
    std::fs::create_dir_all(into)?;
    let files: Vec<PathBuf> = match std::fs::read_dir(from) {
        Ok(entries) => entries
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<Result<_, _>>()?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    for file in files {
        let name = file.file_name().context("a file without a name")?;
        std::fs::copy(&file, into.join(name))?;
    }
    Ok(())
}

/// Makes a folder and all in it the unprivileged user's.
fn give_away(path: &Path) -> Result<()> {
    if path.is_dir() {
        for entry in std::fs::read_dir(path)? {
            give_away(&entry?.path())?;
        }
    }
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o700))?;
    chown(path, Some(NOBODY), Some(NOBODY))?;
    Ok(())
}

/// `cargo fuzz` needs unstable compiler flags, which a stable compiler accepts with this variable set.
fn cargo_fuzz(subcommand: &str) -> Command {
    let mut command = workspace::cargo("fuzz");
    command.arg(subcommand).env("RUSTC_BOOTSTRAP", "1");
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_known_by_name_and_documented() {
        let document = workspace::root().join("CONTRIBUTING.md");
        let document = std::fs::read_to_string(document).expect("CONTRIBUTING.md");
        for (part, beginnings) in parts::PARTS {
            let target: Target = format!("{WITH_PARTS}:{part}").parse().expect("a part");
            assert_eq!(target.part, Some(part));
            assert_eq!(target.folder(), format!("{WITH_PARTS}-{part}"));
            assert!(!beginnings.is_empty());
            assert!(document.contains(&format!("`{part}`")), "{part}");
        }
        let refused = "simulator_logs:none"
            .parse::<Target>()
            .expect_err("no part");
        assert!(refused.contains("spike, gem5"), "{refused}");
        assert!("etrace:spike".parse::<Target>().is_err());
    }
}

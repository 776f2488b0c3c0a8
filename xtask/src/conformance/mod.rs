//! `cargo xtask conformance`: GDB's own test suite against Tracewire and against gdbserver, test by test.
//!
//! GDB is not built: the suite of its source package runs with the installed GDB as the client. The tests are those of
//! one of four suites ([`Suite`]). gdbserver's results stand in the repository (`xtask/conformance/gdbserver.txt`), so
//! that Tracewire alone is run unless asked otherwise. Differences that are not Tracewire's to mend stand in
//! `xtask/conformance/known.toml`, each with its reason; those of the proxy in `known-proxy.toml`.

mod baseline;
mod compare;
mod folder;
mod known;
mod list;
mod report;
mod run;
mod sum;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::gdb::source;
use crate::{setup, workspace};
use baseline::Baseline;
use folder::Folder;
use known::Known;
use list::{Board, Test};
use sum::FileResult;

/// Where the lists stand.
fn lists() -> PathBuf {
    workspace::root().join("xtask/conformance")
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Suite {
    /// gdb.trace: tracepoints
    Trace,
    /// gdb.server: what a server is asked on its command line and at its edges
    Server,
    /// What gdb.base and gdb.threads have on running a program: the list is xtask/conformance/base.txt
    Base,
    /// What gdb.base has on the values of a program: memory, registers, calls of functions, core files. The list is
    /// xtask/conformance/values.txt
    Values,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Server {
    /// Run Tracewire, and compare with the results of gdbserver that are in the repository
    Tracewire,
    /// Run gdbserver
    Gdbserver,
    /// Run both
    Both,
    /// Run `tracewire proxy` in front of gdbserver, whose tracepoints are hidden, and compare with gdbserver alone; the board is
    /// the native one
    Proxy,
}

#[derive(clap::Args)]
pub struct Arguments {
    /// Test files: `gdb.base/break.exp`, `break.exp` or `break`
    files: Vec<String>,
    /// The suites to run; all of them if no files are named either
    #[arg(long)]
    suite: Vec<Suite>,
    /// Whose results are wanted
    #[arg(long, default_value = "tracewire")]
    server: Server,
    /// Run every file on this board rather than on the one its list names
    #[arg(long)]
    board: Option<Board>,
    /// GDB's unpacked source; fetched with apt-get if there is none
    #[arg(long, value_name = "DIR")]
    source: Option<PathBuf>,
    /// The `tracewire` program to run; built (without optimisation) if none is named
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// How many files run at a time
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// How long a file may take, in seconds; one that takes longer hangs
    #[arg(long, default_value_t = 400)]
    limit: u64,
    /// Write gdbserver's results into the repository
    #[arg(long)]
    write_baseline: bool,
    /// Leave the results of an earlier run as they are, and run only what has none
    #[arg(long)]
    resume: bool,
    /// List what Tracewire alone passes, too
    #[arg(long)]
    verbose: bool,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    setup::provide(setup::FOR_CONFORMANCE)?;
    if arguments.write_baseline && !matches!(arguments.server, Server::Gdbserver | Server::Both) {
        bail!("--write-baseline needs --server gdbserver or --server both");
    }
    let cache = workspace::target().join("conformance");
    let source = match &arguments.source {
        Some(folder) => folder.clone(),
        None => source::fetched(&cache)?,
    };
    let suite = source.join("gdb/testsuite");
    if !suite.join("lib/gdb.exp").is_file() {
        bail!("{} holds no gdb/testsuite", source.display());
    }
    let tests = list::chosen(arguments, &suite)?;
    let known = Known::read(&lists().join(match arguments.server {
        Server::Proxy => "known-proxy.toml",
        _ => "known.toml",
    }))?;
    let baseline_file = lists().join("gdbserver.txt");
    let mut baseline = Baseline::read(&baseline_file)?;

    if matches!(arguments.server, Server::Gdbserver | Server::Both) {
        let gdbserver = gdbserver()?;
        let folder = Folder::new(&cache, "gdbserver", &suite, &gdbserver)?;
        for (test, result) in run_all(arguments, &folder, &tests)? {
            baseline.set(test, result);
        }
    }
    if arguments.write_baseline {
        baseline.write(&baseline_file)?;
    }
    let ours = if arguments.server == Server::Gdbserver {
        BTreeMap::new()
    } else {
        let program = match &arguments.program {
            Some(program) => std::path::absolute(program)?,
            None => built()?,
        };
        let (name, server) = match arguments.server {
            Server::Proxy => ("proxy", proxied(&cache, &program)?),
            _ => ("tracewire", wrapper(&cache, &program)?),
        };
        let folder = Folder::new(&cache, name, &suite, &server)?;
        run_all(arguments, &folder, &tests)?
    };
    if !report::report(&tests, &baseline, &ours, &known, arguments.verbose) {
        std::process::exit(1);
    }
    Ok(())
}

fn run_all(
    arguments: &Arguments,
    folder: &Folder,
    tests: &[Test],
) -> Result<BTreeMap<Test, FileResult>> {
    run::all(
        folder,
        tests,
        &run::Way {
            jobs: arguments.jobs.max(1),
            limit: std::time::Duration::from_secs(arguments.limit),
            resume: arguments.resume,
        },
    )
}

/// The program as the tests of the workspace have it.
fn built() -> Result<PathBuf> {
    workspace::run(workspace::cargo("build").args(["--quiet", "--package", "tracewire-cli"]))?;
    Ok(workspace::target().join("debug/tracewire"))
}

fn gdbserver() -> Result<PathBuf> {
    setup::find_program("gdbserver").context("there is no gdbserver")
}

/// An executable with gdbserver's command line: the suite takes no words after the name.
fn wrapper(cache: &Path, program: &Path) -> Result<PathBuf> {
    let name = program.to_str().context("a path that is not UTF-8")?;
    // The suite writes files into its own folder, where the server is started.
    let text = format!("#!/bin/sh\nexec '{name}' gdbserver --files . \"$@\"\n");
    script(cache, "gdbserver", &text)
}

/// The same with gdbserver behind the proxy.
fn proxied(cache: &Path, program: &Path) -> Result<PathBuf> {
    let (proxy, gdbserver) = (program.display(), gdbserver()?);
    let gdbserver = gdbserver.display();
    let text = format!("#!/bin/bash\nproxy='{proxy}'\ngdbserver='{gdbserver}'\n{PROXIED}");
    script(cache, "gdbserver-behind-proxy", &text)
}

/// Becomes gdbserver at another port, with the proxy at the one that was asked for. What gdbserver starts has the terminal of gdbserver's
/// standard error, and ignores no signals: it must not be a shell's child in the background, nor be listened to. GDB tries again until
/// the proxy is there, too.
const PROXIED: &str = r#"
options=()
once=()
while [[ ${1-} == --* ]]; do
    [[ $1 == --once ]] && once=(--once)
    options+=("$1")
    shift
done
# What is no server at a port is not behind the proxy.
case ${1-} in
    *:[0-9]*) address=$1; shift ;;
    *) exec "$gdbserver" "${options[@]}" "$@" ;;
esac
wanted=${address##*:}
port=$((wanted + 20000))
listens() {
    local entry
    printf -v entry ':%04X 0+:0000 0A ' "$1"
    grep -qE "$entry" /proc/net/tcp /proc/net/tcp6
}
# Another file of the suite that runs beside this one may have asked for the same port: its proxy has the lock.
exec 9>"$0-$wanted.lock"
if ! flock --nonblock 9 || listens "$wanted"; then
    # The suite tries the next port then.
    echo "Can't bind address: Address already in use." >&2
    exit 1
fi
proxied() {
    # A connection for a trial would be the one that gdbserver takes.
    until listens "$port"; do
        kill -0 $$ || return
        sleep 0.02
    done
    exec "$proxy" proxy "$address" "${once[@]}" --files . --hide-tracepoints --upstream "localhost:$port"
}
proxied </dev/null >&2 &
exec "$gdbserver" "${options[@]}" "localhost:$port" "$@" 9>&-
"#;

fn script(cache: &Path, name: &str, text: &str) -> Result<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let folder = cache.join("bin");
    std::fs::create_dir_all(&folder)?;
    let file = folder.join(name);
    std::fs::write(&file, text)?;
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755))?;
    Ok(file)
}

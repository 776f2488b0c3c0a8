//! Runs the tests: a test program at a time, each with a limit on its time, and a summary at the end.
//!
//! `cargo test` waits for a test program without a limit. A test that hangs then blocks the whole run, and its name is not printed.
//! Here a program that exceeds its limit is ended, with all its descendants. What their threads did is printed then, and with the
//! failures at the end: libtest gives a thread the name of its test.

use std::fmt::Write;
use std::io::BufReader;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use cargo_metadata::Message;
use clap::Args;

use crate::{setup, workspace};

/// Test programs that take longer than a few seconds: `--fast` leaves them out.
const SLOW: &[(&str, &str)] = &[
    ("cli", "attributes"),
    ("cli", "commands"),
    ("cli", "documents"),
    ("cli", "kills"),
    ("cli", "places"),
    ("cli", "storm"),
    ("diagnose", "repair"),
];

/// The environment variable that identifies a process that a test started.
const MARK: &str = "TRACEWIRE_TEST_PROGRAM";

/// The environment variable with the directory of the examples, which are built with the tests: a test need not build one again.
const EXAMPLES: &str = "TRACEWIRE_EXAMPLES";

/// How long the processes that seem to be in the middle of an exec are waited for.
const EXEC_LIMIT: Duration = Duration::from_secs(1);

/// Cargo's options that select targets: it takes none of them together with `--doc`.
const TARGET_SELECTIONS: &[&str] = &[
    "--all-targets",
    "--bench",
    "--benches",
    "--bin",
    "--bins",
    "--example",
    "--examples",
    "--lib",
    "--test",
    "--tests",
];

/// How many threads of a process are printed when a test program is ended.
const THREADS_SHOWN: usize = 64;

#[derive(Args)]
pub struct Arguments {
    /// Leave out the test programs that take longer than a few seconds, and the examples in the documentation
    #[arg(long)]
    fast: bool,
    /// End a test program that runs longer than this, and count it as failed
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    limit: u64,
    /// Handed on to `cargo test`, for instance `-p tracewire-tracefile`; what follows another `--` goes to the test programs
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    cargo_arguments: Vec<String>,
}

/// A test program that cargo built.
struct TestProgram {
    package: String,
    target: String,
    is_unit_tests: bool,
    directory: PathBuf,
    executable: PathBuf,
    /// Where the examples are that were built with it.
    examples: Option<PathBuf>,
}

/// How a test program ended.
enum End {
    Passed,
    Failed(ExitStatus),
    /// It exceeded its limit. The text says what its processes did then.
    TooLong(String),
}

pub fn run(arguments: &Arguments) -> Result<()> {
    setup::provide(setup::FOR_TESTS)?;
    let mut cargo_arguments = arguments.cargo_arguments.clone();
    let mut for_programs = match cargo_arguments.iter().position(|word| word == "--") {
        Some(at) => cargo_arguments.split_off(at),
        None => Vec::new(),
    };
    if !for_programs.is_empty() {
        for_programs.remove(0);
    }
    if cargo_arguments.is_empty() {
        cargo_arguments.push("--workspace".into());
    }

    let mut programs = build(&cargo_arguments)?;
    if arguments.fast {
        programs.retain(|program| !SLOW.contains(&(&*program.package, &*program.target)));
    }
    let limit = Duration::from_secs(arguments.limit);
    let mut times = Vec::new();
    let mut failed = Vec::new();
    for program in &programs {
        let name = format!("{} {}", program.package, program.target);
        eprintln!("\n     Running {name} ({})", program.executable.display());
        let started = Instant::now();
        let end = program.run(&for_programs, limit)?;
        times.push((started.elapsed(), name.clone()));
        match end {
            End::Passed => {}
            End::Failed(status) => failed.push(format!("{name}: {status}")),
            End::TooLong(what_ran) => failed.push(format!(
                "{name}: ended after {limit:?}, when this ran:\n{what_ran}"
            )),
        }
    }
    let selects_targets = cargo_arguments
        .iter()
        .any(|word| TARGET_SELECTIONS.contains(&word.as_str()));
    if !arguments.fast && for_programs.is_empty() && !selects_targets {
        let started = Instant::now();
        let status = workspace::cargo("test")
            .arg("--doc")
            .arg("--no-fail-fast")
            .args(&cargo_arguments)
            .status()
            .context("cannot start cargo")?;
        times.push((started.elapsed(), "examples in the documentation".into()));
        if !status.success() {
            failed.push(format!("examples in the documentation: {status}"));
        }
    }
    if !arguments.fast && arguments.cargo_arguments.is_empty() {
        let started = Instant::now();
        // A separate workspace; the parts that it shares with this one are built in the same directory.
        let status = workspace::cargo("test")
            .args(["--manifest-path", "query/Cargo.toml", "--workspace"])
            .args(["--target-dir", "target", "--no-fail-fast"])
            .status()
            .context("cannot start cargo")?;
        times.push((started.elapsed(), "query".into()));
        if !status.success() {
            failed.push(format!("query: {status}"));
        }
    }

    times.sort_by(|left, right| right.cmp(left));
    let total: Duration = times.iter().map(|(time, _)| *time).sum();
    eprintln!(
        "\n{} test programs in {:.0} s; the longest:",
        times.len(),
        total.as_secs_f64()
    );
    for (time, name) in times.iter().take(10) {
        eprintln!("  {:6.1} s  {name}", time.as_secs_f64());
    }
    if !failed.is_empty() {
        bail!("failed:\n  {}", failed.join("\n  "));
    }
    Ok(())
}

/// Builds the test programs, as `cargo test` would, and lists them in the order in which cargo runs them.
fn build(cargo_arguments: &[String]) -> Result<Vec<TestProgram>> {
    let mut cargo = workspace::cargo("test")
        .args(["--no-run", "--message-format=json-render-diagnostics"])
        .args(cargo_arguments)
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start cargo")?;
    let messages = BufReader::new(cargo.stdout.take().context("cargo has no output")?);
    let (mut programs, mut examples) = (Vec::new(), None);
    for message in Message::parse_stream(messages) {
        let Message::CompilerArtifact(artifact) = message.context("cargo's messages")? else {
            continue;
        };
        if let (true, Some(example)) = (artifact.target.is_example(), &artifact.executable) {
            examples = example.parent().map(PathBuf::from);
        }
        let (true, Some(executable)) = (artifact.profile.test, artifact.executable) else {
            continue;
        };
        let directory = artifact
            .manifest_path
            .parent()
            .context("a manifest has a directory")?;
        programs.push(TestProgram {
            package: directory.file_name().unwrap_or_default().to_owned(),
            target: artifact.target.name.clone(),
            is_unit_tests: !artifact.target.is_test(),
            directory: directory.into(),
            executable: executable.into(),
            examples: None,
        });
    }
    for program in &mut programs {
        program.examples.clone_from(&examples);
    }
    let status = cargo.wait().context("cargo")?;
    if !status.success() {
        bail!("the tests cannot be built: {status}");
    }
    programs.sort_by_key(|program| {
        (
            program.package.clone(),
            !program.is_unit_tests,
            program.target.clone(),
        )
    });
    Ok(programs)
}

impl TestProgram {
    fn run(&self, arguments: &[String], limit: Duration) -> Result<End> {
        // All processes of a test inherit this, so that they are found when their parent has ended.
        static RUNS: AtomicU64 = AtomicU64::new(0);
        let run = RUNS.fetch_add(1, Ordering::Relaxed);
        let mark = format!("{}.{run}", std::process::id());
        let child = Command::new(&self.executable)
            .args(arguments)
            .current_dir(&self.directory)
            .env("CARGO_MANIFEST_DIR", &self.directory)
            .env(MARK, &mark)
            .envs(self.examples.iter().map(|directory| (EXAMPLES, directory)))
            .spawn()
            .with_context(|| format!("cannot start {}", self.executable.display()))?;
        let end = wait(child, &mark, limit)?;
        for process in marked(&mark)? {
            eprintln!("left running by the tests, and killed:");
            eprint!("{}", process.describe());
            process.kill();
        }
        Ok(end)
    }
}

/// Waits for a test program. When its time is over, prints what it and its descendants do, and ends them.
fn wait(mut child: Child, mark: &str, limit: Duration) -> Result<End> {
    let (report, ended) = mpsc::channel();
    let waiting = std::thread::spawn(move || report.send(child.wait()));
    let end = match ended.recv_timeout(limit) {
        Ok(status) => {
            let status = status.context("cannot wait for a test program")?;
            if status.success() {
                End::Passed
            } else {
                End::Failed(status)
            }
        }
        Err(_) => {
            let mut what_runs = String::new();
            for process in marked(mark)? {
                what_runs += &process.describe();
                process.kill();
            }
            let limit = limit.as_secs();
            eprintln!("\nits {limit} s are over; this is what runs:\n{what_runs}");
            End::TooLong(what_runs)
        }
    };
    // After the kill at the latest, the program has ended.
    drop(waiting.join());
    Ok(end)
}

/// A process that a test program started, or the test program itself.
struct MarkedProcess {
    process: i32,
}

/// The running processes with a mark in their environment.
fn marked(mark: &str) -> Result<Vec<MarkedProcess>> {
    let entry = format!("{MARK}={mark}");
    let own_start = start_time(std::process::id().cast_signed()).context("/proc/self/stat")?;
    let limit = Instant::now() + EXEC_LIMIT;
    let mut found = Vec::new();
    for file in std::fs::read_dir("/proc").context("/proc")? {
        let file = file.context("/proc")?;
        let Some(process) = file.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // Processes of others cannot be read, and a process may end meanwhile.
        let Ok(environment) = environment(process, own_start, limit) else {
            continue;
        };
        if environment
            .split(|byte| *byte == 0)
            .any(|variable| variable == entry.as_bytes())
        {
            found.push(MarkedProcess { process });
        }
    }
    Ok(found)
}

/// The environment of a process, in the form of `environ` of proc(5). During an exec it may read as empty, or as the beginning of
/// the previous one. So for a process that started after this program it is read until two readings are the same.
fn environment(process: i32, own_start: u64, limit: Instant) -> std::io::Result<Vec<u8>> {
    let read = || std::fs::read(format!("/proc/{process}/environ"));
    let mut environment = read()?;
    while start_time(process).is_some_and(|start| start >= own_start) && Instant::now() < limit {
        let again = read()?;
        if again == environment && !again.is_empty() {
            break;
        }
        environment = again;
    }
    Ok(environment)
}

/// When a process started, in clock ticks since the machine did; none when it has ended.
fn start_time(process: i32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name, the second field, can contain any byte. The state is the third, the time the 22nd.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    if matches!(*fields.first()?, "Z" | "X") {
        return None;
    }
    fields.get(22 - 3)?.parse().ok()
}

impl MarkedProcess {
    fn read(&self, file: &str) -> String {
        std::fs::read_to_string(format!("/proc/{}/{file}", self.process))
            .map(|text| text.replace('\0', " ").trim().to_owned())
            .unwrap_or_else(|error| error.to_string())
    }

    /// The command, and of each thread its name, its state, its tracer, where in the kernel it waits, and its system call with
    /// arguments, stack pointer and instruction pointer (proc_pid_syscall(5)); in a line each.
    fn describe(&self) -> String {
        let mut text = format!("process {}: {}\n", self.process, self.read("cmdline"));
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.process));
        for task in tasks.into_iter().flatten().flatten().take(THREADS_SHOWN) {
            let thread = task.file_name();
            let file = |name: &str| self.read(&format!("task/{}/{name}", thread.display()));
            let status = file("status");
            let field = |name: &str| {
                let line = status.lines().find_map(|line| line.strip_prefix(name));
                line.unwrap_or("?").trim().to_owned()
            };
            let _ = writeln!(
                text,
                "  thread {} {}: {}, tracer {}, in {}, system call {}",
                thread.display(),
                file("comm"),
                field("State:"),
                field("TracerPid:"),
                file("wchan"),
                file("syscall")
            );
        }
        text
    }

    fn kill(&self) {
        // SAFETY: kill takes no pointers.
        unsafe { libc::kill(self.process, libc::SIGKILL) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a shell script as if it were a test program, and gives how it ended and the pid that it wrote.
    fn run(script: &str, limit: Duration) -> (End, i32) {
        let directory = tempfile::tempdir().unwrap();
        let program = TestProgram {
            package: "xtask".into(),
            target: "script".into(),
            is_unit_tests: false,
            directory: directory.path().into(),
            executable: "/bin/sh".into(),
            examples: None,
        };
        let end = program.run(&["-c".into(), script.into()], limit).unwrap();
        let pid = std::fs::read_to_string(directory.path().join("pid")).unwrap();
        (end, pid.trim().parse().unwrap())
    }

    fn runs(process: i32) -> bool {
        let state = std::fs::read_to_string(format!("/proc/{process}/stat"));
        state.is_ok_and(|state| !state.contains(") Z "))
    }

    /// Waits until a killed process has ended.
    fn ends(process: i32) -> bool {
        let limit = Instant::now() + Duration::from_secs(30);
        while runs(process) && Instant::now() < limit {
            std::thread::yield_now();
        }
        !runs(process)
    }

    #[test]
    fn a_program_that_hangs_is_ended_with_what_it_started() {
        let (end, pid) = run("sleep 1000 & echo $! > pid; wait", Duration::from_secs(3));
        let End::TooLong(what_ran) = end else {
            panic!("it was not ended");
        };
        assert!(what_ran.contains("sleep 1000"), "{what_ran}");
        assert!(ends(pid));
    }

    #[test]
    fn what_a_program_leaves_running_is_killed() {
        // Some of the children are in the middle of an exec when the program ends.
        for _ in 0..50 {
            let (end, pid) = run(
                "setsid sleep 1000 & echo $! > pid; exit 3",
                Duration::from_secs(60),
            );
            assert!(matches!(end, End::Failed(status) if status.code() == Some(3)));
            assert!(ends(pid));
        }
    }
}

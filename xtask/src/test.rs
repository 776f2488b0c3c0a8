//! Runs the tests: as many test programs at a time as there are cpus, each with a limit on its time, and a summary at the end.
//!
//! `cargo test` runs one test program after the other. The last test of each, and tests that wait, leave cpus idle. It waits for a
//! test program without a limit, too: a test that hangs blocks the whole run, and its name is not printed. Here a program that exceeds
//! its limit is ended, with all its descendants. What their threads did is printed then, and with the failures at the end: libtest
//! gives a thread the name of its test.

use std::collections::VecDeque;
use std::fmt::Write;
use std::fs::File;
use std::io::{BufReader, Read, Seek};
use std::num::NonZero;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use cargo_metadata::Message;
use clap::Args;

use crate::{setup, workspace};

/// Test programs that take longer than a few seconds. They run first, so that none is left to run alone at the end, and `--fast`
/// leaves them out.
const SLOW: &[(&str, &str)] = &[
    ("cli", "values"),
    ("cli", "commands"),
    ("server", "replay"),
    ("cli", "places"),
    ("cli", "convert"),
    ("cli", "qemu"),
    ("cli", "documents"),
    ("cli", "attributes"),
    ("cli", "remote"),
    ("cli", "agent"),
    ("jump-pad", "state"),
    ("target-linux", "torture"),
    ("cli", "storm"),
    ("cli", "kills"),
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
    /// How many test programs run at a time; with several, the output of each is printed when it has ended [default: the number of
    /// cpus]
    #[arg(long, value_name = "NUMBER")]
    jobs: Option<NonZero<usize>>,
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

/// A command that runs tests.
struct Job {
    name: String,
    command: Command,
    /// It is ended when it runs longer.
    limit: Option<Duration>,
}

/// How a job ended.
enum End {
    Passed,
    Failed(ExitStatus),
    /// It exceeded its limit. The text says what its processes did then.
    TooLong(String),
}

/// A job that has ended.
struct Ended {
    name: String,
    took: Duration,
    end: End,
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
    // Those that are not among them keep their order.
    let slow = |program: &TestProgram| {
        let mut all = SLOW.iter();
        all.position(|slow| *slow == (&*program.package, &*program.target))
    };
    programs.sort_by_key(|program| slow(program).unwrap_or(SLOW.len()));
    if arguments.fast {
        programs.retain(|program| slow(program).is_none());
    }
    let limit = Duration::from_secs(arguments.limit);
    let mut jobs = VecDeque::new();
    if !arguments.fast && arguments.cargo_arguments.is_empty() {
        jobs.push_back(query()?);
    }
    let programs = programs.iter();
    jobs.extend(programs.map(|program| program.job(&for_programs, limit)));
    let selects_targets = cargo_arguments
        .iter()
        .any(|word| TARGET_SELECTIONS.contains(&word.as_str()));
    if !arguments.fast && for_programs.is_empty() && !selects_targets {
        let mut command = workspace::cargo("test");
        command.args(["--doc", "--no-fail-fast"]);
        command.args(&cargo_arguments);
        jobs.push_back(Job {
            name: "examples in the documentation".into(),
            command,
            limit: None,
        });
    }
    let at_a_time = match arguments.jobs {
        Some(jobs) => jobs,
        None => std::thread::available_parallelism().context("the number of cpus")?,
    };
    let started = Instant::now();
    let mut ended = run_jobs(jobs, at_a_time)?;

    eprintln!(
        "\n{} test programs in {:.0} s; the longest:",
        ended.len(),
        started.elapsed().as_secs_f64()
    );
    ended.sort_by_key(|one| std::cmp::Reverse(one.took));
    for Ended { name, took, .. } in ended.iter().take(10) {
        eprintln!("  {:6.1} s  {name}", took.as_secs_f64());
    }
    let failed: Vec<String> = ended.iter().filter_map(Ended::failure).collect();
    if !failed.is_empty() {
        bail!("failed:\n  {}", failed.join("\n  "));
    }
    Ok(())
}

/// Builds the tests of the query workspace, and gives the job that runs them. The parts that the two workspaces share are built in the
/// same directory.
fn query() -> Result<Job> {
    let test = || {
        let mut cargo = workspace::cargo("test");
        cargo.args(["--manifest-path", "query/Cargo.toml", "--workspace"]);
        cargo.args(["--target-dir", "target", "--no-fail-fast"]);
        cargo
    };
    workspace::run(test().arg("--no-run"))?;
    Ok(Job {
        name: "query".into(),
        command: test(),
        limit: None,
    })
}

/// Runs jobs, so many at a time.
fn run_jobs(jobs: VecDeque<Job>, at_a_time: NonZero<usize>) -> Result<Vec<Ended>> {
    let workers = at_a_time.get().min(jobs.len());
    let (jobs, all) = (Mutex::new(jobs), Mutex::new(Vec::new()));
    let next = || {
        let mut jobs = jobs.lock().unwrap_or_else(PoisonError::into_inner);
        jobs.pop_front()
    };
    let work = || -> Result<()> {
        while let Some(job) = next() {
            let (name, started) = (job.name.clone(), Instant::now());
            eprintln!("\n     Running {name} ({:?})", job.command.get_program());
            // One at a time prints for itself.
            let mut output = (workers > 1).then(tempfile::tempfile).transpose()?;
            let end = job.run(output.as_ref())?;
            let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(output) = &mut output {
                let mut text = Vec::new();
                output.rewind()?;
                output.read_to_end(&mut text)?;
                let took = started.elapsed().as_secs_f64();
                let text = String::from_utf8_lossy(&text);
                eprintln!("\n     Output of {name}, {took:.1} s:\n{text}");
            }
            if let End::TooLong(what_ran) = &end {
                eprintln!("\nits time is over; this is what runs:\n{what_ran}");
            }
            all.push(Ended {
                name,
                took: started.elapsed(),
                end,
            });
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        let ends = workers.into_iter().map(|worker| match worker.join() {
            Ok(end) => end,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        ends.collect::<Result<()>>()
    })?;
    Ok(all.into_inner().unwrap_or_else(PoisonError::into_inner))
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
    fn job(&self, arguments: &[String], limit: Duration) -> Job {
        let mut command = Command::new(&self.executable);
        command
            .args(arguments)
            .current_dir(&self.directory)
            .env("CARGO_MANIFEST_DIR", &self.directory)
            .envs(self.examples.iter().map(|directory| (EXAMPLES, directory)));
        Job {
            name: format!("{} {}", self.package, self.target),
            command,
            limit: Some(limit),
        }
    }
}

impl Job {
    /// Runs it, and kills what it leaves running. Its output goes to a file, or to ours.
    fn run(mut self, output: Option<&File>) -> Result<End> {
        // All processes of a test inherit this, so that they are found when their parent has ended.
        static RUNS: AtomicU64 = AtomicU64::new(0);
        let run = RUNS.fetch_add(1, Ordering::Relaxed);
        let mark = format!("{}.{run}", std::process::id());
        if let Some(output) = output {
            self.command.stdout(output.try_clone()?);
            self.command.stderr(output.try_clone()?);
        }
        let child = self
            .command
            .env(MARK, &mark)
            .spawn()
            .with_context(|| format!("cannot start {:?}", self.command.get_program()))?;
        let end = wait(child, &mark, self.limit)?;
        for process in marked(&mark)? {
            eprintln!("left running by {}, and killed:", self.name);
            eprint!("{}", process.describe());
            process.kill();
        }
        Ok(end)
    }
}

impl Ended {
    /// What is said of it at the end; nothing where it passed.
    fn failure(&self) -> Option<String> {
        let Self { name, took, end } = self;
        match end {
            End::Passed => None,
            End::Failed(status) => Some(format!("{name}: {status}")),
            End::TooLong(what_ran) => {
                let took = took.as_secs();
                Some(format!(
                    "{name}: ended after {took} s, when this ran:\n{what_ran}"
                ))
            }
        }
    }
}

/// Waits for a job. When its time is over, sees what it and its descendants do, and ends them.
fn wait(mut child: Child, mark: &str, limit: Option<Duration>) -> Result<End> {
    let (report, ended) = mpsc::channel();
    let waiting = std::thread::spawn(move || report.send(child.wait()));
    let status = match limit {
        Some(limit) => ended.recv_timeout(limit).ok(),
        None => Some(ended.recv().context("the thread that waits is there")?),
    };
    let end = match status {
        Some(status) => {
            let status = status.context("cannot wait for a test program")?;
            if status.success() {
                End::Passed
            } else {
                End::Failed(status)
            }
        }
        None => {
            let mut what_runs = String::new();
            for process in marked(mark)? {
                what_runs += &process.describe();
                process.kill();
            }
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
        let end = job(script, directory.path(), limit).run(None).unwrap();
        let pid = std::fs::read_to_string(directory.path().join("pid")).unwrap();
        (end, pid.trim().parse().unwrap())
    }

    fn job(script: &str, directory: &std::path::Path, limit: Duration) -> Job {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]).current_dir(directory);
        Job {
            name: script.into(),
            command,
            limit: Some(limit),
        }
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
    fn so_many_programs_run_at_a_time_and_each_end_is_known() {
        let directory = tempfile::tempdir().unwrap();
        let limit = Duration::from_secs(60);
        // The first two end only where both run; the third only after one of them.
        let scripts = [
            "mkfifo a b 2>/dev/null; echo > a; read line < b",
            "until test -p b; do :; done; read line < a; touch c; echo > b",
            "test -e c && exit 3",
        ];
        let jobs = scripts.map(|script| job(script, directory.path(), limit));
        let ended = run_jobs(jobs.into(), NonZero::new(2).unwrap()).unwrap();
        for script in scripts {
            let one = ended.iter().find(|one| one.name == script).unwrap();
            let status = match one.end {
                End::Passed => 0,
                End::Failed(status) => status.code().unwrap(),
                End::TooLong(_) => panic!("it was ended"),
            };
            assert_eq!(status, if script == scripts[2] { 3 } else { 0 }, "{script}");
        }
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

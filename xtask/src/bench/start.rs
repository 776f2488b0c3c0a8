//! `cargo xtask bench start`: how long a user waits for the first tracepoint in large programs, and how much memory that takes.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::ratio::{median, print_ratio};
use crate::{setup, workspace};

#[derive(clap::Args)]
pub struct Arguments {
    /// How often each tool has its turn
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Do not fail where a limit is not kept
    #[arg(long)]
    no_limits: bool,
}

/// A program, the function that has a tracepoint, and the most that the second start may take, in seconds.
struct Case {
    what: &'static str,
    program: &'static [&'static str],
    location: &'static str,
    limit: f64,
}

/// The limits that the project sets itself. The programs wait for the end of their input.
const CASES: [Case; 4] = [
    Case {
        what: "bash",
        program: &["/bin/bash", "-c", "read x"],
        location: "execute_command",
        limit: 0.040,
    },
    Case {
        what: "bash, in libc with its debug information",
        program: &["/bin/bash", "-c", "read x"],
        location: "getenv",
        limit: 0.040,
    },
    Case {
        what: "node",
        program: &["node", "-e", "process.stdin.resume()"],
        location: "uv_run",
        limit: 0.100,
    },
    Case {
        what: "node, in C++",
        program: &["node", "-e", "process.stdin.resume()"],
        location: "node::Start",
        limit: 0.100,
    },
];

/// Seconds until a tracepoint is in place, and the most memory until then, in MiB.
#[derive(Default)]
struct Turns {
    seconds: Vec<f64>,
    memory: Vec<f64>,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    setup::provide(setup::FOR_BENCH_START)?;
    let directory = tempfile::tempdir()?;
    let tracewire = workspace::tracewire()?;
    println!(
        "{:<44} {:>8} {:>8} {:>8} {:>8} {:>8}",
        "the first tracepoint, in milliseconds", "first", "second", "limit", "attach", "MiB"
    );
    let mut slow = Vec::new();
    let mut ratios = Vec::new();
    for case in &CASES {
        let bench = Bench {
            tracewire: tracewire.clone(),
            directory: directory.path().to_owned(),
            case,
        };
        let [mut first, mut second, mut attached, mut theirs] = <[Turns; 4]>::default();
        for _ in 0..arguments.rounds {
            let cache = directory.path().join("cache");
            if cache.exists() {
                fs::remove_dir_all(&cache)?;
            }
            bench.record(&mut first)?;
            bench.record(&mut second)?;
            bench.attach(&mut attached)?;
            bench.gdb(&mut theirs)?;
        }
        let milliseconds = |turns: &Turns| 1000.0 * median(&turns.seconds);
        println!(
            "{:<44} {:>8.1} {:>8.1} {:>8.1} {:>8.1} {:>8.1}",
            case.what,
            milliseconds(&first),
            milliseconds(&second),
            1000.0 * case.limit,
            milliseconds(&attached),
            median(&second.memory),
        );
        println!(
            "{:<44} {:>8.1} {:>44.1}",
            format!("{}: GDB and gdbserver", case.what),
            milliseconds(&theirs),
            median(&theirs.memory),
        );
        if median(&second.seconds) > case.limit {
            slow.push(case.what);
        }
        ratios.push((case.what, second, theirs));
    }
    for (what, ours, theirs) in &ratios {
        print_ratio(
            &format!("{what}: time of GDB and gdbserver / record"),
            &theirs.seconds,
            &ours.seconds,
        );
        print_ratio(
            &format!("{what}: memory of GDB / record"),
            &theirs.memory,
            &ours.memory,
        );
    }
    if !slow.is_empty() && !arguments.no_limits {
        bail!("over their limits: {}", slow.join("; "));
    }
    Ok(())
}

struct Bench<'a> {
    tracewire: PathBuf,
    directory: PathBuf,
    case: &'a Case,
}

impl Bench<'_> {
    fn recorder(&self) -> Command {
        let mut command = Command::new(&self.tracewire);
        command
            .current_dir(&self.directory)
            .env("XDG_CACHE_HOME", self.directory.join("cache"))
            .args(["record", "-o", "start.tf", "-t", self.case.location])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        command
    }

    /// A program that is started for its recording.
    fn record(&self, turns: &mut Turns) -> Result<()> {
        let mut command = self.recorder();
        command.arg("--").args(self.case.program);
        let begun = Instant::now();
        let recorder = Running(command.spawn().context("tracewire cannot be started")?);
        turns.take(recorder, begun, is_armed)
    }

    /// A program that runs.
    fn attach(&self, turns: &mut Turns) -> Result<()> {
        let (name, arguments) = self.case.program.split_first().context("a program")?;
        let program = Running(
            Command::new(name)
                .args(arguments)
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .spawn()
                .with_context(|| format!("{name} cannot be started"))?,
        );
        program.wait_until_it_waits()?;
        let mut command = self.recorder();
        command.args(["-p", &program.0.id().to_string()]);
        let begun = Instant::now();
        let recorder = Running(command.spawn().context("tracewire cannot be started")?);
        turns.take(recorder, begun, is_armed)
    }

    /// GDB with a gdbserver, which starts the program.
    fn gdb(&self, turns: &mut Turns) -> Result<()> {
        let (program, arguments) = self.case.program.split_first().context("a program")?;
        let program = setup::find_program(program).context("the program is not on the path")?;
        let server = self.directory.join("server.sh");
        let words: Vec<String> = arguments.iter().map(|word| format!("'{word}'")).collect();
        fs::write(
            &server,
            format!(
                "exec gdbserver --once - {} {}\n",
                program.display(),
                words.join(" ")
            ),
        )?;
        let script = self.directory.join("start.gdb");
        // A library's function is there when it is loaded.
        let to_libraries = if self.case.location == "getenv" {
            "break main\nbreak getenv\ncontinue\ndelete\n"
        } else {
            ""
        };
        fs::write(
            &script,
            format!(
                "set pagination off\nset confirm off\nset sysroot\nset debuginfod enabled off\nset breakpoint pending on\n\
                 file {}\ntarget remote | sh {}\n{to_libraries}trace {}\ntstart\npython print('armed', flush=True)\nkill\n",
                program.display(),
                server.display(),
                self.case.location,
            ),
        )?;
        let mut command = Command::new("gdb");
        command
            .current_dir(&self.directory)
            .args(["-nx", "-batch", "-x"])
            .arg(&script)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        // Python's `print` is in the same stream as errors then.
        command.stdout(Stdio::piped());
        let begun = Instant::now();
        let mut gdb = Running(command.spawn().context("gdb cannot be started")?);
        let output = gdb.0.stdout.take().context("no stdout")?;
        turns.take_from(&gdb, output, begun, |line| line.starts_with("armed"))
    }
}

/// Whether a line of `record` says what serves the tracepoint.
fn is_armed(line: &str) -> bool {
    [" by jump", " by punned jump", " by trap"]
        .iter()
        .any(|mechanism| line.contains(mechanism))
}

impl Turns {
    fn take(
        &mut self,
        mut recorder: Running,
        begun: Instant,
        is_it: fn(&str) -> bool,
    ) -> Result<()> {
        let errors = recorder.0.stderr.take().context("no stderr")?;
        self.take_from(&recorder, errors, begun, is_it)
    }

    /// Takes note of when a line comes, and of the memory by then.
    fn take_from(
        &mut self,
        tool: &Running,
        stream: impl Read,
        begun: Instant,
        is_it: fn(&str) -> bool,
    ) -> Result<()> {
        let mut said = String::new();
        for line in BufReader::new(stream).lines() {
            let line = line?;
            if is_it(&line) {
                self.seconds.push(begun.elapsed().as_secs_f64());
                self.memory.push(peak_memory(tool.0.id())?);
                return Ok(());
            }
            said.push_str(&line);
            said.push('\n');
        }
        bail!("no tracepoint was put in place: {said}")
    }
}

/// The most memory that a process has had, in MiB.
fn peak_memory(process: u32) -> Result<f64> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let peak = status.lines().find_map(|line| {
        let kibibytes = line.strip_prefix("VmHWM:")?.split_whitespace().next()?;
        kibibytes.parse::<f64>().ok()
    });
    Ok(peak.context("no VmHWM in the status of a process")? / 1024.0)
}

/// A process, which ends when this is dropped.
struct Running(Child);

impl Running {
    /// Waits until a program has nothing more to do.
    fn wait_until_it_waits(&self) -> Result<()> {
        let wchan = PathBuf::from(format!("/proc/{}/stat", self.0.id()));
        let mut quiet = 0;
        while quiet < 5 {
            quiet = if is_sleeping(&wchan)? { quiet + 1 } else { 0 };
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        Ok(())
    }
}

fn is_sleeping(stat: &Path) -> Result<bool> {
    let stat = fs::read_to_string(stat)?;
    let state = stat.rsplit(')').next().unwrap_or("").trim_start();
    Ok(state.starts_with('S'))
}

impl Drop for Running {
    fn drop(&mut self) {
        // The recorder lets the program go, whose input ends.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

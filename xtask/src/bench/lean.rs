//! `cargo xtask bench lean`: a string and two integers of each hit, all kept: as a trace file, as a lean recording, and by bpftrace.
//! Then the throughput of redis at a pipeline depth of 32 with each.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::hit::nanoseconds_per_call;
use crate::ratio::median;
use crate::{setup, workspace};

#[derive(clap::Args)]
pub struct Arguments {
    /// How often each has its turn
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// How many hits the trace file gets in a turn; the lean recording gets three times as many, bpftrace a tenth
    #[arg(long, default_value_t = 2_000_000)]
    hits: u64,
    /// How many requests redis gets in a turn
    #[arg(long, default_value_t = 2_000_000)]
    requests: u64,
}

/// The most that a hit is to cost that is kept in a lean recording, in µs.
const HIT_LIMIT: f64 = 0.2;
/// The most bytes that a hit is to take there, of those in a trace file.
const BYTES_LIMIT: f64 = 0.2;
/// What is to be left of redis' throughput.
const REDIS_LIMIT: f64 = 0.8;

/// How many requests are sent to redis at once.
const PIPELINE: &str = "32";

/// What is collected in redis: the key's text and the two words before it. Debian's program has the names of its functions and no types.
const REDIS_TRACEPOINT: &str =
    "lookupKeyReadOrReply : /s *(char**)($rsi + 8), *(int*)$rsi, *(int*)($rsi + 4)";

/// The same for bpftrace.
const REDIS_PROBE: &str = "lookupKeyReadOrReply { printf(\"%s %d %d\\n\", str(*(uint64*)(arg1 + 8)), *(int32*)arg1, *(int32*)(arg1 + 4)); }";

/// Where redis listens.
const SOCKET: &str = "redis.sock";

/// The files of a run.
const NAMES: [&str; 2] = ["run.tf", "run.twr"];

/// What a way to record has shown.
#[derive(Default)]
struct Turns {
    nanoseconds: Vec<f64>,
    bytes_a_hit: Vec<f64>,
    /// Requests a second of redis.
    throughput: Vec<f64>,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    setup::provide(setup::FOR_BENCH_LEAN)?;
    let tracewire = workspace::tracewire()?;
    let folder = tempfile::tempdir()?;
    let program = folder.path().join("lean");
    workspace::run(
        Command::new("cc")
            .args(["-g", "-O1", "-o"])
            .arg(&program)
            .arg(workspace::root().join("xtask/programs/lean.c")),
    )?;
    let bench = Bench {
        tracewire,
        folder: folder.path().to_owned(),
        program,
    };
    let (mut untraced, mut bpftrace) = (Turns::default(), Turns::default());
    let mut own = NAMES.map(|_| Turns::default());
    let mut refused = None;
    for round in 1..=arguments.rounds {
        eprintln!("round {round} of {}", arguments.rounds);
        let calls = (arguments.hits * 3).to_string();
        let mut plain = Command::new(&bench.program);
        untraced
            .nanoseconds
            .push(nanoseconds_per_call(plain.arg(calls))?);
        untraced
            .throughput
            .push(bench.redis(arguments.requests, |_| Ok(None))?);
        for (name, turns) in NAMES.iter().zip(&mut own) {
            let hits = arguments.hits * if *name == "run.twr" { 3 } else { 1 };
            let (nanoseconds, bytes) = bench.hits(name, hits)?;
            turns.nanoseconds.push(nanoseconds);
            turns.bytes_a_hit.push(bytes);
            let throughput =
                bench.redis(arguments.requests, |id| bench.recorder(name, id).map(Some))?;
            turns.throughput.push(throughput);
        }
        if refused.is_none() {
            let mut run = || -> Result<()> {
                let hits = arguments.hits / 10;
                bpftrace.nanoseconds.push(bench.hits_of_bpftrace(hits)?);
                let throughput =
                    bench.redis(arguments.requests, |id| bench.bpftrace(id).map(Some))?;
                bpftrace.throughput.push(throughput);
                Ok(())
            };
            refused = run().err();
        }
    }
    let [plain, lean] = &own;
    println!(
        "{:<24} {:>10} {:>12} {:>16} {:>12}",
        "", "hit, µs", "bytes a hit", "redis, 1000/s", "of untraced"
    );
    for (name, turns) in [
        ("untraced", &untraced),
        ("trace file", plain),
        ("lean recording", lean),
        ("bpftrace", &bpftrace),
    ] {
        let cell = |values: &[f64], scale: f64, digits: usize| match values {
            [] => "-".to_owned(),
            values => format!("{:.digits$}", median(values) * scale),
        };
        println!(
            "{name:<24} {:>10} {:>12} {:>16} {:>12}",
            cell(&turns.nanoseconds, 1e-3, 4),
            cell(&turns.bytes_a_hit, 1.0, 1),
            cell(&turns.throughput, 1e-3, 1),
            cell(&share(turns, &untraced), 1.0, 2),
        );
    }
    if let Some(error) = refused {
        println!("bpftrace: not measured: {error:#}");
    }
    println!(
        "a hit, all kept: {:.4} µs, limit {HIT_LIMIT} µs",
        median(&lean.nanoseconds) / 1000.0
    );
    println!(
        "bytes of a trace file: {:.3}, limit {BYTES_LIMIT}",
        median(&lean.bytes_a_hit) / median(&plain.bytes_a_hit)
    );
    println!(
        "redis, of untraced: {:.2}, limit {REDIS_LIMIT}",
        median(&share(lean, &untraced))
    );
    Ok(())
}

/// What is left of the throughput, turn by turn.
fn share(turns: &Turns, untraced: &Turns) -> Vec<f64> {
    let pairs = turns.throughput.iter().zip(&untraced.throughput);
    pairs.map(|(own, untraced)| own / untraced).collect()
}

struct Bench {
    tracewire: PathBuf,
    folder: PathBuf,
    program: PathBuf,
}

/// A process that is ended when this goes.
struct Running {
    child: Child,
    /// Whether its exit status says that it did what it was to do. bpftrace's does not on every kernel.
    is_reported: bool,
}

impl Running {
    /// Ends it by SIGINT, and waits for it.
    fn end(mut self) -> Result<()> {
        workspace::run(Command::new("kill").args(["-INT", &self.child.id().to_string()]))?;
        let status = self.child.wait()?;
        if self.is_reported && !status.success() {
            bail!("what records has ended with {status}");
        }
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Bench {
    /// Nanoseconds a call, and bytes of the file a hit.
    fn hits(&self, name: &str, hits: u64) -> Result<(f64, f64)> {
        let file = self.folder.join(name);
        let nanoseconds = nanoseconds_per_call(
            Command::new(&self.tracewire)
                .args(["record", "--mechanism", "jump"])
                .args(["--buffer-size", "5368709120"])
                .args(["-t", "work : /s key, index, size", "-o"])
                .arg(&file)
                .arg("--")
                .arg(&self.program)
                .arg(hits.to_string()),
        )?;
        let bytes = fs::metadata(&file)?.len() as f64 / hits as f64;
        fs::remove_file(&file)?;
        Ok((nanoseconds, bytes))
    }

    /// Nanoseconds a call with bpftrace, which writes lines to a file.
    fn hits_of_bpftrace(&self, hits: u64) -> Result<f64> {
        let probe = format!(
            "uprobe:{}:work {{ printf(\"%s %ld %d\\n\", str(arg0), arg1, (int32)arg2); }}",
            self.program.display()
        );
        let command = format!("{} {hits}", self.program.display());
        let output = self.folder.join("bpftrace.txt");
        let reported = Command::new("bpftrace")
            .args(["-q", "-o"])
            .arg(&output)
            .args(["-e", &probe, "-c", &command])
            .output()
            .context("cannot start bpftrace")?;
        let text =
            String::from_utf8_lossy(&reported.stdout) + String::from_utf8_lossy(&reported.stderr);
        let _ = fs::remove_file(&output);
        super::hit::printed_cost(&text).with_context(|| format!("bpftrace said:\n{text}"))
    }

    /// Records redis, whose process is given.
    fn recorder(&self, name: &str, id: u32) -> Result<Running> {
        let child = Command::new(&self.tracewire)
            .args(["record", "--mechanism", "jump"])
            .args(["--buffer-size", "5368709120", "-p", &id.to_string()])
            .args(["-t", REDIS_TRACEPOINT, "-o"])
            .arg(self.folder.join(name))
            .stderr(Stdio::piped())
            .spawn()?;
        wait_for(child, "tracepoint 1 by ")
    }

    /// Has bpftrace write to a file what it sees of redis.
    fn bpftrace(&self, id: u32) -> Result<Running> {
        let server = setup::find_program("redis-server").context("redis-server is there")?;
        let probe = format!(
            "uprobe:{}:{REDIS_PROBE}",
            fs::canonicalize(server)?.display()
        );
        let output = self.folder.join("bpftrace.txt");
        let child = Command::new("bpftrace")
            .args(["-q", "-p", &id.to_string(), "-o"])
            .arg(&output)
            .args(["-e", &probe])
            .stderr(Stdio::piped())
            .spawn()?;
        let mut running = Running {
            child,
            is_reported: false,
        };
        let begun = Instant::now();
        // What it says itself comes before its probe is there, so it is asked for a hit.
        while !fs::read_to_string(&output).is_ok_and(|text| text.contains("key:")) {
            if let Some(status) = running.child.try_wait()? {
                bail!("bpftrace has ended with {status}");
            }
            if begun.elapsed() > Duration::from_secs(20) {
                bail!("bpftrace sees nothing of redis");
            }
            load(&self.folder.join(SOCKET), 1000)?;
        }
        Ok(running)
    }

    /// Requests a second of redis, while something records it.
    fn redis(
        &self,
        requests: u64,
        record: impl FnOnce(u32) -> Result<Option<Running>>,
    ) -> Result<f64> {
        let socket = self.folder.join(SOCKET);
        // What a killed one has left is not taken for a new one.
        let _ = fs::remove_file(&socket);
        let server = Command::new("redis-server")
            .args(["--port", "0", "--save", "", "--appendonly", "no"])
            .arg("--unixsocket")
            .arg(&socket)
            .current_dir(&self.folder)
            .stdout(Stdio::null())
            .spawn()
            .context("cannot start redis-server")?;
        let server = Running {
            child: server,
            is_reported: true,
        };
        let begun = Instant::now();
        while !socket.exists() {
            if begun.elapsed() > Duration::from_secs(60) {
                bail!("redis-server does not listen");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        load(&socket, 100_000)?;
        let recorder = record(server.child.id())?;
        let throughput = load(&socket, requests)?;
        if let Some(recorder) = recorder {
            recorder.end()?;
        }
        for name in NAMES.into_iter().chain(["bpftrace.txt"]) {
            let _ = fs::remove_file(self.folder.join(name));
        }
        Ok(throughput)
    }
}

/// Waits until a child says something on standard error. What it says afterwards is read, too, so that it never waits.
fn wait_for(child: Child, words: &str) -> Result<Running> {
    let mut running = Running {
        child,
        is_reported: true,
    };
    let stderr = running.child.stderr.take().context("a pipe")?;
    let mut lines = BufReader::new(stderr).lines().map_while(Result::ok);
    let mut said = String::new();
    let found = lines.by_ref().any(|line| {
        said += &line;
        said += "\n";
        line.contains(words)
    });
    if !found {
        bail!("what records redis has not begun; it said:\n{said}");
    }
    std::thread::spawn(move || lines.for_each(drop));
    Ok(running)
}

/// Sends requests for random keys. Gives how many a second were answered.
fn load(socket: &Path, requests: u64) -> Result<f64> {
    let reported = workspace::output(
        Command::new("redis-benchmark")
            .arg("-s")
            .arg(socket)
            .args(["-P", PIPELINE, "-t", "get", "-r", "100000", "--csv", "-n"])
            .arg(requests.to_string()),
    )?;
    let of_line = |line: &str| line.split(',').nth(1)?.trim_matches('"').parse().ok();
    reported
        .lines()
        .find(|line| line.starts_with("\"GET\""))
        .and_then(of_line)
        .with_context(|| format!("redis-benchmark printed no figure:\n{reported}"))
}

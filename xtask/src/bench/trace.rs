//! `cargo xtask bench trace`: an execution trace of a gibibyte, its index, and what looking at it costs.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::file::{evict, measure, seconds};
use super::goals::verdict;
use super::readers;
use crate::ratio::median;
use crate::workspace;

#[derive(clap::Args)]
pub struct Arguments {
    /// How large the trace is, in MiB
    #[arg(long, default_value_t = 1024)]
    mebibytes: u64,
    /// How often each thing is measured
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Where the files are made: a folder on the disk to be measured
    #[arg(long, default_value = "target")]
    folder: PathBuf,
    /// Only index a log of each format, of so many MiB
    #[arg(long, value_name = "MEBIBYTES")]
    readers: Option<u64>,
}

/// How large a log of each format is, in MiB.
const READERS: u64 = 128;

/// How often cold look-ups are made, each in a process of its own.
const COLD: u64 = 20;

/// Builds an example of a package.
pub(super) fn example(package: &str, name: &str) -> Result<PathBuf> {
    let arguments = [
        "--release",
        "--quiet",
        "--package",
        package,
        "--example",
        name,
    ];
    workspace::run(workspace::cargo("build").args(arguments))?;
    Ok(workspace::target().join("release/examples").join(name))
}

/// The programs that measure.
struct Programs {
    tracewire: PathBuf,
    make: PathBuf,
    parse: PathBuf,
    speed: PathBuf,
    log: PathBuf,
}

impl Programs {
    fn build() -> Result<Self> {
        Ok(Self {
            tracewire: workspace::tracewire()?,
            make: example("tracewire-sample-machine", "make_trace")?,
            parse: example("tracewire-exec-trace", "parse_speed")?,
            speed: example("tracewire-exec-trace", "recording_speed")?,
            log: example("tracewire-exec-trace", "make_log")?,
        })
    }

    /// The figures that a measurement gives, by name.
    fn figures(&self, file: &Path, what: &[&str]) -> Result<HashMap<String, f64>> {
        let printed = workspace::output(Command::new(&self.speed).arg(file).args(what))?;
        Ok(printed
            .lines()
            .filter_map(|line| {
                let (name, number) = line.split_once(' ')?;
                Some((name.to_owned(), number.parse().ok()?))
            })
            .collect())
    }
}

fn figure(figures: &HashMap<String, f64>, name: &str) -> Result<f64> {
    let found = figures.get(name).copied();
    found.with_context(|| format!("no figure `{name}`"))
}

pub fn run(arguments: &Arguments) -> Result<()> {
    ensure!(
        arguments.mebibytes > 0 && arguments.rounds > 0,
        "expected at least a MiB and a round"
    );
    let parent = workspace::root().join(&arguments.folder);
    fs::create_dir_all(&parent)?;
    let folder = tempfile::Builder::new()
        .prefix("bench-trace-")
        .tempdir_in(parent)?;
    if let Some(mebibytes) = arguments.readers {
        ensure!(mebibytes > 0, "expected at least a MiB");
        let make = example("tracewire-exec-trace", "make_log")?;
        let speed = example("tracewire-exec-trace", "recording_speed")?;
        return readers::run(&make, &speed, folder.path(), mebibytes, arguments.rounds);
    }
    let programs = Programs::build()?;
    let trace = folder.path().join("large.trace");
    let size = arguments.mebibytes.to_string();
    let made = workspace::output(Command::new(&programs.make).arg(size).arg(&trace))?;
    let (sizes, functions) = printed(&made)?;
    println!("a QEMU4V trace: {sizes}");
    let often = functions.iter().find(|(name, _)| *name == "mix");
    let (_, often) = often.context("no function `mix`")?;
    let text = fs::metadata(&trace)?.len();
    parse(&programs, &trace)?;
    index(&programs, &trace, text, arguments.rounds)?;
    same_text(&programs, &trace)?;
    look_ups(&programs, &trace)?;
    find(&programs, &trace, often, arguments.rounds)?;
    passes(&programs, &trace, often)?;
    collect(&programs, &trace, often, arguments.rounds)?;
    fs::remove_file(&trace)?;
    let rounds = arguments.rounds;
    readers::run(
        &programs.log,
        &programs.speed,
        folder.path(),
        READERS,
        rounds,
    )
}

/// What `make_trace` prints: the sizes, and functions with their addresses.
pub(super) fn printed(text: &str) -> Result<(&str, Vec<(&str, &str)>)> {
    let said = || format!("make_trace printed {text:?}");
    let mut lines = text.lines();
    let sizes = lines.next().with_context(said)?;
    let functions = lines.map(|line| line.split_once(' ').with_context(said));
    Ok((sizes, functions.collect::<Result<_>>()?))
}

/// What parsing alone takes, on one processor and on all.
fn parse(programs: &Programs, trace: &Path) -> Result<()> {
    let all = std::thread::available_parallelism()?.get();
    for threads in [1, all] {
        let mut command = Command::new(&programs.parse);
        let printed = workspace::output(command.arg(trace).arg(threads.to_string()))?;
        let speeds: Vec<f64> = printed
            .lines()
            .filter_map(|line| {
                line.rsplit("; ")
                    .next()?
                    .strip_suffix(" MB/s")?
                    .parse()
                    .ok()
            })
            .collect();
        println!(
            "parsing alone, {threads} threads: {:.0} MB/s",
            median(&speeds)
        );
    }
    Ok(())
}

fn index_of(trace: &Path) -> PathBuf {
    let mut name = trace.as_os_str().to_owned();
    name.push(".twindex");
    PathBuf::from(name)
}

/// The first look, which makes the index, against the next.
fn index(programs: &Programs, trace: &Path, text: u64, rounds: usize) -> Result<()> {
    let cache = trace.with_extension("cache");
    let (mut first, mut next, mut memory) = (Vec::new(), Vec::new(), 0);
    for _ in 0..rounds {
        drop(fs::remove_file(index_of(trace)));
        let mut info = Command::new(&programs.tracewire);
        info.args(["info", "--json"]).arg(trace);
        let cost = measure(&mut info, &cache, true)?;
        memory = memory.max(cost.memory);
        first.push(cost.time);
        next.push(measure(&mut info, &cache, false)?.time);
    }
    let speed = text as f64 / 1e6 / seconds(&first);
    println!(
        "indexing: {speed:.0} MB/s, {:.0} MiB of memory (goals: 200 MB/s, 1024 MiB: {})",
        memory as f64 / 1024.0,
        verdict(speed >= 200.0 && memory < 1 << 20)
    );
    let index = fs::metadata(index_of(trace))?.len();
    let ratio = text as f64 / index as f64;
    println!(
        "index, which is the compact form too: {index} bytes, 1/{ratio:.1} of the text (goals: 1/2 and 1/8: {})",
        verdict(ratio >= 8.0)
    );
    let opening = seconds(&next) * 1e3;
    println!(
        "`info` of the indexed trace, the whole process: {opening:.1} ms (goal: 50 ms: {})",
        verdict(opening < 50.0)
    );
    Ok(())
}

/// The text that the index gives is the trace's.
fn same_text(programs: &Programs, trace: &Path) -> Result<()> {
    let mut child = Command::new(&programs.speed)
        .arg(trace)
        .arg("text")
        .stdout(Stdio::piped())
        .spawn()?;
    let mut back = child.stdout.take().context("stdout is piped")?;
    // The line about the opening.
    let mut byte = [0];
    while back.read(&mut byte)? == 1 && byte != *b"\n" {}
    let mut original = File::open(trace)?;
    let (mut ours, mut theirs) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    loop {
        let length = back.read(&mut ours)?;
        if length == 0 {
            break;
        }
        original.read_exact(&mut theirs[..length])?;
        ensure!(ours[..length] == theirs[..length], "the text differs");
    }
    ensure!(original.read(&mut theirs)? == 0, "the text is cut");
    ensure!(child.wait()?.success(), "the text cannot be had");
    println!("the text comes back byte for byte");
    Ok(())
}

/// Registers and memory at random instants.
fn look_ups(programs: &Programs, trace: &Path) -> Result<()> {
    let warm = programs.figures(trace, &["warm"])?;
    for what in ["register", "memory"] {
        let median = figure(&warm, &format!("{what}_median_us"))?;
        println!(
            "{what} at a random instant, warm: {median:.1} µs, 99 of 100 under {:.1} µs (goal: 50 µs: {})",
            figure(&warm, &format!("{what}_99_us"))?,
            verdict(median < 50.0)
        );
    }
    let index = index_of(trace);
    File::open(&index)?.sync_all()?;
    let (mut registers, mut memory, mut opened) = (Vec::new(), Vec::new(), Vec::new());
    for seed in 1..=COLD {
        evict(&index)?;
        evict(trace)?;
        let cold = programs.figures(trace, &["cold", &seed.to_string()])?;
        registers.push(figure(&cold, "register_us")?);
        memory.push(figure(&cold, "memory_us")?);
        opened.push(figure(&cold, "opened_s")? * 1e3);
    }
    for (what, times) in [("register", registers), ("memory", memory)] {
        let (middle, most) = (median(&times), times.iter().copied().fold(0.0, f64::max));
        println!(
            "{what} at a random instant, cold: {middle:.0} µs, at most {most:.0} µs (goal: 5000 µs: {})",
            verdict(middle < 5000.0)
        );
    }
    println!("opening the indexed trace, cold: {:.1} ms", median(&opened));
    Ok(())
}

/// All visits of an address that is seldom executed, and of one that is.
fn find(programs: &Programs, trace: &Path, often: &str, rounds: usize) -> Result<()> {
    let cache = trace.with_extension("cache");
    for address in ["0x80001000", often] {
        let (mut times, mut visits) = (Vec::new(), 0);
        for _ in 0..rounds {
            let mut find = Command::new(&programs.tracewire);
            find.arg("find").arg(trace).args(["--pc", address]);
            let cost = measure(&mut find, &cache, false)?;
            visits = cost.output.lines().count();
            times.push(cost.time);
        }
        let time = seconds(&times) * 1e3;
        println!(
            "`find --pc {address}` over the whole trace, {visits} visits, the whole process: {time:.0} ms (goal: 100 ms: {})",
            verdict(time < 100.0)
        );
    }
    Ok(())
}

/// Going over all of the trace; `often` is the address of the function that the program calls most.
fn passes(programs: &Programs, trace: &Path, often: &str) -> Result<()> {
    let scan = figure(&programs.figures(trace, &["scan"])?, "scan_mips")?;
    println!("every register write in order: {scan:.1} million instructions a second");
    let values = programs.figures(trace, &["values", often])?;
    let speed = figure(&values, "values_mips")?;
    println!(
        "a register at each of {} visits: {speed:.1} million instructions a second (goal: 20: {})",
        figure(&values, "hits")?,
        verdict(speed >= 20.0)
    );
    Ok(())
}

/// A tracepoint at the function that is executed most, and one value there: the whole process, which writes the file.
fn collect(programs: &Programs, trace: &Path, often: &str, rounds: usize) -> Result<()> {
    let info = workspace::output(
        Command::new(&programs.tracewire)
            .args(["info", "--json"])
            .arg(trace),
    )?;
    let instructions = info
        .split_once("\"instructions\":")
        .map(|(_, rest)| {
            rest.chars()
                .take_while(char::is_ascii_digit)
                .collect::<String>()
        })
        .context("no `instructions`")?;
    let instructions: u64 = instructions.parse()?;
    let (elf, output) = (trace.with_extension("elf"), trace.with_extension("tf"));
    let cache = trace.with_extension("cache");
    for value in ["*(int *) 0x80100000", "$a0"] {
        let mut times = Vec::new();
        for _ in 0..rounds {
            let mut collect = Command::new(&programs.tracewire);
            collect
                .args(["collect", "-t", &format!("*{often} : {value}"), "-o"])
                .arg(&output)
                .arg("--elf")
                .arg(&elf)
                .arg(trace)
                .stderr(Stdio::null());
            times.push(measure(&mut collect, &cache, false)?.time);
        }
        let speed = instructions as f64 / 1e6 / seconds(&times);
        println!(
            "`collect` of `{value}`, a file of {} MB: {speed:.1} million instructions a second (goal: 20: {})",
            fs::metadata(&output)?.len() / 1_000_000,
            verdict(speed >= 20.0)
        );
    }
    Ok(())
}

//! `cargo xtask bench data`: a run of a million frames as Parquet, and queries of a trace file of a gibibyte beside a conversion and DuckDB.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use super::executions::python;
use super::file::{seconds, sequential_read};
use super::goals::verdict;
use crate::ratio::{median, print_ratio};
use crate::workspace;

#[derive(clap::Args)]
pub struct Arguments {
    /// How many frames are converted
    #[arg(long, default_value_t = 1_000_000)]
    frames: u64,
    /// How large the trace file is that is queried, in MiB
    #[arg(long, default_value_t = 1024)]
    mebibytes: u64,
    /// How often each thing is measured
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Where the files are made: a folder on the disk to be measured
    #[arg(long, default_value = "target")]
    folder: PathBuf,
    /// Measure this `tracewire-query`, in place of a release that is built
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Record with this `tracewire`, in place of a release that is built
    #[arg(long, value_name = "FILE")]
    recorder: Option<PathBuf>,
}

/// How many frames a second become Parquet at least.
const FRAMES_A_SECOND: f64 = 1e6;

/// How many times smaller than the trace file the Parquet files are at least.
const SMALLER: f64 = 8.0;

/// How many times faster a query of a stretch of time is at least than a conversion and a query.
const FASTER: f64 = 10.0;

const SOURCE: &str = "\
struct item { int id; double price; } item;
static const char *names[] = {\"lamp\", \"desk\", \"chair\"};
__attribute__ ((noinline)) int work (int n, struct item *p, const char *name)
{ p->id = n - 1; p->price = n * 0.25; __asm__ volatile (\"nop; nop; nop; nop; nop\"); return n; }
int main (void) { for (int i = 0; i < HITS; i++) work (i, &item, names[i % 3]); return 0; }
";

const TRACEPOINT: &str = "work : n, p->id, p->price, name";

/// What a query takes at least: the start of the command, and the tables.
const NOTHING: &str = "select count(*) from runs";

/// A whole scan.
const SCAN: &str = "select name, count(*) as hits, sum(n) as total, max(\"p->price\") as most from tp1 group by name order by name";

struct Programs {
    tracewire: PathBuf,
    query: PathBuf,
    python: PathBuf,
}

impl Programs {
    fn build(arguments: &Arguments) -> Result<Self> {
        let tracewire = match &arguments.recorder {
            Some(recorder) => recorder.clone(),
            None => workspace::tracewire()?,
        };
        let query = match &arguments.program {
            Some(program) => program.clone(),
            None => {
                workspace::build_query()?;
                workspace::target().join("release/tracewire-query")
            }
        };
        Ok(Self {
            tracewire,
            query,
            python: python()?,
        })
    }

    fn record(&self, folder: &Path, name: &str, hits: u64) -> Result<PathBuf> {
        let (source, program) = (folder.join(format!("{name}.c")), folder.join(name));
        let file = folder.join(format!("{name}.tf"));
        fs::write(&source, SOURCE)?;
        let built = Command::new("cc")
            .args(["-g", "-O1", &format!("-DHITS={hits}"), "-o"])
            .args([&program, &source])
            .status()?;
        ensure!(built.success(), "cc: {built}");
        let recorded = Command::new(&self.tracewire)
            .args(["record", "-t", TRACEPOINT, "--buffer-size", "4GiB", "-o"])
            .args([&file, Path::new("--"), &program])
            .stderr(Stdio::null())
            .status()?;
        ensure!(recorded.success(), "record: {recorded}");
        Ok(file)
    }

    fn add(&self, file: &Path, dataset: &Path) -> Result<Duration> {
        if dataset.exists() {
            fs::remove_dir_all(dataset)?;
        }
        let mut add = Command::new(&self.query);
        timed(add.args(["dataset", "add"]).args([file, dataset])).map(|(time, _)| time)
    }

    fn query(&self, run: &Path, sql: &str) -> Result<(Duration, String)> {
        timed(
            Command::new(&self.query)
                .args(["query", "--format", "csv"])
                .arg(run)
                .arg(sql),
        )
    }

    /// The time of DuckDB's own command.
    fn duckdb_command(&self, dataset: &Path, sql: &str) -> Result<(Duration, String)> {
        let files = format!("{}/*/*/*/table=tp1/*.parquet", dataset.display());
        let sql = format!(
            "set threads = 2; create view tp1 as select * from read_parquet('{files}'); {sql}"
        );
        let command = self.python.with_file_name("duckdb");
        timed(Command::new(command).args(["-csv", "-noheader", "-c", &sql]))
    }

    /// The time of the query in DuckDB, without that of Python's start.
    fn duckdb(&self, dataset: &Path, sql: &str) -> Result<(Duration, String)> {
        const SCRIPT: &str = "
import duckdb, sys, time
duckdb.sql('set threads = 2')
duckdb.sql(f\"create view tp1 as select * from read_parquet('{sys.argv[1]}/*/*/*/table=tp1/*.parquet')\")
start = time.perf_counter()
rows = duckdb.sql(sys.argv[2]).fetchall()
print(time.perf_counter() - start)
for row in rows: print(','.join(map(str, row)))
";
        let mut python = Command::new(&self.python);
        let (_, said) = timed(python.args(["-c", SCRIPT]).arg(dataset).arg(sql))?;
        let (time, rows) = said.split_once('\n').context("no time")?;
        Ok((Duration::from_secs_f64(time.parse()?), rows.to_owned()))
    }
}

/// How long a command takes, and what it prints.
fn timed(command: &mut Command) -> Result<(Duration, String)> {
    let start = Instant::now();
    let output = command.stderr(Stdio::inherit()).output()?;
    let time = start.elapsed();
    ensure!(output.status.success(), "{command:?}: {}", output.status);
    Ok((time, String::from_utf8(output.stdout)?))
}

fn size(path: &Path) -> Result<u64> {
    let metadata = fs::metadata(path)?;
    if !metadata.is_dir() {
        return Ok(metadata.len());
    }
    let mut all = 0;
    for entry in fs::read_dir(path)? {
        all += size(&entry?.path())?;
    }
    Ok(all)
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let programs = Programs::build(arguments)?;
    let folder = tempfile::tempdir_in(&arguments.folder)?;
    let folder = folder.path();
    convert(&programs, folder, arguments)?;
    query(&programs, folder, arguments)
}

fn convert(programs: &Programs, folder: &Path, arguments: &Arguments) -> Result<()> {
    let file = programs.record(folder, "frames", arguments.frames)?;
    let dataset = folder.join("frames");
    let (mut times, mut reads) = (Vec::new(), Vec::new());
    let dataset = dataset.with_extension("dataset");
    for _ in 0..arguments.rounds {
        reads.push(sequential_read(&file)?);
        times.push(programs.add(&file, &dataset)?);
    }
    let rate = arguments.frames as f64 / seconds(&times);
    println!(
        "add: {} frames with four values in {:.2} s, {:.1} times the reading of the file: {rate:.0} a second (at least {FRAMES_A_SECOND:.0}: {})",
        arguments.frames,
        seconds(&times),
        seconds(&times) / seconds(&reads),
        verdict(rate >= FRAMES_A_SECOND)
    );
    let (before, after) = (size(&file)? as f64, size(&dataset)? as f64);
    println!(
        "size: {:.1} MB of Parquet for {:.1} MB, {:.1} times smaller (at least {SMALLER}: {})",
        after / 1e6,
        before / 1e6,
        before / after,
        verdict(before / after >= SMALLER)
    );
    scan(programs, &dataset, arguments)
}

/// A scan of all Parquet files, beside DuckDB: the commands, and the queries without their starts.
fn scan(programs: &Programs, dataset: &Path, arguments: &Arguments) -> Result<()> {
    let (mut own, mut own_alone) = (Vec::new(), Vec::new());
    let (mut theirs, mut theirs_alone) = (Vec::new(), Vec::new());
    for _ in 0..arguments.rounds {
        let (start, _) = programs.query(dataset, NOTHING)?;
        let (time, rows) = programs.query(dataset, SCAN)?;
        own.push(time.as_secs_f64());
        own_alone.push(time.saturating_sub(start).as_secs_f64());
        let rows = rows.split_once('\n').context("no header")?.1;
        let (time, expected) = programs.duckdb_command(dataset, SCAN)?;
        theirs.push(time.as_secs_f64());
        ensure!(rows == expected.replace('\r', ""), "{rows} and {expected}");
        let (time, expected) = programs.duckdb(dataset, SCAN)?;
        theirs_alone.push(time.as_secs_f64());
        ensure!(rows == expected, "{rows} and {expected}");
    }
    for (what, theirs, own) in [
        ("the commands", theirs, own),
        ("the queries without their starts", theirs_alone, own_alone),
    ] {
        print_ratio(
            &format!(
                "a whole scan of the Parquet files, DuckDB's time to that of `query`, {what} (at least once)"
            ),
            &theirs,
            &own,
        );
        let (theirs, own) = (median(&theirs), median(&own));
        println!("  {theirs:.3} s and {own:.3} s: {}", verdict(theirs >= own));
    }
    Ok(())
}

fn query(programs: &Programs, folder: &Path, arguments: &Arguments) -> Result<()> {
    const BYTES_A_FRAME: u64 = 369;
    let frames = (arguments.mebibytes << 20) / BYTES_A_FRAME;
    let file = programs.record(folder, "large", frames)?;
    let dataset = folder.join("large.dataset");
    // The first query makes the index.
    let (_, bounds) = programs.query(&file, "select min(time_ns), max(time_ns) from hits")?;
    let bounds = bounds.lines().nth(1).context("no bounds")?;
    let (first, last) = bounds.split_once(',').context("no bounds")?;
    let (first, last): (u64, u64) = (first.parse()?, last.parse()?);
    let middle = first + (last - first) / 2;
    let end = middle + (last - first) / 100;
    let sql = format!(
        "select count(*) as hits, sum(n) as total, max(\"p->price\") as most from tp1 where time_ns between {middle} and {end}"
    );
    let (mut own, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..arguments.rounds {
        let (time, rows) = programs.query(&file, &sql)?;
        own.push(time.as_secs_f64());
        let added = programs.add(&file, &dataset)?;
        let (time, expected) = programs.duckdb(&dataset, &sql)?;
        theirs.push((added + time).as_secs_f64());
        let rows = rows.split_once('\n').context("no header")?.1;
        ensure!(rows == expected, "{rows} and {expected}");
    }
    println!(
        "a hundredth of the time of a file of {:.0} MB and one tracepoint:",
        size(&file)? as f64 / 1e6
    );
    print_ratio(
        "  conversion and DuckDB to a query of the trace file (at least 10 times)",
        &theirs,
        &own,
    );
    let ratio = median(&theirs) / median(&own);
    println!(
        "  {:.2} s and {:.2} s: {}",
        median(&theirs),
        median(&own),
        verdict(ratio >= FASTER)
    );
    Ok(())
}

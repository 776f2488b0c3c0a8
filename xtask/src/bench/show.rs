//! A million frames with two values, recorded from a real program: what it costs to show them all.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::file::{seconds, sequential_read};
use super::goals::verdict;

/// How many hits the program has.
const HITS: u64 = 1_000_000;

/// The longest that `show` may take.
const GOAL: f64 = 2.0;

const SOURCE: &str = "\
struct item { int id; } item;
__attribute__ ((noinline)) int work (int n, struct item *p)
{ p->id = n - 1; __asm__ volatile (\"nop; nop; nop; nop; nop\"); return n; }
int main (void) { for (int i = 0; i < HITS; i++) work (i, &item); return 0; }
";

/// Records the program into `folder` and shows the frames, as a table and as JSON.
pub(super) fn run(tracewire: &Path, folder: &Path, rounds: usize) -> Result<()> {
    let (source, program) = (folder.join("show.c"), folder.join("show"));
    let file = folder.join("show.tf");
    fs::write(&source, SOURCE)?;
    let built = Command::new("cc")
        .args(["-g", "-O1", &format!("-DHITS={HITS}"), "-o"])
        .args([&program, &source])
        .status()?;
    ensure!(built.success(), "cc: {built}");
    let recorded = Command::new(tracewire)
        .args(["record", "-t", "work : n, p->id", "-o"])
        .args([&file, Path::new("--"), &program])
        .stderr(Stdio::null())
        .status()?;
    ensure!(recorded.success(), "record: {recorded}");
    let size = fs::metadata(&file)?.len();
    for (what, options) in [("table", &[][..]), ("--json", &["--json"][..])] {
        let (mut times, mut reads) = (Vec::new(), Vec::new());
        let output = folder.join("shown");
        for _ in 0..rounds {
            reads.push(sequential_read(&file)?);
            times.push(show(tracewire, &file, &output, options)?);
        }
        let shown = fs::metadata(&output)?.len();
        let time = seconds(&times);
        println!(
            "show, {what}: {HITS} frames with two values in {time:.2} s, {:.1} times the reading of their {:.0} MB, {:.0} MB \
             of text (at most {GOAL} s: {})",
            time / seconds(&reads),
            size as f64 / 1e6,
            shown as f64 / 1e6,
            verdict(time <= GOAL)
        );
    }
    Ok(())
}

fn show(tracewire: &Path, file: &Path, output: &Path, options: &[&str]) -> Result<Duration> {
    let start = Instant::now();
    let status = Command::new(tracewire)
        .arg("show")
        .args(options)
        .arg(file)
        .stdout(File::create(output)?)
        .status()?;
    ensure!(status.success(), "show: {status}");
    Ok(start.elapsed())
}

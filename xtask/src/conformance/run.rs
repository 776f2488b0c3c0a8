//! Running files of the suite, each by itself, so that one that hangs or breaks takes no other with it.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::folder::{Folder, earlier, name_of};
use super::list::Test;
use super::sum::{Ended, FileResult};

/// How to run.
pub struct Way {
    pub jobs: usize,
    pub limit: Duration,
    pub resume: bool,
}

/// In the environment of everything that a file starts, so that what it leaves behind can be found.
const MARK: &str = "TRACEWIRE_CONFORMANCE";

/// Runs tests, some at a time.
pub fn all(folder: &Folder, tests: &[Test], way: &Way) -> Result<BTreeMap<Test, FileResult>> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(BTreeMap::new());
    let work = || -> Result<()> {
        while let Some(test) = tests.get(next.fetch_add(1, Ordering::Relaxed)) {
            let before = Instant::now();
            let result = one(folder, test, way)
                .with_context(|| format!("{} on the board {}", test.file, test.board))?;
            eprintln!(
                "{} ({}): {} pass, {} fail, {:.0} s{}",
                test.file,
                test.board,
                result.passes,
                result.failures(),
                before.elapsed().as_secs_f64(),
                match result.ended {
                    Ended::Whole => "",
                    Ended::Hung => ": HANGS",
                    Ended::Broken => ": BROKEN OFF",
                }
            );
            if let Ok(mut results) = results.lock() {
                results.insert(test.clone(), result);
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..way.jobs).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            worker
                .join()
                .unwrap_or_else(|_| Err(anyhow::anyhow!("a worker has panicked")))?;
        }
        Ok::<(), anyhow::Error>(())
    })?;
    Ok(results.into_inner().unwrap_or_default())
}

fn one(folder: &Folder, test: &Test, way: &Way) -> Result<FileResult> {
    let outputs = folder.outputs(test);
    if way.resume
        && let Ok(sum) = earlier(&outputs)
    {
        let result = FileResult::parse(&sum, &test.file);
        if result.ended == Ended::Whole {
            return Ok(result);
        }
    }
    if outputs.exists() {
        std::fs::remove_dir_all(&outputs)?;
    }
    std::fs::create_dir_all(&outputs)?;
    let words = File::create(outputs.join("run.log"))?;
    let mark = format!("{}-{}", std::process::id(), outputs.display());
    let mut runtest = Command::new("runtest")
        .args(["--tool", "gdb", "GDB=/usr/bin/gdb"])
        .arg(format!("GDBSERVER={}", folder.gdbserver.display()))
        .arg(format!("--target_board={}", name_of(test.board)))
        .arg("--outdir")
        .arg(&outputs)
        .arg(&test.file)
        .current_dir(folder.of(test.board))
        .env("DEJAGNU", folder.settings())
        .env(MARK, &mark)
        .stdin(Stdio::null())
        .stdout(words.try_clone()?)
        .stderr(words)
        .spawn()
        .context("runtest cannot be started")?;
    let in_time = wait(&mut runtest, way.limit)?;
    if !in_time {
        // It may have ended just now.
        let _ = runtest.kill();
        runtest.wait()?;
    }
    end_marked(&mark);
    let mut result = FileResult::parse(&earlier(&outputs).unwrap_or_default(), &test.file);
    if !in_time {
        result.ended = Ended::Hung;
    }
    remove_programs(&outputs)?;
    Ok(result)
}

/// Whether the child ended before its time was up.
fn wait(child: &mut Child, limit: Duration) -> Result<bool> {
    let end = Instant::now() + limit;
    while Instant::now() < end {
        if child.try_wait()?.is_some() {
            return Ok(true);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(false)
}

/// Ends what a file has left behind: programs, servers, debuggers.
fn end_marked(mark: &str) {
    let entry = format!("{MARK}={mark}");
    let Ok(processes) = std::fs::read_dir("/proc") else {
        return;
    };
    for process in processes.flatten() {
        let name = process.file_name();
        let Some(id) = name.to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        let environment = std::fs::read(process.path().join("environ")).unwrap_or_default();
        if environment
            .split(|byte| *byte == 0)
            .any(|variable| variable == entry.as_bytes())
        {
            // SAFETY: kill takes any numbers.
            unsafe { libc::kill(id, libc::SIGKILL) };
        }
    }
}

/// What was compiled takes much room; the logs stay.
fn remove_programs(folder: &Path) -> Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if entry.file_type()?.is_dir() {
            std::fs::remove_dir_all(entry.path())?;
        } else if !name.starts_with("gdb") && !name.ends_with(".log") {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

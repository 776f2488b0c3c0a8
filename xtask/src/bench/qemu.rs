//! `cargo xtask bench qemu`: instructions a second that the plugin of QEMU records, against QEMU's own log of the same program.
//!
//! The time is that of the QEMU process on all its threads, as the kernel counts it: instructions a second of one core.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tracewire_test_support::{BARE_MACHINES, BareMachine};

use crate::ratio::{median, print_ratio};
use crate::{setup, workspace};

#[derive(clap::Args)]
pub struct Arguments {
    /// How often each has its turn
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// How many instructions the plugin records in a turn
    #[arg(long, default_value_t = 10_000_000)]
    instructions: u64,
    /// Do not fail where a limit is not kept
    #[arg(long)]
    no_limits: bool,
}

/// The limits that the project sets itself: instructions a second with registers and memory, and how many times as many as the log.
const LEAST: f64 = 3e6;
const LEAST_RATIO: f64 = 5.0;

/// The machines that have no other program in front of the test's.
const MACHINES: [&str; 4] = ["riscv64", "aarch64", "arm", "ppc"];

/// How much of a log is compared: QEMU writes it until it is ended.
const LOG: u64 = 200 << 20;

/// The longest that a turn may take.
const PATIENCE: Duration = Duration::from_secs(300);

pub fn run(arguments: &Arguments) -> Result<()> {
    setup::provide(setup::FOR_BENCH_QEMU)?;
    let plugin = workspace::qemu_plugin()?;
    let directory = tempfile::tempdir()?;
    println!(
        "{:<10} {:>22} {:>22}",
        "", "plugin, million/s", "log, million/s"
    );
    let mut slow = Vec::new();
    for machine in BARE_MACHINES {
        if !MACHINES.contains(&machine.name) {
            continue;
        }
        let guest = Guest {
            machine,
            directory: directory.path(),
            elf: machine.build(directory.path()),
        };
        let [mut ours, mut theirs] = <[Vec<f64>; 2]>::default();
        for _ in 0..arguments.rounds {
            ours.push(guest.plugin(&plugin, arguments.instructions)?);
            theirs.push(guest.log()?);
        }
        println!(
            "{:<10} {:>22.2} {:>22.3}",
            machine.name,
            median(&ours) / 1e6,
            median(&theirs) / 1e6
        );
        // The ratio of speeds: those of the log are in place of the times.
        print_ratio(&format!("{}: plugin / log", machine.name), &ours, &theirs);
        if median(&ours) < LEAST || median(&ours) / median(&theirs) < LEAST_RATIO {
            slow.push(machine.name);
        }
    }
    if !slow.is_empty() && !arguments.no_limits {
        bail!("too slow: {}", slow.join(", "));
    }
    Ok(())
}

struct Guest<'a> {
    machine: BareMachine,
    directory: &'a Path,
    elf: std::path::PathBuf,
}

impl Guest<'_> {
    fn command(&self) -> Command {
        let mut command = Command::new(self.machine.qemu);
        command
            .args(self.machine.arguments(&self.elf))
            .stdin(Stdio::null())
            .stderr(Stdio::null());
        command
    }

    /// Instructions a second that the plugin records.
    fn plugin(&self, plugin: &Path, instructions: u64) -> Result<f64> {
        let out = self.directory.join("trace");
        let before = processor_time()?;
        let status = self
            .command()
            .arg("-plugin")
            .arg(format!(
                "{},out={},limit={instructions}",
                plugin.display(),
                out.display()
            ))
            .status()
            .context(self.machine.qemu)?;
        let time = processor_time()? - before;
        if !status.success() {
            bail!("{} ended with {status}", self.machine.qemu);
        }
        fs::remove_file(&out)?;
        Ok(instructions as f64 / time)
    }

    /// Instructions a second that QEMU logs.
    fn log(&self) -> Result<f64> {
        let log = self.directory.join("log");
        let before = processor_time()?;
        let mut child = self
            .command()
            .args(["-accel", "tcg,one-insn-per-tb=on"])
            .args(["-d", "in_asm,exec,cpu,nochain", "-D"])
            .arg(&log)
            .spawn()
            .context(self.machine.qemu)?;
        let grown = wait_for(&log, &mut child);
        let _ = child.kill();
        child.wait()?;
        grown?;
        let time = processor_time()? - before;
        let lines = BufReader::new(fs::File::open(&log)?).split(b'\n');
        let mut count = 0u64;
        for line in lines {
            count += u64::from(line?.starts_with(b"Trace "));
        }
        fs::remove_file(&log)?;
        Ok(count as f64 / time)
    }
}

/// Waits until a log is long enough.
fn wait_for(log: &Path, child: &mut Child) -> Result<()> {
    let start = Instant::now();
    loop {
        let length = fs::metadata(log).map_or(0, |metadata| metadata.len());
        if length >= LOG {
            return Ok(());
        }
        if let Some(status) = child.try_wait()? {
            bail!("QEMU ended with {status}");
        }
        if start.elapsed() > PATIENCE {
            bail!("QEMU's log has {length} bytes after {PATIENCE:?}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The seconds that processes which have ended, and were started here, had a processor.
fn processor_time() -> Result<f64> {
    // SAFETY: a structure of numbers, for which zeros are good.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the structure is there for the time of the call.
    if unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage) } != 0 {
        return Err(std::io::Error::last_os_error()).context("getrusage");
    }
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    Ok(seconds(usage.ru_utime) + seconds(usage.ru_stime))
}

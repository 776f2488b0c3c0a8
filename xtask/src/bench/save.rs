//! `cargo xtask bench save`: a trace buffer full of frames, from the server into a file, in each way there is.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::ratio::median;
use crate::{setup, workspace};

#[derive(clap::Args)]
pub struct Arguments {
    /// How much is saved, in megabytes
    #[arg(long, default_value_t = 500)]
    megabytes: u64,
    /// How often each server has its turn
    #[arg(long, default_value_t = 3)]
    rounds: usize,
}

/// What a frame of the program holds, in bytes.
const FRAME: u64 = 60_000;

/// How long it took to save, in seconds.
#[derive(Default)]
struct Turns {
    /// `tsave`: GDB pulls the buffer and writes the file.
    pulled: Vec<f64>,
    /// `tsave -r`: the server writes the file.
    reported: Vec<f64>,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    setup::provide(setup::FOR_BENCH_HIT)?;
    let tracewire = workspace::tracewire()?;
    let folder = tempfile::tempdir()?;
    let program = folder.path().join("save");
    workspace::run(
        Command::new("cc")
            .args(["-g", "-O1", "-o"])
            .arg(&program)
            .arg(workspace::root().join("xtask/programs/save.c")),
    )?;
    let calls = arguments.megabytes * 1_000_000 / FRAME;
    let mut theirs = Turns::default();
    let mut ours = Turns::default();
    for round in 1..=arguments.rounds {
        eprintln!("round {round} of {}", arguments.rounds);
        let mut server = Command::new("gdbserver");
        server.arg("--once");
        turn(server, folder.path(), calls, &mut theirs)?;
        let mut server = Command::new(&tracewire);
        server
            .args(["gdbserver", "--once", "--files"])
            .arg(folder.path());
        turn(server, folder.path(), calls, &mut ours)?;
    }
    println!(
        "{} frames of {FRAME} bytes, in seconds: gdbserver tsave {:.1}, tracewire tsave {:.1}, tracewire tsave -r {:.2}",
        calls,
        median(&theirs.pulled),
        median(&ours.pulled),
        median(&ours.reported)
    );
    println!(
        "tsave -r: {:.0} times as fast as tsave from gdbserver",
        median(&theirs.pulled) / median(&ours.reported)
    );
    println!(
        "tsave: {:.2} times as fast as from gdbserver",
        median(&theirs.pulled) / median(&ours.pulled)
    );
    Ok(())
}

/// Lets a server trace the program, and GDB save what was collected.
fn turn(mut server: Command, folder: &Path, calls: u64, turns: &mut Turns) -> Result<()> {
    let program = folder.join("save");
    let mut server = server
        .arg("localhost:0")
        .arg(&program)
        .arg(calls.to_string())
        .stderr(Stdio::piped())
        .spawn()
        .context("the server cannot be started")?;
    let mut words = BufReader::new(server.stderr.take().context("no error stream")?);
    let mut line = String::new();
    let port = loop {
        line.clear();
        if words.read_line(&mut line)? == 0 {
            bail!("the server has said no port");
        }
        if let Some(port) = line.trim_end().strip_prefix("Listening on port ") {
            break port.to_owned();
        }
    };
    // The server may say more, which is not waited for.
    std::thread::spawn(move || std::io::copy(&mut words, &mut std::io::sink()));
    let script = folder.join("script.gdb");
    fs::write(
        &script,
        format!(
            "set pagination off\nset confirm off\nset sysroot\n\
             target remote localhost:{port}\n\
             break main\ncontinue\n\
             set trace-buffer-size {}\nset circular-trace-buffer off\n\
             trace work\nactions\ncollect block\nend\n\
             break done\ntstart\ncontinue\ntstop\ntstatus\n\
             python import time\n\
             python start = time.monotonic()\n\
             tsave pulled.tf\n\
             python print('pulled in', time.monotonic() - start)\n\
             python start = time.monotonic()\n\
             tsave -r reported.tf\n\
             python print('reported in', time.monotonic() - start)\n",
            (calls + 100) * (FRAME + 4000)
        ),
    )?;
    let output = Command::new("gdb")
        .current_dir(folder)
        .args(["-nx", "-batch", "-x"])
        .arg(script)
        .arg(&program)
        .output()
        .context("gdb cannot be started")?;
    server.wait()?;
    let said = String::from_utf8_lossy(&output.stdout);
    let figure = |words: &str| {
        said.lines()
            .find_map(|line| line.strip_prefix(words)?.trim().parse::<f64>().ok())
    };
    if !said.contains(&format!("Collected {calls} trace frame")) {
        bail!(
            "not {calls} frames were collected:\n{said}{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    turns
        .pulled
        .push(figure("pulled in").with_context(|| format!("nothing was saved:\n{said}"))?);
    // gdbserver cannot save by itself, and the script ends where it says so.
    if let Some(reported) = figure("reported in") {
        turns.reported.push(reported);
        check(folder, calls)?;
    }
    Ok(())
}

/// Both files must hold the same frames.
fn check(folder: &Path, calls: u64) -> Result<()> {
    use tracewire_tracefile::TraceFile;
    let pulled = TraceFile::open(folder.join("pulled.tf"))?;
    let reported = TraceFile::open(folder.join("reported.tf"))?;
    let same = pulled
        .frames()
        .zip(reported.frames())
        .all(|(left, right)| left.blocks().eq(right.blocks()));
    if reported.frame_count() != calls || pulled.frame_count() != calls || !same {
        bail!("the two ways do not save the same");
    }
    Ok(())
}

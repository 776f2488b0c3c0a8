//! `cargo xtask bench arm`: how long thousands of tracepoints, unknown names and a hundred busy threads keep a user waiting.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use super::flow::FlowProgram;
use crate::ratio::{median, print_ratio};
use crate::{setup, workspace};

#[derive(clap::Args)]
pub struct Arguments {
    /// How many functions have a tracepoint
    #[arg(long, default_value_t = 4000)]
    tracepoints: usize,
    /// How many names there are of which the program has none
    #[arg(long, default_value_t = 10_000)]
    names: usize,
    /// How many functions of a C++ program have their calls followed
    #[arg(long, default_value_t = 30_000)]
    calls: usize,
    /// How many busy threads are attached to
    #[arg(long, default_value_t = 100)]
    threads: usize,
    /// How often each tool has its turn
    #[arg(long, default_value_t = 3)]
    rounds: usize,
}

/// The limits that the project sets itself, in seconds.
const ARMED: f64 = 1.0;
const REMOVED: f64 = 1.0;
const REFUSED: f64 = 2.0;
const ATTACHED: f64 = 1.0;

/// What is measured, where it is, and the command line of the program under test.
struct Bench<'a> {
    arguments: &'a Arguments,
    tracewire: PathBuf,
    directory: PathBuf,
    program: PathBuf,
}

/// Seconds until tracepoints are in a program, and until they are out of it.
#[derive(Default)]
struct Turns {
    armed: Vec<f64>,
    removed: Vec<f64>,
}

/// Seconds of a run under GDB. Its `tstart` sends 8,000 packets before the one that arms, and waits for each reply.
#[derive(Default)]
struct ServerTurns {
    tstart: Vec<f64>,
    tstop: Vec<f64>,
    /// `QTStart` alone, sent again after the run.
    packet: Vec<f64>,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    setup::provide(setup::FOR_BENCH_HIT)?;
    let directory = tempfile::tempdir()?;
    let bench = Bench {
        arguments,
        tracewire: workspace::tracewire()?,
        directory: directory.path().to_owned(),
        program: directory.path().join("arm"),
    };
    bench.prepare()?;
    let flow = FlowProgram::build(directory.path(), arguments.calls)?;
    let mut followed = Vec::new();
    let [mut started, mut attached, mut busy, mut attached_by_gdb] = <[Turns; 4]>::default();
    let [mut ours, mut theirs] = <[ServerTurns; 2]>::default();
    let (mut refused, mut refused_by_gdb) = (Vec::new(), Vec::new());
    for round in 1..=arguments.rounds {
        eprintln!("round {round} of {}", arguments.rounds);
        bench.record_started(&mut started)?;
        bench.record_attached(&["--script", "all.gdb"], 1, &mut attached)?;
        followed.push(flow.follow(&bench.tracewire)?);
        bench.check_mechanisms()?;
        bench.gdb_tracepoints("gdbserver --once -", &mut theirs)?;
        let server = format!("{} gdbserver --once -", bench.tracewire.display());
        bench.gdb_tracepoints(&server, &mut ours)?;
        refused.push(bench.record_unknown()?);
        refused_by_gdb.push(bench.gdb_unknown()?);
        bench.record_attached(&["-t", "f0 : collect x"], arguments.threads, &mut busy)?;
        bench.gdb_attached(&mut attached_by_gdb)?;
    }
    let Arguments {
        tracepoints,
        names,
        threads,
        ..
    } = arguments;
    println!("{:<58} {:>8} {:>8}", "seconds", "median", "limit");
    let mut slow = Vec::new();
    let mut row = |what: &str, turns: &[f64], limit: Option<f64>| {
        let value = median(turns);
        let limit_text = limit.map_or_else(|| "-".to_owned(), |limit| format!("{limit:.1}"));
        println!("{what:<58} {value:>8.3} {limit_text:>8}");
        if limit.is_some_and(|limit| value > limit) {
            slow.push(what.to_owned());
        }
    };
    row(
        &format!("record: {tracepoints} tracepoints in a started program"),
        &started.armed,
        Some(ARMED),
    );
    row(
        &format!("record: {tracepoints} tracepoints in a running program"),
        &attached.armed,
        Some(ARMED),
    );
    row(
        &format!("calls: {} functions of C++, followed", arguments.calls),
        &followed,
        Some(ARMED),
    );
    row(
        "record: their removal, the file and the end",
        &attached.removed,
        Some(REMOVED),
    );
    row(
        "tracewire gdbserver: the packet QTStart",
        &ours.packet,
        Some(ARMED),
    );
    row("tracewire gdbserver: tstop", &ours.tstop, Some(REMOVED));
    row(
        "tracewire gdbserver: tstart with GDB's packets",
        &ours.tstart,
        None,
    );
    row("gdbserver: the packet QTStart", &theirs.packet, None);
    row("gdbserver: tstop", &theirs.tstop, None);
    row("gdbserver: tstart with GDB's packets", &theirs.tstart, None);
    row(
        &format!("record: {names} unknown names"),
        &refused,
        Some(REFUSED),
    );
    row(
        &format!("gdb: {names} unknown names"),
        &refused_by_gdb,
        None,
    );
    row(
        &format!("record: {threads} busy threads attached"),
        &busy.armed,
        Some(ATTACHED),
    );
    row(
        &format!("record: {threads} busy threads left"),
        &busy.removed,
        Some(ATTACHED),
    );
    row(
        &format!("gdb: {threads} busy threads attached"),
        &attached_by_gdb.armed,
        None,
    );
    row(
        &format!("gdb: {threads} busy threads left"),
        &attached_by_gdb.removed,
        None,
    );
    for (what, peer, ours) in [
        (
            "tstart: gdbserver / tracewire gdbserver",
            &theirs.tstart,
            &ours.tstart,
        ),
        (
            "tstop: gdbserver / tracewire gdbserver",
            &theirs.tstop,
            &ours.tstop,
        ),
        ("unknown names: gdb / record", &refused_by_gdb, &refused),
        (
            "busy threads attached: gdb / record",
            &attached_by_gdb.armed,
            &busy.armed,
        ),
        (
            "busy threads left: gdb / record",
            &attached_by_gdb.removed,
            &busy.removed,
        ),
    ] {
        print_ratio(what, peer, ours);
    }
    if !slow.is_empty() {
        bail!("over their limits: {}", slow.join("; "));
    }
    Ok(())
}

/// A program of many functions that begin in different ways. It calls them all, once or for ever in so many threads.
fn source(functions: usize) -> String {
    let mut text =
        "#include <pthread.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\n\
                    int table[64];\n\
                    __attribute__((noinline)) void done(void) { __asm__ volatile(\"\"); }\n"
            .to_owned();
    for index in 0..functions {
        let body = match index % 6 {
            0 => format!("return x + {index};"),
            1 => format!("table[x & 63] += {index}; return table[1];"),
            2 => "int sum = 0; for (int i = 0; i < (x & 7); i++) sum += table[i]; return sum;"
                .to_owned(),
            3 => format!("return x > {index} ? table[x & 63] : x * 3;"),
            4 => "int local[8] = {x}; __asm__ volatile(\"\" : : \"r\"(local) : \"memory\"); return local[1];".to_owned(),
            _ => format!("return f{}(x + 1) + 1;", index - 1),
        };
        let _ = writeln!(
            text,
            "__attribute__((noinline)) int f{index}(int x) {{ {body} }}"
        );
    }
    text.push_str("static int (*const all[])(int) = {\n");
    for index in 0..functions {
        let _ = writeln!(text, "f{index},");
    }
    text.push_str(
        "};\n\
         static void *call(void *for_ever) {\n\
         do\n\
         for (unsigned i = 0; i < sizeof all / sizeof *all; i++) all[i](i);\n\
         while (for_ever);\n\
         return NULL;\n}\n\
         int main(int argc, char **argv) {\n\
         int threads = atoi(argv[1]);\n\
         pthread_t thread;\n\
         for (int i = 0; i < threads; i++) pthread_create(&thread, NULL, call, &thread);\n\
         puts(\"ready\"); fflush(stdout);\n\
         if (threads) pause(); else call(NULL);\n\
         done();\nreturn 0;\n}\n",
    );
    text
}

impl Bench<'_> {
    /// Builds the program and writes the scripts.
    fn prepare(&self) -> Result<()> {
        let functions = self.arguments.tracepoints;
        let source_file = self.directory.join("arm.c");
        fs::write(&source_file, source(functions))?;
        workspace::run(
            Command::new("cc")
                .args(["-g", "-O1", "-pthread", "-o"])
                .arg(&self.program)
                .arg(source_file),
        )?;
        let mut all = String::new();
        for index in 0..functions {
            let _ = writeln!(all, "trace f{index}\nactions\ncollect x\nend");
        }
        fs::write(self.directory.join("all.gdb"), all)?;
        let mut unknown = String::new();
        for index in 0..self.arguments.names {
            let _ = writeln!(unknown, "trace nothing_has_this_name_{index}");
        }
        fs::write(self.directory.join("unknown.gdb"), unknown)?;
        Ok(())
    }

    fn record(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.tracewire);
        command
            .current_dir(&self.directory)
            .args(["record", "-o", "arm.tf"])
            .args(arguments)
            .stderr(Stdio::piped());
        command
    }

    /// The program, which has said that its threads run.
    fn start(&self, threads: usize) -> Result<Program> {
        let mut child = Command::new(&self.program)
            .arg(threads.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .context("the program cannot be started")?;
        let stdout = child.stdout.take().context("no stdout")?;
        let program = Program(child);
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        if line != "ready\n" {
            bail!("the program is not ready: {line}");
        }
        Ok(program)
    }

    /// All tracepoints in a program that is started for it, each hit once.
    fn record_started(&self, turns: &mut Turns) -> Result<()> {
        let mut command = self.record(&["--script", "all.gdb", "--"]);
        command.arg(&self.program).arg("0").stdout(Stdio::null());
        let start = Instant::now();
        let mut child = command.spawn().context("tracewire cannot be started")?;
        let (armed, mut stderr) = until_armed(&mut child, start)?;
        let mut rest = String::new();
        stderr.read_to_string(&mut rest)?;
        if !child.wait()?.success() {
            bail!("the recording failed: {rest}");
        }
        let trace = tracewire_tracefile::TraceFile::open(self.directory.join("arm.tf"))?;
        // Every sixth function calls the one before it.
        let expected = self.arguments.tracepoints + self.arguments.tracepoints / 6;
        if trace.frame_count() != expected as u64 {
            bail!("{} frames, not {expected}", trace.frame_count());
        }
        turns.armed.push(armed);
        Ok(())
    }

    /// Tracepoints in a program that runs, and out of it again.
    fn record_attached(&self, what: &[&str], threads: usize, turns: &mut Turns) -> Result<()> {
        let program = self.start(threads)?;
        let mut command = self.record(what);
        command.args(["--circular", "-p", &program.0.id().to_string()]);
        let start = Instant::now();
        let mut child = command.spawn().context("tracewire cannot be started")?;
        let (armed, mut stderr) = until_armed(&mut child, start)?;
        turns.armed.push(armed);
        let start = Instant::now();
        // SAFETY: the process is our child, which was not waited for.
        unsafe { libc::kill(child.id().try_into()?, libc::SIGINT) };
        let mut rest = String::new();
        stderr.read_to_string(&mut rest)?;
        let status = child.wait()?;
        turns.removed.push(start.elapsed().as_secs_f64());
        // A run without a hit ends with status 1.
        if !status.success() && !rest.contains("tracewire: 0 frames in ") {
            bail!("the recording failed: {rest}");
        }
        Ok(())
    }

    /// Fails if a tracepoint of the last file is a trap for want of memory, and says what served them.
    fn check_mechanisms(&self) -> Result<()> {
        let trace = tracewire_tracefile::TraceFile::open(self.directory.join("arm.tf"))?;
        let mut jumps = 0;
        for tracepoint in trace.description().tracepoints() {
            let served = tracepoint
                .served
                .as_ref()
                .context("a tracepoint was not served")?;
            match &served.reason {
                None => jumps += 1,
                Some(reason) if reason.contains("memory") => {
                    bail!(
                        "tracepoint {} is a trap: {reason}",
                        tracepoint.definition.number
                    )
                }
                Some(_) => {}
            }
        }
        eprintln!("{jumps} of {} are jumps", self.arguments.tracepoints);
        Ok(())
    }

    /// What Python under GDB prints as `KEY SECONDS`.
    fn gdb_figures<const N: usize>(
        &self,
        options: &[&str],
        script: &str,
        keys: [&str; N],
    ) -> Result<[f64; N]> {
        let file = self.directory.join("script.gdb");
        fs::write(
            &file,
            format!(
                "set pagination off\nset confirm off\nset sysroot\nset debuginfod enabled off\nset breakpoint pending off\n\
                 python import time\n{script}"
            ),
        )?;
        let output = Command::new("gdb")
            .current_dir(&self.directory)
            .args(["-nx", "-batch"])
            .args(options)
            .arg("-x")
            .arg(file)
            .output()
            .context("gdb cannot be started")?;
        let text = String::from_utf8_lossy(&output.stdout);
        let mut figures = [0.0; N];
        for (figure, key) in figures.iter_mut().zip(keys) {
            *figure = text
                .lines()
                .find_map(|line| line.strip_prefix(key)?.trim().parse().ok())
                .with_context(|| {
                    let errors = String::from_utf8_lossy(&output.stderr);
                    format!("no figure for `{key}`; GDB said:\n{errors}")
                })?;
        }
        Ok(figures)
    }

    /// `tstart` and `tstop`, with all tracepoints, of a server.
    fn gdb_tracepoints(&self, server: &str, turns: &mut ServerTurns) -> Result<()> {
        let program = self.program.display();
        let script = format!(
            "file {program}\ntarget remote | {server} {program} 0\nbreak main\ncontinue\n\
             source all.gdb\n\
             python start = time.monotonic()\ntstart\npython print('armed', time.monotonic() - start)\n\
             break done\ncontinue\n\
             python start = time.monotonic()\ntstop\npython print('removed', time.monotonic() - start)\n\
             python start = time.monotonic()\nmaint packet QTStart\npython print('packet', time.monotonic() - start)\n\
             maint packet QTStop\nkill\n"
        );
        let [tstart, tstop, packet] =
            self.gdb_figures(&[], &script, ["armed", "removed", "packet"])?;
        turns.tstart.push(tstart);
        turns.tstop.push(tstop);
        turns.packet.push(packet);
        Ok(())
    }

    /// Names that the program does not have.
    fn record_unknown(&self) -> Result<f64> {
        let mut command = self.record(&["--script", "unknown.gdb", "--"]);
        command.arg(&self.program).arg("0");
        let start = Instant::now();
        let output = command.output().context("tracewire cannot be started")?;
        let lasted = start.elapsed().as_secs_f64();
        let said = String::from_utf8_lossy(&output.stderr);
        if output.status.success() || !said.contains("nothing_has_this_name_0") {
            bail!("unknown names were not refused: {said}");
        }
        Ok(lasted)
    }

    fn gdb_unknown(&self) -> Result<f64> {
        let script = "python\n\
             start = time.monotonic()\n\
             refused = 0\n\
             for line in open('unknown.gdb'):\n\
            \x20   try:\n\
            \x20       gdb.execute(line.strip(), to_string=True)\n\
            \x20   except gdb.error:\n\
            \x20       refused += 1\n\
             if refused == len(open('unknown.gdb').readlines()):\n\
            \x20   print('refused', time.monotonic() - start)\n\
             end\n";
        let program = self.program.to_string_lossy();
        let [refused] = self.gdb_figures(&[&program], script, ["refused"])?;
        Ok(refused)
    }

    /// GDB attaches to busy threads, sets a tracepoint's place as a breakpoint without a hit, and detaches.
    fn gdb_attached(&self, turns: &mut Turns) -> Result<()> {
        let program = self.start(self.arguments.threads)?;
        let script = format!(
            "python start = time.monotonic()\nattach {}\npython print('armed', time.monotonic() - start)\n\
             python start = time.monotonic()\ndetach\npython print('removed', time.monotonic() - start)\n",
            program.0.id()
        );
        let path = self.program.to_string_lossy();
        let [armed, removed] = self.gdb_figures(&[&path], &script, ["armed", "removed"])?;
        turns.armed.push(armed);
        turns.removed.push(removed);
        Ok(())
    }
}

/// A program that runs until this is dropped.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until `record` says what serves the first tracepoint, which it does when all are in; the seconds from `start`.
fn until_armed(child: &mut Child, start: Instant) -> Result<(f64, impl Read + use<>)> {
    let mut stderr = BufReader::new(child.stderr.take().context("no stderr")?);
    let mut said = String::new();
    loop {
        let mut line = String::new();
        if stderr.read_line(&mut line)? == 0 {
            bail!("nothing was armed: {said}");
        }
        let mechanisms = [" by jump", " by punned jump", " by trap"];
        if mechanisms.iter().any(|mechanism| line.contains(mechanism)) {
            return Ok((start.elapsed().as_secs_f64(), stderr));
        }
        said.push_str(&line);
    }
}

//! One round: who is killed, where, beside what.

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Instant;

use crate::Random;
use crate::program::{self, Count, Counted, PATIENCE};
use crate::union::Union;

const TRACEWIRE: &str = env!("CARGO_BIN_EXE_tracewire");

/// The process or thread that ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Victim {
    Tracewire,
    Program,
    Thread,
}

/// What is to happen.
#[derive(Clone, Debug)]
pub struct Round {
    pub point: String,
    /// When the point is reached for the how-many-th time.
    pub count: u64,
    pub victim: Victim,
    pub threads: usize,
    pub circular: bool,
    /// Whether the threads run before the tracepoints are there.
    pub early: bool,
    /// Whether there is a tracepoint by trap, too.
    pub mixed: bool,
    /// How many calls are made before the run is ended.
    pub calls: u64,
    pub choice: u64,
}

impl Round {
    pub fn random(point: &str, random: &mut Random) -> Self {
        let victim = match random.below(8) {
            _ if point.starts_with("rescue/") => Victim::Tracewire,
            0..5 => Victim::Tracewire,
            5 => Victim::Program,
            _ => Victim::Thread,
        };
        let mut pick = |of: &[u64]| of[usize::try_from(random.below(of.len() as u64)).unwrap()];
        Self {
            point: point.to_owned(),
            count: pick(&[1, 1, 1, 1, 2, 3, 10, 300]),
            victim,
            threads: usize::try_from(pick(&[16, 16, 16, 16, 32, 64, 200, 500])).unwrap(),
            circular: pick(&[0, 0, 0, 1]) == 1,
            early: pick(&[0, 1]) == 1,
            // A trap ends the program when Tracewire is killed.
            mixed: victim != Victim::Tracewire && pick(&[0, 1]) == 1,
            calls: pick(&[1000, 10_000, 40_000]),
            choice: random.below(u64::MAX),
        }
    }
}

/// What `record` or `rescue` say of frames that are nowhere, in all.
pub fn counted(said: &str) -> u64 {
    let numbers = |line: &str| -> Vec<u64> {
        line.split_whitespace()
            .filter_map(|word| word.replace(',', "").parse().ok())
            .collect()
    };
    said.lines()
        .map(|line| match numbers(line)[..] {
            [lost, ..] if line.contains(" lost: ") || line.contains(" made room ") => lost,
            // All that were made, of which some made room.
            [kept, made, ..] if line.contains(" frames of ") => made - kept,
            _ => 0,
        })
        .sum()
}

/// `record`, and what it says.
pub struct Recorder {
    child: Child,
    lines: mpsc::Receiver<String>,
    said: String,
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Recorder {
    pub fn start(
        folder: &Path,
        program: &Counted,
        options: &[&str],
        set: &[(&str, String)],
    ) -> Self {
        let mut child = Command::new(TRACEWIRE)
            .current_dir(folder)
            .args(["record", "-o", "out.tf"])
            .args(options)
            .args(["-p", &program.id().to_string()])
            .envs(set.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("tracewire runs");
        let stderr = BufReader::new(child.stderr.take().expect("stderr"));
        let (line, lines) = mpsc::channel();
        std::thread::spawn(move || {
            let said = stderr.lines().map_while(Result::ok);
            said.for_each(|said| drop(line.send(said)));
        });
        Self {
            child,
            lines,
            said: String::new(),
        }
    }

    /// Waits until the tracepoints are in; `false` if it has ended before.
    pub fn wait_until_placed(&mut self) -> Result<bool, String> {
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => {
                    let placed = line.contains(" by ");
                    self.said.push_str(&line);
                    self.said.push('\n');
                    if placed {
                        return Ok(true);
                    }
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => return Ok(false),
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    return Err(format!("record hangs:\n{}", self.said));
                }
            }
        }
    }

    pub fn ended(&mut self) -> bool {
        self.child.try_wait().expect("asked").is_some()
    }

    pub fn interrupt(&self) {
        // SAFETY: kill takes plain numbers, and the child has not been waited for.
        unsafe { libc::kill(self.child.id().cast_signed(), libc::SIGINT) };
    }

    pub fn stop(&mut self) {
        self.child.kill().expect("killed");
    }

    pub fn kill(mut self) {
        self.stop();
        self.child.wait().expect("ended");
    }

    /// How it has ended, and what it has said.
    pub fn end(mut self) -> Result<(ExitStatus, String), String> {
        let begun = Instant::now();
        while !self.ended() {
            if begun.elapsed() > PATIENCE {
                return Err(format!("record does not end:\n{}", self.said));
            }
            std::thread::yield_now();
        }
        let status = self.child.wait().expect("ended");
        while let Ok(line) = self.lines.recv_timeout(PATIENCE) {
            self.said.push_str(&line);
            self.said.push('\n');
        }
        Ok((status, std::mem::take(&mut self.said)))
    }
}

/// Saves what a killed Tracewire has left; what that says.
pub fn rescue(folder: &Path, program: &Counted, set: &[(&str, String)]) -> Result<String, String> {
    let done = Command::new(TRACEWIRE)
        .current_dir(folder)
        .envs(set.iter().map(|(name, value)| (name, value)))
        .args(["rescue", "-o", "rest.tf", "-p", &program.id().to_string()])
        .output()
        .expect("tracewire runs");
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    match done.status.code() {
        Some(0 | 1) => Ok(said),
        // The one that comes after it says it all again.
        None if !set.is_empty() => rescue(folder, program, &[]),
        code => Err(format!("rescue: {code:?}: {said}")),
    }
}

/// Does it, in an empty folder. Gives whether the point was reached.
pub fn run(round: &Round, built: &Path, folder: &Path) -> Result<bool, String> {
    let mut program = Counted::start(built, folder, round.threads);
    if round.early {
        program.begin();
    }
    let copy = folder.join("counts-then");
    let mut set = vec![
        (
            "TRACEWIRE_FAIL_POINT",
            format!("{}:{}", round.point, round.count),
        ),
        (
            "TRACEWIRE_FAIL_COPY",
            format!("{}:{}", program.counts_path().display(), copy.display()),
        ),
    ];
    let signal = match round.victim {
        Victim::Tracewire => None,
        Victim::Program => Some((program.id(), libc::SIGKILL)),
        Victim::Thread => Some((program.some_thread(round.choice), libc::SIGUSR2)),
    };
    if let Some((thread, signal)) = signal {
        set.push((
            "TRACEWIRE_FAIL_SIGNAL",
            format!("{}:{thread}:{signal}", program.id()),
        ));
    }
    std::fs::write(
        folder.join("seldom.gdb"),
        "trace hit\nactions\ncollect thread, seq, check\nend\n\
         trace seldom\nactions\ncollect thread, seq, check\nwhile-stepping 1\ncollect $pc\nend\nend\n",
    )
    .unwrap();
    let mut options = match round.mixed {
        true => vec!["-x", "seldom.gdb"],
        false => vec!["--mechanism", "jump", "-t", "hit : thread, seq, check"],
    };
    if round.circular {
        options.push("--circular");
    }
    let in_rescue = round.point.starts_with("rescue/");
    let nothing = Vec::new();
    let (in_record, in_rescue) = match in_rescue {
        true => (&nothing, &set),
        false => (&set, &nothing),
    };
    let mut recorder = Recorder::start(folder, &program, &options, in_record);
    let placed = recorder.wait_until_placed()?;
    program.begin();
    let mut before_end = None;
    if placed {
        program.wait_for(round.calls, || copy.exists() || recorder.ended());
        let now = program.counts();
        if !recorder.ended() && !copy.exists() {
            before_end = Some(now);
        }
        if !recorder.ended() {
            if in_rescue.is_empty() {
                recorder.interrupt();
            } else {
                recorder.stop();
            }
        }
    }
    let (status, mut said) = recorder.end()?;
    let killed = status.signal() == Some(libc::SIGKILL);
    if !killed && !matches!(status.code(), Some(0 | 1)) && round.victim != Victim::Program {
        return Err(format!("record: {status}:\n{said}"));
    }
    if killed {
        if let Some(status) = program.ended() {
            return Err(format!("the program has ended: {status}"));
        }
        said = rescue(folder, &program, in_rescue)?;
    }
    let reached = copy.exists();
    let copied = reached.then(|| program::counts(&copy, round.threads));
    // What was made after the run was told to end need not be there.
    let by_then = before_end.or(copied).unwrap_or_else(|| program.counts());
    let (ended, finally) = program.finish();
    let expected = match round.victim {
        Victim::Program if reached => ended.signal() == Some(libc::SIGKILL),
        _ => ended.success(),
    };
    if !expected {
        return Err(format!("the program is harmed: {ended}"));
    }
    compare(round, folder, &said, killed, placed, &by_then, &finally)?;
    Ok(reached)
}

fn compare(
    round: &Round,
    folder: &Path,
    said: &str,
    killed: bool,
    placed: bool,
    by_then: &[Count],
    finally: &[Count],
) -> Result<(), String> {
    let mut union = Union::default();
    let (whole, growing, rest) = (
        folder.join("out.tf"),
        folder.join("out.tf.recording"),
        folder.join("rest.tf"),
    );
    let first = if whole.exists() { &whole } else { &growing };
    // Of a file whose first page was not written yet there is nothing to read.
    if first.metadata().is_ok_and(|file| file.len() > 0) {
        union.add(first)?;
    }
    if rest.exists() {
        union.add(&rest)?;
    }
    if !placed {
        return Ok(());
    }
    let lost = counted(said);
    let from_first = !round.early;
    let (missing, gap) = union.missing(by_then, from_first);
    let seldom = if round.mixed {
        union.missing_seldom(by_then, from_first)
    } else {
        0
    };
    // A circular buffer is memory: once it is not in the program any more, it goes with Tracewire.
    let gone = round.circular && killed && !said.contains("jump") && !said.contains("frame");
    if missing + seldom > lost && !gone {
        return Err(format!(
            "{missing} and {seldom} frames are missing, the first {gap:?}, {lost} are counted, {} and {} are there:\n{said}",
            union.hits.frames, union.seldom.frames
        ));
    }
    let most: u64 = finally
        .iter()
        .map(|count| count.begun + if round.mixed { count.seldom_begun } else { 0 })
        .sum();
    // Steps may have made room, too.
    if round.circular && round.mixed {
        return Ok(());
    }
    let all = union.hits.frames + union.seldom.frames + lost;
    if all > most {
        return Err(format!(
            "{all} frames are there or counted, of {most} calls:\n{said}"
        ));
    }
    Ok(())
}

//! One round: what is killed, where, and in which scenario.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;

use crate::program::{self, Count, Counted, PATIENCE};
use crate::union::Union;
use fastrand::Rng;

const TRACEWIRE: &str = env!("CARGO_BIN_EXE_tracewire");

/// The process or thread that ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Victim {
    Tracewire,
    Program,
    Thread,
}

const VICTIMS: [(&str, Victim); 3] = [
    ("tracewire", Victim::Tracewire),
    ("program", Victim::Program),
    ("thread", Victim::Thread),
];

/// The events of a round. They do not depend on the victim of the kill.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scenario {
    pub circular: bool,
    /// Whether the threads run before the tracepoints are there.
    pub early: bool,
    /// Whether there is a tracepoint by trap, too.
    pub mixed: bool,
    /// Whether the fail points are those of `rescue`, after a killed `record`.
    pub rescue: bool,
}

/// A word in a scenario's name, and the flag that it sets.
type Mark = (&'static str, fn(&mut Scenario) -> &mut bool);

const MARKS: [Mark; 4] = [
    ("circular", |scenario| &mut scenario.circular),
    ("early", |scenario| &mut scenario.early),
    ("mixed", |scenario| &mut scenario.mixed),
    ("rescue", |scenario| &mut scenario.rescue),
];

impl Scenario {
    const NONE: Self = Self {
        circular: false,
        early: false,
        mixed: false,
        rescue: false,
    };

    /// All scenarios: a trap ends the program when Tracewire is killed, so that there is nothing to rescue.
    pub fn all() -> Vec<Self> {
        let mut all = vec![Self::NONE];
        for (_, mark) in MARKS {
            for mut scenario in all.clone() {
                *mark(&mut scenario) = true;
                all.push(scenario);
            }
        }
        all.retain(|scenario| !(scenario.mixed && scenario.rescue));
        all
    }
}

/// The place of a kill, and its victim.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Kill {
    pub point: String,
    /// When the point is reached for the how-many-th time.
    pub count: u64,
    pub victim: Victim,
}

/// The plan of a round.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Round {
    pub kill: Kill,
    pub threads: usize,
    /// How many calls are made before the run is ended.
    pub calls: u64,
    /// How many microseconds a thread pauses after some calls.
    pub pause: u32,
    /// Which thread is killed.
    pub choice: u64,
    pub scenario: Scenario,
}

impl fmt::Display for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Kill {
            point,
            count,
            victim,
        } = &self.kill;
        let victim = VICTIMS.iter().find(|(_, known)| known == victim);
        let victim = victim.map_or("", |(name, _)| name);
        let numbers = [
            *count,
            self.threads as u64,
            self.calls,
            self.pause.into(),
            self.choice,
        ];
        write!(
            f,
            "{point} {victim} {}",
            numbers.map(|n| n.to_string()).join(" ")
        )?;
        let mut scenario = self.scenario;
        for (name, mark) in MARKS {
            if *mark(&mut scenario) {
                write!(f, " {name}")?;
            }
        }
        Ok(())
    }
}

impl Round {
    /// Parses the output of `Display`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        let point = words.next()?.to_owned();
        let name = words.next()?;
        let (_, victim) = VICTIMS.into_iter().find(|(known, _)| *known == name)?;
        let mut number = || words.next()?.parse::<u64>().ok();
        let [count, threads, calls, pause, choice] =
            [number()?, number()?, number()?, number()?, number()?];
        let mut scenario = Scenario::NONE;
        for word in words {
            let (_, mark) = MARKS.into_iter().find(|(name, _)| *name == word)?;
            *mark(&mut scenario) = true;
        }
        Some(Self {
            kill: Kill {
                point,
                count,
                victim,
            },
            threads: threads.try_into().ok()?,
            calls,
            pause: pause.try_into().ok()?,
            choice,
            scenario,
        })
    }

    /// A round that kills at a point, which the scenario is known to reach so many times.
    pub fn random(point: &str, scenario: Scenario, reached: u64, random: &mut Rng) -> Self {
        let victim = match random.u64(..8) {
            _ if scenario.rescue => Victim::Tracewire,
            // A trap ends the program when Tracewire is killed.
            0..5 if !scenario.mixed => Victim::Tracewire,
            0..4 => Victim::Program,
            _ => Victim::Thread,
        };
        // The next time it may be reached less often.
        let count = random.choice([1, 1, 1, 2, 3, 10, 300]).unwrap();
        let threads = match random.u64(..32) {
            0 => 500,
            1 => 200,
            2..4 => 64,
            4..8 => 32,
            _ => 16,
        };
        Self {
            kill: Kill {
                point: point.to_owned(),
                count: count.min(reached / 2).max(1),
                victim,
            },
            threads,
            calls: random.choice([500, 1000, 2000, 10_000]).unwrap(),
            pause: random.choice([0, 200, 1000, 5000]).unwrap(),
            choice: random.u64(..),
            scenario,
        }
    }
}

/// The total of lost frames in the messages of `record` or `rescue`.
pub fn counted(said: &str) -> u64 {
    let numbers = |line: &str| -> Vec<u64> {
        line.split_whitespace()
            .filter_map(|word| word.replace(',', "").parse().ok())
            .collect()
    };
    said.lines()
        .map(|line| match numbers(line)[..] {
            [lost, ..] if line.contains(" lost: ") || line.contains(" made room ") => lost,
            // All frames that were made, some of which were overwritten.
            [kept, made, ..] if line.contains(" frames of ") => made - kept,
            _ => 0,
        })
        .sum()
}

/// `record`, and its output.
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
        Self::start_at(folder, program.id(), options, set)
    }

    /// Records a process.
    pub fn start_at(folder: &Path, process: u32, options: &[&str], set: &[(&str, String)]) -> Self {
        let mut child = Command::new(TRACEWIRE)
            .current_dir(folder)
            .args(["record", "-o", "out.tf"])
            .args(options)
            .args(["-p", &process.to_string()])
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

    /// Waits until so many tracepoints are in; `false` if it has ended before.
    pub fn wait_until_placed(&mut self, mut count: usize) -> Result<bool, String> {
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => {
                    let placed = line.contains(" by ");
                    self.said.push_str(&line);
                    self.said.push('\n');
                    count -= usize::from(placed);
                    if count == 0 {
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

    /// Its exit status, and its output.
    pub fn end(mut self) -> Result<(ExitStatus, String), String> {
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => {
                    self.said.push_str(&line);
                    self.said.push('\n');
                }
                // It has closed its standard error.
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    return Err(format!("record does not end:\n{}", self.said));
                }
            }
        }
        let status = self.child.wait().expect("ended");
        Ok((status, std::mem::take(&mut self.said)))
    }
}

/// Saves what a killed Tracewire has left; what that says.
pub fn rescue(folder: &Path, process: u32, set: &[(&str, String)]) -> Result<String, String> {
    let done = Command::new(TRACEWIRE)
        .current_dir(folder)
        .envs(set.iter().map(|(name, value)| (name, value)))
        .args(["rescue", "-o", "rest.tf", "-p", &process.to_string()])
        .output()
        .expect("tracewire runs");
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    match done.status.code() {
        Some(0 | 1) => Ok(said),
        // The one that comes after it says it all again.
        None if !set.is_empty() => rescue(folder, process, &[]),
        code => Err(format!("rescue: {code:?}: {said}")),
    }
}

/// How often each fail point is reached in a scenario without a kill, in an empty directory: rounded down to a power of two.
pub fn points(
    scenario: Scenario,
    built: &Path,
    folder: &Path,
) -> Result<BTreeMap<String, u64>, String> {
    let log = folder.join("points");
    let ways = Ways {
        scenario,
        threads: 16,
        calls: 2000,
        pause: 200,
    };
    let set = |_: &Counted| vec![("TRACEWIRE_FAIL_LOG", log.display().to_string())];
    go(&ways, None, built, folder, set)?;
    let log = std::fs::read_to_string(&log).map_err(|error| error.to_string())?;
    let lines = log.lines().filter_map(|line| line.split_once(' '));
    // The last line of each is the highest.
    Ok(lines
        .filter_map(|(name, count)| Some((name.to_owned(), count.parse().ok()?)))
        .collect())
}

/// Does it, in an empty folder. Gives whether the point was reached.
pub fn run(round: &Round, built: &Path, folder: &Path) -> Result<bool, String> {
    let ways = Ways {
        scenario: round.scenario,
        threads: round.threads,
        calls: round.calls,
        pause: round.pause,
    };
    let kill = &round.kill;
    let copy = folder.join(COPY);
    let set = |program: &Counted| {
        let mut set = vec![
            (
                "TRACEWIRE_FAIL_POINT",
                format!("{}:{}", kill.point, kill.count),
            ),
            (
                "TRACEWIRE_FAIL_COPY",
                format!("{}:{}", program.counts_path().display(), copy.display()),
            ),
        ];
        let signal = match kill.victim {
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
        set
    };
    go(&ways, Some(kill.victim), built, folder, set)
}

/// The path to which the program's counts are copied when the point is reached.
const COPY: &str = "counts-then";

struct Ways {
    scenario: Scenario,
    threads: usize,
    calls: u64,
    pause: u32,
}

fn go(
    ways: &Ways,
    victim: Option<Victim>,
    built: &Path,
    folder: &Path,
    set: impl FnOnce(&Counted) -> Vec<(&'static str, String)>,
) -> Result<bool, String> {
    let scenario = ways.scenario;
    let mut program = Counted::start(built, folder, ways.threads, ways.pause);
    if scenario.early {
        program.begin();
    }
    let copy = folder.join(COPY);
    let set = set(&program);
    std::fs::write(
        folder.join("seldom.gdb"),
        "trace hit\nactions\ncollect thread, seq, check\nend\n\
         trace seldom\nactions\ncollect thread, seq, check\nwhile-stepping 1\ncollect $pc\nend\nend\n",
    )
    .unwrap();
    let mut options = match scenario.mixed {
        true => vec!["-x", "seldom.gdb"],
        false => vec!["--mechanism", "jump", "-t", "hit : thread, seq, check"],
    };
    if scenario.circular {
        options.push("--circular");
    }
    let nothing = Vec::new();
    let (in_record, in_rescue) = match scenario.rescue {
        true => (&nothing, &set),
        false => (&set, &nothing),
    };
    let mut recorder = Recorder::start(folder, &program, &options, in_record);
    let placed = recorder.wait_until_placed(1)?;
    program.begin();
    let mut before_end = None;
    if placed {
        program.wait_for(ways.calls, || copy.exists() || recorder.ended());
        let now = program.counts();
        if !recorder.ended() && !copy.exists() {
            before_end = Some(now);
        }
        if !recorder.ended() {
            if scenario.rescue {
                recorder.stop();
            } else {
                recorder.interrupt();
            }
        }
    }
    let (status, mut said) = recorder.end()?;
    let killed = status.signal() == Some(libc::SIGKILL);
    if !killed && !matches!(status.code(), Some(0 | 1)) && victim != Some(Victim::Program) {
        return Err(format!("record: {status}:\n{said}"));
    }
    if killed {
        if let Some(status) = program.ended() {
            return Err(format!("the program has ended: {status}"));
        }
        said = rescue(folder, program.id(), in_rescue).map_err(|error| match program.ended() {
            Some(status) => format!("{error}The program has ended: {status}"),
            None => error,
        })?;
    }
    let reached = copy.exists();
    let copied = reached.then(|| program::counts(&copy, ways.threads));
    // Calls after the run was told to end need no frame.
    let by_then = before_end.or(copied).unwrap_or_else(|| program.counts());
    let (ended, finally) = program.finish();
    let expected = match victim {
        Some(Victim::Program) if reached => ended.signal() == Some(libc::SIGKILL),
        _ => ended.success(),
    };
    if !expected {
        return Err(format!("the program is harmed: {ended}"));
    }
    compare(scenario, folder, &said, killed, placed, &by_then, &finally)?;
    Ok(reached)
}

fn compare(
    scenario: Scenario,
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
    if first.exists() {
        union.add(first)?;
    }
    if rest.exists() {
        union.add(&rest)?;
    }
    if !placed {
        return Ok(());
    }
    // Of a killed run, the program's memory has the counts until they are in the file.
    let lost = match killed {
        true => counted(said).max(union.counted),
        false => counted(said),
    };
    let from_first = !scenario.early;
    let (missing, gap) = union.missing(by_then, from_first);
    let seldom = if scenario.mixed {
        union.missing_seldom(by_then, from_first)
    } else {
        0
    };
    if missing + seldom > lost {
        return Err(format!(
            "{missing} and {seldom} frames are missing, the first {gap:?}, {lost} are counted, {} and {} are there:\n{said}",
            union.hits.frames, union.seldom.frames
        ));
    }
    let most: u64 = finally
        .iter()
        .map(|count| {
            count.begun
                + if scenario.mixed {
                    count.seldom_begun
                } else {
                    0
                }
        })
        .sum();
    // Steps may have made room, too.
    if scenario.circular && scenario.mixed {
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

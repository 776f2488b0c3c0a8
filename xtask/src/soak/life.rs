//! The life of one program: started by `record`, or attached to, detached from, killed and rescued in turn.

use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use fastrand::Rng;

use super::frames::{Counted, Gaps, Kept};
use super::process::{Process, Usage, dump, ending, traces_left, until};
use super::subject::{Shared, Subject};

/// The limit of any step. On a busy machine a step takes a minute.
const LIMIT: Duration = Duration::from_secs(300);

/// When resident memory is measured first in a long recording: the one-time allocations are made by then.
const SETTLED: Duration = Duration::from_secs(5);

/// How much a long recording may grow beyond that, in KiB: by the symbols of a program that another one becomes, and by the frames
/// that wait for a slow disk, for which there are 256 MiB.
const GROWTH: u64 = (160 + 256) << 10;

/// The most descriptors that a Tracewire has open, and the most memory, in KiB.
const MOST: Usage = Usage {
    memory: 1 << 20,
    descriptors: 64,
};

/// The events of one life, or of all.
#[derive(Clone, Copy, Default)]
pub struct Tally {
    pub programs: u64,
    pub started: u64,
    pub let_go: u64,
    pub ended: u64,
    pub killed: u64,
    pub rescued: u64,
    /// System calls that failed with `EINTR` because a tracer was killed.
    pub interrupted: u64,
    pub frames: u64,
    pub lost: u64,
    pub usage: Usage,
}

impl Tally {
    pub fn add(&mut self, other: &Self) {
        self.programs += other.programs;
        self.started += other.started;
        self.let_go += other.let_go;
        self.ended += other.ended;
        self.killed += other.killed;
        self.rescued += other.rescued;
        self.interrupted += other.interrupted;
        self.frames += other.frames;
        self.lost += other.lost;
        self.usage = self.usage.most(other.usage);
    }
}

/// How an attached recording ends.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Ending {
    /// By itself, after this time.
    Time(Duration),
    /// By a signal that it handles, so long after its start.
    Signal(libc::c_int, Duration),
    /// By SIGKILL, so long after its start.
    Kill(Duration),
    /// By SIGKILL, so long after the tracepoint is in.
    KillInRun(Duration),
}

impl Ending {
    const fn kills(self) -> bool {
        matches!(self, Self::Kill(_) | Self::KillInRun(_))
    }
}

/// One program.
pub struct Life<'a> {
    pub subject: &'a Subject,
    pub tracewire: &'a Path,
    /// Where the programs are.
    pub programs: &'a Path,
    /// A separate directory.
    pub folder: PathBuf,
    pub random: Rng,
    /// How long an act may be at most.
    pub longest: Duration,
    pub tally: Tally,
}

impl Life<'_> {
    /// Runs it; an error is a fault of Tracewire.
    pub fn live(&mut self) -> Result<()> {
        self.tally.programs += 1;
        if self.random.u64(..4) == 0 {
            self.start_recorded()
        } else {
            self.attach_to()
        }
    }

    fn shared(&self) -> Result<Shared> {
        Shared::new(self.folder.join("shared"))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The actions of a tracepoint; the arguments are always among them.
    fn tracepoint(&mut self) -> String {
        let more = ["", ", $regs", ", *(long *) $rsp@4"][self.random.usize(..3)];
        let condition = ["", " if $rdi >= 0"][self.random.usize(..2)];
        format!("site{condition} : $rdi, $rsi{more}")
    }

    fn record(&mut self, kills: bool, output: &Path) -> Vec<String> {
        let mut words = vec![self.tracewire.display().to_string(), "record".to_owned()];
        let mechanism = if kills {
            // A trap that is left ends the program, and nothing else is promised.
            Some("jump")
        } else {
            [None, None, Some("trap")][self.random.usize(..3)]
        };
        if let Some(mechanism) = mechanism {
            words.extend(["--mechanism".to_owned(), mechanism.to_owned()]);
        }
        if self.random.u64(..3) == 0 {
            words.push("--circular".to_owned());
        }
        words.extend(["-t".to_owned(), self.tracepoint()]);
        words.extend(["-o".to_owned(), output.display().to_string()]);
        words
    }

    fn hangs(&self, what: &str, processes: &[u32]) -> anyhow::Error {
        let path = self.file("hang.txt");
        let dumped = dump(processes, &path);
        let stacks = match dumped {
            Ok(()) => format!("the stacks are in {}", path.display()),
            Err(error) => format!("no stacks: {error}"),
        };
        anyhow::anyhow!("{what} hangs; {stacks}")
    }

    /// Started by `record`: each call is a frame, or counted.
    fn start_recorded(&mut self) -> Result<()> {
        self.tally.started += 1;
        let shared = self.shared()?;
        let output = self.file("started.tf");
        let calls = 50 + self.random.u64(..2000);
        let mut words = self.record(false, &output);
        words.push("--".to_owned());
        words.extend(self.subject.command(self.programs, &shared, calls));
        let mut recorder = Process::start(&words, self.file("started.txt"))?;
        // On a busy machine all calls together may take longer than the limit of a single step.
        let mut before = 0;
        let status = loop {
            if let Some(status) = recorder.wait(LIMIT)? {
                break status;
            }
            let calls = shared.calls()?;
            if std::mem::replace(&mut before, calls) == calls {
                return Err(self.hangs("record", &[recorder.id()]));
            }
        };
        let said = recorder.said();
        let what = format!("{}\n{said}", recorder.name());
        if let Some(line) = shared.wrong()? {
            bail!("the program found something wrong in line {line}: {what}");
        }
        ensure!(
            shared.is_done()?,
            "the program did not come to its end: {what}"
        );
        ensure!(
            status.code() == Some(0),
            "record: {}: {what}",
            ending(status)
        );
        let mut kept = Kept::default();
        kept.read(&output)?;
        let (count, counted, all) = (kept.count(), Counted::read(&said), shared.calls()?);
        let known = count + counted.lost + counted.given_up;
        ensure!(kept.gaps().twice == 0, "a frame is there twice: {what}");
        if self.subject.is_exact {
            ensure!(
                known == all,
                "{all} calls, {count} frames, {counted:?}: {what}"
            );
        } else {
            ensure!(count <= all, "{all} calls, {count} frames: {what}");
        }
        self.tally.frames += count;
        self.tally.lost += counted.lost;
        Ok(std::fs::remove_file(output)?)
    }

    /// Attached to some times.
    fn attach_to(&mut self) -> Result<()> {
        let shared = self.shared()?;
        let words = self.subject.command(self.programs, &shared, 0);
        let mut program = Process::start(&words, self.file("program.txt"))?;
        ensure!(
            until(LIMIT, || shared.works())?,
            "the program does not begin"
        );
        let mut kills = 0;
        for act in 0..1 + self.random.u64(..4) {
            let ending = self.ending();
            kills += u64::from(ending.kills());
            self.act(act, &mut program, ending)?;
            if let Some(line) = shared.wrong()? {
                bail!("the program found something wrong in line {line} after {ending:?}");
            }
            // The kernel leaves a tracer a moment in which its kill shows.
            let interrupted = shared.interrupted()?;
            ensure!(
                interrupted <= kills,
                "{interrupted} system calls were interrupted by {kills} kills, the last {ending:?}"
            );
            if let Some(status) = program.ended()? {
                bail!(
                    "the program ended by {} after {ending:?}: {}",
                    super::process::ending(status),
                    program.said()
                );
            }
            // Pads stay where a thread may come back to one.
            if kills == 0 && !self.subject.keeps_pads {
                let left = traces_left(program.id());
                ensure!(left.is_empty(), "left in the program: {left:?}");
            }
        }
        self.tally.interrupted += shared.interrupted()?;
        shared.end()?;
        let Some(status) = program.wait(LIMIT)? else {
            return Err(self.hangs("the program", &[program.id()]));
        };
        ensure!(
            status.success() && shared.is_done()?,
            "the program ended by {}, wrong in line {:?}: {}",
            ending(status),
            shared.wrong()?,
            program.said()
        );
        Ok(())
    }

    fn ending(&mut self) -> Ending {
        let short = |random: &mut Rng| Duration::from_micros(random.u64(..300_000));
        match self.random.u64(..16) {
            0..6 => Ending::Time(short(&mut self.random) + Duration::from_millis(1)),
            6 => Ending::Time(self.longest),
            7..10 => {
                let signals = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];
                let signal = signals[self.random.usize(..signals.len())];
                Ending::Signal(signal, short(&mut self.random) * 3)
            }
            10..12 => Ending::Kill(short(&mut self.random) * 3),
            _ => Ending::KillInRun(short(&mut self.random)),
        }
    }

    fn act(&mut self, act: u64, program: &mut Process, how: Ending) -> Result<()> {
        let output = self.file(&format!("act-{act}.tf"));
        let mut words = self.record(how.kills(), &output);
        words.extend(["-p".to_owned(), program.id().to_string()]);
        if let Ending::Time(time) = how {
            words.extend(["--duration".to_owned(), time.as_secs_f64().to_string()]);
        }
        let mut recorder = Process::start(&words, self.file(&format!("act-{act}.txt")))?;
        match how {
            Ending::Time(time) => self.watch(&mut recorder, time)?,
            Ending::Signal(signal, after) => {
                std::thread::sleep(after);
                recorder.signal(signal)?;
            }
            Ending::Kill(after) => {
                std::thread::sleep(after);
                recorder.signal(libc::SIGKILL)?;
            }
            Ending::KillInRun(after) => {
                let is_in = |recorder: &mut Process| {
                    Ok(recorder.said().contains("tracepoint 1 by ") || recorder.ended()?.is_some())
                };
                // If it takes too long, the wait below reports it.
                until(LIMIT, || is_in(&mut recorder))?;
                std::thread::sleep(after);
                recorder.signal(libc::SIGKILL)?;
            }
        }
        let Some(status) = recorder.wait(LIMIT)? else {
            return Err(self.hangs(&format!("{how:?}: record"), &[recorder.id(), program.id()]));
        };
        let said = recorder.said();
        let what = format!("{how:?}: {}\n{said}", recorder.name());
        if status.signal() == Some(libc::SIGKILL) {
            self.tally.killed += 1;
            return self.rescue(program, &output, &what);
        }
        match how {
            Ending::Time(_) => self.tally.let_go += 1,
            _ => self.tally.ended += 1,
        }
        let before_the_run = ["before the run began", "try again"];
        match status.code() {
            Some(0 | 1) => {}
            Some(2) if before_the_run.iter().any(|words| said.contains(words)) => return Ok(()),
            // A program whose only thread waits in `vfork` can make no memory for jumps.
            Some(2) if self.subject.keeps_pads && said.contains("no tracepoint can be put at") => {
                return Ok(());
            }
            // It came before it was expected.
            None if matches!(how, Ending::Signal(signal, _) if status.signal() == Some(signal)) => {
                return Ok(());
            }
            _ => bail!("record: {}: {what}", ending(status)),
        }
        let mut kept = Kept::default();
        kept.read(&output)?;
        let counted = Counted::read(&said);
        self.compare(kept, counted, &what)?;
        Ok(std::fs::remove_file(output)?)
    }

    /// The calls between the first and the last one of each thread must be there, or counted.
    fn compare(&mut self, mut kept: Kept, counted: Counted, what: &str) -> Result<()> {
        let Gaps { missing, twice } = kept.gaps();
        let known = counted.lost + counted.given_up;
        if self.subject.is_exact {
            ensure!(
                missing <= known,
                "{missing} frames are missing, {counted:?}: {what}"
            );
        }
        ensure!(
            twice <= u64::from(counted.maybe_twice),
            "{twice} frames are there twice: {what}"
        );
        self.tally.frames += kept.count();
        self.tally.lost += counted.lost;
        Ok(())
    }

    fn rescue(&mut self, program: &mut Process, output: &Path, what: &str) -> Result<()> {
        let rest = output.with_extension("rest.tf");
        let words = [
            self.tracewire.display().to_string(),
            "rescue".to_owned(),
            "-p".to_owned(),
            program.id().to_string(),
            "-o".to_owned(),
            rest.display().to_string(),
        ];
        let mut rescue = Process::start(&words, rest.with_extension("txt"))?;
        let Some(status) = rescue.wait(LIMIT)? else {
            return Err(self.hangs("rescue", &[rescue.id(), program.id()]));
        };
        let said = rescue.said();
        let what = format!("{what}{said}");
        if let Some(status) = program.ended()? {
            bail!("the program ended by {}: {what}", ending(status));
        }
        ensure!(
            matches!(status.code(), Some(0 | 1)),
            "rescue: {}: {what}",
            ending(status)
        );
        self.tally.rescued += u64::from(status.code() == Some(0));
        let growing = PathBuf::from(format!("{}.recording", output.display()));
        // One that was finished before it was killed is under its name.
        let saved = [output.to_owned(), growing];
        let saved = saved.iter().find(|path| path.exists());
        let mut kept = Kept::default();
        let rests = (1..).map(|number| match number {
            1 => rest.clone(),
            _ => PathBuf::from(format!("{}.{number}", rest.display())),
        });
        let rests = rests.take_while(|path| path.exists());
        let files: Vec<PathBuf> = saved.cloned().into_iter().chain(rests).collect();
        for file in &files {
            kept.read(file)?;
        }
        self.compare(kept, Counted::read(&said), &what)?;
        Ok(files.iter().try_for_each(std::fs::remove_file)?)
    }

    /// Measures the recorder's memory and descriptors while it runs.
    fn watch(&mut self, recorder: &mut Process, time: Duration) -> Result<()> {
        let begun = Instant::now();
        let mut settled = None;
        while recorder.ended()?.is_none() && begun.elapsed() < time + LIMIT {
            let usage = Usage::of(recorder.id());
            self.tally.usage = self.tally.usage.most(usage);
            ensure!(
                usage.memory <= MOST.memory && usage.descriptors <= MOST.descriptors,
                "record has {} KiB and {} descriptors: {}",
                usage.memory,
                usage.descriptors,
                recorder.name()
            );
            if begun.elapsed() > SETTLED && usage.memory > 0 {
                let first = *settled.get_or_insert(usage.memory);
                ensure!(
                    usage.memory <= first + GROWTH,
                    "record has grown from {first} KiB to {} KiB: {}",
                    usage.memory,
                    recorder.name()
                );
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

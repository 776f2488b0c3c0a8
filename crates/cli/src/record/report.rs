//! What is said on stderr: what was set where, how the run ended, what to do next.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use tracewire_experiment::{Experiment, FrameStore, Missing, Served};
use tracewire_model::{Address, ThreadId, Tracepoint, kgtp_meaning};
use tracewire_script::{Pending, Placed, Script};
use tracewire_target_linux::Event;
use tracewire_views::{taken_for_another, words};

use super::few::{TOLD, tell};

/// How many locations of one tracepoint are told one by one.
const LOCATIONS_TOLD: usize = 8;

/// How many tracepoints a message names: of those that GDB takes for others, and of those with the most hits.
const EXAMPLES_TOLD: usize = 3;

/// How a recording went.
#[derive(Debug)]
pub struct Report {
    pub output: PathBuf,
    pub ending: Ending,
    pub lasted: u64,
    pub frames: u64,
    pub created: u64,
    pub tracepoints: Vec<Tracepoint>,
    pub missing: Vec<(i32, Missing)>,
    pub pending: Vec<Pending>,
    pub attached_to: Option<ThreadId>,
    /// Frames that pads could not keep.
    pub losses: tracewire_experiment::Losses,
    /// Whether there is a file to look at: a stream is read by another.
    pub is_file: bool,
    pub verbose: bool,
}

/// Why the run is over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ending {
    /// The program has ended.
    Program(Event),
    /// A pass count, a full buffer or an error; in words.
    Itself(String),
    /// ^C, a signal, or the time.
    Asked(&'static str),
}

/// Says something on stderr.
pub fn say(message: impl std::fmt::Display) {
    anstream::eprintln!("tracewire: {message}");
}

/// Says something that the user should look at.
pub fn warn(message: impl std::fmt::Display) {
    let style = anstyle::AnsiColor::Yellow.on_default();
    anstream::eprintln!("tracewire: {style}warning:{style:#} {message}");
}

/// Names the commands of a script that have no part in a recording.
pub fn ignored_commands(script: &Script) {
    if script.ignored.is_empty() {
        return;
    }
    let named: Vec<String> = script
        .ignored
        .iter()
        .map(|ignored| {
            let line = ignored.command.line_number();
            format!("{} (line {line})", ignored.command.word_text())
        })
        .collect();
    say(format_args!(
        "left out, as the run itself does this or it needs a stop: {}",
        named.join(", ")
    ));
}

/// Names the variables of a script that another target would give a meaning.
pub fn foreign_variables(script: &Script) {
    for variable in &script.variables {
        if let Some(meaning) = kgtp_meaning(&variable.name) {
            warn(format_args!(
                "${} is a plain variable here, with no effect; to KGTP it {meaning}",
                variable.name
            ));
        }
    }
}

/// Says where tracepoints were put.
pub fn placed(placed: &[Placed], verbose: bool) {
    let mut told: Option<(i32, usize)> = None;
    let mut numbers = BTreeSet::new();
    for one in placed {
        let is_known = numbers.contains(&one.definition.number);
        if !is_known && numbers.len() >= TOLD && !verbose {
            let all: BTreeSet<_> = placed.iter().map(|one| one.definition.number).collect();
            let more = all.len() - TOLD;
            say(format_args!(
                "{more} more tracepoints are set; --verbose names them"
            ));
            break;
        }
        numbers.insert(one.definition.number);
        let number = one.definition.number.0;
        let count = match told {
            Some((same, count)) if same == number => count + 1,
            _ => 1,
        };
        told = Some((number, count));
        if count <= LOCATIONS_TOLD || verbose {
            say(format_args!("tracepoint {number} at {}", where_it_is(one)));
        } else if count == LOCATIONS_TOLD + 1 {
            let same = |other: &&Placed| other.definition.number.0 == number;
            let all = placed.iter().filter(same).count();
            say(format_args!(
                "tracepoint {number} at {} more locations",
                all - LOCATIONS_TOLD
            ));
        }
    }
}

fn where_it_is(placed: &Placed) -> String {
    let state = if placed.definition.enabled {
        ""
    } else {
        ", disabled"
    };
    format!("{}{state}", placed.location)
}

/// Says what serves tracepoints that have been put in at these addresses.
pub fn served<S: FrameStore>(experiment: &Experiment<S>, addresses: &[Address], verbose: bool) {
    let mut told: BTreeMap<(i32, String), u64> = BTreeMap::new();
    for tracepoint in experiment.tracepoints() {
        let definition = tracepoint.definition();
        if !addresses.contains(&definition.address) {
            continue;
        }
        let words = match experiment.served(definition.address) {
            Some(Served::Jump(way)) => (*way).to_owned(),
            Some(Served::Trap(Some(why))) => format!("trap: {}", words::printable(why)),
            Some(Served::Trap(None)) => "trap".to_owned(),
            None => continue,
        };
        *told.entry((definition.number.0, words)).or_default() += 1;
    }
    if told.len() > TOLD && !verbose {
        let mut by_words: BTreeMap<String, u64> = BTreeMap::new();
        for ((_, words), count) in told {
            *by_words.entry(words).or_default() += count;
        }
        let lines = by_words
            .iter()
            .map(|(words, count)| format!("{} by {words}", words::count(*count, "location")));
        tell(lines, verbose, "ways", say);
        return;
    }
    for ((number, words), count) in told {
        let many = if count > 1 {
            format!(" ({count} locations)")
        } else {
            String::new()
        };
        say(format_args!("tracepoint {number} by {words}{many}"));
    }
}

/// Says which tracepoints wait.
pub fn pending(pending: &[Pending], verbose: bool) {
    let lines = pending.iter().map(|one| {
        let reason = words::printable(&one.reason);
        format!("tracepoint {} waits: {reason}", one.number)
    });
    tell(lines, verbose, "tracepoints wait", say);
}

impl Report {
    /// Whether the program is gone.
    pub fn program_ended(&self) -> bool {
        matches!(self.ending, Ending::Program(_))
    }

    /// The summary, as soon as the file is written.
    pub fn print_summary(&self) {
        let ending = match &self.ending {
            Ending::Program(event) => program_words(event),
            Ending::Itself(words) => words.clone(),
            Ending::Asked(words) => (*words).to_owned(),
        };
        say(format_args!(
            "{ending}, after {}",
            words::duration(self.lasted)
        ));
        if let Some(process) = self.attached_to.filter(|_| !self.program_ended()) {
            say(format_args!("process {process} runs on"));
        }
        let mut frames = words::count(self.frames, "frame");
        if self.created > self.frames {
            frames.push_str(&format!(" of {}", self.created));
        }
        say(format_args!(
            "{frames} in {}; hits: {}",
            self.output.display(),
            self.hits()
        ));
        let losses = &self.losses;
        for (count, why) in [
            (
                losses.ring_full,
                "the program was faster than this could read",
            ),
            (
                losses.ring_held,
                "the rings were full behind a frame whose thread had not finished it",
            ),
            (losses.too_long, "they were too long"),
            (losses.without_stack, "their threads had no stack left"),
            (losses.torn, "they were never finished"),
        ] {
            if count > 0 {
                warn(format_args!("{} lost: {why}", words::count(count, "frame")));
            }
        }
        let lines = self.missing.iter().map(|(number, missing)| {
            let first = missing
                .first
                .map_or_else(String::new, |address| format!(", the first at {address}"));
            let values = words::count(missing.count, "value");
            format!("tracepoint {number}: {values} could not be read{first}")
        });
        tell(
            lines,
            self.verbose,
            "tracepoints had values that could not be read",
            warn,
        );
        let lines = self.pending.iter().map(|pending| {
            let reason = words::printable(&pending.reason);
            format!("tracepoint {} was never set: {reason}", pending.number)
        });
        tell(lines, self.verbose, "tracepoints were never set", warn);
    }

    /// Hits by tracepoint, locations added up; of many tracepoints a summary.
    fn hits(&self) -> String {
        let mut sums: BTreeMap<i32, u64> = BTreeMap::new();
        for tracepoint in &self.tracepoints {
            let hits = tracepoint.usage.map_or(0, |usage| usage.hits);
            *sums.entry(tracepoint.definition.number.0).or_default() += hits;
        }
        let words = |(number, hits): (&i32, &u64)| format!("tracepoint {number} {hits}");
        if sums.is_empty() {
            return "none".to_owned();
        }
        if sums.len() <= TOLD || self.verbose {
            return sums.iter().map(words).collect::<Vec<_>>().join(", ");
        }
        let all: u64 = sums.values().sum();
        let mut most: Vec<_> = sums.iter().filter(|(_, hits)| **hits > 0).collect();
        let hit = most.len();
        most.sort_by_key(|(_, hits)| std::cmp::Reverse(**hits));
        let most: Vec<String> = most.into_iter().take(EXAMPLES_TOLD).map(words).collect();
        let most = if most.is_empty() {
            String::new()
        } else {
            format!(", most of {}", most.join(", "))
        };
        let info = if self.is_file {
            format!(" (`tracewire info {}` has all)", quoted(&self.output))
        } else {
            String::new()
        };
        format!("{all} of {hit} of {} tracepoints{most}{info}", sums.len())
    }

    /// What to do next.
    pub fn print_ending(&self) {
        if !self.is_file {
            return;
        }
        let file = quoted(&self.output);
        say(format_args!("look at it with:    tracewire show {file}"));
        say(format_args!(
            "or in GDB:          tracewire show {file} --gdb > run.gdb && gdb -x run.gdb"
        ));
        let taken = taken_for_another(&self.tracepoints);
        let told = if self.verbose {
            taken.len()
        } else {
            EXAMPLES_TOLD
        };
        for one in taken.iter().take(told) {
            say(one);
        }
        if let Some(more @ 1..) = taken.len().checked_sub(told) {
            say(format_args!(
                "so it does with {more} more; `tracewire show {file} --gdb` names them"
            ));
        }
    }

    /// Waits for a program that was started and goes on.
    pub fn wait_for_program(&mut self, process: ThreadId) {
        let mut status = 0;
        let Ok(id) = libc::pid_t::try_from(process.0) else {
            return;
        };
        loop {
            // SAFETY: the status is a good place for an int; any number may be asked for.
            let waited = unsafe { libc::waitpid(id, &raw mut status, libc::__WALL) };
            // A stop of the program is its own affair and its shell's.
            let interrupted =
                std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted;
            if waited == id || !interrupted {
                return;
            }
        }
    }
}

/// A file name as a shell takes it.
pub fn quoted(path: &std::path::Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:,@%".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text;
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// How a program ended, in words.
pub fn program_words(event: &Event) -> String {
    match event {
        Event::Exited(code) => format!("the program exited with code {code}"),
        Event::Killed {
            signal,
            core_dumped,
        } => format!(
            "the program was killed by signal {signal}{}{}",
            signal_name(*signal),
            if *core_dumped { " and dumped core" } else { "" }
        ),
        _ => "the program has ended".to_owned(),
    }
}

fn signal_name(signal: i32) -> &'static str {
    match signal {
        libc::SIGHUP => " (SIGHUP)",
        libc::SIGINT => " (SIGINT)",
        libc::SIGQUIT => " (SIGQUIT)",
        libc::SIGILL => " (SIGILL)",
        libc::SIGTRAP => " (SIGTRAP)",
        libc::SIGABRT => " (SIGABRT)",
        libc::SIGBUS => " (SIGBUS)",
        libc::SIGFPE => " (SIGFPE)",
        libc::SIGKILL => " (SIGKILL)",
        libc::SIGSEGV => " (SIGSEGV)",
        libc::SIGPIPE => " (SIGPIPE)",
        libc::SIGALRM => " (SIGALRM)",
        libc::SIGTERM => " (SIGTERM)",
        libc::SIGSYS => " (SIGSYS)",
        _ => "",
    }
}

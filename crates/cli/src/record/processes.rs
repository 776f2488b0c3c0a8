//! `record` of several processes: a folder with a trace file for each.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::Context;
use tempfile::TempDir;
use tracewire_model::{ThreadId, TracepointNumber};
use tracewire_recorder::{
    CanaryEvent, FinishedFile, LeanRefused, Observer, Observers, Priority, RecordError,
    RecordEvent, RecordedPart, Recorder, RunReport, out_of_memory,
};
use tracewire_script::Script;
use tracewire_tracefile::{RunWriter, private};
use tracewire_views::words;

use super::events::Events;
use super::few::{MOST_PRINTED, tell};
use super::live::{AllCounters, Live};
use super::options::{configure, live_of};
use super::report::{
    Tone, add_hits, ending_words, error_words, hits_words, quoted, skipped_words, tell_event,
    tell_losses, tell_pauses, tell_released, tell_skipped,
};
use super::signals::{Signals, Watch};
use crate::answer::Answer;
use crate::arguments::RecordArguments;
use crate::message::{say, warn};
use crate::output::is_lean_name;
use crate::progress::Progress;

/// The directory of the parts.
struct Folder {
    path: PathBuf,
    /// A temporary directory is removed with this value.
    temporary: Option<TempDir>,
}

impl Folder {
    fn new(output: Option<&Path>) -> anyhow::Result<Self> {
        let Some(path) = output else {
            let folder = tempfile::Builder::new().prefix("tracewire-").tempdir();
            let folder =
                folder.context("no temporary directory for trace files that are not kept")?;
            return Ok(Self {
                path: folder.path().to_owned(),
                temporary: Some(folder),
            });
        };
        if path.as_os_str() == "-" {
            anyhow::bail!(
                "the trace files of several processes go into a folder, not to standard output: expected a name after -o"
            );
        }
        if is_lean_name(path) {
            return Err(LeanRefused::Several.into());
        }
        if private::is_foreign_link(path) {
            anyhow::bail!(
                "the output {} is a symbolic link in a folder that others can write to, and is not followed; choose another name",
                path.display()
            );
        }
        Ok(Self {
            path: path.to_owned(),
            temporary: None,
        })
    }

    fn create(&self) -> anyhow::Result<RunWriter> {
        let shown = self.path.display();
        RunWriter::create(&self.path).map_err(|error| match error.kind() {
            std::io::ErrorKind::DirectoryNotEmpty => anyhow::anyhow!(
                "the output {shown} has files in it; the trace files of several processes go into a new folder: \
                 choose another name, or remove it"
            ),
            std::io::ErrorKind::NotADirectory | std::io::ErrorKind::AlreadyExists => anyhow::anyhow!(
                "the output {shown} is a file; the trace files of several processes go into a new folder: choose another name"
            ),
            _ => anyhow::Error::new(error).context(format!("cannot make the folder {shown}")),
        })
    }
}

/// `record` of several processes. The calling thread has the priority until the threads of the processes have begun.
pub fn record(
    arguments: &RecordArguments,
    script: Script,
    trigger: BTreeSet<TracepointNumber>,
    processes: Vec<ThreadId>,
    priority: Option<Priority>,
) -> anyhow::Result<Answer> {
    let mut recorder = match arguments.program.as_slice() {
        [] => Recorder::selected(),
        [program, words @ ..] => Recorder::spawn(program, words),
    };
    let expected = processes.len() + usize::from(!arguments.program.is_empty());
    configure(&mut recorder, arguments, script, trigger)?;
    if arguments.selection.later {
        recorder.record_later(arguments.selection.selection());
    }
    let stop = recorder.stop_handle();
    let folder = Folder::new(arguments.output.as_deref())?;
    let writer = folder.create()?;
    let mut live = live_of(arguments, stop.clone())?;
    let signals = Signals::block();
    out_of_memory::reserve().context("there is not the memory that a run needs to end in order")?;
    let watch = Watch::begin(signals, stop.clone()).context("cannot start a thread")?;
    live.begin_run(&folder.path);
    let events = arguments
        .events
        .as_deref()
        .map(Events::create)
        .transpose()?;
    let teller = Everyone::new(expected, arguments.verbose, &live, events);
    if expected == 0 {
        say("no such process runs now; those that start are recorded (^C ends the run)");
    }
    // The report is made when the programs' threads still leave this one no processor.
    let _hastened = stop.hasten_at_end();
    let recorded = recorder.record_processes(processes, writer, &teller, priority);
    stop.share_soon();
    drop(teller);
    let shown_live = live.end();
    let report = recorded.map_err(|error| error_words(error, arguments.verbose))?;
    let summary = Summary {
        report: &report,
        folder: folder.temporary.is_none().then_some(folder.path.as_path()),
        hints: arguments.events.is_none(),
        verbose: arguments.verbose,
    };
    summary.print();
    shown_live?;
    watch.only_wait();
    if let Some(failure) = &report.canary_failure {
        anyhow::bail!("{failure}");
    }
    for part in &report.parts {
        if let Some(error) = &part.failure {
            anyhow::bail!("process {}: {error}", part.process);
        }
    }
    Ok(
        if report.ended.frames > 0 || report.parts.iter().any(|part| part.report.saw_something()) {
            Answer::Yes
        } else {
            Answer::No
        },
    )
}

/// Prints the events of all processes on stderr: equal messages of several only once.
struct Everyone {
    verbose: bool,
    /// The events for another program.
    events: Option<Events>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// How many processes there are from the start.
    expected: usize,
    /// The processes that have begun, and those that will not.
    begun: HashSet<ThreadId>,
    failed: HashSet<ThreadId>,
    /// How many have begun that were found later.
    later: usize,
    said: HashSet<String>,
    counters: AllCounters,
    progress: Progress,
}

impl Everyone {
    fn new(expected: usize, verbose: bool, live: &Live, events: Option<Events>) -> Self {
        let mut state = State {
            expected,
            counters: live.counters(),
            ..State::default()
        };
        let is_shown = live.is_wanted() && std::io::IsTerminal::is_terminal(&std::io::stdout());
        if !is_shown {
            let counters = state.counters.clone();
            state.progress = Progress::begin(move |elapsed| {
                counters.with(|all| {
                    format!(
                        "{}, {}, {}{}, {} s  (^C ends the run)",
                        words::count(all.len() as u64, "process"),
                        words::count(all.iter().map(|one| one.frames()).sum(), "frame"),
                        words::bytes(all.iter().map(|one| one.bytes()).sum()),
                        skipped_words(all.iter().map(|one| one.skipped()).sum()),
                        elapsed.as_secs(),
                    )
                })
            });
        }
        Self {
            verbose,
            events,
            state: Mutex::new(state),
        }
    }

    /// A process that was started or attached to has begun, or will not.
    fn note_start(&self, process: ThreadId, has_begun: bool) {
        let mut state = lock(&self.state);
        if state.begun.len() + state.failed.len() >= state.expected {
            if has_begun {
                state.later += 1;
                let _aside = state.progress.aside();
                if state.later <= MOST_PRINTED || self.verbose {
                    say(format_args!(
                        "process {process} has started, and is recorded"
                    ));
                } else if state.later == MOST_PRINTED + 1 {
                    say("more processes start; --verbose names them");
                }
            }
            return;
        }
        let is_new = if has_begun {
            state.begun.insert(process)
        } else {
            state.failed.insert(process)
        };
        let begun = state.begun.len();
        if is_new && begun > 0 && begun + state.failed.len() == state.expected {
            let _aside = state.progress.aside();
            say(format_args!(
                "{} {} recorded",
                words::count(begun as u64, "process"),
                if begun == 1 { "is" } else { "are" }
            ));
        }
    }

    /// Prints a message unless the same one was printed for another process.
    fn once(&self, process: ThreadId, tone: Tone, text: &str) {
        let mut state = lock(&self.state);
        if !state.said.insert(without_addresses(text)) {
            return;
        }
        let _aside = state.progress.aside();
        match tone {
            Tone::Plain => say(text),
            Tone::Warning => warn(format_args!("process {process}: {text}")),
        }
    }
}

impl Observers for Everyone {
    fn of(&self, process: ThreadId, parent: Option<ThreadId>) -> Box<dyn Observer + '_> {
        Box::new(OneOfAll {
            everyone: self,
            process,
            parent,
        })
    }

    fn rotated(&self, file: &FinishedFile) {
        if let Some(events) = &self.events {
            events.rotated(file);
        }
    }

    fn ended(&self, part: &RecordedPart) {
        if let Some(events) = &self.events {
            events.ended(part);
        }
    }

    fn failed(&self, process: ThreadId, parent: Option<ThreadId>, error: &RecordError) {
        if let Some(events) = &self.events {
            events.failed(process, error);
        }
        let reason = error.to_string();
        self.once(
            process,
            Tone::Warning,
            &format!("not recorded: {}", words::printable_lines(&reason)),
        );
        if parent.is_none() {
            self.note_start(process, false);
        }
    }

    fn canary(&self, process: ThreadId, event: CanaryEvent) {
        let state = lock(&self.state);
        let _aside = state.progress.aside();
        match event {
            CanaryEvent::Begun { others, time } => say(format_args!(
                "process {process} is recorded first, for {time:?}; {} if it is well",
                match others {
                    1 => "the other one follows".to_owned(),
                    others => format!("{others} others follow"),
                }
            )),
            CanaryEvent::Well => say(format_args!("process {process} is well: the others follow")),
            _ => {}
        }
    }
}

/// Prints the events of one process of several.
struct OneOfAll<'e> {
    everyone: &'e Everyone,
    process: ThreadId,
    parent: Option<ThreadId>,
}

impl Observer for OneOfAll<'_> {
    fn event(&mut self, event: RecordEvent<'_>) {
        match event {
            RecordEvent::Begun { counters, .. } => {
                match &self.everyone.events {
                    // The reader of the events shows no progress, and the run may have any number of processes.
                    Some(events) => events.begun(self.process),
                    None => lock(&self.everyone.state).counters.add(counters),
                }
                if self.parent.is_none() {
                    self.everyone.note_start(self.process, true);
                }
            }
            RecordEvent::Over => {}
            event => tell_event(event, self.everyone.verbose, &mut |tone, words| {
                self.everyone.once(self.process, tone, &words);
            }),
        }
    }
}

/// A message without its addresses, which differ from process to process.
fn without_addresses(text: &str) -> String {
    let mut rest = text;
    let mut plain = String::with_capacity(text.len());
    while let Some(at) = rest.find("0x") {
        let (before, address) = rest.split_at(at + 2);
        plain.push_str(before);
        rest = address.trim_start_matches(|c: char| c.is_ascii_hexdigit());
    }
    plain + rest
}

/// How the run went, for people.
struct Summary<'r> {
    report: &'r RunReport,
    /// The directory, if it is kept.
    folder: Option<&'r Path>,
    /// Whether hints for the next step are printed.
    hints: bool,
    verbose: bool,
}

impl Summary<'_> {
    fn print(&self) {
        let parts = &self.report.parts;
        let hit: Vec<&RecordedPart> = parts
            .iter()
            .filter(|part| {
                self.verbose || !part.report.program_ended() || part.report.saw_something()
            })
            .collect();
        let lines = hit.iter().map(|part| {
            let mut hits = BTreeMap::new();
            add_hits(&part.report, &mut hits);
            let ending = if part.report.program_ended() {
                ending_words(&part.report)
            } else {
                "it runs on".to_owned()
            };
            format!(
                "process {}: {}; hits: {}; {ending}",
                part.process,
                words::count(part.report.frames(), "frame"),
                hits_words(&hits, self.verbose, String::new),
            )
        });
        tell(lines, self.verbose, "processes", say);
        for part in parts {
            tell_skipped(&part.report, self.verbose, |text| {
                say(format_args!("process {}: {text}", part.process));
            });
            tell_pauses(&part.report, self.verbose, |text| {
                say(format_args!("process {}: {text}", part.process));
            });
            tell_losses(&part.report, self.verbose, |text| {
                warn(format_args!("process {}: {text}", part.process));
            });
        }
        let (mut hits, mut frames, mut pending) = (BTreeMap::new(), 0, BTreeMap::new());
        for part in parts {
            add_hits(&part.report, &mut hits);
            frames += part.report.frames();
            for one in &part.report.pending {
                pending.entry(one.number).or_insert(one);
            }
        }
        let never = pending
            .iter()
            .filter(|(number, _)| !hits.contains_key(&number.0));
        let never = never.map(|(number, one)| {
            let reason = words::printable(&one.reason);
            format!("tracepoint {number} was never set: {reason}")
        });
        tell(never, self.verbose, "tracepoints were never set", warn);
        let place = match self.folder {
            Some(folder) => format!(" in {}", folder.display()),
            None => ", kept in no file".to_owned(),
        };
        let processes: HashSet<ThreadId> = parts.iter().map(|part| part.process).collect();
        say(format_args!(
            "{} of {}{place}; hits: {}",
            words::count(frames, "frame"),
            words::count(processes.len() as u64, "process"),
            hits_words(&hits, self.verbose, String::new)
        ));
        let ended = &self.report.ended;
        if ended.processes > 0 {
            say(format_args!(
                "{} of {} that ended before",
                words::count(ended.frames, "frame"),
                words::count(ended.processes, "process")
            ));
        }
        let stops = &self.report.stops;
        if stops.count() > 0 {
            say(format_args!(
                "threads were stopped {}: median {}, longest {}",
                words::count(stops.count(), "time"),
                words::short(stops.median()),
                words::short(stops.longest())
            ));
        }
        let released = parts.iter().map(|part| part.report.released_children).sum();
        tell_released(released);
        if let Some(folder) = self.folder.filter(|_| self.hints).map(quoted) {
            say(format_args!("look at it with:    tracewire show {folder}"));
            if let Some(part) = parts.iter().max_by_key(|part| part.report.frames()) {
                let file = quoted(&part.path);
                say(format_args!(
                    "or one in GDB:      tracewire show {file} --gdb > run.gdb && gdb -x run.gdb"
                ));
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! Messages on stderr: where tracepoints were set, how the run ended, what to do next.

use std::collections::{BTreeMap, BTreeSet};
use std::io::IsTerminal as _;
use std::path::Path;
use std::sync::Arc;

use tracewire_experiment::Served;
use tracewire_model::{SpanRole, StatusFields, kgtp_warning};
use tracewire_recorder::{
    Counters, Ending, HitCost, Installed, LocationCost, Observer, RecordError, RecordEvent, Report,
    Stop, program_words,
};
use tracewire_script::{Pending, Placed, ResolveWarning, Script};
use tracewire_views::{paused_tracepoints, skipped_hits, taken_for_another, words};

use super::few::{MOST_PRINTED, once_each, tell};
use super::live::Live;
use crate::message::{say, warn};
use crate::output::is_lean_name;
use crate::progress::Progress;

/// How many locations of one tracepoint are listed one by one.
const LOCATIONS_TOLD: usize = 8;

/// How many tracepoints a message names: of those that GDB takes for others, and of those with the most hits.
const EXAMPLES_TOLD: usize = 3;

/// A script without a tracepoint.
pub const NO_TRACEPOINTS: &str =
    "the script sets no tracepoint: expected `trace LOCATION`, or -t LOCATION";

/// A hint for a pattern with very many places.
const EXCESSIVE: &str = "a narrower pattern is faster; --yes sets tracepoints at all of them, and `tracewire list` names them";

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
        if let Some(warning) = kgtp_warning(&variable.name) {
            warn(warning);
        }
    }
}

/// Prints where tracepoints were set.
pub fn placed(placed: &[Placed], verbose: bool, mut print: impl FnMut(String)) {
    let (departures, placed): (Vec<_>, Vec<_>) =
        (placed.iter()).partition(|one| role(one).is_some_and(SpanRole::is_departure) && !verbose);
    listed(&placed, verbose, &mut print);
    if let Some(words) = departure_words(&departures) {
        print(words);
    }
}

/// Prints the locations of each tracepoint.
fn listed(placed: &[&Placed], verbose: bool, print: &mut impl FnMut(String)) {
    let mut latest: Option<(i32, usize)> = None;
    let mut numbers = BTreeSet::new();
    for one in placed {
        let is_known = numbers.contains(&one.definition.number);
        if !is_known && numbers.len() >= MOST_PRINTED && !verbose {
            let all: BTreeSet<_> = placed.iter().map(|one| one.definition.number).collect();
            let more = all.len() - MOST_PRINTED;
            print(format!(
                "{more} more tracepoints are set; --verbose names them"
            ));
            break;
        }
        numbers.insert(one.definition.number);
        let number = one.definition.number.0;
        let count = match latest {
            Some((same, count)) if same == number => count + 1,
            _ => 1,
        };
        latest = Some((number, count));
        if count <= LOCATIONS_TOLD || verbose {
            print(format!("tracepoint {number} at {}", where_it_is(one)));
        } else if count == LOCATIONS_TOLD + 1 {
            let same = |other: &&&Placed| other.definition.number.0 == number;
            let all = placed.iter().filter(same).count();
            print(format!(
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
    let location = words::printable(&placed.location.to_string());
    let role = match role(placed) {
        Some(SpanRole::Return) => ", a return",
        Some(SpanRole::TailCall | SpanRole::MayTailCall) => ", a tail call",
        _ => "",
    };
    format!("{location}{role}{state}")
}

/// What the location is to the function of a span.
fn role(placed: &Placed) -> Option<SpanRole> {
    (placed.definition.source.span_point()).map(|point| point.role)
}

/// Where spans end that have no return: the user has not asked for these functions.
fn departure_words(departures: &[&Placed]) -> Option<String> {
    let mut names: Vec<String> = Vec::new();
    for one in departures {
        let name = (one.location.function.as_deref())
            .map_or_else(|| one.definition.address.to_string(), words::printable);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    (!names.is_empty()).then(|| {
        format!(
            "spans that end by an exception, longjmp or pthread_exit are seen in {}",
            names.join(", ")
        )
    })
}

/// Prints how the installed tracepoints are served.
fn installed(installed: &[Installed], verbose: bool, mut print: impl FnMut(String)) {
    let mut counts: BTreeMap<(i32, String), u64> = BTreeMap::new();
    for one in installed {
        let words = match &one.served {
            Served::Jump(way) => (*way).to_owned(),
            Served::Trap(Some(why)) => format!("trap: {}", words::printable(why)),
            Served::Trap(None) => "trap".to_owned(),
            Served::Watchpoint => "watchpoint".to_owned(),
        };
        *counts.entry((one.number.0, words)).or_default() += 1;
    }
    if counts.len() > MOST_PRINTED && !verbose {
        let mut by_words: BTreeMap<String, u64> = BTreeMap::new();
        for ((_, words), count) in counts {
            *by_words.entry(words).or_default() += count;
        }
        let lines = by_words
            .iter()
            .map(|(words, count)| format!("{} by {words}", words::count(*count, "location")));
        tell(lines, verbose, "ways", print);
        return;
    }
    for ((number, words), count) in counts {
        let many = if count > 1 {
            format!(" ({count} locations)")
        } else {
            String::new()
        };
        print(format!("tracepoint {number} by {words}{many}"));
    }
}

/// Prints which tracepoints wait.
fn pending(pending: &[Pending], verbose: bool, print: impl FnMut(String)) {
    let lines = pending.iter().map(|one| {
        let reason = words::printable(&one.reason);
        format!("tracepoint {} waits: {reason}", one.number)
    });
    tell(lines, verbose, "tracepoints wait", print);
}

/// Prints what is left out at some addresses.
pub fn resolve_warnings(warnings: &[ResolveWarning], verbose: bool, print: impl FnMut(String)) {
    let warnings = once_each(warnings.iter().map(|warning| {
        let text = format!("{}: {}", warning.place, warning.message);
        (words::printable(&text), warning.address)
    }));
    tell(warnings, verbose, "warnings", print);
}

/// Prints events on stderr, and shows the progress of the run.
#[derive(Debug)]
pub struct Teller {
    pub verbose: bool,
    /// Whether the program is started, and may write to the terminal itself.
    pub spawned: bool,
    pub progress: Progress,
    /// The output of frames as they come.
    pub live: Live,
}

impl Teller {
    fn begin_progress(&mut self, counters: Arc<Counters>) {
        if (self.spawned || self.live.is_wanted()) && std::io::stdout().is_terminal() {
            return;
        }
        self.progress = Progress::begin(move |elapsed| {
            format!(
                "{}, {}{}, {} s  (^C ends the run)",
                words::count(counters.frames(), "frame"),
                words::bytes(counters.bytes()),
                skipped_words(counters.skipped()),
                elapsed.as_secs(),
            )
        });
    }
}

/// Hits that were skipped so far, for a line of counts.
pub fn skipped_words(skipped: u64) -> String {
    match skipped {
        0 => String::new(),
        hits => format!(", {} skipped", words::count(hits, "hit")),
    }
}

impl Observer for Teller {
    fn event(&mut self, event: RecordEvent<'_>) {
        match event {
            RecordEvent::Begun { counters, growing } => {
                self.live.counters().add(Arc::clone(&counters));
                self.begin_progress(counters);
                self.live.begin(growing);
            }
            RecordEvent::Over => self.progress = Progress::default(),
            event => {
                let _aside = self.progress.aside();
                tell_event(event, self.verbose, &mut |tone, words| match tone {
                    Tone::Plain => say(words),
                    Tone::Warning => warn(words),
                });
            }
        }
    }
}

/// The kind of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tone {
    Plain,
    /// A warning for the user.
    Warning,
}

/// Prints an event, line by line.
pub fn tell_event(event: RecordEvent<'_>, verbose: bool, voice: &mut dyn FnMut(Tone, String)) {
    match event {
        RecordEvent::JumpsTakenOver(jumps) => voice(
            Tone::Plain,
            format!(
                "a Tracewire that was killed had left {}, taken out now; `tracewire rescue` has its frames",
                words::count(jumps as u64, "jump")
            ),
        ),
        RecordEvent::Placed(all) => placed(all, verbose, |words| voice(Tone::Plain, words)),
        RecordEvent::Pending(all) => pending(all, verbose, |words| voice(Tone::Plain, words)),
        RecordEvent::Costs(all) => costs(all, verbose, |words| voice(Tone::Plain, words)),
        RecordEvent::Installed(all) => installed(all, verbose, |words| voice(Tone::Plain, words)),
        RecordEvent::Exec => voice(Tone::Plain, "the program has become another one".to_owned()),
        RecordEvent::EndedBeforeProgram(status) => voice(Tone::Plain, own_end(status)),
        RecordEvent::Problems(problems) => {
            tell(problems, verbose, "problems", |words| {
                voice(Tone::Warning, words)
            });
        }
        RecordEvent::NotFound(problems) => voice(Tone::Warning, first_lines(problems, verbose)),
        RecordEvent::NotInstalled(errors) => {
            tell(errors, verbose, "problems", |words| {
                voice(Tone::Warning, words)
            });
        }
        RecordEvent::ResolveWarnings(warnings) => {
            resolve_warnings(warnings, verbose, |words| voice(Tone::Warning, words));
        }
        RecordEvent::Warning(warning) => voice(Tone::Warning, warning.to_string()),
        _ => {}
    }
}

/// A hint about a place that is not found.
const WAIT: &str = "a place that comes with a library opened later, or with a program that this one becomes, is waited for \
                    with --pending";

/// An error, of whose parts there may be thousands.
pub fn error_words(error: RecordError, verbose: bool) -> anyhow::Error {
    match error {
        RecordError::NoTracepoints => anyhow::anyhow!(NO_TRACEPOINTS),
        RecordError::Script(problems) => anyhow::anyhow!(first_lines(&problems, verbose)),
        RecordError::NotFound(problems) => {
            anyhow::anyhow!("{}\n{WAIT}", first_lines(&problems, verbose))
        }
        RecordError::Excessive(patterns) => {
            anyhow::anyhow!("{}\n{}", first_lines(&patterns, verbose), EXCESSIVE)
        }
        RecordError::Install(errors) => anyhow::anyhow!(first_lines(&errors, verbose)),
        RecordError::OutOfMemory(error) => anyhow::anyhow!("the run was ended: {error}"),
        error => anyhow::Error::new(error),
    }
}

/// The first of many problems, a line each.
pub fn first_lines<M: std::fmt::Display>(
    problems: impl IntoIterator<Item = M>,
    verbose: bool,
) -> String {
    let mut lines = Vec::new();
    tell(problems, verbose, "problems", |one| lines.push(one));
    lines.join("\n")
}

/// Why a run ended itself.
fn own_end(status: &StatusFields) -> String {
    let words = tracewire_views::table::stop_words(&status.into());
    format!("the run was {words}")
}

/// The reason why a run has ended.
pub fn ending_words(report: &Report) -> String {
    match &report.ending {
        Ending::Program(event) => program_words(event),
        Ending::Itself => own_end(&report.status),
        Ending::Executed => "it has become another program".to_owned(),
        Ending::OtherMachine => "the program has become one for another machine".to_owned(),
        Ending::Failed(words) | Ending::Stub(words) => words.clone(),
        Ending::Stopped(Stop::OutOfMemory) => "out of memory".to_owned(),
        Ending::Stopped(stop) => stop.to_string(),
    }
}

/// Prints what a run has lost.
pub fn tell_losses(report: &Report, verbose: bool, mut print: impl FnMut(String)) {
    let losses = &report.losses;
    for (count, noun, why) in [
        (
            losses.ring_full,
            "frame",
            "the program was faster than this could read",
        ),
        (
            losses.ring_held,
            "frame",
            "the ring came around before their threads had finished them",
        ),
        (losses.too_long, "frame", "they were too long"),
        (
            losses.without_stack,
            "frame",
            "their threads had no stack left",
        ),
        (losses.torn, "frame", "they were never finished"),
        (
            losses.without_slot,
            "span",
            "too many calls were open at once",
        ),
    ] {
        if count > 0 {
            print(format!("{} lost: {why}", words::count(count, noun)));
        }
    }
    let lines = report.missing.iter().map(|(number, missing)| {
        let first = missing
            .first
            .map_or_else(String::new, |address| format!(", the first at {address}"));
        let values = words::count(missing.count, "value");
        format!("tracepoint {number}: {values} could not be read{first}")
    });
    tell(
        lines,
        verbose,
        "tracepoints had values that could not be read",
        print,
    );
}

/// Prints which tracepoints were out of the program because of `--budget`.
pub fn tell_pauses(report: &Report, verbose: bool, print: impl FnMut(String)) {
    let lines = paused_tracepoints(&report.tracepoints);
    tell(
        lines,
        verbose,
        "tracepoints were out of the program at times",
        print,
    );
}

/// Prints the most that hits of tracepoints cost: for each tracepoint, that of its most expensive location.
fn costs(all: &[LocationCost], verbose: bool, print: impl FnMut(String)) {
    let mut sums: BTreeMap<(i32, bool), HitCost> = BTreeMap::new();
    for one in all {
        let sum = sums.entry((one.key.0.0, one.by_pad)).or_default();
        *sum = sum.or(one.cost);
    }
    let lines = sums.into_iter().map(|((number, by_pad), cost)| {
        let hit = words::short(cost.hit);
        if !by_pad {
            return format!("tracepoint {number}: a hit is a trap, and takes about {hit} at most");
        }
        let others = [
            (cost.skipped, "a skipped one"),
            (cost.unmet, "one whose condition is false"),
        ];
        let others: String = (others.into_iter())
            .filter_map(|(cost, what)| Some(format!(", {what} {}", words::short(cost?))))
            .collect();
        format!("tracepoint {number}: a hit takes at most {hit}{others}")
    });
    tell(lines, verbose, "tracepoints have a cost", print);
}

/// Prints how many hits made no frame because of `--rate` or `--budget`.
pub fn tell_skipped(report: &Report, verbose: bool, print: impl FnMut(String)) {
    let tracepoints = skipped_hits(&report.tracepoints);
    tell(
        tracepoints,
        verbose,
        "tracepoints had hits that were skipped",
        print,
    );
}

/// Prints how many children ran without the tracepoints that were in the program when it made them.
pub fn tell_released(children: u64) {
    let were = if children == 1 { "was" } else { "were" };
    if children > 0 {
        warn(format_args!(
            "{} {were} not traced; --follow-forks traces them",
            if children == 1 {
                "1 child".to_owned()
            } else {
                format!("{children} children")
            }
        ));
    }
}

/// Adds the hits of a report's tracepoints, locations added up.
pub fn add_hits(report: &Report, sums: &mut BTreeMap<i32, u64>) {
    let mut counted = BTreeSet::new();
    for tracepoint in &report.tracepoints {
        // A call of a span counts once: at its entry.
        let point = tracepoint.definition.source.span_point();
        if point.is_some_and(|point| !point.role.is_entry()) {
            continue;
        }
        let hits = tracepoint.usage.map_or(0, |usage| usage.hits);
        let number = tracepoint.definition.number;
        if tracepoint.definition.makes_frames() {
            *sums.entry(number.0).or_default() += hits;
        } else if counted.insert(number) {
            // A tracepoint that only counts has no frames. A sum does not have the number of hits.
            let own = report.aggregates.iter().filter(|(of, ..)| *of == number);
            let known = own.filter_map(|(_, aggregate, table)| table.hits(aggregate));
            if let Some(hits) = known.max() {
                *sums.entry(number.0).or_default() += hits;
            }
        }
    }
}

/// Hits by tracepoint; for many tracepoints a summary, and `all` names where the rest is.
pub fn hits_words(
    sums: &BTreeMap<i32, u64>,
    verbose: bool,
    all: impl FnOnce() -> String,
) -> String {
    let words = |(number, hits): (&i32, &u64)| format!("tracepoint {number} {hits}");
    if sums.is_empty() {
        return "none".to_owned();
    }
    if sums.len() <= MOST_PRINTED || verbose {
        return sums.iter().map(words).collect::<Vec<_>>().join(", ");
    }
    let sum: u64 = sums.values().sum();
    let mut most: Vec<_> = sums.iter().filter(|(_, hits)| **hits > 0).collect();
    let hit = most.len();
    most.sort_by_key(|(_, hits)| std::cmp::Reverse(**hits));
    let most: Vec<String> = most.into_iter().take(EXAMPLES_TOLD).map(words).collect();
    let most = if most.is_empty() {
        String::new()
    } else {
        format!(", most of {}", most.join(", "))
    };
    format!(
        "{sum} of {hit} of {} tracepoints{most}{}",
        sums.len(),
        all()
    )
}

/// A report, for people.
#[derive(Debug)]
pub struct Summary<'r> {
    pub report: &'r Report,
    /// The user's name of the trace file; `None` if it is not kept.
    pub output: Option<&'r Path>,
    /// Whether there is a file: a stream is read by another program.
    pub is_file: bool,
    pub verbose: bool,
}

impl Summary<'_> {
    /// The summary, as soon as the file is written.
    pub fn print_summary(&self) {
        let report = self.report;
        let ending = ending_words(report);
        say(format_args!(
            "{ending}, after {}",
            words::duration(report.lasted)
        ));
        if !report.spawned && !report.program_ended() {
            match report.process {
                Some(process) => say(format_args!("process {process} runs on")),
                None => say("the program runs on"),
            }
        }
        let mut frames = words::count(report.frames(), "frame");
        if report.created() > report.frames() {
            frames.push_str(&format!(" of {}", report.created()));
        }
        if self.has_counts_alone() {
            frames = "counts".to_owned();
        }
        let place = match self.output {
            Some(output) => format!(" in {}", output.display()),
            None => ", kept in no file".to_owned(),
        };
        say(format_args!("{frames}{place}; hits: {}", self.hits()));
        tell_skipped(report, self.verbose, say);
        tell_pauses(report, self.verbose, say);
        tell_losses(report, self.verbose, warn);
        tell_released(report.released_children);
        let lines = report.pending.iter().map(|pending| {
            let reason = words::printable(&pending.reason);
            format!("tracepoint {} was never set: {reason}", pending.number)
        });
        tell(lines, self.verbose, "tracepoints were never set", warn);
    }

    /// Whether hits were counted, and none made a frame.
    fn has_counts_alone(&self) -> bool {
        self.report.created() == 0 && !self.report.aggregates.is_empty()
    }

    /// Hits by tracepoint, locations added up; of many tracepoints a summary.
    fn hits(&self) -> String {
        let mut sums = BTreeMap::new();
        add_hits(self.report, &mut sums);
        hits_words(&sums, self.verbose, || {
            self.file().map_or_else(String::new, |file| {
                format!(" (`tracewire info {}` has all)", quoted(file))
            })
        })
    }

    /// The file, if there is one.
    fn file(&self) -> Option<&Path> {
        self.output.filter(|_| self.is_file)
    }

    /// Prints hints for the next step.
    pub fn print_ending(&self) {
        let Some(file) = self.file().map(quoted) else {
            return;
        };
        say(format_args!("look at it with:    tracewire show {file}"));
        // GDB shows no counts.
        if self.has_counts_alone() {
            return;
        }
        match self.file().filter(|file| is_lean_name(file)) {
            Some(lean) => say(format_args!(
                "for GDB, first:     tracewire convert {file} {}",
                quoted(&lean.with_extension("tf"))
            )),
            None => say(format_args!(
                "or in GDB:          tracewire show {file} --gdb > run.gdb && gdb -x run.gdb"
            )),
        }
        let taken = taken_for_another(&self.report.tracepoints);
        let most = if self.verbose {
            taken.len()
        } else {
            EXAMPLES_TOLD
        };
        for one in taken.iter().take(most) {
            say(one);
        }
        if let Some(more @ 1..) = taken.len().checked_sub(most) {
            say(format_args!(
                "so it does with {more} more; `tracewire show {file} --gdb` names them"
            ));
        }
    }
}

/// A file name as a shell takes it.
pub fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:,@%".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text;
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

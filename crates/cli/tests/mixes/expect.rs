//! The expected contents of a trace, by the log of the program.

use std::collections::HashMap;

use tracewire_model::StopReason;
use tracewire_tracefile::{Block, Frame, TraceFile};

use crate::mix::{Chosen, Mix};
use crate::program::{KINDS, Log, Program};

/// A hit that should make a frame if the run is on.
#[derive(Clone, Copy, Debug)]
struct Due {
    number: i32,
    sequence: u64,
    before: u64,
    after: u64,
}

/// A frame, by its collected values.
#[derive(Clone, Copy, Debug)]
struct Made {
    number: i32,
    thread: usize,
    /// The sequence number of a hit; none for a step.
    sequence: Option<u64>,
}

/// The results of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    pub hits: u64,
    pub steps: u64,
    /// Whether both jumps and traps made frames.
    pub mixed: bool,
}

/// Holds a trace against the log.
pub fn hold(file: &TraceFile, mix: &Mix, program: &Program, log: &Log) -> Result<Summary, String> {
    let report = tracewire_diagnose::check(file);
    if let Some(finding) = report.findings.first() {
        return Err(format!("check: {finding}"));
    }
    let frames = frames(file, program, log)?;
    let status = file.description().status().ok_or("no status")?;
    let status = &status.fields;
    let ended = match status.stop_reason {
        Some(StopReason::PassCount) => Some(
            status
                .stopping_tracepoint
                .ok_or("no tracepoint has met its pass count")?
                .0,
        ),
        _ => None,
    };
    let early =
        ended.is_some() || status.stop_reason == Some(StopReason::Full) || log.pause.is_some();
    let circular = mix.buffer.circular;
    if circular && status.stop_reason == Some(StopReason::Full) {
        return Err("a circular buffer is full".to_owned());
    }

    let due: Vec<Vec<Due>> = (0..mix.threads)
        .map(|thread| due(mix, log, thread))
        .collect();
    // Another end of the run may cut the steps of a tracepoint's last hits short. In a circular buffer, the frames of its first
    // hits may be overwritten.
    let met = mix.tracepoints.iter().filter(|chosen| {
        let tracepoints = file.description().tracepoints().iter();
        let hits = tracepoints
            .filter(|tracepoint| tracepoint.definition.number.0 == chosen.number)
            .filter_map(|tracepoint| Some(tracepoint.usage?.hits))
            .sum::<u64>();
        ended == Some(chosen.number)
            || chosen.step_count > 0 && chosen.pass_count > 0 && hits == chosen.pass_count
    });
    let run = Run {
        tickets: order(&frames, &due)?,
        met: met.map(|chosen| chosen.number).collect(),
        ended,
        early,
        circular,
        full: status.stop_reason == Some(StopReason::Full),
        pause: log.pause,
    };
    for (thread, due) in due.iter().enumerate() {
        let hits: Vec<(i32, u64)> = frames
            .iter()
            .filter(|frame| frame.thread == thread)
            .filter_map(|frame| Some((frame.number, frame.sequence?)))
            .collect();
        run.hold_thread(due, &hits)
            .map_err(|error| format!("thread {thread}: {error}: {hits:?} of {due:?}"))?;
    }
    steps(&frames, mix, early, circular)?;
    counts(file, mix, &frames, &due, early, ended)
}

/// All hits of a thread that some tracepoint records.
fn due(mix: &Mix, log: &Log, thread: usize) -> Vec<Due> {
    let calls = &log.threads[thread].calls;
    let mut due = Vec::new();
    for (sequence, call) in (0..).zip(calls) {
        for place in KINDS[call.kind] {
            let here = |chosen: &&Chosen| chosen.place == *place && chosen.wants(sequence);
            due.extend(mix.tracepoints.iter().filter(here).map(|chosen| Due {
                number: chosen.number,
                sequence,
                before: call.before,
                after: call.after,
            }));
        }
    }
    due
}

/// The frames of the file.
fn frames(file: &TraceFile, program: &Program, log: &Log) -> Result<Vec<Made>, String> {
    let mut time = 0;
    file.frames()
        .map(|frame| {
            let reported = frame.timestamp().ok_or("a frame without its time")?;
            if reported < time {
                return Err(format!("{reported} comes after {time}"));
            }
            time = reported;
            made(&frame, program, log).map_err(|error| format!("frame {}: {error}", frame.number()))
        })
        .collect()
}

fn made(frame: &Frame<'_>, program: &Program, log: &Log) -> Result<Made, String> {
    let memory = frame.blocks().find_map(|block| match block {
        Block::Memory { address, bytes } => Some((address, bytes)),
        _ => None,
    });
    let (address, bytes) = memory.ok_or("no memory")?;
    let (words, _) = bytes.as_chunks::<8>();
    let mut words = words.iter().map(|word| u64::from_le_bytes(*word));
    let thread = words.next().ok_or("no thread")?;
    let known = log
        .threads
        .get(thread as usize)
        .ok_or_else(|| format!("there was no thread {thread}"))?;
    if address.0 != program.threads + 16 * thread
        || frame
            .thread()
            .is_some_and(|reported| reported.0 != known.thread)
    {
        let reported = frame.thread();
        return Err(format!(
            "{address} of thread {reported:?} is not of thread {thread}, {}",
            known.thread
        ));
    }
    Ok(Made {
        number: frame.tracepoint().0,
        thread: thread as usize,
        // A step collects half.
        sequence: words.next(),
    })
}

/// The tickets of the frames that are there.
struct Tickets {
    /// The least that was drawn after a hit that has a frame.
    first: Option<u64>,
    /// The greatest that was drawn before one.
    last: Option<u64>,
    /// The greatest that was drawn before one of each tracepoint.
    of: HashMap<i32, u64>,
}

/// No frame is before that of a hit which was over before its own began, in any threads.
fn order(frames: &[Made], due: &[Vec<Due>]) -> Result<Tickets, String> {
    let mut tickets = Tickets {
        first: None,
        last: None,
        of: HashMap::new(),
    };
    for frame in frames {
        let Some(sequence) = frame.sequence else {
            continue;
        };
        let hit = due[frame.thread]
            .iter()
            .find(|due| due.number == frame.number && due.sequence == sequence)
            .ok_or_else(|| format!("{frame:?} is of no hit"))?;
        if tickets.last.is_some_and(|last| hit.after < last) {
            return Err(format!("{frame:?} comes after one that was made later"));
        }
        tickets.last = tickets.last.max(Some(hit.before));
        let first = tickets.first.unwrap_or(u64::MAX);
        tickets.first = Some(first.min(hit.after));
        let of = tickets.of.entry(frame.number).or_insert(0);
        *of = (*of).max(hit.before);
    }
    Ok(tickets)
}

/// The state of a run for all of its threads.
struct Run {
    tickets: Tickets,
    /// The tracepoint whose pass count has ended it.
    ended: Option<i32>,
    /// The tracepoints that have reached their pass counts.
    met: Vec<i32>,
    /// Whether it ended before the program.
    early: bool,
    full: bool,
    circular: bool,
    pause: Option<(u64, u64)>,
}

impl Run {
    /// The frames of a thread must be its hits in their order, without a gap: from the first on, or, in a circular buffer, from
    /// any. If a call reaches a place twice, more than one beginning may fit.
    fn hold_thread(&self, due: &[Due], hits: &[(i32, u64)]) -> Result<(), String> {
        let starts = if self.circular { due.len() } else { 0 };
        let mut why = "its frames are not its hits".to_owned();
        for start in (0..=starts).rev() {
            let Some((end, skipped)) = self.follow(due, hits, start) else {
                continue;
            };
            let held = due.iter().enumerate().try_for_each(|(place, due)| {
                if place < start {
                    self.may_be_given_up(due)
                } else if place >= end {
                    self.may_be_late(due)
                } else if skipped.contains(&place) {
                    self.may_be_past_its_count(due)
                } else {
                    self.may_be_there(due)
                }
            });
            match held {
                Ok(()) => return Ok(()),
                Err(error) => why = error,
            }
        }
        Err(why)
    }

    /// The index after the last hit with a frame, where the first is at `start`, and the hits in between that came after their
    /// tracepoint had reached its pass count.
    fn follow(
        &self,
        due: &[Due],
        hits: &[(i32, u64)],
        start: usize,
    ) -> Option<(usize, Vec<usize>)> {
        let mut skipped = Vec::new();
        let mut at = start;
        for hit in hits {
            loop {
                let due = due.get(at)?;
                at += 1;
                if (due.number, due.sequence) == *hit {
                    break;
                }
                if !self.met.contains(&due.number) {
                    return None;
                }
                skipped.push(at - 1);
            }
        }
        Some((at, skipped))
    }

    fn may_be_there(&self, due: &Due) -> Result<(), String> {
        match self.pause {
            Some((_, after)) if due.before > after => Err(format!("{due:?} came after the pause")),
            _ => Ok(()),
        }
    }

    /// A frame that a newer one has replaced.
    fn may_be_given_up(&self, due: &Due) -> Result<(), String> {
        match self.tickets.first {
            Some(first) if first < due.before => Err(format!("{due:?} is newer than what is kept")),
            _ => Ok(()),
        }
    }

    /// A hit when the run was over.
    fn may_be_late(&self, due: &Due) -> Result<(), String> {
        if !self.early {
            return Err(format!("{due:?} is missing at the end"));
        }
        if self.met.contains(&due.number) && self.may_be_past_its_count(due).is_ok() {
            return Ok(());
        }
        let by_pause = self.ended.is_none() && !self.full;
        if by_pause && self.pause.is_some_and(|(before, _)| due.after < before) {
            return Err(format!("{due:?} came before the pause"));
        }
        match self.tickets.last {
            Some(last) if due.after < last => Err(format!("{due:?} came before the last frame")),
            _ => Ok(()),
        }
    }

    /// A hit after its tracepoint had reached its pass count, while the run was not yet over.
    fn may_be_past_its_count(&self, due: &Due) -> Result<(), String> {
        match self.tickets.of.get(&due.number) {
            Some(last) if due.after < *last => Err(format!("{due:?} came before a later hit")),
            _ => Ok(()),
        }
    }
}

/// All requested steps follow their hit, with only hits of the same call in the thread in between.
fn steps(frames: &[Made], mix: &Mix, early: bool, circular: bool) -> Result<(), String> {
    let mut left: HashMap<(usize, i32), (u64, u64)> = HashMap::new();
    let count = |number: i32| {
        let chosen = mix.tracepoints.iter().find(|one| one.number == number);
        chosen.map_or(0, |chosen| chosen.step_count)
    };
    let mut whole = !circular;
    for frame in frames {
        match frame.sequence {
            Some(sequence) => {
                whole = true;
                let of_others = left
                    .iter()
                    .filter(|((thread, _), (of, steps))| {
                        *thread == frame.thread && *of != sequence && *steps > 0
                    })
                    .count();
                if of_others > 0 {
                    return Err(format!("{frame:?} comes before steps of an earlier hit"));
                }
                let (of, steps) = left.entry((frame.thread, frame.number)).or_default();
                *of = sequence;
                *steps += count(frame.number);
            }
            None => match left.get_mut(&(frame.thread, frame.number)) {
                Some((_, steps)) if *steps > 0 => *steps -= 1,
                // Its hit was given up for newer frames.
                _ if circular => {}
                _ => return Err(format!("{frame:?} is a step of no hit")),
            },
        }
    }
    let missing = left.values().any(|(_, steps)| *steps > 0);
    if whole && missing && !early {
        return Err("steps are missing".to_owned());
    }
    Ok(())
}

/// The counts in the file.
fn counts(
    file: &TraceFile,
    mix: &Mix,
    frames: &[Made],
    due: &[Vec<Due>],
    early: bool,
    ended: Option<i32>,
) -> Result<Summary, String> {
    let mut summary = Summary::default();
    let (mut jumps, mut traps) = (false, false);
    let mut created = 0;
    for tracepoint in file.description().tracepoints() {
        let number = tracepoint.definition.number.0;
        let chosen = mix
            .tracepoints
            .iter()
            .find(|chosen| chosen.number == number)
            .ok_or("a tracepoint that was not defined")?;
        let reported = tracepoint.usage.ok_or("no usage")?.hits;
        let of = |frame: &&Made| frame.number == number;
        let found = frames.iter().filter(of);
        let hits = found
            .clone()
            .filter(|frame| frame.sequence.is_some())
            .count() as u64;
        let steps = found.count() as u64 - hits;
        let all = due
            .iter()
            .flatten()
            .filter(|due| due.number == number)
            .count() as u64;
        let wrong = || {
            format!("tracepoint {number} tells {reported} hits: {hits} frames, {all} in the log")
        };
        if mix.buffer.circular {
            if reported < hits || reported > all || !early && reported != all {
                return Err(wrong());
            }
        } else if reported != hits {
            return Err(wrong());
        }
        let passes = chosen.pass_count;
        if ended == Some(number) && reported != passes
            || passes > 0 && reported > passes
            || passes > 0 && !early && reported >= passes
        {
            return Err(format!("pass count {passes}: {}", wrong()));
        }
        if ended == Some(number) && !mix.buffer.circular && steps != reported * chosen.step_count {
            return Err(format!("{steps} steps of {reported} hits: {}", wrong()));
        }
        created += reported * (1 + chosen.step_count);
        summary.hits += hits;
        summary.steps += steps;
        if hits > 0 {
            let served = tracepoint.served.as_ref();
            let trap = served.is_none_or(|served| served.mechanism == "trap");
            jumps |= !trap;
            traps |= trap;
        }
    }
    let status = file.description().status().ok_or("no status")?;
    let status = &status.fields;
    if status.frames != Some(file.frame_count()) {
        return Err(format!(
            "{:?} frames reported of {}",
            status.frames,
            file.frame_count()
        ));
    }
    if status.frames_created > Some(created) || !early && status.frames_created != Some(created) {
        return Err(format!(
            "{:?} frames made of {created}",
            status.frames_created
        ));
    }
    summary.mixed = jumps && traps;
    Ok(summary)
}

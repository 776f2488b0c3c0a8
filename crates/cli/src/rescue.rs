//! `rescue`: frames and jumps that a killed Tracewire has left in a program.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::{Args, ValueHint};
use serde_json::json;
use tracewire_fail_point::fail_point;
use tracewire_model::{ByteOrder, ThreadId};
use tracewire_target_linux::{FramesFile, Orphan, Process, Settings, Tally};
use tracewire_tracefile::lean::kept_sets;
use tracewire_tracefile::{Description, TraceFile, TraceFileWriter};
use tracewire_views::words::count;

use crate::answer::Answer;
use crate::message::say;
use crate::output;
use crate::output::is_lean_name;

pub const HELP: &str = "\
When Tracewire is killed (by SIGKILL, or for lack of memory), jumps stay in the program, which runs on, and so do \
the frames that were not read yet. (Traps stay too, and end the program at the next hit.) This writes these frames into a trace file, takes the jumps out, as any Tracewire does \
that is attached to the program later, and gives the memory back. What a recording \
had read before is in its FILE.recording, which is a good trace file, and no frame is in both; `tracewire convert` merges the \
two. Frames that are in neither are counted, with the reason.

Where several were killed one after the other, the newest one's frames are in OUT, those of the one before in OUT.2, and \
so on.

Exit status 0 when something was left (no file is written where no frames were); 1 when nothing was; 2 when PID cannot be attached to or \
OUT cannot be written.

Examples:
  tracewire rescue -p 1234 -o rest.tf";

#[derive(Args, Debug)]
pub struct RescueArguments {
    /// The program's process
    #[arg(short, long, value_name = "PID", value_parser = crate::process_id::parse)]
    pub pid: u32,
    /// The trace file to write
    #[arg(short, long, value_name = "OUT", value_hint = ValueHint::FilePath)]
    pub output: PathBuf,
    /// Write what each recording has left to OUT-TIME, by when it began, and what is in no file to OUT-TIME.json. So who does it again
    /// after it was killed writes the same files
    #[arg(long, hide = true)]
    pub by_time: bool,
}

/// `rescue`.
pub fn rescue(arguments: &RescueArguments) -> anyhow::Result<Answer> {
    let out = output::check(&arguments.output)?;
    if is_lean_name(&out) {
        bail!("rescue writes a trace file: choose a name that ends with .tf");
    }
    let mut process = Process::attach(ThreadId(arguments.pid), Settings::default())?;
    let orphans = process.orphans().context("reading what is left")?;
    let jumps = process.jumps_taken_over();
    fail_point!("rescue/attached");
    let left = jumps > 0 || !orphans.is_empty();
    let mut files = 0;
    for orphan in orphans {
        let path = match arguments.by_time {
            true => with_end(&out, &format!("-{}", orphan.began)),
            false => numbered(&out, files + 1),
        };
        let (frames, tally) = write(&orphan, &path)?;
        if arguments.by_time {
            tell_agent(&orphan, &tally, frames, &path)?;
        }
        if frames > 0 {
            files += 1;
            say(format_args!(
                "{}: {}",
                path.display(),
                count(frames, "frame")
            ));
        }
        // Only when the frames are safe: this frees their memory.
        fail_point!("rescue/written");
        process.clear(orphan).context("giving memory back")?;
        fail_point!("rescue/cleared");
    }
    process.detach()?;
    if jumps > 0 {
        say(format_args!("{} taken out", count(jumps as u64, "jump")));
    }
    if !left {
        say("nothing was left there");
        return Ok(Answer::No);
    }
    if files == 0 {
        say("no frames were left there");
    }
    Ok(Answer::Yes)
}

/// Writes the frames; how many they were. Without any there is no file.
fn write(orphan: &Orphan, path: &Path) -> anyhow::Result<(u64, Tally)> {
    let mut frames = Vec::new();
    let mut number = 0;
    let found = Description::parse(orphan.description.clone());
    let (sets, found) = kept_sets(&found);
    let block_size = found.register_block().map_or(0, |line| line.hexadecimal) as usize;
    let tally = orphan.frames(&mut |frame| {
        // Those of a lean recording keep some registers.
        sets.expand(frame, ByteOrder::Little, block_size, &mut frames);
        number += 1;
    });
    tell(&tally, orphan.file.as_ref());
    if number > 0 {
        let mut writer = TraceFileWriter::create(path, &description(found, number))?;
        writer.append(&frames)?;
        writer.finish()?;
    }
    Ok((number, tally))
}

/// Prints where the frames are that were not in the program, and why some are lost.
fn tell(tally: &Tally, file: Option<&FramesFile>) {
    let mut given_up = tally.given_up;
    match file {
        Some(file) if tally.taken > 0 => {
            let (kept, is_lean) = frames_in(file).unwrap_or((tally.taken, false));
            let kept = match tally.circular || is_lean {
                true => kept.min(tally.taken),
                false => tally.taken,
            };
            if !is_lean {
                given_up += tally.taken - kept;
            }
            say(format_args!(
                "{}: {} before these",
                file.path.display(),
                count(kept, "frame")
            ));
            if is_lean {
                lost(
                    tally.taken - kept,
                    "they were in no block of that lean recording yet",
                );
            }
            if tally.maybe_twice {
                say("that file is not where it was; its last frame may be the first of these");
            }
        }
        _ => lost(
            tally.taken,
            "they were in the memory of the Tracewire that was killed",
        ),
    }
    lost(
        tally.no_room,
        "the program made them faster than they were read",
    );
    lost(tally.too_long, "they were too long");
    lost(tally.without_stack, "their threads had no stack left");
    lost(tally.torn, "they were never finished");
    if tally.skipped > 0 {
        let hits = count(tally.skipped, "hit");
        say(format_args!(
            "{hits} skipped, for a pick, --rate or --budget"
        ));
    }
    if tally.had_budget {
        say(
            "tracepoints may have been out of the program at times, for --budget; hits were not counted then",
        );
    }
    if given_up > 0 {
        let frames = count(given_up, "frame");
        say(format_args!("{frames} made room for newer ones"));
    }
}

/// How many frames a killed recorder's file has, and whether it is a lean recording; none where it is not there any more.
fn frames_in(file: &FramesFile) -> Option<(u64, bool)> {
    file.open()?;
    let file = TraceFile::open(&file.path).ok()?;
    Some((file.frame_count(), file.lean().is_some()))
}

fn lost(frames: u64, reason: &str) {
    if frames > 0 {
        say(format_args!("{} lost: {reason}", count(frames, "frame")));
    }
}

/// The description in the file: the killed Tracewire's last one with the number of frames.
fn description(found: Description, frames: u64) -> Description {
    let mut parts = found.parts();
    if let Some(status) = &mut parts.status {
        status.fields.running = false;
        status.fields.frames = Some(frames);
        status.fields.frames_created = Some(frames);
    }
    Description::build(&parts).unwrap_or(found)
}

fn numbered(path: &Path, number: usize) -> PathBuf {
    if number == 1 {
        return path.to_owned();
    }
    with_end(path, &format!(".{number}"))
}

fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    PathBuf::from(name)
}

/// Reports to the agent what is in no file, before the memory with the counts is freed.
fn tell_agent(orphan: &Orphan, tally: &Tally, frames: u64, path: &Path) -> anyhow::Result<()> {
    // The frames in the killed process's own memory are lost.
    let in_memory = match orphan.file {
        Some(_) => 0,
        None => tally.taken,
    };
    let report = json!({
        "frames": frames,
        "lost": in_memory + tally.no_room + tally.too_long + tally.without_stack + tally.torn,
        "skipped": tally.skipped,
    });
    let file = with_end(path, ".json");
    let part = with_end(path, ".part");
    std::fs::write(&part, report.to_string())
        .and_then(|()| std::fs::rename(&part, &file))
        .with_context(|| file.display().to_string())
}

//! Tracepoints inside QEMU: the script is resolved here, and the plugin evaluates and collects.

use std::ffi::OsString;
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use tracewire_experiment::Definitions;
use tracewire_model::StopReason;
use tracewire_recorder::{BufferSize, Observer, RecordEvent, Recorder};
use tracewire_tracefile::{Description, GROWING, IndexCache, TraceFile, TraceFileWriter};

use super::{QemuArguments, identity, joined, start};
use crate::answer::Answer;
use crate::message::{say, warn};
use crate::output;
use crate::record::{Tone, error_words, quoted, read_script, tell_event};

/// The file where none is named.
const OUTPUT: &str = "qemu.tf";

/// Runs QEMU with tracepoints.
pub fn run(arguments: &QemuArguments, plugin: PathBuf) -> anyhow::Result<Answer> {
    let shown = arguments.output.clone().unwrap_or(PathBuf::from(OUTPUT));
    let out = std::path::absolute(output::check(&shown)?)?;
    let definitions = define(arguments)?;
    // The plugin reads it when QEMU starts.
    let mut file = tempfile::Builder::new()
        .prefix("tracewire-qemu-")
        .tempfile()
        .context("a file for the definitions of tracepoints")?;
    file.write_all(&definitions.to_text()?)
        .and_then(|()| file.flush())
        .with_context(|| file.path().display().to_string())?;
    let mut options = vec![
        joined("out=", out.as_os_str()),
        joined("experiment=", file.path().as_os_str()),
    ];
    if arguments.keep_running {
        options.push(OsString::from("keep-running=on"));
    }
    let before = identity(&out);
    let growing = with_end(&out, GROWING);
    let growing_before = identity(&growing);
    let status = start(plugin, options, &arguments.command)?;
    if let Some(signal) = status.signal() {
        let left = identity(&growing);
        if left.is_none() || left == growing_before {
            bail!(
                "QEMU was killed by signal {signal}, and left no trace file: the frames of a circular buffer are in its memory"
            );
        }
        finish(&growing, &out, signal).with_context(|| {
            format!(
                "{} has the frames, and cannot be finished",
                growing.display()
            )
        })?;
        say(format_args!(
            "QEMU was killed by signal {signal}; {} has what was recorded before",
            shown.display()
        ));
    }
    let after = identity(&out);
    if after.is_none() || after == before {
        bail!("QEMU ended with {status}, and nothing was recorded; what it said is above");
    }
    report(&shown, &out)
}

/// The definitions with which the plugin runs the script.
fn define(arguments: &QemuArguments) -> anyhow::Result<Definitions> {
    let script = read_script(&arguments.scripts, &arguments.tracepoints)?;
    let circular = arguments.circular || script.settings.circular == Some(true);
    let mut recorder = Recorder::elsewhere(arguments.elf.clone());
    recorder
        .buffer(BufferSize::of(&script, arguments.buffer_size, circular))
        .script(script);
    if let Some(cache) = IndexCache::of_user() {
        recorder.keep_names_in(cache.folder());
    }
    if arguments.yes {
        recorder.confirm(|_| true);
    }
    (recorder.define(&mut Teller)).map_err(|error| error_words(error, false))
}

/// Prints where tracepoints are, and what is left out.
struct Teller;

impl Observer for Teller {
    fn event(&mut self, event: RecordEvent<'_>) {
        tell_event(event, false, &mut |tone, words| match tone {
            Tone::Plain => say(words),
            Tone::Warning => warn(words),
        });
    }
}

fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    PathBuf::from(name)
}

/// Makes the trace file of the one that a killed QEMU has left. It may end in a part of a frame, which no reader takes for one.
fn finish(growing: &Path, out: &Path, signal: i32) -> anyhow::Result<()> {
    let left = TraceFile::open(growing)?;
    let mut parts = left.description().parts();
    if let Some(status) = &mut parts.status {
        let frames = left.frame_count();
        status.fields.stop_reason = Some(StopReason::Command);
        status.fields.stop_text = Some(format!("QEMU was killed by signal {signal}"));
        status.fields.frames = Some(frames);
        status.fields.frames_created = Some(frames);
    }
    let mut writer = TraceFileWriter::create(out, &Description::build(&parts)?)?;
    for frame in left.frames() {
        writer.append(frame.bytes())?;
    }
    writer.finish()?;
    left.verify()?;
    drop(left);
    Ok(std::fs::remove_file(growing)?)
}

/// Prints a summary of the file.
fn report(shown: &Path, out: &Path) -> anyhow::Result<Answer> {
    let file = TraceFile::open(out)?;
    let frames = file.frame_count();
    if let Some(status) = file.description().status() {
        let words = tracewire_views::table::stop_words(&(&status.fields).into());
        say(format_args!("the run was {words}"));
    }
    if frames == 0 {
        let tracepoints = file.description().tracepoints().iter();
        let hits: u64 = (tracepoints.filter_map(|tracepoint| tracepoint.usage))
            .map(|usage| usage.hits)
            .sum();
        let has_counts = !file.description().aggregates().is_empty();
        if hits > 0 && has_counts {
            message!(
                "tracewire: look at it with\n  tracewire show {} --aggregates",
                quoted(shown)
            );
            return Ok(Answer::Yes);
        }
        if hits == 0 {
            say(
                "no hit was collected; the plugin sees instructions of QEMU's own emulation (-accel tcg) alone",
            );
        }
        return Ok(Answer::No);
    }
    let shown = quoted(shown);
    message!(
        "tracewire: look at it with\n  tracewire show {shown}\n  tracewire show {shown} --gdb > run.gdb && gdb-multiarch -x run.gdb"
    );
    Ok(Answer::Yes)
}

//! What the command line says of a recording, for the recorder.

use std::collections::BTreeSet;

use tracewire_model::TracepointNumber;
use tracewire_recorder::{BufferSize, Recorder, StopHandle};
use tracewire_script::Script;
use tracewire_tracefile::IndexCache;

use super::confirm;
use super::live::Live;
use crate::arguments::RecordArguments;
use crate::follow::Form;
use crate::output::is_lean_name;

/// Sets a recorder's options from the command line.
pub fn configure(
    recorder: &mut Recorder,
    arguments: &RecordArguments,
    script: Script,
    trigger: BTreeSet<TracepointNumber>,
) -> anyhow::Result<()> {
    let circular =
        arguments.circular || !trigger.is_empty() || script.settings.circular == Some(true);
    if circular && arguments.max_frames.is_some() {
        anyhow::bail!(
            "--max-frames is for a linear buffer: a circular one goes on when it is full"
        );
    }
    if circular && arguments.rotate.is_some() {
        anyhow::bail!(
            "--rotate is for a linear buffer: a circular one has the newest frames in one file"
        );
    }
    let is_lean = arguments.output.as_deref().is_some_and(is_lean_name);
    if is_lean && arguments.live {
        anyhow::bail!(
            "--live shows the frames of a trace file as it grows, and a lean recording has none: expected another -o, or none"
        );
    }
    recorder
        .lean(is_lean)
        .buffer(BufferSize::of(&script, arguments.buffer_size, circular))
        .script(script)
        .duration(arguments.duration)
        .expire(arguments.expire)
        .max_frames(arguments.max_frames)
        .until(trigger, arguments.after)
        .rates(crate::rate::together(&arguments.rate))
        .budget(arguments.budget)
        .tell_costs(arguments.verbose)
        .mechanism(arguments.mechanism.map(Into::into).unwrap_or_default())
        .pending(arguments.pending)
        .keep_going(arguments.keep_going)
        .follow_forks(arguments.follow_forks)
        .canary(arguments.canary)
        .rotate(arguments.rotate)
        .type_rules(arguments.types.rules()?)
        .collect_limits(arguments.limits.limits())
        .redactions(arguments.redaction.redactions()?);
    arguments.policy.apply(recorder)?;
    if let Some(source) = arguments.debuginfod.source()? {
        recorder.take_debug_files_from(source);
    }
    if let Some(cache) = IndexCache::of_user() {
        recorder.keep_names_in(cache.folder());
    }
    if arguments.yes {
        recorder.confirm(|_| true);
    } else {
        let stop = recorder.stop_handle();
        recorder.confirm(move |patterns| confirm::ask(patterns, &stop));
    }
    Ok(())
}

/// How frames are shown as they come.
pub fn live_of(arguments: &RecordArguments, stop: StopHandle) -> anyhow::Result<Live> {
    if !arguments.live {
        return Ok(Live::default());
    }
    let form = if arguments.json {
        Form::Json
    } else {
        Form::Table
    };
    Ok(Live::wanted(form, arguments.types.rules()?, stop))
}

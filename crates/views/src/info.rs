//! The contents of a trace file, as one JSON object.

use std::borrow::Cow;

use serde::{Serialize, Serializer};
use tracewire_model::{
    Address, Pause, SpanRole, StatusFields, Tracepoint, TracepointKind, VariableDefinition, hex,
};
use tracewire_script::as_written;
use tracewire_tracefile::{Ending, TraceFile};

use crate::architecture::architecture_name;

/// Everything in a trace file except its frames. A field that the file does not have is left out.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Info {
    /// `trace-file` or `lean-recording`.
    pub kind: &'static str,
    /// Complete frames in the file.
    pub frames: u64,
    /// The size of a register block in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub register_block_size: Option<u32>,
    /// `little` or `big`.
    pub byte_order: String,
    /// The machine, by the name that `--architecture` takes; one that has none by the name the file gives it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
    /// The state of the run when the file was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<StatusInfo>,
    /// Hits that made no frame, because the run limited how often tracepoints may make one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skipped: Option<u64>,
    /// The tracepoints, one for each (number, address), in the file's order.
    pub tracepoints: Vec<TracepointInfo>,
    /// The trace state variables, in the file's order.
    pub variables: Vec<VariableInfo>,
    /// Where the program and its libraries were loaded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub modules: Vec<ModuleInfo>,
    /// How many registers the target description has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registers: Option<usize>,
    /// `marker`, `missing` or `cut`: whether the frames end as they should.
    pub ending: &'static str,
    /// For a cut file, where the frame starts that is not complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut_offset: Option<u64>,
    /// Lines of kinds that are not known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unknown_lines: Vec<String>,
    /// Lines that cannot be understood.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<ProblemInfo>,
}

/// The `status` line.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub struct StatusInfo {
    /// Whether the run was going on.
    pub running: bool,
    /// GDB's word: `tstop`, `tfull`, `tpasscount`, `terror`, `tdisconnected`, `tnotrun`, `tunknown`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<&'static str>,
    /// The user's note at the stop, or the error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_text: Option<String>,
    /// The tracepoint that ended the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopping_tracepoint: Option<i32>,
    /// Frames in the buffer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frames: Option<u64>,
    /// Frames made, those discarded since included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<u64>,
    /// In bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buffer_size: Option<u64>,
    /// In bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buffer_free: Option<u64>,
    /// Whether oldest frames made room.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub circular: Option<bool>,
    /// Whether the run went on without a debugger.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disconnected: Option<bool>,
    /// In microseconds; the clock is the target's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_us: Option<u64>,
    /// In microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_us: Option<u64>,
    /// The user's notes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notes: Option<String>,
    /// The user of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Unknown fields, unchanged.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub other: Vec<String>,
}

/// A tracepoint at one address.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct TracepointInfo {
    /// GDB's number.
    pub number: i32,
    /// `0x…`.
    pub address: String,
    /// Whether it collects.
    pub enabled: bool,
    /// `trap`, `fast` or `static`.
    pub kind: &'static str,
    /// Instructions that `while-stepping` collects after a hit.
    pub step_count: u64,
    /// Hits after which the run stops; 0 for never.
    pub pass_count: u64,
    /// The condition's bytecode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    /// As the remote protocol has them: `R…`, `M…`, `X…`, `L`.
    pub actions: Vec<String>,
    /// Those of each step.
    pub step_actions: Vec<String>,
    /// The user's own words.
    pub source: SourceInfo,
    /// What happens at this address, of a span: in JSON its [name](SpanRole::name).
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "serialize_role"
    )]
    pub span_role: Option<SpanRole>,
    /// How often it was hit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hits: Option<u64>,
    /// How many of the hits made no frame, because the run limited how often it may make one, or it was not picked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skipped: Option<u64>,
    /// When it was out of the program, because the run had a budget. Its hits were not counted then.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pauses: Vec<PauseInfo>,
    /// How many bytes its frames took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<u64>,
    /// Its mechanism: `trap`, `jump`, `punned jump` or `jump over several instructions`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mechanism: Option<String>,
    /// Why it was not a faster one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mechanism_reason: Option<String>,
}

fn serialize_role<S: Serializer>(
    role: &Option<SpanRole>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    role.map(SpanRole::name).serialize(serializer)
}

/// The user's own words.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SourceInfo {
    /// The location.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// The condition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cond: Option<String>,
    /// The pick: `sample 1/N` or `first N`, with its keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pick: Option<String>,
    /// The action lines.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cmds: Vec<String>,
}

/// A trace state variable.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct VariableInfo {
    /// GDB's number.
    pub number: i32,
    /// Without the `$`.
    pub name: String,
    /// Its value when a run starts.
    pub initial: i64,
    /// Whether the target provides it.
    pub builtin: bool,
}

/// The program or a library.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ModuleInfo {
    /// Its file.
    pub path: String,
    /// The difference between its addresses in memory and in the file.
    pub bias: String,
    /// Its first address.
    pub start: String,
    /// The first address after it.
    pub end: String,
    /// Its build id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub build_id: Option<String>,
    /// When it came, in microseconds, if it was not there from the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loaded_us: Option<u64>,
    /// When it went.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unloaded_us: Option<u64>,
}

/// A line that cannot be understood.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ProblemInfo {
    /// Which line of the file, from 1.
    pub line: usize,
    /// Where it starts.
    pub offset: u64,
    /// The expected form.
    pub message: String,
}

impl Info {
    /// The contents of a file.
    #[must_use]
    pub fn of(file: &TraceFile) -> Self {
        let description = file.description();
        let is_lean = file.lean().is_some();
        let (ending, cut_offset) = match file.ending() {
            _ if file.lean().is_some_and(|damage| !damage.is_empty()) => ("cut", None),
            Ending::Marker { .. } => ("marker", None),
            Ending::Missing { .. } => ("missing", None),
            Ending::Cut { offset, .. } => ("cut", Some(offset)),
            Ending::CutInDescription => ("cut", None),
        };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self {
            kind: if is_lean {
                "lean-recording"
            } else {
                "trace-file"
            },
            frames: file.frame_count(),
            register_block_size: file.register_block_size(),
            byte_order: file.byte_order().to_string(),
            architecture: architecture_name(file),
            status: description.status().map(|status| (&status.fields).into()),
            skipped: if_any(
                (description.tracepoints().iter())
                    .map(|tracepoint| tracepoint.skipped)
                    .fold(0, u64::saturating_add),
            ),
            tracepoints: description.tracepoints().iter().map(Into::into).collect(),
            variables: description.variables().iter().map(Into::into).collect(),
            modules: description.modules().iter().map(Into::into).collect(),
            registers: file.layout().map(|layout| layout.registers().len()),
            ending,
            cut_offset,
            unknown_lines: description
                .unknown_lines()
                .map(|line| text(line.text))
                .collect(),
            problems: description
                .problems()
                .iter()
                .map(|problem| ProblemInfo {
                    line: problem.line,
                    offset: problem.offset,
                    message: problem.kind.to_string(),
                })
                .collect(),
        }
    }

    /// One line of JSON, without a newline.
    #[must_use]
    pub fn json(&self) -> String {
        // Strings, numbers and lists of them always serialise.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// A number of hits that were skipped, where there are any.
fn if_any(skipped: u64) -> Option<u64> {
    (skipped > 0).then_some(skipped)
}

/// A pause of a tracepoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct PauseInfo {
    /// When it began, in microseconds since 1970, as `time_us` of frames.
    pub from_us: u64,
    /// When it ended.
    pub to_us: u64,
}

impl From<Pause> for PauseInfo {
    fn from(pause: Pause) -> Self {
        Self {
            from_us: pause.from,
            to_us: pause.to(),
        }
    }
}

impl StatusInfo {
    /// How many frames are kept of how many that were made, in a file with so many; `None` where it does not say how many were made.
    #[must_use]
    pub fn kept_and_made(&self, found: u64) -> Option<(u64, u64)> {
        // The file of a recording that was killed at its end does not say how many it has.
        Some((self.frames.unwrap_or(found), self.created?))
    }
}

impl From<&StatusFields> for StatusInfo {
    fn from(fields: &StatusFields) -> Self {
        Self {
            running: fields.running,
            stop_reason: fields.stop_reason.map(|reason| reason.name()),
            stop_text: fields.stop_text.clone(),
            stopping_tracepoint: fields.stopping_tracepoint.map(|number| number.0),
            frames: fields.frames,
            created: fields.frames_created,
            buffer_size: fields.buffer_size,
            buffer_free: fields.buffer_free,
            circular: fields.circular,
            disconnected: fields.disconnected,
            start_us: fields.start_time,
            stop_us: fields.stop_time,
            notes: fields.notes.clone(),
            user: fields.user.clone(),
            other: fields
                .other
                .iter()
                .map(|(name, value)| format!("{name}:{value}"))
                .collect(),
        }
    }
}

impl From<&Tracepoint> for TracepointInfo {
    fn from(tracepoint: &Tracepoint) -> Self {
        let definition = &tracepoint.definition;
        let actions = |list: &[tracewire_model::Action]| {
            list.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        Self {
            number: definition.number.0,
            address: definition.address.to_string(),
            enabled: definition.enabled,
            kind: match definition.kind {
                TracepointKind::Trap => "trap",
                TracepointKind::Fast { .. } => "fast",
                TracepointKind::Static => "static",
            },
            step_count: definition.step_count,
            pass_count: definition.pass_count,
            condition: definition.condition.as_deref().map(hex::text),
            actions: actions(&definition.actions),
            step_actions: actions(&definition.step_actions),
            source: SourceInfo {
                at: definition.source.location().map(Cow::into_owned),
                cond: definition.source.condition().map(str::to_owned),
                pick: definition.source.pick().map(|pick| pick.text),
                cmds: as_written(&definition.source.commands),
            },
            span_role: definition.source.span_point().map(|point| point.role),
            hits: tracepoint.usage.map(|usage| usage.hits),
            skipped: if_any(tracepoint.skipped),
            pauses: tracepoint.pauses.iter().copied().map(Into::into).collect(),
            usage: tracepoint.usage.map(|usage| usage.bytes),
            mechanism: tracepoint
                .served
                .as_ref()
                .map(|served| served.mechanism.clone()),
            mechanism_reason: tracepoint
                .served
                .as_ref()
                .and_then(|served| served.reason.clone()),
        }
    }
}

impl From<&VariableDefinition> for VariableInfo {
    fn from(variable: &VariableDefinition) -> Self {
        Self {
            number: variable.number.0,
            name: variable.name.clone(),
            initial: variable.initial,
            builtin: variable.builtin,
        }
    }
}

impl From<&tracewire_tracefile::Module> for ModuleInfo {
    fn from(module: &tracewire_tracefile::Module) -> Self {
        let if_known = |time: u64| (time != 0).then_some(time);
        Self {
            path: crate::program::module_path(module).display().to_string(),
            bias: Address(module.bias).to_string(),
            start: module.start.to_string(),
            end: module.end.to_string(),
            build_id: (!module.build_id.is_empty()).then(|| hex::text(&module.build_id)),
            loaded_us: if_known(module.loaded),
            unloaded_us: if_known(module.unloaded),
        }
    }
}

//! The experiment behind the tracepoint packets, for any target.

pub(crate) mod buffer;
mod elsewhere;
mod frame;
mod kept;
mod requests;
mod save;

pub(crate) use frame::{registers_at, search};
pub(crate) use requests::{NO_HITS, with_addresses};

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;

use tracewire_arch::{Architecture, RegisterLayout, X86Registers};
use tracewire_experiment::{
    Experiment, InstallError, Options, Registers, Target, TargetError, Unreadable,
};
use tracewire_model::{
    Address, ByteOrder, DefinitionRecord, FrameNumber, SourceKind, StatusFields, StopReason,
    Tracepoint, TracepointDefinition, TracepointKind, TracepointNumber, VariableDefinition,
    VariableNumber,
};
use tracewire_packets::family::features::FeatureList;
use tracewire_packets::tracepoint::{ActionPacket, Definition, Notes, SourceString, TraceRequest};
use tracewire_packets::{Failure, HexBytes, Reply, WideAddress};
use tracewire_tracefile::{Description, DescriptionParts, FrameFormat, TraceFile};

use crate::answers::done;
use buffer::{Buffer, DEFAULT_SIZE};
use kept::{FramePlaces, KeptFrames};
pub use save::SaveFolder;

/// The most tracepoints that a client may define, locations counted one by one.
const MOST_TRACEPOINTS: usize = 10_000;
/// The most actions of one.
const MOST_ACTIONS: usize = 10_000;
/// The most text that goes with one, in bytes.
const MOST_WORDS: usize = 1 << 20;

/// The registers and the byte order that frames have.
#[derive(Debug)]
pub(crate) struct TraceMachine {
    pub(crate) layout: RegisterLayout,
    /// The target description.
    pub(crate) xml: String,
    pub(crate) byte_order: ByteOrder,
}

impl TraceMachine {
    /// The machine of a live program on x86.
    pub(crate) fn x86(registers: X86Registers, architecture: Architecture) -> Self {
        let (layout, xml) = if architecture == Architecture::I386 {
            (registers.layout_32().clone(), registers.target_xml_32())
        } else {
            (registers.layout_64().clone(), registers.target_xml_64())
        };
        Self {
            layout,
            xml,
            byte_order: ByteOrder::Little,
        }
    }
}

/// Announces the features of every session with trace frames, and with `probes` those of static tracepoints.
pub(crate) fn announce_frames(features: &mut FeatureList, probes: bool) {
    for feature in [
        "qXfer:traceframe-info:read",
        "ConditionalTracepoints",
        "TraceStateVariables",
        "TracepointSource",
        "FastTracepoints",
        "tracenz",
    ] {
        features.announce(feature);
    }
    if probes {
        features.announce("qXfer:statictrace:read");
        features.announce("StaticTracepoints");
    }
}

/// Announces the features of every session that can trace, and with `disconnected` runs that go on without a client.
pub(crate) fn announce_runs(features: &mut FeatureList, disconnected: bool) {
    for feature in [
        "InstallInTrace",
        "EnableDisableTracepoints",
        "QTBuffer:size",
    ] {
        features.announce(feature);
    }
    if disconnected {
        features.announce("DisconnectedTracing");
    }
}

/// Tracepoints, their run and its frames.
#[derive(Debug)]
pub(crate) struct Trace {
    pub(crate) experiment: Experiment<Buffer>,
    /// The client's definitions, without actions that are still to come.
    definitions: Vec<TracepointDefinition>,
    /// The tracepoint of a run whose new definition is incomplete: the experiment has its old definition, or none.
    incomplete: Option<(TracepointNumber, Address)>,
    machine: TraceMachine,
    /// Whether the target has markers for static tracepoints.
    markers: bool,
    /// Where messages for the server's user go.
    notices: fn(&str),
    /// The buffer of the next run.
    size: u64,
    circular: bool,
    disconnected: bool,
    /// The client's note for the stop of the run, sent before it.
    stop_note: Option<String>,
    /// The numbers of the variables that a client has defined.
    client_variables: BTreeSet<VariableNumber>,
    read_only: Vec<Range<u64>>,
    /// The frame that is selected.
    selected: Option<FrameNumber>,
    /// The file that describes the frames, until more frames come: made when a frame is looked for.
    meaning: Option<(u64, TraceFile)>,
    places: FramePlaces,
    pieces: std::vec::IntoIter<DefinitionRecord>,
    variables: std::vec::IntoIter<VariableDefinition>,
    save: Option<SaveFolder>,
}

impl Trace {
    pub(crate) fn new(machine: TraceMachine, save: Option<SaveFolder>) -> Self {
        let options = Options {
            format: FrameFormat {
                byte_order: machine.byte_order,
                register_block_size: machine.layout.size(),
            },
            stamp: false,
            registers: Registers::Asked,
            unreadable: Unreadable::Missing,
        };
        // No memory is set aside before the first run.
        let buffer = Buffer::new(0, false, machine.byte_order)
            .unwrap_or_else(|_| unreachable!("nothing is asked for"));
        let mut experiment = Experiment::new(options, buffer);
        experiment.let_fast_trap();
        experiment.keep_asked_registers(machine.layout.clone());
        Self {
            experiment,
            definitions: Vec::new(),
            incomplete: None,
            machine,
            markers: false,
            notices: |_| {},
            size: DEFAULT_SIZE,
            circular: false,
            disconnected: false,
            stop_note: None,
            client_variables: BTreeSet::new(),
            read_only: Vec::new(),
            selected: None,
            meaning: None,
            places: FramePlaces::default(),
            pieces: Vec::new().into_iter(),
            variables: Vec::new().into_iter(),
            save,
        }
    }

    /// The target has markers for static tracepoints.
    pub(crate) const fn with_markers(mut self) -> Self {
        self.markers = true;
        self
    }

    /// Messages for the server's user go there.
    pub(crate) const fn with_notices(mut self, notices: fn(&str)) -> Self {
        self.notices = notices;
        self
    }

    /// The layout of the frames' register blocks.
    pub(crate) const fn layout(&self) -> &RegisterLayout {
        &self.machine.layout
    }

    /// The memory that the client says does not change while the program runs.
    pub(crate) fn read_only(&self) -> &[Range<u64>] {
        &self.read_only
    }

    /// More memory that does not change, until the client says what does not.
    pub(crate) fn add_read_only(&mut self, ranges: Vec<Range<u64>>) {
        self.read_only.extend(ranges);
    }

    /// The directory in which files may be written.
    pub(crate) fn folder(&self) -> Option<&Path> {
        self.save
            .as_ref()
            .map(|SaveFolder(folder)| folder.as_path())
    }

    /// The program is for another machine from now on, unless a run is on.
    pub(crate) fn set_machine(&mut self, machine: TraceMachine) {
        if self.experiment.is_running() || self.machine.xml == machine.xml {
            return;
        }
        self.experiment.keep_asked_registers(machine.layout.clone());
        self.machine = machine;
        self.forget_frames();
        self.selected = None;
    }

    /// Removes the tracepoints of a run that has ended from the program.
    pub(crate) fn take_out(&mut self, target: &mut impl Target) {
        if !self.experiment.is_running() {
            // A failed removal is tried again.
            let _ = self.experiment.install(target);
        }
    }

    /// The program has ended, or has become another one: it contains no tracepoints.
    pub(crate) fn program_gone(&mut self, target: &mut impl Target, words: &str) {
        self.experiment.forget_installed(|_| true);
        let now = target.now();
        let _ = self
            .experiment
            .stop(target, StopReason::Command, Some(words.to_owned()), now);
    }

    /// The client has disconnected without a request.
    pub(crate) fn client_gone(&mut self, target: &mut impl Target) {
        self.forget_incomplete();
        if !self.disconnected {
            // A failed removal is tried again.
            let now = target.now();
            let _ = self
                .experiment
                .stop(target, StopReason::Disconnected, None, now);
        }
    }

    /// Whether there is a run that goes on without a client.
    pub(crate) fn outlives_client(&self) -> bool {
        self.disconnected && self.experiment.is_running()
    }

    /// The program is about to be detached.
    pub(crate) fn stop_for_good(&mut self, target: Option<&mut impl Target>) {
        if let Some(target) = target {
            // Detaching removes everything.
            let now = target.now();
            let _ = self
                .experiment
                .stop(target, StopReason::Disconnected, None, now);
        }
    }

    pub(crate) fn status(&self) -> StatusFields {
        let mut status = self.experiment.status();
        if !status.running {
            let used = status
                .buffer_size
                .zip(status.buffer_free)
                .map_or(0, |(size, free)| size - free);
            status.buffer_size = Some(self.size);
            status.buffer_free = Some(self.size.saturating_sub(used));
            status.circular = Some(self.circular);
        }
        status.disconnected = Some(self.disconnected);
        // GDB has no number for them, but shows the text.
        let lost = self.experiment.losses().all();
        if lost > 0 && status.stop_reason == Some(StopReason::Command) {
            let words = format!("{lost} hits were lost");
            match &mut status.stop_text {
                Some(text) if !text.is_empty() => text.push_str(&format!("; {words}")),
                text => *text = Some(words),
            }
        }
        status.start_time.get_or_insert(0);
        status.stop_time.get_or_insert(0);
        status.user.get_or_insert_default();
        status.notes.get_or_insert_default();
        status
    }

    fn definition(
        &mut self,
        number: TracepointNumber,
        address: Address,
    ) -> Option<&mut TracepointDefinition> {
        self.definitions
            .iter_mut()
            .find(|definition| definition.key() == (number, address))
    }

    pub(crate) fn define(
        &mut self,
        packet: &Definition,
        target: Option<&mut impl Target>,
    ) -> Reply {
        if packet.kind == TracepointKind::Static && !self.markers {
            return Reply::Error(Failure::text("static tracepoints are not supported"));
        }
        let definition = TracepointDefinition {
            enabled: packet.enabled,
            kind: packet.kind,
            step_count: packet.step_count,
            pass_count: packet.pass_count,
            condition: packet.condition.clone(),
            ..TracepointDefinition::new(packet.number, packet.address)
        };
        let full = self.definitions.len() >= MOST_TRACEPOINTS;
        match self.definition(packet.number, packet.address) {
            Some(known) => *known = definition,
            None if !full => self.definitions.push(definition),
            None => return Reply::Error(Failure::text("there are too many tracepoints")),
        }
        self.add_piece(packet.number, packet.address, packet.more, target)
    }

    pub(crate) fn actions(
        &mut self,
        packet: &ActionPacket,
        target: Option<&mut impl Target>,
    ) -> Reply {
        let Some(definition) = self.definition(packet.number, packet.address) else {
            return Reply::Error(Failure::text("actions of a tracepoint that is not defined"));
        };
        // After the first action of `while-stepping`, all that follow belong to it.
        let list = if packet.starts_stepping || !definition.step_actions.is_empty() {
            &mut definition.step_actions
        } else {
            &mut definition.actions
        };
        if list.len() + packet.actions.len() > MOST_ACTIONS {
            return Reply::Error(Failure::text("the tracepoint has too many actions"));
        }
        list.extend(packet.actions.iter().cloned());
        self.add_piece(packet.number, packet.address, packet.more, target)
    }

    /// Adds a part of a tracepoint's definition. During a run the tracepoint takes effect when all of them have come.
    fn add_piece(
        &mut self,
        number: TracepointNumber,
        address: Address,
        more: bool,
        target: Option<&mut impl Target>,
    ) -> Reply {
        if !more || !self.experiment.is_running() {
            self.incomplete = None;
            return self.complete(number, address, target);
        }
        self.incomplete = Some((number, address));
        match self
            .definition(number, address)
            .map(|definition| Experiment::<Buffer>::verify(definition))
        {
            Some(Ok(())) => Reply::Ok,
            Some(Err(error)) => Reply::Error(Failure::text(&error.to_string())),
            None => Reply::Error(Failure::Number(1)),
        }
    }

    /// A request other than a part of the incomplete definition has come: that definition is complete. GDB announces actions
    /// where the user's collect nothing, and then sends none.
    fn complete_before(
        &mut self,
        request: &TraceRequest,
        target: Option<&mut impl Target>,
    ) -> Option<Reply> {
        let key = self.incomplete?;
        let of = match request {
            TraceRequest::Define { definition } => Some((definition.number, definition.address)),
            TraceRequest::Actions { actions } => Some((actions.number, actions.address)),
            TraceRequest::Source { source } => Some((source.number, source.address)),
            _ => None,
        };
        match request {
            TraceRequest::Initialize => {
                self.incomplete = None;
                return None;
            }
            // More of it, or a new definition of it.
            TraceRequest::Define { .. } | TraceRequest::Actions { .. } if of == Some(key) => {
                return None;
            }
            _ => self.incomplete = None,
        }
        let reply = self.complete(key.0, key.1, target);
        // If it cannot be inserted, the answer to another request cannot report it: the next installation tries again.
        (of == Some(key) && reply != Reply::Ok).then_some(reply)
    }

    /// Drops an incomplete definition: the tracepoint is as it was before.
    fn forget_incomplete(&mut self) {
        let Some(key) = self.incomplete.take() else {
            return;
        };
        let before = self
            .experiment
            .tracepoints()
            .map(tracewire_experiment::Tracepoint::definition)
            .find(|definition| definition.key() == key)
            .cloned();
        self.definitions
            .retain(|definition| definition.key() != key);
        self.definitions.extend(before);
    }

    /// Completes a tracepoint: during a run it takes effect at once if a target is given.
    fn complete(
        &mut self,
        number: TracepointNumber,
        address: Address,
        target: Option<&mut impl Target>,
    ) -> Reply {
        let Some(definition) = self.definition(number, address).cloned() else {
            return Reply::Error(Failure::Number(1));
        };
        if let Err(error) = self.experiment.define(definition) {
            return Reply::Error(Failure::text(&error.to_string()));
        }
        self.pass_register_sets();
        self.install(target)
    }

    /// Gives the buffer the register sets that later frames keep.
    fn pass_register_sets(&mut self) {
        if !self.experiment.buffer().is_copied() {
            return;
        }
        let sets = self.experiment.register_sets().cloned();
        if let Some(sets) = sets {
            self.experiment.store().set_register_sets(&sets);
        }
    }

    /// Installs changes at once during a run, if a target is given.
    fn install(&mut self, target: Option<&mut impl Target>) -> Reply {
        let Some(target) = target.filter(|_| self.experiment.is_running()) else {
            return Reply::Ok;
        };
        let mut errors = self.experiment.install(target).err().unwrap_or_default();
        // A library may be unmapped before the client knows of it and stops asking for its tracepoints.
        errors.retain(|failure| !matches!(failure.error, TargetError::NotMapped(_)));
        if errors.is_empty() {
            Reply::Ok
        } else {
            Reply::Error(Failure::text(&words(&errors)))
        }
    }

    pub(crate) fn source(
        &mut self,
        packet: &SourceString,
        target: Option<&mut impl Target>,
    ) -> Reply {
        let Some(definition) = self.definition(packet.number, packet.address) else {
            return Reply::Error(Failure::text(
                "a string of a tracepoint that is not defined",
            ));
        };
        let text = String::from_utf8_lossy(&packet.bytes).into_owned();
        let first = packet.start == 0;
        let source = &mut definition.source;
        let commands: usize = source.commands.iter().map(String::len).sum();
        let others = [
            &source.at,
            &source.condition,
            &source.marker,
            &source.frame,
            &source.own_condition,
            &source.own_location,
            &source.span,
        ];
        let others = others.into_iter().flatten().map(String::len);
        if commands + others.sum::<usize>() + text.len() > MOST_WORDS
            || source.commands.len() >= MOST_ACTIONS
        {
            return Reply::Error(Failure::text("the tracepoint has too long a source"));
        }
        let place = match packet.kind {
            SourceKind::At => source.at.get_or_insert_default(),
            SourceKind::Condition => source.condition.get_or_insert_default(),
            SourceKind::Marker => source.marker.get_or_insert_default(),
            SourceKind::Frame => source.frame.get_or_insert_default(),
            SourceKind::OwnCondition => source.own_condition.get_or_insert_default(),
            SourceKind::OwnLocation => source.own_location.get_or_insert_default(),
            SourceKind::Span => source.span.get_or_insert_default(),
            SourceKind::Command => {
                if first || source.commands.is_empty() {
                    source.commands.push(String::new());
                }
                match source.commands.last_mut() {
                    Some(last) => last,
                    None => return Reply::Error(Failure::Number(1)),
                }
            }
            // Unknown kinds are not stored, and no packet reports what is counted or watched.
            SourceKind::Count | SourceKind::Watch | SourceKind::Other(_) => return Reply::Ok,
        };
        if first {
            place.clear();
        }
        place.push_str(&text);
        // The source strings come last.
        self.install(target)
    }

    pub(crate) fn start(&mut self, target: &mut impl Target) -> Reply {
        match Buffer::new(self.size, self.circular, self.machine.byte_order) {
            Ok(mut buffer) => {
                if let Some(copy) = self.copy_to_save() {
                    buffer.copy_to(copy);
                }
                // A run that is on is an error that `start` returns.
                let _ = self.experiment.replace_store(buffer);
            }
            Err(error) => return Reply::Error(Failure::text(&error.to_string())),
        }
        self.forget_frames();
        let now = target.now();
        match self.experiment.start_awaiting(target, now) {
            Ok(()) => {
                self.pass_register_sets();
                if let Ok(description) = Description::build(&self.parts())
                    && let Some(target) = target.pads()
                {
                    target.leave_note(description.as_bytes());
                }
                Reply::Ok
            }
            Err(error) => Reply::Error(Failure::text(&error.to_string())),
        }
    }

    pub(crate) fn set_enabled(
        &mut self,
        number: TracepointNumber,
        WideAddress(address): WideAddress,
        enabled: bool,
        target: Option<&mut impl Target>,
    ) -> Reply {
        if let Some(definition) = self.definition(number, address) {
            definition.enabled = enabled;
        }
        if let Err(error) = self.experiment.set_enabled(number, Some(address), enabled) {
            return Reply::Error(Failure::text(&error.to_string()));
        }
        self.install(target)
    }

    pub(crate) fn notes(&mut self, notes: &Notes) -> Reply {
        let text = |HexBytes(bytes): &HexBytes| String::from_utf8_lossy(bytes).into_owned();
        let running = self.experiment.is_running();
        self.experiment.describe(|status| {
            if let Some(user) = &notes.user {
                status.user = Some(text(user));
            }
            if let Some(notes) = &notes.notes {
                status.notes = Some(text(notes));
            }
            if let Some(stop) = &notes.stop
                && !running
                && status.stop_reason == Some(StopReason::Command)
            {
                status.stop_text = Some(text(stop));
            }
        });
        // GDB sends it after the stop, gdbserver accepts it at any time.
        if running || !self.has_stopped_by_command() {
            self.stop_note = notes.stop.as_ref().map(text).or(self.stop_note.take());
        }
        Reply::Ok
    }

    fn has_stopped_by_command(&self) -> bool {
        let status = self.experiment.status();
        !status.running && status.stop_reason == Some(StopReason::Command)
    }

    /// Stops the run on the client's request, with the stop note of that request.
    pub(crate) fn stop(&mut self, target: Option<&mut impl Target>) -> Reply {
        // A run that has ended by itself keeps its reason, and the stop note is dropped.
        let note = self.stop_note.take();
        done(target.is_none_or(|target| {
            let now = target.now();
            self.experiment
                .stop(target, StopReason::Command, note, now)
                .is_ok()
        }))
    }

    /// Makes the buffer circular or linear, also during a run. Existing frames are kept.
    pub(crate) fn make_circular(&mut self, on: bool, target: Option<&mut impl Target>) -> Reply {
        self.circular = on;
        if !self.experiment.is_running() {
            return Reply::Ok;
        }
        let order = self.machine.byte_order;
        let change = |buffer: &mut Buffer| buffer.make_circular(on, order);
        match target {
            Some(target) => match self.experiment.change_store(target, change) {
                Ok(()) => Reply::Ok,
                Err(errors) => Reply::Error(Failure::text(&words(&errors))),
            },
            None => Reply::Error(Failure::text("there is no program")),
        }
    }

    /// The current tracepoints with their source strings.
    pub(crate) fn tracepoints(&self) -> Vec<Tracepoint> {
        self.experiment
            .tracepoints()
            .map(|tracepoint| {
                let mut definition = tracepoint.definition().clone();
                if let Some(defined) = self
                    .definitions
                    .iter()
                    .find(|defined| defined.key() == definition.key())
                {
                    definition.source.clone_from(&defined.source);
                }
                Tracepoint {
                    usage: Some(tracepoint.usage()),
                    skipped: tracepoint.skipped(),
                    served: self
                        .experiment
                        .last_served(tracepoint.definition().address)
                        .map(tracewire_experiment::Served::in_file),
                    ..Tracepoint::new(definition)
                }
            })
            .collect()
    }

    /// The variables that the client knows: those that it has defined, and of our own only the time, as for gdbserver,
    /// since the client numbers its own from there.
    pub(crate) fn known_variables(&self) -> Vec<VariableDefinition> {
        self.experiment
            .variables()
            .filter(|variable| {
                self.client_variables.contains(&variable.number)
                    || variable.name == "trace_timestamp"
            })
            .cloned()
            .collect()
    }

    /// The buffer has other frames from now on.
    fn forget_frames(&mut self) {
        self.meaning = None;
        self.places = FramePlaces::default();
    }

    /// The frames in the buffer, with register blocks of this size once they are expanded.
    fn kept_frames(&self, block_size: usize) -> KeptFrames<'_> {
        KeptFrames::new(&self.experiment, self.machine.byte_order, block_size)
    }

    /// The current frames, their places, and the file that describes them: a file of the run without frames.
    fn frames(&mut self) -> Option<(KeptFrames<'_>, &mut FramePlaces, &TraceFile)> {
        let appended = self.experiment.buffer().appended();
        let is_new = |(known, _): &(u64, _)| *known != appended;
        if self.meaning.as_ref().is_none_or(is_new) {
            let parts = self.parts();
            let description = Description::build(&parts)
                .or_else(|_| {
                    // A line that GDB could not read back from a file is left out: only frames are needed.
                    Description::build(&DescriptionParts {
                        tracepoints: Vec::new(),
                        variables: Vec::new(),
                        status: None,
                        ..parts
                    })
                })
                .ok()?;
            let order = self.machine.byte_order;
            let file = TraceFile::of_frames_elsewhere(&description, order).ok()?;
            self.meaning = Some((appended, file));
        }
        let (_, file) = self.meaning.as_ref()?;
        let size = self.machine.layout.size() as usize;
        let frames = KeptFrames::new(&self.experiment, self.machine.byte_order, size);
        self.places.follow(frames);
        Some((frames, &mut self.places, file))
    }
}

fn words(errors: &[InstallError]) -> String {
    let words: Vec<String> = errors.iter().map(ToString::to_string).collect();
    words.join("; ")
}

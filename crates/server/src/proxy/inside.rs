//! A run that the plugin in QEMU carries out.
//!
//! The guest does not stop for it. What it has come to is asked for when a client asks, and now and then while the guest runs, so that
//! little is lost with a QEMU that is killed. What the plugin cannot do is done by breakpoints at the stub.

use std::time::{Duration, Instant};

use tracewire_experiment::Target as _;
use tracewire_model::StopReason;
use tracewire_packets::tracepoint::TraceRequest;
use tracewire_target_remote::{Plugin, PluginError};

use super::Proxy;
use crate::trace::Trace;

/// How often a run is looked at while the guest runs.
const LOOK: Duration = Duration::from_millis(200);

/// The plugin, and the run that it carries out.
#[derive(Debug)]
pub(super) struct Inside {
    plugin: Plugin,
    /// Whether it carries out a run.
    is_on: bool,
    /// Whether the guest has run since the run was looked at.
    has_news: bool,
    looked: Instant,
}

impl Inside {
    pub(super) fn new(plugin: Plugin) -> Self {
        Self {
            plugin,
            is_on: false,
            has_news: false,
            looked: Instant::now(),
        }
    }
}

impl Proxy {
    /// Has the plugin in the QEMU behind the stub carry out runs from now on, as far as it can. `notices` gets messages for the user.
    pub fn use_plugin(&mut self, plugin: Plugin, notices: fn(&str)) {
        self.inside = Some(Inside::new(plugin));
        self.notices = notices;
    }

    /// Whether the plugin carries out a run.
    pub(super) fn is_inside(&self) -> bool {
        self.inside.as_ref().is_some_and(|inside| inside.is_on)
    }

    /// A request about tracepoints has come, and is not answered yet.
    pub(super) fn before_trace(&mut self, request: &TraceRequest) {
        if self.lost.is_some() {
            return;
        }
        self.look_inside();
        match request {
            TraceRequest::Start => self.hand_over(),
            // The plugin's run has the definitions and the buffer that it began with.
            TraceRequest::Define { .. }
            | TraceRequest::Actions { .. }
            | TraceRequest::Enable { .. }
            | TraceRequest::Disable { .. }
            | TraceRequest::Circular { .. } => self.take_back("the experiment changes"),
            _ => {}
        }
    }

    /// Has the plugin begin the run that a client starts, where it can.
    fn hand_over(&mut self) {
        let (Some(inside), Some(trace)) = (&mut self.inside, &mut self.trace) else {
            return;
        };
        if trace.experiment.is_running() {
            return;
        }
        let begun = match begin(inside, trace) {
            Ok(true) => Ok(()),
            Ok(false) if trace.has_steps() => Err(
                "QEMU has translated code that steps would not be seen in; it forgets it when the program stops at a breakpoint".to_owned(),
            ),
            Ok(false) => match self.target.write_again(&trace.enabled_addresses()) {
                Ok(None) => Ok(()),
                Ok(Some(address)) => Err(format!("the code at {address} cannot be written")),
                Err(error) => Err(error.to_string()),
            },
            Err(error) => {
                if error.is_end() {
                    self.inside = None;
                }
                Err(error.to_string())
            }
        };
        match begun {
            Ok(()) => {
                self.target.insert_elsewhere(true);
                if let Some(inside) = &mut self.inside {
                    inside.is_on = true;
                    inside.has_news = false;
                }
            }
            Err(reason) => {
                if let Some(inside) = &mut self.inside {
                    let _ = inside.plugin.end();
                }
                self.say_that_it_stops(&reason);
            }
        }
    }

    fn say_that_it_stops(&self, reason: &str) {
        (self.notices)(&format!(
            "tracewire: the guest stops at tracepoints of this run: {reason}"
        ));
    }

    /// Takes over what the run has come to. A plugin that does not tell it ends the run.
    pub(super) fn look_inside(&mut self) {
        if let Err(reason) = self.take_progress()
            && let Some(trace) = &mut self.trace
        {
            let now = self.target.now();
            // Nothing is inserted that would have to be removed.
            let _ = trace
                .experiment
                .stop(&mut self.target, StopReason::Error, Some(reason), now);
        }
        self.end_inside();
    }

    /// Takes over what the run has come to, as far as the plugin tells it. Returns why it does not.
    pub(super) fn take_progress(&mut self) -> Result<(), String> {
        let (Some(inside), Some(trace)) = (&mut self.inside, &mut self.trace) else {
            return Ok(());
        };
        if !inside.is_on || !inside.has_news {
            return Ok(());
        }
        inside.looked = Instant::now();
        inside.has_news = self.running.is_some();
        let (progress, frames) =
            (inside.plugin.progress(trace.frames_made())).map_err(|error| error.to_string())?;
        trace
            .adopt(&progress, &frames)
            .map_err(|error| error.to_string())
    }

    /// As [`look_inside`](Self::look_inside), if that was some time ago. For a guest that runs.
    pub(super) fn look_inside_again(&mut self) {
        let is_due = |inside: &Inside| inside.is_on && inside.looked.elapsed() >= LOOK;
        if self.inside.as_ref().is_some_and(is_due) {
            self.look_inside();
        }
    }

    /// How long the run may go without a look; none where there is no run.
    pub(super) fn next_look_inside(&self) -> Option<Duration> {
        let inside = self.inside.as_ref().filter(|inside| inside.is_on)?;
        Some(LOOK.saturating_sub(inside.looked.elapsed()))
    }

    /// Has the plugin forget a run that is over.
    pub(super) fn end_inside(&mut self) {
        let is_over = |trace: &Trace| !trace.experiment.is_running();
        if !self.is_inside() || !self.trace.as_ref().is_some_and(is_over) {
            return;
        }
        self.leave();
        if let Some(trace) = &mut self.trace {
            // Nothing is at the stub, and the next run inserts what it needs.
            trace.take_out(&mut self.target);
        }
    }

    /// The plugin is to forget its run.
    fn leave(&mut self) {
        if let Some(inside) = &mut self.inside {
            inside.is_on = false;
            if inside.plugin.end().is_err_and(|error| error.is_end()) {
                self.inside = None;
            }
        }
        self.target.insert_elsewhere(false);
    }

    /// Carries on a run of the plugin by breakpoints at the stub, with what it has come to. Steps that a cpu still had to make are not
    /// collected.
    pub(super) fn take_back(&mut self, reason: &str) {
        if !self.is_inside() {
            return;
        }
        self.look_inside();
        if !self.is_inside() {
            return;
        }
        self.leave();
        let Some(trace) = &mut self.trace else {
            return;
        };
        if let Err(words) = trace.go_on_in(&mut self.target) {
            let now = self.target.now();
            // What could be inserted comes out.
            let _ = trace
                .experiment
                .stop(&mut self.target, StopReason::Error, Some(words), now);
        }
        self.say_that_it_stops(reason);
    }

    /// The guest is about to run.
    pub(super) fn runs_inside(&mut self) {
        let Some(inside) = self.inside.as_mut().filter(|inside| inside.is_on) else {
            return;
        };
        inside.has_news = true;
        for (thread, address) in self.target.take_passed() {
            // A plugin that does not answer is seen when the run is looked at.
            let _ = inside.plugin.pass(thread, address);
        }
    }
}

/// Has the plugin begin a run. Returns whether it sees all instructions.
fn begin(inside: &mut Inside, trace: &Trace) -> Result<bool, PluginError> {
    let definitions = trace.definitions_for(inside.plugin.machine());
    let text = definitions.to_text();
    inside
        .plugin
        .begin(text.map_err(|error| PluginError::Refused(error.to_string()))?)
}

//! `record --live`: frames on standard output as they come.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

use anyhow::Context;
use tracewire_debuginfo::TypeRules;
use tracewire_recorder::{Stop, StopHandle};
use tracewire_tracefile::GrowingFile;

use crate::follow::{Follower, Form};
use crate::look;

/// What shows the frames of a run as they come.
#[derive(Debug, Default)]
pub struct Live(State);

#[derive(Debug, Default)]
enum State {
    #[default]
    NotWanted,
    /// Until the run begins.
    Wanted(Wanted),
    Running(JoinHandle<anyhow::Result<u64>>),
    Failed(anyhow::Error),
}

#[derive(Debug)]
struct Wanted {
    form: Form,
    rules: Arc<TypeRules>,
    stop: StopHandle,
}

impl Live {
    /// Frames are shown in this form. When nobody reads them any more, the run is stopped.
    pub const fn wanted(form: Form, rules: Arc<TypeRules>, stop: StopHandle) -> Self {
        Self(State::Wanted(Wanted { form, rules, stop }))
    }

    /// Whether frames are shown.
    pub const fn is_wanted(&self) -> bool {
        !matches!(self.0, State::NotWanted)
    }

    /// Begins to show frames from the file that they are written to.
    pub fn begin(&mut self, growing: Option<PathBuf>) {
        let State::Wanted(wanted) = &self.0 else {
            return;
        };
        self.0 = match wanted.start(growing) {
            Ok(thread) => State::Running(thread),
            Err(error) => State::Failed(error),
        };
    }

    /// Waits until all frames are shown, once the recorder has ended.
    pub fn end(self) -> anyhow::Result<()> {
        match self.0 {
            State::NotWanted | State::Wanted(_) => Ok(()),
            State::Failed(error) => Err(error),
            State::Running(thread) => match thread.join() {
                Ok(Err(error)) if !crate::is_broken_pipe(&error) => Err(error),
                Ok(_) => Ok(()),
                Err(panic) => std::panic::resume_unwind(panic),
            },
        }
    }
}

impl Wanted {
    fn start(&self, growing: Option<PathBuf>) -> anyhow::Result<JoinHandle<anyhow::Result<u64>>> {
        let path = growing.context("the frames are in memory until the run ends")?;
        let file = GrowingFile::open(&path)?.with_context(|| {
            format!(
                "{}: its file system has no locks, which --live needs",
                path.display()
            )
        })?;
        let follower = Follower::new(file, self.form, Arc::clone(&self.rules));
        let (form, stop) = (self.form, self.stop.clone());
        std::thread::Builder::new()
            .name("live".to_owned())
            .spawn(move || {
                let shown = follower.run(&mut look::output_of(form == Form::Json));
                if let Err(error) = &shown {
                    let why = if crate::is_broken_pipe(error) {
                        "nobody reads the frames any more".to_owned()
                    } else {
                        error.to_string()
                    };
                    stop.stop(Stop::Asked(why));
                }
                shown
            })
            .context("cannot start a thread")
    }
}

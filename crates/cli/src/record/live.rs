//! `record --live`: frames on standard output as they come.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use anyhow::Context;
use tracewire_debuginfo::TypeRules;
use tracewire_recorder::{Stop, StopHandle};
use tracewire_tracefile::{GrowingFile, RunFolder};

use crate::follow::{self, Followed, Form, Style};
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
    Running(Form, JoinHandle<anyhow::Result<u64>>),
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

    /// The form in which frames are shown, if they are.
    pub const fn form(&self) -> Option<Form> {
        match &self.0 {
            State::Wanted(wanted) => Some(wanted.form),
            State::Running(form, _) => Some(*form),
            State::NotWanted | State::Failed(_) => None,
        }
    }

    /// Begins to show frames from the file that they are written to.
    pub fn begin(&mut self, growing: Option<PathBuf>) {
        self.start(|| file(growing));
    }

    /// Begins to show the frames of all processes of a run.
    pub fn begin_run(&mut self, folder: &Path) {
        self.start(|| {
            let run = RunFolder::open(folder)?.context("the run has no index")?;
            if !run.is_written()? {
                anyhow::bail!(no_locks(folder));
            }
            Ok(Followed::Run(run))
        });
    }

    fn start(&mut self, followed: impl FnOnce() -> anyhow::Result<Followed>) {
        let State::Wanted(wanted) = &self.0 else {
            return;
        };
        self.0 = match followed().and_then(|followed| wanted.start(followed)) {
            Ok(thread) => State::Running(wanted.form, thread),
            Err(error) => State::Failed(error),
        };
    }

    /// Waits until all frames are shown, once the recorder has ended.
    pub fn end(self) -> anyhow::Result<()> {
        match self.0 {
            State::NotWanted | State::Wanted(_) => Ok(()),
            State::Failed(error) => Err(error),
            State::Running(_, thread) => match thread.join() {
                Ok(Err(error)) if !crate::is_broken_pipe(&error) => Err(error),
                Ok(_) => Ok(()),
                Err(panic) => std::panic::resume_unwind(panic),
            },
        }
    }
}

/// The file that frames are written to.
fn file(growing: Option<PathBuf>) -> anyhow::Result<Followed> {
    let path = growing.context("the frames are in memory until the run ends")?;
    let file = GrowingFile::open(&path)?.with_context(|| no_locks(&path))?;
    Ok(Followed::File(Box::new(file)))
}

fn no_locks(path: &Path) -> String {
    format!(
        "{}: its file system has no locks, which --live needs",
        path.display()
    )
}

impl Wanted {
    fn start(&self, followed: Followed) -> anyhow::Result<JoinHandle<anyhow::Result<u64>>> {
        let style = Style::new(self.form, Arc::clone(&self.rules));
        let stop = self.stop.clone();
        std::thread::Builder::new()
            .name("live".to_owned())
            .spawn(move || {
                let mut output = look::output_of(style.form == Form::Json);
                let shown = follow::follow(followed, &style, &mut output);
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

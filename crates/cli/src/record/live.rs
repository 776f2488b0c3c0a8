//! `record --live`: frames and counts, on standard output as they come.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use anyhow::Context;
use tracewire_debuginfo::TypeRules;
use tracewire_recorder::{Counters, Stop, StopHandle};
use tracewire_tracefile::{GrowingFile, RunFolder};
use tracewire_views::Condition;

use crate::follow::{self, Followed, Form, Style};
use crate::stdout;

/// The counters of the processes of a run that have begun.
#[derive(Clone, Debug, Default)]
pub struct AllCounters(Arc<Mutex<Vec<Arc<Counters>>>>);

impl AllCounters {
    pub fn add(&self, counters: Arc<Counters>) {
        self.with(|all| all.push(counters));
    }

    pub fn with<R>(&self, read: impl FnOnce(&mut Vec<Arc<Counters>>) -> R) -> R {
        read(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The output of a run's frames as they come.
#[derive(Debug, Default)]
pub struct Live {
    state: State,
    counters: AllCounters,
}

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
    /// Shows frames in this form. When the reader closes the pipe, the run is stopped.
    pub fn wanted(form: Form, rules: Arc<TypeRules>, stop: StopHandle) -> Self {
        Self {
            state: State::Wanted(Wanted { form, rules, stop }),
            counters: AllCounters::default(),
        }
    }

    /// Whether frames are shown.
    pub const fn is_wanted(&self) -> bool {
        !matches!(self.state, State::NotWanted)
    }

    /// The counters of the run, to which those of each process are added when it begins.
    pub fn counters(&self) -> AllCounters {
        self.counters.clone()
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
        let State::Wanted(wanted) = &self.state else {
            return;
        };
        let counters = self.counters.clone();
        self.state = match followed().and_then(|followed| wanted.start(followed, counters)) {
            Ok(thread) => State::Running(thread),
            Err(error) => State::Failed(error),
        };
    }

    /// Waits until all frames are shown, once the recorder has ended.
    pub fn end(self) -> anyhow::Result<()> {
        match self.state {
            State::NotWanted | State::Wanted(_) => Ok(()),
            State::Failed(error) => Err(error),
            State::Running(thread) => match thread.join() {
                Ok(Err(error)) if !crate::stdout::is_broken_pipe(&error) => Err(error),
                Ok(_) => Ok(()),
                Err(panic) => std::panic::resume_unwind(panic),
            },
        }
    }
}

/// The file that frames are written to.
fn file(growing: Option<PathBuf>) -> anyhow::Result<Followed> {
    let path = growing.context("the file of a circular buffer cannot be followed")?;
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
    fn start(
        &self,
        followed: Followed,
        counters: AllCounters,
    ) -> anyhow::Result<JoinHandle<anyhow::Result<u64>>> {
        let style = Style::new(self.form, Arc::clone(&self.rules));
        let stop = self.stop.clone();
        std::thread::Builder::new()
            .name("live".to_owned())
            .spawn(move || {
                let mut output = stdout::output_of(style.form == Form::Json);
                let counted =
                    || counters.with(|all| all.iter().map(|one| one.aggregates()).collect());
                let shown = follow::follow(
                    followed,
                    &style,
                    &Condition::default(),
                    counted,
                    &mut output,
                );
                if let Err(error) = &shown {
                    let why = if crate::stdout::is_broken_pipe(error) {
                        "the reader of the frames has closed the output".to_owned()
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

//! Several processes recorded in one run, into a folder with a trace file for each.
//!
//! Each process that is started or attached to has a thread, since `ptrace` lets only the thread that attached to a process control
//! it. They share the script, the handle that ends the run, and the folder.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use tracewire_model::ThreadId;
use tracewire_target_linux::Process;
use tracewire_tracefile::RunWriter;

use crate::error::RecordError;
use crate::observer::Observer;
use crate::out_of_memory;
use crate::recorder::{ProcessStart, RecordOptions};
use crate::recording::Recording;
use crate::report::Report;
use crate::stop::StopHandle;

/// Learns what happens to each of several processes. The events come from several threads.
pub trait Observers: Sync {
    /// The observer of a process.
    fn of(&self, process: ThreadId) -> Box<dyn Observer + '_>;

    /// A process is not recorded.
    fn failed(&self, process: ThreadId, error: &RecordError);
}

/// How a run of several processes went.
#[derive(Debug)]
pub struct RunReport {
    /// The parts, in the order in which they ended.
    pub parts: Vec<RecordedPart>,
    /// The processes that were not recorded.
    pub failed: Vec<(ThreadId, RecordError)>,
}

/// The part of one process.
#[derive(Debug)]
pub struct RecordedPart {
    /// The process.
    pub process: ThreadId,
    /// The trace file.
    pub path: PathBuf,
    /// How it went.
    pub report: Report,
    /// Why it ended early.
    pub failure: Option<RecordError>,
}

/// What the threads of a run share.
struct Shared<'r> {
    options: RecordOptions,
    stop: StopHandle,
    folder: Mutex<RunWriter>,
    observers: &'r dyn Observers,
    report: Mutex<RunReport>,
}

/// Records processes, each in a thread of its own.
pub fn record(
    starts: Vec<ProcessStart>,
    mut options: RecordOptions,
    stop: StopHandle,
    folder: RunWriter,
    observers: &dyn Observers,
) -> Result<RunReport, RecordError> {
    options.confirm = options.confirm.once();
    let shared = Shared {
        options,
        stop,
        folder: Mutex::new(folder),
        observers,
        report: Mutex::new(RunReport {
            parts: Vec::new(),
            failed: Vec::new(),
        }),
    };
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for start in starts {
            let shared = &shared;
            let thread = std::thread::Builder::new()
                .name("process".to_owned())
                .spawn_scoped(scope, move || {
                    out_of_memory::extend_stack();
                    shared.record(&start)
                })
                .map_err(RecordError::Thread)?;
            threads.push(thread);
        }
        for thread in threads {
            match thread.join() {
                Ok(result) => result?,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok::<(), RecordError>(())
    })?;
    let mut report = shared
        .report
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    // What is wrong with all of them is wrong with the run.
    match report.failed.pop() {
        Some((_, error)) if report.parts.is_empty() => {
            let folder = shared.folder.into_inner();
            folder.unwrap_or_else(PoisonError::into_inner).discard();
            Err(error)
        }
        last => {
            report.failed.extend(last);
            Ok(report)
        }
    }
}

impl Shared<'_> {
    /// Records a process. An error is one of starting a program.
    fn record(&self, start: &ProcessStart) -> Result<(), RecordError> {
        let priority = start.priority();
        let begun = start.process();
        let (process, spawned) = match (begun, start) {
            (Ok(begun), _) => begun,
            (Err(error), ProcessStart::Attach(process)) => {
                self.failed(*process, error);
                return Ok(());
            }
            (Err(error), ProcessStart::Spawn { .. }) => return Err(error),
        };
        let id = process.id();
        let begun = self.begin(process, spawned, None);
        drop(priority);
        match begun {
            Ok((recording, path)) => self.recorded(id, path, recording.run()),
            Err(error) => self.failed(id, error),
        }
        Ok(())
    }

    /// Begins the recording of a process, and names its trace file.
    fn begin(
        &self,
        process: Process,
        spawned: bool,
        parent: Option<ThreadId>,
    ) -> Result<(Recording<'_>, PathBuf), RecordError> {
        let id = process.id();
        // One that is gone by now has no name, and an error soon.
        let program = std::fs::read_link(format!("/proc/{id}/exe")).unwrap_or_default();
        let added = self
            .folder
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .add(id, parent, &program);
        let path = match added {
            Ok(path) => path,
            Err(error) => {
                crate::recorder::leave(process, spawned);
                return Err(RecordError::Folder(error));
            }
        };
        let options = RecordOptions {
            output: path.clone(),
            ..self.options.clone()
        };
        let observer = self.observers.of(id);
        let recording = Recording::begin(process, spawned, options, self.stop.clone(), observer)?;
        Ok((recording, path))
    }

    fn recorded(&self, process: ThreadId, path: PathBuf, result: Result<Report, RecordError>) {
        let (report, failure) = match result {
            Ok(report) => (report, None),
            Err(RecordError::Failed { report, source }) => (*report, Some(*source)),
            Err(error) => return self.failed(process, error),
        };
        let part = RecordedPart {
            process,
            path,
            report,
            failure,
        };
        let mut run = self.report.lock().unwrap_or_else(PoisonError::into_inner);
        run.parts.push(part);
    }

    fn failed(&self, process: ThreadId, error: RecordError) {
        self.observers.failed(process, &error);
        let mut run = self.report.lock().unwrap_or_else(PoisonError::into_inner);
        run.failed.push((process, error));
    }
}

#![doc = include_str!("../README.md")]
//!
//! A [`Recorder`] starts a program or attaches to one. It looks its tracepoints up in the symbols of all modules, inserts them as
//! jumps or traps, follows libraries that come and go, and writes the frames. At the end it removes the tracepoints.
//!
//! An [`Observer`] gets events during the run, a [`StopHandle`] ends it, and the [`Report`] has its result. The crate
//! `tracewire-tracefile` reads the frames, and `tracewire-views` prints them.
//!
//! One thread records. `ptrace` lets only the thread that attached to a process control it, so [`record`](Recorder::record) works
//! on the calling thread and returns at the end.
#![deny(missing_docs)]

mod audit;
mod buffer;
mod call_flow;
mod canary;
mod describe;
mod elsewhere;
mod error;
mod handler;
mod indirect;
mod leave;
mod limits;
mod lookup;
mod meanwhile;
mod modules;
mod observer;
mod options;
mod origin;
pub mod out_of_memory;
mod oversight;
mod policy;
mod prepare;
mod processes;
mod programs;
mod recorder;
mod recording;
mod registers;
mod report;
mod rotation;
mod selection;
mod start;
mod stop;
mod together;
mod trigger;
mod upstream;

pub use audit::{Audit, AuditEntry, AuditEvent};
pub use buffer::{Aggregates, BufferSize, Counters};
pub use call_flow::{CallFlowEvent, CallRecorder, CallReport, LeftOut};
pub use canary::{CanaryEvent, CanaryFailure};
pub use error::{LeanRefused, RecordError};
pub use limits::{BudgetRefused, RateError};
pub use observer::{Installed, Observer, RecordEvent, Warning};
pub use policy::{Denied, Policy, PolicyError};
pub use processes::{EndedProcesses, Observers, RecordedPart, RunReport};
pub use recorder::Recorder;
pub use report::FileShare;
pub use report::{Ending, Report, program_words};
pub use rotation::FinishedFile;
pub use selection::ProcessSelection;
pub use stop::{Hastened, Stop, StopHandle};
pub use tracewire_call_flow::{Call, CallTree, End as CallEnd, ListedCalls};
pub use tracewire_experiment::{
    Budget, BudgetError, FrameRate, FrameRateError, FrameRates, HitCost, LocationCost, Mechanism,
};
pub use tracewire_target_linux::Priority;
pub use tracewire_target_linux::StopTimes;
pub use trigger::TriggerError;

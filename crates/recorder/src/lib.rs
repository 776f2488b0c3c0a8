//! Records what tracepoints in a live program see into a GDB trace file.
//!
//! The example `arguments` records the arguments of a function and prints them:
//!
//! ```no_run
//! use tracewire_recorder::Recorder;
//! use tracewire_tracefile::TraceFile;
//! use tracewire_views::{Program, Viewer};
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let arguments: Vec<String> = std::env::args().collect();
//!     let [_, function, program, rest @ ..] = &arguments[..] else {
//!         return Err("expected FUNCTION PROGRAM ARGUMENTS…".into());
//!     };
//!     let output = std::env::temp_dir().join(format!("arguments-{}.tf", std::process::id()));
//!     let mut recorder = Recorder::spawn(program, rest);
//!     recorder
//!         .output(&output)
//!         .tracepoint(&format!("{function} : $args"))?;
//!     recorder.record(&mut ())?;
//!     let file = TraceFile::open(&output)?;
//!     let program = Program::of(&file, &[])?;
//!     let viewer = Viewer::new(&file, &program);
//!     for frame in file.frames() {
//!         for value in viewer.view(frame).values {
//!             println!("{} = {}", value.expression, value.value);
//!         }
//!     }
//!     Ok(std::fs::remove_file(output)?)
//! }
//! ```
//!
//! A [`Recorder`] starts a program or attaches to one, looks its tracepoints up in the symbols of all modules, puts them in as jumps or
//! traps, follows libraries that come and go, and writes the frames. Afterwards the program is as it was. An [`Observer`]
//! learns what happens meanwhile, a [`StopHandle`] ends the run, and the [`Report`] says how it went. What the frames hold is read
//! with `tracewire-tracefile` and printed with `tracewire-views`.
//!
//! One thread records: `ptrace` lets only the thread that attached to a process control it, so
//! [`record`](Recorder::record) does all of it on the calling thread and returns at the end. A run without symbols to read needs no
//! other thread.

#![deny(missing_docs)]

mod buffer;
mod describe;
mod error;
mod indirect;
mod meanwhile;
mod modules;
mod observer;
pub mod out_of_memory;
mod prepare;
mod priority;
mod recorder;
mod recording;
mod registers;
mod report;
mod stop;

pub use buffer::{BufferSize, Counters};
pub use error::RecordError;
pub use observer::{Installed, Observer, RecordEvent, Warning};
pub use recorder::Recorder;
pub use report::{Ending, Report, program_words};
pub use stop::{Stop, StopHandle};
pub use tracewire_experiment::Mechanism;

#![doc = include_str!("../README.md")]
//!
//! # Principles
//!
//! - **Few round trips.** A hit takes four where its memory is read in one go, and the stub takes requests together. They are for the
//!   registers, the memory, the step over the breakpoint, and the resumption. Registers that the stop reply has are not asked for. Requests that do not
//!   depend on an answer are sent together, to a stub that has answered two such requests when it was connected to.
//! - **Nothing that is not needed.** A condition reads its registers and memory and nothing else. Ranges that are close to each other are one
//!   read.
//! - **A stub is not trusted.** Each wait for an answer has a limit, and so have packets, descriptions and the list of threads. What the
//!   stub says that it cannot do is not asked again. An error ends the trace run with its reason, and never the program that uses
//!   this crate.
//! - **The debugger's breakpoints are its own.** A debugger in front ([`Breakpoints`]) and tracepoints may share an address:
//!   neither's removal takes the other's out.
//!
//! # Breakpoints
//!
//! A site is a software breakpoint (`Z0`), else a hardware breakpoint (`Z1`), else the machine's breakpoint instruction written to memory,
//! which is then hidden from all readers of memory. A refusal names the stub's reason.
//!
//! # QEMU with Tracewire's plugin
//!
//! A stop and a start of QEMU alone take longer than a tenth of a debugger's breakpoint. A [`Plugin`] in the QEMU behind the stub runs the
//! experiment in the guest instead; the target then inserts nothing at the stub ([`RemoteTarget::insert_elsewhere`]).
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod address;
mod breakpoints;
mod description;
mod error;
mod forecast;
mod link;
mod machine;
mod plugin;
mod registers;
mod stop;
mod stub;
mod talk;
mod target;
mod thread;

pub use address::upstream_address;
pub use breakpoints::Breakpoints;
pub use error::RemoteError;
pub use machine::RemoteMachine;
pub use plugin::{Plugin, PluginError};
pub use registers::RegisterView;
pub use stop::{Stop, StopEvent};
pub use stub::{Options, Stub};
pub use target::{Arrival, Passed, RemoteTarget, RunEvent, StubWords};

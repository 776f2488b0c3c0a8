#![doc = include_str!("../README.md")]
//!
//! # Principles
//!
//! - **Few round trips.** A hit takes four: for the registers, the memory, the step over the breakpoint, and the resumption. That holds where one
//!   request reads all its memory, and the stub accepts several requests at once. Registers that the stop reply has are not requested. Requests that do
//!   not depend on a reply are sent together, if the stub has answered two such requests at the start of the connection.
//! - **Nothing that is not needed.** A condition reads its registers and memory and nothing else. Ranges that are close to each other are one
//!   read.
//! - **A stub is not trusted.** Each wait for an answer has a limit, and so have packets, descriptions and the list of threads. An
//!   operation that the stub does not support is not requested again. An error ends the trace run with its reason, and never the program that uses
//!   this crate.
//! - **The debugger's breakpoints are its own.** A debugger in front ([`Breakpoints`]) and tracepoints may share an address:
//!   the removal of one leaves the other in place.
//!
//! # Breakpoints
//!
//! The breakpoint of a tracepoint is a software breakpoint (`Z0`), else a hardware breakpoint (`Z1`), else the machine's breakpoint instruction written to memory.
//! That is hidden from all readers of memory. A refusal names the stub's reason.
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

//! `tracewire gdbserver` with real GDB: features of a debugger beyond plain stops and steps.

mod calls;
mod conditions;
mod markers;
mod mechanism;
mod narrow;
mod objects;
mod relocated;
mod support;
mod watch;

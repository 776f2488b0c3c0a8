//! `tracewire gdbserver` to real GDB: what a debugger has beside plain stops and steps.

mod calls;
mod conditions;
mod markers;
mod mechanism;
mod narrow;
mod objects;
mod relocated;
mod support;
mod watch;

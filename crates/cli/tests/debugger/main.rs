//! `tracewire gdbserver` to real GDB: what a debugger has beside plain stops and steps.

mod calls;
mod conditions;
mod support;
mod watch;

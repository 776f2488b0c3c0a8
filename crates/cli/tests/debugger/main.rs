//! `tracewire gdbserver` to real GDB: what a debugger has beside plain stops and steps.

mod support;
mod watch;

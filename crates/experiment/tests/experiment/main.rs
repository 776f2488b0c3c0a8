//! The experiment, on a target without a process.

#[path = "../../../cli/tests/checked/mod.rs"]
mod checked;
mod definitions;
mod files;
mod frames;
mod kept;
mod model;
mod runs;
mod stores;
mod support;

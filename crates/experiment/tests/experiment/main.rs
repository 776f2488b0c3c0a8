//! The experiment, on a target without a process.

mod definitions;
mod files;
mod frames;
mod handover;
mod kept;
mod model;
mod runs;
mod stores;
mod support;

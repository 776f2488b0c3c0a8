//! The agent: programs are recorded whenever they run, also when the agent and its recorders are killed.
//!
//! `TRACEWIRE_AGENT_SECONDS`, `TRACEWIRE_AGENT_PROGRAMS` and `TRACEWIRE_AGENT_SEED` make the first test a long one (`cargo xtask torture
//! agent`).

mod agent;
mod control;
#[path = "../kills/program.rs"]
#[expect(dead_code, reason = "the kills ask more of it")]
mod program;
mod runs;
mod upheaval;

//! The places of locations: hits against the counts of the programs themselves, values against GDB's.

mod cold;
mod conditions;
mod debuginfod;
mod deleted;
mod entries;
mod forms;
mod indirect;
mod inlined;
mod programs;
mod scope;
#[path = "../commands/support.rs"]
#[allow(dead_code)]
mod support;

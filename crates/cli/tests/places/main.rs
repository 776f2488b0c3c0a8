//! What a location means: hits against the counts that programs keep themselves, values against GDB's.

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

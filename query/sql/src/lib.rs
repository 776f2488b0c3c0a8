//! SQL over trace files and datasets.
//!
//! A [`Database`] has the tables of [`tracewire_dataset`] for all its runs together: `runs`, `modules`, `probes`, `hits`, `values`,
//! `spans`, and `tpN` for each tracepoint. Each begins with the column `run` and ends with `host` and `day`.
//!
//! An execution trace has the tables of [`tracewire_dataset::Execution`]. Filters on the number of the instruction, the address of its
//! code, the register and the address of memory are evaluated with its index.
//!
//! The engine is DataFusion. A table of a trace file is read while the query runs. Filters on the frame's number, its time, its
//! tracepoint and its program counter use the frame index. Other filters on a frame's columns are evaluated before its values are.
//! Only values that the query names are evaluated. The engine writes data to disk only when its memory is full.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod database;
mod dataset_table;
mod error;
mod execution_table;
mod named;
mod plain_types;
mod ranges;
mod spelling;
mod trace_run;
mod trace_table;
mod unite;
mod virtual_table;

pub use database::{Answer, Database, Options};
pub use datafusion::common::ScalarValue;
pub use error::QueryError;
pub use named::{NamedQuery, Parameter, named_queries};

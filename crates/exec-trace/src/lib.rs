//! Execution traces: what a processor did, instruction by instruction.
#![deny(missing_docs)]

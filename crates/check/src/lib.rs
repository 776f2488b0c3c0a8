//! What is wrong with a GDB trace file, and where.
#![deny(missing_docs)]

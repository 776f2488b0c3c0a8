//! Machine code for tracepoints.
#![deny(missing_docs)]

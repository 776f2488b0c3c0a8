//! TBD
#![deny(missing_docs)]

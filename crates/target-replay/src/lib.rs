//! A recorded execution as a target that runs both ways.
#![deny(missing_docs)]

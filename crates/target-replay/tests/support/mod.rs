//! Shared helpers of the tests of recordings.
#![allow(dead_code, reason = "each test uses a part of it")]

pub mod fixture;
pub mod naive;

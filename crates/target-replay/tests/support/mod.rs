//! What the tests of recordings share.
#![allow(dead_code, reason = "each test uses a part of it")]

pub mod fixture;
pub mod naive;

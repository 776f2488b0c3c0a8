//! The packets, one file for each family.

pub mod breakpoint;
pub mod features;
pub mod file;
pub mod file_io;
pub mod memory;
pub mod process;
pub mod register;
pub mod resume;
pub mod setting;
pub mod stop;
pub mod thread;
pub mod transfer;

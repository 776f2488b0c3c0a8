//! The arguments of the commands that are several files, and of those that answer for trace files and execution traces. The other commands
//! have theirs in their own files.

pub mod find;
pub mod info;
mod mechanism;
pub mod record;
pub mod show;

pub use find::{CodePlace, FindArguments, tell_hexadecimal};
pub use info::InfoArguments;
pub use mechanism::Mechanism;
pub use record::RecordArguments;
pub use show::ShowArguments;

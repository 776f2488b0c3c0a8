#![doc = include_str!("../README.md")]
//!
//! # Example
//!
//! ```
//! use tracewire_test_support::{Cc, Gdb};
//!
//! let folder = tempfile::tempdir()?;
//! let program = Cc::new().text("int answer = 42; int main(void) { return 0; }").build(folder.path(), "program");
//! let said = Gdb::new().program(&program).command("print answer").run();
//! said.assert_in_order(&["$1 = 42"]);
//! # Ok::<(), std::io::Error>(())
//! ```

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod bare;
mod cc;
mod checked;
mod example;
mod gdb;
mod programs;
mod python;
mod samples;
mod setting;
mod tools;

pub use bare::{BARE_MACHINES, BareMachine, Qemu, TWO_CPUS, qemu_plugin};
pub use cc::Cc;
pub use checked::{
    assert_clean, assert_clean_but, is_static_data, is_unreadable, is_written_in_between,
};
pub use example::example;
pub use gdb::{Gdb, Said, assert_in_order};
pub use programs::{copy_program, write_program};
pub use python::python_with;
pub use samples::{SAMPLES, sample, samples};
pub use setting::setting;
pub use tools::{have, tool};

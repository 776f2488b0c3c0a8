//! QEMU4V's trace: what a processor under QEMU did, a line a record.
//!
//! ```text
//! <time> <scale> <cpu> IT|IS (<inst_id>) <addr> <opcode> A|T|X <mode>[_<security>] : <disasm>
//! <time> <scale> MR|MW<size>[X|T] <addr> <data>
//! <time> <scale> R <register> <value>
//! ```

mod read;
mod write;

pub(super) use read::{Qemu4v, mode, opcode};
pub(super) use write::{decimal, hex};
pub use write::{write_access, write_instruction, write_record, write_register};

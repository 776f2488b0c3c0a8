//! A MIPS processor that runs a real program and writes its execution as QEMU4V text.
//!
//! Tests need traces whose every state is known independently, and measurements need traces of any size. This serves both: an
//! interpreter with its own registers and memory, which a test can read after any number of steps, and which shares no code with
//! the readers.
//!
//! ```
//! use tracewire_sample_machine::{Machine, Options, Trace};
//!
//! let options = Options::default();
//! let mut text = Vec::new();
//! Trace::new(&options).write(&mut text, 100_000).unwrap();
//! assert!(text.starts_with(b"1 clk 0 IT (1) 80001000 3c1d8120 A svc : lui sp,0x8120\n"));
//!
//! // The same program, asked for its state before instruction 1000.
//! let mut machine = Machine::new(&options);
//! for _ in 0..1000 {
//!     machine.step();
//! }
//! println!("sp is {:#x}", machine.register(29));
//! ```
//!
//! The program has a loop that writes all over memory through a small function (`mix`), which is called most of the time. It has a
//! recursive function (`fib`), loops over bytes and half-words (`copy`, `sum`), and a call through a pointer. Branches have delay
//! slots, as on every MIPS.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod assembler;
mod elf;
mod instruction;
mod machine;
mod program;
mod trace;

pub use machine::{Access, Machine, Step};
pub use program::{Function, Program};
pub use trace::Trace;

/// The start of the machine's memory: the program is at [`TEXT`], data after it, the stack at the end.
pub const MEMORY: u32 = 0x8000_0000;

/// Where the program starts.
pub const TEXT: u32 = MEMORY + 0x1000;

/// Where the data start that are scattered over.
pub const DATA: u32 = MEMORY + 0x10_0000;

/// The options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether the processor is big-endian.
    pub big_endian: bool,
    /// Over how many bytes the program scatters: a power of two from 4 KiB to 1 GiB.
    pub footprint: u32,
    /// How many processors run the program, in turns, on one memory: at most 64.
    pub cpus: u32,
    /// Where the random numbers start.
    pub seed: u32,
}

impl Default for Options {
    /// One big-endian processor, 16 MiB.
    fn default() -> Self {
        Self {
            big_endian: true,
            footprint: 16 << 20,
            cpus: 1,
            seed: 1,
        }
    }
}

impl Options {
    /// Where the stack starts, which grows down.
    #[must_use]
    pub const fn stack(&self) -> u32 {
        let end = DATA + self.footprint + 0x10_0000;
        // One `lui` loads it.
        (end + 0xffff) & !0xffff
    }
}

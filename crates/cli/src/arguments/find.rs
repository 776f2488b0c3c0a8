//! The arguments of `find`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use crate::value_parser::parse_address;

pub const HELP: &str = "\
Without --json a frame number a line; of a run of several processes, the process and its frame number. Several conditions must \
all hold. Exit status 1 when no frame fits.

Examples:
  tracewire find run.tf --tracepoint 2 --first
  tracewire find run.tf --line sample.c:14
  tracewire find run.tf --where 'depth == 0 && j->id > 2'
  tracewire find run.tf --where '$retval < 0 && $duration > 1ms'
  tracewire find run.tf --range 0x401000 0x401fff --from 100
  tracewire find run.tf --thread 4711 --time 1465540656..
  tracewire find cpu.trace --writes 0x80100000,4 --before 5000 --last
  tracewire find cpu.trace --register t0 --first";

#[derive(Args, Debug)]
pub struct FindArguments {
    /// The trace file, run of several processes or execution trace; - for standard input
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// Frames whose program counter is this address, or the place of a function or source line: 0x8038, main, main.c:14
    #[arg(long, value_name = "PLACE", value_parser = CodePlace::parse)]
    pub pc: Option<CodePlace>,
    /// Frames whose program counter is from A to B, both included
    #[arg(long, num_args = 2, value_names = ["A", "B"], value_parser = parse_address)]
    pub range: Option<Vec<u64>>,
    /// Frames whose program counter is not from A to B
    #[arg(long, num_args = 2, value_names = ["A", "B"], value_parser = parse_address)]
    pub outside: Option<Vec<u64>>,
    /// Frames of this tracepoint
    #[arg(long, value_name = "N")]
    pub tracepoint: Option<i32>,
    /// Frames made from A to B, in microseconds of $trace_timestamp: A..B, A.. or ..B
    #[arg(long, value_name = "A..B", value_parser = crate::frames::parse_time)]
    pub time: Option<std::ops::RangeInclusive<u64>>,
    /// Frames of this thread ($trace_thread)
    #[arg(long, value_name = "N")]
    pub thread: Option<u32>,
    /// Frames made on this cpu ($trace_cpu), or instructions of it
    #[arg(long, value_name = "N")]
    pub cpu: Option<u32>,
    /// Frames in the code of a source line
    #[arg(long, value_name = "FILE:N")]
    pub line: Option<String>,
    /// Frames for which an expression over collected values is true; a frame that lacks a value it needs does not fit. A span is
    /// looked at as a whole: its arguments, $retval and $duration
    #[arg(long = "where", value_name = "EXPR")]
    pub condition: Option<String>,
    /// Instructions of an execution trace that write any of these bytes: at an address, or a variable of --elf
    #[arg(long, value_name = "PLACE[,LEN]", value_parser = crate::execution::parse_place)]
    pub writes: Option<crate::execution::MemoryPlace>,
    /// Instructions of an execution trace that read any of these bytes: at an address, or a variable of --elf
    #[arg(long, value_name = "PLACE[,LEN]", value_parser = crate::execution::parse_place)]
    pub reads: Option<crate::execution::MemoryPlace>,
    /// Instructions of an execution trace that write this register
    #[arg(long, value_name = "NAME")]
    pub register: Option<String>,
    /// Only instructions before this one
    #[arg(long, value_name = "N")]
    pub before: Option<u64>,
    /// Only instructions after this one
    #[arg(long, value_name = "N")]
    pub after: Option<u64>,
    /// Only the last instruction that fits
    #[arg(long, conflicts_with = "first")]
    pub last: bool,
    /// Only the first one that fits
    #[arg(long)]
    pub first: bool,
    /// Start at this frame or instruction
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub from: u64,
    /// The program, one of its libraries, or a directory that has them, as /proc/PID/root of a container; may be given several times
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub elf: Vec<PathBuf>,
    /// One JSON object a line: the frames as `show --json` gives them
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub debuginfod: crate::debuginfod::DebuginfodArguments,
    #[command(flatten)]
    pub machine: crate::open::Machine,
}

/// A place in the code as the user names it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CodePlace {
    /// An address.
    Address {
        /// It.
        address: u64,
        /// What it would be, had the digits without `0x` been hexadecimal.
        as_hexadecimal: Option<u64>,
    },
    /// A function, or a file and a line.
    Location(String),
}

impl CodePlace {
    /// Reads an address, with or without GDB's `*`, or takes the text for a location.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if let Ok(address) = parse_address(text.strip_prefix('*').unwrap_or(text)) {
            return Ok(Self::Address {
                address,
                as_hexadecimal: u64::from_str_radix(text, 16).ok(),
            });
        }
        if text.is_empty() || text.starts_with('*') {
            return Err("expected an address such as 0x401000, a function or FILE:LINE".to_owned());
        }
        if text.bytes().all(|byte| byte.is_ascii_hexdigit())
            && text.starts_with(|c: char| c.is_ascii_digit())
        {
            return Err(format!(
                "expected an address such as 0x{text}: hexadecimal digits need 0x"
            ));
        }
        Ok(Self::Location(text.to_owned()))
    }
}

/// Says so where nothing is at an address that was read as decimal, and something is at the one with `0x` before it.
pub fn tell_hexadecimal(address: u64, meant: u64) {
    message!("tracewire: nothing is at {address}, which is {address:#x}; did you mean {meant:#x}?");
}

//! The arguments of `show`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

pub const HELP: &str = "\
Names, source lines and values come from the program and its libraries, which the trace file names; a file that was \
built again since is not used. --elf gives the program where the trace file does not, or where it has moved.

Examples:
  tracewire show run.tf
  tracewire show run.tf --frame 3
  tracewire show run.tf --where '$duration > 1ms && $retval < 0'
  tracewire show run.tf --tracepoint 2 --json | jq .values
  tracewire show run.tf --gdb > run.gdb && gdb -x run.gdb
  tracewire show run.tf --follow --where 'bytes > 700'
  tracewire show run.tf --folded | flamegraph.pl > run.svg
  tracewire show cpu.trace --instruction 100..120
  tracewire show cpu.trace --time 5000 --memory 0x80100000,16 --json";

#[derive(Args, Debug)]
pub struct ShowArguments {
    /// The trace file or execution trace; - for standard input
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// Only this frame, or these: N, N..M (without M), N..=M, N.. or ..M
    #[arg(long, value_name = "N[..M]", value_parser = crate::frames::FrameRange::parse)]
    pub frame: Option<crate::frames::FrameRange>,
    /// Only frames of this tracepoint
    #[arg(long, value_name = "N")]
    pub tracepoint: Option<i32>,
    /// Only frames for which an expression over collected values is true. A span is looked at as a whole: its arguments, $retval and $duration
    #[arg(long = "where", value_name = "EXPR", conflicts_with_all = ["gdb", "aggregates"])]
    pub condition: Option<String>,
    /// Of an execution trace: only this instruction, or these: N, N..M (without M), N..=M, N.. or ..M
    #[arg(long, value_name = "N[..M]", value_parser = crate::frames::FrameRange::parse)]
    pub instruction: Option<crate::frames::FrameRange>,
    /// Of an execution trace: the instruction at this time, or that did something at it, else the first later one; in the trace's own unit
    #[arg(long, value_name = "T", value_parser = crate::execution::show::parse_time, conflicts_with = "instruction")]
    pub time: Option<tracewire_exec_trace::record::Time>,
    /// Of an execution trace: only instructions of this cpu
    #[arg(long, value_name = "C")]
    pub cpu: Option<u32>,
    /// Of an execution trace: memory before each instruction, by its address or a variable of --elf; may be given several times
    #[arg(long, value_name = "PLACE[,LEN]", value_parser = crate::execution::parse_place)]
    pub memory: Vec<crate::execution::MemoryPlace>,
    /// The program, one of its libraries, or a directory that has them, as /proc/PID/root of a container; may be given several times
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub elf: Vec<PathBuf>,
    /// One JSON object a line instead of text
    #[arg(long, conflicts_with = "gdb")]
    pub json: bool,
    /// Print the commands with which GDB opens the file, symbols included
    #[arg(long, conflicts_with_all = ["frame", "tracepoint"])]
    pub gdb: bool,
    /// While a recorder writes the file: show its frames as they come, until the recording ends
    #[arg(long, conflicts_with_all = ["frame", "gdb", "folded"])]
    pub follow: bool,
    /// The stacks that $stack collected, for a flame graph: a line each, with how many frames have it
    #[arg(long, conflicts_with_all = ["json", "gdb"])]
    pub folded: bool,
    /// Only what count(), sum(E) and the other aggregates have counted
    #[arg(long, conflicts_with_all = ["frame", "gdb", "follow", "folded"])]
    pub aggregates: bool,
    /// Show values by their members, as GDB does without pretty-printers
    #[arg(long, conflicts_with = "types")]
    pub raw: bool,
    #[command(flatten)]
    pub types: crate::types::TypeArguments,
    #[command(flatten)]
    pub debuginfod: crate::debuginfod::DebuginfodArguments,
    #[command(flatten)]
    pub machine: crate::open::Machine,
}

//! The command line as a whole: its commands, each with its arguments.

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueHint};

use crate::arguments::{FindArguments, InfoArguments, RecordArguments, ShowArguments};

/// GDB's tracepoints, for any program, without stopping it.
#[derive(Parser, Debug)]
#[command(
    name = "tracewire",
    version,
    about = "GDB's tracepoints for a live program: name places, let it run, look at what each hit saw",
    long_about = "GDB's tracepoints for a live program.\n\nName places in a program and what to collect there, let \
                  the program run at its own pace, and look afterwards at what each hit saw: here, or in GDB, which \
                  reads and writes the same files and the same scripts.",
    after_help = "Start with:  tracewire demo\n\nExit status: 0 done; 1 the data says no (nothing found, no frame \
                  recorded); 2 wrong usage or input that cannot be used.",
    subcommand_required = true,
    arg_required_else_help = true,
    disable_help_subcommand = true
)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand, Debug)]
pub enum Command {
    /// Trace a bundled sample program, show what was seen, say what to try next
    #[command(after_help = crate::demo::HELP)]
    Demo(crate::demo::DemoArguments),
    /// Run a program, or attach to one, with tracepoints in it, and save what they saw
    #[command(after_help = crate::arguments::record::HELP, after_long_help = crate::arguments::record::LONG_HELP)]
    Record(Box<RecordArguments>),
    /// List what can be traced in a program or a process: functions, lines with their variables, probes
    #[command(after_help = crate::list::HELP)]
    List(crate::list::ListArguments),
    /// Print names for a shell's completion of a command line
    #[command(hide = true)]
    Complete(crate::complete::CompleteArguments),
    /// Take out of a program what a killed Tracewire has left there, and save the frames
    #[command(after_help = crate::rescue::HELP)]
    Rescue(crate::rescue::RescueArguments),
    /// Record programs whenever they run, into a directory with limits, as a daemon
    #[command(after_help = crate::agent::HELP)]
    Agent(crate::agent::AgentArguments),
    /// Say what a trace file or an execution trace holds
    #[command(after_help = crate::arguments::info::HELP)]
    Info(InfoArguments),
    /// Show frames of a trace file, or instructions of an execution trace and the state before them
    #[command(after_help = crate::arguments::show::HELP)]
    Show(ShowArguments),
    /// Find frames of a trace file, or instructions of an execution trace
    #[command(after_help = crate::arguments::find::HELP)]
    Find(FindArguments),
    /// Say what is wrong with a trace file or an execution trace, and where
    #[command(after_help = crate::check::HELP)]
    Check(crate::check::CheckArguments),
    /// Write a good trace file of all that is whole in a cut or damaged one
    #[command(after_help = crate::repair::HELP)]
    Repair(crate::repair::RepairArguments),
    /// Add a checksum to trace files that another program wrote, so that `check` names any later change
    #[command(after_help = crate::seal::HELP)]
    Seal(crate::seal::SealArguments),
    /// Convert a trace file to another format and back; merge, cut and split
    #[command(after_help = crate::convert::HELP)]
    Convert(crate::convert::ConvertArguments),
    /// Write a run or an execution trace as one HTML page, with charts and a table that filters
    #[command(after_help = crate::report::HELP)]
    Report(crate::report::ReportArguments),
    /// Write runs as Parquet files with typed columns, for SQL
    #[command(after_help = crate::dataset::HELP)]
    Dataset(crate::dataset::DatasetArguments),
    /// Ask trace files and datasets in SQL
    #[command(after_help = crate::dataset::QUERY_HELP)]
    Query(crate::dataset::QueryArguments),
    /// Apply tracepoints to an execution trace after the fact, and save what they would have seen
    #[command(after_help = crate::execution::collect::HELP)]
    Collect(crate::execution::collect::CollectArguments),
    /// Show who called whom in a live program or an execution trace, how often, and what it took
    #[command(after_help = crate::calls::HELP)]
    Calls(Box<crate::calls::CallsArguments>),
    /// Show which functions of an execution trace take the instructions
    #[command(after_help = crate::execution::analyze::PROFILE_HELP)]
    Profile(crate::execution::analyze::ProfileArguments),
    /// Show which code of a program an execution trace executed
    #[command(after_help = crate::execution::analyze::COVERAGE_HELP)]
    Coverage(crate::execution::analyze::CoverageArguments),
    /// Show who wrote and read a location of an execution trace, or wrote a register
    #[command(after_help = crate::execution::memory::HELP)]
    Memory(crate::execution::memory::MemoryArguments),
    /// Compare two execution traces
    #[command(after_help = crate::execution::diff::HELP)]
    Diff(crate::execution::diff::DiffArguments),
    /// Show a trace file or an execution trace to GDB, which connects with `target remote`
    #[command(after_help = crate::serve::HELP)]
    Serve(crate::serve::ServeArguments),
    /// Run a program, or attach to one, for GDB, which connects with `target remote`
    #[command(after_help = crate::gdbserver::HELP)]
    Gdbserver(crate::gdbserver::GdbserverArguments),
    /// Give GDB tracepoints in front of any stub: QEMU's, a probe's, an emulator's
    #[command(after_help = crate::proxy::HELP)]
    Proxy(crate::proxy::ProxyArguments),
    /// Record what a guest of QEMU executes: instructions, memory accesses, registers
    #[command(after_help = crate::qemu::HELP)]
    Qemu(crate::qemu::QemuArguments),
    /// Explain a log of packets between GDB and a stub
    #[command(after_help = crate::packets::HELP)]
    Packets(crate::packets::PacketsArguments),
    /// Print a completion script for a shell
    #[command(after_help = "Example, for bash:\n  source <(tracewire completions bash)")]
    Completions {
        /// For which shell
        shell: clap_complete::Shell,
    },
    /// Write the manual pages into a folder
    #[command(after_help = "Example:\n  tracewire man . && man ./tracewire-record.1")]
    Man {
        /// The folder, made if it is not there
        #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
        directory: PathBuf,
    },
}

impl Command {
    /// Whether it attaches to processes that run, which may leave this one no processor.
    pub fn attaches(&self) -> bool {
        match self {
            Self::Record(arguments) => arguments.program.is_empty() && arguments.upstream.is_none(),
            Self::Calls(arguments) => arguments.pid.is_some(),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}

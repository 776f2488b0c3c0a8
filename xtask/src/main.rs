//! Tracewire's development tasks: tests, measurements, fuzzing, torture, GDB's own test suite, and a GDB for one more machine.

mod architecture;
mod bench;
mod conformance;
mod fuzz;
mod gdb;
mod package;
mod prose;
mod ratio;
mod real;
mod running;
mod setup;
mod soak;
mod test;
mod torture;
mod workspace;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Tracewire's own chores.
#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Install what the tests need (with apt-get, as root; otherwise say what is missing), then run the tests
    Test(test::Arguments),
    /// Check the crates against ARCHITECTURE.md, and print circles of imports and the largest types
    Architecture(architecture::Arguments),
    /// Check the documents: sentences of more than 30 words, links that lead nowhere, files that are not there
    Prose(prose::Arguments),
    /// Measure, as ratios to a peer in the same run
    Bench {
        #[command(subcommand)]
        what: bench::Benchmark,
    },
    /// Run GDB's own test suite against Tracewire and gdbserver, and print every difference
    Conformance(conformance::Arguments),
    /// Build a GDB for a machine that Debian's does not know, from Debian's source package, and print where it is
    Gdb(gdb::Arguments),
    /// Make the Debian package, with manual pages and completions, and a program without shared libraries
    Package(package::Arguments),
    /// Trace real programs from packages, and hold what is recorded against their own logs
    Real(real::Arguments),
    /// Trace programs that check themselves for hours, with kills at random, and hold what is saved against their own counts
    Soak(soak::Arguments),
    /// Run fuzz targets
    Fuzz(fuzz::Arguments),
    /// Do many times what the tests do some times
    Torture {
        #[command(subcommand)]
        what: torture::Torture,
    },
}

fn main() -> Result<()> {
    match Arguments::parse().chore {
        Chore::Test(arguments) => test::run(&arguments),
        Chore::Architecture(arguments) => architecture::run(&arguments),
        Chore::Bench { what } => bench::run(&what),
        Chore::Conformance(arguments) => conformance::run(&arguments),
        Chore::Prose(arguments) => prose::run(&arguments),
        Chore::Gdb(arguments) => gdb::run(&arguments),
        Chore::Package(arguments) => package::run(&arguments),
        Chore::Real(arguments) => real::run(&arguments),
        Chore::Soak(arguments) => soak::run(&arguments),
        Chore::Fuzz(arguments) => fuzz::run(&arguments),
        Chore::Torture { what } => torture::run(&what),
    }
}

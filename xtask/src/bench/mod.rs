//! `cargo xtask bench`: what a user would measure, as ratios to a peer in the same run.

mod arm;
mod attach;
mod budget;
mod circular;
mod data;
mod executions;
mod file;
mod flow;
mod goals;
mod hit;
mod lean;
mod live;
mod proxy;
mod qemu;
mod readers;
mod save;
mod show;
mod start;
mod trace;

use anyhow::Result;

#[derive(clap::Subcommand)]
pub enum Benchmark {
    /// Thousands of tracepoints armed and removed, unknown names, a hundred busy threads; beside GDB and gdbserver
    Arm(arm::Arguments),
    /// Twenty processes with twenty busy threads each, attached to and left again and again
    Attach(attach::Arguments),
    /// What is left of a loop's speed under a budget; what hits cost beside what is said before
    Budget(budget::Arguments),
    /// A program that fills circular buffers of all sizes at full speed; beside another build
    Circular(circular::Arguments),
    /// A million frames as Parquet files; a query of a trace file of a gibibyte beside a conversion and DuckDB
    Data(data::Arguments),
    /// The value of a register and of memory at each call of a function: through the index, and over Parquet files in DuckDB
    Executions(executions::Arguments),
    /// The cost of a tracepoint's hit: Tracewire, gdbserver's trap and, where the kernel lets it, a uprobe
    Hit(hit::Arguments),
    /// A string and two integers of each hit, all kept: as a trace file, as a lean recording, by bpftrace; redis' throughput with each
    Lean(lean::Arguments),
    /// 100,000 hits a second shown as they come, to a reader that reads and to one that stalls
    Live(live::Arguments),
    /// A trace file of a gibibyte: the first look, a search with the index there, a walk against GDB's
    File(file::Arguments),
    /// Hits a second at QEMU's stub: the proxy's tracepoints, GDB's breakpoints with commands, and its dprintf; round trips a hit
    Proxy(proxy::Arguments),
    /// Instructions a second that the plugin of QEMU records, beside QEMU's own log
    Qemu(qemu::Arguments),
    /// A trace buffer into a file: by the server, and by GDB from Tracewire and from gdbserver
    Save(save::Arguments),
    /// The first tracepoint in bash and node: the time until it is in place and the memory; beside GDB and gdbserver
    Start(start::Arguments),
    /// An execution trace of a gibibyte: its index, and what looking at it costs
    Trace(trace::Arguments),
}

pub fn run(what: &Benchmark) -> Result<()> {
    match what {
        Benchmark::Arm(arguments) => arm::run(arguments),
        Benchmark::Attach(arguments) => attach::run(arguments),
        Benchmark::Budget(arguments) => budget::run(arguments),
        Benchmark::Circular(arguments) => circular::run(arguments),
        Benchmark::Data(arguments) => data::run(arguments),
        Benchmark::Executions(arguments) => executions::run(arguments),
        Benchmark::Hit(arguments) => hit::run(arguments),
        Benchmark::Lean(arguments) => lean::run(arguments),
        Benchmark::Live(arguments) => live::run(arguments),
        Benchmark::File(arguments) => file::run(arguments),
        Benchmark::Proxy(arguments) => proxy::run(arguments),
        Benchmark::Qemu(arguments) => qemu::run(arguments),
        Benchmark::Save(arguments) => save::run(arguments),
        Benchmark::Start(arguments) => start::run(arguments),
        Benchmark::Trace(arguments) => trace::run(arguments),
    }?;
    goals::check()
}

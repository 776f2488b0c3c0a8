//! The `tracewire` program: parses the command line and calls the libraries.

#[macro_use]
mod message;
mod agent;
mod answer;
mod arguments;
mod audit;
mod budget;
mod calls;
mod check;
mod clients;
mod command_line;
mod complete;
mod condition;
mod convert;
mod csv;
mod dataset;
mod debuginfod;
mod demo;
mod execution;
mod export;
mod find;
mod folded_stacks;
mod follow;
mod frame_output;
mod frames;
mod gdbserver;
mod in_order;
mod info;
mod list;
mod open;
mod output;
mod packets;
mod policy;
mod process_id;
mod progress;
mod proxy;
mod qemu;
mod rate;
mod record;
mod redaction;
mod repair;
mod report;
mod rescue;
mod seal;
mod selection;
mod serve;
mod several;
mod shell;
mod show;
mod stdout;
mod types;
mod value_parser;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use tracewire_recorder::{Priority, out_of_memory};

use answer::Answer;
use command_line::{Arguments, Command};

#[global_allocator]
static ALLOCATOR: out_of_memory::Allocator = out_of_memory::Allocator;

fn main() -> ExitCode {
    // Busy programs that are attached to would leave this one no processor.
    let priority = Priority::raise_alone();
    out_of_memory::handle_aborts();
    let arguments = Arguments::parse();
    let priority = arguments.command.attaches().then_some(priority);
    let result = run(arguments, priority);
    // It may have ended as if by a request.
    let result = match out_of_memory::verify() {
        Err(none) if result.is_ok() => Err(none.into()),
        _ => result,
    };
    // Data read from a file that was truncated meanwhile is not valid.
    let result = match tracewire_mapped_file::verify() {
        Ok(()) => result,
        Err(cut) => Err(cut.into()),
    };
    match result {
        Ok(Answer::Yes) => ExitCode::SUCCESS,
        Ok(Answer::No) => ExitCode::from(1),
        Err(error) if stdout::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            message!("tracewire: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// The calling thread may have a raised priority until the command has begun.
fn run(arguments: Arguments, priority: Option<Priority>) -> anyhow::Result<Answer> {
    match arguments.command {
        Command::Completions { shell } => shell::completions(shell, Arguments::command()),
        Command::Man { directory } => shell::manual(&directory, Arguments::command()),
        Command::Info(arguments) => info::info(&arguments),
        Command::Show(arguments) => show::show(&arguments),
        Command::Find(arguments) => find::find(&arguments),
        Command::Check(arguments) => check::check(&arguments),
        Command::Repair(arguments) => repair::repair(&arguments),
        Command::Seal(arguments) => seal::seal(&arguments),
        Command::Convert(arguments) => convert::convert(&arguments),
        Command::Report(arguments) => report::report(&arguments),
        Command::Dataset(arguments) => dataset::run("dataset", &arguments.arguments),
        Command::Query(arguments) => dataset::run("query", &arguments.arguments),
        Command::Collect(arguments) => execution::collect::collect(&arguments),
        Command::Calls(arguments) => calls::calls(*arguments, priority),
        Command::Profile(arguments) => execution::analyze::profile(&arguments),
        Command::Coverage(arguments) => execution::analyze::coverage(&arguments),
        Command::Memory(arguments) => execution::memory::memory(&arguments),
        Command::Diff(arguments) => execution::diff::run(&arguments),
        Command::Serve(arguments) => serve::serve(&arguments),
        Command::Gdbserver(arguments) => gdbserver::gdbserver(arguments),
        Command::Proxy(arguments) => proxy::proxy(arguments),
        Command::Qemu(arguments) => qemu::qemu(&arguments),
        Command::Packets(arguments) => packets::explain(&arguments),
        Command::Record(arguments) => record::record(*arguments, priority),
        Command::List(arguments) => list::list(&arguments),
        Command::Complete(arguments) => complete::complete(&arguments),
        Command::Agent(arguments) => agent::agent(arguments),
        Command::Rescue(arguments) => rescue::rescue(&arguments),
        Command::Demo(arguments) => demo::demo(&arguments),
    }
}

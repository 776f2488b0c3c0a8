//! `agent`: permanent probes, in programs that start and end at any time.
//!
//! Each probe has a recorder, a separate process that is `tracewire record` ([`worker`]). The [`supervisor`] starts it, and
//! recovers what it leaves ([`recovery`]) before it starts it again. The [`keeper`] moves finished files to where they are kept,
//! and removes the oldest. All state is in the directory ([`layout`]), so that the agent may be killed at any moment.

mod catalog;
mod config;
mod control;
mod counts;
mod keeper;
mod layout;
mod notify;
mod probe;
mod program;
mod recovery;
mod request;
mod signals;
mod supervisor;
mod worker;

use std::io::Read as _;
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand, ValueHint};
use serde_json::Value;
use tracewire_views::words;

use crate::answer::Answer;
use crate::message::say;
use config::default_socket;
use control::ask;
use request::Request;
use supervisor::Agent;

pub const HELP: &str = "\
The agent runs until SIGTERM or ^C; systemd can start it (tracewire-agent.service). SIGHUP has it read the configuration again. Each probe \
has a recorder of its own. Its trace files are finished every minute, and go into DIRECTORY/dataset where the program tracewire-query \
is beside tracewire or in PATH, else into DIRECTORY/runs.

A configuration:
  directory = \"/var/lib/tracewire\"
  group = \"tracing\"
  limits = { size = \"10GiB\", age = \"30d\" }

  [[probe]]
  name = \"sales\"
  process = \"/usr/bin/shop\"
  tracepoints = [\"sell : $args\"]
  rate = \"1000/s\"

Keys besides: socket, rotate, dataset, policy, audit; of a probe: user, unit, cgroup, container, script, budget, expire, redact, \
default_redactions, follow_forks, mechanism, buffer_size, rotate. docs/guide/agent.md explains them.

Examples:
  tracewire agent --config /etc/tracewire/agent.toml
  tracewire agent status
  tracewire agent add sales --process shop -t 'sell : $args' --expire 2h
  tracewire agent remove sales";

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct AgentArguments {
    /// The configuration, TOML
    #[arg(long, value_name = "FILE", required = true, value_hint = ValueHint::FilePath)]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Option<AgentCommand>,
}

#[derive(Subcommand, Debug)]
enum AgentCommand {
    /// Say how the agent and its probes are
    Status(StatusArguments),
    /// Have a probe besides those of the configuration; it stays until it is removed
    Add(Box<AddArguments>),
    /// Have a probe no longer that was added
    Remove(RemoveArguments),
}

#[derive(Args, Debug)]
struct SocketArguments {
    /// Where the agent listens [default: /run/tracewire/agent.sock; of users, tracewire-agent.sock in $XDG_RUNTIME_DIR]
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    socket: Option<PathBuf>,
}

impl SocketArguments {
    fn ask(&self, request: &Request) -> anyhow::Result<Value> {
        let path = self.socket.clone().unwrap_or_else(default_socket);
        ask(&path, request)
    }
}

#[derive(Args, Debug)]
struct StatusArguments {
    #[command(flatten)]
    socket: SocketArguments,
    /// One JSON object instead of text
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
struct AddArguments {
    /// What the probe is called
    #[arg(value_name = "NAME", required_unless_present = "file")]
    name: Option<String>,
    /// A file with one [[probe]] table; - for standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["name", "processes", "tracepoints"], value_hint = ValueHint::FilePath)]
    file: Option<PathBuf>,
    /// Processes of this name, or whose program has this path; may be given several times
    #[arg(long = "process", value_name = "NAME")]
    processes: Vec<String>,
    /// Processes of this user; may be given several times
    #[arg(long = "user", value_name = "USER")]
    users: Vec<String>,
    /// Processes of this unit of systemd; may be given several times
    #[arg(long = "unit", value_name = "UNIT")]
    units: Vec<String>,
    /// Processes in this control group; may be given several times
    #[arg(long = "cgroup", value_name = "PATH")]
    cgroups: Vec<String>,
    /// Processes of this container; may be given several times
    #[arg(long = "container", value_name = "ID")]
    containers: Vec<String>,
    /// A tracepoint, as for `record`; may be given several times
    #[arg(
        short = 't',
        long = "tracepoint",
        value_name = "SPEC",
        allow_hyphen_values = true,
        required_unless_present = "file"
    )]
    tracepoints: Vec<String>,
    /// How many frames a tracepoint may make: 1000/s; may be given several times
    #[arg(long = "rate", value_name = "N/s[:NUMBERS]")]
    rates: Vec<String>,
    /// How much of each cpu hits may take: 1%
    #[arg(long, value_name = "N%")]
    budget: Option<String>,
    /// For how long the probe is there: 2h
    #[arg(long, value_name = "TIME")]
    expire: Option<String>,
    #[command(flatten)]
    socket: SocketArguments,
}

#[derive(Args, Debug)]
struct RemoveArguments {
    /// What the probe is called
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    socket: SocketArguments,
}

/// `agent`.
pub fn agent(arguments: AgentArguments) -> anyhow::Result<Answer> {
    match arguments.command {
        None => {
            let config = arguments.config.context("expected --config FILE")?;
            Agent::begin(config)?.run()?;
        }
        Some(AgentCommand::Status(arguments)) => {
            let status = arguments.socket.ask(&Request::Status)?;
            if arguments.json {
                anstream::println!("{status}");
            } else {
                print_status(&status);
            }
        }
        Some(AgentCommand::Add(arguments)) => {
            let probes = arguments.text()?;
            let added = arguments.socket.ask(&Request::Add { probes })?;
            say(format_args!("{} is added", string(&added, "added")));
        }
        Some(AgentCommand::Remove(arguments)) => {
            let name = arguments.name.clone();
            arguments.socket.ask(&Request::Remove { name })?;
            say(format_args!("{} is being removed", arguments.name));
        }
    }
    Ok(Answer::Yes)
}

impl AddArguments {
    /// The probe as TOML.
    fn text(&self) -> anyhow::Result<String> {
        if let Some(file) = &self.file {
            let mut text = String::new();
            let limit = config::LONGEST + 1;
            let read = match file.as_os_str() == "-" {
                true => std::io::stdin().take(limit).read_to_string(&mut text),
                false => std::fs::File::open(file)
                    .and_then(|opened| opened.take(limit).read_to_string(&mut text)),
            };
            read.with_context(|| file.display().to_string())?;
            if text.len() as u64 > config::LONGEST {
                bail!("{} has more than {} bytes", file.display(), config::LONGEST);
            }
            return Ok(text);
        }
        let mut text = "[[probe]]\n".to_owned();
        let mut add = |key: &str, value: &Value| {
            // Strings and lists of strings are written in TOML as in JSON.
            text.push_str(&format!("{key} = {value}\n"));
        };
        add("name", &self.name.clone().into());
        for (key, words) in [
            ("process", &self.processes),
            ("user", &self.users),
            ("unit", &self.units),
            ("cgroup", &self.cgroups),
            ("container", &self.containers),
            ("tracepoints", &self.tracepoints),
            ("rate", &self.rates),
        ] {
            if !words.is_empty() {
                add(key, &words.clone().into());
            }
        }
        for (key, word) in [("budget", &self.budget), ("expire", &self.expire)] {
            if let Some(word) = word {
                add(key, &word.clone().into());
            }
        }
        Ok(text)
    }
}

fn string<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_default()
}

fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_default()
}

/// The status, for people.
fn print_status(status: &Value) {
    let agent = &status["agent"];
    let kind = match agent["dataset"].as_bool() {
        Some(true) => "a dataset",
        _ => "trace files",
    };
    let limit = agent["limit_bytes"].as_u64();
    let limit = limit.map_or_else(String::new, |limit| format!(" of {}", words::bytes(limit)));
    anstream::println!(
        "agent {}: {} in {} ({kind}), {}{limit}",
        number(agent, "process"),
        words::count(number(agent, "runs"), "run"),
        words::printable(string(agent, "directory")),
        words::bytes(number(agent, "bytes") + number(agent, "unfinished_bytes")),
    );
    if number(agent, "removed_runs") > 0 {
        anstream::println!(
            "removed for the limits: {}, {}",
            words::count(number(agent, "removed_runs"), "run"),
            words::count(number(agent, "removed_frames"), "frame"),
        );
    }
    for probe in status["probes"].as_array().into_iter().flatten() {
        let processes = probe["processes"].as_array().map_or(0, Vec::len);
        let processes = match processes {
            1 => "1 process".to_owned(),
            more => format!("{more} processes"),
        };
        let mut line = format!(
            "{}: {}, {processes}; {} in {}",
            string(probe, "name"),
            string(probe, "state"),
            words::count(number(probe, "frames"), "frame"),
            words::count(number(probe, "files"), "file"),
        );
        for (key, what) in [("lost", "frame"), ("skipped", "hit")] {
            if number(probe, key) > 0 {
                line.push_str(&format!(
                    ", {} {key}",
                    words::count(number(probe, key), what)
                ));
            }
        }
        anstream::println!("{}", words::printable(&line));
        if number(probe, "gone") > 0 {
            anstream::println!(
                "  processes that ended before their frames were saved: {}",
                number(probe, "gone")
            );
        }
        if let Some(reason) = probe["reason"].as_str() {
            anstream::println!("  {}", words::printable(reason));
        }
    }
}

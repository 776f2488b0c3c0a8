//! `packets`: the log of a session between GDB and a stub, explained.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, ValueHint};
use serde_json::json;
use tracewire_packets::log::{Direction, Explainer, LoggedPacket, packets};

use crate::answer::Answer;
use crate::stdout;

pub const HELP: &str = "\
The log may be what GDB writes after `set debug remote 1`, or a --debug-log of ours. `<-` goes to the stub, `->` comes \
from it, `=>` comes unasked. Exit status 1 when there is no packet in the log.

Examples:
  gdb -ex 'set debug remote 1' -ex 'target remote :2345' -batch 2> log; tracewire packets log
  tracewire packets --json log | jq 'select(.meaning | startswith(\"failed\"))'";

#[derive(Args, Debug)]
pub struct PacketsArguments {
    /// The log
    #[arg(value_name = "LOG", value_hint = ValueHint::FilePath)]
    pub log: PathBuf,
    /// One JSON object a line instead of text
    #[arg(long)]
    pub json: bool,
}

/// How many characters of a packet are shown beside its meaning.
const SHOWN: usize = 40;

/// `packets`.
pub fn explain(arguments: &PacketsArguments) -> anyhow::Result<Answer> {
    let log = std::fs::read(&arguments.log)
        .with_context(|| format!("{} cannot be read", arguments.log.display()))?;
    let mut explainer = Explainer::default();
    let mut output = stdout::output();
    let mut answer = Answer::No;
    for packet in packets(&log) {
        answer = Answer::Yes;
        let meaning = explainer.explain(&packet);
        if arguments.json {
            writeln!(output, "{}", as_json(&packet, &meaning))?;
        } else {
            let arrow = match packet.direction {
                Direction::Request => "<-",
                Direction::Reply => "->",
                Direction::Notification => "=>",
            };
            let text = packet.payload.escape_ascii().to_string();
            let shown: String = text.chars().take(SHOWN).collect();
            let rest = if shown.len() < text.len() || packet.omitted > 0 {
                "…"
            } else {
                ""
            };
            writeln!(
                output,
                "{:>6} {arrow} {:<41} {meaning}",
                packet.line,
                format!("{shown}{rest}")
            )?;
        }
    }
    output.flush()?;
    if answer == Answer::No {
        message!(
            "tracewire: {} has no packets; expected what GDB writes after `set debug remote 1`",
            arguments.log.display()
        );
    }
    Ok(answer)
}

fn as_json(packet: &LoggedPacket, meaning: &str) -> serde_json::Value {
    let direction = match packet.direction {
        Direction::Request => "request",
        Direction::Reply => "reply",
        Direction::Notification => "notification",
    };
    let mut object = json!({
        "line": packet.line,
        "direction": direction,
        "payload": packet.payload.escape_ascii().to_string(),
        "meaning": meaning,
    });
    if packet.omitted > 0 {
        object["omitted"] = packet.omitted.into();
    }
    object
}

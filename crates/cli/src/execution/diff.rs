//! `diff`: two execution traces compared.

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, ValueHint};
use serde_json::{Value, json};
use tracewire_exec_analysis::diff::{Difference, Options, Place, diff};
use tracewire_exec_trace::recording::{Need, Recording};
use tracewire_model::Address;
use tracewire_views::words;

use super::open::{Opened, execution};
use crate::answer::Answer;
use crate::stdout::output;

pub const HELP: &str = "\
Instructions are put side by side by address, each cpu's by themselves; what they write must be the same, location by \
location, in the same order. Different locations may be written in another order within the window. Times, numbers and \
texts are not compared; digits that one trace does not know fit anything. Exit status 1 when there is a difference.

Examples:
  tracewire diff model.trace rtl.tarmac
  tracewire diff model.trace rtl.tarmac --from 0x80001000 --ignore cpsr --window 200
  tracewire diff old.trace new.trace --most 1 --json";

#[derive(Args, Debug)]
pub struct DiffArguments {
    /// The first execution trace
    #[arg(value_name = "LEFT", value_hint = ValueHint::FilePath)]
    pub left: PathBuf,
    /// The second
    #[arg(value_name = "RIGHT", value_hint = ValueHint::FilePath)]
    pub right: PathBuf,
    /// Begin in both at the first instruction at this address
    #[arg(long, value_name = "ADDRESS", value_parser = crate::value_parser::parse_address)]
    pub from: Option<u64>,
    /// How many instructions to look through to come together again, and how much later a value may be written
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub window: u32,
    /// Do not compare this register; may be given several times
    #[arg(long, value_name = "NAME")]
    pub ignore: Vec<String>,
    /// Stop after so many differences
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub most: usize,
    /// The program, for its machine and names; may be given several times
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub elf: Vec<PathBuf>,
    /// One JSON object a line
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub machine: crate::open::Machine,
}

/// `diff`.
pub fn run(arguments: &DiffArguments) -> anyhow::Result<Answer> {
    let open = |path| execution(path)?.open(&arguments.elf, arguments.machine);
    let (left, right) = (open(&arguments.left)?, open(&arguments.right)?);
    for one in [&left, &right] {
        one.require(Need::ControlFlow)?;
    }
    let options = Options {
        window: arguments.window as usize,
        from: arguments.from.map(Address),
        ignored: arguments.ignore.clone(),
        most: arguments.most.max(1),
    };
    let outcome = diff(&left.recording, &right.recording, &options)?;
    let mut output = output();
    for (place, difference) in &outcome.differences {
        if arguments.json {
            writeln!(output, "{}", json(place, difference))?;
        } else {
            text(&mut output, place, difference, &left, &right)?;
        }
    }
    output.flush()?;
    let count = outcome.differences.len();
    let stopped = if count >= options.most {
        ", and looked no further"
    } else {
        ""
    };
    message!(
        "tracewire: {} instructions compared, {}",
        outcome.compared,
        match count {
            0 => "no difference".to_owned(),
            1 => format!("1 difference{stopped}"),
            _ => format!("{count} differences{stopped}"),
        }
    );
    Ok(if count == 0 { Answer::Yes } else { Answer::No })
}

fn text(
    output: &mut impl Write,
    place: &Place,
    difference: &Difference,
    left: &Opened,
    right: &Opened,
) -> anyhow::Result<()> {
    writeln!(
        output,
        "cpu {} at {}: {difference}",
        place.cpu, place.address
    )?;
    let line = |recording: &Recording, number| -> anyhow::Result<Option<String>> {
        Ok(recording.instruction(number)?.map(|one| {
            format!(
                "instruction {number}, line {}, time {}: {}",
                one.line,
                one.time,
                words::printable(&one.code.disassembly)
            )
        }))
    };
    for (name, opened, number) in [("first ", left, place.left), ("second", right, place.right)] {
        if let Some(number) = number
            && let Some(line) = line(&opened.recording, number)?
        {
            writeln!(output, "  {name} {line}")?;
        }
    }
    Ok(())
}

fn json(place: &Place, difference: &Difference) -> Value {
    let mut object = json!({ "cpu": place.cpu.0, "pc": place.address.to_string() });
    if let Some(left) = place.left {
        object["left_instruction"] = left.0.into();
    }
    if let Some(right) = place.right {
        object["right_instruction"] = right.0.into();
    }
    match difference {
        Difference::Way { right, apart } => {
            object["kind"] = "way".into();
            object["right_pc"] = right.to_string().into();
            if let Some((left, right)) = apart {
                object["left_apart"] = (*left).into();
                object["right_apart"] = (*right).into();
            }
        }
        Difference::Value {
            location,
            left,
            right,
        } => {
            object["kind"] = "value".into();
            object["location"] = location.to_string().into();
            for (name, value) in [("left", left), ("right", right)] {
                if let Some(value) = value {
                    object[name] = value.as_str().into();
                }
            }
        }
        Difference::Read {
            address,
            left,
            right,
        } => {
            object["kind"] = "read".into();
            object["address"] = address.to_string().into();
            object["left"] = left.as_str().into();
            object["right"] = right.as_str().into();
        }
        Difference::End { is_left } => {
            object["kind"] = "end".into();
            object["ended"] = if *is_left { "left" } else { "right" }.into();
        }
    }
    object["message"] = difference.to_string().into();
    object
}

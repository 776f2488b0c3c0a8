//! `check` on execution traces.

use std::io::Write;

use anyhow::Context;
use serde_json::json;
use tracewire_arch::Machine;
use tracewire_exec_analysis::check::{Fault, Finding, check};
use tracewire_exec_trace::record::DataOrder;
use tracewire_exec_trace::recording::{OpenOptions, Recording};
use tracewire_exec_trace::settle;
use tracewire_exec_trace::text::{Format, TraceText};
use tracewire_views::words;

use super::open::{Source, elf_architecture};
use crate::answer::Answer;
use crate::check::CheckArguments;
use crate::stdout::output;

/// The text of a trace; that of a compact form is made again.
fn text(source: &Source) -> anyhow::Result<TraceText> {
    let shown = source.shown().display();
    let text = TraceText::open(source.path()).with_context(|| format!("{shown}"))?;
    if !Recording::is_compact(&text) {
        return Ok(text);
    }
    let recording = Recording::open(source.path(), &OpenOptions::default())
        .with_context(|| format!("{shown}"))?;
    let mut file = tempfile::NamedTempFile::new().context("no temporary file for the text")?;
    recording.write_text(&mut file)?;
    Ok(TraceText::open(file.path())?)
}

pub fn run(source: &Source, arguments: &CheckArguments) -> anyhow::Result<Answer> {
    let text = text(source)?;
    let shown = source.shown().display();
    let format =
        Format::detect(&text).with_context(|| format!("{shown} has no line of a trace"))?;
    let known = arguments
        .machine
        .architecture
        .or_else(|| elf_architecture(&arguments.elf));
    let settled = settle(format, &text, known);
    let machine = known.or(settled.guessed).map(Machine::of);
    let data_order = arguments.machine.data_order.map(DataOrder::from);
    if machine.is_none() {
        message!(
            "tracewire: note: {shown} does not say its machine, and jumps are not checked: --architecture NAME says it"
        );
    }
    let mut report = check(format, &text, machine, data_order.or(settled.data_order));
    let cut = text.cut();
    if cut.is_some() {
        // One fault: the line is cut because the compressed data are.
        let before = report.findings.len();
        (report.findings).retain(|finding| finding.fault != Fault::Cut);
        report.count -= (before - report.findings.len()) as u64;
    }
    (report.warnings).extend(report.data_order.contradiction(data_order.is_some()));
    let mut output = output();
    let mut count = report.count;
    for warning in &report.warnings {
        if arguments.json {
            let line = json!({ "severity": "warning", "message": warning });
            writeln!(output, "{line}")?;
        } else {
            writeln!(output, "warning: {warning}")?;
        }
    }
    for finding in &report.findings {
        write(&mut output, finding, arguments.json)?;
    }
    if let Some(error) = cut {
        count += 1;
        let message = format!("the compressed data are cut or damaged: {error}");
        if arguments.json {
            let line = report.lines;
            writeln!(
                output,
                "{}",
                json!({ "severity": "error", "line": line, "message": message })
            )?;
        } else {
            writeln!(output, "error: {message}")?;
        }
    }
    output.flush()?;
    let unlisted = report.count - report.findings.len() as u64;
    if unlisted > 0 {
        message!("tracewire: {unlisted} more are not listed");
    }
    message!(
        "tracewire: {shown}: {}, {}, {}",
        words::count(report.lines, "line"),
        words::count(report.instructions, "instruction"),
        words::count(count, "fault")
    );
    Ok(if count == 0 { Answer::Yes } else { Answer::No })
}

fn write(output: &mut impl Write, finding: &Finding, json: bool) -> std::io::Result<()> {
    let Finding {
        line,
        instruction,
        fault,
    } = finding;
    if !json {
        let shown = words::printable_lines(&fault.to_string());
        return writeln!(output, "error: line {line}: {shown}");
    }
    let mut object = json!({ "severity": "error", "line": line });
    if let Some(instruction) = instruction {
        object["instruction"] = instruction.0.into();
    }
    object["message"] = fault.to_string().into();
    writeln!(output, "{object}")
}

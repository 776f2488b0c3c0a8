//! Contradictions in the lines of the description.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::finding::Place;
use tracewire_agent_expr::verify;
use tracewire_model::{
    Action, DefinitionContent, DefinitionRecord, RegisterNumber, Status, StatusFields, StopReason,
    TracepointNumber, VariableDefinition, VariableNumber,
};
use tracewire_tracefile::TraceFile;

use crate::finding::{ExpressionRole, Fault, Finding};
use crate::redefinition::Definitions;
use crate::source::OpenString;

/// Reports the findings of each line, then those of the status line.
pub(crate) fn check(file: &TraceFile, report: &mut dyn FnMut(Finding)) {
    let defined: HashSet<_> = file
        .description()
        .variables()
        .iter()
        .map(|variable| variable.number)
        .collect();
    let mut names: HashMap<String, VariableNumber> = HashMap::new();
    // Of several status lines the last counts.
    let mut status_line = None;
    let mut definitions = Definitions::default();
    let mut string = OpenString::default();
    let mut report_at = |line, fault| {
        report(Finding {
            place: Place::Line(line),
            fault,
        });
    };
    for line in file.description().lines() {
        let Some(space) = line.text.iter().position(|byte| *byte == b' ') else {
            continue;
        };
        let (word, rest) = line.text.split_at(space);
        let rest = rest.get(1..).unwrap_or_default();
        if let Some(fault) = definitions.take(line.number, word, rest) {
            report_at(line.number, fault);
        }
        match word {
            b"tp" => {
                if let Ok(piece) = DefinitionRecord::parse(rest) {
                    if let Some((line, fault)) = string.take(line.number, &piece) {
                        report_at(line, fault);
                    }
                    let mut report = |fault| report_at(line.number, fault);
                    check_piece(file, &defined, &piece, &mut report);
                }
            }
            b"tsv" => {
                if let Ok(VariableDefinition { number, name, .. }) = VariableDefinition::parse(rest)
                    && let Some(first) = names.insert(name.clone(), number)
                    && first != number
                {
                    let second = number;
                    let fault = Fault::SameName {
                        first,
                        second,
                        name,
                    };
                    report_at(line.number, fault);
                }
            }
            b"status" if Status::parse_line(rest).is_ok() => status_line = Some(line.number),
            _ => {}
        }
    }
    if let Some((line, fault)) = string.end() {
        report_at(line, fault);
    }
    if let (Some(line), Some(status)) = (status_line, file.description().status()) {
        check_status(file, &status.fields, &mut |fault| report_at(line, fault));
    }
}

fn check_piece(
    file: &TraceFile,
    defined: &HashSet<VariableNumber>,
    piece: &DefinitionRecord,
    report: &mut dyn FnMut(Fault),
) {
    let number = piece.number;
    let expression = |what, code: &[u8], report: &mut dyn FnMut(Fault)| {
        let verified = match verify(code) {
            Ok(verified) => verified,
            Err(reason) => {
                return report(Fault::Expression {
                    number,
                    what,
                    reason,
                });
            }
        };
        if what == ExpressionRole::Condition && !verified.has_result() {
            report(Fault::NoResult(number));
        }
        for register in verified.registers() {
            check_register(file, number, RegisterNumber(*register), report);
        }
        let variables = [
            verified.variables_read(),
            verified.variables_set(),
            verified.variables_collected(),
        ];
        let used: BTreeSet<_> = variables.into_iter().flatten().copied().collect();
        for variable in used
            .into_iter()
            .map(|number| VariableNumber(i32::from(number)))
        {
            if !defined.contains(&variable) {
                report(Fault::UnknownVariable { number, variable });
            }
        }
    };
    let (what, actions) = match &piece.content {
        DefinitionContent::Definition {
            condition: Some(code),
            ..
        } => {
            return expression(ExpressionRole::Condition, code, report);
        }
        DefinitionContent::Actions(actions) => (ExpressionRole::Action, actions),
        DefinitionContent::StepActions(actions) => (ExpressionRole::StepAction, actions),
        _ => return,
    };
    for action in actions {
        match action {
            Action::Expression(code) => expression(what, code, report),
            Action::Memory {
                base: Some(register),
                ..
            } => {
                check_register(file, number, *register, report);
            }
            // A mask may request more than exists: GDB requests all registers that it knows.
            Action::Registers(_) | Action::Memory { .. } | Action::StaticData => {}
        }
    }
}

fn check_register(
    file: &TraceFile,
    number: TracepointNumber,
    register: RegisterNumber,
    report: &mut dyn FnMut(Fault),
) {
    if file
        .layout()
        .is_some_and(|layout| layout.by_number(register).is_none())
    {
        report(Fault::UnknownRegister { number, register });
    }
}

fn check_status(file: &TraceFile, fields: &StatusFields, report: &mut dyn FnMut(Fault)) {
    if let Some(number) = fields.stopping_tracepoint {
        let all = file.description().tracepoints().iter();
        let mut locations = all
            .map(|tracepoint| &tracepoint.definition)
            .filter(|definition| definition.number == number)
            .peekable();
        let passed = fields.stop_reason == Some(StopReason::PassCount);
        if locations.peek().is_none() {
            report(Fault::StoppedByUndefined(number));
        } else if passed && locations.all(|definition| definition.pass_count == 0) {
            report(Fault::NoPassCount(number));
        }
    }
    if let (Some(free), Some(size)) = (fields.buffer_free, fields.buffer_size) {
        let frames: u64 = file.frames().map(|frame| frame.kept_size() as u64).sum();
        match size.checked_sub(free) {
            None => report(Fault::BufferFree { free, size }),
            Some(used) if used < frames && !fields.running => {
                report(Fault::BufferUsed { used, frames });
            }
            Some(_) => {}
        }
    }
    if let (Some(start), Some(stop)) = (fields.start_time, fields.stop_time)
        && stop < start
        && stop != 0
        && !fields.running
    {
        report(Fault::StopBeforeStart(start - stop));
    }
}

//! The meaning of a description line, as JSON.

use serde_json::{Map, Value, json};
use tracewire_model::{
    Action, DefinitionContent, DefinitionRecord, SourceKind, Status, StatusFields, TracepointKind,
    VariableDefinition,
};
use tracewire_tracefile::{Line, Module};

use crate::hex;

/// The longest line whose meaning is written, in bytes. Real lines are shorter; the masks and actions of longer ones would take
/// hundreds of times their size.
const MAX_VIEWED: usize = 1 << 16;

/// The line's object: its text, and its meaning if it follows its grammar and is not longer than 64 KiB.
pub(super) fn describe(line: Line<'_>) -> Value {
    let mut object = Map::new();
    object.insert("kind".to_owned(), "line".into());
    object.insert("line".to_owned(), line.number.into());
    match std::str::from_utf8(line.text) {
        Ok(text) => object.insert("text".to_owned(), text.into()),
        Err(_) => object.insert("bytes".to_owned(), hex::text(line.text).into()),
    };
    if line.text.len() <= MAX_VIEWED
        && let Some((name, view)) = view(line.text)
    {
        object.insert(name.to_owned(), view);
    }
    Value::Object(object)
}

fn view(line: &[u8]) -> Option<(&'static str, Value)> {
    let space = line.iter().position(|byte| *byte == b' ')?;
    let (word, rest) = (line.get(..space)?, line.get(space + 1..)?);
    Some(match word {
        b"status" => ("status", status(&Status::parse_line(rest).ok()?.fields)),
        b"tp" => ("tracepoint", piece(&DefinitionRecord::parse(rest).ok()?)),
        b"tsv" => ("variable", variable(&VariableDefinition::parse(rest).ok()?)),
        b"module" => ("module", module(&Module::parse(rest).ok()?)),
        _ => return None,
    })
}

/// Leaves out null values.
fn object(fields: impl IntoIterator<Item = (&'static str, Value)>) -> Value {
    fields
        .into_iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

fn status(fields: &StatusFields) -> Value {
    object([
        ("running", fields.running.into()),
        (
            "stop_reason",
            fields.stop_reason.map(|reason| reason.name()).into(),
        ),
        ("stop_text", fields.stop_text.clone().into()),
        (
            "stopping_tracepoint",
            fields.stopping_tracepoint.map(|number| number.0).into(),
        ),
        ("frames", fields.frames.into()),
        ("created", fields.frames_created.into()),
        ("buffer_size", fields.buffer_size.into()),
        ("buffer_free", fields.buffer_free.into()),
        ("circular", fields.circular.into()),
        ("disconnected", fields.disconnected.into()),
        ("start_us", fields.start_time.into()),
        ("stop_us", fields.stop_time.into()),
        ("notes", fields.notes.clone().into()),
        ("user", fields.user.clone().into()),
        ("sealed", fields.sealed.then_some(true).into()),
        (
            "other",
            if fields.other.is_empty() {
                Value::Null
            } else {
                json!(fields.other)
            },
        ),
    ])
}

fn piece(piece: &DefinitionRecord) -> Value {
    let mut view = json!({
        "number": piece.number.0,
        "address": piece.address.to_string(),
    });
    let more = match &piece.content {
        DefinitionContent::Definition {
            enabled,
            kind,
            step_count,
            pass_count,
            condition,
        } => object([
            ("enabled", (*enabled).into()),
            (
                "kind",
                match kind {
                    TracepointKind::Trap => "trap",
                    TracepointKind::Fast { .. } => "fast",
                    TracepointKind::Static => "static",
                }
                .into(),
            ),
            ("step_count", (*step_count).into()),
            ("pass_count", (*pass_count).into()),
            ("condition", condition.as_deref().map(hex::text).into()),
        ]),
        DefinitionContent::Actions(actions) => object([("actions", actions_view(actions))]),
        DefinitionContent::StepActions(actions) => {
            object([("step_actions", actions_view(actions))])
        }
        DefinitionContent::Source { kind, bytes, .. } => {
            let name = match kind {
                SourceKind::At => "at",
                SourceKind::OwnLocation => "location",
                SourceKind::Condition | SourceKind::OwnCondition => "condition_text",
                SourceKind::Command => "command",
                SourceKind::Marker => "marker",
                SourceKind::Frame => "frame",
                SourceKind::Span => "span",
                SourceKind::Watch => "watch",
                SourceKind::Count => "aggregate",
                SourceKind::Other(_) => "other_text",
            };
            object([(name, String::from_utf8_lossy(bytes).into())])
        }
        DefinitionContent::Usage(usage) => {
            object([("hits", usage.hits.into()), ("usage", usage.bytes.into())])
        }
    };
    if let (Value::Object(view), Value::Object(more)) = (&mut view, more) {
        view.extend(more);
    }
    view
}

fn actions_view(actions: &[Action]) -> Value {
    actions
        .iter()
        .map(|action| match action {
            Action::Registers(mask) => json!({
                "registers": mask.iter().map(|register| register.0).collect::<Vec<_>>(),
            }),
            Action::Memory {
                base: None,
                offset,
                length,
            } => json!({
                "memory": format!("{offset:#x}"),
                "length": length,
            }),
            Action::Memory {
                base: Some(base),
                offset,
                length,
            } => json!({
                "base_register": base.0,
                "offset": offset.cast_signed(),
                "length": length,
            }),
            Action::Expression(bytecode) => json!({ "expression": hex::text(bytecode) }),
            Action::StaticData => json!({ "static_data": true }),
        })
        .collect()
}

fn variable(variable: &VariableDefinition) -> Value {
    json!({
        "number": variable.number.0,
        "name": variable.name,
        "initial": variable.initial,
        "builtin": variable.builtin,
    })
}

fn module(module: &Module) -> Value {
    json!({
        "path": String::from_utf8_lossy(&module.path),
        "bias": format!("{:#x}", module.bias),
        "start": module.start.to_string(),
        "end": module.end.to_string(),
        "loaded_us": module.loaded,
        "unloaded_us": module.unloaded,
        "build_id": hex::text(&module.build_id),
    })
}

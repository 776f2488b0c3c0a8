//! Values as attributes, which keep their types and their parts.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tracewire_expr::Datum;

use super::message::{AnyValue, ArrayValue, Double, Empty, KeyValue, KeyValueList, Text64};
use crate::event::Event;
use crate::notes::Notes;
use crate::words::stack_entry;

pub(super) fn text(key: impl Into<String>, text: impl Into<String>) -> KeyValue {
    KeyValue {
        key: key.into(),
        value: AnyValue::StringValue(text.into()),
    }
}

pub(super) fn integer(key: impl Into<String>, value: impl Into<i128>) -> KeyValue {
    KeyValue {
        key: key.into(),
        value: any(&Datum::Integer(value.into())),
    }
}

/// A value. A missing one is a value without content. An integer that does not fit in 64 signed bits is a text, and a string that
/// is not UTF-8 is its bytes.
pub(super) fn any(datum: &Datum) -> AnyValue {
    match datum {
        Datum::Missing(_) => AnyValue::Missing(Empty {}),
        Datum::Boolean(value) => AnyValue::BoolValue(*value),
        Datum::Integer(value) => match i64::try_from(*value) {
            Ok(value) => AnyValue::IntValue(Text64(value)),
            Err(_) => AnyValue::StringValue(value.to_string()),
        },
        Datum::LargeInteger(value) => AnyValue::StringValue(value.to_string()),
        Datum::Float(value) => AnyValue::DoubleValue(Double(*value)),
        Datum::Text(text) => AnyValue::StringValue(text.clone()),
        Datum::String { bytes, .. } => match std::str::from_utf8(bytes) {
            Ok(text) => AnyValue::StringValue(text.to_owned()),
            Err(_) => AnyValue::BytesValue(STANDARD.encode(bytes)),
        },
        Datum::Address(address) => AnyValue::StringValue(format!("{address:#x}")),
        Datum::Structure(parts) => AnyValue::KvlistValue(KeyValueList {
            values: parts
                .iter()
                .map(|(key, part)| KeyValue {
                    key: key.clone(),
                    value: any(part),
                })
                .collect(),
        }),
        Datum::List { items, .. } => AnyValue::ArrayValue(ArrayValue {
            values: items.iter().map(any).collect(),
        }),
        Datum::Map { entries, .. } => {
            let entry = |key: &Datum, value: &Datum| {
                let part = |name: &str, datum: &Datum| KeyValue {
                    key: name.to_owned(),
                    value: any(datum),
                };
                AnyValue::KvlistValue(KeyValueList {
                    values: vec![part("key", key), part("value", value)],
                })
            };
            let entries = entries.iter().map(|(key, value)| entry(key, value));
            AnyValue::ArrayValue(ArrayValue {
                values: entries.collect(),
            })
        }
    }
}

/// The attributes of an event. Names of the semantic conventions are used where possible; our own begin with `tracewire.`.
pub(super) fn attributes(event: &Event<'_>) -> Vec<KeyValue> {
    let mut all = vec![
        integer("tracewire.frame", event.frame),
        integer("tracewire.tracepoint", event.tracepoint),
        text("tracewire.kind", event.kind),
    ];
    all.extend(event.thread.map(|thread| integer("thread.id", thread)));
    all.extend(event.cpu.map(|cpu| integer("cpu.logical_number", cpu)));
    all.extend(event.pc.map(|pc| text("tracewire.pc", pc.to_string())));
    if let Some(place) = &event.place {
        let function = place.function.clone();
        all.extend(function.map(|function| text("code.function.name", function)));
        let file = place.file.clone();
        all.extend(file.map(|file| text("code.file.path", file)));
        let line = (place.line != 0).then_some(place.line);
        all.extend(line.map(|line| integer("code.line.number", line)));
    }
    let marker = event.marker.clone();
    all.extend(marker.map(|marker| text("tracewire.marker", marker)));
    if let Some(span) = &event.span {
        all.push(text("tracewire.ended", span.ended().name()));
        let duration = span.duration();
        all.extend(duration.map(|duration| integer("tracewire.duration_ns", duration)));
        if span.is_tail_call() {
            all.push(KeyValue {
                key: "tracewire.tail_call".to_owned(),
                value: AnyValue::BoolValue(true),
            });
        }
    }
    for value in &event.values {
        all.push(KeyValue {
            key: format!("tracewire.value.{}", value.name),
            value: any(&value.datum),
        });
    }
    let Notes { missing, cut, .. } = Notes::of(&event.values);
    let missing = missing.into_iter();
    all.extend(missing.map(|(path, reason)| text(format!("tracewire.missing.{path}"), reason)));
    if !cut.is_empty() {
        let paths = cut.into_iter().map(AnyValue::StringValue);
        all.push(KeyValue {
            key: "tracewire.cut".to_owned(),
            value: AnyValue::ArrayValue(ArrayValue {
                values: paths.collect(),
            }),
        });
    }
    for (name, value) in &event.variables.0 {
        all.push(integer(format!("tracewire.variable.{name}"), *value));
    }
    if let Some(raw) = &event.raw {
        for (name, value) in &raw.registers.0 {
            all.push(text(
                format!("tracewire.register.{name}"),
                value.to_string(),
            ));
        }
        for piece in &raw.memory {
            let key = format!("tracewire.memory.{}", piece.address);
            all.push(text(key, piece.bytes.to_string()));
        }
        let data = raw.static_data.as_ref();
        all.extend(data.map(|data| text("tracewire.static_data", data.to_string())));
    }
    if let Some(stack) = &event.stack {
        let entries: Vec<String> = stack.entries.iter().map(stack_entry).collect();
        all.push(text("code.stacktrace", entries.join("\n")));
        all.push(text("tracewire.stack_end", stack.end));
    }
    unique(all)
}

/// Keys have to differ. Paths of values may be equal, as those of `a.b` and of the part `b` of `a` are.
fn unique(all: Vec<KeyValue>) -> Vec<KeyValue> {
    let mut known = std::collections::HashSet::new();
    let is_new = |attribute: &KeyValue| known.insert(attribute.key.clone());
    all.into_iter().filter(is_new).collect()
}

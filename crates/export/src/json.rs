//! Values as JSON.

use serde_json::{Map, Value};
use tracewire_expr::Datum;

use crate::event::Event;
use crate::notes::Notes;
use crate::words::stack_entry;

/// A value. A missing one is `null`. A number that JSON cannot represent is a text: one of more than 64 bits, or one that is not
/// finite. The entries of a map are objects of `key` and `value`.
pub(crate) fn json(datum: &Datum) -> Value {
    match datum {
        Datum::Missing(_) => Value::Null,
        Datum::Boolean(value) => (*value).into(),
        Datum::Integer(value) => match (i64::try_from(*value), u64::try_from(*value)) {
            (Ok(value), _) => value.into(),
            (_, Ok(value)) => value.into(),
            _ => value.to_string().into(),
        },
        Datum::LargeInteger(value) => value.to_string().into(),
        Datum::Float(value) => match serde_json::Number::from_f64(*value) {
            Some(number) => number.into(),
            None => value.to_string().into(),
        },
        Datum::Text(text) => text.as_str().into(),
        Datum::String { bytes, .. } => String::from_utf8_lossy(bytes).into(),
        Datum::Address(address) => format!("{address:#x}").into(),
        Datum::Structure(parts) => {
            let parts = parts.iter();
            parts
                .map(|(name, part)| (name.clone(), json(part)))
                .collect::<Map<_, _>>()
                .into()
        }
        Datum::List { items, .. } => items.iter().map(json).collect(),
        Datum::Map { entries, .. } => {
            let entries = entries.iter();
            entries
                .map(|(key, value)| serde_json::json!({ "key": json(key), "value": json(value) }))
                .collect()
        }
    }
}

/// All of an event but its name, its times and its thread, as one object.
pub(crate) fn arguments(event: &Event<'_>) -> Map<String, Value> {
    let mut all = Map::new();
    let mut put = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            all.insert(name.to_owned(), value);
        }
    };
    let listed = |map: Map<String, Value>| (!map.is_empty()).then(|| Value::from(map));
    put("frame", Some(event.frame.into()));
    put("tracepoint", Some(event.tracepoint.into()));
    put("pc", event.pc.map(|pc| pc.to_string().into()));
    put("cpu", event.cpu.map(Into::into));
    put("marker", event.marker.clone().map(Into::into));
    if let Some(place) = &event.place {
        put("function", place.function.clone().map(Into::into));
        put("file", place.file.clone().map(Into::into));
        put("line", (place.line != 0).then(|| place.line.into()));
    }
    if let Some(span) = &event.span {
        put("ended", Some(span.ended().name().into()));
        put("tail_call", span.is_tail_call().then(|| true.into()));
        put("duration_ns", span.duration().map(Into::into));
        put("parent", span.parent.map(Into::into));
    }
    let values = event.values.iter();
    let values = values.map(|value| (value.name.clone(), json(&value.datum)));
    put("values", listed(values.collect()));
    let Notes {
        missing,
        cut,
        bytes,
    } = Notes::of(&event.values);
    let texts = |list: Vec<(String, String)>| {
        let list = list.into_iter();
        listed(list.map(|(path, text)| (path, text.into())).collect())
    };
    put("missing", texts(missing));
    put("cut", (!cut.is_empty()).then(|| cut.into()));
    put("bytes", texts(bytes));
    let variables = event.variables.0.iter();
    let variables = variables.map(|(name, value)| (name.to_string(), (*value).into()));
    put("variables", listed(variables.collect()));
    if let Some(raw) = &event.raw {
        let registers = raw.registers.0.iter();
        let registers = registers.map(|(name, value)| (name.to_string(), value.to_string().into()));
        put("registers", listed(registers.collect()));
        let memory = raw.memory.iter().map(|piece| {
            serde_json::json!({ "address": piece.address, "bytes": piece.bytes.to_string() })
        });
        let memory: Vec<Value> = memory.collect();
        put("memory", (!memory.is_empty()).then(|| memory.into()));
        let data = raw.static_data.as_ref();
        put("static_data", data.map(|data| data.to_string().into()));
    }
    if let Some(stack) = &event.stack {
        let entries = stack.entries.iter().map(stack_entry);
        put("stack", Some(entries.collect::<Vec<_>>().into()));
        put("stack_end", Some(stack.end.into()));
    }
    all
}

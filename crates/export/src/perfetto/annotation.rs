//! Values as debug annotations, which keep their types and their parts.

use tracewire_expr::Datum;

use super::interned::Interner;
use super::messages::{ARRAY, AnnotationValue, DICT, DebugAnnotation, NestedValue};
use crate::event::Event;
use crate::notes::Notes;

/// The annotations of an event: what `show --json` has of it.
pub(super) fn annotations(event: &Event<'_>, interner: &mut Interner) -> Vec<DebugAnnotation> {
    let mut all = Annotations {
        interner,
        list: Vec::new(),
    };
    all.put("frame", AnnotationValue::Unsigned(event.frame));
    all.put(
        "tracepoint",
        AnnotationValue::Integer(event.tracepoint.into()),
    );
    if let Some(pc) = event.pc {
        all.put("pc", AnnotationValue::Pointer(pc.0));
    }
    if let Some(cpu) = event.cpu {
        all.put("cpu", AnnotationValue::Unsigned(cpu.into()));
    }
    if let Some(marker) = &event.marker {
        all.text("marker", marker);
    }
    if let Some(place) = &event.place {
        if let Some(function) = &place.function {
            all.text("function", function);
        }
        if let Some(file) = &place.file {
            all.text("file", file);
        }
        if place.line != 0 {
            all.put("line", AnnotationValue::Unsigned(place.line));
        }
    }
    if let Some(span) = &event.span {
        all.text("ended", span.ended().name());
        if span.is_tail_call() {
            all.put("tail_call", AnnotationValue::Bool(true));
        }
        if let Some(duration) = span.duration() {
            all.put("duration_ns", AnnotationValue::Unsigned(duration));
        }
        if let Some(parent) = span.parent {
            all.put("parent", AnnotationValue::Unsigned(parent));
        }
    }
    let values = event.values.iter();
    let values: Vec<_> = values
        .map(|value| all.named(&value.name, &value.datum))
        .collect();
    all.dict("values", values);
    let notes = Notes::of(&event.values);
    all.texts("missing", &notes.missing);
    let cut = notes.cut.into_iter().map(|path| DebugAnnotation {
        value: Some(AnnotationValue::String(path)),
        ..DebugAnnotation::default()
    });
    all.list("cut", cut.collect());
    all.texts("bytes", &notes.bytes);
    let variables = event.variables.0.iter();
    let variables: Vec<_> = variables
        .map(|(name, value)| all.named(name, &Datum::Integer((*value).into())))
        .collect();
    all.dict("variables", variables);
    if let Some(raw) = &event.raw {
        let registers = raw.registers.0.iter();
        let registers: Vec<_> = registers
            .map(|(name, value)| all.named(name, &Datum::Text(value.to_string())))
            .collect();
        all.dict("registers", registers);
        let memory = raw.memory.iter().map(|piece| {
            let text = |text: &str| Datum::Text(text.to_owned());
            all.nested(&Datum::Structure(vec![
                ("address".to_owned(), text(&piece.address)),
                ("bytes".to_owned(), text(&piece.bytes.to_string())),
            ]))
        });
        let memory: Vec<_> = memory.collect();
        all.list("memory", memory);
        if let Some(data) = &raw.static_data {
            all.text("static_data", &data.to_string());
        }
    }
    if let Some(stack) = &event.stack {
        all.text("stack_end", stack.end);
    }
    all.list
}

/// The annotations of an event, as far as they are made.
struct Annotations<'i> {
    interner: &'i mut Interner,
    list: Vec<DebugAnnotation>,
}

impl Annotations<'_> {
    fn put(&mut self, name: &str, value: AnnotationValue) {
        let name_iid = Some(self.interner.annotation(name));
        self.list.push(DebugAnnotation {
            name_iid,
            value: Some(value),
            ..DebugAnnotation::default()
        });
    }

    fn text(&mut self, name: &str, text: &str) {
        self.put(name, AnnotationValue::String(text.to_owned()));
    }

    /// A dictionary, if it has entries.
    fn dict(&mut self, name: &str, entries: Vec<DebugAnnotation>) {
        if !entries.is_empty() {
            let name_iid = Some(self.interner.annotation(name));
            self.list.push(DebugAnnotation {
                name_iid,
                dict_entries: entries,
                ..DebugAnnotation::default()
            });
        }
    }

    /// A list, if it has items.
    fn list(&mut self, name: &str, items: Vec<DebugAnnotation>) {
        if !items.is_empty() {
            let name_iid = Some(self.interner.annotation(name));
            self.list.push(DebugAnnotation {
                name_iid,
                array_values: items,
                ..DebugAnnotation::default()
            });
        }
    }

    fn texts(&mut self, name: &str, texts: &[(String, String)]) {
        let entries = texts.iter();
        let entries = entries
            .map(|(path, text)| self.named(path, &Datum::Text(text.clone())))
            .collect();
        self.dict(name, entries);
    }

    fn named(&mut self, name: &str, datum: &Datum) -> DebugAnnotation {
        DebugAnnotation {
            name_iid: Some(self.interner.annotation(name)),
            ..self.nested(datum)
        }
    }

    /// A value. One that is missing is its reason, as `show` has it, and an optional value that is none is `null`: an annotation without a value would be left out of a list, and others
    /// would take its place.
    fn nested(&mut self, datum: &Datum) -> DebugAnnotation {
        let mut annotation = DebugAnnotation::default();
        let empty = |nested_type| {
            AnnotationValue::Nested(NestedValue {
                nested_type: Some(nested_type),
            })
        };
        let value = match datum {
            Datum::Missing(reason) if reason.is_empty() => {
                AnnotationValue::String("null".to_owned())
            }
            Datum::Missing(reason) => AnnotationValue::String(reason.clone()),
            Datum::Boolean(value) => AnnotationValue::Bool(*value),
            Datum::Integer(value) => match (i64::try_from(*value), u64::try_from(*value)) {
                (Ok(value), _) => AnnotationValue::Integer(value),
                (_, Ok(value)) => AnnotationValue::Unsigned(value),
                _ => AnnotationValue::String(value.to_string()),
            },
            Datum::LargeInteger(value) => AnnotationValue::String(value.to_string()),
            Datum::Float(value) => AnnotationValue::Double(*value),
            Datum::Text(text) => AnnotationValue::String(text.clone()),
            Datum::String { bytes, .. } => {
                AnnotationValue::String(String::from_utf8_lossy(bytes).into_owned())
            }
            Datum::Address(address) => AnnotationValue::Pointer(*address),
            Datum::Structure(parts) if parts.is_empty() => empty(DICT),
            Datum::List { items, .. } if items.is_empty() => empty(ARRAY),
            Datum::Map { entries, .. } if entries.is_empty() => empty(ARRAY),
            Datum::Structure(parts) => {
                let parts = parts.iter();
                annotation.dict_entries =
                    parts.map(|(name, part)| self.named(name, part)).collect();
                return annotation;
            }
            Datum::List { items, .. } => {
                annotation.array_values = items.iter().map(|item| self.nested(item)).collect();
                return annotation;
            }
            Datum::Map { entries, .. } => {
                let entries = entries.iter();
                let entries = entries.map(|(key, value)| DebugAnnotation {
                    dict_entries: vec![self.named("key", key), self.named("value", value)],
                    ..DebugAnnotation::default()
                });
                annotation.array_values = entries.collect();
                return annotation;
            }
        };
        annotation.value = Some(value);
        annotation
    }
}

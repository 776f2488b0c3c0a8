//! The metadata of a trace, in the Trace Stream Description Language.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use tracewire_arch::RegisterLayout;
use tracewire_model::{ByteOrder, VariableNumber};
use tracewire_tracefile::TraceFile;

use super::value::ValueType;
use super::{Field, Shape, StreamClass};

/// The whole text.
pub(super) fn write(file: &TraceFile, classes: &[StreamClass], shapes: &[Shape]) -> String {
    let mut text = String::new();
    // A String can be written to.
    let _ = push(&mut text, file, classes, shapes);
    text
}

fn push(
    text: &mut String,
    file: &TraceFile,
    classes: &[StreamClass],
    shapes: &[Shape],
) -> std::fmt::Result {
    let order = match file.byte_order() {
        ByteOrder::Little => "le",
        ByteOrder::Big => "be",
    };
    text.push_str("/* CTF 1.8 */\n\n");
    for bits in [8, 16, 32, 64] {
        writeln!(
            text,
            "typealias integer {{ size = {bits}; align = 8; signed = false; }} := uint{bits}_t;\n\
             typealias integer {{ size = {bits}; align = 8; signed = false; base = 16; }} := hex{bits}_t;"
        )?;
    }
    writeln!(
        text,
        "typealias integer {{ size = 64; align = 8; signed = true; }} := int64_t;\n\n\
         trace {{\n\tmajor = 1;\n\tminor = 8;\n\tbyte_order = {order};\n\
         \tpacket.header := struct {{\n\t\tuint32_t magic;\n\t\tuint32_t stream_id;\n\t}};\n}};\n"
    )?;
    push_environment(text, file)?;
    writeln!(
        text,
        "clock {{\n\tname = trace;\n\tdescription = \"$trace_timestamp in nanoseconds\";\n\
         \tfreq = 1000000000;\n\toffset_s = 0;\n\toffset = 0;\n}};\n\n\
         typealias integer {{\n\tsize = 64; align = 8; signed = false;\n\tmap = clock.trace.value;\n\
         }} := timestamp_t;\n"
    )?;
    for class in classes {
        push_stream(text, *class)?;
    }
    if shapes
        .iter()
        .any(|shape| shape.fields.contains(&Field::Registers))
    {
        push_registers(text, file)?;
    }
    let variables = variable_names(file);
    for (id, shape) in shapes.iter().enumerate() {
        push_event(text, &variables, id, shape)?;
    }
    Ok(())
}

/// Facts about the whole run, and the address of each tracepoint.
fn push_environment(text: &mut String, file: &TraceFile) -> std::fmt::Result {
    text.push_str("env {\n\ttracer_name = \"tracewire\";\n");
    if let Some(status) = file.description().status() {
        let fields = &status.fields;
        for (name, value) in [
            ("notes", &fields.notes),
            ("user", &fields.user),
            ("stop_text", &fields.stop_text),
        ] {
            if let Some(value) = value {
                writeln!(text, "\t{name} = \"{}\";", quoted(value))?;
            }
        }
        if let Some(reason) = fields.stop_reason {
            writeln!(text, "\tstop_reason = \"{}\";", reason.name())?;
        }
    }
    let mut seen = HashSet::new();
    for tracepoint in file.description().tracepoints() {
        let definition = &tracepoint.definition;
        if let Some(at) = definition.source.location()
            && seen.insert(definition.number)
        {
            writeln!(
                text,
                "\ttracepoint_{} = \"{}\";",
                definition.number,
                quoted(&at)
            )?;
        }
    }
    text.push_str("};\n\n");
    Ok(())
}

fn push_stream(text: &mut String, class: StreamClass) -> std::fmt::Result {
    let cpu = match class {
        StreamClass::WithCpu => "\t\tuint32_t cpu_id;\n",
        StreamClass::WithoutCpu => "",
    };
    writeln!(
        text,
        "stream {{\n\tid = {};\n\tevent.header := struct {{\n\t\tuint16_t id;\n\t\ttimestamp_t timestamp;\n\
         \t}};\n\tpacket.context := struct {{\n\t\ttimestamp_t timestamp_begin;\n\t\ttimestamp_t timestamp_end;\n\
         \t\tuint64_t content_size;\n\t\tuint64_t packet_size;\n\t\tuint64_t events_discarded;\n\
         \t\tuint64_t packet_seq_num;\n{cpu}\t}};\n}};\n",
        class.id()
    )
}

/// The type of a register block. It takes all of the block's bytes.
fn push_registers(text: &mut String, file: &TraceFile) -> std::fmt::Result {
    let size = file.register_block_size().unwrap_or(0);
    text.push_str("struct registers {\n");
    let mut names = Names::default();
    // As many registers as the block has room for; the rest of it is given as bytes.
    let mut covered = 0;
    for register in file.layout().map_or(&[][..], RegisterLayout::registers) {
        let end = register.offset.saturating_add(register.size());
        if end > size {
            break;
        }
        covered = end;
        let name = names.field(&register.name);
        match register.size() {
            bytes @ 1..=8 => writeln!(
                text,
                "\tinteger {{ size = {}; align = 8; signed = false; base = 16; }} {name};",
                bytes * 8
            )?,
            bytes => writeln!(text, "\thex8_t {name}[{bytes}];")?,
        }
    }
    if covered < size {
        writeln!(
            text,
            "\thex8_t {}[{}];",
            names.field("bytes"),
            size - covered
        )?;
    }
    text.push_str("};\n\n");
    Ok(())
}

/// The name of each variable: of several with one number the first counts.
fn variable_names(file: &TraceFile) -> HashMap<VariableNumber, &str> {
    let mut names = HashMap::new();
    for variable in file.description().variables() {
        names
            .entry(variable.number)
            .or_insert(variable.name.as_str());
    }
    names
}

fn push_event(
    text: &mut String,
    variables: &HashMap<VariableNumber, &str>,
    id: usize,
    shape: &Shape,
) -> std::fmt::Result {
    writeln!(
        text,
        "event {{\n\tname = \"tracepoint_{}\";\n\tid = {id};\n\tstream_id = {};\n\tfields := struct {{",
        shape.tracepoint,
        shape.stream.id()
    )?;
    let mut names = Names::default();
    let mut field = |name: &str| names.field(name);
    writeln!(text, "\t\tuint64_t {};", field("frame"))?;
    if shape.has_pc {
        writeln!(text, "\t\thex64_t {};", field("pc"))?;
    }
    if shape.has_thread {
        writeln!(text, "\t\tuint32_t {};", field("thread"))?;
    }
    if shape.has_cpu {
        writeln!(text, "\t\tuint32_t {};", field("cpu"))?;
    }
    if shape.has_step {
        writeln!(text, "\t\tuint8_t {};", field("stepping"))?;
    }
    // Reserved for the last fields, for any name of a variable.
    let (count, memory) = (field("memory_count"), field("memory"));
    let values = (!shape.values.is_empty()).then(|| field("values"));
    for block in &shape.fields {
        match block {
            Field::Registers => {
                writeln!(text, "\t\tstruct registers {};", field("registers"))?;
            }
            Field::Variable(number) => {
                let name = match variables.get(number) {
                    Some(name) => field(name),
                    None => field(&format!("variable_{number}")),
                };
                writeln!(text, "\t\tint64_t {name};")?;
            }
            Field::StaticData => {
                push_sequence(text, &field("static_data_length"), &field("static_data"))?
            }
            Field::Unknown => push_sequence(text, &field("unknown_length"), &field("unknown"))?,
        }
    }
    if let Some(values) = values {
        ValueType::Structure(shape.values.clone()).declare(text, &values, 2)?;
    }
    writeln!(
        text,
        "\t\tuint32_t {count};\n\t\tstruct {{\n\t\t\thex64_t _address;\n\t\t\tuint16_t _length;\n\
         \t\t\thex8_t _bytes[_length];\n\t\t}} {memory}[{count}];\n\t}};\n}};\n"
    )
}

fn push_sequence(text: &mut String, length: &str, name: &str) -> std::fmt::Result {
    writeln!(text, "\t\tuint32_t {length};\n\t\thex8_t {name}[{length}];")
}

/// Field names of one structure, none twice.
#[derive(Default)]
pub(super) struct Names {
    given: HashSet<String>,
    /// Of a name that was given, the number that the next field of it gets.
    next: HashMap<String, u64>,
}

impl Names {
    /// An identifier for the field, with the underscore before it that readers take off.
    pub(super) fn field(&mut self, name: &str) -> String {
        let word = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        let base: String = std::iter::once('_')
            .chain(name.chars().take(200).map(word))
            .collect();
        if self.given.insert(base.clone()) {
            return base;
        }
        let next = self.next.entry(base.clone()).or_insert(2);
        loop {
            let numbered = format!("{base}_{next}");
            *next += 1;
            if self.given.insert(numbered.clone()) {
                return numbered;
            }
        }
    }
}

/// Text for a string literal: printable ASCII, all else replaced.
fn quoted(text: &str) -> String {
    let mut quoted = String::new();
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            ' '..='~' => quoted.push(c),
            '\n' => quoted.push_str("\\n"),
            _ => quoted.push('?'),
        }
    }
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_field_has_the_name_of_another() {
        let mut names = Names::default();
        let given = ["a", "a", "a_3", "a", "a.3", "b"].map(|name| names.field(name));
        assert_eq!(given, ["_a", "_a_2", "_a_3", "_a_4", "_a_3_2", "_b"]);
        // As many as a target description may have, and more.
        for count in 5..300_000 {
            assert_eq!(names.field("a"), format!("_a_{count}"));
        }
    }
}

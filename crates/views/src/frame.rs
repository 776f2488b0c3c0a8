//! One trace frame: where, when, and every value collected, as one JSON object.

use std::collections::HashMap;
use std::fmt;
use std::rc::Rc;

use serde::{Serialize, Serializer, ser::SerializeMap};
use tracewire_symbols::{
    ExpressionError, ExpressionErrorKind, NamedValue, PrintOptions, Scope, SourcePlace, State,
    Symbols, type_name,
};
use tracewire_tracefile::{
    Address, Block, ByteOrder, Frame, Register, TraceFile, TracepointKind, VariableNumber,
};

use crate::collected::Tracepoints;
use crate::here::{Here, Places};
use crate::program::{Program, hexadecimal};
use crate::register::{is_short, is_telling, print};
use crate::state::FrameState;

/// One frame. A field that the frame does not tell is left out.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct FrameView {
    /// Its number, from 0.
    pub frame: u64,
    /// The tracepoint that made it.
    pub tracepoint: i32,
    /// Where the thread stood, `0x…`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pc: Option<String>,
    /// When, in microseconds (`$trace_timestamp`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_us: Option<u64>,
    /// Which thread (`$trace_thread`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread: Option<u32>,
    /// On which cpu (`$trace_cpu`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
    /// Whether a step of `while-stepping` made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stepping: Option<bool>,
    /// The registers by name, each as a number in hexadecimal whatever the byte order.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub registers: Map<String>,
    /// Those whose types say more than a number does, as GDB prints them (flags, floating point, vectors); a vector that
    /// is all zero is left out.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub register_values: Map<String>,
    /// The names of those that were asked for, and that the frame does not tell because they are not known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unavailable_registers: Vec<String>,
    /// Pieces of memory, in the order of their blocks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub memory: Vec<MemoryView>,
    /// Trace state variables by name; `number N` for one without.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub variables: Map<i64>,
    /// Data of a static tracepoint, the blocks one after the other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub static_data: Option<Bytes>,
    /// What stands in the frame and cannot be understood.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown: Option<Bytes>,
    /// The marker that the thread stood at, as `PROVIDER:NAME`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub marker: Option<String>,
    /// The function, the innermost inlined one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// The source file, as the debug information names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The source line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// Every collected expression. Only where the program's symbols are known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<ValueView>,
}

/// A piece of memory.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct MemoryView {
    /// Where it starts.
    pub address: String,
    /// Its bytes, in the order of their addresses.
    pub bytes: Bytes,
}

/// An expression that was collected.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ValueView {
    /// As the tracepoint's actions have it; variables of `$args` and `$locals` by their names.
    pub expression: String,
    /// Its type, as GDB's `whatis` shows it.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_name: Option<String>,
    /// Its value as GDB's `print` shows it; in angle brackets why there is none.
    pub value: String,
    /// Why there is no value, where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Bytes, which are shown as pairs of digits.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Bytes(pub Vec<u8>);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hexadecimal(&self.0))
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&hexadecimal(&self.0))
    }
}

/// Names and values in order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Map<V>(pub Vec<(String, V)>);

impl<V> Map<V> {
    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<V: Serialize> Serialize for Map<V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

/// Makes the views of a file's frames.
#[derive(Debug)]
pub struct Viewer<'a> {
    file: &'a TraceFile,
    program: &'a Program,
    pub(crate) options: PrintOptions,
    tracepoints: Tracepoints<'a>,
    variable_names: HashMap<VariableNumber, &'a str>,
    places: Places<'a>,
}

impl<'a> Viewer<'a> {
    /// Of a file, with the symbols of its program; [`Program::default`] where there are none.
    #[must_use]
    pub fn new(file: &'a TraceFile, program: &'a Program) -> Self {
        let variables = file.description().variables().iter();
        let variable_names = variables
            .map(|variable| (variable.number, variable.name.as_str()))
            .collect();
        Self {
            file,
            program,
            options: PrintOptions::default(),
            tracepoints: Tracepoints::of(file),
            variable_names,
            places: Places::default(),
        }
    }

    /// The file.
    #[must_use]
    pub const fn file(&self) -> &'a TraceFile {
        self.file
    }

    /// One frame.
    #[must_use]
    pub fn view(&self, frame: Frame<'a>) -> FrameView {
        let here = FrameState::new(self.file, frame).map(|state| self.here(frame, state.pc()));
        let place = here.as_ref().and_then(|here| here.source());
        let mut view = FrameView {
            frame: frame.number().0,
            tracepoint: frame.tracepoint().0,
            pc: frame.program_counter().map(|pc| pc.to_string()),
            time_us: frame.timestamp(),
            thread: frame.thread().map(|thread| thread.0),
            cpu: frame.cpu(),
            stepping: frame.is_step(),
            registers: self.registers(frame),
            register_values: self.register_values(frame),
            unavailable_registers: self.unavailable_registers(frame),
            memory: Vec::new(),
            variables: self.variables(frame),
            static_data: None,
            unknown: None,
            marker: self.marker(frame),
            line: place.map(|place| place.line).filter(|line| *line != 0),
            function: place.and_then(|place| place.function.clone()),
            file: place.and_then(|place| place.file.clone()),
            values: self.values(frame),
        };
        for block in frame.blocks() {
            match block {
                Block::Registers(_) | Block::Variable { .. } => {}
                Block::Memory { address, bytes } => view.memory.push(MemoryView {
                    address: address.to_string(),
                    bytes: Bytes(bytes.to_vec()),
                }),
                Block::StaticData(bytes) => {
                    let data = view.static_data.get_or_insert_default();
                    data.0.extend_from_slice(bytes);
                }
                Block::Unknown(bytes) => view.unknown = Some(Bytes(bytes.to_vec())),
            }
        }
        view
    }

    /// The trace state variables that a frame holds, but for what it says of itself.
    pub(crate) fn variables(&self, frame: Frame<'a>) -> Map<i64> {
        let mut shown: Vec<(String, i64)> = Vec::new();
        // Where each variable is in the view.
        let mut known: HashMap<String, usize> = HashMap::new();
        for block in frame.blocks() {
            let Block::Variable { number, value } = block else {
                continue;
            };
            if number.tells_of_frame() {
                continue;
            }
            let name = self
                .variable_names
                .get(&number)
                .map_or_else(|| format!("number {number}"), |name| (*name).to_owned());
            // A variable collected twice has its last value, as for GDB.
            match known.get(&name).and_then(|index| shown.get_mut(*index)) {
                Some((_, known)) => *known = value,
                None => {
                    known.insert(name.clone(), shown.len());
                    shown.push((name, value));
                }
            }
        }
        Map(shown)
    }

    /// The source place of a frame.
    #[must_use]
    pub fn place(&self, frame: Frame<'a>) -> Option<SourcePlace> {
        let state = FrameState::new(self.file, frame)?;
        self.here(frame, state.pc()).source().cloned()
    }

    /// What is known of the place where a frame is.
    pub(crate) fn here(&self, frame: Frame<'a>, pc: Address) -> Rc<Here<'a>> {
        let symbols = self.symbols(frame);
        self.places.get(symbols, self.scope(symbols, frame, pc))
    }

    /// Which frame the tracepoint's names are seen from: that of the function that its location names.
    fn scope(&self, symbols: &Symbols, frame: Frame<'a>, pc: Address) -> Scope {
        let Some(collected) = self.tracepoints.at(frame.tracepoint(), pc) else {
            return pc.into();
        };
        let definition = collected.definition;
        match definition.source.frame_level() {
            0 => pc.into(),
            level => {
                let pc_there = definition.address;
                symbols.same_function(
                    Scope {
                        pc: pc_there,
                        level,
                    },
                    pc,
                )
            }
        }
    }

    pub(crate) fn marker(&self, frame: Frame<'a>) -> Option<String> {
        let pc = frame.program_counter()?;
        let definition = self
            .tracepoints
            .at(frame.tracepoint(), pc)
            .map(|collected| collected.definition)
            .filter(|definition| {
                definition.address == pc && definition.kind == TracepointKind::Static
            })?;
        let named = definition.source.marker.clone();
        named.or_else(|| {
            let marker = self.symbols(frame).marker_at(pc)?;
            Some(format!("{}:{}", marker.provider, marker.name))
        })
    }

    pub(crate) fn symbols(&self, frame: Frame<'a>) -> &'a Symbols {
        self.program.symbols(frame.timestamp())
    }

    fn registers(&self, frame: Frame<'a>) -> Map<String> {
        let order = self.file.byte_order();
        let told = |(register, bytes): (&Register, Option<&[u8]>)| {
            Some((register.name.clone(), number(bytes?, order)))
        };
        Map(frame.registers().filter_map(told).collect())
    }

    fn unavailable_registers(&self, frame: Frame<'a>) -> Vec<String> {
        let mut unknown = frame
            .registers()
            .filter(|(_, bytes)| bytes.is_none())
            .peekable();
        if unknown.peek().is_none() {
            return Vec::new();
        }
        unknown
            .filter(|(register, _)| {
                self.tracepoints
                    .asks_for(frame.tracepoint(), register.number)
            })
            .map(|(register, _)| register.name.clone())
            .collect()
    }

    fn register_values(&self, frame: Frame<'a>) -> Map<String> {
        let order = self.file.byte_order();
        let told = frame.registers().filter_map(|(one, bytes)| {
            let value_type = one.value_type.as_deref().filter(|one| is_telling(one))?;
            let bytes = bytes?;
            let empty = !is_short(value_type) && bytes.iter().all(|byte| *byte == 0);
            let text = (!empty).then(|| print(value_type, bytes, order))??;
            Some((one.name.clone(), text))
        });
        Map(told.collect())
    }

    fn values(&self, frame: Frame<'a>) -> Vec<ValueView> {
        let Some(state) = FrameState::new(self.file, frame) else {
            return Vec::new();
        };
        let symbols = self.symbols(frame);
        let here = self.here(frame, state.pc());
        let mut values: Vec<ValueView> = Vec::new();
        for item in self.items(frame, &state) {
            for named in here.item(item).expand(&state) {
                let value = self.value(symbols, named, &state);
                if !values.contains(&value) {
                    values.push(value);
                }
            }
        }
        values
    }

    /// What the frame's tracepoint collects there, but for the registers and the data of a marker, which have a field of their
    /// own; nothing where nothing is known of the program.
    pub(crate) fn items(
        &self,
        frame: Frame<'a>,
        state: &FrameState<'a>,
    ) -> impl Iterator<Item = &str> {
        let collected = match self.program.is_empty() {
            true => None,
            false => self.tracepoints.at(frame.tracepoint(), state.pc()),
        };
        let (hit, step) = match (collected, frame.is_step()) {
            (None, _) => (&[][..], &[][..]),
            (Some(collected), Some(true)) => (&[][..], &collected.items.step[..]),
            (Some(collected), Some(false)) => (&collected.items.hit[..], &[][..]),
            (Some(collected), None) => (&collected.items.hit[..], &collected.items.step[..]),
        };
        let items = hit.iter().chain(step).map(String::as_str);
        items.filter(|item| !is_whole_set(item))
    }

    fn value(&self, symbols: &Symbols, named: NamedValue, state: &dyn State) -> ValueView {
        match named.value {
            Ok(value) => ValueView {
                expression: named.name,
                type_name: Some(type_name(symbols, value.type_id())),
                value: value.print(symbols, state, &self.options),
                error: None,
            },
            Err(error) => ValueView {
                expression: named.name,
                type_name: None,
                value: reason(&error),
                error: Some(error.to_string()),
            },
        }
    }
}

/// What is shown in the place of a value.
pub(crate) fn reason(error: &ExpressionError) -> String {
    match error.kind() {
        ExpressionErrorKind::Unavailable => "<unavailable>".to_owned(),
        ExpressionErrorKind::OptimizedOut(_) | ExpressionErrorKind::ValueOptimizedOut => {
            "<optimized out>".to_owned()
        }
        _ => format!("<error: {error}>"),
    }
}

/// `$regs` and `$_sdata`, by GDB's abbreviations.
fn is_whole_set(item: &str) -> bool {
    let lower = item.to_ascii_lowercase();
    lower.starts_with("$reg") || lower.starts_with("$_sdata")
}

/// A register's bytes as a number in hexadecimal.
fn number(bytes: &[u8], order: ByteOrder) -> String {
    if let Some(number) = order.unsigned(bytes) {
        return format!("{number:#x}");
    }
    let mut bytes = bytes.to_vec();
    if order == ByteOrder::Little {
        bytes.reverse();
    }
    let digits = hexadecimal(&bytes);
    let digits = digits.trim_start_matches('0');
    format!("0x{}", if digits.is_empty() { "0" } else { digits })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_are_numbers() {
        assert_eq!(number(&[0x58, 0x51, 0, 0], ByteOrder::Little), "0x5158");
        assert_eq!(number(&[0, 0, 0x51, 0x58], ByteOrder::Big), "0x5158");
        assert_eq!(number(&[0, 0], ByteOrder::Big), "0x0");
    }
}

//! Views of an execution trace for scripts and people: summaries, instructions, state.

use std::fmt::Write;

use serde_json::{Map, Value, json};
use tracewire_debuginfo::Symbols;
use tracewire_exec_trace::debugger::DebuggerRegisters;
use tracewire_exec_trace::record::{
    AccessKind, Address, ByteOrder, CpuNumber, DataOrder, InstructionNumber, Scale, Time,
};
use tracewire_exec_trace::recording::{
    Accessed, Executed, ReadError, Recording, RegisterId, ReportedWrites, StartEffect, Written,
};

use crate::state::Registers;

/// A time as a JSON number: its ticks, with a fraction where the trace has one.
#[must_use]
pub fn time_json(time: Time) -> Value {
    if time.decimals == 0 {
        return time.ticks.into();
    }
    let scale = 10f64.powi(i32::from(time.decimals));
    (time.ticks as f64 / scale).into()
}

fn scale_json(object: &mut Map<String, Value>, time: Option<Time>) {
    if let Some(Time { scale, .. }) = time.filter(|time| time.scale != Scale::None) {
        object.insert("scale".into(), scale.name().into());
    }
}

/// The time of a line, where it is not its instruction's.
fn put_other_time(object: &mut Map<String, Value>, time: Time, of_instruction: Time) {
    if time == of_instruction {
        return;
    }
    object.insert("time".into(), time_json(time));
    if time.scale != of_instruction.scale {
        scale_json(object, Some(time));
    }
}

fn access_json(access: &Accessed, of_instruction: Time) -> Value {
    let mut object = Map::new();
    let kind = match access.kind {
        AccessKind::Read => "read",
        AccessKind::Write => "write",
    };
    object.insert("kind".into(), kind.into());
    object.insert("address".into(), access.address.to_string().into());
    object.insert("size".into(), access.size.into());
    if let Some(attribute) = access.attribute {
        object.insert("attribute".into(), attribute.name().into());
    }
    object.insert("data".into(), access.number.to_string().into());
    put_other_time(&mut object, access.time, of_instruction);
    Value::Object(object)
}

/// What a user is to know of a recording that has not all that the commands can show.
#[must_use]
pub const fn lacking(recording: &Recording) -> Option<&'static str> {
    match recording.content().note() {
        None => missing_writes(
            recording.reported_writes(),
            recording.summary().memory_accesses,
        ),
        note => note,
    }
}

/// What a user is to know of a trace that does not report all writes to memory, given how many accesses it reports.
#[must_use]
pub const fn missing_writes(reported: ReportedWrites, accesses: u64) -> Option<&'static str> {
    match reported {
        ReportedWrites::All => None,
        ReportedWrites::Some => Some(
            "the trace reports less than half of its instructions' memory writes: writable memory is unavailable until an access reports it",
        ),
        ReportedWrites::None if accesses == 0 => Some(
            "the trace reports no memory accesses: writable memory is unavailable once the program runs",
        ),
        ReportedWrites::None => Some(
            "the trace reports no memory writes: writable memory is unavailable once the program runs",
        ),
    }
}

/// The trace's order of the data of accesses, if it was given or determined.
fn data_order(recording: &Recording) -> Option<&'static str> {
    recording.data_order().map(|order| match order {
        DataOrder::LowestAddressFirst => "memory",
        DataOrder::Number | DataOrder::HighestAddressFirst => "number",
    })
}

/// The summary of a recording.
#[must_use]
pub fn info_json(recording: &Recording) -> Value {
    let summary = recording.summary();
    let mut object = Map::new();
    let mut put = |name: &str, value: Value| object.insert(name.into(), value);
    put("kind", "execution-trace".into());
    put("format", recording.format().name().into());
    if let Some(architecture) = recording.architecture() {
        put("architecture", architecture.name().into());
    }
    put("content", recording.content().name().into());
    put("instructions", summary.instructions.into());
    put("memory_accesses", summary.memory_accesses.into());
    put("memory_writes", summary.memory_writes.into());
    let reported = match recording.reported_writes() {
        ReportedWrites::All => "all",
        ReportedWrites::Some => "some",
        ReportedWrites::None => "none",
    };
    put("reported_writes", reported.into());
    if let Some(order) = data_order(recording) {
        put("data_order", order.into());
    }
    put("register_writes", summary.register_writes.into());
    put("cpus", summary.cpus.len().into());
    let numbers: Vec<u32> = summary.cpus.iter().map(|cpu| cpu.0).collect();
    put("cpu_numbers", numbers.into());
    if let Some(time) = summary.first_time {
        put("first_time", time_json(time));
    }
    if let Some(time) = summary.last_time {
        put("last_time", time_json(time));
    }
    put("lines", summary.lines.into());
    put("unparsed_lines", summary.unparsed_lines.into());
    put("text_size", summary.text_size.into());
    put("index_size", summary.index_size.into());
    scale_json(&mut object, summary.last_time);
    Value::Object(object)
}

/// The summary of a recording for people: names and values.
#[must_use]
pub fn info_facts(recording: &Recording) -> Vec<(&'static str, String)> {
    let summary = recording.summary();
    let cpus: Vec<String> = summary.cpus.iter().map(CpuNumber::to_string).collect();
    let time = |time: Option<Time>| time.map_or("none".to_owned(), |time| time.to_string());
    let unreported = match lacking(recording) {
        None => String::new(),
        Some(note) => format!(" ({note})"),
    };
    let mut rows = vec![
        ("format", recording.format().name().to_owned()),
        (
            "machine",
            recording.architecture().map_or(
                "not known: --architecture NAME says it".to_owned(),
                |machine| machine.name().to_owned(),
            ),
        ),
        ("instructions", summary.instructions.to_string()),
        (
            "memory accesses",
            format!("{}{unreported}", summary.memory_accesses),
        ),
    ];
    if let Some(order) = data_order(recording) {
        let evidence = recording.data_order_evidence();
        let (name, says) = match order {
            "memory" => ("bytes in the order of memory", evidence.memory),
            _ => ("one number", evidence.number),
        };
        let all = evidence.number + evidence.memory;
        let by = match all {
            0 => String::new(),
            _ => format!(", by the registers of {says} of {all} accesses"),
        };
        rows.push(("data written", format!("{name}{by}")));
    }
    rows.extend([
        ("register writes", summary.register_writes.to_string()),
        ("cpus", cpus.join(" ")),
        (
            "time",
            format!(
                "{} to {}",
                time(summary.first_time),
                time(summary.last_time)
            ),
        ),
        ("lines", summary.lines.to_string()),
        ("unparsed lines", summary.unparsed_lines.to_string()),
        (
            "size",
            format!(
                "{} bytes of text, {} of index",
                summary.text_size, summary.index_size
            ),
        ),
    ]);
    rows
}

/// The summary of a recording for people.
#[must_use]
pub fn info_text(recording: &Recording, name: &str) -> String {
    let mut text = format!("{name}: an execution trace\n");
    for (name, value) in info_facts(recording) {
        let _ = writeln!(text, "  {name:<16} {value}");
    }
    text
}

/// A part of memory that is to be shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryPart {
    /// The first byte.
    pub address: Address,
    /// How many bytes.
    pub length: u32,
}

/// Shows instructions of a recording.
pub struct Viewer<'a> {
    recording: &'a Recording,
    machine: Option<&'a DebuggerRegisters>,
    symbols: Option<&'a Symbols>,
}

/// Bytes as digits, `??` for one that is not known.
fn digits(bytes: impl Iterator<Item = Option<u8>>) -> String {
    bytes.fold(String::new(), |mut text, byte| {
        let _ = match byte {
            Some(byte) => write!(text, "{byte:02x}"),
            None => write!(text, "??"),
        };
        text
    })
}

impl<'a> Viewer<'a> {
    /// Of a recording, with GDB's registers where the machine is known and names where symbols are.
    #[must_use]
    pub const fn new(
        recording: &'a Recording,
        machine: Option<&'a DebuggerRegisters>,
        symbols: Option<&'a Symbols>,
    ) -> Self {
        Self {
            recording,
            machine,
            symbols,
        }
    }

    /// An instruction and its effects, as an object: the fields of its record, and those of its lines.
    #[must_use]
    pub fn executed_json(&self, executed: &Executed) -> Map<String, Value> {
        let mut object = Map::new();
        let mut put = |name: &str, value: Value| object.insert(name.into(), value);
        put("instruction", executed.number.0.into());
        put("text_line", executed.line.into());
        put("time", time_json(executed.time));
        if executed.time.scale != Scale::None {
            put("scale", executed.time.scale.name().into());
        }
        put("cpu", executed.cpu.0.into());
        if let Some(id) = executed.id {
            put("id", id.into());
        }
        put("pc", executed.address.to_string().into());
        let code = &executed.code;
        if let Some(opcode) = code.opcode {
            put("opcode", opcode.to_string().into());
        }
        put("taken", executed.taken.into());
        if let Some(set) = code.set {
            put("set", set.name().into());
        }
        if !code.mode.is_empty() {
            put("mode", code.mode.as_str().into());
        }
        if let Some(security) = code.security {
            put("security", security.name().into());
        }
        if !code.disassembly.is_empty() {
            put("disassembly", code.disassembly.as_str().into());
        }
        let place = self
            .symbols
            .and_then(|symbols| symbols.place(executed.address));
        if let Some(place) = place {
            if let Some(function) = place.function {
                put("function", function.into());
            }
            if let Some(file) = place.file {
                put("file", file.into());
            }
            if place.line > 0 {
                put("line", place.line.into());
            }
        }
        let writes = executed.register_writes.iter();
        let writes = writes.map(|write| self.write_json(write, executed.time));
        put("register_writes", writes.collect());
        let accesses = executed.accesses.iter();
        let accesses = accesses.map(|access| access_json(access, executed.time));
        put("accesses", accesses.collect());
        object
    }

    /// A line before the first instruction, as an object.
    #[must_use]
    pub fn start_json(&self, effect: &StartEffect) -> Map<String, Value> {
        let (cpu, time, name, value) = match effect {
            StartEffect::Register(write) => {
                let value = self.write_json(write, write.time);
                (write.cpu, write.time, "register_writes", value)
            }
            StartEffect::Access(access) => {
                let value = access_json(access, access.time);
                (access.cpu, access.time, "accesses", value)
            }
        };
        let mut object = Map::new();
        object.insert("start".into(), true.into());
        object.insert("time".into(), time_json(time));
        if time.scale != Scale::None {
            object.insert("scale".into(), time.scale.name().into());
        }
        object.insert("cpu".into(), cpu.0.into());
        object.insert(name.into(), vec![value].into());
        object
    }

    fn write_json(&self, write: &Written, of_instruction: Time) -> Value {
        let names = self.recording.register_names();
        let name = names.get(write.register.0 as usize).map_or("", |name| name);
        let mut object = Map::new();
        object.insert("register".into(), name.into());
        if let Some(part) = write.part {
            object.insert("high".into(), part.high.into());
            object.insert("low".into(), part.low.into());
        }
        object.insert("value".into(), format!("0x{}", write.value).into());
        put_other_time(&mut object, write.time, of_instruction);
        Value::Object(object)
    }

    /// The registers of the instruction's cpu before it executes, as an object: GDB's registers that the trace ever
    /// writes, `??` for bytes that are not known, then those of the trace's own names that are none of GDB's.
    #[must_use]
    pub fn registers_json(&self, executed: &Executed, registers: &Registers<'_>) -> Value {
        let rows = self.registers(executed, registers);
        Value::Object(
            rows.into_iter()
                .map(|(name, value)| (name, value.into()))
                .collect(),
        )
    }

    /// Names and values, `0x` and digits.
    fn registers(&self, executed: &Executed, registers: &Registers<'_>) -> Vec<(String, String)> {
        let mut rows: Vec<(String, String)> = Vec::new();
        let block = registers.block(executed.cpu);
        if let Some(of) = self.machine {
            let machine = of.machine();
            let counter = machine.program_counter().number;
            for register in machine.layout().registers() {
                let (start, size) = (register.offset as usize, register.size() as usize);
                let bytes = block.get(start..start + size).unwrap_or_default();
                let value = if register.number == counter {
                    let width = size * 2;
                    format!("0x{:0width$x}", executed.address.0)
                } else if of.names_of(register.number).next().is_some() {
                    let bytes = bytes.iter().copied();
                    let text = match machine.byte_order() {
                        ByteOrder::Big => digits(bytes),
                        ByteOrder::Little => digits(bytes.rev()),
                    };
                    format!("0x{text}")
                } else {
                    continue;
                };
                rows.push((register.name.clone(), value));
            }
        } else {
            rows.push(("pc".to_owned(), executed.address.to_string()));
        }
        let names = self.recording.register_names();
        for (name, at) in names.iter().zip(0..) {
            let id = RegisterId(at);
            let is_covered = self.machine.is_some_and(|of| of.is_covered(id, name));
            if let Some(value) = registers.value(executed.cpu, id).filter(|_| !is_covered) {
                rows.push((name.to_string(), format!("0x{value}")));
            }
        }
        rows
    }

    /// Memory before an instruction executes.
    ///
    /// # Errors
    /// When the recording's file is damaged.
    fn memory(
        &self,
        before: InstructionNumber,
        part: MemoryPart,
    ) -> Result<Vec<Option<u8>>, ReadError> {
        let mut bytes = vec![None; part.length as usize];
        self.recording.memory_at(before, part.address, &mut bytes)?;
        Ok(bytes)
    }

    /// An instruction with the state before it.
    ///
    /// # Errors
    /// When the recording's file is damaged.
    pub fn json(
        &self,
        executed: &Executed,
        registers: &Registers<'_>,
        memory: &[MemoryPart],
    ) -> Result<Value, ReadError> {
        let mut object = self.executed_json(executed);
        object.insert("registers".into(), self.registers_json(executed, registers));
        let mut parts = Vec::new();
        for part in memory {
            let bytes = digits(self.memory(executed.number, *part)?.into_iter());
            parts.push(json!({ "address": part.address.to_string(), "bytes": bytes }));
        }
        object.insert("memory".into(), parts.into());
        Ok(Value::Object(object))
    }

    /// One line of text: number, time, cpu, place, instruction and effects.
    #[must_use]
    pub fn line(&self, executed: &Executed) -> String {
        let code = &executed.code;
        let mut text = format!(
            "{:>10}  {:>12}  {:>2}  {:#010x}",
            executed.number.0,
            executed.time.to_string(),
            executed.cpu.0,
            executed.address.0
        );
        if let Some(symbols) = self.symbols {
            let place = symbols.symbol_at(executed.address);
            let place = place.map_or(String::new(), |(name, offset)| format!("<{name}+{offset}>"));
            let _ = write!(text, " {place:<20}");
        }
        let what = if code.disassembly.is_empty() {
            code.opcode
                .map_or(String::new(), |opcode| opcode.to_string())
        } else {
            code.disassembly.clone()
        };
        let skipped = if executed.taken { "" } else { " (skipped)" };
        let _ = write!(text, "  {:<28}", format!("{what}{skipped}"));
        for effect in self.effects(executed) {
            let _ = write!(text, "  {effect}");
        }
        text.truncate(text.trim_end().len());
        text
    }

    fn effects(&self, executed: &Executed) -> Vec<String> {
        let names = self.recording.register_names();
        let at = |time: Time| match time == executed.time {
            true => String::new(),
            false => format!(" at {time}"),
        };
        let accesses = executed.accesses.iter().map(|access| {
            let arrow = match access.kind {
                AccessKind::Read => "->",
                AccessKind::Write => "<-",
            };
            let at = at(access.time);
            format!("[{}] {arrow} {}{at}", access.address, access.number)
        });
        let writes = executed.register_writes.iter().map(|write| {
            let name = names.get(write.register.0 as usize).map_or("", |name| name);
            let part = write.part.map_or(String::new(), |part| {
                format!("<{}:{}>", part.high, part.low)
            });
            format!("{name}{part}={}{}", write.value, at(write.time))
        });
        accesses.chain(writes).collect()
    }

    /// An instruction with the state before it, for people.
    ///
    /// # Errors
    /// When the recording's file is damaged.
    pub fn text(
        &self,
        executed: &Executed,
        registers: &Registers<'_>,
        memory: &[MemoryPart],
    ) -> Result<String, ReadError> {
        let code = &executed.code;
        let mut text = format!(
            "instruction {} at {} (line {}), cpu {}, time {}\n  {}",
            executed.number,
            executed.address,
            executed.line,
            executed.cpu,
            executed.time,
            code.disassembly
        );
        if let Some(opcode) = code.opcode {
            let _ = write!(text, "  [{opcode}]");
        }
        if let Some(place) = self
            .symbols
            .and_then(|symbols| symbols.place(executed.address))
        {
            let function = place.function.unwrap_or_default();
            let file = place
                .file
                .map_or(String::new(), |file| format!(" at {file}:{}", place.line));
            let _ = write!(text, "  in {function}+{}{file}", place.offset);
        }
        if !executed.taken {
            text.push_str("  (skipped)");
        }
        text.push('\n');
        for effect in self.effects(executed) {
            let _ = writeln!(text, "  does {effect}");
        }
        text.push_str("registers before it\n");
        let rows = self.registers(executed, registers);
        let known: Vec<_> = rows
            .iter()
            .filter(|(_, value)| value[2..].bytes().any(|byte| byte != b'?'))
            .collect();
        let width = known
            .iter()
            .map(|(name, value)| name.len() + value.len())
            .max();
        let columns = (100 / (width.unwrap_or(0) + 3).max(1)).max(1);
        for row in known.chunks(columns) {
            for (name, value) in row {
                let pad = width.unwrap_or(0) - name.len() - value.len();
                let _ = write!(text, "  {name} {value}{:pad$}", "");
            }
            text.truncate(text.trim_end().len());
            text.push('\n');
        }
        for part in memory {
            let bytes = self.memory(executed.number, *part)?;
            text.push_str("memory before it\n");
            for (row, bytes) in bytes.chunks(16).enumerate() {
                let address = part.address.offset(row as i64 * 16);
                let bytes: Vec<String> = bytes
                    .iter()
                    .map(|byte| digits(std::iter::once(*byte)))
                    .collect();
                let _ = writeln!(text, "  {address}  {}", bytes.join(" "));
            }
        }
        Ok(text)
    }
}

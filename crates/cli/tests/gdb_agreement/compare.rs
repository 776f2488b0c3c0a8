//! GDB's view of a trace file held against Tracewire's.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::recorded::{Recorded, tests};
use tracewire_test_support::Gdb;

/// Registers that are compared in every frame.
const REGISTERS: &[&str] = &[
    "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "rsp", "r8", "r9", "r10", "r11", "r12", "r13",
    "r14", "r15", "rip", "eflags", "cs", "ss", "ds", "es", "fs", "gs",
];

/// Fails with every difference between GDB's view and Tracewire's.
pub fn agree(recorded: &Recorded) {
    assert!(!recorded.frames.is_empty(), "nothing was recorded");
    let seen = gdb(recorded);
    let mut differences = Differences::default();
    status(recorded, &seen, &mut differences);
    tracepoints(recorded, &seen, &mut differences);
    let gdb_frames = seen["frames"].as_array().expect("frames");
    for (frame, gdb_frame) in recorded.frames.iter().zip(gdb_frames) {
        one_frame(frame, gdb_frame, &mut differences);
    }
    differences.check(&seen);
}

/// Opens the file in GDB and reads everything.
fn gdb(recorded: &Recorded) -> Value {
    let expressions: BTreeMap<String, Vec<String>> = recorded
        .frames
        .iter()
        .map(|frame| (frame["frame"].to_string(), expressions(frame)))
        .collect();
    let functions: BTreeMap<String, &Value> = recorded
        .frames
        .iter()
        .map(|frame| (frame["frame"].to_string(), &frame["function"]))
        .collect();
    let folder = recorded.folder.path();
    let job = json!({
        "commands": recorded.gdb_commands,
        "file": recorded.file,
        "frames": recorded.frames.len(),
        "expressions": expressions,
        "functions": functions,
        "registers": REGISTERS,
        "output": folder.join("seen.json"),
    });
    let job_file = folder.join("job.json");
    fs::write(&job_file, job.to_string()).expect("the job is written");
    let gdb = Gdb::new().env("INSPECT_JOB", job_file);
    let said = gdb.script(&tests().join("gdb_agreement/inspect.py")).run();
    assert!(said.success, "{said:?}");
    let text = fs::read_to_string(folder.join("seen.json")).expect("what GDB saw");
    serde_json::from_str(&text).expect("JSON")
}

/// The expressions of a frame that `output` in GDB understands too.
fn expressions(frame: &Value) -> Vec<String> {
    values(frame)
        .map(|(expression, _)| expression.to_owned())
        .filter(|expression| expression != "$_ret")
        .collect()
}

fn values(frame: &Value) -> impl Iterator<Item = (&str, &str)> {
    frame["values"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|value| {
            (
                value["expression"].as_str().expect("an expression"),
                value["value"].as_str().expect("a value"),
            )
        })
}

fn status(recorded: &Recorded, seen: &Value, differences: &mut Differences) {
    let status = &recorded.info["status"];
    let text = seen["status"].as_str().expect("text");
    let mut expect = |what: &str| differences.contains("tstatus", text, what);
    expect(&format!("Collected {} trace frame", recorded.frames.len()));
    if let Some(notes) = status["notes"].as_str() {
        expect(notes);
    }
    match status["stop_reason"].as_str() {
        Some("tstop") => expect("Trace stopped by a tstop command"),
        Some("tfull") => expect("Trace stopped because the buffer was full"),
        Some("tpasscount") => expect("Trace stopped by tracepoint"),
        Some("tdisconnected") => expect("disconnect"),
        Some("terror") => expect("Trace stopped by an error"),
        other => differences.add(
            "status",
            format!("unexpected stop reason {other:?}: {text}"),
        ),
    }
    differences.contains(
        "past the last frame",
        seen["past_the_end"].as_str().expect("text"),
        "No trace frame found",
    );
}

fn tracepoints(recorded: &Recorded, seen: &Value, differences: &mut Differences) {
    let text = seen["tracepoints"].as_str().expect("text");
    for tracepoint in recorded.info["tracepoints"]
        .as_array()
        .expect("tracepoints")
    {
        let address = tracepoint["address"].as_str().expect("an address");
        let padded = format!(
            "0x{:016x}",
            u64::from_str_radix(address.trim_start_matches("0x"), 16).expect("hex")
        );
        differences.contains("info tracepoints", text, &padded);
        if let Some(condition) = tracepoint["source"]["cond"].as_str() {
            differences.contains(
                "info tracepoints",
                text,
                &format!("trace only if {condition}"),
            );
        }
        if let Some(pass_count @ 1..) = tracepoint["pass_count"].as_u64() {
            differences.contains(
                "info tracepoints",
                text,
                &format!("pass count {pass_count}"),
            );
        }
    }
    for command in action_lines(&recorded.file) {
        // GDB skips comments, which have the lines that it cannot compile.
        if command != "end" && !command.starts_with('#') {
            differences.contains("info tracepoints", text, &command);
        }
    }
    // For a tracepoint with several locations GDB shows the counts of the last one that it read.
    let mut hits: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for tracepoint in recorded.info["tracepoints"]
        .as_array()
        .expect("tracepoints")
    {
        let number = tracepoint["number"].as_u64().expect("a number");
        let count = tracepoint["hits"].as_u64().expect("hits");
        hits.entry(number).or_default().push(count);
    }
    for hits in hits.values() {
        let reported = |hits: &u64| {
            *hits == 0 || text.contains(&format!("tracepoint already hit {hits} time"))
        };
        if !hits.iter().any(reported) {
            differences.add(
                "info tracepoints",
                format!("none of {hits:?} hits in\n{text}"),
            );
        }
    }
}

/// The action lines of a trace file: `tp Z<number>:<address>:cmd:0:<length>:<hex>`.
fn action_lines(file: &Path) -> Vec<String> {
    let bytes = fs::read(file).expect("the trace file");
    bytes
        .split(|byte| *byte == b'\n')
        .take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with(b"tp Z"))
        .filter_map(|line| std::str::from_utf8(line).ok()?.split_once(":cmd:0:"))
        .filter_map(|(_, rest)| rest.split_once(':'))
        .map(|(_, hex)| {
            let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex digits");
            let bytes = (0..hex.len()).step_by(2).map(byte).collect();
            String::from_utf8(bytes).expect("text")
        })
        .collect()
}

fn one_frame(frame: &Value, gdb_frame: &Value, differences: &mut Differences) {
    let number = &frame["frame"];
    let text = |name: &str| gdb_frame[name].as_str().unwrap_or_default();
    let found = format!(
        "Found trace frame {number}, tracepoint {}",
        frame["tracepoint"]
    );
    differences.contains(&format!("tfind {number}"), text("tfind"), &found);
    differences.equal(
        &format!("frame {number}: $tracepoint"),
        text("tracepoint"),
        &frame["tracepoint"].to_string(),
    );
    differences.equal(
        &format!("frame {number}: $pc"),
        text("pc"),
        frame["pc"].as_str().unwrap_or("none"),
    );
    if let Some(line) = frame["line"].as_u64() {
        differences.equal(
            &format!("frame {number}: $trace_line"),
            text("line"),
            &line.to_string(),
        );
    }
    for (register, value) in gdb_frame["registers"].as_object().expect("registers") {
        // A file cannot say to GDB that a register is not there.
        let ours = match &frame["registers"][register] {
            Value::String(value) => value,
            _ => "0x0",
        };
        differences.equal(
            &format!("frame {number}: ${register}"),
            value.as_str().unwrap_or_default(),
            &shortest(ours),
        );
    }
    for (expression, value) in values(frame) {
        let Some(printed) = gdb_frame["printed"][expression].as_str() else {
            continue;
        };
        differences.same_value(
            &format!("frame {number}: print {expression}"),
            printed,
            value,
        );
    }
    dumped(frame, text("tdump"), differences);
}

/// GDB prints a register's value without leading zeros.
fn shortest(value: &str) -> String {
    match value
        .strip_prefix("0x")
        .map(|digits| digits.trim_start_matches('0'))
    {
        Some("") => "0x0".to_owned(),
        Some(digits) => format!("0x{digits}"),
        None => value.to_owned(),
    }
}

/// Each `name = value` line of `tdump` is a value that Tracewire shows too.
fn dumped(frame: &Value, tdump: &str, differences: &mut Differences) {
    let ours: BTreeMap<&str, &str> = values(frame).collect();
    for line in tdump.lines() {
        let Some((name, value)) = line.split_once(" = ") else {
            continue;
        };
        let what = format!("frame {}: tdump {name}", frame["frame"]);
        match ours.get(name.trim()) {
            Some(ours) if value == without_type(ours) => {}
            Some(ours) => differences.same_value(&what, value, ours),
            // GDB dumps a variable that is not collected in this kind of frame as well.
            None => differences.add(&what, format!("GDB says {value}, Tracewire nothing")),
        }
    }
}

/// `info args` and `info locals` leave out the type that `print` puts before a pointer.
fn without_type(value: &str) -> &str {
    match value
        .strip_prefix('(')
        .and_then(|rest| rest.split_once(") "))
    {
        Some((_, rest)) => rest,
        None => value,
    }
}

/// The differences between GDB and Tracewire.
#[derive(Default)]
struct Differences {
    list: Vec<String>,
}

impl Differences {
    fn add(&mut self, what: &str, how: String) {
        self.list.push(format!("{what}: {how}"));
    }

    fn contains(&mut self, what: &str, text: &str, part: &str) {
        if !text.contains(part) {
            self.add(what, format!("no `{part}` in\n{text}"));
        }
    }

    fn equal(&mut self, what: &str, gdb: &str, ours: &str) {
        if gdb.trim() != ours {
            self.add(what, format!("GDB says {}, Tracewire {ours}", gdb.trim()));
        }
    }

    /// A value that is not collected because it may have no location is unavailable to GDB, which does not support such locations.
    fn same_value(&mut self, what: &str, gdb: &str, ours: &str) {
        if (gdb.trim(), ours) != ("<unavailable>", "<optimized out>") {
            self.equal(what, gdb, ours);
        }
    }

    fn check(self, seen: &Value) {
        if self.list.is_empty() {
            return;
        }
        let mut report = String::new();
        for difference in &self.list {
            let _ = writeln!(report, "{difference}");
        }
        panic!(
            "{} differences\n{report}\nopening: {}",
            self.list.len(),
            seen["opening"]
        );
    }
}

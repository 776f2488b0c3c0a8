//! Records in one line each, with every field.
#![allow(dead_code)]

use std::fmt::Write;

use tracewire_exec_trace::record::{
    Access, DataOrder, Event, Instruction, Line, Owner, RegisterWrite,
};
use tracewire_exec_trace::text::{Format, LineError, Piece, Sink, read};

#[derive(Default)]
pub struct RecordList {
    pub records: Vec<String>,
    pub instructions: i64,
    /// What number the next instruction has, where the piece is not the first.
    pub base: i64,
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl RecordList {
    fn owner(&self, owner: Owner) -> String {
        let latest = self.base + self.instructions - 1;
        match owner {
            Owner::Latest => format!("of {latest}"),
            Owner::Earlier(back) => format!("of {}", latest - i64::from(back)),
            Owner::Next => format!("of {}", latest + 1),
            Owner::Start => "of the start".into(),
        }
    }

    fn push(&mut self, line: Line, told: String) {
        self.records
            .push(format!("{}..{}: {told}", line.start, line.end));
    }
}

impl Sink for RecordList {
    fn instruction(&mut self, line: Line, i: &Instruction<'_>) {
        let mut told = format!("{}", i.time);
        if let Some(cpu) = i.cpu {
            write!(told, " cpu{cpu}").unwrap();
        }
        told += if i.taken { " taken" } else { " skipped" };
        if let Some(id) = i.id {
            write!(told, " id{id}").unwrap();
        }
        let digits = usize::from(i.address_digits);
        write!(told, " {:0digits$x}", i.address.0).unwrap();
        match i.opcode {
            Some(opcode) => write!(told, " {opcode}/{}", opcode.bits()).unwrap(),
            None => told += " no-opcode",
        }
        write!(told, " {}", i.set.map_or("-", |set| set.name())).unwrap();
        write!(told, " [{}]", text(i.mode)).unwrap();
        write!(told, " {}", i.security.map_or("-", |s| s.name())).unwrap();
        write!(told, " [{}]", text(i.disassembly)).unwrap();
        self.instructions += 1;
        self.push(line, told);
    }

    fn access(&mut self, line: Line, owner: Owner, a: &Access<'_>) {
        let mut told = format!("{}", a.time);
        if let Some(cpu) = a.cpu {
            write!(told, " cpu{cpu}").unwrap();
        }
        write!(told, " {:?} {}", a.kind, a.size).unwrap();
        write!(told, " {}", a.attribute.map_or("-", |a| a.name())).unwrap();
        let digits = usize::from(a.address_digits);
        write!(told, " {:0digits$x} {}", a.address.0, a.data).unwrap();
        match a.order {
            DataOrder::Number => {}
            order => write!(told, " {order:?}").unwrap(),
        }
        write!(told, " {}", self.owner(owner)).unwrap();
        self.push(line, told);
    }

    fn register(&mut self, line: Line, owner: Owner, w: &RegisterWrite<'_>) {
        let mut told = format!("{}", w.time);
        if let Some(cpu) = w.cpu {
            write!(told, " cpu{cpu}").unwrap();
        }
        write!(told, " [{}]", text(w.register)).unwrap();
        if let Some(part) = w.part {
            write!(told, "<{}:{}>", part.high, part.low).unwrap();
        }
        write!(told, " = {} {}", w.value, self.owner(owner)).unwrap();
        self.push(line, told);
    }

    fn event(&mut self, line: Line, e: &Event<'_>) {
        let cpu = e.cpu.map(|cpu| format!(" cpu{cpu}")).unwrap_or_default();
        let told = format!("{}{cpu} {:?} [{}]", e.time, e.kind, text(e.text));
        self.push(line, told);
    }

    fn unparsed(&mut self, line: Line, content: &[u8], error: LineError) {
        let token = content.get(error.start as usize..error.end as usize);
        let told = format!(
            "{error}, not [{}]",
            text(token.expect("a token of the line"))
        );
        self.push(line, told);
    }
}

/// Every record of a text, without the lines' places.
pub fn records(format: Format, text: &str) -> Vec<String> {
    let mut told = RecordList::default();
    let lines = read(
        format,
        text.as_bytes(),
        &Piece::whole(text.as_bytes()),
        &mut told,
    );
    assert_eq!(lines, text.lines().count() as u64);
    told.records
        .into_iter()
        .map(|record| record.split_once(": ").unwrap().1.to_owned())
        .collect()
}

/// The one record of a line.
pub fn record(format: Format, line: &str) -> String {
    let mut records = records(format, line);
    assert_eq!(records.len(), 1, "{line}: {records:?}");
    records.remove(0)
}

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

    fn push(&mut self, line: Line, reported: String) {
        self.records
            .push(format!("{}..{}: {reported}", line.start, line.end));
    }
}

impl Sink for RecordList {
    fn instruction(&mut self, line: Line, i: &Instruction<'_>) {
        let mut reported = format!("{}", i.time);
        if let Some(cpu) = i.cpu {
            write!(reported, " cpu{cpu}").unwrap();
        }
        reported += if i.taken { " taken" } else { " skipped" };
        if let Some(id) = i.id {
            write!(reported, " id{id}").unwrap();
        }
        let digits = usize::from(i.address_digits);
        write!(reported, " {:0digits$x}", i.address.0).unwrap();
        match i.opcode {
            Some(opcode) => write!(reported, " {opcode}/{}", opcode.bits()).unwrap(),
            None => reported += " no-opcode",
        }
        write!(reported, " {}", i.set.map_or("-", |set| set.name())).unwrap();
        write!(reported, " [{}]", text(i.mode)).unwrap();
        write!(reported, " {}", i.security.map_or("-", |s| s.name())).unwrap();
        write!(reported, " [{}]", text(i.disassembly)).unwrap();
        self.instructions += 1;
        self.push(line, reported);
    }

    fn access(&mut self, line: Line, owner: Owner, a: &Access<'_>) {
        let mut reported = format!("{}", a.time);
        if let Some(cpu) = a.cpu {
            write!(reported, " cpu{cpu}").unwrap();
        }
        write!(reported, " {:?} {}", a.kind, a.size).unwrap();
        write!(reported, " {}", a.attribute.map_or("-", |a| a.name())).unwrap();
        let digits = usize::from(a.address_digits);
        write!(reported, " {:0digits$x} {}", a.address.0, a.data).unwrap();
        match a.order {
            DataOrder::Number => {}
            order => write!(reported, " {order:?}").unwrap(),
        }
        write!(reported, " {}", self.owner(owner)).unwrap();
        self.push(line, reported);
    }

    fn register(&mut self, line: Line, owner: Owner, w: &RegisterWrite<'_>) {
        let mut reported = format!("{}", w.time);
        if let Some(cpu) = w.cpu {
            write!(reported, " cpu{cpu}").unwrap();
        }
        write!(reported, " [{}]", text(w.register)).unwrap();
        if let Some(part) = w.part {
            write!(reported, "<{}:{}>", part.high, part.low).unwrap();
        }
        write!(reported, " = {} {}", w.value, self.owner(owner)).unwrap();
        self.push(line, reported);
    }

    fn event(&mut self, line: Line, e: &Event<'_>) {
        let cpu = e.cpu.map(|cpu| format!(" cpu{cpu}")).unwrap_or_default();
        let reported = format!("{}{cpu} {:?} [{}]", e.time, e.kind, text(e.text));
        self.push(line, reported);
    }

    fn unparsed(&mut self, line: Line, content: &[u8], error: LineError) {
        let token = content.get(error.start as usize..error.end as usize);
        let reported = format!(
            "{error}, not [{}]",
            text(token.expect("a token of the line"))
        );
        self.push(line, reported);
    }
}

/// Every record of a text, without the lines' places.
pub fn records(format: Format, text: &str) -> Vec<String> {
    let mut reported = RecordList::default();
    let lines = read(
        format,
        text.as_bytes(),
        &Piece::whole(text.as_bytes()),
        &mut reported,
    );
    assert_eq!(lines, text.lines().count() as u64);
    reported
        .records
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

//! The text that the Verilog model of a Nios II processor writes: a line for each instruction, fields in hex between
//! commas.
//!
//! ```text
//! version 3
//! numThreads 1
//! <time> ns: <field>,<field>,…
//! ```
//!
//! | field | version 2 | version 3 |
//! |---|---|---|
//! | reset | 0 | 0 |
//! | program counter | 1 | 1 |
//! | interrupt, break | 3, 4 | 3, 4 |
//! | instruction word | 5 | 5 |
//! | valid | – | 6 |
//! | register written, its number, the value | 6, 7, 8 | 7, 8, 10 |
//! | memory address, store data, byte enables | 9, 10, 11 | 11, 12, 13 |
//! | compare result, target | 12, 13 | 14, 15 |
//! | status, estatus, bstatus, ienable, ipending | 14 to 18 | 16 to 20 |
//! | exception | 29, where there are 30 | 31 |
//! | number of fields | 20 or 30 | 36 |
//!
//! A line gives an instruction and what it did: the register it wrote; the memory it accessed, where its code is
//! that of a load or a store; the control registers that are not as in the line before. The data of a load are the value
//! written to its register. Lines of reset, and those whose program counter is unknown, give an event.

mod fields;

use crate::record::{AccessKind, Event, EventKind, Instruction, Record, Scale, Time};
use crate::text::cursor::Cursor;
use crate::text::stamp::Stamp;
use crate::text::{Dialect, LineError, LineState};
use crate::value::{Notation, Value};
use fields::{Fields, Place};
use tracewire_arch::Opcode;

static REGISTERS: [&[u8]; 32] = [
    b"r0", b"r1", b"r2", b"r3", b"r4", b"r5", b"r6", b"r7", b"r8", b"r9", b"r10", b"r11", b"r12",
    b"r13", b"r14", b"r15", b"r16", b"r17", b"r18", b"r19", b"r20", b"r21", b"r22", b"r23", b"r24",
    b"r25", b"r26", b"r27", b"r28", b"r29", b"r30", b"r31",
];

static CONTROL: [&[u8]; 5] = [b"status", b"estatus", b"bstatus", b"ienable", b"ipending"];

/// Where the fields are.
#[derive(Clone, Copy)]
pub(super) struct Nios2 {
    places: &'static Place,
}

impl Nios2 {
    pub(super) const V2: Self = Self {
        places: &fields::V2,
    };
    pub(super) const V3: Self = Self {
        places: &fields::V3,
    };
}

/// The version that a file's head says, 2 or 3.
pub(super) fn version(line: &[u8]) -> Option<u8> {
    match line.trim_ascii() {
        b"version 2" => Some(2),
        b"version 3" => Some(3),
        _ => None,
    }
}

fn is_header(line: &[u8]) -> bool {
    let line = line.trim_ascii();
    [&b"version "[..], b"numThreads "].iter().any(|word| {
        line.strip_prefix(*word)
            .is_some_and(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit))
    })
}

impl Dialect for Nios2 {
    fn line<'a>(
        &self,
        state: &mut LineState,
        line: &'a [u8],
        emit: &mut impl FnMut(&LineState, &Record<'a>),
    ) -> Result<(), LineError> {
        if is_header(line) {
            emit(state, &Record::Event(event(state, EventKind::Header, line)));
            return Ok(());
        }
        let mut cursor = Cursor::new(line);
        cursor.blanks();
        let Some(ticks) = cursor.decimal() else {
            return Err(cursor.expected("the time, a decimal number"));
        };
        cursor.blanks();
        let start = cursor.position();
        let Some(scale) = Scale::of_name(cursor.word_until(|byte| byte == b':')) else {
            return Err(cursor.expected_at(start, "a scale, such as ns"));
        };
        if !cursor.take(b':') {
            return Err(cursor.expected("`:` after the time"));
        }
        cursor.blanks();
        let text = cursor.rest_trimmed();
        let mut fields = Fields::new(self.places);
        fields.read(&mut cursor, self.places)?;
        state.time = Time::whole(ticks, scale);
        state.explicit = true;
        self.records(state, &fields, text, emit);
        Ok(())
    }
}

impl Nios2 {
    fn records<'a>(
        &self,
        state: &mut LineState,
        fields: &Fields<'a>,
        text: &'a [u8],
        emit: &mut impl FnMut(&LineState, &Record<'a>),
    ) {
        let places = self.places;
        let is_set = |place: usize| fields.number(place) != Some(0);
        let program_counter = fields.number(places.program_counter);
        let Some(pc) = program_counter.filter(|_| !is_set(places.reset)) else {
            emit(
                state,
                &Record::Event(event(state, EventKind::Exception, text)),
            );
            return;
        };
        let interrupted = [
            Some(places.interrupt),
            Some(places.stop),
            fields.exception(),
        ];
        let is_valid = places
            .valid
            .is_none_or(|place| fields.number(place).is_some_and(|valid| valid != 0));
        let word = fields.number(places.word);
        let instruction = Instruction {
            taken: is_valid,
            opcode: word.map(|word| Opcode {
                value: u128::from(word),
                digits: 8,
            }),
            ..Stamp::at(state.time).instruction(pc, 8)
        };
        emit(state, &Record::Instruction(instruction));
        if is_valid {
            self.effects(state, fields, word, emit);
        }
        for (at, name) in CONTROL.iter().enumerate() {
            let place = places.control + at;
            let value = fields.number(place);
            if value.is_some() && state.control[at] != value {
                state.control[at] = value;
                emit(state, &register(state, name, fields.value(place)));
            }
        }
        // After the instruction that was interrupted: what comes next may be anywhere.
        let mut places = interrupted.into_iter().flatten();
        if places.any(|place| fields.number(place).is_some_and(|number| number != 0)) {
            emit(
                state,
                &Record::Event(event(state, EventKind::Exception, text)),
            );
        }
    }

    fn effects<'a>(
        &self,
        state: &LineState,
        fields: &Fields<'a>,
        word: Option<u64>,
        emit: &mut impl FnMut(&LineState, &Record<'a>),
    ) {
        let places = self.places;
        let is_written = fields.number(places.written).is_some_and(|flag| flag != 0);
        let number = fields.number(places.register).map(|number| number as usize);
        let destination = number.filter(|number| is_written && (1..32).contains(number));
        let access = word.and_then(|word| memory_access(word as u8 & 0x3f));
        if let (Some((kind, size)), Some(address)) = (access, fields.number(places.address)) {
            let data = match kind {
                AccessKind::Read if destination.is_some() => low(fields.value(places.value), size),
                AccessKind::Read => unknown(size),
                AccessKind::Write => lane(fields.value(places.data), address, size),
            };
            let access = Stamp::at(state.time).access(kind, size, (address, 8), data);
            emit(state, &access);
        }
        if let Some(name) = destination.and_then(|number| REGISTERS.get(number)) {
            emit(state, &register(state, name, fields.value(places.value)));
        }
    }
}

fn event<'a>(state: &LineState, kind: EventKind, text: &'a [u8]) -> Event<'a> {
    Event {
        time: state.time,
        cpu: None,
        kind,
        text,
    }
}

fn register<'a>(state: &LineState, name: &'static [u8], value: Value<'a>) -> Record<'a> {
    let value = match value.known() {
        Some(known) => Value::of(known, 8),
        None => value,
    };
    Stamp::at(state.time).register(name, value)
}

/// What an operation code accesses, and how many bytes (Nios II Processor Reference, Instruction Opcodes).
const fn memory_access(code: u8) -> Option<(AccessKind, u32)> {
    match code {
        0x03 | 0x07 | 0x23 | 0x27 => Some((AccessKind::Read, 1)),
        0x0b | 0x0f | 0x2b | 0x2f => Some((AccessKind::Read, 2)),
        0x17 | 0x37 => Some((AccessKind::Read, 4)),
        0x05 | 0x25 => Some((AccessKind::Write, 1)),
        0x0d | 0x2d => Some((AccessKind::Write, 2)),
        0x15 | 0x35 => Some((AccessKind::Write, 4)),
        _ => None,
    }
}

fn unknown(size: u32) -> Value<'static> {
    let digits = b"xxxxxxxx".get(..size as usize * 2).unwrap_or(b"xxxxxxxx");
    Value::parse(digits, Notation::Verilog).unwrap_or(Value::of(0, 8))
}

/// The low bytes of a value.
fn low(value: Value<'_>, size: u32) -> Value<'_> {
    match value.known() {
        Some(known) => Value::of(known, (size * 2) as u8),
        None if value.digits() == size * 2 => value,
        None => unknown(size),
    }
}

/// The bytes of a store: a narrow one is in the lane of its address.
fn lane(value: Value<'_>, address: u64, size: u32) -> Value<'_> {
    match value.known() {
        Some(known) => {
            let shift = (address & 3 & !(u64::from(size) - 1)) * 8;
            Value::of(known >> shift, (size * 2) as u8)
        }
        None if value.digits() == size * 2 => value,
        None => unknown(size),
    }
}

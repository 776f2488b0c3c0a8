//! The fields of a line.

use crate::text::LineError;
use crate::text::cursor::{Cursor, is_blank};
use crate::value::{Notation, Value};

/// Where each field is, from 0.
pub(super) struct Place {
    pub(super) reset: usize,
    pub(super) program_counter: usize,
    pub(super) interrupt: usize,
    pub(super) stop: usize,
    pub(super) word: usize,
    pub(super) valid: Option<usize>,
    pub(super) written: usize,
    pub(super) register: usize,
    pub(super) value: usize,
    pub(super) address: usize,
    pub(super) data: usize,
    /// The first of the five control registers.
    pub(super) control: usize,
    pub(super) exception: usize,
    /// How many fields there may be.
    counts: &'static [usize],
    expected: &'static str,
}

pub(super) static V2: Place = Place {
    reset: 0,
    program_counter: 1,
    interrupt: 3,
    stop: 4,
    word: 5,
    valid: None,
    written: 6,
    register: 7,
    value: 8,
    address: 9,
    data: 10,
    control: 14,
    exception: 29,
    counts: &[20, 30],
    expected: "20 or 30 fields in hex between commas",
};

pub(super) static V3: Place = Place {
    reset: 0,
    program_counter: 1,
    interrupt: 3,
    stop: 4,
    word: 5,
    valid: Some(6),
    written: 7,
    register: 8,
    value: 10,
    address: 11,
    data: 12,
    control: 16,
    exception: 31,
    counts: &[36],
    expected: "36 fields in hex between commas",
};

const MOST: usize = 36;

/// What fields are that a line does not have. To copy these takes less time than to write each.
static ZEROS: [Value<'static>; MOST] = [Value::of(0, 1); MOST];

/// The fields of a line.
pub(super) struct Fields<'a> {
    fields: [Value<'a>; MOST],
    count: usize,
    exception: usize,
}

impl<'a> Fields<'a> {
    /// No fields yet.
    pub(super) fn new(place: &Place) -> Self {
        Self {
            fields: ZEROS,
            count: 0,
            exception: place.exception,
        }
    }

    /// Reads the fields of a line into these, which takes less time than to return so many.
    pub(super) fn read(&mut self, cursor: &mut Cursor<'a>, place: &Place) -> Result<(), LineError> {
        let start = cursor.position();
        loop {
            // Nearly all are known, and have a comma right after them.
            let (value, has_comma) = match cursor.value_before(b',') {
                Some(value) => (value, true),
                None => {
                    let value = Self::field(cursor)?;
                    cursor.blanks();
                    (value, cursor.take(b','))
                }
            };
            let Some(slot) = self.fields.get_mut(self.count) else {
                return Err(cursor.expected_at(start, place.expected));
            };
            *slot = value;
            self.count += 1;
            // Some versions end the line with a comma.
            if !has_comma || cursor.is_at_end() {
                break;
            }
        }
        if !cursor.is_at_end() {
            return Err(cursor.expected("a comma or the end of the line"));
        }
        if !place.counts.contains(&self.count) {
            return Err(cursor.expected_at(start, place.expected));
        }
        Ok(())
    }

    /// A field down to a comma or a blank, which may have blanks before it.
    fn field(cursor: &mut Cursor<'a>) -> Result<Value<'a>, LineError> {
        cursor.blanks();
        let at = cursor.position();
        let is_end = |byte| byte == b',' || is_blank(byte);
        let mut plain = *cursor;
        if let Some(value) = plain.plain_value()
            && plain.peek().is_none_or(is_end)
        {
            *cursor = plain;
            return Ok(value);
        }
        let field = cursor.word_until(is_end);
        Value::parse(field, Notation::Verilog)
            .ok_or_else(|| cursor.expected_at(at, "a field in hex, x or z for unknown digits"))
    }

    pub(super) fn value(&self, place: usize) -> Value<'a> {
        self.fields.get(place).copied().unwrap_or(Value::of(0, 1))
    }

    /// The number, where all its digits are known.
    pub(super) fn number(&self, place: usize) -> Option<u64> {
        self.value(place).known()
    }

    /// Where the exception field is, if the line has one.
    pub(super) fn exception(&self) -> Option<usize> {
        (self.exception < self.count).then_some(self.exception)
    }
}

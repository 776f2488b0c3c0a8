//! Instruction records.

use super::{Head, physical_address};
use crate::record::{Address, Instruction, Record};
use crate::text::LineError;
use crate::text::cursor::{Cursor, Digits};
use crate::text::qemu4v::{mode, opcode};
use tracewire_arch::{InstructionSet, Opcode};

/// What is before the instruction set.
struct Place {
    id: Option<u64>,
    address: Digits,
    /// None where the fetch failed.
    opcode: Option<Opcode>,
    /// The brackets held an address and an index.
    has_both: bool,
    /// Nothing is before the address.
    is_bare: bool,
}

/// Reads what follows the type of the record. None for an exception that is given in an instruction's place.
pub(super) fn read<'a>(
    cursor: &mut Cursor<'a>,
    word: &[u8],
    head: Head,
) -> Result<Option<Record<'a>>, LineError> {
    let is_es = word == b"ES";
    cursor.blanks();
    let mut ahead = *cursor;
    if matches!(ahead.word(), b"EXC" | b"Reset") {
        return Ok(None);
    }
    let place = if is_es {
        es_place(cursor)?
    } else {
        it_place(cursor)?
    };
    cursor.blanks();
    let start = cursor.position();
    let at_set = *cursor;
    let Some(set) = InstructionSet::of_name(cursor.word()) else {
        if let Some(instruction) = thumb_alone(at_set, &place, word != b"IS", head) {
            return Ok(Some(Record::Instruction(instruction)));
        }
        return Err(cursor.expected_at(start, "the instruction set: A T T16 T32 O"));
    };
    let mut taken = word != b"IS" && place.opcode.is_some();
    let mut behind_set = *cursor;
    behind_set.blanks();
    let has_no_mode = place.has_both && matches!(set, InstructionSet::T16 | InstructionSet::T32);
    let (mode, security) = match mode_before_colon(cursor) {
        Some(word) => mode(word),
        None if has_no_mode => (&b""[..], None),
        None if behind_set.take(b':') => {
            *cursor = behind_set;
            (&b""[..], None)
        }
        None => {
            cursor.blanks();
            return Err(cursor.expected("the mode and `:`, such as EL1h_ns :"));
        }
    };
    let mut disassembly = cursor.rest_trimmed();
    if is_es && let Some(rest) = disassembly.strip_prefix(b"CCFAIL") {
        taken = false;
        disassembly = rest.trim_ascii_start();
    }
    Ok(Some(Record::Instruction(Instruction {
        time: head.time,
        cpu: head.cpu,
        taken,
        id: place.id,
        address: Address(place.address.value),
        address_digits: place.address.count,
        opcode: place.opcode,
        set: Some(set),
        mode,
        security,
        disassembly,
    })))
}

/// An instruction of a Cortex-M0: after the code, which gives the set, there is nothing but the disassembly.
fn thumb_alone<'a>(
    mut cursor: Cursor<'a>,
    place: &Place,
    taken: bool,
    head: Head,
) -> Option<Instruction<'a>> {
    let opcode = place.opcode.filter(|_| place.is_bare)?;
    let set = match opcode.digits {
        4 => InstructionSet::T16,
        8 => InstructionSet::T32,
        _ => return None,
    };
    let disassembly = cursor.rest_trimmed();
    let starts_well = disassembly.first().is_none_or(u8::is_ascii_uppercase);
    cursor.word();
    let is_alone = starts_well && mode_before_colon(&mut cursor).is_none();
    is_alone.then_some(Instruction {
        time: head.time,
        cpu: head.cpu,
        taken,
        id: None,
        address: Address(place.address.value),
        address_digits: place.address.count,
        opcode: Some(opcode),
        set: Some(set),
        mode: b"",
        security: None,
        disassembly,
    })
}

/// The mode, and the colon after it.
fn mode_before_colon<'a>(cursor: &mut Cursor<'a>) -> Option<&'a [u8]> {
    let mut ahead = *cursor;
    ahead.blanks();
    let word = ahead.word_until(|byte| byte == b':');
    let is_word = !word.is_empty()
        && word
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte == b'-');
    ahead.blanks();
    (is_word && ahead.take(b':')).then(|| {
        *cursor = ahead;
        word
    })
}

/// `(address:opcode)`.
fn es_place(cursor: &mut Cursor<'_>) -> Result<Place, LineError> {
    if !cursor.take(b'(') {
        return Err(cursor.expected("`(`, the address and the opcode"));
    }
    cursor.blanks();
    let Some(address) = cursor.hex() else {
        return Err(cursor.expected("the address in hex"));
    };
    if !cursor.take(b':') {
        return Err(cursor.expected("`:` between address and opcode"));
    }
    let mut ahead = *cursor;
    let hyphens = ahead.word_until(|byte| byte == b')');
    let opcode = if !hyphens.is_empty() && hyphens.iter().all(|byte| *byte == b'-') {
        *cursor = ahead;
        None
    } else {
        Some(opcode(cursor)?)
    };
    if !cursor.take(b')') {
        return Err(cursor.expected("`)` after the opcode"));
    }
    Ok(Place {
        id: None,
        address,
        opcode,
        has_both: false,
        is_bare: false,
    })
}

/// A number in brackets, hex or decimal.
#[derive(Clone, Copy)]
struct Bracketed {
    digits: Digits,
    /// As an index it is this number.
    index: u64,
}

fn bracketed(cursor: &mut Cursor<'_>) -> Result<Bracketed, LineError> {
    let text = cursor.rest();
    let Some(digits) = cursor.hex_of_any_length() else {
        return Err(cursor.expected("an index or an address"));
    };
    let text = text.get(..usize::from(digits.count)).unwrap_or_default();
    let is_hex = text.iter().any(|byte| !byte.is_ascii_digit())
        || (text.len() > 1 && text.starts_with(b"0"));
    let index = match Cursor::new(text).decimal() {
        Some(decimal) if !is_hex => decimal,
        _ => digits.value,
    };
    Ok(Bracketed { digits, index })
}

/// `[(index)] address opcode`, `(address:index) address opcode`, `(address) opcode`, and with a colon and the index,
/// `(address:index) opcode`.
fn it_place(cursor: &mut Cursor<'_>) -> Result<Place, LineError> {
    let mut in_brackets = None;
    let mut before_colon = None;
    if cursor.take(b'(') {
        cursor.blanks();
        let mut number = bracketed(cursor)?;
        if cursor.take(b':') {
            before_colon = Some(number);
            number = bracketed(cursor)?;
        }
        in_brackets = Some(number);
        cursor.blanks();
        if !cursor.take(b')') {
            return Err(cursor.expected("`)` after the index"));
        }
        cursor.blanks();
    }
    let at_first = *cursor;
    let Some(first) = cursor.hex_of_any_length() else {
        return Err(cursor.expected("the address in hex"));
    };
    physical_address(cursor)?;
    cursor.blanks();
    let mut ahead = *cursor;
    let is_set = InstructionSet::of_name(ahead.word()).is_some();
    if is_set && let Some(number) = in_brackets {
        // What follows is the instruction set: the brackets had the address, and this was the opcode.
        let mut again = at_first;
        let opcode = opcode(&mut again)?;
        return Ok(Place {
            id: before_colon.map(|_| number.index),
            address: before_colon.unwrap_or(number).digits,
            opcode: Some(opcode),
            has_both: before_colon.is_some(),
            is_bare: false,
        });
    }
    if first.count > 16 {
        return Err(at_first.expected("an address of at most 16 digits"));
    }
    Ok(Place {
        id: in_brackets.map(|number| number.index),
        address: first,
        opcode: Some(opcode(cursor)?),
        has_both: before_colon.is_some(),
        is_bare: in_brackets.is_none(),
    })
}

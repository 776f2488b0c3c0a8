//! The registers of frames as members of JSON objects. Most have the value that they had in the frame before, and so the same text.

use std::ops::Range;

use tracewire_arch::Register;
use tracewire_model::ByteOrder;
use tracewire_tracefile::{Frame, SavedState};

use super::members::{Members, push};
use crate::hexadecimal::Hexadecimal;
use crate::register::telling_text;

/// How many registers are compared and copied at once.
const GROUP: usize = 8;

/// The texts of a file's registers.
#[derive(Debug, Default)]
pub(super) struct RegisterTexts {
    /// By their places in the layout; empty before the first frame.
    registers: Vec<RegisterText>,
    groups: Vec<Group>,
}

/// A register in the last frame.
#[derive(Debug, Default)]
struct RegisterText {
    bytes: Vec<u8>,
    /// The member of `registers`; empty before the first frame.
    number: Vec<u8>,
    /// The member of `register_values`; empty if there is none.
    value: Vec<u8>,
}

/// Registers that follow each other in the register block.
#[derive(Debug)]
struct Group {
    /// Their places in the layout.
    places: Range<usize>,
    /// Where they are in the register block.
    range: Range<usize>,
    /// In the last frame.
    bytes: Vec<u8>,
    /// The members of `registers`; empty before the first frame.
    numbers: Vec<u8>,
    /// The members of `register_values`.
    values: Vec<u8>,
}

impl RegisterText {
    fn set(&mut self, register: &Register, bytes: &[u8], order: ByteOrder) {
        if self.bytes == bytes && !self.number.is_empty() {
            return;
        }
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
        self.number.clear();
        push(&mut self.number, &register.name);
        self.number.extend_from_slice(b":\"");
        let number = Hexadecimal::of_register(bytes, order);
        self.number.extend_from_slice(number.as_bytes());
        self.number.push(b'"');
        self.value.clear();
        if let Some(text) = telling_text(register, bytes, order) {
            push(&mut self.value, &register.name);
            self.value.push(b':');
            push(&mut self.value, &text);
        }
    }
}

impl Group {
    fn set(
        &mut self,
        registers: &[Register],
        texts: &mut [RegisterText],
        bytes: &[u8],
        order: ByteOrder,
    ) {
        if self.bytes == bytes && !self.numbers.is_empty() {
            return;
        }
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
        self.numbers.clear();
        self.values.clear();
        let mut numbers = Members::new(&mut self.numbers);
        let mut values = Members::new(&mut self.values);
        let mut rest = bytes;
        let registers = registers.get(self.places.clone()).unwrap_or_default();
        let texts = texts.get_mut(self.places.clone()).unwrap_or_default();
        for (register, text) in registers.iter().zip(texts) {
            let Some((bytes, after)) = rest.split_at_checked(register.size() as usize) else {
                debug_assert!(false, "the registers of a group are in its bytes");
                return;
            };
            rest = after;
            text.set(register, bytes, order);
            numbers.written(&text.number);
            values.written(&text.value);
        }
    }
}

impl RegisterTexts {
    fn prepare(&mut self, registers: &[Register]) {
        if self.registers.len() == registers.len() {
            return;
        }
        self.registers
            .resize_with(registers.len(), RegisterText::default);
        for (place, register) in registers.iter().enumerate() {
            let start = register.offset as usize;
            let end = start.saturating_add(register.size() as usize);
            match self.groups.last_mut() {
                Some(last) if last.range.end == start && last.places.len() < GROUP => {
                    last.places.end = place + 1;
                    last.range.end = end;
                }
                _ => self.groups.push(Group {
                    places: place..place + 1,
                    range: start..end,
                    bytes: Vec::new(),
                    numbers: Vec::new(),
                    values: Vec::new(),
                }),
            }
        }
    }

    /// Writes the registers of a frame as numbers, those whose types show more as text, and the names of those that are not known
    /// and that `is_asked_for`.
    pub(super) fn write(
        &mut self,
        frame: Frame<'_>,
        saved: &SavedState<'_>,
        registers: &[Register],
        is_asked_for: impl Fn(&Register) -> bool,
        object: &mut Members<'_>,
    ) {
        let Some(block) = saved.register_block() else {
            return;
        };
        self.prepare(registers);
        let has_all = self
            .groups
            .iter()
            .all(|group| group.range.end <= block.len());
        if has_all && !saved.has_unknown_registers() {
            for group in &mut self.groups {
                let bytes = block.get(group.range.clone()).unwrap_or_default();
                group.set(registers, &mut self.registers, bytes, frame.byte_order());
            }
            let groups = self.groups.iter();
            write_object(
                object,
                "registers",
                groups.clone().map(|group| &*group.numbers),
            );
            write_object(
                object,
                "register_values",
                groups.map(|group| &*group.values),
            );
            return;
        }
        let mut unavailable = Vec::new();
        let mut known = Vec::with_capacity(registers.len());
        let both = frame.registers().zip(&mut self.registers);
        for ((register, bytes), text) in both {
            match bytes {
                Some(bytes) => {
                    text.set(register, bytes, frame.byte_order());
                    known.push(&*text);
                }
                None if is_asked_for(register) => unavailable.push(register.name.as_str()),
                None => {}
            }
        }
        let known = known.iter();
        write_object(object, "registers", known.clone().map(|text| &*text.number));
        write_object(object, "register_values", known.map(|text| &*text.value));
        if !unavailable.is_empty() {
            object.field("unavailable_registers", &unavailable);
        }
    }
}

/// Writes an object of members that are written already; nothing if there are none.
fn write_object<'t>(
    object: &mut Members<'_>,
    name: &'static str,
    texts: impl Iterator<Item = &'t [u8]>,
) {
    let mut texts = texts.filter(|text| !text.is_empty()).peekable();
    if texts.peek().is_none() {
        return;
    }
    let json = object.named(name);
    json.push(b'{');
    let mut members = Members::new(json);
    texts.for_each(|text| members.written(text));
    json.push(b'}');
}

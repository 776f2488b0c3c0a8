//! Registers by their types, as GDB prints them: flags, floating point, vectors seen in several ways.

use std::fmt::Write as _;

use tracewire_arch::{BitField, Register, RegisterType};
use tracewire_expr::print_float;
use tracewire_model::ByteOrder;

/// The longest text of one register, in bytes; the rest is left out. GDB's longest of x86-64, of 512 bits, has some 700.
const LONGEST: usize = 4096;

/// From more than so many equal elements on, GDB shows one and their number.
const REPEATS: usize = 10;

/// The register as GDB's `print $NAME` shows it, where its type shows more than a number; none for a vector that is all zero.
pub(crate) fn telling_text(register: &Register, bytes: &[u8], order: ByteOrder) -> Option<String> {
    let value_type = register
        .value_type
        .as_deref()
        .filter(|one| is_telling(one))?;
    let is_empty = !is_short(value_type) && bytes.iter().all(|byte| *byte == 0);
    (!is_empty).then(|| print(value_type, bytes, order))?
}

/// Whether the type shows more of a register than its number.
fn is_telling(value_type: &RegisterType) -> bool {
    !matches!(
        value_type,
        RegisterType::Unsigned(_) | RegisterType::Signed(_) | RegisterType::Pointer
    )
}

/// Whether the text has one line's worth: no vector seen in several ways.
fn is_short(value_type: &RegisterType) -> bool {
    !matches!(
        value_type,
        RegisterType::Vector { .. } | RegisterType::Union { .. } | RegisterType::Structure { .. }
    )
}

/// The register as GDB's `print $NAME` shows it; none when the bytes are fewer than the type needs.
fn print(value_type: &RegisterType, bytes: &[u8], order: ByteOrder) -> Option<String> {
    let mut printer = Printer {
        text: String::new(),
        order,
    };
    printer.value(value_type, bytes)?;
    if printer.text.len() > LONGEST {
        let end = (0..=LONGEST)
            .rev()
            .find(|at| printer.text.is_char_boundary(*at));
        printer.text.truncate(end.unwrap_or(0));
        printer.text.push_str("...");
    }
    Some(printer.text)
}

struct Printer {
    text: String,
    order: ByteOrder,
}

impl Printer {
    fn is_full(&self) -> bool {
        self.text.len() > LONGEST
    }

    /// The first bytes as a number.
    fn number(&self, bytes: &[u8], size: u32) -> Option<u128> {
        let bytes = bytes.get(..usize::try_from(size).ok()?)?;
        let fold = |number: u128, byte: &u8| number << 8 | u128::from(*byte);
        Some(match self.order {
            ByteOrder::Little => bytes.iter().rev().fold(0, fold),
            ByteOrder::Big => bytes.iter().fold(0, fold),
        })
    }

    fn value(&mut self, value_type: &RegisterType, bytes: &[u8]) -> Option<()> {
        match value_type {
            RegisterType::Unsigned(bits) => {
                let number = self.number(bytes, bits.div_ceil(8))?;
                self.put(format_args!("{number}"));
            }
            RegisterType::Signed(bits) => {
                let number = self.number(bytes, bits.div_ceil(8))?;
                let unused = 128u32.checked_sub(*bits)?;
                self.put(format_args!("{}", (number << unused) as i128 >> unused));
            }
            RegisterType::Pointer => {
                let number = self.number(bytes, u32::try_from(bytes.len()).ok()?)?;
                self.put(format_args!("{number:#x}"));
            }
            RegisterType::Float(format) => {
                let raw = self.number(bytes, format.size())?;
                self.put(format_args!("{}", print_float(*format, raw)));
            }
            RegisterType::Vector { element, count, .. } => {
                self.vector(element, usize::try_from(*count).ok()?, bytes)?;
            }
            RegisterType::Union { members, .. } => {
                self.members(members.iter().map(|(name, one)| (name, &**one, bytes)))?;
            }
            RegisterType::Structure { members, .. } => {
                let mut rest = bytes;
                let mut parts = Vec::new();
                for (name, one) in members {
                    let (part, after) =
                        rest.split_at_checked(usize::try_from(one.size()?).ok()?)?;
                    parts.push((name, &**one, part));
                    rest = after;
                }
                self.members(parts.into_iter())?;
            }
            RegisterType::Bits(size, fields) => {
                let number = self.number(bytes, *size)?;
                for (index, field) in fields.iter().enumerate() {
                    let separator = if index == 0 { "{" } else { ", " };
                    self.put(format_args!("{separator}{} = ", field.name));
                    self.bits(number, field);
                }
                self.put(format_args!("}}"));
            }
            RegisterType::Flags(size, fields) => {
                let number = self.number(bytes, *size)?;
                self.put(format_args!("["));
                for field in fields.iter().filter(|field| !field.name.is_empty()) {
                    if field.is_flag {
                        if number >> field.start & 1 == 1 {
                            self.put(format_args!(" {}", field.name));
                        }
                    } else {
                        self.put(format_args!(" {}=", field.name));
                        self.bits(number, field);
                    }
                }
                self.put(format_args!(" ]"));
            }
            RegisterType::Enumeration(size, values) => {
                let number = self.number(bytes, *size)?;
                self.enumerated(number, values);
            }
        }
        Some(())
    }

    fn vector(&mut self, element: &RegisterType, count: usize, bytes: &[u8]) -> Option<()> {
        let size = usize::try_from(element.size()?)
            .ok()
            .filter(|size| *size > 0)?;
        let mut elements = bytes.get(..size.checked_mul(count)?)?.chunks_exact(size);
        self.put(format_args!("{{"));
        let mut separator = "";
        while let Some(first) = elements.next() {
            if self.is_full() {
                break;
            }
            let mut equal = 1;
            let mut ahead = elements.clone();
            while ahead.next().is_some_and(|next| next == first) {
                equal += 1;
            }
            self.put(format_args!("{separator}"));
            separator = ", ";
            self.value(element, first)?;
            if equal > REPEATS {
                self.put(format_args!(" <repeats {equal} times>"));
                elements.nth(equal - 2);
            }
        }
        self.put(format_args!("}}"));
        Some(())
    }

    fn members<'a>(
        &mut self,
        members: impl Iterator<Item = (&'a String, &'a RegisterType, &'a [u8])>,
    ) -> Option<()> {
        let mut separator = "{";
        for (name, member, bytes) in members {
            if self.is_full() {
                break;
            }
            self.put(format_args!("{separator}{name} = "));
            separator = ", ";
            self.value(member, bytes)?;
        }
        self.put(format_args!("}}"));
        Some(())
    }

    fn bits(&mut self, number: u128, field: &BitField) {
        let width = (field.end - field.start + 1).min(64);
        let value = number >> field.start & ((1 << width) - 1);
        match field.values.as_deref() {
            Some(RegisterType::Enumeration(_, values)) => self.enumerated(value, values),
            _ => self.put(format_args!("{value}")),
        }
    }

    fn enumerated(&mut self, number: u128, values: &[(String, u64)]) {
        match values
            .iter()
            .find(|(_, value)| u128::from(*value) == number)
        {
            Some((name, _)) => self.put(format_args!("{name}")),
            None => self.put(format_args!("{number}")),
        }
    }

    fn put(&mut self, text: std::fmt::Arguments<'_>) {
        // A String can be written to.
        let _ = self.text.write_fmt(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracewire_arch::RegisterLayout;

    fn shown(xml: &str, bytes: &[u8], order: ByteOrder) -> Option<String> {
        let xml = format!("<target><feature name=\"f\">{xml}</feature></target>");
        let layout = RegisterLayout::parse(&xml).unwrap();
        print(layout.registers()[0].value_type.as_deref()?, bytes, order)
    }

    #[test]
    fn fields_and_names() {
        let flags = "<enum id=\"mode\" size=\"4\"><evalue name=\"user\" value=\"0\"/><evalue name=\"system\" value=\"3\"/></enum>\
                     <flags id=\"f\" size=\"4\"><field name=\"Z\" start=\"0\"/><field name=\"\" start=\"1\" end=\"1\"/>\
                     <field name=\"M\" start=\"2\" end=\"3\" type=\"mode\"/><field name=\"N\" start=\"4\" end=\"7\" type=\"uint32\"/>\
                     </flags><reg name=\"r\" bitsize=\"32\" type=\"f\"/>";
        let little = shown(flags, &[0b1010_1111, 0, 0, 0], ByteOrder::Little);
        assert_eq!(little.as_deref(), Some("[ Z M=system N=10 ]"));
        let big = shown(flags, &[0, 0, 0, 0b0000_0100], ByteOrder::Big);
        assert_eq!(big.as_deref(), Some("[ M=1 N=0 ]"));
        let bits = "<struct id=\"s\" size=\"4\"><field name=\"low\" start=\"0\" end=\"3\"/><field name=\"high\" start=\"4\" end=\"31\"/>\
                    </struct><reg name=\"r\" bitsize=\"32\" type=\"s\"/>";
        assert_eq!(
            shown(bits, &[0x21, 0, 0, 0], ByteOrder::Little).as_deref(),
            Some("{low = 1, high = 2}")
        );
    }

    #[test]
    fn vectors_in_both_orders() {
        let xml = "<vector id=\"v\" type=\"int16\" count=\"2\"/><vector id=\"b\" type=\"uint8\" count=\"4\"/>\
                   <union id=\"u\"><field name=\"v\" type=\"v\"/><field name=\"b\" type=\"b\"/></union>\
                   <reg name=\"r\" bitsize=\"32\" type=\"u\"/>";
        let bytes = [0xff, 0xfe, 0, 1];
        assert_eq!(
            shown(xml, &bytes, ByteOrder::Big).as_deref(),
            Some("{v = {-2, 1}, b = {255, 254, 0, 1}}")
        );
        assert_eq!(
            shown(xml, &bytes, ByteOrder::Little).as_deref(),
            Some("{v = {-257, 256}, b = {255, 254, 0, 1}}")
        );
        assert_eq!(shown(xml, &bytes[..2], ByteOrder::Big), None);
    }
}

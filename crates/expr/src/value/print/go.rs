//! Go's values as `%+v` writes them.

use super::aggregate::member_name;
use super::{Context, Printer};
use crate::scalar::strip;
use crate::value::contents::{Value, number, order};
use crate::value::datum::{Datum, Parts, Recorder};
use crate::value::float;
use crate::value::state::read_memory;
use crate::walk::Walk;
use tracewire_debuginfo::{BaseEncoding, Member, Type, TypeId};

/// From which exponent on a number is written with one.
const FIRST_EXPONENT: i32 = 6;

/// By what Go sorts the keys of a map.
#[derive(Clone, PartialEq, PartialOrd, Debug)]
pub(super) enum SortKey {
    Number(i128),
    Float(f64),
    Text(Vec<u8>),
}

impl Printer<'_> {
    /// A value whose type has no rule.
    pub(super) fn go(&mut self, value: &Value, found: &Type, context: Context) {
        match found {
            Type::Array { element, count, .. } => {
                self.go_array(value, *element, count.unwrap_or(0), context);
            }
            Type::Structure { members, .. } => self.go_structure(value, members, context),
            Type::Base {
                encoding: BaseEncoding::Float,
                size,
                ..
            } => {
                let number = float::from_bytes(self.symbols, value);
                self.put(&go_float(number, *size));
                if let Some(number) = number {
                    self.record(|recorder| recorder.set(Datum::Float(number)));
                }
            }
            Type::Base {
                encoding: BaseEncoding::ComplexFloat,
                size,
                ..
            } => {
                let half = size / 2;
                let part = |offset| {
                    let part = value.part(value.type_id, offset, half);
                    go_float(float::of_size(self.symbols, &part, half), half)
                };
                let (real, imaginary) = (part(0), part(half));
                let sign = if imaginary.starts_with(['-', '+']) {
                    ""
                } else {
                    "+"
                };
                self.put(&format!("({real}{sign}{imaginary}i)"));
            }
            Type::Base {
                encoding: BaseEncoding::Signed | BaseEncoding::SignedChar,
                ..
            } => self.go_number(value, true),
            Type::Base {
                encoding: BaseEncoding::Unsigned | BaseEncoding::UnsignedChar | BaseEncoding::Utf,
                ..
            } => self.go_number(value, false),
            Type::Pointer { .. } | Type::Function { .. } => {
                let address = number(&value.contents, false, order(self.symbols)).unwrap_or(0);
                self.go_address(address as u64);
            }
            _ => self.scalar(value, found, context),
        }
    }

    fn go_number(&mut self, value: &Value, signed: bool) {
        match number(&value.contents, signed, order(self.symbols)) {
            Some(number) => {
                self.put(&number.to_string());
                self.record(|recorder| recorder.set(Datum::Integer(number)));
            }
            None => self.put_missing("<unavailable>"),
        }
    }

    pub(super) fn go_address(&mut self, address: u64) {
        match address {
            0 => self.put_missing("<nil>"),
            _ => {
                self.put(&format!("{address:#x}"));
                self.record(|recorder| recorder.set(Datum::Address(address)));
            }
        }
    }

    fn go_array(&mut self, value: &Value, element: TypeId, count: u64, context: Context) {
        let size = self.symbols.size_of(element).unwrap_or(0);
        self.put("[");
        self.begin_parts(Parts::List);
        for index in 0..count {
            let part = value.part(element, index.saturating_mul(size), size);
            self.put(if index > 0 { " " } else { "" });
            if index >= self.options.elements {
                self.put("...");
                self.record(Recorder::cut);
                break;
            }
            self.value(&part, context.element());
        }
        self.put("]");
    }

    fn go_structure(&mut self, value: &Value, members: &[Member], context: Context) {
        self.put("{");
        if !members.is_empty() {
            self.begin_parts(Parts::Structure);
        }
        for (index, member) in members.iter().enumerate() {
            self.put(if index > 0 { " " } else { "" });
            self.put(member.name.as_deref().unwrap_or("_"));
            self.put(":");
            self.record(|recorder| recorder.name(&member_name(member, index)));
            self.member(value, member, context.member());
        }
        self.put("}");
    }

    /// A string: without quotes, as `%+v` has it.
    pub(super) fn go_string(&mut self, bytes: &[u8], is_cut: bool) {
        self.record_string(bytes, 1, is_cut);
        let text = String::from_utf8_lossy(bytes);
        // A cut may be within a character.
        let text = match is_cut {
            true => text.trim_end_matches(char::REPLACEMENT_CHARACTER),
            false => &text,
        };
        self.put(text);
        self.put(if is_cut { "..." } else { "" });
    }

    /// The sort key of a map's element, if its key is a number or a string.
    pub(super) fn sort_key(&self, key: &Value) -> Option<SortKey> {
        let found = strip(self.symbols, key.type_id).1;
        if let Type::Base {
            encoding: BaseEncoding::Float,
            ..
        } = &*found
        {
            return float::from_bytes(self.symbols, key).map(SortKey::Float);
        }
        if let Some(number) = key.as_integer(self.symbols) {
            return Some(SortKey::Number(number));
        }
        let walk = self.walks?.walk(key.type_id)?;
        let Walk::String {
            data,
            extent,
            width: 1,
        } = &*walk
        else {
            return None;
        };
        let (address, length) = self.string_place(key, data, extent)?;
        let (bytes, known) = read_memory(self.symbols, &self.state, address, length);
        known
            .iter()
            .all(|known| *known)
            .then_some(SortKey::Text(bytes))
    }
}

/// The shortest text that is this number.
fn go_float(number: Option<f64>, size: u64) -> String {
    let Some(number) = number else {
        return "<invalid float value>".to_owned();
    };
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let text = match size {
        4 => format!("{:e}", number as f32),
        _ => format!("{number:e}"),
    };
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..FIRST_EXPONENT).contains(&exponent) {
        return match size {
            4 => format!("{}", number as f32),
            _ => format!("{number}"),
        };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}

/// A length of time as Go's `Duration.String` writes it.
pub(super) fn go_duration(nanoseconds: i128) -> String {
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let whole = nanoseconds.unsigned_abs();
    if whole == 0 {
        return "0s".to_owned();
    }
    let decimal = |number: u128, unit: u128| {
        let (before, after) = (number / unit, number % unit);
        let digits = unit.ilog10() as usize;
        let after = format!("{after:0digits$}");
        let after = after.trim_end_matches('0');
        let point = if after.is_empty() { "" } else { "." };
        format!("{before}{point}{after}")
    };
    let text = match whole {
        0..1_000 => format!("{whole}ns"),
        1_000..1_000_000 => format!("{}µs", decimal(whole, 1_000)),
        1_000_000..1_000_000_000 => format!("{}ms", decimal(whole, 1_000_000)),
        _ => {
            let seconds = whole / 1_000_000_000;
            let rest = decimal(whole % 60_000_000_000, 1_000_000_000);
            let (minutes, hours) = (seconds / 60 % 60, seconds / 3600);
            match (hours, minutes) {
                (0, 0) => format!("{rest}s"),
                (0, minutes) => format!("{minutes}m{rest}s"),
                (hours, minutes) => format!("{hours}h{minutes}m{rest}s"),
            }
        }
    };
    format!("{sign}{text}")
}

#[cfg(test)]
mod tests {
    use super::{go_duration, go_float};

    #[test]
    fn numbers_are_written_as_go_writes_them() {
        for (number, text) in [
            (0.0, "0"),
            (1.5, "1.5"),
            (-0.25, "-0.25"),
            (1e6, "1e+06"),
            (123_456_789.0, "1.23456789e+08"),
            (123_456.0, "123456"),
            (1e21, "1e+21"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (f64::INFINITY, "+Inf"),
        ] {
            assert_eq!(go_float(Some(number), 8), text);
        }
        assert_eq!(go_float(Some(f64::from(0.1_f32)), 4), "0.1");
    }

    #[test]
    fn durations_are_written_as_go_writes_them() {
        for (nanoseconds, text) in [
            (0, "0s"),
            (1, "1ns"),
            (1_100, "1.1µs"),
            (2_200_000, "2.2ms"),
            (3_300_000_000, "3.3s"),
            (245_000_000_000, "4m5s"),
            (245_001_000_000, "4m5.001s"),
            (18_367_001_000_000, "5h6m7.001s"),
            (3_600_000_000_000, "1h0m0s"),
            (-1_500_000_000, "-1.5s"),
        ] {
            assert_eq!(go_duration(nanoseconds), text);
        }
    }
}

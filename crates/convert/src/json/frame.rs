//! A frame's line, written in the form of the file while it is read: only its bytes are kept.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use tracewire_arch::RegisterLayout;
use tracewire_model::ByteOrder;

use super::MAX_FRAME;
use crate::hex;

/// Adds the frame that a line describes.
pub(super) fn push(
    out: &mut Vec<u8>,
    order: ByteOrder,
    layout: Option<&RegisterLayout>,
    line: &[u8],
) -> Result<(), String> {
    let at = out.len();
    // The tracepoint and the size, which are known at the end.
    out.extend([0; 6]);
    let start = out.len();
    let mut frame = FrameBytes {
        bytes: out,
        start,
        order,
        layout,
    };
    let mut deserializer = serde_json::Deserializer::from_slice(line);
    let tracepoint = WholeFrame(&mut frame)
        .deserialize(&mut deserializer)
        .and_then(|tracepoint| deserializer.end().map(|()| tracepoint))
        .map_err(|error| super::problem(&error))?;
    if tracepoint == 0 {
        return Err("expected a tracepoint other than 0, which ends a trace file".to_owned());
    }
    let size = u32::try_from(out.len() - start)
        .map_err(|_| "expected a frame of less than 4 GiB".to_owned())?;
    if let Some((number, size_field)) = out
        .get_mut(at..start)
        .and_then(|header| header.split_at_mut_checked(2))
    {
        number.copy_from_slice(&order.u16_bytes(tracepoint.cast_unsigned()));
        size_field.copy_from_slice(&order.u32_bytes(size));
    }
    Ok(())
}

/// The frame, as far as it was read.
struct FrameBytes<'f> {
    bytes: &'f mut Vec<u8>,
    /// Where its blocks begin.
    start: usize,
    order: ByteOrder,
    layout: Option<&'f RegisterLayout>,
}

/// A string of the line, copied only where something in it is escaped.
#[derive(Deserialize)]
struct Text<'l>(#[serde(borrow)] Cow<'l, str>);

/// The object of the whole line. Its value is the tracepoint.
struct WholeFrame<'a, 'f>(&'a mut FrameBytes<'f>);
/// The array of the blocks.
struct Blocks<'a, 'f>(&'a mut FrameBytes<'f>);
/// The object of one block.
struct OneBlock<'a, 'f>(&'a mut FrameBytes<'f>);
/// The contents of a register block: a string of bytes or an object of registers.
struct Registers<'a, 'f>(&'a mut FrameBytes<'f>);

impl<'l> DeserializeSeed<'l> for WholeFrame<'_, '_> {
    type Value = i16;

    fn deserialize<D: Deserializer<'l>>(self, deserializer: D) -> Result<i16, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'l> Visitor<'l> for WholeFrame<'_, '_> {
    type Value = i16;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the object of a frame")
    }

    fn visit_map<M: MapAccess<'l>>(self, mut map: M) -> Result<i16, M::Error> {
        let mut tracepoint = None;
        let mut has_blocks = false;
        while let Some(Text(name)) = map.next_key()? {
            match &*name {
                "tracepoint" => tracepoint = Some(map.next_value()?),
                "blocks" if has_blocks => return Err(M::Error::duplicate_field("blocks")),
                "blocks" => {
                    map.next_value_seed(Blocks(self.0))?;
                    has_blocks = true;
                }
                _ => _ = map.next_value::<IgnoredAny>()?,
            }
        }
        if !has_blocks {
            return Err(M::Error::missing_field("blocks"));
        }
        tracepoint.ok_or_else(|| M::Error::missing_field("tracepoint"))
    }
}

impl<'l> DeserializeSeed<'l> for Blocks<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'l>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'l> Visitor<'l> for Blocks<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of blocks")
    }

    fn visit_seq<S: SeqAccess<'l>>(self, mut blocks: S) -> Result<(), S::Error> {
        while blocks.next_element_seed(OneBlock(self.0))?.is_some() {}
        Ok(())
    }
}

impl<'l> DeserializeSeed<'l> for OneBlock<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'l>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'l> Visitor<'l> for OneBlock<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the object of a block")
    }

    fn visit_map<M: MapAccess<'l>>(self, mut map: M) -> Result<(), M::Error> {
        let frame = self.0;
        let mut has_registers = false;
        let (mut memory, mut bytes) = (None::<Text<'l>>, None::<Text<'l>>);
        let (mut static_data, mut unknown) = (None::<Text<'l>>, None::<Text<'l>>);
        let (mut variable, mut value) = (None::<i32>, None::<i64>);
        while let Some(Text(name)) = map.next_key()? {
            match &*name {
                "registers" if has_registers => {
                    return Err(M::Error::duplicate_field("registers"));
                }
                "registers" => {
                    map.next_value_seed(Registers(frame))?;
                    has_registers = true;
                }
                "memory" => memory = map.next_value()?,
                "bytes" => bytes = map.next_value()?,
                "static_data" => static_data = map.next_value()?,
                "unknown" => unknown = map.next_value()?,
                "variable" => variable = map.next_value()?,
                "value" => value = map.next_value()?,
                _ => _ = map.next_value::<IgnoredAny>()?,
            }
        }
        let pushed = match (memory, bytes, variable, value, static_data, unknown) {
            _ if has_registers => Ok(()),
            (Some(address), Some(bytes), ..) => frame.push_memory(&address.0, &bytes.0),
            (_, _, Some(number), Some(value), ..) => frame.push_variable(number, value),
            (.., Some(bytes), _) => frame.push_static_data(&bytes.0),
            (.., Some(bytes)) => frame.push_digits(&bytes.0),
            _ => Err(
                "expected a block: registers, memory and bytes, variable and value, static_data, or unknown"
                    .to_owned(),
            ),
        };
        pushed.map_err(M::Error::custom)
    }
}

impl<'l> DeserializeSeed<'l> for Registers<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'l>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'l> Visitor<'l> for Registers<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a register block as bytes, or an object of registers")
    }

    fn visit_str<E: Error>(self, digits: &str) -> Result<(), E> {
        let pushed = self.0.push(b"R").and_then(|()| self.0.push_digits(digits));
        pushed.map_err(E::custom)
    }

    fn visit_map<M: MapAccess<'l>>(self, mut map: M) -> Result<(), M::Error> {
        let Self(frame) = self;
        let layout = frame.layout.ok_or_else(|| {
            M::Error::custom("expected registers as bytes: the `tdesc` lines have none")
        })?;
        let size = layout.size() as usize;
        frame.need_room(1 + size).map_err(M::Error::custom)?;
        frame.bytes.push(b'R');
        let start = frame.bytes.len();
        frame.bytes.resize(start + size, 0);
        let registers = layout.registers();
        let mut is_given = vec![false; registers.len()];
        let mut by_name: Option<HashMap<&str, usize>> = None;
        let mut next = 0;
        while let Some(Text(name)) = map.next_key()? {
            // They are in the layout's order unless they were written by hand.
            let index = match registers.get(next) {
                Some(register) if register.name == name => Some(next),
                _ => {
                    let named = || {
                        let names = registers.iter().map(|register| register.name.as_str());
                        names.zip(0..).collect()
                    };
                    by_name.get_or_insert_with(named).get(&*name).copied()
                }
            };
            let found = index.and_then(|index| Some((index, registers.get(index)?)));
            let Some((index, register)) = found else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            let Text(value) = map.next_value()?;
            let at = start + register.offset as usize;
            let place = frame.bytes.get_mut(at..at + register.size() as usize);
            let decoded = place.and_then(|place| {
                hex::decode_number(&value, place)?;
                if frame.order == ByteOrder::Little {
                    place.reverse();
                }
                is_given.get_mut(index)
            });
            match decoded {
                Some(is_given) => *is_given = true,
                None => return Err(M::Error::custom(expected(register))),
            }
            next = index + 1;
        }
        match registers
            .iter()
            .zip(is_given)
            .find(|(_, is_given)| !is_given)
        {
            Some((register, _)) => Err(M::Error::custom(expected(register))),
            None => Ok(()),
        }
    }
}

fn expected(register: &tracewire_arch::Register) -> String {
    let (name, bits) = (&register.name, register.bits);
    format!("expected register {name} of {bits} bits as 0x…")
}

impl FrameBytes<'_> {
    /// Checks whether there is space for this many bytes.
    fn need_room(&self, size: usize) -> Result<(), String> {
        if self.bytes.len() - self.start + size > MAX_FRAME {
            return Err(format!("expected a frame of at most {MAX_FRAME} bytes"));
        }
        Ok(())
    }

    fn push(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.need_room(bytes.len())?;
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn push_digits(&mut self, digits: &str) -> Result<(), String> {
        self.need_room(digits.len() / 2)?;
        hex::decode_onto(digits.as_bytes(), self.bytes).ok_or_else(|| super::NO_BYTES.to_owned())
    }

    /// Adds a length of two bytes and the bytes.
    fn push_counted(&mut self, digits: &str) -> Result<(), String> {
        let length = u16::try_from(digits.len() / 2)
            .map_err(|_| "expected a block of at most 65535 bytes".to_owned())?;
        self.push(&self.order.u16_bytes(length))?;
        self.push_digits(digits)
    }

    fn push_memory(&mut self, address: &str, digits: &str) -> Result<(), String> {
        let address = address
            .strip_prefix("0x")
            .and_then(|digits| u64::from_str_radix(digits, 16).ok())
            .ok_or_else(|| format!("expected an address as 0x…, not `{address}`"))?;
        self.push(b"M")?;
        self.push(&self.order.u64_bytes(address))?;
        self.push_counted(digits)
    }

    fn push_variable(&mut self, number: i32, value: i64) -> Result<(), String> {
        self.push(b"V")?;
        self.push(&self.order.u32_bytes(number.cast_unsigned()))?;
        self.push(&self.order.u64_bytes(value.cast_unsigned()))
    }

    fn push_static_data(&mut self, digits: &str) -> Result<(), String> {
        self.push(b"S")?;
        self.push_counted(digits)
    }
}

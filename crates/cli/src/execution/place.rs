//! A piece of memory as the user names it: by its address, or by an expression of the program.

use anyhow::{Context, bail};
use tracewire_debuginfo::Symbols;
use tracewire_exec_analysis::view::MemoryPart;
use tracewire_expr::{NoState, Place as ValuePlace, evaluate};
use tracewire_model::Address;

use super::open::Opened;
use crate::value_parser::parse_address;

/// The longest piece that is shown.
const MOST_SHOWN: u64 = 1 << 20;

/// `ADDR[,LEN]` or `EXPRESSION[,LEN]`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemoryPlace {
    place: Named,
    length: Option<u64>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Named {
    Address(u64),
    Expression(String),
}

/// Reads `ADDR[,LEN]` or `EXPRESSION[,LEN]`.
pub fn parse_place(text: &str) -> Result<MemoryPlace, String> {
    let (place, length) = match text.rsplit_once(',') {
        Some((place, length)) => {
            let length = parse_address(length.trim())
                .map_err(|_| "expected a length after the comma".to_owned())?;
            if length == 0 {
                return Err("expected a length of at least 1".to_owned());
            }
            (place.trim(), Some(length))
        }
        None => (text.trim(), None),
    };
    let place = match parse_address(place) {
        Ok(address) => Named::Address(address),
        Err(_) if place.is_empty() || place.starts_with(|first: char| first.is_ascii_digit()) => {
            return Err(
                "expected an address such as 0x1000, or a variable, and a length".to_owned(),
            );
        }
        Err(_) => Named::Expression(place.to_owned()),
    };
    Ok(MemoryPlace { place, length })
}

impl MemoryPlace {
    /// The first byte, and how many there are: as many as the variable has, one at an address, where no length was given.
    fn resolve(&self, opened: &Opened) -> anyhow::Result<(u64, u64)> {
        match &self.place {
            Named::Address(address) => Ok((*address, self.length.unwrap_or(1))),
            Named::Expression(text) => {
                let symbols = opened.symbols.as_ref().with_context(|| {
                    format!("`{text}` is no address; for a variable add --elf PROGRAM")
                })?;
                let (address, size) = variable(symbols, text)?;
                Ok((address, self.length.unwrap_or(size.max(1))))
            }
        }
    }

    /// The place, as the user wrote it.
    pub fn name(&self) -> String {
        match &self.place {
            Named::Address(address) => format!("{address:#x}"),
            Named::Expression(text) => text.clone(),
        }
    }

    /// The first byte and the last.
    pub fn bounds(&self, opened: &Opened) -> anyhow::Result<(u64, u64)> {
        let (first, length) = self.resolve(opened)?;
        Ok((first, first.saturating_add(length - 1)))
    }

    /// A part that is shown.
    pub fn part(&self, opened: &Opened) -> anyhow::Result<MemoryPart> {
        let (address, length) = self.resolve(opened)?;
        match u32::try_from(length) {
            Ok(length) if u64::from(length) <= MOST_SHOWN => Ok(MemoryPart {
                address: Address(address),
                length,
            }),
            _ => bail!("{length} bytes: expected a piece of at most 1 MiB"),
        }
    }
}

/// Where a variable is, or a part of it, and how many bytes it has.
fn variable(symbols: &Symbols, text: &str) -> anyhow::Result<(u64, u64)> {
    let value = match evaluate(symbols, &NoState, text) {
        Ok(value) => value,
        Err(error) => {
            // A program without debug information has names of its own.
            let Ok(places) = symbols.resolve(text, None) else {
                return Err(error.into());
            };
            return match &places[..] {
                [place] => Ok((place.address.0, 1)),
                _ => bail!(
                    "`{text}` is in {} places: name it by its address",
                    places.len()
                ),
            };
        }
    };
    match value.place() {
        ValuePlace::Memory(Address(address)) => Ok((address, value.bytes().len() as u64)),
        _ => bail!("`{text}` is not in memory at a place that is always the same"),
    }
}

//! Registers and variables as JSON members, their names quoted once for all frames.

use std::collections::HashMap;

use serde_json::Value;
use tracewire_arch::{Register, RegisterLayout};
use tracewire_model::{ByteOrder, VariableNumber};
use tracewire_tracefile::TraceFile;

use crate::hex;

/// The longest name that is given in every frame, in bytes.
pub(crate) const MAX_NAME: usize = 64;

/// The registers of a layout.
pub(crate) struct RegisterMembers(Vec<Member>);

struct Member {
    /// `"name":"`, quoted for JSON.
    name: String,
    start: usize,
    end: usize,
}

impl RegisterMembers {
    /// The registers that `wanted` selects.
    pub(crate) fn new(layout: &RegisterLayout, wanted: impl Fn(&Register) -> bool) -> Self {
        let registers = layout
            .registers()
            .iter()
            .filter(|register| wanted(register));
        Self(
            registers
                .map(|register| Member {
                    name: format!("{}:\"", Value::from(register.name.as_str())),
                    start: register.offset as usize,
                    end: register.offset.saturating_add(register.size()) as usize,
                })
                .collect(),
        )
    }

    /// Adds `{"name":"0x…",…}`. A register beyond the end of the block is left out.
    pub(crate) fn push(&self, text: &mut String, block: &[u8], order: ByteOrder) {
        text.push('{');
        let mut first = true;
        for Member { name, start, end } in &self.0 {
            let Some(bytes) = block.get(*start..*end) else {
                continue;
            };
            if !std::mem::take(&mut first) {
                text.push(',');
            }
            text.push_str(name);
            match order {
                ByteOrder::Big => hex::push_number(text, bytes.iter()),
                ByteOrder::Little => hex::push_number(text, bytes.iter().rev()),
            }
            text.push('"');
        }
        text.push('}');
    }
}

/// The name of each variable, as a JSON string; a name longer than a name has is none. No number is defined twice: of
/// several lines the reader has kept the last.
pub(crate) fn quoted_names(file: &TraceFile) -> HashMap<VariableNumber, String> {
    let variables = file.description().variables().iter();
    let quoted = |name: &str| Value::from(name).to_string();
    variables
        .filter(|variable| variable.name.len() <= MAX_NAME)
        .map(|variable| (variable.number, quoted(&variable.name)))
        .collect()
}

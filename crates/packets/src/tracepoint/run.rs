//! How a run is to be: buffer size and notes.

use crate::field::{Field, HexBytes};
use tracewire_model::hex;
use tracewire_model::text::{Expected, Scanner};

/// The size of the trace buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BufferSize {
    /// `-1`: the target's choice.
    Default,
    /// So many bytes.
    Bytes(u64),
}

impl Field for BufferSize {
    fn scan(scanner: &mut Scanner<'_>) -> Result<Self, Expected> {
        if scanner.take("-1") {
            return Ok(Self::Default);
        }
        scanner.hex().map(Self::Bytes)
    }

    fn print(&self, out: &mut Vec<u8>) {
        match self {
            Self::Default => out.extend_from_slice(b"-1"),
            Self::Bytes(bytes) => hex::put_number(*bytes, out),
        }
    }
}

impl BufferSize {
    pub(crate) fn explain(self) -> String {
        match self {
            Self::Default => "make the trace buffer as large as the target likes".to_owned(),
            Self::Bytes(bytes) => format!("make the trace buffer {bytes} bytes"),
        }
    }
}

/// The user's name and notes: `type:text;` each.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Notes {
    /// `user`: the user of the run.
    pub user: Option<HexBytes>,
    /// `notes`: about the run.
    pub notes: Option<HexBytes>,
    /// `tstop`: why it was stopped. GDB sends it after `QTStop`.
    pub stop: Option<HexBytes>,
}

/// GDB ends each note with a `;`, the manual has it between them; both are read.
impl Field for Notes {
    fn scan(scanner: &mut Scanner<'_>) -> Result<Self, Expected> {
        let mut notes = Self::default();
        while !scanner.is_at_end() {
            let kind = scanner.until(|byte| byte == b':');
            scanner.literal(":")?;
            let text = Some(Field::scan(scanner)?);
            match kind {
                b"user" => notes.user = text,
                b"notes" => notes.notes = text,
                b"tstop" => notes.stop = text,
                // The manual does not say that there are no others.
                _ => {}
            }
            if !scanner.is_at_end() {
                scanner.literal(";")?;
            }
        }
        Ok(notes)
    }

    fn print(&self, out: &mut Vec<u8>) {
        for (name, text) in self.named() {
            out.extend_from_slice(name.as_bytes());
            out.push(b':');
            text.print(out);
            out.push(b';');
        }
    }
}

impl Notes {
    fn named(&self) -> impl Iterator<Item = (&'static str, &HexBytes)> {
        [
            ("user", &self.user),
            ("notes", &self.notes),
            ("tstop", &self.stop),
        ]
        .into_iter()
        .filter_map(|(name, text)| text.as_ref().map(|text| (name, text)))
    }

    pub(crate) fn explain(&self) -> String {
        let parts: Vec<String> = self
            .named()
            .map(|(name, text)| match name {
                "user" => format!("the user is {text}"),
                "notes" => format!("note {text} on the trace run"),
                _ => format!("note {text} on its stop"),
            })
            .collect();
        if parts.is_empty() {
            "no notes".to_owned()
        } else {
            parts.join(", ")
        }
    }
}

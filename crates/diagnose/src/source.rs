//! The user's strings, which may be in several lines.

use tracewire_model::{Address, DefinitionContent, DefinitionRecord, SourceKind, TracepointNumber};

use crate::finding::Fault;

/// The string that the next line may go on with.
#[derive(Default)]
pub(crate) struct OpenString(Option<Begun>);

struct Begun {
    /// The line it begins in.
    line: usize,
    number: TracepointNumber,
    address: Address,
    kind: SourceKind,
    /// Its kind, in words.
    what: String,
    total: u64,
    length: u64,
}

impl OpenString {
    /// Takes the next piece of a tracepoint. Returns the fault of the previous string, and the line in which that begins.
    pub(crate) fn take(&mut self, line: usize, piece: &DefinitionRecord) -> Option<(usize, Fault)> {
        let DefinitionContent::Source {
            kind,
            start,
            total,
            bytes,
        } = &piece.content
        else {
            return None;
        };
        let length = bytes.len() as u64;
        if *start != 0 {
            let same = |begun: &&mut Begun| {
                (begun.number, begun.address) == (piece.number, piece.address)
                    && begun.kind == *kind
                    && begun.length == *start
            };
            match self.0.as_mut().filter(same) {
                Some(begun) => begun.length += length,
                // Such a part is a separate error.
                None => self.0 = None,
            }
            return None;
        }
        let before = self.end();
        self.0 = Some(Begun {
            line,
            number: piece.number,
            address: piece.address,
            kind: kind.clone(),
            what: piece.content.what(piece.number),
            total: *total,
            length,
        });
        before
    }

    /// The fault of the last string, after the last line.
    pub(crate) fn end(&mut self) -> Option<(usize, Fault)> {
        let begun = self.0.take().filter(|begun| begun.length != begun.total)?;
        let fault = Fault::StringLength {
            what: begun.what,
            declared: begun.total,
            found: begun.length,
        };
        Some((begun.line, fault))
    }
}

//! The text of JSON objects and arrays, written member by member.

use serde::Serialize;

/// Appends a value as JSON.
pub(super) fn push(json: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    let written = serde_json::to_writer(json, value);
    debug_assert!(written.is_ok(), "a Vec can be written to: {written:?}");
}

/// An object or an array that is being written.
pub(super) struct Members<'j> {
    json: &'j mut Vec<u8>,
    is_first: bool,
}

impl<'j> Members<'j> {
    /// The first member is to be written where the text ends.
    pub(super) const fn new(json: &'j mut Vec<u8>) -> Self {
        Self {
            json,
            is_first: true,
        }
    }

    /// The text, where the next member is to be written.
    #[inline]
    pub(super) fn next(&mut self) -> &mut Vec<u8> {
        if !std::mem::replace(&mut self.is_first, false) {
            self.json.push(b',');
        }
        self.json
    }

    /// The next member, or several with the commas between them; none if the text is empty.
    #[inline]
    pub(super) fn written(&mut self, text: &[u8]) {
        if !text.is_empty() {
            self.next().extend_from_slice(text);
        }
    }

    /// The text after the name of the next member, which needs no escapes.
    #[inline]
    pub(super) fn named(&mut self, name: &'static str) -> &mut Vec<u8> {
        let json = self.next();
        json.push(b'"');
        json.extend_from_slice(name.as_bytes());
        json.extend_from_slice(b"\":");
        json
    }

    #[inline]
    pub(super) fn field(&mut self, name: &'static str, value: &(impl Serialize + ?Sized)) {
        push(self.named(name), value);
    }

    #[inline]
    pub(super) fn field_if(&mut self, name: &'static str, value: Option<impl Serialize>) {
        if let Some(value) = value {
            self.field(name, &value);
        }
    }

    /// An address, or bytes: text that needs no escapes.
    #[inline]
    pub(super) fn digits(&mut self, name: &'static str, write: impl FnOnce(&mut Vec<u8>)) {
        let json = self.named(name);
        json.push(b'"');
        write(json);
        json.push(b'"');
    }
}

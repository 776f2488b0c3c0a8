//! Lines with several instructions, turned into lines with one each.
//!
//! The transcript has the lines of `perf script`, with three differences: its first line says what it is; a branch has a second
//! line for where it goes, and each branch of a stack two lines before the sample's own; a line that begins with `#!` is a place at
//! which the trace begins or ends.

use super::super::transcriber::Transcribe;
use super::sample::{Head, Place, Sample, columns};
use super::{Form, form};

/// What the first line of a transcript begins with; the form follows.
const HEADER: &[u8] = b"# transcript of perf script: ";

/// What begins a line of a place at which the trace begins or ends.
pub(super) const GAP: &[u8] = b"#! ";

/// The form that the first line of a transcript names.
pub(in crate::text) fn header_form(line: &[u8]) -> Option<Form> {
    match line.strip_prefix(HEADER)? {
        b"branches" => Some(Form::Branches),
        b"samples" => Some(Form::Samples),
        _ => None,
    }
}

/// How the text with this beginning is transcribed; `None` where it needs no transcription.
pub(in crate::text) fn transcript<'a, L: Iterator<Item = &'a [u8]>>(
    lines: impl Fn() -> L,
) -> Option<Branches> {
    let form = form(lines());
    let has_stack = |line: &[u8]| {
        let sample = Sample::read(line).ok();
        let place = sample.and_then(|sample| sample.place());
        place.is_some_and(|place| place.branch_stack().next().is_some())
    };
    match form {
        Form::Branches => {}
        Form::Samples if lines().any(has_stack) => {}
        Form::Instructions | Form::Samples => return None,
    }
    Some(Branches {
        form,
        header: [HEADER, form.name()].concat(),
        head: Head::NONE,
        stack: Vec::new(),
        out: Vec::new(),
    })
}

/// Gives each instruction a line.
pub(in crate::text) struct Branches {
    form: Form,
    header: Vec<u8>,
    /// The front of the latest line.
    head: Head,
    /// Room for the branches of a stack.
    stack: Vec<(u64, u64)>,
    out: Vec<u8>,
}

impl Branches {
    /// A line with another address in the place of its own, and nothing after it.
    fn put(&mut self, head: &[u8], address: u64) {
        self.out.extend_from_slice(head);
        self.out.push(b' ');
        self.out.extend_from_slice(&columns(address));
        self.out.push(b'\n');
    }

    fn branch(&mut self, line: &[u8], sample: &Sample<'_>, place: &Place<'_>) {
        if place.address != 0 {
            self.out.extend_from_slice(line);
            self.out.push(b'\n');
        }
        if place.is_gap() {
            self.out.extend_from_slice(GAP);
            self.out.extend_from_slice(place.flags());
            self.out.push(b'\n');
        }
        if let Some(target) = place.target().filter(|target| *target != 0) {
            self.put(sample.head(line), target);
        }
    }
}

impl Transcribe for Branches {
    fn header(&self) -> &[u8] {
        &self.header
    }

    fn line(&mut self, line: &[u8]) {
        let known = self.head.sample(line);
        if let Ok(sample) = known.map_or_else(|| self.head.read(line), Ok)
            && let Some(place) = sample.place()
        {
            if self.form == Form::Branches && sample.is_branch(&place) {
                self.branch(line, &sample, &place);
                return;
            }
            let head = sample.head(line);
            let mut stack = std::mem::take(&mut self.stack);
            stack.extend(place.branch_stack());
            for (from, to) in stack.drain(..).rev() {
                self.put(head, from);
                self.put(head, to);
            }
            self.stack = stack;
        }
        self.out.extend_from_slice(line);
        self.out.push(b'\n');
    }

    fn end(&mut self, _: bool) {}

    fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }
}

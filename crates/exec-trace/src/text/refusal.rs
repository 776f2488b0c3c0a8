//! Texts that look like a simulator's or a tool's, and that cannot be used: why, and what to run instead.

use std::fmt;

use super::qemu_log;

/// Why a text is no trace, though its producer is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// What wrote it.
    pub producer: &'static str,
    /// What it lacks.
    pub why: &'static str,
    /// What to do.
    pub instead: &'static str,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            producer,
            why,
            instead,
        } = self;
        write!(f, "it looks like {producer}: {why}; {instead}")
    }
}

/// How much of a text is looked at.
const LOOK: usize = 64 << 10;

/// Lines that a known producer writes, of whose text no trace can be made.
const OTHERS: &[(&[u8], Refusal)] = &[
    (
        b"OCSD_GEN_TRC_ELEM",
        Refusal {
            producer: "a listing of OpenCSD",
            why: "it has control flow only",
            instead: "write Tarmac from the model, or record the program with `tracewire record`",
        },
    ),
    (
        b"inst: [",
        Refusal {
            producer: "a trace of Simics",
            why: "it has neither registers nor memory",
            instead: "write Tarmac, or run the program in QEMU with `tracewire qemu`",
        },
    ),
];

/// Why the beginning of a text is no trace, where it looks like something that is known.
#[must_use]
pub fn refusal(text: &[u8]) -> Option<Refusal> {
    let text = &text[..text.len().min(LOOK)];
    if let Some(why) = qemu_log::refusal(text) {
        return Some(Refusal {
            producer: "a log of QEMU",
            why,
            instead: qemu_log::RUN,
        });
    }
    (OTHERS.iter())
        .find(|(sign, _)| memchr::memmem::find(text, sign).is_some())
        .map(|(_, refusal)| *refusal)
}

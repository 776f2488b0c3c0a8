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

/// How files of known producers begin of which no trace can be made.
const BEGINNINGS: &[(&[u8], Refusal)] = &[
    (b"PERFILE2", PERF_DATA),
    // Of a machine with the other byte order.
    (b"2ELIFREP", PERF_DATA),
    (
        b"\x17\x08\x44tracing",
        Refusal {
            producer: "trace.dat of trace-cmd",
            why: "it has events of the kernel, and no instructions",
            instead: "record the program with `tracewire record`",
        },
    ),
    (
        b"O3PipeView:",
        Refusal {
            producer: "gem5's O3PipeView",
            why: "it has the stages of a pipeline, and neither registers nor memory",
            instead: "run gem5 with: --debug-flags=ExecAll --debug-file=FILE",
        },
    ),
    (
        b"Kanata\t",
        Refusal {
            producer: "a log for Konata",
            why: "it has the stages of a pipeline, and neither registers nor memory",
            instead: "have the simulator write Tarmac, or the text of Ibex's tracer",
        },
    ),
];

const PERF_DATA: Refusal = Refusal {
    producer: "perf.data",
    why: "what it means depends on the files of the machine that recorded it, which `perf` knows",
    instead: "run: perf script --insn-trace -F +insn > FILE for Intel PT, perf script --itrace=b > FILE for branches, or perf script > FILE for samples",
};

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
    if let Some((_, refusal)) = BEGINNINGS.iter().find(|(sign, _)| text.starts_with(sign)) {
        return Some(*refusal);
    }
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

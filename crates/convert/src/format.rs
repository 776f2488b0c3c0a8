//! The formats, and how one is given from a file.

use std::fmt;
use std::path::Path;

use tracewire_tracefile::HEADER;
use tracewire_tracefile::lean::is_lean;

use crate::execution::TextForm;

/// A format that is written. Of trace files, the first two are also read. `tracewire-export` writes those of profilers and observability tools.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Format {
    /// GDB's trace file. Of an execution trace a frame for each instruction.
    TraceFile,
    /// JSON lines: everything that is in a trace file, so that it can be had back byte for byte. Of an execution trace
    /// an object for each instruction.
    JsonLines,
    /// Comma-separated values: a line a frame, chosen columns.
    Csv,
    /// Common Trace Format 1.8: a directory, for babeltrace2 and Trace Compass.
    Ctf,
    /// The JSON trace event format of Chrome, which Perfetto opens too.
    Chrome,
    /// Perfetto's own format, protocol buffers.
    Perfetto,
    /// The OpenTelemetry protocol as JSON, a message a line.
    Otlp,
    /// The processed profile format of the Firefox Profiler.
    Firefox,
    /// Stacks as lines for flame graphs.
    Folded,
    /// The compact form of an execution trace, which has an index in it.
    Compact,
    /// The text of an execution trace, byte for byte as it was.
    Text,
    /// QEMU4V, MicroTESK or Tarmac text.
    Lines(TextForm),
    /// Value change dump (IEEE 1364), for wave form viewers such as GTKWave.
    Vcd,
}

/// The input of a conversion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// A trace file.
    TraceFile,
    /// An execution trace.
    Execution,
}

/// The endings of file names; the first match counts.
const ENDINGS: [(&str, Format); 26] = [
    (".trace.json", Format::Chrome),
    (".chrome.json", Format::Chrome),
    (".perfetto.json", Format::Chrome),
    (".perfetto-trace", Format::Perfetto),
    (".pftrace", Format::Perfetto),
    (".perfetto", Format::Perfetto),
    (".otlp.json", Format::Otlp),
    (".otlp.jsonl", Format::Otlp),
    (".firefox.json", Format::Firefox),
    (".folded", Format::Folded),
    (".jsonl", Format::JsonLines),
    (".ndjson", Format::JsonLines),
    (".json", Format::JsonLines),
    (".csv", Format::Csv),
    (".ctf", Format::Ctf),
    ("/", Format::Ctf),
    (".tf", Format::TraceFile),
    (".tfile", Format::TraceFile),
    (".gdbtrace", Format::TraceFile),
    (".vcd", Format::Vcd),
    (".twx", Format::Compact),
    (".qemu4v", Format::Lines(TextForm::Qemu4v)),
    (".microtesk", Format::Lines(TextForm::Microtesk)),
    (".tarmac", Format::Lines(TextForm::Tarmac)),
    (".trace", Format::Text),
    (".txt", Format::Text),
];

impl Source {
    /// The output formats, in the order in which help lists them.
    #[must_use]
    pub const fn formats(self) -> &'static [Format] {
        match self {
            Self::TraceFile => &[
                Format::TraceFile,
                Format::JsonLines,
                Format::Csv,
                Format::Ctf,
                Format::Chrome,
                Format::Perfetto,
                Format::Otlp,
                Format::Firefox,
                Format::Folded,
            ],
            Self::Execution => &[
                Format::Compact,
                Format::Text,
                Format::Lines(TextForm::Qemu4v),
                Format::Lines(TextForm::Microtesk),
                Format::Lines(TextForm::Tarmac),
                Format::JsonLines,
                Format::Vcd,
                Format::Chrome,
                Format::TraceFile,
            ],
        }
    }

    /// The format of this name on the command line.
    ///
    /// # Errors
    /// When the source is not converted to such a format.
    pub fn format(self, name: &str) -> Result<Format, UnknownFormat> {
        let mut formats = self.formats().iter().copied();
        formats
            .find(|format| format.name() == name)
            .ok_or_else(|| UnknownFormat {
                name: name.to_owned(),
                expected: self,
            })
    }

    /// The format for a file name's ending, in upper or lower case. `.trace` is a trace file or the text of an execution trace,
    /// like the source.
    ///
    /// An existing directory means CTF too; the caller checks it.
    #[must_use]
    pub fn format_of(self, name: &Path) -> Option<Format> {
        let name = name.as_os_str().to_string_lossy().to_ascii_lowercase();
        ENDINGS
            .iter()
            .filter(|(ending, _)| name.ends_with(ending))
            .map(|(_, format)| match (self, format) {
                (Self::TraceFile, Format::Text) if name.ends_with(".trace") => Format::TraceFile,
                _ => *format,
            })
            .next()
            .filter(|format| self.formats().contains(format))
    }
}

impl Format {
    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::TraceFile => "tf",
            Self::JsonLines => "jsonl",
            Self::Csv => "csv",
            Self::Ctf => "ctf",
            Self::Chrome => "chrome",
            Self::Perfetto => "perfetto",
            Self::Otlp => "otlp",
            Self::Firefox => "firefox",
            Self::Folded => "folded",
            Self::Compact => "twx",
            Self::Text => "text",
            Self::Lines(TextForm::Qemu4v) => "qemu4v",
            Self::Lines(TextForm::Microtesk) => "microtesk",
            Self::Lines(TextForm::Tarmac) => "tarmac",
            Self::Vcd => "vcd",
        }
    }

    /// The format of a file that a trace file can be read from, by its first bytes: the header of a trace file or of a lean recording, or the `{`
    /// of the first JSON line.
    #[must_use]
    pub fn from_content(start: &[u8]) -> Option<Self> {
        if start.starts_with(HEADER) || is_lean(start) {
            return Some(Self::TraceFile);
        }
        (start.trim_ascii_start().first() == Some(&b'{')).then_some(Self::JsonLines)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that no format of the source has.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("unknown format `{name}`: expected {}", list(.expected.formats()))]
pub struct UnknownFormat {
    /// The name.
    pub name: String,
    /// The input for which a format was expected.
    pub expected: Source,
}

fn list(formats: &[Format]) -> String {
    let names: Vec<&str> = formats.iter().map(|format| format.name()).collect();
    match names.split_last() {
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_ending_counts() {
        let of = |source: Source, name: &str| source.format_of(Path::new(name)).map(Format::name);
        for (name, file, execution) in [
            ("run.tf", Some("tf"), Some("tf")),
            ("run.TRACE", Some("tf"), Some("text")),
            ("run.trace.json", Some("chrome"), Some("chrome")),
            ("run.perfetto.json", Some("chrome"), Some("chrome")),
            ("run.perfetto-trace", Some("perfetto"), None),
            ("run.pftrace", Some("perfetto"), None),
            ("run.otlp.json", Some("otlp"), None),
            ("run.firefox.json", Some("firefox"), None),
            ("run.folded", Some("folded"), None),
            ("run.json", Some("jsonl"), Some("jsonl")),
            ("run.jsonl", Some("jsonl"), Some("jsonl")),
            ("out/run.ctf", Some("ctf"), None),
            ("out/", Some("ctf"), None),
            ("run.csv", Some("csv"), None),
            ("run.twx", None, Some("twx")),
            ("run.vcd", None, Some("vcd")),
            ("run.txt", None, Some("text")),
            ("run", None, None),
        ] {
            assert_eq!(of(Source::TraceFile, name), file, "{name}");
            assert_eq!(of(Source::Execution, name), execution, "{name}");
        }
    }

    #[test]
    fn names_are_read_back() {
        for source in [Source::TraceFile, Source::Execution] {
            for format in source.formats() {
                assert_eq!(source.format(format.name()), Ok(*format));
            }
        }
        let error = Source::TraceFile.format("xml").expect_err("it is none");
        assert_eq!(
            error.to_string(),
            "unknown format `xml`: expected tf, jsonl, csv, ctf, chrome, perfetto, otlp, firefox or folded"
        );
    }
}

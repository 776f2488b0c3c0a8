//! The formats, and how one is told from a file.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use tracewire_tracefile::HEADER;

/// A format that trace files are converted to; the first two also from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Format {
    /// GDB's trace file.
    TraceFile,
    /// JSON lines: everything that is in a trace file, so that it can be had back byte for byte.
    JsonLines,
    /// Comma-separated values: a line a frame, chosen columns.
    Csv,
    /// Common Trace Format 1.8: a directory, for babeltrace2 and Trace Compass.
    Ctf,
    /// The JSON trace event format of Chrome, which Perfetto opens too.
    Chrome,
}

/// What a name ends with; the first that fits counts.
const ENDINGS: [(&str, Format); 13] = [
    (".trace.json", Format::Chrome),
    (".chrome.json", Format::Chrome),
    (".perfetto.json", Format::Chrome),
    (".jsonl", Format::JsonLines),
    (".ndjson", Format::JsonLines),
    (".json", Format::JsonLines),
    (".csv", Format::Csv),
    (".ctf", Format::Ctf),
    ("/", Format::Ctf),
    (".tf", Format::TraceFile),
    (".tfile", Format::TraceFile),
    (".trace", Format::TraceFile),
    (".gdbtrace", Format::TraceFile),
];

impl Format {
    /// Every format, in the order in which help lists them.
    pub const ALL: &'static [Self] = &[
        Self::TraceFile,
        Self::JsonLines,
        Self::Csv,
        Self::Ctf,
        Self::Chrome,
    ];

    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::TraceFile => "tf",
            Self::JsonLines => "jsonl",
            Self::Csv => "csv",
            Self::Ctf => "ctf",
            Self::Chrome => "chrome",
        }
    }

    /// The format that a name asks for, upper or lower case:
    ///
    /// | name ends with | format |
    /// |---|---|
    /// | `.tf` `.tfile` `.trace` `.gdbtrace` | trace file |
    /// | `.trace.json` `.chrome.json` `.perfetto.json` | Chrome |
    /// | `.jsonl` `.ndjson`, any other `.json` | JSON lines |
    /// | `.csv` | CSV |
    /// | `.ctf`, `/` | CTF |
    ///
    /// A directory that is there means CTF too; that is the caller's to see.
    #[must_use]
    pub fn from_name(name: &Path) -> Option<Self> {
        let name = name.as_os_str().to_string_lossy().to_ascii_lowercase();
        ENDINGS
            .iter()
            .find(|(ending, _)| name.ends_with(ending))
            .map(|(_, format)| *format)
    }

    /// The format of a file that can be read, from its first bytes: a trace file's header, or the `{` of the first
    /// JSON line.
    #[must_use]
    pub fn from_content(start: &[u8]) -> Option<Self> {
        if start.starts_with(HEADER) {
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

/// A name that no format has.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("unknown format `{0}`: expected tf, jsonl, csv, ctf or chrome")]
pub struct UnknownFormat(pub String);

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .iter()
            .copied()
            .find(|format| format.name() == name)
            .ok_or_else(|| UnknownFormat(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_ending_counts() {
        let of = |name: &str| Format::from_name(Path::new(name)).map(Format::name);
        assert_eq!(of("run.tf"), Some("tf"));
        assert_eq!(of("run.TRACE"), Some("tf"));
        assert_eq!(of("run.trace.json"), Some("chrome"));
        assert_eq!(of("run.json"), Some("jsonl"));
        assert_eq!(of("run.jsonl"), Some("jsonl"));
        assert_eq!(of("out/run.ctf"), Some("ctf"));
        assert_eq!(of("out/"), Some("ctf"));
        assert_eq!(of("run.csv"), Some("csv"));
        assert_eq!(of("run"), None);
    }

    #[test]
    fn names_are_read_back() {
        for format in Format::ALL {
            assert_eq!(format.name().parse(), Ok(*format));
        }
        assert!("xml".parse::<Format>().is_err());
    }
}

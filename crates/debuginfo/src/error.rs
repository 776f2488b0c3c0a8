//! Errors of program files and locations.

use std::path::PathBuf;

/// A program file that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SymbolError {
    /// The file cannot be read.
    #[error("cannot read {}: {reason}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// The system's reason.
        reason: std::io::Error,
    },
    /// The file is not an ELF file that Tracewire can use.
    #[error("{}: {reason}", path.display())]
    NotUsable {
        /// Which file.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// The debug information is damaged where it was needed.
    #[error("{}: damaged debug information: {reason}", path.display())]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// The reason, with its place.
        reason: String,
    },
}

/// A location that does not resolve.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LocationError {
    /// The text is not a location.
    #[error("`{location}` is not a location: {reason}")]
    Syntax {
        /// The text given.
        location: String,
        /// The reason.
        reason: String,
    },
    /// No module has a function of that name: it may come with a library that is opened later.
    #[error("function \"{name}\" is not defined in {searched}{}", suggestion(near))]
    NoFunction {
        /// The name looked for.
        name: String,
        /// Where it was looked for.
        searched: String,
        /// Names that are close to it, best first.
        near: Vec<String>,
    },
    /// No function is one of a pattern: it may come with a library that is opened later.
    #[error("no function matches `{pattern}` in {searched}")]
    NoMatch {
        /// The pattern.
        pattern: String,
        /// Where it was looked for.
        searched: String,
    },
    /// Every call of the function was inlined, where functions that are called are asked for: a library may have one that is
    /// called.
    #[error("`{name}` is not called: the compiler has put copies of it into its callers")]
    OnlyInlined {
        /// The name or the pattern.
        name: String,
    },
    /// The location names a line, an address or a probe, where functions are asked for.
    #[error("`{location}` names a place: name a function, or a pattern such as Cart::*")]
    NotFunctions {
        /// The location.
        location: String,
    },
    /// A part of a function that is entered only by jumps from within the function.
    #[error(
        "`{name}` is a part of `{function}`, and no function that is called; trace `{function}`"
    )]
    PartOfFunction {
        /// The name of the part.
        name: String,
        /// The name of the function.
        function: String,
    },
    /// The function is a GNU indirect function: its implementation is selected while the program runs.
    #[error(
        "\"{name}\" is selected from several implementations when a program first needs it (a GNU indirect function)"
    )]
    IndirectFunction {
        /// The name.
        name: String,
    },
    /// No module has a source file of that name: it may come with a library that is opened later.
    #[error(
        "no source file or module named {name} in {searched}{}",
        suggestion(near)
    )]
    NoFile {
        /// The name looked for.
        name: String,
        /// Where it was looked for.
        searched: String,
        /// Names that are close to it, best first.
        near: Vec<String>,
    },
    /// The file is known, but there is no code at the line or after it.
    #[error("no line {line} in file \"{file}\"")]
    NoLine {
        /// The file.
        file: String,
        /// The requested line.
        line: u64,
    },
    /// The file is known, but has no such function.
    #[error("function \"{name}\" is not defined in \"{file}\"{}", suggestion(near))]
    NoFunctionInFile {
        /// The name looked for.
        name: String,
        /// The file.
        file: String,
        /// Names that are close to it, best first.
        near: Vec<String>,
    },
    /// A line number without a file, and there is no default file.
    #[error("line {line} of which file? say FILE:{line}")]
    NoDefaultFile {
        /// The requested line.
        line: u64,
    },
    /// No module has a marker of that name: it may come with a library that is opened later.
    #[error("no marker `{name}` in {searched}{}", suggestion(near))]
    NoMarker {
        /// The name looked for.
        name: String,
        /// Where it was looked for.
        searched: String,
        /// Names that are close to it, best first.
        near: Vec<String>,
    },
}

impl LocationError {
    /// Whether the location may resolve once another module is there, so that a tracepoint can wait for it.
    #[must_use]
    pub const fn may_come_later(&self) -> bool {
        matches!(
            self,
            Self::NoFunction { .. }
                | Self::NoMatch { .. }
                | Self::OnlyInlined { .. }
                | Self::NoFile { .. }
                | Self::NoMarker { .. }
                | Self::IndirectFunction { .. }
        )
    }
}

/// "; did you mean a, b?", or nothing.
fn suggestion(near: &[String]) -> String {
    if near.is_empty() {
        String::new()
    } else {
        format!("; did you mean {}?", near.join(", "))
    }
}

//! Programs that a test builds.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::tools::tool;

/// A compiler, its options, and its sources.
#[derive(Clone, Debug)]
pub struct Cc {
    compiler: String,
    options: Vec<OsString>,
    sources: Vec<PathBuf>,
    text: Option<(String, String)>,
}

impl Default for Cc {
    fn default() -> Self {
        Self::new()
    }
}

impl Cc {
    /// The machine's C compiler, with `-g`.
    #[must_use]
    pub fn new() -> Self {
        Self::of("cc").option("-g")
    }

    /// The machine's C++ compiler, with `-g`.
    #[must_use]
    pub fn cpp() -> Self {
        Self::of("c++").option("-g")
    }

    /// A compiler by name, without options.
    #[must_use]
    pub fn of(compiler: &str) -> Self {
        Self {
            compiler: compiler.to_owned(),
            options: Vec::new(),
            sources: Vec::new(),
            text: None,
        }
    }

    /// Adds an option. Options follow the sources on the command line, so that libraries may be among them.
    #[must_use]
    pub fn option(mut self, option: impl Into<OsString>) -> Self {
        self.options.push(option.into());
        self
    }

    /// Adds options.
    #[must_use]
    pub fn options<O: Into<OsString> + Clone>(mut self, options: &[O]) -> Self {
        self.options.extend(options.iter().cloned().map(Into::into));
        self
    }

    /// Adds a source file.
    #[must_use]
    pub fn source(mut self, path: impl Into<PathBuf>) -> Self {
        self.sources.push(path.into());
        self
    }

    /// A source text instead of a file; it is written beside the program as `NAME.c`.
    #[must_use]
    pub fn text(self, text: &str) -> Self {
        self.text_as("c", text)
    }

    /// A source text in another language, by the extension of its files.
    #[must_use]
    pub fn text_as(mut self, extension: &str, text: &str) -> Self {
        self.text = Some((extension.to_owned(), text.to_owned()));
        self
    }

    /// As [`build`](Self::build), with the name of the first source file, without its extension.
    ///
    /// # Panics
    /// As `build`, and when there is no source file or its name is not UTF-8.
    #[track_caller]
    pub fn build_in(&self, directory: &Path) -> PathBuf {
        let source = self.sources.first().and_then(|source| source.file_stem());
        let name = source.and_then(|name| name.to_str());
        self.build(directory, name.expect("a source file with a name"))
    }

    /// Builds the program `name` in a directory, which is also the working directory of the compiler.
    ///
    /// # Panics
    /// When the compiler is not installed or refuses the source, with its messages.
    #[track_caller]
    pub fn build(&self, directory: &Path, name: &str) -> PathBuf {
        let program = directory.join(name);
        let mut command = tool(&self.compiler);
        command.current_dir(directory).arg("-o").arg(&program);
        if let Some((extension, text)) = &self.text {
            let source = directory.join(format!("{name}.{extension}"));
            std::fs::write(&source, text).expect("the source is written");
            command.arg(source);
        }
        command.args(&self.sources).args(&self.options);
        let output = command
            .output()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command:?}: {said}");
        program
    }
}

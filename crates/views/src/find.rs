//! Which frames are looked for.

use tracewire_expr::ExpressionError;
use tracewire_model::{Address, FrameNumber, TracepointNumber};
use tracewire_tracefile::{Frame, Search, TraceFile};

use crate::condition::Condition;
use crate::frame::Viewer;
use crate::program::Program;

/// The conditions of a search; a frame must meet all that are given.
#[derive(Clone, Debug, Default)]
pub struct Criteria {
    /// By program counter or tracepoint.
    pub searches: Vec<Search>,
    /// With a program counter that is one of these.
    pub places: Option<Vec<Address>>,
    /// In the code of a source line.
    pub line: Option<LineCriterion>,
    /// An expression that is true.
    pub condition: Option<String>,
}

/// `FILE:N`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LineCriterion {
    /// The file, by its name or the end of its path.
    pub file: String,
    /// The line.
    pub line: u64,
}

/// Why a search cannot be made.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FindError {
    /// Not `FILE:N`.
    #[error("`{0}` is no source line: expected FILE:N, such as main.c:14")]
    Line(String),
    /// No symbols to find a line with.
    #[error(
        "source lines need the program's symbols, and there are none: name the program with --elf"
    )]
    NoSymbols,
    /// No unit was compiled from such a file.
    #[error("no source file named {file} in the program{}", suggestion(near))]
    NoFile {
        /// The name looked for.
        file: String,
        /// Names of files that end in the same way or are similar.
        near: Vec<String>,
    },
    /// The expression is none.
    #[error("--where: {error}\n{}", error.underlined())]
    Condition {
        /// The error.
        error: ExpressionError,
    },
}

fn suggestion(near: &[String]) -> String {
    if near.is_empty() {
        String::new()
    } else {
        format!("; did you mean {}?", near.join(" or "))
    }
}

impl LineCriterion {
    /// Reads `FILE:N`.
    ///
    /// # Errors
    /// When it is something else.
    pub fn parse(text: &str) -> Result<Self, FindError> {
        let parts = text.rsplit_once(':');
        let parts = parts.and_then(|(file, line)| Some((file, line.parse().ok()?)));
        match parts {
            Some((file, line)) if !file.is_empty() => Ok(Self {
                file: file.to_owned(),
                line,
            }),
            _ => Err(FindError::Line(text.to_owned())),
        }
    }

    /// Makes sure that the program has such a file.
    ///
    /// # Errors
    /// When it has not.
    pub fn check(&self, program: &Program) -> Result<(), FindError> {
        if program.is_empty() {
            return Err(FindError::NoSymbols);
        }
        let files = program.files();
        if files.iter().any(|file| is_file(file, &self.file)) {
            return Ok(());
        }
        let wanted = base_name(&self.file).to_lowercase();
        let mut near: Vec<String> = files
            .iter()
            .map(|file| base_name(file))
            .filter(|name| {
                let name = name.to_lowercase();
                name.starts_with(wanted.as_str()) || wanted.starts_with(&*name) || {
                    name.split('.').next() == wanted.split('.').next()
                }
            })
            .map(str::to_owned)
            .collect();
        near.sort();
        near.dedup();
        near.truncate(3);
        Err(FindError::NoFile {
            file: self.file.clone(),
            near,
        })
    }
}

/// Whether a file of the program is meant by a name: the name itself, or the end of its path.
fn is_file(file: &str, name: &str) -> bool {
    file == name
        || file
            .strip_suffix(name)
            .is_some_and(|rest| rest.ends_with('/'))
        || name
            .strip_prefix("./")
            .is_some_and(|name| is_file(file, name))
}

fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

impl Criteria {
    /// Adds a search for a program counter from `a` to `b`, or outside of that.
    pub fn range(&mut self, a: u64, b: u64, outside: bool) {
        let (start, end) = (Address(a), Address(b));
        self.searches.push(match outside {
            false => Search::Range { start, end },
            true => Search::Outside { start, end },
        });
    }

    /// Adds a search for a tracepoint's frames.
    pub fn tracepoint(&mut self, number: i32) {
        self.searches
            .push(Search::Tracepoint(TracepointNumber(number)));
    }

    /// The frames from `from` on that are looked for, in the file's order.
    pub fn find<'a, 'v>(&'v self, viewer: &'v Viewer<'a>, from: FrameNumber) -> Matches<'a, 'v> {
        Matches {
            frames: self.candidates(viewer.file(), from),
            matcher: self.matcher(),
            viewer,
        }
    }

    /// The frames from `from` on that may be looked for, in the file's order: the others need not be looked at.
    pub fn candidates<'a: 'v, 'v>(
        &'v self,
        file: &'a TraceFile,
        from: FrameNumber,
    ) -> Box<dyn Iterator<Item = Frame<'a>> + 'v> {
        match self.searches.first() {
            // The trace file's own search uses its index, and reads only matching frames.
            Some(search) => {
                Box::new(file.find_all(*search, from.0.checked_sub(1).map(FrameNumber)))
            }
            None => Box::new(
                (from.0..file.frame_count()).filter_map(|number| file.frame(FrameNumber(number))),
            ),
        }
    }

    /// Looks at frames, in several threads if need be.
    #[must_use]
    pub fn matcher(&self) -> Matcher<'_> {
        Matcher {
            criteria: self,
            condition: Condition::new(self.condition.as_deref()),
        }
    }
}

/// Says of each frame whether it is looked for.
#[derive(Debug)]
pub struct Matcher<'c> {
    criteria: &'c Criteria,
    condition: Condition<'c>,
}

impl Matcher<'_> {
    /// Why the condition could not be worked out, where it could be for none of the frames so far.
    #[must_use]
    pub fn unknown(&self) -> Option<ExpressionError> {
        self.condition.unknown()
    }

    /// Whether a frame is looked for.
    ///
    /// # Errors
    /// When the condition is no expression in any language.
    pub fn is_match<'a>(&self, viewer: &Viewer<'a>, frame: Frame<'a>) -> Result<bool, FindError> {
        let Criteria {
            searches,
            places,
            line,
            condition: _,
        } = self.criteria;
        if !searches.iter().all(|search| search.matches(&frame)) {
            return Ok(false);
        }
        let is_at = |place: &Address| Search::ProgramCounter(*place).matches(&frame);
        if places
            .as_ref()
            .is_some_and(|places| !places.iter().any(is_at))
        {
            return Ok(false);
        }
        if let Some(line) = line {
            let place = viewer.place(frame);
            let here = place.is_some_and(|place| {
                place.line == line.line && place.file.is_some_and(|file| is_file(&file, &line.file))
            });
            if !here {
                return Ok(false);
            }
        }
        // A span is found by each of its frames, and by the one that lists have where its values are looked at.
        match self.condition.is_given() {
            true => self.condition.fits(viewer, frame),
            false => Ok(true),
        }
    }
}

/// The matching frames, found as they are requested.
pub struct Matches<'a, 'v> {
    matcher: Matcher<'v>,
    viewer: &'v Viewer<'a>,
    frames: Box<dyn Iterator<Item = Frame<'a>> + 'v>,
}

impl Matches<'_, '_> {
    /// As [`Matcher::unknown`].
    #[must_use]
    pub fn unknown(&self) -> Option<ExpressionError> {
        self.matcher.unknown()
    }
}

impl<'a> Iterator for Matches<'a, '_> {
    type Item = Result<Frame<'a>, FindError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let frame = self.frames.next()?;
            match self.matcher.is_match(self.viewer, frame) {
                Ok(true) => return Some(Ok(frame)),
                Ok(false) => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let line = LineCriterion::parse("dir/sample.c:14");
        let expected = LineCriterion {
            file: "dir/sample.c".to_owned(),
            line: 14,
        };
        assert_eq!(line, Ok(expected));
        assert!(LineCriterion::parse("sample.c").is_err());
        assert!(LineCriterion::parse(":3").is_err());
        assert!(is_file("./sample.c", "sample.c"));
        assert!(is_file("/a/b/sample.c", "b/sample.c"));
        assert!(is_file("sample.c", "./sample.c"));
        assert!(!is_file("mysample.c", "sample.c"));
    }
}

//! What an administrator allows to be recorded: programs, users and functions.

use std::fmt;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::unistd::{Uid, User};
use serde::Deserialize;
use tracewire_model::{SpanPoint, ThreadId, fits};
use tracewire_script::Placed;

/// What may be recorded. A name that fits a pattern of `deny` may not be. Where there is a list `allow`, nor may one that fits none of
/// its patterns. In a pattern, `*` means any characters and `?` for one.
///
/// A policy binds Tracewire alone: who has the rights to trace a process can do so with another program.
///
/// ```
/// use tracewire_recorder::Policy;
///
/// let policy = Policy::parse(
///     r#"
///     [programs]
///     allow = ["/usr/sbin/nginx", "/srv/*"]
///     [functions]
///     deny = ["*password*"]
///     "#,
/// )?;
/// assert!(!policy.allows_debuggers());
/// # Ok::<(), tracewire_recorder::PolicyError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    programs: Rules,
    users: Rules,
    functions: Rules,
    debuggers: bool,
    audit: Option<String>,
}

/// The names that may be, and those that may not.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Rules {
    allow: Option<Vec<String>>,
    deny: Vec<String>,
}

impl Rules {
    fn allow(&self, names: &[&[u8]]) -> bool {
        let is_one_of = |patterns: &[String]| {
            let mut patterns = patterns.iter();
            patterns.any(|pattern| names.iter().any(|name| fits(pattern.as_bytes(), name)))
        };
        !is_one_of(&self.deny) && self.allow.as_deref().is_none_or(is_one_of)
    }
}

/// A text that is no policy.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(transparent)]
pub struct PolicyError(#[from] toml::de::Error);

/// What a policy forbids.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Denied {
    /// A program.
    Program(PathBuf),
    /// The processes of a user.
    User(String),
    /// A function; none where the function of a place is not known.
    Function(Option<String>),
    /// A process whose program or user cannot be read.
    Unknown(ThreadId),
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Program(program) => {
                write!(f, "the program {} may not be recorded", program.display())
            }
            Self::User(user) => write!(f, "processes of {user} may not be recorded"),
            Self::Function(Some(function)) => {
                write!(f, "the function {function} may not be recorded")
            }
            Self::Function(None) => {
                f.write_str("places outside known functions may not be recorded")
            }
            Self::Unknown(process) => {
                write!(
                    f,
                    "the program and the user of process {process} cannot be read"
                )
            }
        }?;
        f.write_str(": a policy of this machine forbids it")
    }
}

impl std::error::Error for Denied {}

impl Policy {
    /// Reads a policy: tables `programs` (patterns of paths), `users` (names or numbers of those whose rights a process has) and
    /// `functions` (patterns of qualified names), each with lists `allow` and `deny`; `debuggers`, whether a debugger may be served,
    /// which sees and changes everything; and `audit`, where a log goes.
    ///
    /// # Errors
    /// When it is not TOML, or has anything else.
    pub fn parse(text: &str) -> Result<Self, PolicyError> {
        Ok(toml::from_str(text)?)
    }

    /// Whether a debugger may be served.
    #[must_use]
    pub const fn allows_debuggers(&self) -> bool {
        self.debuggers
    }

    /// Where a log of what is recorded goes: the name of a file, or `journal`.
    #[must_use]
    pub fn audit(&self) -> Option<&str> {
        self.audit.as_deref()
    }

    /// Whether a process may be recorded. It need not be traced by us.
    ///
    /// # Errors
    /// What forbids it.
    pub fn check_process(&self, process: ThreadId) -> Result<(), Denied> {
        if self.programs == Rules::default() && self.users == Rules::default() {
            return Ok(());
        }
        let program = fs::read_link(format!("/proc/{process}/exe"));
        let program = program.map_err(|_| Denied::Unknown(process))?;
        if !self.programs.allow(&[name_of(&program)]) {
            return Err(Denied::Program(program));
        }
        let status = fs::read_to_string(format!("/proc/{process}/status"));
        let status = status.map_err(|_| Denied::Unknown(process))?;
        let line = status.lines().find_map(|line| line.strip_prefix("Uid:"));
        let effective = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u32>().ok());
        let user = effective.ok_or(Denied::Unknown(process))?;
        let number = user.to_string();
        // A user without a name has a number.
        let known = User::from_uid(Uid::from_raw(user)).ok().flatten();
        let name = known.map_or_else(|| number.clone(), |known| known.name);
        if !self.users.allow(&[name.as_bytes(), number.as_bytes()]) {
            return Err(Denied::User(name));
        }
        Ok(())
    }

    /// Whether a tracepoint may be at a place.
    ///
    /// # Errors
    /// What forbids it.
    pub fn check_place(&self, placed: &Placed) -> Result<(), Denied> {
        if self.functions == Rules::default() {
            return Ok(());
        }
        // Where functions are left, only that is recorded: by which thread, and at which place of its stack.
        let span = placed.definition.source.span.as_deref();
        let point = span.and_then(|text| text.parse::<SpanPoint>().ok());
        if point.is_some_and(|point| point.role.is_departure()) {
            return Ok(());
        }
        let function = placed.location.function.clone();
        // A marker, or an indirect function, has a name of its own beside that of the code.
        let other = placed.location.selected_for.as_deref().map(str::as_bytes);
        let mut names: Vec<&[u8]> = function.as_deref().map(str::as_bytes).into_iter().collect();
        names.extend(other);
        let is_known = !names.is_empty() || self.functions.allow.is_none();
        if is_known && self.functions.allow(&names) {
            Ok(())
        } else {
            Err(Denied::Function(function))
        }
    }

    /// Whether the calls of a function may be followed.
    ///
    /// # Errors
    /// What forbids it.
    pub fn check_function(&self, name: &str) -> Result<(), Denied> {
        match self.functions.allow(&[name.as_bytes()]) {
            true => Ok(()),
            false => Err(Denied::Function(Some(name.to_owned()))),
        }
    }
}

/// A program's path as the rules mean it, also of a file that was deleted.
fn name_of(program: &Path) -> &[u8] {
    let name = program.as_os_str().as_bytes();
    name.strip_suffix(b" (deleted)").unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_no_list_is_allowed_only_without_lists() {
        let own = ThreadId(std::process::id());
        let program = std::env::current_exe().expect("our program");
        let program = program.to_str().expect("its name");
        let user = nix::unistd::geteuid();
        for (text, is_allowed) in [
            (String::new(), true),
            (format!("[programs]\nallow = [{program:?}]"), true),
            ("[programs]\nallow = [\"/*\"]".to_owned(), true),
            ("[programs]\nallow = []".to_owned(), false),
            (format!("[programs]\ndeny = [{program:?}]"), false),
            (
                format!("[programs]\nallow = [\"*\"]\ndeny = [{program:?}]"),
                false,
            ),
            (format!("[users]\nallow = [\"{user}\"]"), true),
            (format!("[users]\ndeny = [\"{user}\"]"), false),
            ("[users]\nallow = [\"no-such-user\"]".to_owned(), false),
        ] {
            let policy = Policy::parse(&text).expect("a policy");
            assert_eq!(policy.check_process(own).is_ok(), is_allowed, "{text}");
        }
    }

    #[test]
    fn what_is_misspelt_is_no_policy() {
        for text in [
            "[program]\nallow = []",
            "[programs]\nallows = []",
            "audit = 1",
            "debuggers = \"no\"",
            "[",
        ] {
            assert!(Policy::parse(text).is_err(), "{text}");
        }
    }
}

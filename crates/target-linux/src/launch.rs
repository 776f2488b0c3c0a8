//! How a program is started: its arguments, its environment, and the programs that execute it.

use std::collections::BTreeMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::spawn::Surroundings;

/// A program to be started, with a debugger's options.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Launch {
    /// The program: a path, the name of a file in the current directory, or a name to be looked up in `PATH`.
    pub program: OsString,
    /// Its arguments, passed on unchanged.
    pub arguments: Vec<OsString>,
    /// What it shares with the tracer.
    pub surroundings: Surroundings,
    /// Environment variables that are set differently from ours, or unset (`None`).
    pub environment: BTreeMap<OsString, Option<OsString>>,
    /// Its working directory; `None` for ours.
    pub directory: Option<PathBuf>,
    /// Whether a shell (`SHELL`, or `/bin/sh`) executes it. The shell reads its own settings first.
    pub shell: bool,
    /// A program that executes it, with the arguments of that program.
    pub wrapper: Vec<OsString>,
    /// Whether its addresses are chosen at random.
    pub randomized: bool,
    /// Whether it is killed when its tracer is: it would hit a breakpoint that no tracer removes.
    pub ends_with_tracer: bool,
}

impl Launch {
    /// A program without further options, as a shell would start it.
    #[must_use]
    pub fn new(program: impl Into<OsString>, arguments: Vec<OsString>) -> Self {
        Self {
            program: program.into(),
            arguments,
            surroundings: Surroundings::Ours,
            environment: BTreeMap::new(),
            directory: None,
            shell: false,
            wrapper: Vec::new(),
            randomized: true,
            ends_with_tracer: false,
        }
    }

    /// The program's path: absolute for a name without a slash that is a file in the current directory.
    #[must_use]
    pub fn path(&self) -> OsString {
        if self.program.as_bytes().contains(&b'/') || !Path::new(&self.program).is_file() {
            return self.program.clone();
        }
        match env::current_dir() {
            Ok(directory) => directory.join(&self.program).into_os_string(),
            Err(_) => Path::new(".").join(&self.program).into_os_string(),
        }
    }

    /// The command to execute, with its arguments. The number is how many programs are executed in turn until the
    /// requested one.
    pub(crate) fn command(&self) -> Result<(OsString, Vec<OsString>, usize), Error> {
        let program = self.path();
        let wrapped = usize::from(!self.wrapper.is_empty());
        if !self.shell {
            let mut words = self
                .wrapper
                .iter()
                .chain(std::iter::once(&program))
                .chain(&self.arguments)
                .cloned();
            let first = words.next().unwrap_or_default();
            return Ok((first, words.collect(), 1 + wrapped));
        }
        if wrapped == 0 {
            // A shell's message about a missing program is less helpful.
            exists(&program)?;
        }
        let mut line = OsString::from("exec ");
        for word in &self.wrapper {
            // The shell interprets these, as in gdbserver.
            line.push(word);
            line.push(" ");
        }
        line.push(quoted(&program));
        for argument in &self.arguments {
            line.push(" ");
            line.push(quoted(argument));
        }
        let shell = env::var_os("SHELL")
            .filter(|shell| !shell.is_empty())
            .unwrap_or_else(|| "/bin/sh".into());
        Ok((shell, vec!["-c".into(), line], 2 + wrapped))
    }

    /// The environment, as `NAME=VALUE`.
    pub(crate) fn variables(&self) -> Vec<OsString> {
        let mut variables: BTreeMap<OsString, OsString> = BTreeMap::new();
        let mut order = Vec::new();
        for (name, value) in env::vars_os() {
            order.push(name.clone());
            variables.insert(name, value);
        }
        for (name, value) in &self.environment {
            match value {
                Some(value) => {
                    if variables.insert(name.clone(), value.clone()).is_none() {
                        order.push(name.clone());
                    }
                }
                None => {
                    variables.remove(name);
                }
            }
        }
        order
            .into_iter()
            .filter_map(|name| {
                let value = variables.get(&name)?;
                let mut word = name;
                word.push("=");
                word.push(value);
                Some(word)
            })
            .collect()
    }
}

/// Quotes a word for the shell.
fn quoted(word: &OsStr) -> OsString {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-+,:@%=".contains(byte);
    if !word.is_empty() && word.as_bytes().iter().all(plain) {
        return word.to_owned();
    }
    let mut quoted = b"'".to_vec();
    for byte in word.as_bytes() {
        match byte {
            b'\'' => quoted.extend_from_slice(b"'\\''"),
            byte => quoted.push(*byte),
        }
    }
    quoted.push(b'\'');
    OsStr::from_bytes(&quoted).to_owned()
}

/// Returns an error if there is no such file.
fn exists(program: &OsStr) -> Result<(), Error> {
    let found = if program.as_bytes().contains(&b'/') {
        Path::new(program).exists()
    } else {
        env::split_paths(&env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into()))
            .any(|directory| directory.join(program).exists())
    };
    if found && !program.is_empty() {
        Ok(())
    } else {
        Err(Error::NotFound(program.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_gives_the_very_words_on() {
        for word in [
            "plain",
            "",
            "two words",
            "it's",
            "$HOME `x` \"y\" \\ *\n",
            "'",
        ] {
            let output = std::process::Command::new("/bin/sh")
                .arg("-c")
                .arg({
                    let mut line = OsString::from("printf %s ");
                    line.push(quoted(OsStr::new(word)));
                    line
                })
                .output()
                .unwrap();
            assert_eq!(output.stdout, word.as_bytes());
        }
    }
}

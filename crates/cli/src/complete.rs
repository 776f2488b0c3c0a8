//! `complete`: the names that a shell offers for a tracepoint on its command line.
//!
//! The shell's function passes the whole line and the cursor position: the program whose names are wanted may come after it. A
//! shell splits words at characters that names contain (`::`), and replaces only the last part.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::{self, Write};

use clap::Args;
use tracewire_debuginfo::Symbols;
use tracewire_views::words;

use crate::answer::Answer;
use crate::debuginfod::DebuginfodArguments;
use crate::list::symbols_of;

/// The most names that are offered.
const MOST: usize = 1000;

/// Characters with a meaning in a shell, which get a backslash outside quotes.
const SPECIAL: &str = " \t!\"#$&'()*;<>?[\\]^`{|}~";

#[derive(Args, Debug)]
pub struct CompleteArguments {
    /// The command line
    #[arg(long, allow_hyphen_values = true)]
    line: String,
    /// Where the cursor is in it, in bytes
    #[arg(long)]
    point: usize,
    /// The part of the word before the cursor that the shell replaces
    #[arg(long, allow_hyphen_values = true, default_value = "")]
    word: String,
}

/// `complete`.
pub fn complete(arguments: &CompleteArguments) -> anyhow::Result<Answer> {
    let Some(request) = Request::of(&arguments.line, arguments.point) else {
        return Ok(Answer::No);
    };
    let Ok(symbols) = symbols_of(OsStr::new(&request.program), DebuginfodArguments::default())
    else {
        return Ok(Answer::No);
    };
    let mut output = io::BufWriter::new(io::stdout().lock());
    for name in names(&symbols, &request.name) {
        if let Some(shown) = request.shown(&name, &arguments.word) {
            writeln!(output, "{shown}")?;
        }
    }
    output.flush()?;
    Ok(Answer::Yes)
}

/// The word to complete.
#[derive(PartialEq, Eq, Debug)]
struct Request {
    /// The program or the process.
    program: String,
    /// The beginning of a name.
    name: String,
    quote: Option<char>,
}

impl Request {
    /// Reads a command line; none where the cursor is not at the name of a place in a program that the line names.
    fn of(line: &str, point: usize) -> Option<Self> {
        let before = line.get(..point)?;
        let (mut typed, quote) = split(before);
        let (all, _) = split(line);
        // After a blank a new word begins.
        if before.ends_with(char::is_whitespace) && quote.is_none() {
            typed.push(String::new());
        }
        let current = typed.pop()?;
        let command = typed.get(1)?;
        let name = match typed.last()?.as_str() {
            "-t" | "--tracepoint" if command == "record" => current,
            _ if command == "record" => current
                .strip_prefix("--tracepoint=")
                .or_else(|| current.strip_prefix("-t"))?
                .to_owned(),
            _ if command == "list"
                && typed.iter().skip(2).filter(|word| !is_option(word)).count() == 1 =>
            {
                current
            }
            _ => return None,
        };
        // Text after the name is no name.
        if name.contains(": ") || name.contains(" if ") || name.ends_with(char::is_whitespace) {
            return None;
        }
        let program = match command.as_str() {
            "list" => all.iter().skip(2).find(|word| !is_option(word))?.clone(),
            _ => program_of(&all)?,
        };
        Some(Self {
            program,
            name,
            quote,
        })
    }

    /// A name in the form in which it replaces `word`, with which the typed name ends.
    fn shown(&self, name: &str, word: &str) -> Option<String> {
        let word = word.trim_start_matches(['\'', '"']);
        let kept = self.name.len().checked_sub(word.len())?;
        let rest = if self.name.ends_with(word) {
            name.get(kept..)?
        } else {
            name
        };
        Some(match self.quote {
            Some(quote) if rest.contains(quote) => return None,
            Some('"') if rest.contains(['$', '`', '\\', '!']) => return None,
            Some(_) => rest.to_owned(),
            None => escaped(rest),
        })
    }
}

fn is_option(word: &str) -> bool {
    word.starts_with('-')
}

/// The process of `-p`, or the program after `--`.
fn program_of(words: &[String]) -> Option<String> {
    let end = words.iter().position(|word| word == "--");
    let options = words.get(..end.unwrap_or(words.len()))?;
    for (index, word) in options.iter().enumerate() {
        if matches!(word.as_str(), "-p" | "--pid") {
            return options.get(index + 1).cloned();
        }
        let given = word
            .strip_prefix("--pid=")
            .or_else(|| word.strip_prefix("-p"));
        if let Some(id) = given.filter(|id| id.parse::<u32>().is_ok()) {
            return Some(id.to_owned());
        }
    }
    words.get(end? + 1).cloned()
}

/// The words of a command line, and the quote that is open at its end.
fn split(line: &str) -> (Vec<String>, Option<char>) {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut escaped = false;
    for character in line.chars() {
        match (quote, character) {
            _ if escaped => {
                word.get_or_insert_default().push(character);
                escaped = false;
            }
            (None | Some('"'), '\\') => escaped = true,
            (Some(open), _) if character == open => quote = None,
            (Some(_), _) => word.get_or_insert_default().push(character),
            (None, '\'' | '"') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None, _) if character.is_whitespace() => words.extend(word.take()),
            (None, _) => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    (words, quote)
}

/// A text with a backslash before characters with a meaning in a shell.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if SPECIAL.contains(character) {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

/// The names of functions, source files and probes that begin so.
fn names(symbols: &Symbols, start: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let printable = |name: &String| words::printable(name) == *name;
    if let Some(probe) = start.strip_prefix("-m ") {
        let probes = symbols.markers().into_iter();
        let named = probes.map(|marker| format!("{}:{}", marker.provider, marker.name));
        let fitting = named
            .filter(|name| name.starts_with(probe))
            .filter(printable);
        found.extend(fitting.map(|name| format!("-m {name}")));
        return found;
    }
    for function in symbols.functions() {
        if function.is_label {
            continue;
        }
        let name = function.readable_name();
        // A name may begin with any of its parts.
        let parts = std::iter::once(0).chain(name.match_indices("::").map(|(at, _)| at + 2));
        let fitting = parts
            .filter_map(|at| name.get(at..))
            .find(|part| part.starts_with(start));
        found.extend(fitting.map(str::to_owned).filter(printable));
        if found.len() >= MOST {
            break;
        }
    }
    let files = symbols.files().into_iter();
    let files = files.map(|file| file.rsplit('/').next().unwrap_or(&file).to_owned());
    let fitting = files.filter(|file| !start.is_empty() && file.starts_with(start));
    found.extend(fitting.filter(printable).map(|file| format!("{file}:")));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(line: &str) -> Option<(String, String, Option<char>)> {
        let point = line.find('|').expect("a cursor");
        let found = Request::of(&line.replace('|', ""), point)?;
        Some((found.program, found.name, found.quote))
    }

    #[test]
    fn the_name_and_the_program_are_found() {
        let found =
            |program: &str, name: &str, quote| Some((program.to_owned(), name.to_owned(), quote));
        assert_eq!(
            request("tracewire record -p 12 -t ma|"),
            found("12", "ma", None)
        );
        assert_eq!(
            request("tracewire record -t 'shop::Ca|' -o x -- ./shop -p 3"),
            found("./shop", "shop::Ca", Some('\''))
        );
        assert_eq!(
            request("tracewire record -t | -- ls"),
            found("ls", "", None)
        );
        assert_eq!(
            request("tracewire list ./a\\ b ma|"),
            found("./a b", "ma", None)
        );
        assert_eq!(request("tracewire record -t 'main : a|' -p 1"), None);
        assert_eq!(request("tracewire record -o ma| -p 1"), None);
        assert_eq!(request("tracewire record -t ma|"), None);
        assert_eq!(request("tracewire list ma|"), None);
        assert_eq!(request("trace|"), None);
    }

    #[test]
    fn what_the_shell_replaces_is_given() {
        let request = |name: &str, quote| Request {
            program: String::new(),
            name: name.to_owned(),
            quote,
        };
        let plain = request("shop::Ca", None);
        assert_eq!(
            plain.shown("shop::Cart::add(int)", "Ca").as_deref(),
            Some("Cart::add\\(int\\)")
        );
        let quoted = request("shop::Ca", Some('\''));
        assert_eq!(
            quoted.shown("shop::Cart::add(int)", "shop::Ca").as_deref(),
            Some("shop::Cart::add(int)")
        );
        assert_eq!(request("a", Some('\'')).shown("a'b", "a"), None);
    }
}

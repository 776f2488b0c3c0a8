//! `cargo xtask prose`: checks the documents for sentences that are too long, links that lead nowhere, and paths of files that do
//! not exist.
//!
//! The documents are the pages at the root, those below `docs`, each crate's README, and each crate's documentation page.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::workspace;

/// The longest sentence, in words.
const LONGEST: usize = 30;

#[derive(clap::Args)]
pub struct Arguments {
    /// The workspace to look at
    #[arg(long, value_name = "DIRECTORY")]
    root: Option<PathBuf>,
}

/// Prints each fault of the documents; an error if there is one.
pub fn run(arguments: &Arguments) -> Result<()> {
    let root = arguments
        .root
        .clone()
        .unwrap_or_else(|| workspace::root().to_owned());
    let mut findings = Vec::new();
    for path in documents(&root)? {
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let is_code = path.extension().is_some_and(|extension| extension == "rs");
        let text = if is_code { front_page(&text) } else { text };
        let name = path.strip_prefix(&root).unwrap_or(&path).display();
        for paragraph in paragraphs(&text) {
            let line = paragraph.line;
            for sentence in sentences(&paragraph.text) {
                let words = count_words(&sentence);
                if words > LONGEST {
                    findings.push(format!("{name}:{line}: {words} words: {sentence}"));
                }
            }
            let paths = code_spans(&paragraph.text)
                .into_iter()
                .filter(|span| !source_exists(&root, span))
                .map(|span| format!("{name}:{line}: there is no {span}"));
            findings.extend(paths);
            if !is_code {
                let directory = path.parent().unwrap_or(&root);
                let links = links(&paragraph.text)
                    .into_iter()
                    .filter(|link| !link_leads_somewhere(directory, link))
                    .map(|link| format!("{name}:{line}: {link} leads nowhere"));
                findings.extend(links);
            }
        }
    }
    for finding in &findings {
        eprintln!("{finding}");
    }
    match findings.len() {
        0 => Ok(()),
        count => bail!("the documents have {count} faults"),
    }
}

fn documents(root: &Path) -> Result<Vec<PathBuf>> {
    let mut documents = Vec::new();
    let is_page = |path: &Path| path.extension().is_some_and(|extension| extension == "md");
    let entries = |directory: &Path| -> Result<Vec<PathBuf>> {
        let mut paths = Vec::new();
        if directory.is_dir() {
            for entry in fs::read_dir(directory)? {
                paths.push(entry?.path());
            }
        }
        paths.sort();
        Ok(paths)
    };
    documents.extend(entries(root)?.into_iter().filter(|path| is_page(path)));
    let mut directories = vec![root.join("docs")];
    while let Some(directory) = directories.pop() {
        for path in entries(&directory)? {
            if path.is_dir() {
                directories.push(path);
            } else if is_page(&path) {
                documents.push(path);
            }
        }
    }
    for directory in entries(&root.join("crates"))? {
        documents.extend(
            ["README.md", "src/lib.rs"]
                .map(|name| directory.join(name))
                .into_iter()
                .filter(|path| path.is_file()),
        );
    }
    Ok(documents)
}

/// The `//!` comment at the start of a file, each line in its place.
fn front_page(source: &str) -> String {
    let begins = |line: &&str| ["//!", "#!["].iter().any(|mark| line.starts_with(mark));
    source
        .lines()
        .take_while(|line| line.is_empty() || begins(line))
        .map(|line| line.strip_prefix("//!").unwrap_or_default())
        .collect::<Vec<_>>()
        .join("\n")
}

/// Text that is checked as one: a paragraph, an item of a list, a cell of a table.
struct Paragraph {
    /// The line that it begins at.
    line: usize,
    text: String,
}

fn paragraphs(text: &str) -> Vec<Paragraph> {
    let mut paragraphs: Vec<Paragraph> = Vec::new();
    let mut fenced = false;
    let mut open = false;
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.starts_with("```") {
            fenced = !fenced;
            open = false;
            continue;
        }
        let is_comment = line.starts_with("<!--") && line.ends_with("-->");
        // A quotation keeps its author's sentences.
        if fenced || line.is_empty() || is_comment || line.starts_with("> ") {
            open = false;
            continue;
        }
        if line.starts_with('|') {
            // A cell is a list, or a sentence.
            let cells = line.split(['|', ';']).map(|cell| Paragraph {
                line: number,
                text: cell.to_owned(),
            });
            paragraphs.extend(cells);
            open = false;
            continue;
        }
        let item = ["- ", "* "]
            .into_iter()
            .find_map(|mark| line.strip_prefix(mark))
            .or_else(|| {
                let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
                rest.strip_prefix(". ").filter(|_| rest.len() < line.len())
            });
        let heading = line
            .strip_prefix('#')
            .map(|rest| rest.trim_start_matches('#'));
        match (item.or(heading), paragraphs.last_mut()) {
            (None, Some(paragraph)) if open => {
                paragraph.text.push(' ');
                paragraph.text.push_str(line);
            }
            (begun, _) => paragraphs.push(Paragraph {
                line: number,
                text: begun.unwrap_or(line).to_owned(),
            }),
        }
        open = heading.is_none();
    }
    paragraphs
}

/// The sentences of a paragraph, a code span as one word and a link as its text.
fn sentences(text: &str) -> Vec<String> {
    let mut plain = String::new();
    for (place, part) in text.split('`').enumerate() {
        plain.push_str(if place % 2 == 0 { part } else { "CODE" });
    }
    let mut sentences = vec![String::new()];
    for word in plain.split_whitespace() {
        // A link's address is no word.
        let word = match word.split_once("](") {
            Some((text, rest)) => {
                text.to_owned() + rest.split_once(')').map_or("", |(_, after)| after)
            }
            None => word.to_owned(),
        };
        let ends = word
            .trim_end_matches(['*', ')', '"', '_'])
            .ends_with(['.', '?', '!']);
        if let Some(last) = sentences.last_mut() {
            if !last.is_empty() {
                last.push(' ');
            }
            last.push_str(&word);
        }
        if ends {
            sentences.push(String::new());
        }
    }
    sentences
}

fn count_words(sentence: &str) -> usize {
    sentence
        .split_whitespace()
        .filter(|word| word.contains(char::is_alphanumeric))
        .count()
}

fn code_spans(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// Whether a span that names a source file as `CRATE/src/FILE` or `crates/CRATE/src/FILE` names one that exists.
fn source_exists(root: &Path, span: &str) -> bool {
    let path = span.strip_prefix("crates/").unwrap_or(span);
    let is_plain = path
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c));
    let mut parts = path.split('/');
    let is_source = parts.next().is_some_and(|name| !name.is_empty())
        && matches!(parts.next(), Some("src" | "tests" | "examples"))
        && !path.starts_with("xtask/");
    !is_plain || !is_source || root.join("crates").join(path).exists()
}

/// The addresses of links.
fn links(text: &str) -> Vec<&str> {
    text.split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')'))
        .map(|(address, _)| address)
        .collect()
}

fn link_leads_somewhere(directory: &Path, link: &str) -> bool {
    let file = link.split('#').next().unwrap_or_default();
    link.contains("://") || file.is_empty() || directory.join(file).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_end_at_their_points_and_code_is_one_word() {
        let text = "The `a. b. c` is one word. So is [this one](a/b.md), e.g. here.";
        let sentences = sentences(text);
        assert_eq!(sentences[0], "The CODE is one word.");
        assert_eq!(count_words(&sentences[0]), 5);
        assert!(sentences[1].starts_with("So is [this one,"));
    }

    #[test]
    fn paragraphs_are_items_cells_and_lines_that_go_on() {
        let text = "# Title\n\nOne\ntwo.\n- three\n  four\n- five\n\n```\nsix\n```\n| a | b |\n";
        let texts: Vec<String> = paragraphs(text)
            .into_iter()
            .map(|paragraph| paragraph.text.trim().to_owned())
            .filter(|text| !text.is_empty())
            .collect();
        assert_eq!(texts, ["Title", "One two.", "three four", "five", "a", "b"]);
    }

    #[test]
    fn the_documents_have_no_faults() {
        run(&Arguments { root: None }).unwrap();
    }

    #[test]
    fn faults_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let check = |text: &str| {
            fs::write(folder.path().join("README.md"), text).unwrap();
            let root = Some(folder.path().to_owned());
            run(&Arguments { root })
        };
        check("A short sentence about `x/src`, with no fault: [here](README.md).").unwrap_err();
        check("A short sentence, with no fault: [here](README.md).").unwrap();
        check(&"word ".repeat(31)).unwrap_err();
        check("[nowhere](gone.md)").unwrap_err();
    }
}

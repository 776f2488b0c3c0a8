//! The page on SQL is true: its commands are run, and their output is compared with the page.
//!
//! It is not among the pages that the tests of `tracewire` run, because it needs this program. Numbers of more than three digits
//! differ from run to run. `TRACEWIRE_DOCUMENTS=write` writes the output of this run into the page.

#[path = "../../test/duckdb.rs"]
mod duckdb;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

const QUERY: &str = env!("CARGO_BIN_EXE_tracewire-query");

fn programs() -> &'static Path {
    let directory = Path::new(QUERY).parent().expect("a directory");
    assert!(
        directory.join("tracewire").exists(),
        "{} has no tracewire: build it with `cargo build -p tracewire-cli`",
        directory.display()
    );
    directory
}

fn shell(directory: &Path, command: &str) -> String {
    let path = std::env::var("PATH").expect("a path");
    let python = duckdb::python().parent().expect("a directory");
    let path = format!("{}:{}:{path}", programs().display(), python.display());
    let output = Command::new("timeout")
        .args(["120", "bash", "-c", &format!("exec 2>&1\n{command}")])
        .current_dir(directory)
        .env("PATH", path)
        .env("HOME", directory)
        .env("LC_ALL", "C.UTF-8")
        .stdin(Stdio::null())
        .output()
        .expect("bash runs");
    String::from_utf8(output.stdout).expect("text")
}

fn normal(text: &str) -> String {
    let mut normal = String::new();
    let mut digits = String::new();
    for c in text.chars().chain(['\n']) {
        if c.is_ascii_digit() {
            digits.push(c);
            continue;
        }
        normal.push_str(if digits.len() > 3 { "N" } else { &digits });
        digits.clear();
        normal.push(c);
    }
    // The day of the run.
    let day = without_day(&normal);
    day.trim_end().to_owned()
}

fn without_day(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("day=N-") {
        let end = at + "day=N-00-00".len();
        out.push_str(&rest[..at]);
        out.push_str("day=DAY");
        rest = rest.get(end..).unwrap_or("");
    }
    out + rest
}

#[test]
fn the_page_on_sql_shows_what_its_commands_print() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/query.md");
    let text = fs::read_to_string(&page).expect("the page");
    let directory = tempfile::tempdir().expect("a directory");
    let directory = directory.path();
    let mut found = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        writeln!(found, "{line}").expect("written");
        if let Some(command) = line
            .strip_prefix("<!-- run: ")
            .and_then(|line| line.strip_suffix(" -->"))
        {
            assert_eq!(shell(directory, command), "");
        }
        let Some(fence) = line.strip_prefix("```") else {
            continue;
        };
        let body: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        match fence.split_once(' ') {
            Some((_, name)) => {
                fs::write(directory.join(name), body.join("\n") + "\n").expect("written");
                writeln!(found, "{}", body.join("\n")).expect("written");
            }
            None if fence == "shell" => {
                let mut body = body.into_iter().peekable();
                while let Some(line) = body.next() {
                    let Some(first) = line.strip_prefix("$ ") else {
                        continue;
                    };
                    let mut command = first.to_owned();
                    while let Some(more) = body.next_if(|line| line.starts_with("    ")) {
                        command = command + "\n" + more;
                    }
                    write!(found, "$ {command}\n{}", shell(directory, &command)).expect("written");
                }
            }
            None => writeln!(found, "{}", body.join("\n")).expect("written"),
        }
        writeln!(found, "```").expect("written");
    }
    if std::env::var_os("TRACEWIRE_DOCUMENTS").is_some_and(|value| value == "write") {
        fs::write(&page, found).expect("written");
        return;
    }
    assert_eq!(normal(&found), normal(&text));
}

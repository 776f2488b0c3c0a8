//! `docs/formats/trace-file.md` is true: its lines are put into trace files, and these are checked, converted and opened in GDB.
//!
//! `TRACEWIRE_TRACE_FILE_TABLE=write` writes the results into the page, for a review of the changes.

use std::path::{Path, PathBuf};
use std::process::Command;

use tracewire_test_support::Gdb;

const TRACEWIRE: &str = env!("CARGO_BIN_EXE_tracewire");

const BASE: [&str; 5] = [
    "R 8",
    "status 0;tstop::0;tframes:1;tcreated:1",
    "tp T1:401000:E:0:0",
    "tp Z1:401000:at:0:9:2a3078343031303030",
    "tp V1:401000:1:f",
];

/// The longest result that the page shows in full.
const SHOWN: usize = 160;

fn page() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/formats/trace-file.md")
}

/// The good file with a line in it.
fn with_line(line: &str) -> Vec<u8> {
    let word = line.split(' ').next().unwrap_or_default();
    let only_one = ["R", "status"].contains(&word);
    let mut file = b"\x7fTRACE0\n".to_vec();
    let mut is_in = false;
    for base in BASE {
        let replaced = only_one && base.split(' ').next() == Some(word);
        is_in |= replaced;
        let line = if replaced { line } else { base };
        file.extend_from_slice(line.as_bytes());
        file.push(b'\n');
    }
    if !is_in {
        file.extend_from_slice(line.as_bytes());
        file.push(b'\n');
    }
    file.push(b'\n');
    let mut frame = b"R".to_vec();
    frame.extend_from_slice(&[0; 8]);
    file.extend_from_slice(&1_i16.to_le_bytes());
    file.extend_from_slice(&u32::try_from(frame.len()).unwrap().to_le_bytes());
    file.extend_from_slice(&frame);
    file.extend_from_slice(&[0; 4]);
    file
}

/// A text in a cell of the page.
fn cell(text: &str) -> String {
    let mut text = text.trim().replace('\n', "; ").replace('|', "\\p");
    if text.is_empty() {
        return "*nothing*".to_owned();
    }
    if text.len() > SHOWN {
        let end = (0..=SHOWN).rev().find(|end| text.is_char_boundary(*end));
        text.truncate(end.unwrap_or(0));
        text.push('*');
    }
    text
}

/// The results of `check`, `convert` and GDB for the file with a line.
fn results(folder: &Path, known: &str, line: &str) -> [String; 3] {
    let (one, other) = (folder.join("one.tf"), folder.join("other.tf"));
    std::fs::write(&one, with_line(line)).unwrap();
    let run = |words: &[&str]| {
        let output = Command::new(TRACEWIRE)
            .current_dir(folder)
            .args(words)
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let checked: Vec<String> = run(&["check", "one.tf"])
        .lines()
        .filter(|said| !known.split("; ").any(|known| known == *said))
        .map(str::to_owned)
        .collect();

    let _ = std::fs::remove_file(&other);
    run(&["convert", "one.tf", "other.jsonl"]);
    run(&["convert", "other.jsonl", "other.tf"]);
    let bytes = std::fs::read(&other).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let word = line.split(' ').next().unwrap_or_default();
    let written: Vec<&str> = text
        .lines()
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter(|written| written.split(' ').next() == Some(word))
        .filter(|written| !BASE.contains(written) || *written == line)
        .collect();
    let written = if written == [line] {
        "*same*".to_owned()
    } else {
        cell(&written.join("\n"))
    };

    let gdb = Gdb::new().directory(folder).command("target tfile one.tf");
    let gdb: Vec<String> = gdb
        .run()
        .errors
        .lines()
        // Where in GDB it is depends on where that was built.
        .map(|line| match line.split_once("internal-error") {
            Some(_) => "GDB has an internal error".to_owned(),
            None => line.to_owned(),
        })
        .filter(|line| !line.trim().is_empty())
        .collect();
    [cell(&checked.join("\n")), written, cell(&gdb.join("\n"))]
}

fn fits(pattern: &str, text: &str) -> bool {
    match pattern
        .strip_suffix('*')
        .filter(|_| !pattern.starts_with('*'))
    {
        Some(start) => text.starts_with(start),
        None => pattern == text,
    }
}

#[test]
fn every_line_is_read_written_and_checked_as_the_page_says() {
    let text = std::fs::read_to_string(page()).unwrap();
    // The good file has no target description, which is warned of.
    let folder = tempfile::tempdir().unwrap();
    let [known, ..] = results(folder.path(), "", BASE[0]);
    let written = std::env::var("TRACEWIRE_TRACE_FILE_TABLE").is_ok_and(|what| what == "write");
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let rows: Vec<(usize, &str, &str)> = text
        .lines()
        .enumerate()
        .filter_map(|(number, row)| {
            let row = row.strip_prefix("| `")?.trim_end_matches(" |");
            let (line, cells) = row.split_once("` | ")?;
            Some((number, line, cells))
        })
        .collect();
    assert!(rows.len() > 25, "the page has {} lines", rows.len());
    let all: Vec<[String; 3]> = std::thread::scope(|scope| {
        let known = known.as_str();
        let parts: Vec<_> = rows
            .chunks(rows.len().div_ceil(4))
            .map(|part| {
                scope.spawn(move || {
                    let folder = tempfile::tempdir().unwrap();
                    let results = part
                        .iter()
                        .map(|(_, line, _)| results(folder.path(), known, line));
                    results.collect::<Vec<_>>()
                })
            })
            .collect();
        let parts = parts.into_iter().map(|part| part.join().unwrap());
        parts.flatten().collect()
    });
    let mut wrong = String::new();
    for ((number, line, cells), results) in rows.into_iter().zip(all) {
        if written {
            lines[number] = format!("| `{line}` | {} |", results.join(" | "));
            continue;
        }
        let cells: Vec<&str> = cells.split(" | ").collect();
        for ((what, cell), result) in ["check", "convert", "GDB"].iter().zip(&cells).zip(&results) {
            if !fits(cell, result) {
                wrong += &format!(
                    "line {}: {what} of {line}:\n  {cell}\n  {result}\n",
                    number + 1
                );
            }
        }
        assert_eq!(cells.len(), 3, "line {}", number + 1);
    }
    if written {
        std::fs::write(page(), lines.join("\n") + "\n").unwrap();
    }
    assert!(wrong.is_empty(), "{wrong}");
}

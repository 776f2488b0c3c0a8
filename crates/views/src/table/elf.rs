//! `info` of a program, for people.

use std::fmt::Write;

use super::{STRONG, cell, lines_of, styled, table};
use crate::markers::ElfInfo;
use crate::words::{count, printable};

/// `info` of an ELF file.
#[must_use]
pub fn elf(info: &ElfInfo, name: &str) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{}: ELF file, {}, {}",
        styled(STRONG, printable(name)),
        info.architecture,
        count(info.markers.len() as u64, "marker"),
    );
    if info.markers.is_empty() {
        return text;
    }
    let mut rows = table(&["Marker", "Address", "Where", "Arguments", "Semaphore"]);
    for marker in &info.markers {
        let place = match (&marker.function, &marker.file, marker.line) {
            (Some(function), Some(file), Some(line)) => format!("{function} at {file}:{line}"),
            (Some(function), ..) => function.clone(),
            _ => String::new(),
        };
        rows.add_row([
            cell(&marker.name),
            marker.address.clone(),
            cell(&place),
            cell(&marker.arguments),
            marker.semaphore.clone().unwrap_or_default(),
        ]);
    }
    let _ = write!(text, "\n{}", lines_of(&rows));
    text
}

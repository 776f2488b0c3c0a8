//! Processes, their threads, groups and open files.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;

use super::{Table, names};

/// The names in a directory of `/proc` that are numbers, in rising order.
fn numbers(folder: &str) -> Vec<u32> {
    let mut numbers: Vec<u32> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    numbers.sort_unstable();
    numbers
}

/// The name of a process or thread in `stat`, and the fields after it from the third on.
fn stat(path: &str) -> Option<(String, Vec<String>)> {
    let line = fs::read(path).ok()?;
    let line = String::from_utf8_lossy(&line).into_owned();
    // The name is in parentheses and may contain some itself.
    let (head, rest) = line.rsplit_once(')')?;
    let (_, name) = head.split_once('(')?;
    let fields = rest.split_whitespace().map(str::to_owned).collect();
    Some((name.to_owned(), fields))
}

/// The name of a process's program; its number if it has ended.
pub(super) fn command(process: u32) -> String {
    stat(&format!("/proc/{process}/stat")).map_or_else(|| process.to_string(), |(name, _)| name)
}

/// The command line of a process; its name in brackets where it has none.
fn command_line(process: u32) -> String {
    let mut line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    if line.is_empty() {
        return format!("[{}]", command(process));
    }
    if line.last() == Some(&0) {
        line.pop();
    }
    for byte in &mut line {
        if *byte == 0 {
            *byte = b' ';
        }
    }
    String::from_utf8_lossy(&line).into_owned()
}

/// The cpu that a thread ran on last.
fn core(process: u32, thread: u32) -> Option<String> {
    let (_, fields) = stat(&format!("/proc/{process}/task/{thread}/stat"))?;
    // The 39th field, and the first here is the third.
    fields.get(36).cloned()
}

pub(super) fn processes(table: &mut Table) {
    for process in numbers("/proc") {
        let Ok(metadata) = fs::metadata(format!("/proc/{process}")) else {
            continue;
        };
        let cores: BTreeSet<u32> = numbers(&format!("/proc/{process}/task"))
            .into_iter()
            .filter_map(|thread| core(process, thread)?.parse().ok())
            .collect();
        let cores: Vec<String> = cores.iter().map(u32::to_string).collect();
        table.row(&[
            ("pid", &process.to_string()),
            ("user", &names::user(metadata.uid())),
            ("command", &command_line(process)),
            ("cores", &cores.join(",")),
        ]);
    }
}

pub(super) fn groups(table: &mut Table) {
    let mut list: Vec<(u32, bool, u32)> = numbers("/proc")
        .into_iter()
        .filter_map(|process| {
            let (_, fields) = stat(&format!("/proc/{process}/stat"))?;
            // The fifth field.
            let group: u32 = fields.get(2)?.parse().ok()?;
            (group > 0).then_some((group, process != group, process))
        })
        .collect();
    list.sort_unstable();
    for (group, _, process) in list {
        table.row(&[
            ("pgid", &group.to_string()),
            ("leader command", &command(group)),
            ("pid", &process.to_string()),
            ("command line", &command_line(process)),
        ]);
    }
}

pub(super) fn threads(table: &mut Table) {
    for process in numbers("/proc") {
        let command = command(process);
        for thread in numbers(&format!("/proc/{process}/task")) {
            table.row(&[
                ("pid", &process.to_string()),
                ("command", &command),
                ("tid", &thread.to_string()),
                (
                    "core",
                    &core(process, thread).unwrap_or_else(|| "-1".to_owned()),
                ),
            ]);
        }
    }
}

pub(super) fn files(table: &mut Table) {
    for process in numbers("/proc") {
        let command = command(process);
        let folder = format!("/proc/{process}/fd");
        for descriptor in numbers(&folder) {
            let name = match fs::read_link(format!("{folder}/{descriptor}")) {
                Ok(path) => path.to_string_lossy().into_owned(),
                Err(_) => descriptor.to_string(),
            };
            table.row(&[
                ("pid", &process.to_string()),
                ("command", &command),
                ("file descriptor", &descriptor.to_string()),
                ("name", &name),
            ]);
        }
    }
}

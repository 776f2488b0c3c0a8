//! A process as the command line names it.

use std::fmt::Write as _;

/// How many processes of a name are given.
const TOLD: usize = 5;

/// Reads a process id.
///
/// # Errors
/// What was expected; for the name of a program that runs, the ids of its processes.
pub fn parse(text: &str) -> Result<u32, String> {
    // The kernel's ids are positive numbers of 31 bits.
    if let Some(id) = text.parse().ok().filter(|id| (1..1 << 31).contains(id)) {
        return Ok(id);
    }
    let mut message = "a process id is a number of 1 or more".to_owned();
    if text.is_empty() || text.chars().all(|c| c.is_ascii_digit() || c == '-') {
        return Err(message);
    }
    let found = processes(text);
    let told: Vec<String> = found.iter().take(TOLD).map(u32::to_string).collect();
    let more = if found.len() > TOLD { ", …" } else { "" };
    let _ = match found.len() {
        0 => write!(
            message,
            "; `pgrep NAME` prints those of a program's processes, and none runs as {text} now"
        ),
        1 => write!(message, "; {text} runs as process {}", told.join(", ")),
        count => write!(
            message,
            "; {text} runs as {count} processes: {}{more}",
            told.join(", ")
        ),
    };
    Err(message)
}

/// The processes of this name that run now and can be traced, by rising number.
pub fn named(name: &str) -> Vec<u32> {
    let mut found = processes(name);
    // Parts of the kernel, and processes that have ended, have no program.
    found.retain(|id| {
        let program = std::fs::read_link(format!("/proc/{id}/exe"));
        *id != std::process::id()
            && !program.is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
    });
    found
}

/// The processes that have this name, or whose program's file has it, by rising number.
fn processes(name: &str) -> Vec<u32> {
    // The kernel keeps 15 bytes of a name.
    let kept = name.as_bytes().get(..15).unwrap_or(name.as_bytes());
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    let mut found: Vec<u32> = entries
        .flatten()
        .filter_map(|entry| {
            let id = entry.file_name().to_str()?.parse().ok()?;
            let told = std::fs::read(entry.path().join("comm")).ok()?;
            let program = || {
                let program = std::fs::read_link(entry.path().join("exe")).ok()?;
                (program.file_name()? == name).then_some(())
            };
            let is_named = told.strip_suffix(b"\n").unwrap_or(&told) == kept;
            (is_named || program().is_some()).then_some(id)
        })
        .collect();
    found.sort_unstable();
    found
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn a_number_or_what_to_do() {
        assert_eq!(parse("1234"), Ok(1234));
        for text in ["", "0", "-1", "99999999999"] {
            assert_eq!(
                parse(text),
                Err("a process id is a number of 1 or more".to_owned())
            );
        }
        let message = parse("no-such-program-runs").expect_err("a name");
        assert!(message.contains("pgrep"), "{message}");
        let own = std::fs::read_to_string("/proc/self/comm").expect("a name");
        let message = parse(own.trim_end()).expect_err("a name");
        assert!(
            message.contains(&std::process::id().to_string()) || message.contains('…'),
            "{message}"
        );
    }
}

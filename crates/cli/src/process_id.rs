//! A process as the command line names it.

use std::fmt::Write as _;

use tracewire_model::ThreadId;
use tracewire_recorder::ProcessSelection;

/// How many processes of a name are given.
const MOST_PRINTED: usize = 5;

/// Reads a process id.
///
/// # Errors
/// The expected form; for the name of a running program, the ids of its processes.
pub fn parse(text: &str) -> Result<u32, String> {
    // The kernel's ids are positive numbers of 31 bits.
    if let Some(id) = text.parse().ok().filter(|id| (1..1 << 31).contains(id)) {
        return Ok(id);
    }
    let mut message = "a process id is a number of 1 or more".to_owned();
    if text.is_empty() || text.chars().all(|c| c.is_ascii_digit() || c == '-') {
        return Err(message);
    }
    let mut selection = ProcessSelection::default();
    // Without /proc there is no suggestion.
    let found = selection.name(text).running().unwrap_or_default();
    let printed: Vec<String> = found
        .iter()
        .take(MOST_PRINTED)
        .map(ThreadId::to_string)
        .collect();
    let more = if found.len() > MOST_PRINTED {
        ", …"
    } else {
        ""
    };
    let _ = match found.len() {
        0 => write!(
            message,
            "; `pgrep NAME` prints those of a program's processes, and none runs as {text} now"
        ),
        1 => write!(message, "; {text} runs as process {}", printed.join(", ")),
        count => write!(
            message,
            "; {text} runs as {count} processes: {}{more}",
            printed.join(", ")
        ),
    };
    Err(message)
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
        let mut process = std::process::Command::new("cat");
        process.stdin(std::process::Stdio::piped());
        let mut process = process.spawn().expect("it starts");
        let message = parse("cat").expect_err("a name");
        let id = process.id().to_string();
        process.kill().expect("killed");
        process.wait().expect("it ends");
        assert!(message.contains(&id) || message.contains('…'), "{message}");
    }
}

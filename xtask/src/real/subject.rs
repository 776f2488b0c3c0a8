//! The interface of a real program.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::Result;

use crate::running::{Running, family};
use crate::setup::Need;

/// A real program: how it is started, given work and stopped, its tracepoint, and its own log.
pub trait Subject {
    /// Its name on the command line of this chore.
    fn name(&self) -> &'static str;

    /// Its requirements on the machine.
    fn needs(&self) -> &'static [Need];

    /// Builds or configures it in an empty directory.
    fn prepare(&mut self, directory: &Path) -> Result<()>;

    /// The tracepoint, as `tracewire record -t` takes it.
    fn spec(&self) -> String;

    /// The same question as a bpftrace program, where bpftrace can ask it.
    fn bpftrace(&self) -> Option<String> {
        None
    }

    /// The same question as GDB's `dprintf` command, where GDB can ask it.
    fn dprintf(&self) -> Option<String> {
        None
    }

    /// The command that starts the program. A fresh log begins.
    fn command(&mut self) -> Result<Command>;

    /// Waits until the program is ready for work. With `logged`, the program's own log of the work is kept.
    fn ready(&mut self, program: &mut Running, logged: bool) -> Result<()>;

    /// Whether the work is that of several processes, which all are recorded.
    fn forks(&self) -> bool {
        false
    }

    /// The processes to attach to.
    fn processes(&self, program: &Running) -> Result<Vec<u32>> {
        match self.forks() {
            true => family(program.id()),
            false => Ok(vec![program.id()]),
        }
    }

    /// How much work a round is, in operations of [`Self::work`].
    fn size(&self) -> u64;

    /// Gives the program work and waits until it is done. Fails where an answer is wrong.
    fn work(&mut self, program: &mut Running, size: u64) -> Result<Work>;

    /// Stops the program and checks that it was not harmed.
    fn stop(&mut self, program: &mut Running) -> Result<()>;

    /// The program's own log of the work: a line for each hit, in any order. Called after [`Self::stop`].
    fn log(&mut self) -> Result<Vec<String>>;

    /// The line of the log for a hit; `None` for a hit that is not part of the work.
    fn logged(&self, hit: &Hit) -> Option<String>;
}

/// A hit, as `show --json` prints it.
pub struct Hit {
    /// Which process it was in, where several are recorded.
    pub process: Option<u64>,
    /// The values, in the order of the tracepoint's list.
    pub values: Vec<String>,
}

impl Hit {
    /// The first value, a string as [`text`] reads it.
    pub fn text(&self) -> Option<String> {
        text(self.values.first()?)
    }
}

/// The size of a round of work.
pub struct Work {
    /// How many operations were done.
    pub operations: u64,
    /// How long they took.
    pub seconds: f64,
}

impl Work {
    /// Does work and takes its time.
    pub fn timed(operations: u64, work: impl FnOnce() -> Result<()>) -> Result<Self> {
        let start = Instant::now();
        work()?;
        Ok(Self {
            operations,
            seconds: start.elapsed().as_secs_f64(),
        })
    }

    /// Operations a second.
    pub fn rate(&self) -> f64 {
        self.operations as f64 / self.seconds
    }
}

/// The text of a string value as GDB prints it, with its escapes: `0x55d0 "ab", '0' <repeats 11 times>, "1"` is
/// `ab000000000001`.
pub fn text(value: &str) -> Option<String> {
    let mut rest = value.get(value.find(['"', '\''])?..)?;
    let mut text = String::new();
    loop {
        let quote = rest.chars().next()?;
        let end = closing_quote(rest, quote)?;
        let part = rest.get(1..end)?;
        rest = rest.get(end + 1..)?;
        let times = match rest.strip_prefix(" <repeats ") {
            Some(repeats) => {
                let (count, behind) = repeats.split_once(" times>")?;
                rest = behind;
                count.parse().ok()?
            }
            None => 1,
        };
        text.push_str(&part.repeat(times));
        match rest.strip_prefix(", ") {
            Some(next) if next.starts_with(['"', '\'']) => rest = next,
            _ => return Some(text),
        }
    }
}

/// Where the quote that `text` begins with is closed.
fn closing_quote(text: &str, quote: char) -> Option<usize> {
    let mut escaped = false;
    text.char_indices().skip(1).find_map(|(at, character)| {
        let closes = character == quote && !escaped;
        escaped = character == '\\' && !escaped;
        closes.then_some(at)
    })
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn texts_as_gdb_prints_them() {
        for (value, expected) in [
            (r#""a\"b""#, Some(r#"a\"b"#)),
            (
                r#"0x55d0 "ab", '0' <repeats 11 times>, "1""#,
                Some("ab000000000001"),
            ),
            (r#""cut"..."#, Some("cut")),
            ("12", None),
            (r#""open"#, None),
        ] {
            assert_eq!(text(value).as_deref(), expected, "{value}");
        }
    }
}

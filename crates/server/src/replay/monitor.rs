//! `monitor` commands: the session's instant in the recording, and moving to another one.

use tracewire_packets::{HexBytes, Reply};
use tracewire_target_replay::Execution;

use super::session::ReplaySession;
use crate::session::Answer;

const HELP: &str = "\
monitor when -- The instruction that comes next, and its time
monitor goto N -- Go to the instant before instruction N; the first is 0
monitor goto TIME UNIT -- Go to the first instruction at that time or behind it, such as 1500 ns
monitor start -- Go to the beginning
monitor end -- Go to the end
monitor unknown zero -- Answer 0 for registers that are not known: GDB cannot step on Arm, MIPS and PowerPC where it
    does not know the stack pointer and the return address
monitor unknown unavailable -- Answer that they are not available, as at first
monitor help -- This text
";

/// The hint for a user whose GDB does not notice the move.
const STALE: &str = "GDB shows it after: maintenance flush register-cache\n";

impl<E: Execution> ReplaySession<'_, E> {
    pub(super) fn command(&mut self, HexBytes(command): &HexBytes) -> Answer {
        let command = String::from_utf8_lossy(command);
        let (word, rest) = command
            .trim()
            .split_once(char::is_whitespace)
            .unwrap_or((command.trim(), ""));
        let end = self.recording.instructions();
        let to = match (word, rest.trim()) {
            ("when", "") => return output(self.place()),
            ("help" | "", "") => return output(HELP.to_owned()),
            ("unknown", how @ ("zero" | "unavailable")) => {
                self.zeros = how == "zero";
                return output(STALE.to_owned());
            }
            ("start", "") => Some(0),
            ("end", "") => Some(end),
            ("goto", text) => match text.parse::<u64>() {
                Ok(number) if number <= end => Some(number),
                Ok(_) => return output(format!("The recording has {end} instructions.\n")),
                Err(_) => self.recording.at_time(text.trim_start_matches("time ")),
            },
            _ => return output(format!("Unknown monitor command.\n{HELP}")),
        };
        match to {
            Some(number) => {
                self.go_to(number);
                output(format!("{}{STALE}", self.place()))
            }
            None => output(
                "Expected the number of an instruction, or a time and its unit.\n".to_owned(),
            ),
        }
    }

    /// The session's instant, as text.
    fn place(&self) -> String {
        let (position, end) = (self.replay.position(), self.recording.instructions());
        let Some(next) = self.recording.instruction(position) else {
            return format!("The end, after all {end} instructions.\n");
        };
        let time = self.recording.time(position);
        let time = time
            .map(|time| format!(", time {time}"))
            .unwrap_or_default();
        format!(
            "Instruction {position} of {end}{time}, cpu {}, at {}.\n",
            next.cpu, next.address
        )
    }
}

fn output(text: String) -> Answer {
    Answer::Output(text, Reply::Ok)
}

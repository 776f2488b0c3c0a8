//! Messages on standard error.
//!
//! A message may contain text from files, programs and packets. None of it reaches the terminal as a control character.

use std::fmt::Display;
use std::io::Write as _;

use tracewire_views::words;

/// Writes a line on standard error, as `eprintln!` does. If it cannot be written (a full disk, a closed pipe), it is dropped: a
/// change to a program must not be left half done because of that.
macro_rules! message {
    ($($argument:tt)*) => {
        $crate::message::write(&format!($($argument)*))
    };
}

/// Writes a message, which may have several lines. `message!` calls this.
pub fn write(message: &str) {
    let line = words::printable_lines(message) + "\n";
    let _ = anstream::stderr().write_all(line.as_bytes());
}

/// Writes a message of the program's on standard error.
pub fn say(message: impl Display) {
    message!("tracewire: {message}");
}

/// Writes a warning on one line.
pub fn warn(message: impl Display) {
    let style = anstyle::AnsiColor::Yellow.on_default();
    let message = words::printable(&message.to_string());
    let line = format!("tracewire: {style}warning:{style:#} {message}\n");
    let _ = anstream::stderr().write_all(line.as_bytes());
}

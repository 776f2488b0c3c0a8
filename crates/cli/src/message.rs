//! Messages on standard error.
//!
//! A message has words of files, programs and packets in it. None of them reaches the terminal as a control character.

use std::io::Write as _;

use tracewire_views::words;

/// Writes a line on standard error, as `eprintln!` does. Where it cannot be written (a full disk, a closed pipe), it is left out: that
/// is no reason to leave what is being done to a program half done.
macro_rules! message {
    ($($argument:tt)*) => {
        $crate::message::write(&format!($($argument)*))
    };
}

/// Writes a message, which may have several lines. This is what `message!` calls.
pub fn write(message: &str) {
    let line = words::printable_lines(message) + "\n";
    let _ = anstream::stderr().write_all(line.as_bytes());
}

/// Writes something that the user should look at, on one line.
pub fn write_warning(message: &str) {
    let style = anstyle::AnsiColor::Yellow.on_default();
    let message = words::printable(message);
    let line = format!("tracewire: {style}warning:{style:#} {message}\n");
    let _ = anstream::stderr().write_all(line.as_bytes());
}

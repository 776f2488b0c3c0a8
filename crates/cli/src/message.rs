//! Messages on standard error.

/// Writes a line on standard error, as `eprintln!` does. Where it cannot be written (a full disk, a closed pipe), it is left out: that
/// is no reason to leave what is being done to a program half done.
macro_rules! message {
    ($($argument:tt)*) => {{
        use std::io::Write as _;
        let line = format!($($argument)*) + "\n";
        let _ = anstream::stderr().write_all(line.as_bytes());
    }};
}

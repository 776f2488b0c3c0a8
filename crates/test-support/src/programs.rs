//! Files that a test makes itself and then executes.
//!
//! The kernel executes no file that somebody has open for writing (`ETXTBSY`). A child that another thread of the test program starts
//! at that moment has the file open until it executes its own program. So the file is written by a child, and no other has it open.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Copies a program. Everybody may execute the copy.
#[track_caller]
pub fn copy_program(from: &Path, to: &Path) {
    write(to, Stdio::from(File::open(from).expect("the program")), &[]);
}

/// Writes a program or a script. Everybody may execute it.
#[track_caller]
pub fn write_program(path: &Path, contents: &[u8]) {
    write(path, Stdio::piped(), contents);
}

#[track_caller]
fn write(path: &Path, from: Stdio, contents: &[u8]) {
    let mut shell = Command::new("sh")
        .args(["-c", r#"cat > "$0" && chmod 755 "$0""#])
        .arg(path)
        .stdin(from)
        .spawn()
        .expect("sh runs");
    if let Some(mut input) = shell.stdin.take() {
        input.write_all(contents).expect("sh reads");
    }
    let status = shell.wait().expect("sh ends");
    assert!(status.success(), "{}: {status}", path.display());
}

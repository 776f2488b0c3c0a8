//! One whole session of stock GDB with tracepoints, against `tracewire gdbserver` and against gdbserver: GDB's output is the same
//! line by line, except where ours is better, and the frames are the same.

use std::path::{Path, PathBuf};

use tracewire_model::VariableNumber;
use tracewire_test_support::{Gdb, Said, assert_clean, sample};
use tracewire_tracefile::{Block, TraceFile};

const TRACEWIRE: &str = env!("CARGO_BIN_EXE_tracewire");

/// Runs the session in a directory, with a server that has gdbserver's command line, and further commands after those of the
/// script.
fn session(folder: &Path, server: &str, more: &str) -> Said {
    std::fs::copy(sample("sample"), folder.join("sample")).unwrap();
    let script = std::fs::read_to_string(sample("session.gdb"))
        .unwrap()
        .replace("set debug remote 1\n", "")
        .replace("gdbserver --once -", &format!("{server} --once -"));
    std::fs::write(folder.join("script.gdb"), script + more).unwrap();
    let gdb = Gdb::new().directory(folder).script(Path::new("script.gdb"));
    gdb.program(Path::new("sample")).run()
}

/// The lines of a transcript, without the parts that differ between runs or servers.
fn lines(said: &str) -> Vec<String> {
    said.lines()
        .filter(|line| {
            ![
                "Process ",
                "stdin/stdout redirected",
                "Remote debugging using stdio",
            ]
            .iter()
            .any(|words| line.starts_with(words))
        })
        .map(|line| {
            // gdbserver's times count from the start of the machine.
            if line.starts_with("Trace started at") {
                line.chars().filter(|c| !c.is_ascii_digit()).collect()
            } else if line.starts_with("$trace_timestamp = ") {
                "$trace_timestamp".to_owned()
            } else {
                line.split(' ')
                    .map(without_stack)
                    .collect::<Vec<_>>()
                    .join(" ")
            }
        })
        .collect()
}

/// A word without its stack address: the stack begins where the environment ends.
fn without_stack(word: &str) -> String {
    let digits = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    let value = match digits.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => digits.parse(),
    };
    match value {
        Ok(value) if value > STACK => word.replace(digits, "(stack)"),
        _ => word.to_owned(),
    }
}

/// Where stacks begin, about.
const STACK: u64 = 0x7fff_f000_0000;

/// The free part of the buffer in `tstatus`.
fn free(line: &str) -> Option<u64> {
    let rest = line.strip_prefix("Trace buffer has ")?;
    rest.split(' ').next()?.parse().ok()
}

/// The contents of a frame, as far as they do not depend on its time and thread.
fn outline(file: &TraceFile) -> Vec<String> {
    // gdbserver collects `pkru`, of 4 bytes, where the processor has protection keys. Tracewire does not.
    let has_keys = file.as_bytes().windows(4).any(|word| word == b"pkru");
    let keys = if has_keys { 4 } else { 0 };
    file.frames()
        .map(|frame| {
            let mut collected: Vec<std::ops::Range<u64>> = Vec::new();
            let blocks: Vec<String> = frame
                .blocks()
                .filter(|block| match block {
                    // The list of registers that were not requested.
                    Block::Variable { number, .. } => {
                        !tracewire_tracefile::describes_frame(*number)
                    }
                    // gdbserver collects a pointer for each expression with it.
                    Block::Memory { address, bytes } => {
                        let place = address.0..address.0 + bytes.len() as u64;
                        let again = collected
                            .iter()
                            .any(|one| one.start <= place.start && place.end <= one.end);
                        collected.push(place);
                        !again
                    }
                    _ => true,
                })
                .map(|block| match block {
                    Block::Registers(bytes) => {
                        format!("{} bytes of registers", bytes.len() - keys)
                    }
                    Block::Memory { address, bytes } if address.0 < STACK => {
                        format!("{address}: {bytes:?}")
                    }
                    Block::Memory { bytes, .. } => format!("{} bytes of the stack", bytes.len()),
                    Block::Variable {
                        number: VariableNumber(1),
                        ..
                    } => "the time".to_owned(),
                    Block::Variable { number, value } => format!("${number} = {value}"),
                    other => format!("{other:?}"),
                })
                .collect();
            format!(
                "{} at {:?}: {}",
                frame.tracepoint(),
                frame.program_counter(),
                blocks.join(", ")
            )
        })
        .collect()
}

#[test]
fn gdb_says_what_it_says_with_gdbserver_and_the_frames_are_the_same() {
    let theirs = tempfile::tempdir().unwrap();
    let ours = tempfile::tempdir().unwrap();
    let they_said = session(theirs.path(), "gdbserver", "").output;
    let said = session(
        ours.path(),
        &format!("{TRACEWIRE} gdbserver --files ."),
        "\ntsave -r saved.tf\ntfind 0\nprint j->name\ntfind none\ntsave -r ../outside.tf\n",
    );
    let (we_said, errors) = (said.output, said.errors);
    let (their_lines, our_lines) = (lines(&they_said), lines(&we_said));
    assert!(our_lines.len() > their_lines.len() && their_lines.len() > 100);
    for (theirs, ours) in their_lines.iter().zip(&our_lines) {
        if theirs == ours {
            continue;
        }
        // A constant string of a program that may be loaded anywhere: gdbserver does not find it.
        let better = theirs.contains("<error: Cannot access memory at address 0x")
            && ours.contains("\"alpha\"")
            // A frame uses no space for registers that were not requested.
            || free(ours) > free(theirs)
            // gdbserver 13 looks for the mask registers where Intel's processors have them, on all processors.
            || theirs.starts_with('k') && ours.starts_with('k')
            // The last arithmetic before was on the stack's address.
            || theirs.starts_with("eflags") && ours.starts_with("eflags");
        assert!(better, "gdbserver: {theirs}\ntracewire: {ours}\n{we_said}");
    }
    // The additional part of the session, which gdbserver cannot do itself.
    let rest = our_lines[their_lines.len()..].join("\n");
    assert!(rest.contains("\"alpha\""), "{rest}");
    assert!(errors.contains("leads out of the folder"), "{errors}");
    assert!(!ours.path().join("../outside.tf").exists());

    let open = |path: PathBuf| outline(&TraceFile::open(path).unwrap());
    for name in ["sample.tf", "saved.tf"] {
        assert_clean(&ours.path().join(name));
    }
    let pulled = open(ours.path().join("sample.tf"));
    assert_eq!(pulled.len(), 24);
    assert_eq!(open(ours.path().join("saved.tf")), pulled);
    assert_eq!(open(theirs.path().join("sample.tf")), pulled);
}

//! The server's information about the program and the system.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use super::support::{Program, TRACEWIRE, source};

/// The program, with a separate library beside it.
fn program(flags: &[&str]) -> Program {
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("libown.so");
    let status = Command::new("cc")
        .args(["-shared", "-fPIC", "-g", "-o"])
        .arg(&library)
        .arg(source("library.c"))
        .status()
        .unwrap();
    assert!(status.success());
    let path = library.display().to_string();
    let rpath = format!("-Wl,-rpath,{}", folder.path().display());
    let mut all = vec![path.as_str(), rpath.as_str()];
    all.extend(flags);
    Program::build_in(folder, "objects.c", &all)
}

#[test]
fn thread_local_variables_are_found_in_every_thread_and_module() {
    let said = program(&[]).debug(&[
        "break main",
        "continue",
        "print own",
        "print large.far",
        "print libs",
        "break stop",
        "continue",
        "print own",
        "print &own == &own",
        "print large.far",
        "print libs",
        "thread 1",
        "print own",
        "print libs",
        // Not used yet: the library's block is there from the start all the same.
        "print sizeof (room)",
        "print room[4999]",
    ]);
    said.assert_in_order(&[
        "$1 = 5",
        "$2 = 77",
        "$3 = 40",
        "$4 = 6",
        "$5 = 1",
        "$6 = 78",
        "$7 = 50",
        "$8 = 5",
        "$9 = 41",
        "$10 = 5000",
        "$11 = 0",
    ]);
}

#[test]
fn libraries_threads_and_processes_are_listed() {
    let program = program(&[]);
    let said = program.debug_with(
        "--debug-log log",
        &[
            "break stop",
            "continue",
            "info sharedlibrary",
            "info threads",
            "info os",
            "info os processes",
            "info os threads",
            "info os files",
            "info auxv",
        ],
    );
    said.assert_in_order(&[
        "hit Breakpoint 1, stop",
        "ld-linux-x86-64.so.2",
        "libown.so",
        "libc.so.6",
        "\"objects\"",
        "\"wor<k&er\"",
        "processes  ",
        "Listing of all processes",
        "/objects",
        "objects    ",
        "AT_ENTRY",
    ]);
    let log = std::fs::read_to_string(program.folder.path().join("log")).unwrap();
    assert!(log.contains("qXfer:libraries-svr4:read:"));
    assert!(log.contains("main-lm="));
}

#[test]
fn signal_details_are_read_and_written() {
    let said = program(&[]).debug(&[
        "continue",
        "print $_siginfo.si_signo",
        "print $_siginfo._sifields._sigfault.si_addr",
        "set var $_siginfo._sifields._sigfault.si_addr = 0x4321",
        "continue",
    ]);
    said.assert_in_order(&[
        "received signal SIGSEGV",
        "$1 = 11",
        "$2 = (void *) 0x1234",
        "exited normally",
    ]);
    assert!(said.errors.contains("fault 0x4321"), "{}", said.errors);
}

#[test]
fn memory_is_searched_and_compared() {
    let said = program(&["-fno-pie", "-no-pie"]).debug(&[
        "break main",
        "continue",
        "find &needle, +sizeof(needle), 'n', 'e', 'e', 'd'",
        "print (char *) $_ - needle",
        "find &needle, +sizeof(needle), 'x', 'y', 'z'",
        "compare-sections .text",
        "set var *(char *) main = 0x90",
        "compare-sections .text",
        "monitor",
        "monitor help",
        "monitor set remote-debug 1",
        "print $rip",
        "monitor tracepoints",
        "trace stop",
        "tstart",
        "monitor tracepoints",
    ]);
    said.assert_in_order(&[
        "1 pattern found.",
        "$1 = 12",
        "Pattern not found.",
        "Section .text, range",
        ": matched.",
        "MIS-MATCHED",
    ]);
    for words in [
        "Unknown monitor command.",
        "The following monitor commands are supported:",
        "Protocol debug output enabled.",
        "There are no tracepoints.",
        "; 0 hits, 0 bytes",
    ] {
        let both = format!("{}{}", said.output, said.errors);
        assert!(both.contains(words), "{words} in {both}");
    }
}

#[test]
fn files_are_read_anywhere_and_written_in_one_folder() {
    let program = program(&[]);
    let folder = program.folder.path();
    std::fs::create_dir(folder.join("shared")).unwrap();
    std::os::unix::fs::symlink("/etc", folder.join("shared/out")).unwrap();
    std::fs::write(folder.join("mine"), "words\n".repeat(10_000)).unwrap();
    let said = program.debug_with(
        "--files shared",
        &[
            "remote put mine shared/theirs",
            "remote get shared/theirs back",
            "remote get /proc/self/cmdline cmdline",
            "remote put mine elsewhere",
            "remote put mine shared/../elsewhere",
            "remote put mine shared/out/elsewhere",
            "remote delete mine",
            "remote delete shared/theirs",
            "remote get shared/theirs none",
        ],
    );
    assert_eq!(
        said.errors
            .matches("Remote I/O error: Read-only file system")
            .count(),
        4,
        "{}",
        said.errors
    );
    assert!(
        said.errors
            .contains("Remote I/O error: No such file or directory"),
        "{}",
        said.errors
    );
    assert_eq!(
        std::fs::read(folder.join("back")).unwrap(),
        std::fs::read(folder.join("mine")).unwrap()
    );
    let command = std::fs::read(folder.join("cmdline")).unwrap();
    assert!(command.starts_with(TRACEWIRE.as_bytes()));
    assert!(!folder.join("elsewhere").exists() && folder.join("mine").exists());
}

/// A program with another root: its file is read there, though the server has another root.
#[test]
fn files_of_a_program_with_another_root_are_its_own() {
    let program = Program::build("waits.c", &["-static-pie"]);
    let folder = program.folder.path();
    let mut child = Command::new("unshare")
        .args(["--map-root-user", "--mount", "chroot"])
        .arg(folder)
        .arg("/waits")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert_eq!(line, "here\n");
    let connect = format!(
        "target remote | {TRACEWIRE} gdbserver --once --attach - {}",
        child.id()
    );
    let output = Command::new("gdb")
        .args(["-nx", "-batch", "-ex", &connect])
        .args(["-ex", "info line wait_for_word", "-ex", "detach"])
        .output()
        .unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("waits.c\" starts at address"), "{output:?}");
}

//! Programs of 32 bits.

use tracewire_test_support::assert_clean;

use super::support::Program;

#[test]
fn a_program_of_32_bits_is_debugged_and_traced() {
    let program = Program::build("narrow.c", &["-m32"]);
    std::fs::write(
        program.folder.path().join("actions"),
        "actions 4\ncollect n, total\nend\n",
    )
    .unwrap();
    let said = program.debug(&[
        "break work",
        "continue",
        "show architecture",
        "backtrace",
        "print $eax == $eax",
        "print sizeof (void *)",
        "info registers esp eip",
        "print $xmm0.v4_float[0] = 2.5",
        "print $xmm0.v4_float[0]",
        "print $eax = -5",
        "print $eax",
        "finish",
        "info sharedlibrary",
        "print own",
        "print add (3, 4)",
        "watch total",
        "continue",
        "delete",
        "catch syscall getppid",
        "continue",
        "continue",
        "delete",
        "info auxv",
        "trace work if n == 7",
        "source actions",
        "trace leaf",
        "tstart",
        "break done",
        "continue",
        "tstop",
        "tfind tracepoint 4",
        "print n",
        "print total",
        "tstatus",
        "tsave saved.tf",
        "tfind none",
        "print $_siginfo.si_signo",
        "continue",
    ]);
    said.assert_in_order(&[
        "Breakpoint 1, work (n=0)",
        "(currently \"i386\")",
        "#1  0x",
        "main ()",
        "$1 = 1",
        "$2 = 4",
        "<work+",
        "$3 = 2.5",
        "$4 = 2.5",
        "$5 = -5",
        "$6 = -5",
        "Value returned is $7 = ",
        "ld-linux.so.2",
        "libc.so.6",
        "$8 = 9",
        "$9 = 7",
        "Hardware watchpoint 2: total",
        "(call to syscall getppid)",
        "(returned from syscall getppid)",
        "AT_ENTRY",
        "done ()",
        "Found trace frame 5, tracepoint 4",
        "$10 = 7",
        "$11 = 21",
        "Collected 19 trace frames",
        "exited normally",
    ]);
    assert!(said.errors.contains("total 190"), "{}", said.errors);
    let file = program.folder.path().join("saved.tf");
    let info = std::process::Command::new(super::support::TRACEWIRE)
        .args(["info", "--json"])
        .arg(&file)
        .output()
        .unwrap();
    let info = String::from_utf8_lossy(&info.stdout).into_owned();
    assert!(info.contains("\"architecture\":\"i386\""), "{info}");
    assert_clean(&file);
}

#[test]
fn a_fault_of_a_program_of_32_bits_is_told_in_its_form() {
    let program = Program::build("narrow_fault.c", &["-m32"]);
    let said = program.debug(&[
        "continue",
        "print $_siginfo._sifields._sigfault.si_addr",
        "continue",
    ]);
    said.assert_in_order(&[
        "received signal SIGSEGV",
        "$1 = (void *) 0x1234",
        "exited normally",
    ]);
}

#[test]
fn a_program_of_32_bits_is_recorded() {
    let program = Program::build("narrow.c", &["-m32"]);
    let tracewire = |arguments: &[&str]| {
        let output = std::process::Command::new(super::support::TRACEWIRE)
            .args(arguments)
            .current_dir(program.folder.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    tracewire(&[
        "record",
        "-t",
        "work if n > 17: collect n, total, $esp",
        "-o",
        "out.tf",
        "--",
        "./narrow",
    ]);
    assert_clean(&program.folder.path().join("out.tf"));
    let shown = tracewire(&["show", "--json", "out.tf"]);
    assert_eq!(shown.lines().count(), 2);
    let last = shown.lines().last().unwrap();
    assert!(
        last.contains(r#"{"expression":"n","type":"int","value":"19"}"#)
            && last.contains(r#"{"expression":"total","type":"int","value":"171"}"#),
        "{last}"
    );
    // The real GDB reads it, too.
    let gdb = std::process::Command::new("gdb")
        .args([
            "-nx",
            "-batch",
            "-ex",
            "target tfile out.tf",
            "-ex",
            "tfind 1",
        ])
        .args([
            "-ex",
            "print $esp != 0",
            "-ex",
            "show architecture",
            "./narrow",
        ])
        .current_dir(program.folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&gdb.stdout).into_owned();
    assert!(said.contains("Found trace frame 1, tracepoint 1"), "{said}");
    assert!(said.contains("$1 = 1"), "{said}");
    assert!(said.contains("i386"), "{said}");
}

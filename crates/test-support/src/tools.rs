//! Programs that tests need, and the Debian packages that have them.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// Packages whose names are not those of their programs.
const PACKAGES: &[(&str, &str)] = &[
    ("cc", "gcc"),
    ("c++", "g++"),
    ("ld.lld", "lld"),
    ("musl-gcc", "musl-tools"),
    ("objcopy", "binutils"),
    ("objdump", "binutils"),
    ("nm", "binutils"),
    ("strip", "binutils"),
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("qemu-system-aarch64", "qemu-system-arm"),
    ("qemu-system-riscv64", "qemu-system-misc"),
    ("qemu-system-mipsel", "qemu-system-mips"),
    ("qemu-arm", "qemu-user"),
    ("readelf", "binutils"),
    ("debuginfod-find", "debuginfod"),
];

fn package(program: &str) -> &str {
    PACKAGES
        .iter()
        .find(|(name, _)| *name == program)
        .map_or(program, |(_, package)| package)
}

fn is_there(program: &str) -> bool {
    Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok()
}

/// A command that runs a program. Fails the test, with the name of the package, if the program is not installed.
#[track_caller]
pub fn tool(program: &str) -> Command {
    assert!(
        program.contains('/') || is_there(program),
        "{program} is not installed: it is in the Debian package {} (`cargo xtask test` installs what the tests need)",
        package(program)
    );
    Command::new(program)
}

/// Whether these programs are installed. If one is not, the test fails; with `TRACEWIRE_LENIENT=1` in the environment the answer is
/// no, which is printed on stderr with the number of tests skipped so far. For [`need!`](crate::need).
#[track_caller]
pub fn have(programs: &[&str]) -> bool {
    static SKIPPED: AtomicU32 = AtomicU32::new(0);
    let Some(missing) = programs.iter().find(|program| !is_there(program)) else {
        return true;
    };
    assert!(
        std::env::var_os("TRACEWIRE_LENIENT").is_some_and(|value| value == "1"),
        "{missing} is not installed: it is in the Debian package {} (TRACEWIRE_LENIENT=1 skips the test)",
        package(missing)
    );
    let count = SKIPPED.fetch_add(1, Ordering::Relaxed) + 1;
    let test = std::thread::current().name().unwrap_or("?").to_owned();
    // Not by `eprintln!`, which the test harness keeps for itself.
    writeln!(
        std::io::stderr(),
        "skipped: {test} needs {missing} ({count} skipped in this process)"
    )
    .expect("stderr can be written");
    false
}

/// Ends a test that needs programs which are not installed: it fails, or with `TRACEWIRE_LENIENT=1` is skipped.
///
/// ```
/// fn test() {
///     tracewire_test_support::need!("cc", "gdb");
///     // …
/// }
/// # test();
/// ```
#[macro_export]
macro_rules! need {
    ($($program:expr),+ $(,)?) => {
        if !$crate::have(&[$($program),+]) {
            return;
        }
    };
}

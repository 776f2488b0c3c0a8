//! Recorded executions, served to real GDB.

#[path = "../../target-replay/tests/support/mod.rs"]
mod support;

use std::path::Path;
use std::process::Command;

use support::fixture::{files, unpacked};
use support::naive::Naive;
use tracewire_server::{Listener, SessionLog, replay};
use tracewire_target_replay::Execution;

/// The debugger for a machine; none where there is no one that knows it.
fn debugger(machine: &str) -> Option<String> {
    match machine {
        "nios2" => std::env::var("TRACEWIRE_NIOS2_GDB").ok(),
        _ => Some("gdb-multiarch".to_owned()),
    }
}

/// What GDB says when it connects to the recording and is told this.
fn gdb(gdb: &str, program: &Path, execution: &(impl Execution + Sync), commands: &str) -> String {
    let listener = Listener::bind(&":0".parse().unwrap()).unwrap();
    let script = tempfile::NamedTempFile::new().unwrap();
    let text = format!(
        "set width 0\nset height 0\nset confirm off\nset pagination off\ntarget remote {listener}\n{commands}\ndetach\n"
    );
    std::fs::write(script.path(), text).unwrap();
    std::thread::scope(|scope| {
        let server =
            scope.spawn(|| replay::serve(&listener, execution, None, &SessionLog::none(), true));
        let output = Command::new(gdb)
            .args(["-nx", "-batch", "-x"])
            .arg(script.path())
            .arg(program)
            .output()
            .unwrap_or_else(|error| panic!("{gdb}: {error}"));
        server.join().unwrap().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr)
    })
}

#[test]
fn try_it() {
    let folder = tempfile::tempdir().unwrap();
    let machine = std::env::var("M").unwrap_or_else(|_| "mips".to_owned());
    let (program, _) = files(&machine, folder.path());
    let naive = Naive::new(
        machine.parse().unwrap(),
        &unpacked(&machine, "trace"),
        support::naive::image(&unpacked(&machine, "elf")),
    );
    let commands = std::fs::read_to_string("/tmp/try.gdb").unwrap();
    println!(
        "{}",
        gdb(&debugger(&machine).unwrap(), &program, &naive, &commands)
    );
}

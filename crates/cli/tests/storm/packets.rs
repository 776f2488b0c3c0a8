//! The storm, with a client that ignores libraries and steps: signals are sent to the program as fast as possible, and tracepoints
//! change as fast as packets are answered.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::wire::{Server, address};
use crate::{TRACEWIRE, compile, seconds, seed, whole_frames};
use tracewire_test_support::assert_clean;

/// The functions, and the text after the address of each: a condition, or nothing.
const FUNCTIONS: [(&str, &str); 4] = [
    ("mix", ""),
    // Its argument is odd.
    ("leaf", ":X7,26000522010f27"),
    ("recurse", ":X7,26000522010f27"),
    ("handled", ""),
];

pub fn storm(mechanism: &str) {
    let folder = tempfile::tempdir().unwrap();
    compile(
        folder.path(),
        "storm.c",
        "storm",
        &["-fno-pie", "-no-pie", "-fno-inline"],
    );
    compile(
        folder.path(),
        "plugin.c",
        "libplugin.so",
        &["-fPIC", "-shared"],
    );
    let file = |name: &str| folder.path().join(name);
    let program = file("storm");
    let mut server = Server::start(
        Command::new(TRACEWIRE)
            .args(["gdbserver", "--once", "--mechanism", mechanism, "--files"])
            .arg(folder.path())
            .arg("127.0.0.1:0")
            .args([&program, &file("enough"), &file("libplugin.so")])
            .arg(file("said")),
    );
    let mut client = server.connect();
    client.ask("qSupported:multiprocess+;swbreak+");
    assert_eq!(client.ask("QNonStop:1"), "OK");
    // SIGUSR1, SIGRTMIN and SIGCHLD, by GDB's numbers.
    assert_eq!(client.ask("QPassSignals:14;1e;2e"), "OK");
    assert!(client.ask("?").starts_with('T'));
    assert_eq!(client.ask("vStopped"), "OK");
    assert_eq!(client.ask("QTinit"), "OK");
    assert_eq!(client.ask("QTBuffer:circular:1"), "OK");
    assert_eq!(client.ask("QTBuffer:size:3d0900"), "OK");
    let sites: Vec<String> = (2..)
        .zip(FUNCTIONS)
        .map(|(number, (function, _))| format!("{number:x}:{:016x}", address(&program, function)))
        .collect();
    for (site, (_, condition)) in sites.iter().zip(FUNCTIONS) {
        assert_eq!(client.ask(&format!("QTDP:{site}:E:0:0{condition}-")), "OK");
        assert_eq!(client.ask(&format!("QTDP:-{site}:Rffffff")), "OK");
    }
    assert_eq!(client.ask("QTStart"), "OK");
    assert_eq!(client.ask("vCont;c"), "OK");
    let end = Instant::now() + Duration::from_secs(seconds());
    let mut state = seed().wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut changes = 0;
    while Instant::now() < end {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let site = &sites[(state >> 8) as usize % sites.len()];
        let change = ["QTEnable", "QTDisable"][usize::from(state >> 40 & 3 == 0)];
        assert_eq!(client.ask(&format!("{change}:{site}")), "OK");
        changes += 1;
        // Most of the time it rages undisturbed.
        if changes % 16 == 0 {
            assert!(client.ask("qTStatus").starts_with("T1"));
        }
    }
    assert_eq!(client.ask("QTStop"), "OK");
    let status = client.ask("qTStatus");
    let name: String = "storm.tf".bytes().map(|b| format!("{b:02x}")).collect();
    assert_eq!(client.ask(&format!("QTSave:{name}")), "OK");
    std::fs::write(file("enough"), "").unwrap();
    let end = client.notification();
    assert!(end.starts_with("Stop:W0;"), "{end}");
    assert_eq!(client.ask("vStopped"), "OK");
    drop(client);
    assert!(server.child.wait().unwrap().success());
    let said = std::fs::read_to_string(file("said")).unwrap();
    assert!(said.contains(" wrong 0"), "{said}");
    assert_clean(&file("storm.tf"));
    let counts = whole_frames(&file("storm.tf"), FUNCTIONS.len() as i32);
    assert!(counts.iter().sum::<usize>() > 100, "{counts:?}: {said}");
    eprintln!(
        "packets, {mechanism}: {}; {changes} changes; frames in the buffer by tracepoint {counts:?}; {}",
        said.trim_end(),
        created(&status)
    );
}

fn created(status: &str) -> &str {
    let from = status.find("tcreated").unwrap_or(0);
    status[from..].split(';').next().unwrap_or("")
}

//! Clients that say nothing, that are slow, that flood, that vanish, a hundred at a time: the program, its trace run and
//! the next debugger see nothing of them.

use std::io::Write;
use std::net::TcpStream;
use std::process::Command;

#[allow(dead_code, reason = "the other tests use the rest")]
mod wire;

use wire::{Client, Server, address, build, memory, runs};

const TRACEWIRE: &str = env!("CARGO_BIN_EXE_tracewire");

/// The number of frames that were made, of a run that is on.
fn created(status: &str) -> u64 {
    assert!(status.starts_with("T1;"), "{status}");
    let (_, rest) = status.split_once("tcreated:").expect(status);
    let digits = rest.split(';').next().unwrap();
    u64::from_str_radix(digits, 16).unwrap()
}

/// Makes one of four kinds. Returns its open connection.
fn bad_client(port: u16, number: usize) -> Option<TcpStream> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    match number % 4 {
        // Sends nothing.
        0 => Some(stream),
        // Is slow with a packet that it never ends.
        1 => {
            for byte in b"+$qTStatus" {
                stream.write_all(&[*byte]).unwrap();
            }
            Some(stream)
        }
        // Sends data that is no packet, until it is disconnected.
        2 => {
            while stream.write_all(&[b'A'; 4096]).is_ok() {}
            None
        }
        // Vanishes in the middle.
        _ => {
            stream.write_all(b"$qTStat").unwrap();
            None
        }
    }
}

#[test]
fn a_hundred_bad_clients_disturb_neither_the_program_nor_its_trace() {
    let folder = tempfile::tempdir().unwrap();
    let program = build(folder.path(), "ticks.c");
    let (tick, ticks) = (address(&program, "tick"), address(&program, "ticks"));
    let mut server = Server::start(
        Command::new(TRACEWIRE)
            .args(["gdbserver", "127.0.0.1:0"])
            .arg(&program),
    );
    let process = server.process.unwrap();
    let code = memory(process, tick, 16).unwrap();

    // A trace run that continues without a client.
    let mut client = server.connect();
    for packet in [
        "QTinit",
        &format!("QTDP:1:{tick:016x}:E:0:0"),
        "QTBuffer:circular:1",
        "QTDisconnected:1",
        "QTStart",
        "D",
    ] {
        assert_eq!(client.ask(packet), "OK", "{packet}");
    }
    drop(client);
    runs(process, ticks, 50);

    let mut open = Vec::new();
    let port = server.port;
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..100)
            .map(|number| scope.spawn(move || bad_client(port, number)))
            .collect();
        for client in clients {
            open.push(client.join().unwrap());
        }
    });
    // It was not stopped for any of them, half of which are still connected.
    runs(process, ticks, 50);

    // A debugger connects. It stops the program, and finds the run.
    let mut client = server.connect();
    let before = created(&client.ask("qTStatus"));
    assert!(before >= 100, "{before}");
    assert!(client.ask("?").starts_with('T'));
    assert_eq!(client.ask("QTFrame:0"), "F0T1");
    // It floods the server with questions, looks at no answer, and vanishes.
    client.0.set_nonblocking(true).unwrap();
    let flood = b"$qTStatus#49".repeat(10_000);
    let mut rest = flood.as_slice();
    while let Ok(count) = client.0.write(rest) {
        rest = &rest[count..];
        if rest.is_empty() {
            break;
        }
    }
    drop(client);

    // The next one finds the program stopped, and the run as it was.
    let mut client: Client = server.connect();
    assert_eq!(created(&client.ask("qTStatus")), before);
    assert_eq!(client.ask("QTFrame:0"), "F0T1");
    assert_eq!(client.ask("QTFrame:ffffffff"), "OK");
    let shown = client.ask(&format!("m{tick:x},10"));
    let bytes: String = code.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(shown, bytes);
    assert_eq!(client.ask("QTStop"), "OK");
    assert_eq!(client.ask("D"), "OK");
    drop(open);
    // No trace of the clients is left. The server, as gdbserver, waits for the program that it has started.
    runs(process, ticks, 50);
    assert_eq!(memory(process, tick, 16).unwrap(), code);
    let _ = Command::new("kill").arg(process.to_string()).status();
    assert!(server.child.wait().unwrap().success());
}

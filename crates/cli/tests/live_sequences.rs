//! Packets in any order to a live process: the server answers each, and the process then runs on unchanged. `cargo xtask torture
//! session` does it ten thousand times.

use std::io;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

#[path = "../../server/tests/sequences/mod.rs"]
mod sequences;
#[allow(dead_code, reason = "the other tests use the rest")]
mod wire;

use sequences::{Choices, Places};
use tracewire_test_support::Gdb;
use wire::{Client, Server, address, build, memory, runs};

const TRACEWIRE: &str = env!("CARGO_BIN_EXE_tracewire");

fn from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// The same bytes for the same seed.
fn bytes(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0..length)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 24) as u8
        })
        .collect()
}

/// The process, which is ended with the test.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts of the instructions of the function that the process calls again and again.
fn instructions(program: &Path) -> Vec<u64> {
    let gdb = Gdb::new().program(program).command("disassemble step");
    gdb.run()
        .output
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("0x"))
        .map(|line| {
            let digits = line.split(' ').next().unwrap();
            u64::from_str_radix(digits, 16).unwrap()
        })
        .collect()
}

fn runs_a_program(payload: &[u8]) -> bool {
    payload.starts_with(b"vCont;") || matches!(payload, b"c" | b"s")
}

/// Sends packets until the choices are used up. Runs of the process are interrupted after a moment.
fn talk(client: &mut Client, choices: &mut Choices<'_>, places: &Places) -> io::Result<()> {
    while !choices.is_empty() {
        let payload = choices.packet(places);
        client.send(&payload)?;
        if runs_a_program(&payload) {
            let patience = client.0.read_timeout()?;
            client.0.set_read_timeout(Some(Duration::from_millis(
                1 + u64::from(choices.byte() % 8),
            )))?;
            let stopped = client.reply();
            client.0.set_read_timeout(patience)?;
            match stopped {
                Ok(_) => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    io::Write::write_all(&mut client.0, &[3])?;
                }
                Err(error) => return Err(error),
            }
        }
        let reply = client.reply();
        if let Err(error) = reply {
            let packet = String::from_utf8_lossy(&payload).into_owned();
            return Err(io::Error::new(error.kind(), format!("{packet}: {error}")));
        }
    }
    Ok(())
}

#[test]
fn a_process_survives_any_packets_that_do_not_change_it() {
    let times = from_environment("TRACEWIRE_SESSION_TIMES", 20);
    let seed = from_environment("TRACEWIRE_SESSION_SEED", 1);
    let folder = tempfile::tempdir().unwrap();
    let program = build(folder.path(), "steady.c");
    let [count, other, scratch, step] =
        ["count", "other", "scratch", "step"].map(|symbol| address(&program, symbol));
    let code = instructions(&program);
    assert!(code.len() > 5);
    let mut process = Program(Command::new(&program).stdin(Stdio::null()).spawn().unwrap());
    let id = process.0.id();
    let length = (code.last().unwrap() - step) as usize + 1;
    // Both threads count.
    for counted in [count, other] {
        while memory(id, counted, 8).map_or(true, |bytes| bytes == [0; 8]) {
            std::thread::yield_now();
        }
    }
    let before = memory(id, step, length).unwrap();
    let places = Places {
        code,
        data: scratch,
        threads: std::fs::read_dir(format!("/proc/{id}/task"))
            .unwrap()
            .map(|entry| {
                entry
                    .unwrap()
                    .file_name()
                    .to_str()
                    .unwrap()
                    .parse()
                    .unwrap()
            })
            .collect(),
        harmful: false,
    };
    let first = from_environment("TRACEWIRE_SESSION_FIRST", 0);
    for time in first..first + times {
        let number = seed.wrapping_mul(1_000_003).wrapping_add(time);
        let bytes = bytes(number, 40 + (number % 8) as usize * 60);
        let mut server = Server::start(
            Command::new(TRACEWIRE)
                .args(["gdbserver", "--once", "--attach", "--files"])
                .arg(folder.path())
                .args(["127.0.0.1:0", &id.to_string()]),
        );
        let mut client = server.connect();
        if let Err(error) = talk(&mut client, &mut Choices(&bytes), &places) {
            panic!("sequence {number}: {error}");
        }
        // It detaches, or vanishes.
        if number % 3 > 0 {
            assert_eq!(client.ask("D"), "OK", "sequence {number}");
        }
        drop(client);
        assert!(server.child.wait().unwrap().success(), "sequence {number}");
        let ended = process.0.try_wait().unwrap();
        assert_eq!(
            ended, None,
            "sequence {time}, {number}, has ended the program"
        );
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
        assert!(
            status.contains("TracerPid:\t0\n"),
            "sequence {number}: {status}"
        );
        runs(id, count, 2);
        runs(id, other, 2);
        assert_eq!(
            memory(id, step, length).unwrap(),
            before,
            "sequence {number}"
        );
    }
}

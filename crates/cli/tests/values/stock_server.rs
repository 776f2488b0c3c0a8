//! A printer's data is collected by bytecode of GDB's opcodes: stock gdbserver runs it, and collects the same bytes.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;
use tracewire_debuginfo::Symbols;
use tracewire_expr::{ActionList, CollectOptions};
use tracewire_model::VariableNumber;
use tracewire_test_support::assert_clean;
use tracewire_tracefile::TraceFile;

use crate::wire::{Server, address};
use crate::{compiled, frames};

/// The values have addresses that do not depend on the environment.
const SOURCE: &str = r#"
#include <map>
#include <optional>
#include <string>
#include <vector>
struct Five {
    std::string name;
    std::vector<unsigned> parts;
    std::map<int, std::string> table;
    std::optional<std::string> note;
    std::vector<std::string> lines;
};
static Five five{"a name of 20 letters", {1, 2, 3, 4}, {{1, "one"}, {2, "two, in a string that is longer"}}, {},
                 {"first", "a second line, which is longer than that"}};
extern "C" __attribute__((noinline)) long look(const Five &five, const std::string &name, const std::vector<unsigned> &parts) {
    asm volatile("" ::"r"(&five), "r"(&name), "r"(&parts) : "memory");
    return 0;
}
extern "C" __attribute__((noinline)) void done() { asm volatile(""); }
int main() {
    for (int i = 0; i < 4; i++) {
        look(five, five.name, five.parts);
        five.name += '!';
        five.parts.push_back(10 * i);
        five.table[i * 7] = std::string(10 * i, 'x');
        five.note = "note " + std::to_string(i);
    }
    done();
}
"#;

type Memory = BTreeMap<u64, u8>;

/// The collected arguments of the function.
const COLLECTED: [&str; 3] = ["five", "name", "parts"];

/// The memory of each frame that our own recording has.
fn our_frames(directory: &Path, program: &Path) -> Vec<Memory> {
    let recorded = Command::new("setarch")
        .arg("-R")
        .arg(env!("CARGO_BIN_EXE_tracewire"))
        .current_dir(directory)
        .env("XDG_CONFIG_HOME", directory)
        .args([
            "record",
            "-o",
            "out.tf",
            "-t",
            &format!("look : {}", COLLECTED.join(", ")),
            "--",
        ])
        .arg(program)
        .stdin(Stdio::null())
        .output()
        .expect("tracewire runs");
    let said = String::from_utf8_lossy(&recorded.stderr);
    assert!(recorded.status.success(), "{said}");
    let file = directory.join("out.tf");
    assert_clean(&file);
    let trace = TraceFile::open(&file).expect("a trace file");
    let memory = trace.frames().map(|frame| {
        let bytes = frame
            .memory_blocks()
            .flat_map(|(start, bytes)| (start.0..).zip(bytes.iter().copied()));
        bytes.collect()
    });
    memory.collect()
}

/// The packets that define the same tracepoint.
fn packets(program: &Path) -> Vec<String> {
    let mut symbols = Symbols::new();
    symbols.add_module(program, 0).expect("a good program");
    let places = symbols.resolve("look", None).expect("a function");
    let [place] = &places[..] else {
        panic!("{places:?}");
    };
    let nothing = |_: &str| None::<VariableNumber>;
    let mut actions = ActionList::new(&symbols, place.scope(), &nothing);
    for item in COLLECTED {
        let warnings = actions.collect(item, CollectOptions::default());
        assert!(warnings.expect("good expressions").is_empty());
    }
    let address = place.address.0;
    let mut packets = vec![format!("QTDP:1:{address:x}:E:0:0-")];
    packets
        .extend((actions.finish().iter()).map(|action| format!("QTDP:-1:{address:x}:{action}-")));
    let last = packets.last_mut().expect("a packet");
    last.pop();
    packets
}

fn bytes_of_hex(text: &str) -> Vec<u8> {
    let pair = |pair: &[u8]| {
        let pair = std::str::from_utf8(pair).expect("hexadecimal digits");
        u8::from_str_radix(pair, 16).expect("hexadecimal digits")
    };
    text.as_bytes().chunks(2).map(pair).collect()
}

/// The memory of each frame in gdbserver's buffer.
fn frames_of(buffer: &[u8], registers: usize) -> Vec<Memory> {
    let number = |at: usize, size: usize| {
        let mut bytes = [0; 8];
        bytes[..size].copy_from_slice(&buffer[at..at + size]);
        u64::from_le_bytes(bytes)
    };
    let mut frames = Vec::new();
    let mut at = 0;
    while at < buffer.len() && number(at, 2) != 0 {
        let end = at + 6 + number(at + 2, 4) as usize;
        at += 6;
        let mut memory = Memory::new();
        while at < end {
            match buffer[at] {
                b'R' => at += 1 + registers,
                b'M' => {
                    let (start, length) = (number(at + 1, 8), number(at + 9, 2) as usize);
                    let bytes = &buffer[at + 11..at + 11 + length];
                    memory.extend((start..).zip(bytes.iter().copied()));
                    at += 11 + length;
                }
                b'V' => at += 13,
                other => panic!("a block of kind {other}"),
            }
        }
        frames.push(memory);
    }
    frames
}

#[test]
fn stock_gdbserver_collects_the_same_bytes() {
    let directory = TempDir::new().expect("a directory");
    let directory = directory.path();
    let options = ["-std=c++17", "-g", "-O1", "-no-pie", "-fno-pie"];
    let program = compiled(directory, "g++", &options, SOURCE);
    let ours = our_frames(directory, &program);
    assert_eq!(ours.len(), 4);
    assert!(ours.iter().all(|memory| memory.len() > 200), "{ours:?}");
    let server = Server::start(
        Command::new("gdbserver")
            .args(["--once", "127.0.0.1:0"])
            .arg(&program)
            .stdin(Stdio::null())
            .stdout(Stdio::null()),
    );
    let mut client = server.connect();
    client.ask("qSupported:multiprocess-;swbreak+");
    client.ask("?");
    let registers = client.ask("g").len() / 2;
    assert_eq!(client.ask("QTinit"), "OK");
    for packet in packets(&program) {
        assert_eq!(client.ask(&packet), "OK", "{packet}");
    }
    assert_eq!(client.ask("QTStart"), "OK");
    let done = address(&program, "done");
    assert_eq!(client.ask(&format!("Z0,{done:x},1")), "OK");
    let stop = client.ask("c");
    assert!(stop.starts_with("T05"), "{stop}");
    assert_eq!(client.ask("QTStop"), "OK");
    let mut buffer = Vec::new();
    loop {
        let part = client.ask(&format!("qTBuffer:{:x},1000", buffer.len()));
        if part == "l" {
            break;
        }
        buffer.extend(bytes_of_hex(&part));
    }
    let theirs = frames_of(&buffer, registers);
    assert_eq!(theirs.len(), ours.len());
    for (number, (theirs, ours)) in theirs.iter().zip(&ours).enumerate() {
        let only = |one: &Memory, other: &Memory| -> Vec<String> {
            one.iter()
                .filter(|(address, byte)| other.get(*address) != Some(byte))
                .map(|(address, byte)| format!("{address:#x}: {byte:#x}"))
                .collect()
        };
        let (theirs, ours) = (only(theirs, ours), only(ours, theirs));
        assert!(
            theirs.is_empty() && ours.is_empty(),
            "frame {number}: gdbserver {theirs:?}, tracewire {ours:?}"
        );
    }
    let shown = frames(directory, &[]);
    let shown = shown[3]["values"].to_string();
    assert!(shown.contains("a name of 20 letters!!!"), "{shown}");
}

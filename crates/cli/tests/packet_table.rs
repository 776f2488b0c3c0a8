//! `docs/formats/packets.md` is true: its tables are run against live, saved and replayed sessions, and against gdbserver.
//!
//! `TRACEWIRE_PACKET_TABLE=write` writes the answers into the page, for a review of the changes.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

#[allow(dead_code, reason = "the other tests use the rest")]
mod wire;

use wire::{Client, address, build};

const TRACEWIRE: &str = env!("CARGO_BIN_EXE_tracewire");

/// The columns of the tables.
const KINDS: [Kind; 4] = [Kind::Live, Kind::Saved, Kind::Replay, Kind::Gdbserver];

/// How often the recorded execution calls `done`.
const ROUNDS: u64 = 12;

/// The longest answer that the page shows in full.
const SHOWN: usize = 120;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Live,
    Saved,
    Replay,
    Gdbserver,
}

fn page() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/formats/packets.md")
}

/// The program, its trace file and its recorded execution.
struct Fixture {
    folder: tempfile::TempDir,
    program: PathBuf,
    symbols: BTreeMap<&'static str, u64>,
}

/// A server that is killed in the end, and its port.
struct Server(Child, u16);

impl Drop for Server {
    fn drop(&mut self) {
        // gdbserver's program goes with it only when it is asked to end.
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        let _ = self.0.wait();
    }
}

impl Server {
    fn connect(&self) -> Session {
        let stream = std::net::TcpStream::connect(("127.0.0.1", self.1)).unwrap();
        stream.set_nodelay(true).unwrap();
        stream
            .set_read_timeout(Some(std::time::Duration::from_secs(120)))
            .unwrap();
        let mut session = Session {
            client: Client(stream),
            features: String::new(),
        };
        session.features = session.client.ask("qSupported:swbreak+");
        // gdbserver takes no tracepoint packet before a thread is selected.
        assert_eq!(session.client.ask("Hg0"), "OK");
        session
    }
}

struct Session {
    client: Client,
    features: String,
}

impl Fixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let program = build(folder.path(), "packets.c");
        let symbols = ["tick", "done", "counter", "constant"]
            .map(|name| (name, address(&program, name)))
            .into();
        let fixture = Self {
            folder,
            program,
            symbols,
        };
        std::fs::write(fixture.execution(), fixture.execution_text()).unwrap();
        let server = fixture.server(Kind::Live);
        let mut session = server.connect();
        fixture.prelude(&mut session, "a run");
        let name: String = b"saved.tf"
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        assert_eq!(session.client.ask(&format!("QTSave:{name}")), "OK");
        tracewire_test_support::assert_clean(&fixture.folder.path().join("saved.tf"));
        fixture
    }

    fn execution(&self) -> PathBuf {
        self.folder.path().join("execution.trace")
    }

    /// The program's execution, in the format of QEMU4V.
    fn execution_text(&self) -> String {
        let (tick, done, counter) = (
            self.symbols["tick"],
            self.symbols["done"],
            self.symbols["counter"],
        );
        let mut text = String::new();
        let (mut time, mut count) = (0, 0);
        let mut execute = |address: u64, more: &str| {
            time += 1;
            writeln!(
                text,
                "{time} clk 0 IT ({time}) {address:016x} 90909090 A svc_ns : nop\n{}",
                more.replace("TIME", &time.to_string())
            )
            .unwrap();
        };
        execute(
            done - 0x40,
            &format!(
                "TIME clk R rax 0000000000000003\nTIME clk MW8 {counter:016x} {:016x}",
                0
            ),
        );
        for _ in 0..ROUNDS {
            for _ in 0..3 {
                count += 1;
                execute(tick, "");
                execute(
                    tick + 4,
                    &format!("TIME clk MW8 {counter:016x} {count:016x}"),
                );
            }
            execute(done, "");
        }
        execute(done + 4, "");
        text
    }

    #[expect(
        clippy::zombie_processes,
        reason = "the server waits for it when it is dropped"
    )]
    fn server(&self, kind: Kind) -> Server {
        let mut command = match kind {
            Kind::Gdbserver => Command::new("gdbserver"),
            _ => Command::new(TRACEWIRE),
        };
        match kind {
            Kind::Live => command
                .args(["gdbserver", "--files"])
                .arg(self.folder.path())
                .arg("127.0.0.1:0")
                .arg(&self.program),
            Kind::Saved => command
                .args(["serve", "127.0.0.1:0"])
                .arg(self.folder.path().join("saved.tf")),
            Kind::Replay => command
                .args(["serve", "--architecture", "x86_64", "--files"])
                .arg(self.folder.path())
                .arg("127.0.0.1:0")
                .arg(self.execution()),
            Kind::Gdbserver => command.arg("127.0.0.1:0").arg(&self.program),
        };
        let mut child = command
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{kind:?}: {error}"));
        let mut words = std::io::BufReader::new(child.stderr.take().unwrap());
        loop {
            let mut line = String::new();
            let count = std::io::BufRead::read_line(&mut words, &mut line).unwrap();
            assert!(count > 0, "{kind:?}: the server ends");
            let line = line.trim_end();
            let port = line
                .strip_prefix("Listening on port ")
                .or_else(|| Some(line.split_once("target remote 127.0.0.1:")?.1));
            if let Some(port) = port {
                let port = port.parse().unwrap();
                std::thread::spawn(move || std::io::copy(&mut words, &mut std::io::sink()));
                return Server(child, port);
            }
        }
    }

    /// A text with its names replaced by addresses.
    fn resolved(&self, text: &str) -> String {
        let mut resolved = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            resolved.push_str(before);
            let Some((name, after)) = after.split_once('}') else {
                panic!("`{{` without `}}`: {text}");
            };
            let (bytes, name) = match name.strip_prefix("bytes of ") {
                Some(name) => (true, name),
                None => (false, name),
            };
            let (name, more) = name.split_once('+').unwrap_or((name, "0"));
            let value = self.symbols[name] + more.parse::<u64>().unwrap();
            if bytes {
                for byte in value.to_le_bytes() {
                    write!(resolved, "{byte:02x}").unwrap();
                }
            } else {
                write!(resolved, "{value:x}").unwrap();
            }
            rest = after;
        }
        resolved + rest
    }

    /// An answer as the page has it.
    fn written(&self, packet: &str, reply: &str) -> String {
        if reply.is_empty() {
            return "*empty*".to_owned();
        }
        if reply.starts_with("E.This is a saved trace") {
            return "*refused*".to_owned();
        }
        let mut text = shown(reply);
        // The place of the error and the packet are left out.
        if text.starts_with("E.")
            && let Some((what, _)) = text.split_once(" at byte ")
        {
            text = format!("{what}*");
        }
        for (name, value) in &self.symbols {
            let bytes: String = value
                .to_le_bytes()
                .map(|byte| format!("{byte:02x}"))
                .concat();
            text = text.replace(&bytes, &format!("{{bytes of {name}}}"));
            text = text.replace(&format!("{value:016x}"), &format!("0000000000{{{name}}}"));
            text = text.replace(&format!("{value:x}"), &format!("{{{name}}}"));
        }
        // The size of frames is not documented on the page.
        if text.starts_with('V')
            && let Some((hits, _)) = text.rsplit_once(':')
        {
            text = format!("{hits}:*");
        }
        if packet.starts_with("qTBuffer:") && text.starts_with("0100") {
            text = "0100*".to_owned();
        }
        for field in ["tfree:", "starttime:", "stoptime:"] {
            if let Some((before, after)) = text.split_once(field) {
                let rest = after.trim_start_matches(|digit: char| digit.is_ascii_hexdigit());
                text = format!("{before}{field}*{rest}");
            }
        }
        if text.len() > SHOWN {
            text.truncate(SHOWN);
            text.push('*');
        }
        format!("`{text}`")
    }

    fn prelude(&self, session: &mut Session, what: &str) {
        match what {
            "a tracepoint" => {
                for packet in [
                    "QTinit",
                    "QTDP:1:{tick}:E:0:0-",
                    "QTDP:-1:{tick}:R10001M-1,{counter},8-",
                    "QTDV:5:a:0:76",
                    "QTDP:-1:{tick}:Xd,2c00052201022d00052e000527",
                ] {
                    let reply = session.client.ask(&self.resolved(packet));
                    assert_eq!(reply, "OK", "{packet}");
                }
            }
            "to done" => {
                let at = self.resolved("Z0,{done},1");
                assert!(session.client.ask("vCont;s").starts_with('T'));
                assert_eq!(session.client.ask(&at), "OK");
                assert!(session.client.ask("vCont;c").starts_with('T'));
                assert_eq!(session.client.ask(&at.replace('Z', "z")), "OK");
            }
            "a run" => {
                self.prelude(session, "a tracepoint");
                assert_eq!(session.client.ask("QTStart"), "OK");
                self.prelude(session, "to done");
                assert_eq!(session.client.ask("QTStop"), "OK");
            }
            _ => panic!("what is `{what}`?"),
        }
    }

    /// The results of all rows, of each section with a separate server.
    fn play_all(&self, kind: Kind, rows: &[Row]) -> Vec<Option<String>> {
        let mut answers = Vec::new();
        for section in rows.chunk_by(|one, next| one.section == next.section) {
            let server = self.server(kind);
            let mut session = server.connect();
            for row in section {
                answers.push(self.play(kind, &server, &mut session, row));
            }
        }
        answers
    }

    /// The answer of a row; `None` if nothing is sent.
    fn play(
        &self,
        kind: Kind,
        server: &Server,
        session: &mut Session,
        row: &Row,
    ) -> Option<String> {
        match &row.step {
            Step::Reconnect => {
                // A program is debugged by one client at a time.
                session.client.0.shutdown(std::net::Shutdown::Both).unwrap();
                *session = server.connect();
                None
            }
            // The file is of such a run.
            Step::Prelude(_) if kind == Kind::Saved => None,
            Step::Prelude(what) => {
                self.prelude(session, what);
                None
            }
            Step::Packet(_) if row.cells.get(kind as usize).is_some_and(|cell| cell == "–") => {
                None
            }
            Step::Packet(feature) if row.section == "qSupported" => {
                let reported = session
                    .features
                    .split(';')
                    .find_map(|reported| reported.strip_prefix(feature.as_str()))
                    .filter(|rest| ["+", "-"].contains(rest));
                Some(reported.map_or(String::new(), |rest| format!("{feature}{rest}")))
            }
            Step::Packet(packet) => Some(session.client.ask(&self.resolved(packet))),
        }
    }
}

/// An answer, on one line.
fn shown(reply: &str) -> String {
    reply.replace('\n', "\\n").replace('|', "\\p")
}

/// Whether a text matches a pattern in which `*` is any text.
fn fits(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else {
        return false;
    };
    let Some(last) = pattern.split('*').skip(1).last() else {
        return rest.is_empty();
    };
    let middle = pattern.matches('*').count() - 1;
    for part in parts.take(middle) {
        match rest.split_once(part) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last)
}

enum Step {
    Packet(String),
    Prelude(String),
    Reconnect,
}

/// A row of the page.
struct Row {
    section: String,
    /// Which line of the page.
    line: usize,
    step: Step,
    /// The answers, by kind.
    cells: Vec<String>,
}

fn rows(text: &str) -> Vec<Row> {
    let mut section = String::new();
    let mut rows = Vec::new();
    for (line, text) in text.lines().enumerate() {
        if let Some(title) = text.strip_prefix("## ") {
            title.clone_into(&mut section);
        }
        let Some(row) = text.strip_prefix("| ") else {
            continue;
        };
        let mut cells = row
            .trim_end_matches('|')
            .split(" | ")
            .map(|cell| cell.trim().to_owned());
        let packet = cells.next().unwrap();
        let step = if let Some(packet) = packet.strip_prefix('`') {
            Step::Packet(packet.trim_end_matches('`').to_owned())
        } else if let Some(what) = packet.strip_prefix("**") {
            match what.trim_end_matches("**") {
                "reconnect" => Step::Reconnect,
                what => Step::Prelude(what.to_owned()),
            }
        } else {
            continue;
        };
        rows.push(Row {
            section: section.clone(),
            line,
            step,
            cells: cells.collect(),
        });
    }
    rows
}

#[test]
fn every_packet_is_answered_as_the_page_says() {
    let text = std::fs::read_to_string(page()).unwrap();
    let rows = rows(&text);
    assert!(rows.len() > 100, "the page has {} rows", rows.len());
    let fixture = Fixture::new();
    let written = std::env::var("TRACEWIRE_PACKET_TABLE").is_ok_and(|what| what == "write");
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let mut wrong = String::new();
    let played = std::thread::scope(|scope| {
        let (rows, fixture) = (&rows, &fixture);
        KINDS
            .map(|kind| scope.spawn(move || fixture.play_all(kind, rows)))
            .map(|playing| playing.join().unwrap())
    });
    for (number, row) in rows.iter().enumerate() {
        let Step::Packet(packet) = &row.step else {
            continue;
        };
        let answers = played.iter().map(|answers| &answers[number]);
        if written {
            let cells: Vec<String> = answers
                .map(|answer| match answer {
                    Some(reply) => fixture.written(packet, reply),
                    None => "–".to_owned(),
                })
                .collect();
            lines[row.line] = format!("| `{packet}` | {} |", cells.join(" | "));
            continue;
        }
        assert_eq!(row.cells.len(), KINDS.len(), "line {}", row.line + 1);
        for ((kind, cell), answer) in KINDS.iter().zip(&row.cells).zip(answers) {
            let Some(reply) = answer else { continue };
            let reply = shown(reply);
            let fits = match cell.as_str() {
                "*empty*" => reply.is_empty(),
                "*refused*" => reply.starts_with("E.This is a saved trace"),
                "*error*" => reply.starts_with('E'),
                cell => fits(&fixture.resolved(cell.trim_matches('`')), &reply),
            };
            if !fits {
                writeln!(
                    wrong,
                    "line {}: {kind:?}: {packet}\n  expected {cell}\n  answered {reply}",
                    row.line + 1
                )
                .unwrap();
            }
        }
    }
    if written {
        std::fs::write(page(), lines.join("\n") + "\n").unwrap();
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// The page has all packets of the family that this project supports.
#[test]
fn no_packet_is_missing_on_the_page() {
    let text = std::fs::read_to_string(page()).unwrap();
    let rows = rows(&text);
    let known = tracewire_packets::Request::prefixes().filter(|prefix| {
        prefix.starts_with("QT") || prefix.starts_with("qT") && *prefix != "qThreadExtraInfo,"
    });
    for prefix in known.filter(|prefix| *prefix != "QThreadEvents:") {
        let found = rows.iter().any(|row| match &row.step {
            Step::Packet(packet) => packet.starts_with(prefix),
            _ => false,
        });
        assert!(found, "{prefix} is not on the page");
    }
}

//! QEMU's own stub, asked packet by packet.

use std::io::{BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// A connection to a stub.
pub struct Stub {
    write: UnixStream,
    read: BufReader<UnixStream>,
}

impl Stub {
    #[track_caller]
    pub fn connect(socket: &Path) -> Self {
        let write = UnixStream::connect(socket).expect("QEMU listens");
        let read = write.try_clone().expect("a second handle");
        read.set_read_timeout(Some(Duration::from_secs(60)))
            .expect("a limit");
        let mut stub = Self {
            write,
            read: BufReader::new(read),
        };
        stub.ask("qSupported:xmlRegisters=i386");
        stub
    }

    /// Sends a packet and reads the reply to it.
    #[track_caller]
    pub fn ask(&mut self, payload: &str) -> String {
        let sum = payload
            .bytes()
            .fold(0u8, |sum, byte| sum.wrapping_add(byte));
        write!(self.write, "${payload}#{sum:02x}").expect("QEMU reads");
        let mut reply = Vec::new();
        let mut next = || {
            let mut byte = [0];
            self.read.read_exact(&mut byte).expect("QEMU answers");
            byte[0]
        };
        while next() != b'$' {}
        loop {
            match next() {
                b'#' => break,
                byte => reply.push(byte),
            }
        }
        next();
        next();
        self.write.write_all(b"+").expect("QEMU reads");
        String::from_utf8_lossy(&reply).into_owned()
    }

    /// A part of the target description; empty where there is none.
    #[track_caller]
    fn description(&mut self, part: &str) -> String {
        let mut text = String::new();
        loop {
            let piece = self.ask(&format!("qXfer:features:read:{part}:{:x},700", text.len()));
            match piece.split_at_checked(1) {
                Some(("m", more)) => text.push_str(more),
                Some(("l", more)) => return text + more,
                _ => return String::new(),
            }
        }
    }

    /// The registers of the target description by their names.
    #[track_caller]
    pub fn registers(&mut self) -> Vec<(String, u16)> {
        let whole = self.description("target.xml");
        let mut registers: Vec<(String, u16)> = Vec::new();
        let mut next = 0;
        for part in values(&whole, "<xi:include", "href") {
            let part = without_comments(&self.description(part));
            for register in part.split("<reg ").skip(1) {
                let register = register.split('>').next().unwrap_or_default();
                let name = values(register, "", "name").next().expect("a name");
                let number = values(register, "", "regnum").next();
                let number = number.map_or(next, |number| number.parse().expect("a number"));
                let name = name.to_ascii_lowercase();
                // Those of the system may have a name of the core's, which comes first.
                if registers.iter().all(|(of, _)| *of != name) {
                    registers.push((name, number));
                }
                next = number + 1;
            }
        }
        registers
    }

    /// Runs to an address.
    #[track_caller]
    pub fn run_to(&mut self, address: u64) {
        assert_eq!(self.ask(&format!("Z1,{address:x},4")), "OK");
        let stop = self.ask("c");
        assert!(stop.starts_with('T') || stop.starts_with('S'), "{stop}");
        assert_eq!(self.ask(&format!("z1,{address:x},4")), "OK");
    }

    /// A register in the order of memory; none where the stub has none of this number.
    #[track_caller]
    pub fn register(&mut self, number: u16) -> Option<Vec<u8>> {
        let text = self.ask(&format!("p{number:x}"));
        bytes(&text)
    }

    /// Executes one instruction. A step that an interrupt request ends has no effect, and is repeated.
    #[track_caller]
    pub fn step(&mut self, program_counter: u16) {
        let before = self.register(program_counter);
        while self.register(program_counter) == before {
            self.ask("s");
        }
    }

    #[track_caller]
    pub fn memory(&mut self, address: u64, length: u64) -> Vec<u8> {
        let text = self.ask(&format!("m{address:x},{length:x}"));
        bytes(&text).expect("memory that can be read")
    }
}

fn bytes(text: &str) -> Option<Vec<u8>> {
    let is_hex = !text.is_empty() && text.len().is_multiple_of(2);
    let digits = |at: usize| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
    is_hex
        .then(|| (0..text.len()).step_by(2).map(digits).collect())
        .flatten()
}

/// The values of an attribute of all elements of a kind.
fn values<'x>(xml: &'x str, element: &'static str, name: &str) -> impl Iterator<Item = &'x str> {
    let start = format!("{name}=\"");
    let pieces: Vec<_> = match element {
        "" => vec![xml],
        element => xml.split(element).skip(1).collect(),
    };
    pieces.into_iter().filter_map(move |piece| {
        let from = piece.find(&start)? + start.len();
        piece[from..].split('"').next()
    })
}

fn without_comments(xml: &str) -> String {
    let pieces = xml.split("<!--").enumerate();
    pieces
        .map(|(number, piece)| match piece.split_once("-->") {
            Some((_, after)) if number > 0 => after,
            _ => piece,
        })
        .collect()
}

//! A client of the remote protocol, and the process behind the server as the kernel shows it.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tracewire_test_support::Cc;

/// How long an answer may take before the server counts as hung: many times what it takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Builds a program of `tests/programs` whose addresses are those that it is linked for.
pub fn build(folder: &Path, source: impl AsRef<Path>) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/programs")
        .join(source);
    Cc::new()
        .options(&["-O0", "-no-pie", "-fno-pie", "-pthread"])
        .source(source)
        .build_in(folder)
}

/// The address of a symbol.
pub fn address(program: &Path, symbol: &str) -> u64 {
    let output = Command::new("nm")
        .arg(program)
        .output()
        .expect("nm is installed");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines()
        .find_map(|line| {
            let mut words = line.split(' ');
            let address = words.next()?;
            (words.nth(1)? == symbol).then(|| u64::from_str_radix(address, 16).unwrap())
        })
        .expect("a symbol")
}

/// A server, and its output.
pub struct Server {
    pub child: Child,
    pub port: u16,
    /// The number of the process that it has started.
    pub process: Option<u32>,
}

impl Server {
    #[expect(
        clippy::zombie_processes,
        reason = "the test waits for the server it was given"
    )]
    pub fn start(command: &mut Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut words = BufReader::new(child.stderr.take().unwrap());
        let mut process = None;
        loop {
            let mut line = String::new();
            assert!(words.read_line(&mut line).unwrap() > 0, "the server ends");
            if let Some((_, number)) = line.trim_end().split_once("created; pid = ") {
                process = number.parse().ok();
            }
            if let Some(port) = line.trim_end().strip_prefix("Listening on port ") {
                let port = port.parse().unwrap();
                std::thread::spawn(move || io::copy(&mut words, &mut io::sink()));
                return Self {
                    child,
                    port,
                    process,
                };
            }
        }
    }

    pub fn connect(&self) -> Client {
        Client::connect_to(self.port)
    }
}

/// Ends the server when a test fails.
impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(process) = self.process {
            let _ = Command::new("kill")
                .args(["-9", &process.to_string()])
                .stderr(Stdio::null())
                .status();
        }
    }
}

/// A client.
pub struct Client(pub TcpStream);

impl Client {
    /// A client at a port of this machine.
    pub fn connect_to(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Self(stream)
    }

    pub fn send(&mut self, payload: &[u8]) -> io::Result<()> {
        let sum = payload
            .iter()
            .fold(0u8, |sum, byte| sum.wrapping_add(*byte));
        let mut packet = vec![b'$'];
        packet.extend_from_slice(payload);
        packet.extend(format!("#{sum:02x}").bytes());
        self.0.write_all(&packet)
    }

    /// The next packet, with runs of a byte written out.
    ///
    /// # Errors
    /// When the connection ends; when nothing comes within the time that is set.
    pub fn reply(&mut self) -> io::Result<String> {
        let mut text = Vec::new();
        let mut byte = [0];
        while byte != *b"$" {
            self.0.read_exact(&mut byte)?;
        }
        loop {
            self.0.read_exact(&mut byte)?;
            if byte == *b"#" {
                break;
            }
            match (byte, text.last().copied()) {
                ([b'*'], Some(last)) => {
                    self.0.read_exact(&mut byte)?;
                    text.extend(std::iter::repeat_n(last, usize::from(byte[0] - 29)));
                }
                _ => text.push(byte[0]),
            }
        }
        self.0.read_exact(&mut [0; 2])?;
        self.0.write_all(b"+")?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// The next notification.
    pub fn notification(&mut self) -> String {
        let mut text = Vec::new();
        let mut byte = [0];
        while byte != *b"%" {
            self.0.read_exact(&mut byte).unwrap();
        }
        while byte != *b"#" {
            self.0.read_exact(&mut byte).unwrap();
            text.push(byte[0]);
        }
        self.0.read_exact(&mut [0; 2]).unwrap();
        String::from_utf8_lossy(&text).into_owned()
    }

    pub fn ask(&mut self, payload: &str) -> String {
        self.send(payload.as_bytes()).unwrap();
        self.reply()
            .unwrap_or_else(|error| panic!("no answer to {payload}: {error}"))
    }
}

/// Memory of a process, as the kernel shows it: with the server's changes.
pub fn memory(process: u32, address: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    std::fs::File::open(format!("/proc/{process}/mem"))?.read_exact_at(&mut bytes, address)?;
    Ok(bytes)
}

/// A counter of a process.
pub fn counter(process: u32, address: u64) -> u64 {
    let bytes = memory(process, address, 8).expect("the program lives");
    u64::from_le_bytes(bytes.try_into().unwrap())
}

/// Waits until the process counts on.
pub fn runs(process: u32, address: u64, more: u64) {
    let before = counter(process, address);
    let end = std::time::Instant::now() + PATIENCE;
    while counter(process, address) < before + more {
        assert!(
            std::time::Instant::now() < end,
            "the program makes no progress"
        );
        std::thread::yield_now();
    }
}

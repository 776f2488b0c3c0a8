//! A client of QEMU's stub.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command};

use tracewire_model::Address;
use tracewire_packets::family::memory::MemoryRequest;
use tracewire_packets::family::process::ProcessRequest;
use tracewire_packets::family::register::RegisterRequest;
use tracewire_packets::family::resume::ResumeRequest;
use tracewire_packets::frame::{Connection, Received, Side};
use tracewire_packets::{Reply, Request};

/// A program in QEMU's user mode, stopped.
pub struct Stub {
    program: Child,
    stream: UnixStream,
    connection: Connection,
    rest: Vec<u8>,
}

impl Stub {
    /// Starts QEMU, whose socket is made in `folder`, and waits until it listens.
    pub fn start(qemu: &str, program: &Path, folder: &Path) -> Self {
        let socket = folder.join("stub");
        let program = Command::new(qemu)
            .arg("-g")
            .arg(&socket)
            .arg(program)
            .spawn();
        let mut program = program.unwrap_or_else(|error| panic!("{qemu}: {error}"));
        let stream = loop {
            match UnixStream::connect(&socket) {
                Ok(stream) => break stream,
                Err(_) => {
                    assert!(program.try_wait().unwrap().is_none(), "{qemu} has ended");
                    std::thread::yield_now();
                }
            }
        };
        let mut stub = Self {
            program,
            stream,
            connection: Connection::new(Side::Client, 0x10000),
            rest: Vec::new(),
        };
        // After the description was requested, registers are sent in its form.
        stub.ask(b"qSupported:xmlRegisters=i386");
        stub.ask(b"qXfer:features:read:target.xml:0,1000");
        stub
    }

    fn ask(&mut self, payload: &[u8]) -> Vec<u8> {
        self.connection.send(payload);
        loop {
            self.stream.write_all(self.connection.output()).unwrap();
            self.connection.written(usize::MAX);
            let mut input = self.rest.as_slice();
            let received = match self.connection.receive(&mut input) {
                Some(Received::Packet(payload)) => Some(payload.to_vec()),
                Some(other) => panic!("{other:?}"),
                None => None,
            };
            self.rest = input.to_vec();
            if let Some(payload) = received {
                return payload;
            }
            let mut bytes = [0; 0x4000];
            let count = self.stream.read(&mut bytes).unwrap();
            assert!(count > 0, "the stub has gone");
            self.rest.extend_from_slice(&bytes[..count]);
        }
    }

    fn request(&mut self, request: &Request) -> Reply {
        let mut payload = Vec::new();
        request.print(&mut payload);
        let reply = self.ask(&payload);
        Reply::parse(request.reply_kind(), &reply).unwrap()
    }

    /// The bytes of the core registers.
    pub fn registers(&mut self) -> Vec<u8> {
        match self.request(&Request::Register(RegisterRequest::ReadAll)) {
            Reply::Registers(bytes) => bytes.all().unwrap(),
            other => panic!("{other:?}"),
        }
    }

    /// Memory, in pieces that the stub takes.
    pub fn memory(&mut self, address: u64, length: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        while (bytes.len() as u64) < length {
            let request = MemoryRequest::Read {
                address: Address(address + bytes.len() as u64),
                length: (length - bytes.len() as u64).min(1024),
            };
            match self.request(&Request::Memory(request)) {
                Reply::Memory(part) => bytes.extend(part),
                other => panic!("{address:x}: {other:?}"),
            }
        }
        bytes
    }

    /// One instruction.
    pub fn step(&mut self) {
        match self.request(&Request::Resume(ResumeRequest::StepFrom { address: None })) {
            Reply::Stop(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

impl Drop for Stub {
    fn drop(&mut self) {
        let mut payload = Vec::new();
        Request::Process(ProcessRequest::Kill).print(&mut payload);
        self.connection.send(&payload);
        // It may have ended already.
        let _ = self.stream.write_all(self.connection.output());
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

//! A session with a simulated program, for tests of everything between a client and a target.
//!
//! The program is [`tracewire_experiment::fake::FakeTarget`]: three threads that loop over sixteen instructions and
//! change memory, the same at every run. The tracepoint packets are answered by the same code as for live programs.
//!
//! ```
//! use std::io::{Read, Write};
//! use tracewire_server::{SessionLog, fake, run};
//!
//! let (mut here, mut debugger) = std::os::unix::net::UnixStream::pair()?;
//! debugger.write_all(b"$QTDP:1:1004:E:0:2#f8$QTStart#b3$c#63$qTStatus#49")?;
//! debugger.shutdown(std::net::Shutdown::Write)?;
//! run(&mut here, &mut fake::session(None), &SessionLog::none())?;
//! drop(here);
//! let mut replies = String::new();
//! debugger.read_to_string(&mut replies)?;
//! // The run has ended at the tracepoint's second hit.
//! assert!(replies.contains("tpasscount:1"), "{replies}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use tracewire_experiment::HitHandler;
use tracewire_experiment::fake::{FakeTarget, Moment};
use tracewire_model::{Address, ByteOrder, ThreadId};

use crate::stub::{Stepped, Stub, StubTarget};
use crate::trace::SaveFolder;

/// Where the program's code starts; the instructions have four bytes each.
pub const CODE: Address = Address(0x1000);
/// The start of the memory that it changes.
pub const DATA: Address = Address(0x2000);
/// How large each of the two is, in bytes.
pub const SIZE: u64 = 64;
/// The numbers of its threads.
pub const THREADS: [u32; 3] = [1, 2, 3];

/// How many instructions are executed before the program has ended.
const LIFE: u64 = 4096;
/// How many before it stops by itself, as for an interrupt.
const TURN: u64 = 256;

/// The registers beside the program counter.
const REGISTERS: u16 = 4;

const XML: &str = "<?xml version=\"1.0\"?><!DOCTYPE target SYSTEM \"gdb-target.dtd\"><target>\
    <feature name=\"org.tracewire.fake\">\
    <reg name=\"a\" bitsize=\"64\" regnum=\"0\"/><reg name=\"b\" bitsize=\"64\"/>\
    <reg name=\"c\" bitsize=\"64\"/><reg name=\"d\" bitsize=\"64\"/>\
    <reg name=\"pc\" bitsize=\"64\" type=\"code_ptr\"/></feature></target>";

/// A session with the program.
pub type FakeSession = Stub<FakeProgram>;

/// A session with the program before its first instruction; traces may be saved in the directory.
///
/// # Panics
/// Never: the description of its registers is valid.
#[must_use]
pub fn session(save: Option<SaveFolder>) -> FakeSession {
    let program = FakeProgram {
        target: program(),
        age: 0,
    };
    Stub::new(program, save).unwrap_or_else(|error| unreachable!("a good description: {error}"))
}

/// The program.
#[derive(Debug)]
pub struct FakeProgram {
    target: FakeTarget,
    /// How many instructions have been executed.
    age: u64,
}

impl FakeProgram {
    /// The addresses of the inserted tracepoints.
    #[must_use]
    pub const fn inserted(&self) -> &std::collections::BTreeSet<Address> {
        self.target.inserted()
    }

    /// The program's next step.
    fn moment(&self) -> Moment {
        let [first, second, third] = THREADS;
        let thread = ThreadId([first, second, third, first][(self.age % 4) as usize]);
        let age = self.age;
        Moment {
            thread,
            cpu: thread.0,
            time: 1000 + age,
            pc: Address(CODE.0 + age % (SIZE / 4) * 4),
            registers: vec![age, DATA.0 + age % SIZE, age.wrapping_mul(0x9e37_79b9), 0],
            writes: vec![(Address(DATA.0 + age % SIZE), vec![age as u8])],
            killed: false,
        }
    }
}

impl StubTarget for FakeProgram {
    type Traced = FakeTarget;

    fn description(&self) -> &str {
        XML
    }

    fn threads(&self) -> Vec<ThreadId> {
        THREADS.map(ThreadId).to_vec()
    }

    fn program_counter(&self, _: ThreadId) -> Address {
        self.moment().pc
    }

    fn registers(&self, _: ThreadId) -> Vec<u8> {
        let moment = self.moment();
        let values = moment.registers.iter().chain([&moment.pc.0]);
        values.flat_map(|value| value.to_le_bytes()).collect()
    }

    fn read_memory(&self, address: Address, length: usize) -> Vec<u8> {
        self.target.read(address, length)
    }

    fn write_memory(&mut self, address: Address, bytes: &[u8]) -> bool {
        let there = self.target.read(address, bytes.len()).len() == bytes.len();
        if there {
            self.target.write(address, bytes);
        }
        there
    }

    fn is_code(&self, address: Address) -> bool {
        (CODE.0..CODE.0 + SIZE).contains(&address.0)
    }

    fn step(&mut self, hits: &mut dyn HitHandler) -> Stepped {
        let moment = self.moment();
        self.target.run(&moment, hits);
        self.age += 1;
        if self.age >= LIFE {
            // The tracepoints ended with the program.
            self.target = program();
            return Stepped::Exited(0);
        }
        Stepped::Next(self.moment().thread)
    }

    fn most(&self) -> u64 {
        TURN
    }

    fn traced(&mut self) -> Option<&mut FakeTarget> {
        Some(&mut self.target)
    }
}

/// The program as it begins.
fn program() -> FakeTarget {
    let mut target = FakeTarget::new(ByteOrder::Little, REGISTERS);
    for start in [CODE, DATA] {
        let bytes: Vec<u8> = (0..SIZE as u8).collect();
        target.map(start, &bytes);
    }
    target
}

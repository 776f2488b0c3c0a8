//! A stub that answers anything: no panic, an end, and a frame's bytes are those that were sent.
//!
//! All that the stub sends is there before it is asked, so that an input is the same run each time. After it the connection is closed.
#![no_main]

use std::io::Write;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use tracewire_arch::Architecture;
use tracewire_experiment::{Hit, HitHandler, MemoryRead, Outcome, StoppedThread, Target};
use tracewire_model::{Address, RegisterNumber};
use tracewire_target_remote::{Options, RemoteTarget, Stub};

/// Payloads of answers, which a byte of the input stands for.
const PAYLOADS: &[&str] = &[
    "", "OK", "E01", "E.no", "PacketSize=1000;qXfer:features:read+;QStartNoAckMode+;binary-upload+;vContSupported+",
    "PacketSize=64", "vCont;c;C;s;S", "vCont;c", "S05", "T05thread:1;", "T05thread:p1.2;swbreak:;", "T0520:0010000000000000;thread:1;",
    "T0btrap:2;", "T05watch:1000;", "T05fork:p2.2;", "W00", "X09", "N", "O4142", "Fopen,1000/5,0,0", "QC1", "00001000", "b\x01\x02\x03", "b",
    "l<target/>", "m<target>", "l<feature name='org.gnu.gdb.riscv.cpu'><reg name='zero' bitsize='32'/></feature>",
    "l<target><architecture>riscv:rv64</architecture><feature name='a'><reg name='pc' bitsize='64' type='code_ptr'/><reg name='sp' bitsize='64'/></feature></target>",
    "l<target><xi:include href='target.xml'/></target>", "00100000000000000020000000000000", "xxxxxxxxxxxxxxxx0020000000000000", "xxxx",
    "T051:0010000000000000;", "T05core:1;1:0010000000000000;", "T11thread:1;", "T05thread:-1;",
];

/// What the stub sends until a program is there that is stopped at 0x1000.
const BEGINNING: &[&str] = &[
    "PacketSize=1000;qXfer:features:read+;binary-upload+", "vCont;c;C;s;S", "vCont;c;C;s;S", "vCont;c;C;s;S", "T05thread:1;",
    "l<target><architecture>riscv:rv64</architecture><feature name='a'><reg name='pc' bitsize='64' type='code_ptr'/><reg name='sp' bitsize='64'/></feature></target>",
    "OK", "00100000000000000020000000000000",
];

fn packet(payload: &str, wire: &mut Vec<u8>) {
    let sum = payload.bytes().fold(0u8, u8::wrapping_add);
    wire.extend_from_slice(b"+$");
    wire.extend_from_slice(payload.as_bytes());
    wire.extend_from_slice(format!("#{sum:02x}").as_bytes());
}

/// Looks at all that a hit may look at.
struct Curious {
    hits: u32,
    steps: u8,
}

impl HitHandler for Curious {
    fn hit(&mut self, _: Hit, thread: &mut dyn StoppedThread) -> Outcome {
        self.hits += 1;
        let stack = thread.register(RegisterNumber(1)).unwrap_or(u64::MAX - 3);
        let pieces = [(stack, 8), (0x2000, 4), (0x2010, 300), (u64::MAX - 7, 8)];
        let mut pieces = pieces.map(|(address, length)| MemoryRead {
            address: Address(address),
            bytes: vec![0; length],
            filled: 0,
        });
        thread.read_memory(&mut pieces);
        for piece in &pieces {
            assert!(piece.filled <= piece.bytes.len());
        }
        let size = thread.register_block().map(<[u8]>::len);
        let known = thread.known_registers().map(<[bool]>::len);
        if let (Ok(size), Some(known)) = (size, known) {
            assert_eq!(size, known);
        }
        let _ = (thread.cpu(), thread.id(), thread.timestamp());
        Outcome {
            step: self.hits % 8 < u32::from(self.steps & 7),
            run_ended: self.hits > 100,
        }
    }
}

fuzz_target!(|input: &[u8]| {
    let [how, input @ ..] = input else { return };
    if input.len() > 300 {
        return;
    }
    let mut wire = Vec::new();
    if how & 1 == 0 {
        BEGINNING.iter().for_each(|payload| packet(payload, &mut wire));
    }
    for byte in input {
        match PAYLOADS.get(usize::from(*byte)) {
            Some(payload) => packet(payload, &mut wire),
            None => wire.push(*byte),
        }
    }
    let (ours, mut stubs) = UnixStream::pair().expect("a pair of sockets");
    stubs.write_all(&wire).expect("it fits the socket's buffer");
    stubs.shutdown(Shutdown::Write).expect("the end");
    let options = Options {
        architecture: (how & 2 == 0).then_some(Architecture::Riscv64),
        limit: Duration::from_secs(5),
    };
    let Ok(stub) = Stub::over(ours, &options) else {
        return;
    };
    let mut target = RemoteTarget::new(stub);
    let mut handler = Curious { hits: 0, steps: how >> 2 };
    for address in [0x1000, 0x1002] {
        let _ = target.insert(Address(address));
    }
    let _ = target.read_memory(Address(0x0ffc), 16);
    let _ = target.run(&mut handler, &mut || false);
    let _ = target.remove(Address(0x1000));
    let _ = target.remove_debuggers_breakpoints();
    let _ = target.stub_mut().detach();
});

//! Faulty stubs, with which a trace run ends with its reason.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, mpsc};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};

use crate::proxy::proxy;
use crate::wire::Client;

/// The fault of a stub.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    Nothing,
    /// It takes its time when memory is read after the first hit.
    Slow,
    /// It does not answer then.
    Silent,
    /// It closes the connection then.
    Closes,
    /// It answers with a packet that has no end.
    Endless,
    /// Its answers have wrong checksums from then on, however often they are sent.
    WrongSums,
    /// It refuses every breakpoint.
    Refuses,
    /// It executes the breakpoint where it is to step from one.
    StepsIntoBreakpoint,
    /// So, and it refuses a breakpoint that it had before.
    RefusesAgain,
    /// Every second step ends without having executed anything, as QEMU's stub has it now and then.
    StaysOnce,
    /// So, on an x86.
    StaysOnceX86,
    /// It does not step.
    NoStep,
    /// It says that it steps, and refuses to.
    RefusesStep,
    /// It announces what it does not have.
    Lies,
}

const DESCRIPTION: &str = "<target><architecture>riscv:rv32</architecture><feature name=\"org.gnu.gdb.riscv.cpu\">\
                           <reg name=\"zero\" bitsize=\"32\" type=\"int\"/><reg name=\"pc\" bitsize=\"32\" type=\"code_ptr\" regnum=\"32\"/>\
                           </feature></target>";

const OF_X86: &str = "<target><architecture>i386</architecture><feature name=\"org.gnu.gdb.i386.core\">\
                      <reg name=\"eax\" bitsize=\"32\" type=\"int32\"/><reg name=\"eip\" bitsize=\"32\" type=\"code_ptr\" regnum=\"8\"/>\
                      </feature></target>";

/// What a stub has, for a look from outside.
#[derive(Clone, Default)]
struct Shown {
    /// Where breakpoints are.
    breakpoints: Arc<Mutex<Vec<u32>>>,
    /// How often the program was let run.
    resumed: Arc<AtomicU32>,
}

impl Shown {
    fn breakpoints(&self) -> MutexGuard<'_, Vec<u32>> {
        self.breakpoints.lock().expect("a list")
    }

    fn resumed(&self) -> u32 {
        self.resumed.load(Ordering::SeqCst)
    }
}

/// A processor that loops through four instructions at 0x100, behind a stub that acknowledges packets.
struct FakeStub {
    stream: TcpStream,
    fault: Fault,
    pc: u32,
    shown: Shown,
    hits: u32,
    inserted: u32,
    stayed: bool,
    executed: u32,
}

impl FakeStub {
    /// Serves one client on a separate thread. Returns the address.
    fn start(fault: Fault) -> String {
        Self::start_with(fault, Shown::default())
    }

    fn start_with(fault: Fault, shown: Shown) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        std::thread::spawn(move || {
            let (stream, _) = listener.accept().expect("a client");
            let stub = Self {
                stream,
                fault,
                pc: 0x100,
                shown,
                hits: 0,
                inserted: 0,
                stayed: false,
                executed: 0,
            };
            stub.serve();
        });
        address
    }

    fn serve(mut self) {
        while let Some(packet) = self.packet() {
            let Some(answer) = self.answer(&packet) else {
                return;
            };
            let sum = answer.bytes().fold(0u8, |sum, byte| sum.wrapping_add(byte));
            let is_wrong = self.fault == Fault::WrongSums && self.hits > 0;
            let sum = if is_wrong { sum.wrapping_add(1) } else { sum };
            let framed = format!("+${answer}#{sum:02x}");
            if self.stream.write_all(framed.as_bytes()).is_err() {
                return;
            }
        }
    }

    fn packet(&mut self) -> Option<String> {
        let mut byte = [0];
        let mut text = String::new();
        while byte != *b"$" {
            self.stream.read_exact(&mut byte).ok()?;
            if byte == *b"-" {
                // It sends the same again, which is as wrong as before.
                return Some("again".to_owned());
            }
        }
        loop {
            self.stream.read_exact(&mut byte).ok()?;
            if byte == *b"#" {
                break;
            }
            text.push(char::from(byte[0]));
        }
        self.stream.read_exact(&mut [0; 2]).ok()?;
        Some(text)
    }

    fn breakpoints(&self) -> MutexGuard<'_, Vec<u32>> {
        self.shown.breakpoints()
    }

    fn step(&mut self) {
        self.pc = 0x100 + (self.pc + 4) % 16;
        self.executed += 1;
    }

    /// Whether a step does nothing.
    fn stays(&mut self) -> bool {
        let stays = matches!(self.fault, Fault::StaysOnce | Fault::StaysOnceX86);
        self.stayed = stays && !self.stayed;
        self.stayed
    }

    /// The answer; none where the connection is to end.
    fn answer(&mut self, packet: &str) -> Option<String> {
        let stopped = "T05thread:1;".to_owned();
        Some(match packet {
            "?" => stopped,
            "vCont?" if self.fault == Fault::NoStep => "vCont;c;C".to_owned(),
            "vCont?" => "vCont;c;C;s;S".to_owned(),
            "g" => format!("00000000{}", hex(&self.pc.to_le_bytes())),
            text if text.starts_with("qSupported") && self.fault == Fault::Lies => {
                "PacketSize=ffffffffffff;qXfer:features:read+;ConditionalTracepoints+;QStartNoAckMode+;binary-upload+;x".to_owned()
            }
            text if text.starts_with("qSupported") => "PacketSize=400;qXfer:features:read+".to_owned(),
            text if text.starts_with("qXfer:features:read:target.xml:0,") => match self.fault {
                Fault::StaysOnceX86 => format!("l{OF_X86}"),
                _ => format!("l{DESCRIPTION}"),
            },
            text if text.starts_with("Z0,") => {
                self.inserted += 1;
                let refused = match self.fault {
                    Fault::Refuses => true,
                    Fault::RefusesAgain => self.inserted > 1,
                    _ => false,
                };
                if refused {
                    "E28".to_owned()
                } else {
                    self.breakpoints().push(address(text));
                    "OK".to_owned()
                }
            }
            text if text.starts_with("z0,") => {
                let at = address(text);
                self.breakpoints().retain(|one| *one != at);
                "OK".to_owned()
            }
            text if text.starts_with("Hg") || text.starts_with("Hc") => "OK".to_owned(),
            text if text == "D" || text.starts_with("D;") => "OK".to_owned(),
            text if text.starts_with("vCont;s") && self.fault == Fault::RefusesStep => "E01".to_owned(),
            text if text.starts_with("vCont;s") && self.stays() => stopped,
            text if text.starts_with("vCont;s") => {
                let steps_over = !matches!(
                    self.fault,
                    Fault::StepsIntoBreakpoint | Fault::RefusesAgain
                );
                if steps_over || !self.breakpoints().contains(&self.pc) {
                    self.step();
                }
                stopped
            }
            text if text.starts_with("vCont;c") => {
                self.shown.resumed.fetch_add(1, Ordering::SeqCst);
                // Without a breakpoint it would run for ever.
                loop {
                    if self.breakpoints().contains(&self.pc) {
                        break;
                    }
                    if self.breakpoints().is_empty() {
                        return Some("T02thread:1;".to_owned());
                    }
                    self.step();
                }
                self.hits += 1;
                stopped
            }
            text if text.starts_with('m') && self.hits > 0 => match self.fault {
                Fault::Silent => {
                    // Until the other side goes.
                    let _ = self.stream.read_to_end(&mut Vec::new());
                    return None;
                }
                Fault::Slow => {
                    // It is not told to go on.
                    let (_sender, receiver) = mpsc::channel::<()>();
                    let _ = receiver.recv_timeout(Duration::from_secs(1));
                    hex(&self.executed.to_le_bytes())
                }
                Fault::Closes => return None,
                Fault::Endless => {
                    let _ = self.stream.write_all(b"+$");
                    while self.stream.write_all(&[b'0'; 0x4000]).is_ok() {}
                    return None;
                }
                _ => hex(&self.executed.to_le_bytes()),
            },
            text if text.starts_with('m') => hex(&self.executed.to_le_bytes()),
            "again" => "E01".to_owned(),
            _ => String::new(),
        })
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn address(packet: &str) -> u32 {
    let digits = packet.split(',').nth(1).unwrap_or_default();
    u32::from_str_radix(digits, 16).unwrap_or(0)
}

/// The text of `terror` in a status.
fn error_of(status: &str) -> Option<String> {
    let digits = status.split("terror:").nth(1)?.split(':').next()?;
    let bytes: Option<Vec<u8>> = (0..digits.len() / 2)
        .map(|at| u8::from_str_radix(digits.get(2 * at..2 * at + 2)?, 16).ok())
        .collect();
    String::from_utf8(bytes?).ok()
}

/// Sends a request. Returns the answer.
#[track_caller]
fn ask(client: &mut Client, request: &str) -> String {
    client.send(request.as_bytes()).expect("the proxy is there");
    client.reply().expect("an answer")
}

#[test]
fn what_a_stub_does_wrong_ends_the_run_with_its_reason() {
    for (fault, reason) in [
        (Fault::Nothing, None),
        (Fault::Lies, None),
        (Fault::Slow, None),
        (Fault::StepsIntoBreakpoint, None),
        (Fault::StaysOnce, None),
        (Fault::StaysOnceX86, None),
        (Fault::Silent, Some("did not answer")),
        (Fault::Closes, Some("closed the connection")),
        (Fault::Endless, Some("did not answer")),
        (Fault::WrongSums, Some("their checksums are wrong")),
        (Fault::RefusesAgain, Some("E28")),
        (Fault::RefusesStep, Some("answered `vCont;s` with `E01`")),
    ] {
        let shown = Shown::default();
        let stub = FakeStub::start_with(fault, shown.clone());
        let proxy = proxy(&stub, &["--timeout", "2"]);
        let mut client = Client::connect_to(proxy.port);
        let mut ask = |request: &str| {
            client.send(request.as_bytes()).expect("the proxy is there");
            loop {
                let answer = client
                    .reply()
                    .unwrap_or_else(|error| panic!("{fault:?}: {request}: {error}"));
                // Words for the user come before the answer.
                if !answer.starts_with('O') || answer == "OK" {
                    return answer;
                }
            }
        };
        assert!(
            ask("qSupported:swbreak+").contains("PacketSize="),
            "{fault:?}"
        );
        assert_eq!(ask("QTinit"), "OK", "{fault:?}");
        assert_eq!(ask("QTDP:1:108:E:0:3-"), "OK", "{fault:?}");
        assert_eq!(ask("QTDP:-1:108:M-1,2000,4"), "OK", "{fault:?}");
        assert_eq!(ask("QTStart"), "OK", "{fault:?}");
        // The pass count ends a good run. Then only an interrupt stops the program, which the stub reports by itself.
        let stop = ask("vCont;c");
        let status = ask("qTStatus");
        match reason {
            None => {
                assert!(stop.starts_with("T02"), "{fault:?}: {stop}");
                // A step that did nothing is followed by no other hit: a turn has four instructions.
                let mut read = |frame: &str| {
                    assert!(ask(frame).starts_with('F'), "{fault:?}: {frame}");
                    let memory = ask("m2000,4");
                    u32::from_str_radix(&memory, 16).map(u32::swap_bytes)
                };
                let frames = ["QTFrame:0", "QTFrame:1", "QTFrame:2"].map(|frame| read(frame).ok());
                assert_eq!(frames, [Some(2), Some(6), Some(10)], "{fault:?}");
                ask("QTFrame:ffffffff");
            }
            Some(reason) => {
                let error = error_of(&status);
                let error = error.unwrap_or_else(|| panic!("{fault:?}: {status}"));
                assert!(error.contains(reason), "{fault:?}: {error}");
            }
        }
        // The client is still served.
        assert!(ask("QTFrame:0").starts_with('F'), "{fault:?}");
        // A stub that can be talked to has none of our breakpoints any more.
        if matches!(fault, Fault::RefusesAgain | Fault::RefusesStep) {
            assert_eq!(*shown.breakpoints(), [0_u32; 0], "{fault:?}");
            // And its program ran on, until the stub itself stopped it.
            assert!(stop.starts_with("T02"), "{fault:?}: {stop}");
            assert!(shown.resumed() >= 2, "{fault:?}");
        }
    }
}

/// A client that connects again asks why the program has stopped, at which QEMU's stub removes all breakpoints.
#[test]
fn a_breakpoint_that_a_stub_does_not_take_again_ends_the_run_with_its_reason() {
    let stub = FakeStub::start(Fault::RefusesAgain);
    let proxy = proxy(&stub, &["--timeout", "2"]);
    let mut first = Client::connect_to(proxy.port);
    ask(&mut first, "qSupported:swbreak+");
    for request in ["QTinit", "QTDP:1:108:E:0:0", "QTDisconnected:1", "QTStart"] {
        assert_eq!(ask(&mut first, request), "OK", "{request}");
    }
    drop(first);
    let mut second = Client::connect_to(proxy.port);
    ask(&mut second, "qSupported:swbreak+");
    assert!(ask(&mut second, "qTStatus").starts_with("T1;"));
    assert!(ask(&mut second, "?").starts_with("T05"));
    let status = ask(&mut second, "qTStatus");
    let reason = "the breakpoint at 0x108 cannot be inserted again: the stub refuses a software breakpoint (error 40)";
    assert_eq!(error_of(&status).as_deref(), Some(reason), "{status}");
}

#[test]
fn a_tracepoint_that_a_stub_cannot_serve_is_refused() {
    for (fault, reason) in [
        (Fault::Refuses, "refuses a software breakpoint (error 40)"),
        (Fault::NoStep, "cannot execute a single instruction"),
    ] {
        let stub = FakeStub::start(fault);
        let proxy = proxy(&stub, &["--timeout", "2"]);
        let mut client = Client::connect_to(proxy.port);
        let mut ask = |request: &str| ask(&mut client, request);
        ask("qSupported:swbreak+");
        assert_eq!(ask("QTinit"), "OK");
        assert_eq!(ask("QTDP:1:108:E:0:0"), "OK");
        let refused = ask("QTStart");
        assert!(
            refused.starts_with("E.") && refused.contains(reason),
            "{fault:?}: {refused}"
        );
        assert!(ask("qTStatus").starts_with("T0;"), "{fault:?}");
    }
}

/// When a client has gone, and when a recording has ended, the stub has none of our breakpoints.
#[test]
fn nothing_is_left_at_a_stub() {
    let shown = Shown::default();
    let stub = FakeStub::start_with(Fault::Nothing, shown.clone());
    let proxy = proxy(&stub, &[]);
    let mut client = Client::connect_to(proxy.port);
    let mut ask = |request: &str| ask(&mut client, request);
    ask("qSupported:swbreak+");
    for request in ["QTinit", "QTDP:1:108:E:0:0", "QTStart"] {
        assert_eq!(ask(request), "OK", "{request}");
    }
    assert_eq!(*shown.breakpoints(), [0x108]);
    assert_eq!(ask("D"), "OK");
    assert_eq!(*shown.breakpoints(), [0_u32; 0]);

    let stub = FakeStub::start_with(Fault::Nothing, shown.clone());
    let folder = tempfile::tempdir().expect("a directory");
    // Some program: the place is an address.
    let elf = crate::support::linux_program(folder.path());
    let (script, output) = (folder.path().join("s.gdb"), folder.path().join("out.tf"));
    std::fs::write(&script, "trace *0x108\npasscount 3\n").expect("written");
    let ended = crate::support::tracewire(&["record", "--upstream", &stub])
        .arg("--elf")
        .arg(&elf)
        .arg("-x")
        .arg(&script)
        .arg("-o")
        .arg(&output)
        .output()
        .expect("tracewire runs");
    let errors = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{errors}");
    assert!(errors.contains("3 frames"), "{errors}");
    assert_eq!(*shown.breakpoints(), [0_u32; 0]);
}

/// A run that goes on without a debugger, and that the stub's fault ends: the program is not left stopped.
#[test]
fn a_program_runs_on_when_its_run_ends_without_a_client() {
    let shown = Shown::default();
    let stub = FakeStub::start_with(Fault::RefusesStep, shown.clone());
    let proxy = proxy(&stub, &["--timeout", "2"]);
    let mut first = Client::connect_to(proxy.port);
    ask(&mut first, "qSupported:swbreak+");
    for request in [
        "QTinit",
        "QTDP:1:108:E:0:0",
        "QTDisconnected:1",
        "QTStart",
        "D",
    ] {
        assert_eq!(ask(&mut first, request), "OK", "{request}");
    }
    let mut second = Client::connect_to(proxy.port);
    ask(&mut second, "qSupported:swbreak+");
    let error = error_of(&ask(&mut second, "qTStatus"));
    let reason = "answered `vCont;s` with `E01`";
    assert!(
        error.as_deref().is_some_and(|error| error.contains(reason)),
        "{error:?}"
    );
    assert!(shown.resumed() >= 2);
    assert_eq!(*shown.breakpoints(), [0_u32; 0]);
}

/// ^C and SIGTERM end the proxy in order.
#[test]
fn a_signal_takes_the_tracepoints_out_of_a_stub() {
    for (signal, has_client) in [
        (Signal::SIGTERM, true),
        (Signal::SIGINT, true),
        (Signal::SIGTERM, false),
    ] {
        let shown = Shown::default();
        let stub = FakeStub::start_with(Fault::Nothing, shown.clone());
        let mut proxy = proxy(&stub, &["--timeout", "2"]);
        let mut client = Client::connect_to(proxy.port);
        let mut ask = |request: &str| ask(&mut client, request);
        ask("qSupported:swbreak+");
        let stays = if has_client {
            "QTDisconnected:0"
        } else {
            "QTDisconnected:1"
        };
        for request in ["QTinit", "QTDP:1:108:E:0:0", stays, "QTStart"] {
            assert_eq!(ask(request), "OK", "{request}");
        }
        assert_eq!(*shown.breakpoints(), [0x108]);
        let client = has_client.then_some(client);
        kill(proxy.id(), signal).expect("it is there");
        let status = proxy.end();
        assert!(status.success(), "{signal}: {status}");
        assert_eq!(*shown.breakpoints(), [0_u32; 0], "{signal}, {has_client}");
        drop(client);
    }
}

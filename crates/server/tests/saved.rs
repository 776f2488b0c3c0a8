//! A saved trace, served to real GDB and to clients that are worse.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;

use proptest::prelude::*;
use tracewire_arch::Architecture;
use tracewire_model::Address;
use tracewire_packets::ConnectionAddress;
use tracewire_packets::{Reply, Request};
use tracewire_server::saved::{SavedSession, SavedTrace};
use tracewire_server::{
    Answer, Clients, Listener, PACKET_SIZE, Responder, SessionLog, serve_saved,
};
use tracewire_test_support::Gdb;
use tracewire_tracefile::{Description, DescriptionParts, Module, TraceFile, TraceFileWriter};

/// Only the first client.
const FIRST: Clients<'static> = Clients {
    once: true,
    token: None,
};

fn sample() -> SavedTrace {
    let mut trace =
        SavedTrace::new(TraceFile::open(tracewire_test_support::sample("sample.tf")).unwrap());
    trace
        .set_program(&tracewire_test_support::sample("sample"), None)
        .unwrap();
    trace
}

/// GDB's output when it connects to the trace and executes these commands.
fn gdb(trace: &SavedTrace, address: &ConnectionAddress, commands: &str) -> String {
    let listener = Listener::bind(address).unwrap();
    let script = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(
        script.path(),
        format!(
            "set width 0\nset height 0\nset sysroot\ntarget remote {listener}\n{commands}\ndetach\n"
        ),
    )
    .unwrap();
    std::thread::scope(|scope| {
        let server = scope.spawn(|| serve_saved(&listener, trace, &SessionLog::none(), FIRST));
        let said = Gdb::new().script(script.path()).run();
        server.join().unwrap().unwrap();
        said.all()
    })
}

fn tcp() -> ConnectionAddress {
    ":0".parse().unwrap()
}

/// Asserts that the lines are in the text, in this order.
fn assert_lines(text: &str, lines: &[&str]) {
    let mut rest = text.lines();
    for line in lines {
        assert!(
            rest.any(|found| found.contains(line)),
            "`{line}` is missing, or too early, in:\n{text}"
        );
    }
}

#[test]
fn gdb_finds_the_experiment_and_every_kind_of_frame() {
    let said = gdb(
        &sample(),
        &tcp(),
        "tstatus\ninfo tracepoints\ninfo tvariables\ntfind start\ntfind\ntfind tracepoint 3\n\
         tfind pc 0x555555555183\ntfind range 0x555555555149, 0x555555555190\n\
         tfind outside 0x1000, 0x2000\ntfind line 14\nprint $trace_frame\nprint j->name\n\
         tfind 2\nprint $rip\nx/i $pc\ntfind 1000\ntfind none",
    );
    assert_lines(
        &said,
        &[
            "Created tracepoint 1 for target's tracepoint 2 at 0x555555555158",
            "Trace stopped by a tstop command (stopping now)",
            "Collected 24 trace frames",
            "Trace user is alice",
            "Trace notes: first run",
            "trace only if depth < 3",
            "tracepoint already hit 7 times",
            "collect $regs, $args, $locals, total",
            "while-stepping 2",
            "pass count 100",
            "$trace_timestamp",
            "Found trace frame 0, tracepoint 1",
            "Found trace frame 1, tracepoint 1",
            "Found trace frame 6, tracepoint 3",
            "Found trace frame 13, tracepoint 3",
            "Found trace frame 14, tracepoint 1",
            "Found trace frame 15, tracepoint 1",
            "Found trace frame 17, tracepoint 3",
            "= 17",
            "\"gamma\"",
            "Found trace frame 2, tracepoint 1",
            "<handle+21>",
            "<handle+21>",
            "No trace frame found",
            "No longer looking at any trace frame",
        ],
    );
}

#[test]
fn gdb_shows_what_was_collected_with_the_symbols_of_a_moved_program() {
    let said = gdb(
        &sample(),
        &tcp(),
        "tfind start\ntdump\ntfind tracepoint 3\ntdump",
    );
    assert_lines(
        &said,
        &[
            "rip            0x555555555158      0x555555555158 <handle+15>",
            "depth = 0",
            "total = 0",
            "*j = {id = 1, name = 0x555555556012 \"alpha\", weight = 0.5}",
            "$hits = 1",
            "j->name = ",
            "log_buffer = ",
            "$trace_timestamp = ",
        ],
    );
    assert!(
        !said.contains("PC not available") && !said.contains("Cannot access memory"),
        "{said}"
    );
}

#[test]
fn gdb_saves_the_frames_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("copy.tf");
    let said = gdb(&sample(), &tcp(), &format!("tsave {}", copy.display()));
    tracewire_test_support::assert_clean(&copy);
    let (original, copy) = (
        TraceFile::open(tracewire_test_support::sample("sample.tf")).unwrap(),
        TraceFile::open(&copy).expect(&said),
    );
    assert_eq!(copy.frame_count(), 24);
    for (first, second) in original.frames().zip(copy.frames()) {
        assert_eq!(
            (first.tracepoint(), first.data()),
            (second.tracepoint(), second.data())
        );
    }
    // GDB's order of tracepoints differs.
    let definitions = |file: &TraceFile| {
        let mut all: Vec<_> = file.description().tracepoints().to_vec();
        all.sort_by_key(|tracepoint| (tracepoint.definition.number, tracepoint.definition.address));
        all
    };
    assert_eq!(definitions(&original), definitions(&copy));
}

#[test]
fn gdb_learns_that_nothing_runs() {
    let folder = tempfile::tempdir().unwrap();
    let socket = ConnectionAddress::Unix(folder.path().join("socket"));
    let said = gdb(
        &sample(),
        &socket,
        "continue\nmonitor info\nmonitor what\nprint total = 5\ntstart",
    );
    assert_lines(
        &said,
        &[
            "This is a saved trace: no program runs here. Look at frames with tfind.",
            "sample.tf: 24 trace frames",
            "sample at 0x555555554000",
            "Unknown monitor command",
        ],
    );
    assert!(
        !folder.path().join("socket").exists(),
        "the socket's file goes with the server"
    );
}

#[test]
fn a_file_without_its_machine_is_served_with_one_that_is_given() {
    for name in ["tfile-basic.tf", "tfile-error.tf"] {
        let mut trace =
            SavedTrace::new(TraceFile::open(tracewire_test_support::sample(name)).unwrap());
        let frames = trace.file().frame_count();
        assert!(!trace.knows_registers(), "{name}");
        trace.set_architecture(Architecture::X86_64);
        assert!(trace.knows_registers(), "{name}");
        let said = gdb(&trace, &tcp(), "tstatus\ntfind 0\nprint $rip\nprint $rax");
        if frames > 0 {
            assert_lines(
                &said,
                &[
                    &format!("Collected {frames} trace frame"),
                    "Found trace frame 0",
                    "(void (*)()) 0x",
                    "<unavailable>",
                ],
            );
        }
    }
}

/// As gdbserver does for a GDB that reads no XML. GDB's standard registers of the machine are fewer than those of the
/// blocks.
#[test]
fn a_file_that_names_its_machine_is_served_with_its_registers() {
    let original = sample();
    let name = "<target><architecture>i386:x86-64</architecture></target>";
    let parts = DescriptionParts {
        target_xml: Some(name.to_owned()),
        ..original.file().description().parts()
    };
    let description = Description::build(&parts).unwrap();
    let frames: Vec<_> = original
        .file()
        .frames()
        .map(|frame| frame.bytes().to_vec())
        .collect();
    let frames: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
    let named = TraceFile::in_memory(&description, &frames).unwrap();
    let mut named = SavedTrace::new(named);
    named
        .set_program(&tracewire_test_support::sample("sample"), None)
        .unwrap();
    let commands = "tfind 1\ninfo registers\nprint $xmm0\nprint $k1";
    let [expected, said] = [original, named].map(|trace| gdb(&trace, &tcp(), commands));
    assert!(expected.contains("rip "), "{expected}");
    let of_frame = |text: &str| text.split("Found trace frame").nth(1).map(str::to_owned);
    assert_eq!(of_frame(&said), of_frame(&expected));
}

/// GDB closes the connection at a status that it cannot read.
#[test]
fn a_damaged_status_line_is_served_as_far_as_it_is_understood() {
    for (status, shown) in [
        ("0;terror:0", "Trace stopped by an error ()"),
        ("0;tstop:zz:0;username:zz;notes:6f6b", "Trace notes: ok"),
        (
            "0;tpasscount:1;starttime:zz",
            "Trace stopped by tracepoint 1",
        ),
        (
            "1;tnotrun:0;tsize:100;tfree:80;disconn:x;foo",
            "128 bytes of 256 bytes free",
        ),
    ] {
        let text = format!("\x7fTRACE0\nR 230\nstatus {status}\ntp T1:401000:E:0:0\n\n\0\0\0\0");
        let mut trace = SavedTrace::new(TraceFile::from_bytes(text.into_bytes()).unwrap());
        trace.set_architecture(Architecture::X86_64);
        let said = gdb(&trace, &tcp(), "tstatus");
        assert!(said.contains(shown), "{status}: {said}");
    }
}

#[test]
fn modules_of_the_file_are_where_they_were() {
    let original = TraceFile::open(tracewire_test_support::sample("sample.tf")).unwrap();
    let module = |path: PathBuf, build_id| Module {
        bias: 0x5555_5555_4000,
        start: Address(0x5555_5555_4000),
        end: Address(0x5555_5555_9000),
        path: path.into_os_string().into_encoded_bytes(),
        build_id,
        ..Module::default()
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("modules.tf");
    let write = |module| {
        let parts = DescriptionParts {
            modules: vec![module],
            ..original.description().parts()
        };
        let mut writer =
            TraceFileWriter::create(&path, &Description::build(&parts).unwrap()).unwrap();
        for frame in original.frames() {
            writer.append(frame.bytes()).unwrap();
        }
        writer.finish().unwrap();
        SavedTrace::new(TraceFile::open(&path).unwrap())
    };
    let trace = write(module(tracewire_test_support::sample("sample"), Vec::new()));
    assert!(trace.problems().is_empty());
    let said = gdb(
        &trace,
        &tcp(),
        "tfind pc 0x555555555183\nprint j->name\ninfo symbol $pc",
    );
    assert_lines(&said, &["Found trace frame 6", "\"beta\"", "handle + 58"]);
    // Another program of the same name is not believed.
    let trace = write(module(
        tracewire_test_support::sample("sample"),
        vec![1, 2, 3],
    ));
    assert!(
        trace.problems()[0].to_string().contains("its build id is"),
        "{:?}",
        trace.problems()
    );
}

#[test]
fn the_log_of_a_session_tells_every_packet_and_what_it_means() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let log = SessionLog::create(&path).unwrap();
    let (trace, listener) = (sample(), Listener::bind(&tcp()).unwrap());
    std::thread::scope(|scope| {
        let server = scope.spawn(|| serve_saved(&listener, &trace, &log, FIRST));
        let mut client = raw(&listener);
        ask(&mut client, "QTFrame:0");
        ask(&mut client, "D");
        server.join().unwrap().unwrap();
    });
    let text = std::fs::read_to_string(&path).unwrap();
    let meanings: Vec<(&str, &str)> = text
        .lines()
        .map(|line| line.split_once('\t').unwrap())
        .map(|(packet, meaning)| (packet.trim_start().split_once(' ').unwrap().1, meaning))
        .collect();
    assert_eq!(
        meanings,
        [
            ("<- QTFrame:0", "select trace frame 0"),
            ("-> F0T2", "frame 0 is selected, of tracepoint 2"),
            ("<- D", "detach from the program"),
            ("-> OK", "done"),
        ]
    );
}

/// A client that sends given bytes.
fn raw(listener: &Listener) -> TcpStream {
    TcpStream::connect(listener.local().unwrap()).unwrap()
}

fn framed(payload: &str) -> Vec<u8> {
    let sum = payload
        .bytes()
        .fold(0u8, |sum, byte| sum.wrapping_add(byte));
    format!("${payload}#{sum:02x}").into_bytes()
}

/// Sends a request and reads bytes until a whole packet is there.
fn ask(stream: &mut TcpStream, payload: &str) -> String {
    stream.write_all(&framed(payload)).unwrap();
    let mut text = Vec::new();
    let mut byte = [0];
    loop {
        assert_eq!(
            stream.read(&mut byte).unwrap(),
            1,
            "the server hung up after {text:?}"
        );
        text.push(byte[0]);
        if let [.., b'#', _, _] = text.as_slice() {
            stream.write_all(b"+").unwrap();
            return String::from_utf8_lossy(&text).into_owned();
        }
    }
}

#[test]
fn bad_clients_do_not_disturb_good_ones() {
    let trace: &'static SavedTrace = Box::leak(Box::new(sample()));
    let listener: &'static Listener = Box::leak(Box::new(
        Listener::bind(&"[::1]:0".parse().unwrap()).unwrap(),
    ));
    // Ends with the test program.
    std::thread::spawn(|| serve_saved(listener, trace, &SessionLog::none(), Clients::ANY));

    let mut half_open: Vec<TcpStream> = Vec::new();
    for client in 0..20 {
        let mut stream = raw(listener);
        match client % 4 {
            // Disconnects in the middle of a packet.
            0 => stream.write_all(b"$qSupp").unwrap(),
            // Disconnects after an input that is too long.
            1 => drop(stream.write_all(&vec![b'$'; 1 << 16])),
            // A flood of requests whose replies it never reads.
            2 => {
                let flood = framed("QTFrame:0").repeat(2000);
                let _ = stream.write_all(&flood);
            }
            // Stays connected without input.
            _ => half_open.push(stream),
        }
    }
    let (mut one, mut other) = (raw(listener), raw(listener));
    assert_eq!(ask(&mut one, "QTFrame:0"), "+$F0T2#fc");
    assert_eq!(ask(&mut other, "QTFrame:tdp:3"), "+$F6T3#03");
    // Each has a separate selected frame.
    assert_eq!(ask(&mut one, "QTFrame:tdp:3"), "+$F6T3#03");
    assert_eq!(ask(&mut other, "QTFrame:pc:555555555183"), "+$FdT3#31");
    assert!(ask(&mut one, &"Q".repeat(0x5000)).contains("E.the packet is longer than PacketSize"));
    assert!(ask(&mut one, "QTFrame:nowhere").contains("E.QTFrame: expected a hexadecimal number"));
    assert_eq!(ask(&mut one, "vMustReplyEmpty"), "+$#00");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 800, failure_persistence: None, ..ProptestConfig::default() })]

    /// No packets in any order make a session panic, and each reply is one that its request can have.
    #[test]
    fn any_requests_in_any_order_are_answered(
        requests in proptest::collection::vec(
            (
                proptest::sample::select(Request::prefixes().collect::<Vec<_>>()),
                prop_oneof![
                    Just(String::new()),
                    "[0-9a-f]{1,6}",
                    "[0-9a-f]{1,16},[0-9a-f]{1,16}",
                    "5555555[0-9a-f]{5},[0-9a-f]{1,4}",
                    "(pc|tdp|range|outside):5555555551[0-9a-f]{2}(:5555555552[0-9a-f]{2})?",
                    "(features|auxv|exec-file|libraries-svr4|traceframe-info|statictrace):read:(target.xml)?:[0-9a-f]{1,4},[0-9a-f]{1,4}",
                    "[0-9a-f]{1,12};[0-9a-f]{1,8};[a-z]{0,3}",
                ],
            ),
            1..12,
        )
    ) {
        static TRACE: std::sync::LazyLock<SavedTrace> = std::sync::LazyLock::new(sample);
        let mut session = SavedSession::new(&TRACE);
        for (prefix, rest) in requests {
            let Ok(request) = Request::parse(format!("{prefix}{rest}").as_bytes()) else { continue };
            let (Answer::Reply(reply) | Answer::Output(_, reply) | Answer::Last(reply)) = session.respond(&request) else {
                continue;
            };
            let bytes = reply.to_bytes();
            prop_assert!(bytes.len() <= PACKET_SIZE);
            prop_assert_eq!(Reply::parse(request.reply_kind(), &bytes), Ok(reply), "{:?}", request);
        }
    }
}

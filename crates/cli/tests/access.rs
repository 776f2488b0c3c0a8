//! Which clients `gdbserver`, `serve` and `proxy` accept. A peer must speak the protocol from its first byte on. Without a host it
//! must be on this machine, at a Unix socket it must be the owner or root, and with `--auth` it must send the token.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

#[cfg(feature = "browser")]
#[path = "access/browser.rs"]
mod browser;
#[allow(dead_code, reason = "the other tests use the rest")]
mod wire;

use tracewire_test_support::{Gdb, copy_program, sample};
use wire::{Client, Server, address, build, runs};

const TRACEWIRE: &str = env!("CARGO_BIN_EXE_tracewire");

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// A user of no files.
const NOBODY: u32 = 65534;

fn packet(payload: &str) -> String {
    let sum = payload.bytes().fold(0u8, u8::wrapping_add);
    format!("${payload}#{sum:02x}")
}

fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

/// A server that is killed when the test ends, and the address that it prints.
struct Listening {
    child: Child,
    at: String,
}

impl Listening {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut words = BufReader::new(child.stderr.take().unwrap());
        let at = loop {
            let mut line = String::new();
            assert!(words.read_line(&mut line).unwrap() > 0, "the server ends");
            let line = line.trim_end();
            if let Some(port) = line.strip_prefix("Listening on port ") {
                break format!("127.0.0.1:{port}");
            }
            if let Some(path) = line.strip_prefix("Listening on ") {
                break path.to_owned();
            }
            if let Some((_, at)) = line.split_once("in GDB: target remote ") {
                break at.to_owned();
            }
        };
        std::thread::spawn(move || std::io::copy(&mut words, &mut std::io::sink()));
        Self { child, at }
    }

    fn connect(&self) -> Client {
        let stream = TcpStream::connect(&self.at).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Client(stream)
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The server's output until it closes the connection.
fn answer(at: &str, request: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // It may be closed before all is written.
    let _ = stream.write_all(request);
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Ok(_) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => bytes,
        Err(error) => panic!("the connection is left open: {error}"),
    }
}

fn gdb(commands: &[String]) -> String {
    Gdb::new().commands(commands).run().all()
}

/// A stub for the proxy, with a program that is stopped.
fn stub(program: &Path, address: &str) -> Listening {
    let mut command = Command::new(TRACEWIRE);
    Listening::start(command.args(["gdbserver", address]).arg(program))
}

/// The listening addresses on a port, from the kernel.
fn listened_to(port: &str) -> Vec<String> {
    let port = format!("{:04X}", port.parse::<u16>().unwrap());
    let mut addresses = Vec::new();
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        let text = std::fs::read_to_string(table).unwrap_or_default();
        for line in text.lines() {
            let fields: Vec<&str> = line.split_whitespace().collect();
            if let [_, local, _, "0A", ..] = fields[..]
                && let Some((address, of)) = local.split_once(':')
                && of == port
            {
                addresses.push(address.to_owned());
            }
        }
    }
    addresses
}

#[test]
fn without_a_host_this_machine_alone_is_listened_to() {
    let folder = tempfile::tempdir().unwrap();
    let program = build(folder.path(), "ticks.c");
    let stub = stub(&program, "127.0.0.1:0");
    let traced = sample("sample.tf");
    for arguments in [
        vec!["gdbserver".as_ref(), ":0".as_ref(), program.as_os_str()],
        vec!["serve".as_ref(), ":0".as_ref(), traced.as_os_str()],
        vec![
            "proxy".as_ref(),
            ":0".as_ref(),
            "--upstream".as_ref(),
            stub.at.as_ref(),
        ],
    ] {
        let server = Listening::start(Command::new(TRACEWIRE).args(&arguments));
        let (_, port) = server.at.rsplit_once(':').unwrap();
        assert_eq!(listened_to(port), ["0100007F"], "{arguments:?}");
    }
    // The table is read right.
    let everywhere = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
    let port = everywhere.local_addr().unwrap().port().to_string();
    assert_eq!(listened_to(&port), ["00000000"]);
}

/// A web page can make a browser send this: a request whose body contains packets.
#[test]
fn packets_in_an_http_request_are_not_obeyed() {
    let folder = tempfile::tempdir().unwrap();
    let made = folder.path().join("made");
    let body = [
        "!",
        &format!(
            "vRun;{};{}",
            hex("/usr/bin/touch"),
            hex(made.to_str().unwrap())
        ),
        "vCont;c",
    ]
    .map(packet)
    .concat();
    let traced = sample("sample.tf");
    let program = build(folder.path(), "ticks.c");
    let stub = stub(&program, "127.0.0.1:0");
    for arguments in [
        vec![
            "gdbserver".as_ref(),
            "--multi".as_ref(),
            "127.0.0.1:0".as_ref(),
        ],
        vec!["serve".as_ref(), "127.0.0.1:0".as_ref(), traced.as_os_str()],
        vec![
            "proxy".as_ref(),
            "127.0.0.1:0".as_ref(),
            "--upstream".as_ref(),
            stub.at.as_ref(),
        ],
    ] {
        let server = Listening::start(Command::new(TRACEWIRE).args(&arguments));
        for method in ["POST", "GET", "OPTIONS", "\n$", "\0"] {
            let request = format!(
                "{method} / HTTP/1.1\r\nHost: {}\r\nOrigin: http://web.example\r\nContent-Type: text/plain\r\n\
                 Content-Length: {}\r\n\r\n{body}",
                server.at,
                body.len()
            );
            assert_eq!(answer(&server.at, request.as_bytes()), b"", "{method}");
        }
        // In pieces, the first of a single byte.
        let mut stream = TcpStream::connect(&server.at).unwrap();
        stream.write_all(b"P").unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        assert!(matches!(stream.read(&mut [0; 64]), Ok(0) | Err(_)));
        // A client that comes after it is served as before.
        assert!(server.connect().ask("qSupported").contains("PacketSize="));
        assert!(!made.exists());
    }
    // The same packets by a client that speaks the protocol have their effect.
    let server =
        Listening::start(Command::new(TRACEWIRE).args(["gdbserver", "--multi", "127.0.0.1:0"]));
    let mut client = server.connect();
    assert_eq!(client.ask("!"), "OK");
    let run = format!(
        "vRun;{};{}",
        hex("/usr/bin/touch"),
        hex(made.to_str().unwrap())
    );
    assert!(client.ask(&run).starts_with('T'));
    assert!(client.ask("vCont;c").starts_with("W00"));
    assert!(made.exists());
}

/// Runs a command as a user that the server's is not; none where the test's user cannot.
fn as_nobody(command: &mut Command) -> Option<String> {
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|of| {
        use std::os::unix::fs::MetadataExt;
        of.uid() == 0
    });
    if !is_root {
        eprintln!("not tried as another user: only root can be one");
        return None;
    }
    let output = command
        .uid(NOBODY)
        .gid(NOBODY)
        .current_dir("/")
        .output()
        .unwrap();
    Some(
        String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr),
    )
}

#[test]
fn a_unix_socket_is_for_its_owner_alone() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let program = build(folder.path(), sample("sample.c"));
    let traced = sample("sample.tf");
    let upstream = folder.path().join("stub.sock");
    let _stub = stub(&program, upstream.to_str().unwrap());
    let upstream = format!("unix:{}", upstream.display());
    for (number, arguments) in [
        vec!["gdbserver".as_ref(), "PATH".as_ref(), program.as_os_str()],
        vec!["serve".as_ref(), "PATH".as_ref(), traced.as_os_str()],
        vec![
            "proxy".as_ref(),
            "PATH".as_ref(),
            "--upstream".as_ref(),
            upstream.as_ref(),
        ],
    ]
    .into_iter()
    .enumerate()
    {
        let path = folder.path().join(format!("{number}.sock"));
        let arguments = arguments.iter().map(|word| match word.to_str() {
            Some("PATH") => path.as_os_str(),
            _ => *word,
        });
        // The socket of a server that was killed does not prevent a new one.
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let server = Listening::start(Command::new(TRACEWIRE).args(arguments));
        assert_eq!(server.at, path.to_str().unwrap());
        let file = std::fs::symlink_metadata(&path).unwrap();
        assert!(file.file_type().is_socket());
        assert_eq!(file.permissions().mode() & 0o777, 0o600);

        let try_it = || {
            let mut gdb = Command::new("gdb");
            gdb.args(["-nx", "-batch", "-ex"])
                .arg(format!("target remote {}", path.display()));
            gdb.args(["-ex", "print 6 * 7", "-ex", "info threads"]);
            as_nobody(&mut gdb)
        };
        if let Some(said) = try_it() {
            assert!(said.contains("Permission denied"), "{said}");
        }
        // The file's mode is not all that there is.
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
        if let Some(said) = try_it() {
            let ends = ["closed", "reset", "disconnected"];
            assert!(ends.iter().any(|word| said.contains(word)), "{said}");
            assert!(!said.contains("Thread"), "{said}");
        }
        let mut stream = UnixStream::connect(&path).unwrap();
        stream.write_all(packet("qSupported").as_bytes()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut bytes = [0; 32];
        stream.read_exact(&mut bytes).unwrap();
        let answer = String::from_utf8_lossy(&bytes);
        assert!(
            answer.starts_with("+$") && answer.contains("PacketSize="),
            "{answer}"
        );
    }
}

#[test]
fn a_socket_that_nobody_names_is_said_and_found() {
    let folder = tempfile::tempdir().unwrap();
    let program = build(folder.path(), sample("sample.c"));
    let server = Listening::start(
        Command::new(TRACEWIRE)
            .env("XDG_RUNTIME_DIR", folder.path())
            .args(["gdbserver", "unix:"])
            .arg(&program),
    );
    assert!(
        Path::new(&server.at).starts_with(folder.path()),
        "{}",
        server.at
    );
    let said = gdb(&[
        format!("file {}", program.display()),
        format!("target remote {}", server.at),
        "break handle".to_owned(),
        "continue".to_owned(),
        "kill".to_owned(),
    ]);
    assert!(said.contains("Breakpoint 1, handle"), "{said}");
}

#[test]
fn a_token_is_asked_for_before_anything_else() {
    let folder = tempfile::tempdir().unwrap();
    let program = build(folder.path(), "ticks.c");
    let (tick, ticks) = (address(&program, "tick"), address(&program, "ticks"));
    let file = folder.path().join("token");
    let server = Server::start(
        Command::new(TRACEWIRE)
            .args(["gdbserver", "--auth"])
            .arg(&file)
            .arg("127.0.0.1:0")
            .arg(&program),
    );
    let process = server.process.unwrap();
    let token = std::fs::read_to_string(&file).unwrap();
    let auth = |token: &str| format!("qRcmd,{}", hex(&format!("auth {token}")));

    // A client that is accepted starts a run that goes on without it.
    let mut client = server.connect();
    assert!(
        client
            .ask("qSupported:multiprocess+")
            .contains("QTBuffer:size+")
    );
    assert!(client.ask(&auth(token.trim())).starts_with('O'));
    assert_eq!(client.reply().unwrap(), "OK");
    for packet in [
        "QTinit",
        &format!("QTDP:1:{tick:x}:E:0:0"),
        "QTBuffer:circular:1",
        "QTDisconnected:1",
        "QTStart",
        "D",
    ] {
        assert_eq!(client.ask(packet), "OK", "{packet}");
    }
    drop(client);
    runs(process, ticks, 20);

    // One that is not changes nothing, sees nothing, and stops nothing.
    let mut client = server.connect();
    assert!(client.ask("qSupported").contains("PacketSize="));
    assert_eq!(client.ask("!"), "OK");
    assert_eq!(client.ask("?"), "W00");
    assert!(client.ask("qTStatus").starts_with("T0;tnotrun:0"));
    for packet in [
        &format!("m{tick:x},4"),
        &format!("M{tick:x},1:cc"),
        "g",
        "vCont;c",
        "c",
        "QTStop",
        "QTinit",
        "qTBuffer:0,100",
        &format!("vRun;{}", hex("/bin/true")),
        &format!("vAttach;{process:x}"),
        &format!("vFile:open:{},0,0", hex("/etc/passwd")),
        "qXfer:exec-file:read::0,100",
        "vKill;1",
    ] {
        let reply = client.ask(packet);
        assert!(reply.starts_with("E."), "{packet}: {reply}");
    }
    runs(process, ticks, 20);
    for guess in ["0", "guess"] {
        assert!(client.ask(&auth(guess)).starts_with('O'));
        assert_eq!(client.reply().unwrap(), "E01");
    }
    // It has three guesses. The answer to the last one may be lost with the connection.
    assert!(client.ask(&auth(&token.trim()[1..])).starts_with('O'));
    while client.reply().is_ok() {}
    runs(process, ticks, 20);

    // Stock GDB.
    let said = gdb(&[
        format!("file {}", program.display()),
        format!("target extended-remote :{}", server.port),
        "info threads".to_owned(),
        format!("monitor auth {}", token.trim()),
        format!("attach {process}"),
        "tstatus".to_owned(),
        "break tick".to_owned(),
        "continue".to_owned(),
        "backtrace".to_owned(),
        "kill".to_owned(),
    ]);
    for words in [
        "No threads.",
        &format!("In GDB: attach {process}"),
        "Trace is running on the target.",
        "Breakpoint 1, tick",
        "in main ()",
        "killed]",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
}

#[test]
fn a_token_is_asked_for_a_trace_too() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    let server = Listening::start(
        Command::new(TRACEWIRE)
            .args(["serve", "--auth"])
            .arg(&file)
            .arg("127.0.0.1:0")
            .arg(sample("sample.tf"))
            .arg("--elf")
            .arg(sample("sample")),
    );
    let mut client = server.connect();
    assert!(client.ask("QTFrame:0").starts_with("E."));
    assert!(client.ask("m0,4").starts_with("E."));
    drop(client);
    let token = std::fs::read_to_string(&file).unwrap();
    let said = gdb(&[
        format!("file {}", sample("sample").display()),
        format!("target extended-remote {}", server.at),
        format!("monitor auth {}", token.trim()),
        "attach 1".to_owned(),
        "tfind 0".to_owned(),
        "info registers rip".to_owned(),
        "detach".to_owned(),
    ]);
    for words in ["In GDB: attach 1", "Found trace frame 0", "rip "] {
        assert!(said.contains(words), "{words}: {said}");
    }
    // A file that others can read is no secret.
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let output = Command::new(TRACEWIRE)
        .args(["serve", "--auth"])
        .arg(&file)
        .arg("127.0.0.1:0")
        .arg(sample("sample.tf"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("chmod 600"), "{said}");
}

#[test]
fn a_token_is_asked_for_a_stub_too() {
    let folder = tempfile::tempdir().unwrap();
    let program = build(folder.path(), "ticks.c");
    let stub = stub(&program, "127.0.0.1:0");
    let file = folder.path().join("token");
    let server = Listening::start(
        Command::new(TRACEWIRE)
            .args(["proxy", "127.0.0.1:0", "--upstream", &stub.at, "--auth"])
            .arg(&file),
    );
    let read = format!("m{:x},4", address(&program, "tick"));
    let mut client = server.connect();
    for packet in [read.as_str(), "g", "QTinit", "vCont;c"] {
        let reply = client.ask(packet);
        assert!(reply.starts_with("E."), "{packet}: {reply}");
    }
    drop(client);
    let token = std::fs::read_to_string(&file).unwrap();
    let mut client = server.connect();
    let auth = hex(&format!("auth {}", token.trim()));
    assert!(client.ask(&format!("qRcmd,{auth}")).starts_with('O'));
    assert_eq!(client.reply().unwrap(), "OK");
    let reply = client.ask(&read);
    assert_eq!(reply.len(), 8, "{reply}");
}

/// Records and shows a program as a user who has no privilege and can get none.
#[test]
fn no_privilege_is_needed_to_record() {
    let folder = tempfile::tempdir().unwrap();
    build(folder.path(), sample("sample.c"));
    // Where the user can get at it.
    copy_program(Path::new(TRACEWIRE), &folder.path().join("tracewire"));
    let own = folder.path().join("own");
    std::fs::create_dir(&own).unwrap();
    for (path, mode) in [(folder.path(), 0o755), (&own, 0o777)] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    let script = "cd $0/own && exec setpriv --no-new-privs --bounding-set=-all --inh-caps=-all \
                  ../tracewire record --mechanism jump -t 'handle : depth' -o out.tf -- ../sample";
    let mut shell = Command::new("sh");
    shell.args(["-c", script]).arg(folder.path());
    shell.env("HOME", &own);
    let Some(said) = as_nobody(&mut shell) else {
        return;
    };
    assert!(said.contains(" frames in out.tf"), "{said}");
    let made = std::fs::metadata(own.join("out.tf")).unwrap();
    assert_eq!(std::os::unix::fs::MetadataExt::uid(&made), NOBODY);
}

#[test]
fn without_a_folder_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let program = build(folder.path(), "ticks.c");
    let tick = address(&program, "tick");
    let made = folder.path().join("made");
    let name = hex(made.to_str().unwrap());
    let stub = stub(&program, "127.0.0.1:0");
    let proxied = ["--hide-tracepoints", "--upstream", &stub.at];
    for arguments in [
        [
            &["gdbserver", "127.0.0.1:0", program.to_str().unwrap()][..],
            &[],
        ]
        .concat(),
        [&["proxy", "127.0.0.1:0"][..], &proxied].concat(),
    ] {
        let server = Listening::start(Command::new(TRACEWIRE).args(&arguments));
        let mut client = server.connect();
        client.ask("qSupported:multiprocess+;swbreak+");
        for packet in [
            "QTinit",
            &format!("QTDP:1:{tick:x}:E:0:0"),
            "QTStart",
            "QTStop",
        ] {
            assert_eq!(client.ask(packet), "OK", "{arguments:?}: {packet}");
        }
        let saved = client.ask(&format!("QTSave:{name}"));
        assert!(saved.starts_with('E'), "{arguments:?}: {saved}");
        let opened = client.ask(&format!("vFile:open:{name},601,1a4"));
        assert!(
            !opened.starts_with('F') || opened.starts_with("F-1"),
            "{arguments:?}: {opened}"
        );
        assert!(!made.exists(), "{arguments:?}");
    }
}

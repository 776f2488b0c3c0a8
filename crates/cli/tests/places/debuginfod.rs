//! Debug information from a server: the values are right, and the server is only asked if requested.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use tracewire_test_support::{assert_clean, need, tool};

use crate::forms::{EXPRESSIONS, gdb_values, program, values_of};
use crate::support::{Ran, ran, tracewire};

/// A server of files by their build ids, on the loopback device.
struct Server {
    url: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Serves files until the test's process ends.
    fn of(files: Vec<(String, PathBuf)>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let path = asked_path(stream.as_ref().expect("a connection"));
                let wanted = files
                    .iter()
                    .find(|(id, _)| path == format!("/buildid/{id}/debuginfo"));
                seen.lock().expect("a list").push(path.clone());
                let (status, body) = match wanted {
                    Some((_, file)) => ("200 OK", std::fs::read(file).expect("a file")),
                    None => ("404 Not Found", Vec::new()),
                };
                let mut stream = stream.expect("a connection");
                let head = format!(
                    "HTTP/1.1 {status}\r\nContent-Length: {}\r\nContent-Type: application/octet-stream\r\nConnection: close\r\n\r\n",
                    body.len()
                );
                // A client that has enough closes the connection.
                let _ = stream.write_all(head.as_bytes());
                let _ = stream.write_all(&body);
            }
        });
        Self { url, asked }
    }

    fn count(&self) -> usize {
        self.asked.lock().expect("a list").len()
    }

    /// How often one file was requested.
    fn count_of(&self, build_id: &str) -> usize {
        let asked = self.asked.lock().expect("a list");
        asked.iter().filter(|path| path.contains(build_id)).count()
    }
}

/// The path of a request.
fn asked_path(stream: &TcpStream) -> String {
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next().expect("a line").expect("a line");
    // The headers end with an empty line.
    while lines
        .next()
        .is_some_and(|line| !line.expect("a line").is_empty())
    {}
    first.split(' ').nth(1).expect("a path").to_owned()
}

/// A program with separate debug information, and its build id.
fn stripped(directory: &Path) -> (PathBuf, PathBuf, String) {
    let whole = program(directory, "gcc", &["-g", "-Wl,--build-id=sha1"]);
    let debug = directory.join("kept.debug");
    let objcopy = |arguments: &[&std::ffi::OsStr]| {
        let status = tool("objcopy").args(arguments).status();
        assert!(status.expect("objcopy runs").success());
    };
    objcopy(&["--only-keep-debug".as_ref(), whole.as_ref(), debug.as_ref()]);
    let status = tool("strip").arg(&whole).status();
    assert!(status.expect("strip runs").success());
    let id = build_id(&whole);
    (whole, debug, id)
}

fn build_id(file: &Path) -> String {
    let notes = tool("readelf").arg("-n").arg(file).output();
    let notes = String::from_utf8_lossy(&notes.expect("readelf runs").stdout).into_owned();
    let id = notes
        .lines()
        .find_map(|line| line.trim().strip_prefix("Build ID: "));
    id.expect("a build id").to_owned()
}

/// Tracewire with a temporary home and a server.
fn with(home: &Path, server: &Server) -> Command {
    let mut command = tracewire();
    command
        .current_dir(home)
        .env_remove("XDG_CACHE_HOME")
        .env_remove("DEBUGINFOD_CACHE_PATH")
        .env("HOME", home)
        .env("DEBUGINFOD_URLS", &server.url);
    command
}

fn recorded(mut command: Command, program: &Path, options: &[&str]) -> Ran {
    let specification = format!("work : {}", EXPRESSIONS.join(", "));
    command.args(["record", "-o", "out.tf", "-t", &specification]);
    command.args(options).arg("--").arg(program);
    let ran = ran(command.output().expect("tracewire runs"));
    if ran.code == Some(0) {
        assert_clean(&program.with_file_name("out.tf"));
    }
    ran
}

fn shown(mut command: Command, options: &[&str]) -> Vec<String> {
    command.args(["show", "--json", "--frame", "0", "out.tf"]);
    values_of(ran(command.args(options).output().expect("tracewire runs")))
}

#[test]
fn a_server_has_the_debug_information() {
    need!("debuginfod-find");
    let directory = tempfile::tempdir().unwrap();
    let whole = program(directory.path(), "gcc", &["-g", "-Wl,--build-id=sha1"]);
    let expected = gdb_values(&whole);
    let (program, debug, id) = stripped(directory.path());
    let server = Server::of(vec![(id.clone(), debug)]);
    let with = || with(directory.path(), &server);

    // No server is asked unless requested.
    let without = recorded(with(), &program, &[]).code(2);
    without.says(&["work"]);
    let list = with().arg("list").arg(&program).output();
    list.expect("tracewire runs");
    assert_eq!(server.count(), 0);

    let first = recorded(with(), &program, &["--debuginfod"]).code(0);
    assert!(!first.stderr.contains(&id), "{}", first.stderr);
    assert_eq!(shown(with(), &["--debuginfod"]), expected);
    assert_eq!(server.count_of(&id), 1);
    let kept = format!(".cache/debuginfod_client/{id}/debuginfo");
    assert!(directory.path().join(kept).exists());

    // Commands that read a file do not ask it either. The client keeps fetched files, but not in this place.
    for words in [&["show"][..], &["find", "--tracepoint", "1"], &["info"]] {
        let mut look = with();
        look.env("DEBUGINFOD_CACHE_PATH", directory.path().join("empty"));
        let looked = look.args(words).arg("out.tf").output();
        ran(looked.expect("tracewire runs")).code(0);
    }
    assert_eq!(server.count_of(&id), 1);

    // A kept file is used without a server.
    let mut alone = with();
    alone.env("DEBUGINFOD_URLS", "http://127.0.0.1:1");
    recorded(alone, &program, &["--debuginfod"]).code(0);
    let mut list = with();
    list.args(["list", "--debuginfod"])
        .arg(&program)
        .arg("work");
    let listed = ran(list.output().expect("tracewire runs")).code(0);
    assert!(listed.stdout.contains("struct item *"), "{}", listed.stdout);
    assert_eq!(server.count_of(&id), 1);
}

#[test]
fn a_server_has_the_file_for_several_programs() {
    need!("debuginfod-find", "dwz");
    let directory = tempfile::tempdir().unwrap();
    let program = program(directory.path(), "gcc", &["-g"]);
    let expected = gdb_values(&program);
    std::fs::copy(&program, directory.path().join("other")).unwrap();
    let packed = tool("dwz")
        .current_dir(directory.path())
        .args(["-m", "common.dwz", "program", "other"])
        .status();
    assert!(packed.expect("dwz runs").success());
    let kept = directory.path().join("apart");
    std::fs::rename(directory.path().join("common.dwz"), &kept).unwrap();
    let id = build_id(&kept);
    let server = Server::of(vec![(id.clone(), kept)]);
    let with = || with(directory.path(), &server);
    let ran = recorded(with(), &program, &["--debuginfod"]).code(0);
    assert!(!ran.stderr.contains("common.dwz"), "{}", ran.stderr);
    assert_eq!(shown(with(), &["--debuginfod"]), expected);
    assert_eq!(server.count_of(&id), 1);
}

#[test]
fn what_a_server_has_not_or_what_is_too_large_is_reported() {
    need!("debuginfod-find");
    let directory = tempfile::tempdir().unwrap();
    let (program, debug, id) = stripped(directory.path());
    let none = Server::of(Vec::new());
    let name = program.display().to_string();
    recorded(with(directory.path(), &none), &program, &["--debuginfod"])
        .code(2)
        .says(&["debuginfod", &name, "no server has its debug information"]);
    assert!(none.count_of(&id) > 0);

    let server = Server::of(vec![(id, debug)]);
    let home = tempfile::tempdir().unwrap();
    let mut limited = with(home.path(), &server);
    limited.env("DEBUGINFOD_MAXSIZE", "100");
    recorded(limited, &program, &["--debuginfod"])
        .code(2)
        .says(&["debuginfod", &name, "File too large"]);

    let mut unset = with(home.path(), &server);
    unset.env_remove("DEBUGINFOD_URLS");
    recorded(unset, &program, &["--debuginfod"])
        .code(2)
        .says(&["no server is known", "DEBUGINFOD_URLS"]);
}

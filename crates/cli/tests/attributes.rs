//! Programs with attributes that a tracer meets rarely: filtered system calls, limits, namespaces, other users, small stacks,
//! blocked signals, flags that change what instructions do. Each is recorded from its start, and attached to and detached from. It is also attached to by a Tracewire that
//! is killed and whose jumps are then removed. All is done by jumps and by traps. The program checks itself
//! (`programs/attributes.c`): it runs as it would alone, or the place is refused with the reason.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::{FileExt as _, PermissionsExt};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// The attributes in the program's table, but for `none`.
const ATTRIBUTES: usize = 46;

/// Those of programs that get no jump: they may not map or share the memory of a pad, or make the system calls for it.
const BY_TRAP: [&str; 7] = [
    "mlockall-limited",
    "rlimit-as",
    "rlimit-data",
    "rlimit-nofile",
    "seccomp-filter",
    "seccomp-strict",
    "syscall-user-dispatch",
];

/// How often a program calls that is recorded from its start.
const CALLS: u64 = 500;

/// How long a program may take for any step. On a busy machine it takes a second.
const LIMIT: Duration = Duration::from_secs(60);

/// How the tracepoint is served: by a jump if possible, or by a trap.
const MECHANISMS: [(&str, &[&str]); 2] = [("default", &[]), ("trap", &["--mechanism", "trap"])];

struct Built {
    folder: tempfile::TempDir,
    program: PathBuf,
}

fn built() -> &'static Built {
    static BUILT: LazyLock<Built> = LazyLock::new(|| {
        let folder = tempfile::tempdir().expect("a folder");
        // Another user's processes read it, too.
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).expect("opened");
        let program = folder.path().join("attributes");
        let source = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/programs/attributes.c");
        // Without the C library's own symbols each look at the program is short.
        let status = Command::new("cc")
            .args(["-g", "-O1", "-static", "-pthread", "-o"])
            .args([&program, &source])
            .status();
        assert!(status.expect("cc runs").success());
        Built { folder, program }
    });
    &BUILT
}

/// The state that the program and the test share.
struct Shared {
    path: PathBuf,
    file: File,
}

impl Shared {
    fn new(name: &str) -> Self {
        let path = built().folder.path().join(format!("{name}.shared"));
        std::fs::write(&path, [0; 4096]).expect("written");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o666)).expect("opened");
        let file = File::options().read(true).write(true).open(&path);
        Self {
            path,
            file: file.expect("opened"),
        }
    }

    fn word(&self, index: u64) -> u64 {
        let mut bytes = [0; 8];
        self.file
            .read_exact_at(&mut bytes, index * 8)
            .expect("read");
        u64::from_le_bytes(bytes)
    }

    fn calls(&self) -> u64 {
        self.word(1)
    }

    fn process(&self) -> String {
        self.word(2).to_string()
    }

    /// Whether the machine gives the program the attribute; `None` while it is not known.
    fn is_given(&self) -> Option<bool> {
        match self.word(3) {
            0 => None,
            given => Some(given == 1),
        }
    }

    fn end(&self) {
        self.file
            .write_all_at(&1u64.to_le_bytes(), 0)
            .expect("written");
    }
}

/// Waits for what must come.
#[track_caller]
fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < LIMIT, "{what}");
        std::thread::yield_now();
    }
}

/// A program that makes calls until it is told to end.
struct Running {
    child: Child,
    shared: Shared,
}

impl Running {
    /// `None` where the machine does not give the attribute.
    fn start(attribute: &str, name: &str) -> Option<Self> {
        let shared = Shared::new(name);
        let mut child = Command::new(&built().program)
            .arg(attribute)
            .arg(&shared.path)
            .arg("0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it runs");
        let given = until(attribute, || shared.is_given());
        if !given {
            child.wait().expect("ended");
            return None;
        }
        let running = Self { child, shared };
        running.goes_on(attribute);
        Some(running)
    }

    /// Waits until it has called some more times.
    #[track_caller]
    fn goes_on(&self, what: &str) {
        let before = self.shared.calls();
        until(what, || (self.shared.calls() > before + 20).then_some(()));
    }

    #[track_caller]
    fn end(mut self, what: &str) {
        self.shared.end();
        until(what, || self.child.try_wait().expect("waited"));
        let output = self.child.wait_with_output().expect("waited");
        assert_right(&output, what);
    }

    /// Whether the trap that a killed tracer left has ended it. It goes on if the tracer was just stepping over the instruction in
    /// place.
    fn was_trapped(&mut self, what: &str) -> bool {
        const SIGTRAP: i32 = 5;
        let before = self.shared.calls();
        let status = until("the end at a trap", || {
            let goes_on = || (self.shared.calls() > before + 20).then_some(None);
            (self.child.try_wait().expect("waited").map(Some)).or_else(goes_on)
        });
        // The first process of a namespace is waited for by a helper process, which reports it as a shell does.
        status.is_some_and(|status| {
            let trapped = [status.signal(), status.code().map(|code| code - 128)];
            assert!(trapped.contains(&Some(SIGTRAP)), "{what}: {status}");
            true
        })
    }
}

#[track_caller]
fn assert_right(output: &Output, what: &str) {
    let (said, complained) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(
        output.status.success() && said.ends_with("right\n"),
        "{what}: {}\n{said}\n{complained}",
        output.status
    );
}

fn tracewire(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tracewire"));
    command
        .args(words)
        .current_dir(built().folder.path())
        .stdin(Stdio::null());
    command
}

/// Whether the message explains why no tracepoint can be at the place. Nothing has been written then.
fn is_refused(said: &str) -> bool {
    said.contains("no tracepoint can be put at") || said.contains("is refused")
}

/// How many frames a file has, which is without fault.
#[track_caller]
fn frames(file: &str) -> u64 {
    let path = built().folder.path().join(file);
    tracewire_test_support::assert_clean(&path);
    let trace = tracewire_tracefile::TraceFile::open(&path);
    trace.expect("it opens").frame_count()
}

/// From its start on: every call is a frame.
fn started(attribute: &str, mechanism: &str, options: &[&str]) {
    let name = format!("{attribute}-{mechanism}-started");
    let shared = Shared::new(&name);
    let file = format!("{name}.tf");
    let output = tracewire(&["record", "-t", "site : total"])
        .args(options)
        .args(["-o", &file, "--"])
        .arg(&built().program)
        .arg(attribute)
        .arg(&shared.path)
        .arg(CALLS.to_string())
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    let what = format!("{name}: {}\n{said}", output.status);
    match shared.is_given() {
        Some(true) => {}
        Some(false) => return,
        None => panic!("the program has not begun: {what}"),
    }
    assert_eq!(shared.calls(), CALLS, "{what}");
    assert!(said.contains("the program exited with code 0"), "{what}");
    assert!(
        String::from_utf8_lossy(&output.stdout).ends_with("right\n"),
        "{what}"
    );
    // A child by `fork` has no tracepoints.
    let is_child = attribute == "pid-namespace";
    assert_eq!(
        output.status.code(),
        Some(if is_child { 1 } else { 0 }),
        "{what}"
    );
    assert_eq!(frames(&file), if is_child { 0 } else { CALLS }, "{what}");
}

/// Attaches, and detaches after some calls. Returns whether tracepoints are allowed.
fn attached(program: &Running, attribute: &str, name: &str, options: &[&str]) -> bool {
    let file = format!("{name}.tf");
    let mut recorder = tracewire(&["record", "-t", "site : total"])
        .args(options)
        .args(["-o", &file, "-p", &program.shared.process()])
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut messages = BufReader::new(recorder.stderr.take().expect("stderr"));
    let mut said = String::new();
    while messages.read_line(&mut said).expect("text") > 0 {
        if said.contains("tracepoint 1 by ") {
            program.goes_on(&said);
            // SAFETY: kill takes plain numbers, and the child has not been waited for.
            unsafe { libc::kill(recorder.id().cast_signed(), libc::SIGINT) };
            messages.read_to_string(&mut said).expect("text");
            break;
        }
    }
    let status = recorder.wait().expect("ended");
    let what = format!("{name}: {status}\n{said}");
    program.goes_on(&what);
    if status.code() == Some(2) {
        assert!(is_refused(&said), "{what}");
        eprintln!("{what}");
        return false;
    }
    assert_eq!(status.code(), Some(0), "{what}");
    assert!(frames(&file) > 0, "{what}");
    if options.is_empty() {
        let by_jump = said.contains("tracepoint 1 by jump");
        assert_ne!(by_jump, BY_TRAP.contains(&attribute), "{what}");
    }
    true
}

/// Attached to by a Tracewire that is killed, and rescued.
fn killed(mut program: Running, name: &str, options: &[&str]) {
    let process = program.shared.process();
    let mut recorder = tracewire(&["record", "-t", "site : total"])
        .args(options)
        .args(["-o", &format!("{name}.tf"), "-p", &process])
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut said = BufReader::new(recorder.stderr.take().expect("stderr"));
    let mut text = String::new();
    while !text.contains("tracepoint 1 by ") {
        let read = said.read_line(&mut text).expect("text");
        assert!(read > 0, "{name}: {text}");
    }
    let by_trap = text.contains("tracepoint 1 by trap");
    program.goes_on(&text);
    recorder.kill().expect("killed");
    recorder.wait().expect("ended");
    let _ = said.read_to_string(&mut text);
    if by_trap {
        eprintln!("{name}: {text}");
        if !program.was_trapped(name) {
            program.end(name);
        }
        return;
    }
    program.goes_on(&text);
    let rest = format!("{name}-rest.tf");
    let rescue = tracewire(&["rescue", "-o", &rest, "-p", &process])
        .output()
        .expect("it runs");
    let words = String::from_utf8_lossy(&rescue.stderr);
    assert_eq!(rescue.status.code(), Some(0), "{name}: {words}");
    assert!(words.contains("1 jump taken out"), "{name}: {words}");
    if built().folder.path().join(&rest).exists() {
        frames(&rest);
    }
    program.goes_on(&words);
    program.end(&format!("{name}\n{text}\n{words}"));
}

fn tried(attribute: &str) {
    for (mechanism, options) in MECHANISMS {
        started(attribute, mechanism, options);
        let name = format!("{attribute}-{mechanism}");
        let Some(program) = Running::start(attribute, &name) else {
            eprintln!("{attribute}: the machine does not give it");
            return;
        };
        // Each hit of one that may not read the counter is a fault. A kill in the middle of that ends it (docs/promises.md).
        if attached(&program, attribute, &name, options) && attribute != "no-counter" {
            killed(program, &name, options);
        } else {
            program.end(&name);
        }
    }
}

fn all() -> Vec<String> {
    let output = Command::new(&built().program).output().expect("it runs");
    let names = String::from_utf8(output.stdout).expect("text");
    names.lines().map(str::to_owned).collect()
}

/// Every `parts`th attribute. One that fails does not hide the others.
fn tried_part(part: usize, parts: usize) {
    let names = all();
    let mine = names.iter().skip(part).step_by(parts);
    let failed: Vec<_> = mine
        .filter(|name| std::panic::catch_unwind(|| tried(name)).is_err())
        .collect();
    assert!(failed.is_empty(), "{failed:?}");
}

#[test]
fn no_attribute_is_left_out() {
    assert_eq!(all().len(), ATTRIBUTES + 1);
}

#[test]
fn programs_with_attributes_are_unharmed_1() {
    tried_part(0, 2);
}

#[test]
fn programs_with_attributes_are_unharmed_2() {
    tried_part(1, 2);
}

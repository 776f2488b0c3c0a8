//! Stubs that are packages, each with its own ways: Valgrind's, and QEMU's for programs of a system.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tracewire_test_support::{BareMachine, need, tool};

use crate::proxy::{compared, proxy, scripted, stopped, traced};
use crate::support::linux_program;

/// How long a stub may take to start.
const LIMIT: Duration = Duration::from_secs(60);

/// A program with its stub, which ends with this.
struct Stub {
    child: Child,
    socket: PathBuf,
}

impl Stub {
    fn upstream(&self) -> String {
        format!("unix:{}", self.socket.display())
    }
}

impl Drop for Stub {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A program in Valgrind, which waits for a debugger. Each connection has its own `vgdb`.
#[track_caller]
fn valgrind(program: &Path, directory: &Path) -> Stub {
    let socket = directory.join("vgdb.socket");
    let listener = UnixListener::bind(&socket).expect("the socket can be made");
    let pipes = format!("--vgdb-prefix={}/pipe", directory.display());
    let child = tool("valgrind")
        .args(["--tool=none", "-q", "--vgdb=full", "--vgdb-error=0", &pipes])
        .arg(program)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("valgrind starts");
    let process = format!("--pid={}", child.id());
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (client, output) = client
                .and_then(|client| Ok((client.try_clone()?, client)))
                .expect("a client");
            let wait = format!("--wait={}", LIMIT.as_secs());
            let mut relay = Command::new("vgdb")
                .args([&pipes, &process, &wait])
                .stdin(OwnedFd::from(client))
                .stdout(OwnedFd::from(output))
                .stderr(Stdio::null())
                .spawn()
                .expect("vgdb starts");
            relay.wait().expect("vgdb ends");
        }
    });
    Stub { child, socket }
}

/// A program in QEMU without a machine, which waits for a debugger.
#[track_caller]
fn qemu_user(emulator: &str, elf: &Path, directory: &Path) -> Stub {
    let socket = directory.join("user.socket");
    let _ = std::fs::remove_file(&socket);
    let child = tool(emulator)
        .arg("-g")
        .args([&socket, elf])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("QEMU starts");
    let stub = Stub { child, socket };
    // It listens for one connection, which must not be spent on a trial.
    let name = stub.socket.to_str().expect("UTF-8");
    let begun = Instant::now();
    let is_listening = || {
        let sockets = std::fs::read_to_string("/proc/net/unix").expect("sockets are listed");
        let accepts = |line: &str| line.ends_with(name) && line.contains(" 00010000 ");
        sockets.lines().any(accepts)
    };
    while !is_listening() {
        assert!(begun.elapsed() < LIMIT, "{emulator} does not listen");
        std::thread::yield_now();
    }
    stub
}

/// Its stub reads a request with all that follows it, and waits for an acknowledgement by itself.
#[test]
fn frames_of_a_program_in_qemu_without_a_machine_are_what_breakpoints_read() {
    need!("clang", "ld.lld", "gdb-multiarch", "qemu-arm");
    let machine = BareMachine::named("arm");
    let folder = tempfile::tempdir().expect("a directory");
    let elf = machine.build(folder.path()).with_file_name("user.elf");
    // The same, where a system has its programs: code and data in pages of their own.
    let linked = tool("ld.lld")
        .args(["-o", "user.elf", "program.o", "start.o"])
        .current_dir(folder.path())
        .status();
    assert!(linked.expect("ld.lld runs").success());
    let traced = {
        let stub = qemu_user("qemu-arm", &elf, folder.path());
        let files = folder.path().to_str().expect("UTF-8");
        let proxy = proxy(&stub.upstream(), &["--files", files]);
        traced(&elf, &proxy.address(), folder.path(), "")
    };
    let stopped = {
        let stub = qemu_user("qemu-arm", &elf, folder.path());
        stopped(&elf, &stub.socket, folder.path(), "")
    };
    let (frames, expected) = (compared(&traced), compared(&stopped));
    let all = format!("{}\n{}", traced.all(), stopped.all());
    assert_eq!(expected.len(), 9 + 9, "{all}");
    assert_eq!(frames, expected, "{all}");
}

#[test]
fn threads_of_a_program_in_valgrind_are_traced() {
    need!("cc", "gdb-multiarch", "valgrind");
    let folder = tempfile::tempdir().expect("a directory");
    let program = linux_program(folder.path());
    let stub = valgrind(&program, folder.path());
    let proxy = proxy(&stub.upstream(), &[]);
    let text = format!(
        "target remote {}\n{}",
        proxy.address(),
        "\
break main
continue
delete
tvariable $seen
trace work if n % 3 == 1
actions
  collect n, total, calls
  collect/s pair.name
  teval $seen = $seen + 1
end
trace finish
actions
  collect $regs, $seen
  while-stepping 2
    collect $regs
  end
end
break finish
tstart
continue
printf \"= calls %d, total %d\\n\", calls, total
stepi
printf \"= at %lx\\n\", $pc
stepi
printf \"= at %lx\\n\", $pc
tstop
tstatus
tfind start
set $work = $tracepoint
set $sum = 0
set $frames = 0
set $in_order = 1
set $named = 0
while $trace_frame != -1 && $tracepoint == $work
  set $sum = $sum + n
  set $in_order = $in_order && calls >= $frames
  set $named = $named + (pair.name[0] == 'o' && pair.name[2] == 'e')
  set $frames = $frames + 1
  tfind
end
printf \"= frames %d, sum %d, in order %d, named %d\\n\", $frames, $sum, $in_order, $named
printf \"= seen %d\\n\", $seen
tfind
printf \"= step %lx\\n\", $pc
tfind
printf \"= step %lx\\n\", $pc
tfind none
kill
"
    );
    let said = scripted(&program, folder.path(), &text);
    let all = said.all();
    let lines = compared(&said);
    let [calls, at, then, frames, seen, steps @ ..] = lines.as_slice() else {
        panic!("{all}");
    };
    assert_eq!(calls, "= calls 60, total 6570", "{all}");
    // Of each thread's twenty calls those whose argument is one more than a multiple of three.
    let of_each = (0..3).flat_map(|thread| (0..20).map(move |n| n + thread * 100));
    let hits: Vec<i64> = of_each.filter(|n| n % 3 == 1).collect();
    let expected = format!(
        "= frames {count}, sum {}, in order 1, named {count}",
        hits.iter().sum::<i64>(),
        count = hits.len()
    );
    assert_eq!(*frames, expected, "{all}");
    assert_eq!(*seen, format!("= seen {}", hits.len()), "{all}");
    let expected = [at, then].map(|line| line.replace("at", "step"));
    assert_eq!(steps, expected, "{all}");
}

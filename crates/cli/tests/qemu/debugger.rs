//! `tracewire qemu --gdb`: stock GDB with tracepoints that the plugin carries out, compared with a proxy in front of QEMU without it.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};

use tracewire_test_support::{
    BARE_MACHINES, BareMachine, Gdb, Said, assert_clean, need, qemu_plugin,
};

use crate::{Guest, tracewire};

/// A server for GDB, and what it says on stderr.
struct Server {
    child: Child,
    address: String,
    rest: Option<JoinHandle<Vec<String>>>,
}

impl Server {
    #[track_caller]
    fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        let mut lines = lines.map_while(Result::ok);
        let mut before = Vec::new();
        let line = lines.find(|line| {
            before.push(line.clone());
            line.contains("target remote")
        });
        let line = line.unwrap_or_else(|| panic!("the server does not start: {before:?}"));
        let (_, address) = line.rsplit_once(' ').expect("an address");
        Self {
            child,
            address: address.to_owned(),
            rest: Some(thread::spawn(move || lines.collect())),
        }
    }

    /// Ends it. Returns what it has said since it was started.
    fn end(mut self) -> Vec<String> {
        self.kill();
        let rest = self.rest.take().expect("it ends once");
        rest.join().expect("lines are read")
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Guest {
    /// QEMU with the plugin, for GDB.
    #[track_caller]
    fn for_gdb(&self) -> Server {
        let folder = self.directory.path().to_str().expect("UTF-8");
        let mut command = tracewire(&["qemu", "--gdb", ":0", "--files", folder, "--"]);
        command
            .arg(self.machine.qemu)
            .args(self.machine.arguments(&self.elf))
            .env("TRACEWIRE_QEMU_PLUGIN", qemu_plugin());
        Server::start(&mut command)
    }

    /// GDB with a script.
    #[track_caller]
    fn gdb(&self, address: &str, text: &str) -> Said {
        let script = self.file("script.gdb");
        let text = format!("target remote {address}\n{text}");
        std::fs::write(&script, text).expect("the directory can be written");
        Gdb::multiarch().program(&self.elf).script(&script).run()
    }
}

/// The lines that a script prints for comparison.
fn compared(said: &Said) -> Vec<&str> {
    let lines = said.output.lines();
    lines.filter(|line| line.starts_with("= ")).collect()
}

/// The message when a run stops the guest after all.
fn says_that_it_stops(line: &str) -> bool {
    line.contains("the guest stops at tracepoints of this run")
}

/// Two runs. The first has a condition, a string, a variable, steps and a pass count. In the second, breakpoints and steps of the user come
/// to a tracepoint, and another tracepoint is disabled meanwhile.
const TWO_RUNS: &str = "\
tvariable $seen
trace work if n % 3 == 1
actions
  collect n, total, *item
  collect/s item->name
  teval $seen = $seen + 1
end
trace round_done
actions
  collect $regs, $seen
  while-stepping 2
    collect $regs, $seen
  end
end
passcount 3 2
tstart
tbreak round_done if round == 6
continue
tstatus
tfind start
while $trace_frame != -1
  if $tracepoint == 1
    printf \"= work %d %d %d %s\\n\", n, total, item->id, item->name
  else
    printf \"= done %lx %lx %d\\n\", $pc, $sp, $seen
  end
  tfind
end
tfind none
tsave -r first.tf
delete
trace round_done
actions
  collect round, total
end
trace work if n == 2
actions
  collect n, total
end
set $second = $tpnum
tstart
break round_done if round == 9
continue
printf \"= stopped %d\\n\", round
stepi
stepi
printf \"= stepped %d\\n\", rounds
disable $second
tbreak round_done if round == 12
continue
tstop
tstatus
tfind start
while $trace_frame != -1
  if $tracepoint == $second
    printf \"= second %d\\n\", total
  else
    printf \"= first %d %d\\n\", round, total
  end
  tfind
end
";

#[test]
fn frames_inside_qemu_are_those_of_a_guest_that_stops() {
    need!("clang", "ld.lld", "gdb-multiarch");
    for machine in BARE_MACHINES {
        need!(machine.qemu);
        let guest = Guest::new(machine);
        let server = guest.for_gdb();
        let inside = guest.gdb(&server.address, TWO_RUNS);
        let messages = server.end();
        assert_clean(&guest.file("first.tf"));
        let stops = {
            let qemu = machine.start(&guest.elf, guest.directory.path());
            let upstream = format!("unix:{}", qemu.socket.display());
            let folder = guest.directory.path().to_str().expect("UTF-8");
            let server = Server::start(&mut tracewire(&[
                "proxy",
                ":0",
                "--upstream",
                &upstream,
                "--architecture",
                machine.name,
                "--files",
                folder,
            ]));
            guest.gdb(&server.address, TWO_RUNS)
        };
        let all = || format!("{}\n{}\n{}", machine.name, inside.all(), stops.all());
        assert_eq!(compared(&inside), compared(&stops), "{}", all());
        // 18 frames; then rounds 6 to 12, and their `work` up to round 9.
        assert!(compared(&inside).len() > 18 + 2 + 6, "{}", all());
        assert!(compared(&inside).contains(&"= stopped 9"), "{}", all());
        for words in [
            "Trace stopped by tracepoint 2",
            "Collected 18 trace frames",
            "Trace stopped by a tstop command",
        ] {
            assert!(inside.output.contains(words), "{words}: {}", all());
        }
        // The change in the second run, and nothing else, has brought it back.
        let stopping: Vec<_> = messages
            .iter()
            .filter(|one| says_that_it_stops(one))
            .collect();
        assert!(
            matches!(stopping[..], [line] if line.contains("the experiment changes")),
            "{}: {messages:?}",
            machine.name
        );
    }
}

/// A run that keeps the newest frames while no debugger is there, then one that begins where QEMU has translated its code before.
/// GDB comes back until the guest has gone on: it may come back before the guest has executed anything.
const WITHOUT_A_DEBUGGER: &str = "\
set circular-trace-buffer on
set trace-buffer-size 2000
set disconnected-tracing on
trace round_done
actions
  collect round, rounds
end
tstart
tbreak round_done if round == 100
continue
printf \"= at %d\\n\", round
while rounds <= 150
  detach
  target remote ADDRESS
end
tstatus
tstop
tfind start
set $first = round
set $count = 0
while $trace_frame != -1
  set $last = round
  set $count = $count + 1
  tfind
end
printf \"= gaps %d\\n\", $last - $first + 1 - $count
printf \"= later %d\\n\", $last > 100
tfind none
tsave -r newest.tf
delete
set circular-trace-buffer off
set trace-buffer-size 1000000
trace work if n == 3
actions
  collect rounds
end
tstart
tbreak hundred_done
continue
tbreak hundred_done
continue
tstop
tfind start
set $first = rounds
set $count = 0
while $trace_frame != -1
  set $last = rounds
  set $count = $count + 1
  tfind
end
printf \"= missed %d of %d\\n\", $last - $first + 1 - $count, $count >= 100
";

#[test]
fn a_run_inside_qemu_goes_on_without_a_debugger() {
    need!("clang", "ld.lld", "gdb-multiarch", "qemu-system-riscv64");
    let guest = Guest::new(BareMachine::named("riscv64"));
    let server = guest.for_gdb();
    let text = WITHOUT_A_DEBUGGER.replace("ADDRESS", &server.address);
    let said = guest.gdb(&server.address, &text);
    let messages = server.end();
    let all = format!("{}\n{messages:?}", said.all());
    assert_eq!(
        compared(&said),
        ["= at 100", "= gaps 0", "= later 1", "= missed 0 of 1"],
        "{all}"
    );
    for words in [
        "Trace is running on the target.",
        "Trace buffer is circular.",
    ] {
        assert!(said.output.contains(words), "{words}: {all}");
    }
    assert!(!messages.iter().any(|one| says_that_it_stops(one)), "{all}");
    assert_clean(&guest.file("newest.tf"));
}

#[test]
fn what_the_plugin_refuses_stops_the_guest() {
    need!("clang", "ld.lld", "gdb-multiarch", "qemu-system-x86_64");
    let guest = Guest::new(BareMachine::named("x86_64"));
    let server = guest.for_gdb();
    let said = guest.gdb(
        &server.address,
        "\
trace round_done if (int) $eflags != 0
actions
  collect round
end
tstart
tbreak round_done if round == 6
continue
tstatus
",
    );
    let messages = server.end();
    let all = format!("{}\n{messages:?}", said.all());
    assert!(said.output.contains("Collected 6 trace frames"), "{all}");
    let reason = messages.iter().find(|one| says_that_it_stops(one));
    assert!(reason.is_some_and(|one| one.contains("eflags")), "{all}");
}

#[test]
fn a_qemu_that_ends_at_its_start_is_reported() {
    need!("qemu-system-riscv64");
    let mut command = tracewire(&["qemu", "--gdb", ":0", "--", "qemu-system-riscv64"]);
    let output = command
        .args(["-M", "nothing-like-this"])
        .env("TRACEWIRE_QEMU_PLUGIN", qemu_plugin())
        .output()
        .expect("tracewire runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(errors.contains("QEMU ended with"), "{errors}");
}

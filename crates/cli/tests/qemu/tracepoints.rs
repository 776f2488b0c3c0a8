//! `tracewire qemu -x`: frames compared with those of `record --upstream` with the same script at QEMU's stub.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tracewire_test_support::{
    BARE_MACHINES, BareMachine, Gdb, TWO_CPUS, assert_clean, need, qemu_plugin,
};
use tracewire_tracefile::{GROWING, TraceFile};

use crate::{Guest, chosen, good, tracewire};

/// A condition, a string, variables, steps that come to a tracepoint, two tracepoints at one address, a disabled one, and a pass count.
const SCRIPT: &str = "\
tvariable $hits
tvariable $rounds = 10
trace work if n % 3 == 1 && $hits >= 0
actions
  collect n, *item, total, $regs, $hits
  collect/s item->name
  teval $hits = $hits + 1
  while-stepping 3
    collect $pc, total
  end
end
trace work if $rounds > 11
actions
  collect item->next->id, $rounds
end
trace round_done
actions
  collect $regs, rounds
  teval $rounds = $rounds + 1
  while-stepping 6
    collect $regs
  end
end
passcount 4
trace hundred_done
actions
  collect *(char *) 0x7ffffffe @ 4
end
disable 4
";

impl Guest {
    /// `tracewire qemu` with tracepoints.
    fn tracepoints(&self, out: &Path, options: &[&str]) -> Command {
        let mut command = self.command(out, options);
        command.env("XDG_CACHE_HOME", self.file("cache"));
        command
    }

    fn script(&self, text: &str) -> String {
        let script = self.file("script.gdb");
        fs::write(&script, text).expect("the directory can be written");
        script.to_str().expect("UTF-8").to_owned()
    }

    /// The frames that the same script makes at the stub.
    #[track_caller]
    fn frames_at_stub(&self, script: &str) -> Vec<Value> {
        let out = self.file("stub.tf");
        let qemu = self.machine.start(&self.elf, self.directory.path());
        let upstream = format!("unix:{}", qemu.socket.display());
        good(
            tracewire(&["record", "-x", script, "--upstream", &upstream])
                .arg("-o")
                .arg(&out)
                .arg("--elf")
                .arg(&self.elf),
        );
        self.compared(&out)
    }

    /// The frames of a file, without what differs between two runs.
    #[track_caller]
    fn compared(&self, file: &Path) -> Vec<Value> {
        assert_clean(file);
        let output = good(tracewire(&["show", "--json"]).arg(file));
        let text = String::from_utf8(output.stdout).expect("JSON is UTF-8");
        let frames = text.lines().map(|line| {
            let mut frame: Value = serde_json::from_str(line).expect("a line is an object");
            let fields = frame.as_object_mut().expect("an object");
            fields.remove("time_us");
            let variables = fields.get_mut("variables").and_then(Value::as_object_mut);
            if let Some(variables) = variables {
                variables.remove("trace_timestamp");
            }
            // QEMU does not have the flags of x86 while the guest runs.
            if let Some(unavailable) = fields.remove("unavailable_registers") {
                assert_eq!(unavailable, serde_json::json!(["eflags"]));
            }
            let values = fields.get_mut("register_values");
            if let Some(values) = values.and_then(Value::as_object_mut) {
                values.remove("eflags");
            }
            if let Some(registers) = fields.get_mut("registers").and_then(Value::as_object_mut) {
                registers.remove("eflags");
                // Devices request interrupts while the clock is stopped for the stub.
                if let Some(cause) = registers.get_mut("cause") {
                    *cause = Value::from(crate::number(cause) & !0x4000_ff00);
                }
            }
            frame
        });
        frames.collect()
    }
}

#[track_caller]
fn equals_stub(machine: BareMachine, script: &str, most: usize) {
    need!("clang", "ld.lld");
    let guest = Guest::new(machine);
    let script = guest.script(script);
    let out = guest.file("out.tf");
    good(&mut guest.tracepoints(&out, &["-x", &script]));
    let (inside, at_stub) = (guest.compared(&out), guest.frames_at_stub(&script));
    assert!(at_stub.len() > 10, "{}: {at_stub:#?}", machine.name);
    assert!(at_stub.len() <= most, "{}", machine.name);
    for (one, other) in inside.iter().zip(&at_stub) {
        assert_eq!(one, other, "{}", machine.name);
    }
    assert_eq!(inside.len(), at_stub.len(), "{}", machine.name);
}

#[test]
fn frames_are_those_at_the_stub() {
    for machine in BARE_MACHINES {
        equals_stub(machine, SCRIPT, usize::MAX);
    }
}

/// The newest frames of a circular buffer, in which most were overwritten.
#[test]
fn a_circular_buffer_keeps_the_newest_frames() {
    let script = "\
set circular-trace-buffer on
set trace-buffer-size 3000
trace work
actions
  collect n, total
end
passcount 500
";
    equals_stub(BareMachine::named("ppc"), script, 200);
}

#[test]
fn counts_are_those_at_the_stub() {
    need!("clang", "ld.lld");
    for name in ["riscv64", "mips"] {
        let guest = Guest::new(BareMachine::named(name));
        let script = guest.script(
            "trace work if n != 5\nactions\n collect count() by item->name, sum(n), hist(n) by item->id\nend\n\
             trace round_done\nactions\n collect round\nend\npasscount 20\n",
        );
        let out = guest.file("out.tf");
        good(&mut guest.tracepoints(&out, &["-x", &script]));
        let (inside, at_stub) = (guest.compared(&out), guest.frames_at_stub(&script));
        assert_eq!(inside, at_stub, "{name}");
        let counted = [&out, &guest.file("stub.tf")].map(|file| {
            let output = good(tracewire(&["show", "--aggregates"]).arg(file));
            String::from_utf8_lossy(&output.stdout).into_owned()
        });
        assert_eq!(counted[0], counted[1], "{name}");
        assert!(counted[0].contains("three"), "{}", counted[0]);
    }
}

#[test]
fn gdb_reads_the_frames() {
    need!("clang", "ld.lld", "gdb-multiarch");
    let guest = Guest::new(BareMachine::named("aarch64"));
    let out = guest.file("out.tf");
    let script =
        guest.script("trace work if n == 3\nactions\n collect n, total\nend\npasscount 3\n");
    good(&mut guest.tracepoints(&out, &["-x", &script]));
    let commands = format!(
        "target tfile {}\ntfind start\nwhile $trace_frame != -1\nprintf \"= %d %d\\n\", n, total\ntfind\nend\ntstatus\n",
        out.display()
    );
    let commands_file = guest.file("look.gdb");
    fs::write(&commands_file, commands).expect("the directory can be written");
    let said = Gdb::multiarch()
        .program(&guest.elf)
        .script(&commands_file)
        .run();
    let lines: Vec<_> = said
        .output
        .lines()
        .filter(|line| line.starts_with("= "))
        .collect();
    assert_eq!(lines, ["= 3 3", "= 3 48", "= 3 93"], "{}", said.output);
    assert!(said.output.contains("stopped by"), "{}", said.output);
}

/// The child of a process that it has started.
#[track_caller]
fn child_of(parent: &Child) -> i32 {
    let id = parent.id();
    let path = format!("/proc/{id}/task/{id}/children");
    loop {
        let children = fs::read_to_string(&path).expect("the process is there");
        if let Some(child) = children.split_whitespace().next() {
            return child.parse().expect("a number");
        }
        std::thread::yield_now();
    }
}

/// The frames before QEMU is killed are a valid trace file, under the requested name.
#[test]
fn a_killed_guest_leaves_the_frames_of_its_tracepoints() {
    need!("clang", "ld.lld");
    let guest = Guest::new(BareMachine::named("riscv64"));
    for round in 0..4 {
        let out = guest.file(&format!("killed-{round}.tf"));
        let growing = PathBuf::from(format!("{}{GROWING}", out.display()));
        let mut command =
            guest.tracepoints(&out, &["-t", "work if n != 5 : n, total, *item, $regs"]);
        let mut recorder = command.stderr(Stdio::null()).spawn().expect("it starts");
        // At some moment after the first frames.
        let least = 10 + chosen(3, round) % 3000;
        let has_frames = || {
            let file = TraceFile::open(&growing);
            file.is_ok_and(|file| file.frame_count() >= least)
        };
        while !has_frames() {
            assert!(
                recorder.try_wait().expect("it is there").is_none(),
                "QEMU runs"
            );
            std::thread::yield_now();
        }
        let qemu = nix::unistd::Pid::from_raw(child_of(&recorder));
        nix::sys::signal::kill(qemu, nix::sys::signal::SIGKILL).expect("QEMU is there");
        let status = recorder.wait().expect("it ends");
        assert!(status.success(), "{status}");
        assert!(!growing.exists());
        let file = TraceFile::open(&out).expect("a trace file");
        assert!(file.frame_count() >= least);
        drop(file);
        // A part of a frame at the end, where the kill came in the middle of one, is not in it.
        assert_clean(&out);
        let output = good(tracewire(&["show", "--json", "--frame", "0..3"]).arg(&out));
        assert!(!output.stdout.is_empty());
    }
}

/// The recorder is killed: QEMU ends in order, and finishes the file.
#[test]
fn a_killed_recorder_ends_the_guest_and_leaves_the_file() {
    need!("clang", "ld.lld");
    let guest = Guest::new(BareMachine::named("riscv64"));
    let out = guest.file("out.tf");
    let growing = PathBuf::from(format!("{}{GROWING}", out.display()));
    let mut command = guest.tracepoints(&out, &["-t", "round_done : round"]);
    let mut recorder = command.stderr(Stdio::null()).spawn().expect("it starts");
    while !TraceFile::open(&growing).is_ok_and(|file| file.frame_count() > 3) {
        std::thread::yield_now();
    }
    recorder.kill().expect("it is there");
    recorder.wait().expect("it ends");
    while !out.exists() {
        std::thread::yield_now();
    }
    assert_clean(&out);
}

/// The file is finished when the run ends, and the guest goes on.
#[test]
fn the_guest_goes_on_after_the_run() {
    need!("clang", "ld.lld");
    let guest = Guest::new(BareMachine::named("mipsel"));
    let out = guest.file("out.tf");
    let mut command = guest.tracepoints(
        &out,
        &[
            "--keep-running",
            "--buffer-size=8KiB",
            "-t",
            "work : n, $regs",
        ],
    );
    let mut recorder = command.stderr(Stdio::piped()).spawn().expect("it starts");
    while !out.exists() {
        assert!(recorder.try_wait().expect("it is there").is_none());
        std::thread::yield_now();
    }
    assert!(
        recorder.try_wait().expect("it is there").is_none(),
        "QEMU runs"
    );
    assert_clean(&out);
    let qemu = nix::unistd::Pid::from_raw(child_of(&recorder));
    nix::sys::signal::kill(qemu, nix::sys::signal::SIGTERM).expect("QEMU is there");
    let output = recorder.wait_with_output().expect("it ends");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("full"), "{errors}");
    assert!(output.status.success(), "{errors}");
}

/// Each cpu has separate calls in order, and separate steps.
#[test]
fn two_cpus_are_told_apart() {
    need!("clang", "ld.lld");
    let guest = Guest::new(TWO_CPUS);
    let out = guest.file("out.tf");
    // Until both cpus have made some of the frames, whichever has the processor.
    let script = guest.script(
        "tvariable $first = 0\n\
         trace work\nactions\n collect n\n while-stepping 2\n  collect $sp\n end\nend\n\
         trace round_done if $trace_cpu == 0\nactions\n teval $first = $first + 1\nend\n\
         trace round_done if $trace_cpu == 1 && $first > 4\nactions\n collect round\nend\npasscount 5\n",
    );
    let mut command = tracewire(&["qemu", "-x", &script, "-o"]);
    command
        .env("TRACEWIRE_QEMU_PLUGIN", qemu_plugin())
        .env("XDG_CACHE_HOME", guest.file("cache"))
        .arg(&out)
        .arg(format!("--elf={}", guest.elf.display()))
        .arg("--")
        .arg(guest.machine.qemu)
        .args(guest.machine.arguments(&guest.elf));
    good(&mut command);
    assert_clean(&out);
    let output = good(tracewire(&["show", "--json"]).arg(&out));
    let text = String::from_utf8(output.stdout).expect("JSON is UTF-8");
    let frames: Vec<Value> = (text.lines())
        .map(|line| serde_json::from_str(line).expect("a line is an object"))
        .collect();
    for cpu in 0..2 {
        let of_cpu = frames.iter().filter(|frame| frame["cpu"] == cpu);
        let of_work: Vec<_> = of_cpu.filter(|frame| frame["tracepoint"] == 1).collect();
        assert!(of_work.iter().all(|frame| frame["thread"] == cpu + 1));
        let hits = of_work.chunks(3).filter(|frames| frames.len() == 3);
        for (place, frames) in hits.enumerate() {
            let [hit, first, second] = frames else {
                panic!("three frames");
            };
            let n = &hit["values"][0]["value"];
            assert_eq!(n, &Value::from((place % 10).to_string()), "{hit}");
            assert_eq!(hit["stepping"], false, "{hit}");
            for (step, offset) in [(first, 4), (second, 8)] {
                assert_eq!(step["stepping"], true, "{step}");
                let from = crate::number(&hit["pc"]);
                assert_eq!(crate::number(&step["pc"]), from + offset, "{step}");
            }
        }
        assert!(of_work.len() > 30, "cpu {cpu}: {}", of_work.len());
    }
}

#[test]
fn scripts_that_cannot_run_in_qemu_are_refused() {
    need!("clang", "ld.lld");
    let guest = Guest::new(BareMachine::named("x86_64"));
    let out = guest.file("none.tf");
    let fails = |options: &[&str], message: &str| {
        let output = guest.tracepoints(&out, options).output();
        let output = output.expect("the program runs");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{options:?}: {errors}");
        assert!(errors.contains(message), "{options:?}: {errors}");
        assert!(!out.exists(), "{options:?}");
    };
    fails(&["-t", "nothing"], "nothing");
    fails(&["-t", "work if"], "if");
    fails(&["-t", "watch total"], "memory cannot be watched there");
    fails(&["-t", "work", "--limit=3"], "cannot be used with");
    fails(
        &["-t", "work if $eflags & 1 : n"],
        "its condition reads $eflags, which QEMU does not have while the guest runs",
    );
    fails(&["-x", "/nowhere/script"], "/nowhere/script");
    let without = tracewire(&["qemu", "-t", "work", "--", "qemu-system-arm"]).output();
    let without = without.expect("the program runs");
    assert_eq!(without.status.code(), Some(2));
    // Another machine than the program's.
    let mut other = tracewire(&["qemu", "-t", "work", "-o"]);
    other
        .env("TRACEWIRE_QEMU_PLUGIN", qemu_plugin())
        .arg(&out)
        .arg(format!("--elf={}", guest.elf.display()))
        .args([
            "--",
            "qemu-system-riscv64",
            "-M",
            "none",
            "-display",
            "none",
        ]);
    let output = other.output().expect("the program runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    let words = "the program of the tracepoints is for x86_64, and this QEMU is for riscv64";
    assert!(errors.contains(words), "{errors}");
    assert!(!out.exists());
}

//! `proxy`: stock GDB with tracepoints in front of stubs that have none.

use std::io::Write;
use std::path::Path;

use tracewire_test_support::{BARE_MACHINES, BareMachine, Cc, Gdb, Said, assert_clean, need};

use crate::support::{Listening, gdbserver, linux_program, shown, tracewire, value};
use crate::wire::{Client, address};

#[track_caller]
pub fn proxy(upstream: &str, more: &[&str]) -> Listening {
    let arguments = [&["proxy", ":0", "--upstream", upstream], more].concat();
    Listening::new(&mut tracewire(&arguments))
}

/// gdbserver with a program, and a proxy in front of it. gdbserver supports tracepoints itself: the proxy hides them.
fn before_gdbserver(program: &Path) -> (Listening, Listening) {
    let stub = gdbserver(program);
    let proxy = proxy(&stub.address(), &["--hide-tracepoints"]);
    (stub, proxy)
}

/// The lines that a script prints for comparison.
pub fn compared(said: &Said) -> Vec<String> {
    let lines = said.output.lines().filter(|line| line.starts_with("= "));
    lines.map(str::to_owned).collect()
}

/// Prints the contents of the frames, from the first one on.
const PRINT_FRAMES: &str = "\
tfind start
while $trace_frame != -1
  if $tracepoint == 1
    printf \"= work %d %d %d %s\\n\", n, total, item->id, item->name
  else
    printf \"= done %lx %d\\n\", $pc, $seen
  end
  tfind
end
";

/// A run that goes on without a debugger, and ends by its pass count. Its buffer keeps the newest frames. The program is in round 6.
const GOES_ON: &str = "\
delete
set circular-trace-buffer on
set trace-buffer-size 1500
set disconnected-tracing on
trace round_done
actions
  collect round, total
  collect/s items[0].name
end
passcount 40
tstart
tbreak round_done if round == 12
continue
disconnect
target remote ADDRESS
printf \"= still %d\\n\", round
tstatus
detach
target remote ADDRESS
tbreak hundred_done
continue
tstatus
tfind start
while $trace_frame != -1
  printf \"= newest %d %d %s\\n\", round, total, items[0].name
  tfind
end
tfind none
tsave FOLDER/newest-pulled.tf
tsave -r newest-written.tf
";

/// The same by breakpoints.
const GOES_ON_BY_BREAKPOINTS: &str = "\
break round_done
while round < 46
  if round > 6
    printf \"= newest %d %d %s\\n\", round, total, items[0].name
  end
  continue
end
printf \"= newest %d %d %s\\n\", round, total, items[0].name
";

/// Tracepoints with a condition, a string, a variable, steps and a pass count, in a run that is saved in both ways. Then `more`.
pub fn traced(elf: &Path, address: &str, folder: &Path, more: &str) -> Said {
    let text = format!(
        "target remote {address}\n\
         tvariable $seen\n\
         trace work if n % 3 == 1\n\
         actions\n  collect n, total, *item\n  collect/s item->name\n  teval $seen = $seen + 1\nend\n\
         trace round_done\n\
         actions\n  collect $regs, $seen\n  while-stepping 2\n    collect $regs, $seen\n  end\nend\n\
         passcount 3 2\n\
         tstart\n\
         tbreak round_done if round == 6\n\
         continue\n\
         tstatus\n\
         {PRINT_FRAMES}\
         tfind none\n\
         tsave {folder}/pulled.tf\n\
         tsave -r written.tf\n\
         {more}",
        more = more
            .replace("ADDRESS", address)
            .replace("FOLDER", &folder.display().to_string()),
        folder = folder.display(),
    );
    scripted(elf, folder, &text)
}

/// The same by breakpoints, in a script of its own.
pub fn stopped(elf: &Path, socket: &Path, folder: &Path, more: &str) -> Said {
    let text = "\
break work
continue
set $work = $pc
break round_done
set $rounds = 0
set $passed = 0
while $rounds < 3
  if $pc == $work
    if n % 3 == 1
      printf \"= work %d %d %d %s\\n\", n, total, item->id, item->name
      set $passed = $passed + 1
    end
  else
    printf \"= done %lx %d\\n\", $pc, $passed
    stepi
    printf \"= done %lx %d\\n\", $pc, $passed
    stepi
    printf \"= done %lx %d\\n\", $pc, $passed
    set $rounds = $rounds + 1
  end
  continue
end
delete
tbreak round_done
continue
";
    scripted(
        elf,
        folder,
        &format!("target remote {}\n{text}{more}", socket.display()),
    )
}

#[test]
fn frames_of_every_machine_are_what_plain_breakpoints_read() {
    need!("clang", "ld.lld", "gdb-multiarch");
    for machine in BARE_MACHINES {
        need!(machine.qemu);
        let folder = tempfile::tempdir().expect("a directory");
        let elf = machine.build(folder.path());
        let traced = {
            let qemu = machine.start(&elf, folder.path());
            let upstream = format!("unix:{}", qemu.socket.display());
            let files = folder.path().to_str().expect("UTF-8");
            let mut arguments = vec!["--files", files];
            // QEMU does not describe the registers of MIPS.
            if machine.name.starts_with("mips") {
                arguments.extend(["--architecture", machine.name]);
            }
            let proxy = proxy(&upstream, &arguments);
            traced(&elf, &proxy.address(), folder.path(), GOES_ON)
        };
        let stopped = {
            let qemu = machine.start(&elf, folder.path());
            let more = GOES_ON_BY_BREAKPOINTS;
            stopped(&elf, &qemu.socket, folder.path(), more)
        };
        let (mut frames, mut expected) = (compared(&traced), compared(&stopped));
        let newest = frames.split_off(frames.len().min(9 + 9));
        let all_rounds = expected.split_off(expected.len().min(9 + 9));
        let all = format!("{}\n{}\n{}", machine.name, traced.all(), stopped.all());
        assert_eq!(expected.len(), 9 + 9, "{all}");
        assert_eq!(frames, expected, "{all}");
        let stopped_by = traced.output.contains("Trace stopped by tracepoint 2");
        assert!(stopped_by, "{all}");
        // The second run went on without a debugger, to its fortieth pass. The first of its frames made room for the last ones.
        assert_eq!(all_rounds.len(), 40, "{all}");
        assert_eq!(
            newest.first().map(String::as_str),
            Some("= still 12"),
            "{all}"
        );
        let newest = newest.get(1..).unwrap_or_default();
        assert!((5..40).contains(&newest.len()), "{all}");
        assert!(all_rounds.ends_with(newest), "{all}");
        let ended = traced
            .output
            .matches("Trace is running on the target")
            .count();
        assert_eq!(ended, 1, "{all}");
        // Both files have the same frames.
        assert_clean(&folder.path().join("newest-written.tf"));
        for name in ["newest-pulled.tf", "newest-written.tf"] {
            let file = folder.path().join(name);
            let frames = shown(&file, Some(&elf));
            assert_eq!(frames.len(), newest.len(), "{name}: {all}");
        }
        let written = folder.path().join("written.tf");
        assert_clean(&written);
        for file in [written, folder.path().join("pulled.tf")] {
            let frames = shown(&file, Some(&elf));
            let totals = frames.iter().filter_map(|frame| value(frame, "total"));
            assert_eq!(
                (frames.len(), totals.count()),
                (18, 9),
                "{}",
                file.display()
            );
        }
    }
}

/// GDB with a script.
#[track_caller]
pub fn scripted(program: &Path, folder: &Path, text: &str) -> Said {
    let script = folder.join("script.gdb");
    std::fs::write(&script, text).expect("the directory can be written");
    Gdb::multiarch().program(program).script(&script).run()
}

#[test]
fn a_run_goes_on_without_a_client_and_keeps_the_newest_frames() {
    need!("clang", "ld.lld", "gdb-multiarch", "qemu-system-riscv64");
    let machine = BareMachine::named("riscv64");
    let folder = tempfile::tempdir().expect("a directory");
    let elf = machine.build(folder.path());
    let qemu = machine.start(&elf, folder.path());
    let proxy = proxy(&format!("unix:{}", qemu.socket.display()), &[]);
    let connect = format!("target remote {}\n", proxy.address());
    let first = "\
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
detach
";
    let first = scripted(&elf, folder.path(), &format!("{connect}{first}"));
    assert_eq!(compared(&first), ["= at 100"], "{}", first.all());
    // GDB may come back before the guest has executed anything.
    let until_it_went_on = format!("while rounds <= 150\n  detach\n  {connect}end\n");
    let second = "\
tstatus
tstop
tstatus
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
";
    let second = format!("{connect}{until_it_went_on}{second}");
    let second = scripted(&elf, folder.path(), &second);
    let all = second.all();
    for words in [
        "Trace is running on the target.",
        "Trace will continue if GDB disconnects.",
        "Trace buffer is circular.",
        "Trace stopped by a tstop command",
    ] {
        assert!(all.contains(words), "{words}: {all}");
    }
    // It went on between the two, without a gap.
    assert_eq!(compared(&second), ["= gaps 0", "= later 1"], "{all}");
}

#[test]
fn breakpoints_and_steps_of_the_user_keep_their_meaning_at_a_tracepoint() {
    need!("cc", "gdb-multiarch", "gdbserver");
    let folder = tempfile::tempdir().expect("a directory");
    let program = linux_program(folder.path());
    let (_stub, proxy) = before_gdbserver(&program);
    let text = format!(
        "target remote {}\n{}",
        proxy.address(),
        "\
break main
continue
trace work
actions
  collect n, calls
end
tstart
break work if n == 105
continue
printf \"= stopped at %d of %d\\n\", n, calls
stepi
stepi
printf \"= in work %d\\n\", n
next
finish
printf \"= pending %d\\n\", calls
break finish
continue
printf \"= calls %d\\n\", calls
tstop
tstatus
tfind start
set $frames = 0
set $order = 0
while $trace_frame != -1
  set $order = $order + (calls == $frames)
  set $frames = $frames + 1
  tfind
end
printf \"= frames %d, in order %d\\n\", $frames, $order
tfind none
delete
continue
"
    );
    let said = scripted(&program, folder.path(), &text);
    let all = said.all();
    let lines = compared(&said);
    let line = |start: &str| lines.iter().find(|line| line.starts_with(start));
    assert!(line("= stopped at 105 of ").is_some(), "{all}");
    assert!(line("= in work 105").is_some(), "{all}");
    assert!(line("= calls 60").is_some(), "{all}");
    // Each call is collected once, and that at which the user has stopped, too.
    assert!(line("= frames 60, in order 60").is_some(), "{all}");
    assert!(all.contains("exited with code 03"), "{all}");
}

/// GDB lets the child of a fork go, and stays with its parent.
#[test]
fn a_fork_is_not_the_end_of_a_session() {
    need!("cc", "gdb-multiarch", "gdbserver");
    let folder = tempfile::tempdir().expect("a directory");
    let text = "\
#include <sys/wait.h>
#include <unistd.h>
int total;
__attribute__((noinline)) void work(int n) { total += n; }
__attribute__((noinline)) void finish(void) { total = 0; }
int main(void) {
    for (int n = 1; n <= 3; n++) {
        int child = fork();
        if (child == 0) _exit(0);
        waitpid(child, 0, 0);
        work(n);
    }
    finish();
}
";
    let cc = Cc::new().options(&["-g", "-O0"]).text(text);
    let program = cc.build(folder.path(), "forks");
    let (_stub, proxy) = before_gdbserver(&program);
    let text = format!(
        "target remote {}\n{}",
        proxy.address(),
        "\
break main
continue
trace work
actions
  collect n, total
end
tstart
break finish
continue
tstop
tfind start
while $trace_frame != -1
  printf \"= %d of %d\\n\", n, total
  tfind
end
tfind none
printf \"= total %d\\n\", total
"
    );
    let said = scripted(&program, folder.path(), &text);
    let expected = ["= 1 of 0", "= 2 of 1", "= 3 of 3", "= total 6"];
    assert_eq!(compared(&said), expected, "{}", said.all());
    let forks = said.all().matches("Detaching after fork").count();
    assert_eq!(forks, 3, "{}", said.all());
}

#[test]
fn an_interrupt_stops_a_program_that_hits_all_the_time() {
    need!("clang", "ld.lld", "qemu-system-riscv64");
    let machine = BareMachine::named("riscv64");
    let folder = tempfile::tempdir().expect("a directory");
    let elf = machine.build(folder.path());
    let qemu = machine.start(&elf, folder.path());
    let proxy = proxy(&format!("unix:{}", qemu.socket.display()), &[]);
    let mut client = Client::connect_to(proxy.port);
    let work = address(&elf, "work");
    for (request, expected) in [
        (
            "qSupported:multiprocess+;swbreak+".to_owned(),
            "PacketSize=",
        ),
        ("QTinit".to_owned(), "OK"),
        (format!("QTDP:1:{work:x}:E:0:0"), "OK"),
        ("QTStart".to_owned(), "OK"),
    ] {
        client.send(request.as_bytes()).expect("the proxy is there");
        let answer = client.reply().expect("an answer");
        assert!(answer.contains(expected), "{request}: {answer}");
    }
    for round in 0..5 {
        client.send(b"vCont;c").expect("the proxy is there");
        client.0.write_all(&[3]).expect("the proxy is there");
        let stop = client.reply().expect("a stop");
        assert!(stop.starts_with("T02"), "{round}: {stop}");
        client.send(b"qTStatus").expect("the proxy is there");
        let status = client.reply().expect("a status");
        assert!(status.starts_with("T1;"), "{round}: {status}");
    }
}

#[test]
fn a_stub_with_tracepoints_keeps_its_own() {
    need!("cc", "gdb", "gdbserver");
    let folder = tempfile::tempdir().expect("a directory");
    let program = linux_program(folder.path());
    let stub = gdbserver(&program);
    let proxy = proxy(&stub.address(), &[]);
    let mut client = Client::connect_to(proxy.port);
    client
        .send(b"qSupported:multiprocess+")
        .expect("the proxy is there");
    let features = client.reply().expect("an answer");
    // gdbserver's own feature: the proxy has no static tracepoints.
    assert!(features.contains("StaticTracepoints+"), "{features}");
    assert!(features.contains("ConditionalBreakpoints+"), "{features}");
}

/// gdbserver cannot save a trace: the proxy does.
#[test]
fn the_trace_of_a_stub_with_tracepoints_is_saved() {
    need!("cc", "gdb", "gdbserver");
    let folder = tempfile::tempdir().expect("a directory");
    let program = linux_program(folder.path());
    let files = folder.path().join("files");
    std::fs::create_dir(&files).expect("a directory");
    for has_folder in [false, true] {
        let stub = gdbserver(&program);
        let option = format!("--files={}", files.display());
        let options = [option.as_str()];
        let proxy = proxy(&stub.address(), &options[..usize::from(has_folder)]);
        let script = format!(
            "target remote {}\n\
             break main\ncontinue\ntvariable $seen\n\
             trace work if n == 3\nactions\ncollect n, total, $regs\nteval $seen = $seen + 1\nend\n\
             tstart\nbreak finish\ncontinue\ntstop\ntsave -r run.tf\nkill\n",
            proxy.address()
        );
        let said = scripted(&program, folder.path(), &script);
        let saved = files.join("run.tf");
        assert_eq!(saved.exists(), has_folder, "{}{}", said.output, said.errors);
        if !has_folder {
            assert!(
                said.errors.contains("--files"),
                "{}{}",
                said.output,
                said.errors
            );
            continue;
        }
        assert_clean(&saved);
        let show = "tfind start\nwhile $trace_frame != -1\nprintf \"= %d %d\\n\", $rdi, $seen\ntfind\nend\n";
        let script = format!("target tfile {}\n{show}", saved.display());
        let said = scripted(&program, folder.path(), &script);
        let frames = compared(&said);
        assert!(!frames.is_empty(), "{}{}", said.output, said.errors);
        for frame in &frames {
            assert!(frame.starts_with("= 3 "), "{frame}");
        }
    }
}

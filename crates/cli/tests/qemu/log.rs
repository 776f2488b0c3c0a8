//! QEMU's own log, read as an execution trace, against QEMU's stub.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use tracewire_test_support::BareMachine;

use crate::{Guest, INSTRUCTIONS, good, number, same_as_stub, tracewire};

/// QEMU's log of so many instructions from the program's first.
#[track_caller]
fn log(guest: &Guest, items: &str, count: usize) -> PathBuf {
    let path = guest.file("qemu.log");
    let mut file = BufWriter::new(File::create(&path).expect("the directory can be written"));
    let words = guest.qemu();
    let mut child = Command::new(&words[0])
        .args(&words[1..])
        .args(["-accel", "tcg,one-insn-per-tb=on", "-d", items, "-dfilter"])
        // Not the machine's own program, which runs first.
        .arg(format!("{:#x}+0x10000", guest.address("_start") & !0xffff))
        .args(["-D", "/dev/stdout"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("QEMU starts");
    let mut executed = 0;
    let output = BufReader::new(child.stdout.take().expect("a pipe"));
    let first = format!("/{:016x}/", guest.address("_start"));
    // The block before the first instruction that is meant.
    let mut block = String::new();
    for line in output.lines() {
        let line = line.expect("QEMU's log is text");
        if executed == 0 && line.starts_with("----") {
            block.clear();
        }
        block.push_str(&line);
        block.push('\n');
        let is_executed = line.starts_with("Trace ");
        executed += usize::from(is_executed && (executed > 0 || line.contains(&first)));
        if executed > count {
            break;
        }
        if executed > 0 {
            file.write_all(block.as_bytes())
                .expect("the file can be written");
            block.clear();
        }
    }
    drop(file);
    child.kill().expect("QEMU runs until it is ended");
    child.wait().expect("QEMU ends");
    assert!(executed > count, "{executed}");
    path
}

/// The registers before an instruction are those that the stub has there; those that the log does not show are unavailable.
#[track_caller]
fn equals_stub(name: &str, shown_by_qemu: &[&str]) {
    let guest = Guest::new(BareMachine::named(name));
    let log = log(&guest, "in_asm,exec,cpu,nochain", INSTRUCTIONS);
    let states = guest.states(&log);
    for state in [&states[1], &states[INSTRUCTIONS - 1]] {
        for name in shown_by_qemu {
            assert!(!state["registers"][name].is_null(), "{name}: {state}");
        }
    }
    let lacks = |name: &str| !shown_by_qemu.contains(&name);
    let compared = same_as_stub(&guest, &states, 4, lacks);
    assert!(compared > 450 * shown_by_qemu.len() as u64, "{compared}");
}

fn numbered(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|at| format!("{prefix}{at}")).collect()
}

#[track_caller]
fn equals_stub_with(name: &str, numbers: &[String], others: &[&str]) {
    let mut all: Vec<&str> = numbers.iter().map(String::as_str).collect();
    all.extend(others);
    equals_stub(name, &all);
}

#[test]
fn the_log_of_arm_has_the_state_of_the_stub() {
    equals_stub_with("arm", &numbered("r", 13), &["sp", "lr", "pc", "cpsr"]);
}

#[test]
fn the_log_of_aarch64_has_the_state_of_the_stub() {
    equals_stub_with("aarch64", &numbered("x", 31), &["sp", "pc", "cpsr"]);
}

#[test]
fn the_log_of_riscv64_has_the_state_of_the_stub() {
    let names = "zero ra sp gp tp t0 t1 t2 fp s1 a0 a1 a2 a3 a4 a5 a6 a7 s2 s3 s4 s5 s6 s7 s8 s9 s10 s11 t3 t4 t5 t6 pc";
    equals_stub("riscv64", &names.split(' ').collect::<Vec<_>>());
}

#[test]
fn the_log_of_x86_64_has_the_state_of_the_stub() {
    let names = "rax rbx rcx rdx rsi rdi rbp rsp r8 r9 r10 r11 r12 r13 r14 r15 rip eflags cs ss ds es fs gs";
    equals_stub("x86_64", &names.split_whitespace().collect::<Vec<_>>());
}

#[test]
fn the_log_of_mips_has_the_state_of_the_stub() {
    equals_stub_with("mips", &numbered("r", 32), &["pc", "hi", "lo", "status"]);
}

#[test]
fn the_log_of_ppc_has_the_state_of_the_stub() {
    equals_stub_with(
        "ppc",
        &numbered("r", 32),
        &["pc", "lr", "ctr", "cr", "xer", "msr"],
    );
}

/// The plugin records more than the log has: the same instructions, the same registers after each.
#[test]
fn the_log_says_what_the_plugin_records() {
    let guest = Guest::new(BareMachine::named("aarch64"));
    let log = log(&guest, "in_asm,exec,cpu,nochain", INSTRUCTIONS);
    let limit = format!("--limit={INSTRUCTIONS}");
    let recorded = guest.record("trace", &["--start=_start", &limit]);
    let [of_log, of_plugin] = [log, recorded].map(|trace| {
        let all = guest.shown(&trace, &["--instruction=0.."]);
        let all = all.iter().map(|one| {
            let registers = (one["registers"].as_object().expect("registers").iter())
                .filter(|(name, _)| name.starts_with('x') || *name == "sp")
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect::<Vec<_>>();
            (number(&one["pc"]), one["opcode"].clone(), registers)
        });
        all.collect::<Vec<_>>()
    });
    assert_eq!(of_log, of_plugin);
}

/// Without registers, and without code, only the program's addresses are left.
#[test]
fn a_log_without_registers_has_none() {
    let guest = Guest::new(BareMachine::named("riscv64"));
    for items in ["in_asm,exec,nochain", "exec,nochain"] {
        let log = log(&guest, items, 100);
        let shown = guest.shown(&log, &["--instruction=0.."]);
        assert_eq!(shown.len(), 100);
        for one in &shown {
            let known = (one["registers"].as_object().expect("registers").iter())
                .filter(|(name, value)| *name != "pc" && !value.is_null());
            assert_eq!(known.count(), 0, "{one}");
            assert_eq!(one["opcode"].is_null(), items == "exec,nochain", "{one}");
        }
    }
}

/// Blocks of several instructions do not say how many of them were executed.
#[test]
fn a_log_of_whole_blocks_is_refused_and_says_what_to_run() {
    let guest = Guest::new(BareMachine::named("arm"));
    let path = guest.file("blocks.log");
    let text = "----------------\nIN: \n0x402000fc:  e59fd000  ldr      sp, [pc]\n0x40200100:  ebffffdb  bl       #0x40200074\n\n\
                Trace 0: 0x7f4278000100 [00000400/00000000402000fc/00000520/ff020201] \n";
    std::fs::write(&path, text).expect("the directory can be written");
    let output = tracewire(&["info"])
        .arg(&path)
        .output()
        .expect("the program runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success()
            && errors.contains("-accel tcg,one-insn-per-tb=on -d in_asm,exec,cpu,nochain"),
        "{errors}"
    );
    // The result is the same from a pipe, compressed, and through the compact form.
    let log = log(&guest, "in_asm,exec,cpu,nochain", 50);
    let plain = guest.shown(&log, &["--instruction=0.."]);
    good(Command::new("zstd").arg("-q").arg(&log));
    assert_eq!(
        guest.shown(&guest.file("qemu.log.zst"), &["--instruction=0.."]),
        plain
    );
    let compact = guest.file("qemu.twx");
    good(tracewire(&["convert"]).arg(&log).arg(&compact));
    assert_eq!(guest.shown(&compact, &["--instruction=0.."]), plain);
}

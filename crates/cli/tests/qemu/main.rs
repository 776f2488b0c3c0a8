//! `tracewire qemu`: the plugin's records, compared with QEMU's own stub and log.

mod collected;
mod debugger;
mod log;
mod stub;
mod tracepoints;

use std::collections::HashMap;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;
use tracewire_arch::{Architecture, Machine};
use tracewire_model::ByteOrder;
use tracewire_test_support::{BARE_MACHINES, BareMachine, qemu_plugin, tool};

use stub::Stub;

// Cargo builds the plugin, which QEMU loads, because these tests name it.
use tracewire_qemu_plugin as _;

/// A machine with its program.
struct Guest {
    machine: BareMachine,
    directory: TempDir,
    elf: PathBuf,
    symbols: HashMap<String, u64>,
}

impl Guest {
    #[track_caller]
    fn new(machine: BareMachine) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let elf = machine.build(directory.path());
        let listing = tool("nm").arg(&elf).output().expect("nm runs");
        let listing = String::from_utf8_lossy(&listing.stdout).into_owned();
        let symbols = listing.lines().filter_map(|line| {
            let words: Vec<_> = line.split(' ').collect();
            let address = u64::from_str_radix(words.first()?, 16).ok()?;
            Some(((*words.get(2)?).to_owned(), address))
        });
        Self {
            machine,
            elf,
            symbols: symbols.collect(),
            directory,
        }
    }

    fn architecture(&self) -> Architecture {
        self.machine.name.parse().expect("a machine's name")
    }

    #[track_caller]
    fn address(&self, name: &str) -> u64 {
        self.symbols[name]
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Time goes with the instructions, so that each run is the same.
    fn qemu(&self) -> Vec<String> {
        let mut words = vec![self.machine.qemu.to_owned()];
        words.extend(self.machine.arguments(&self.elf));
        words.extend(["-icount", "shift=0"].map(str::to_owned));
        words
    }

    /// `tracewire qemu` with options.
    fn command(&self, out: &Path, options: &[&str]) -> Command {
        let mut command = tracewire(&["qemu"]);
        command
            .env("TRACEWIRE_QEMU_PLUGIN", qemu_plugin())
            .arg("-o")
            .arg(out)
            .arg(format!("--elf={}", self.elf.display()))
            .args(options)
            .arg("--")
            .args(self.qemu());
        command
    }

    #[track_caller]
    fn record(&self, out: &str, options: &[&str]) -> PathBuf {
        let out = self.file(out);
        good(&mut self.command(&out, options));
        out
    }

    /// The objects of `show --json`.
    #[track_caller]
    fn shown(&self, trace: &Path, options: &[&str]) -> Vec<serde_json::Value> {
        let mut command = tracewire(&["show", "--json", "--architecture", self.machine.name]);
        let output = good(command.args(options).arg(trace));
        let text = String::from_utf8(output.stdout).expect("JSON is UTF-8");
        text.lines()
            .map(|line| serde_json::from_str(line).expect("a line is an object"))
            .collect()
    }
}

impl Guest {
    /// Memory that the program writes.
    fn regions(&self) -> [(u64, u64); 3] {
        [
            (self.address("items"), 24),
            (self.address("total"), 4),
            (self.address("stack") + 4096 - 256, 256),
        ]
    }

    /// All states of a trace, with the regions.
    #[track_caller]
    fn states(&self, trace: &Path) -> Vec<serde_json::Value> {
        let memory = self.regions();
        let memory = memory.map(|(address, length)| format!("--memory={address:#x},{length}"));
        let mut options = vec!["--instruction=0.."];
        options.extend(memory.iter().map(String::as_str));
        self.shown(trace, &options)
    }
}

fn tracewire(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tracewire"));
    command.args(arguments).stdin(Stdio::null());
    command
}

#[track_caller]
fn good(command: &mut Command) -> Output {
    let output = command.output().expect("the program runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    output
}

fn number(value: &serde_json::Value) -> u64 {
    let text = value.as_str().expect("a hex number");
    u64::from_str_radix(text.trim_start_matches("0x"), 16).expect("a hex number")
}

/// Numbers that have no pattern, the same in each run.
fn chosen(seed: u64, number: usize) -> u64 {
    let mixed = (seed << 32 ^ number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 29
}

const INSTRUCTIONS: usize = 2000;

/// A number that `cargo xtask torture qemu` sets, or the one of the suite.
fn chosen_by(variable: &str, usual: u64) -> u64 {
    std::env::var(variable).map_or(usual, |text| text.parse().expect("a number"))
}

/// The registers and the memory before an instruction are those that the stub has when it is there.
#[track_caller]
fn equals_stub(machine: BareMachine) {
    let guest = Guest::new(machine);
    let trace = guest.record(
        "trace",
        &["--start=_start", &format!("--limit={INSTRUCTIONS}")],
    );
    let shown = guest.states(&trace);
    // A plugin cannot read the flags of x86.
    assert!(shown.iter().all(|one| one["registers"]["eflags"].is_null()));
    let lacks = |name: &str| name == "eflags";
    let every = chosen_by("TRACEWIRE_QEMU_EVERY", 12);
    let compared = same_as_stub(&guest, &shown, every, lacks);
    assert!(compared > 1000, "{compared} registers");
}

/// Compares states with those of the stub at one of `every` instants. Returns how many registers were compared. Registers in
/// `may_lack` are skipped if they are unavailable.
#[track_caller]
fn same_as_stub(
    guest: &Guest,
    shown: &[serde_json::Value],
    every: u64,
    may_lack: impl Fn(&str) -> bool,
) -> u64 {
    let machine = guest.machine;
    assert_eq!(shown.len(), INSTRUCTIONS);
    let start = guest.address("_start");
    let qemu = machine.start(&guest.elf, guest.directory.path());
    let mut stub = Stub::connect(&qemu.socket);
    stub.run_to(start);
    let machine_registers = Machine::of(guest.architecture()).layout();
    let mut registers = stub.registers();
    if registers.is_empty() {
        let all = machine_registers.registers().iter();
        registers = all.map(|one| (one.name.clone(), one.number.0)).collect();
    }
    registers.retain(|(name, _)| machine_registers.by_name(name).is_some());
    let order = guest.architecture().byte_order();
    let counter = &machine_registers
        .program_counter()
        .expect("a program counter")
        .name;
    let counter = registers.iter().find(|(name, _)| name == counter);
    let counter = counter.expect("the stub has it").1;
    let mut compared = 0;
    for (at, before) in shown.iter().enumerate() {
        if at == 0 || chosen(start, at).is_multiple_of(every) {
            for (name, number) in &registers {
                let Some(mut bytes) = stub.register(*number) else {
                    continue;
                };
                let shown = &before["registers"][name.as_str()];
                if shown.is_null() && may_lack(name) {
                    continue;
                }
                if order == ByteOrder::Little {
                    bytes.reverse();
                }
                // Devices request interrupts while the clock is stopped for the stub.
                let masked = match name.as_str() {
                    "cause" => !0x4000_ff00,
                    _ => u128::MAX,
                };
                let value = (bytes.iter()).fold(0, |value, byte| value << 8 | u128::from(*byte));
                let text = shown.as_str().unwrap_or_default().trim_start_matches("0x");
                let recorded = u128::from_str_radix(text, 16).unwrap_or_else(|_| {
                    panic!("{}: {name} before instruction {at}: {before}", machine.name)
                });
                assert_eq!(
                    recorded & masked,
                    value & masked,
                    "{}: {name} before instruction {at}: {before}",
                    machine.name
                );
                compared += 1;
            }
            for ((address, length), part) in
                (guest.regions().iter()).zip(before["memory"].as_array().expect("memory"))
            {
                let expected = stub.memory(*address, *length);
                let shown = part["bytes"].as_str().expect("bytes");
                for (place, byte) in expected.iter().enumerate() {
                    let digits = &shown[2 * place..2 * place + 2];
                    // Before the first access the byte is not in the trace.
                    assert!(
                        digits == "??" || digits == format!("{byte:02x}"),
                        "{}: memory {:#x} before instruction {at}: {digits} and {byte:02x}",
                        machine.name,
                        address + place as u64
                    );
                }
            }
        }
        stub.step(counter);
    }
    compared
}

#[test]
fn the_state_of_arm_is_that_of_the_stub() {
    equals_stub(BareMachine::named("arm"));
}

#[test]
fn the_state_of_aarch64_is_that_of_the_stub() {
    equals_stub(BareMachine::named("aarch64"));
}

#[test]
fn the_state_of_riscv64_is_that_of_the_stub() {
    equals_stub(BareMachine::named("riscv64"));
}

#[test]
fn the_state_of_x86_64_is_that_of_the_stub() {
    equals_stub(BareMachine::named("x86_64"));
}

#[test]
fn the_state_of_mips_is_that_of_the_stub() {
    equals_stub(BareMachine::named("mips"));
}

#[test]
fn the_state_of_mipsel_is_that_of_the_stub() {
    equals_stub(BareMachine::named("mipsel"));
}

#[test]
fn the_state_of_ppc_is_that_of_the_stub() {
    equals_stub(BareMachine::named("ppc"));
}

/// QEMU's log has each block; with an instruction in each, that is each instruction.
#[test]
fn no_instruction_is_missing() {
    for machine in BARE_MACHINES {
        let guest = Guest::new(machine);
        let count = 1500;
        let limit = format!("--limit={count}");
        let trace = guest.record("trace", &["--start=_start", &limit]);
        let shown = guest.shown(&trace, &["--instruction=0.."]);
        let recorded: Vec<u64> = shown.iter().map(|one| number(&one["pc"])).collect();
        assert_eq!(recorded.len(), count);

        let log = guest.file("log");
        let mut command = Command::new(&guest.qemu()[0]);
        command
            .args(&guest.qemu()[1..])
            // Not the machine's own program, which runs first.
            .arg("-dfilter")
            .arg(format!("{:#x}+0x10000", guest.address("_start") & !0xffff))
            .args([
                "-accel",
                "tcg,one-insn-per-tb=on",
                "-d",
                "exec,nochain",
                "-D",
            ])
            .arg(&log)
            .arg("-plugin")
            .arg(format!(
                "{},out={},limit={count},start={:#x}",
                qemu_plugin().display(),
                guest.file("second").display(),
                guest.address("_start")
            ));
        good(&mut command);
        let log = std::fs::read_to_string(&log).expect("QEMU's log");
        // Trace 0: 0x7f8f04000200 [00000000/40200000/00000001/00000201] name
        let executed: Vec<u64> = (log.lines())
            .filter(|line| line.starts_with("Trace "))
            .filter_map(|line| line.split('/').nth(1))
            .filter_map(|address| u64::from_str_radix(address, 16).ok())
            .skip_while(|address| *address != guest.address("_start"))
            .take(count)
            .collect();
        assert_eq!(recorded, executed, "{}", machine.name);
    }
}

/// A run that compares all registers after each instruction has the same result as one that compares those in the instructions'
/// codes: also in the machines' own programs, with other modes and sizes of operands.
#[test]
fn the_registers_that_codes_name_are_all_that_change() {
    for machine in BARE_MACHINES {
        let guest = Guest::new(machine);
        codes_name_all_that_change(&guest, &guest.qemu());
    }
}

/// The same with exceptions that stay in the mode, two instruction sets, and state that indirect branches leave.
#[test]
fn exceptions_and_modes_change_no_other_registers() {
    for (name, options, cpu, counted_by_the_handler, code, program) in [
        (
            "arm",
            "-march=armv7-a",
            "cortex-a15",
            " R r3 ",
            " f24040d2 T svc : movw r0, #0x4d2",
            include_str!("programs/modes-arm.c"),
        ),
        (
            "aarch64",
            "-march=armv8.5-a",
            "max",
            " R x14 ",
            " d4000001 A svc : svc #0",
            include_str!("programs/modes-aarch64.c"),
        ),
    ] {
        let mut guest = Guest::new(BareMachine::named(name));
        let sources = [("modes", program), ("stack", "char stack[4096];")];
        guest.elf = (guest.machine).build_of(guest.directory.path(), &sources, &[options]);
        let qemu = [guest.qemu(), vec!["-cpu".to_owned(), cpu.to_owned()]].concat();
        let lines = codes_name_all_that_change(&guest, &qemu);
        for line in [counted_by_the_handler, " R cpsr ", code] {
            assert_many(&lines, line);
        }
    }
}

/// The M profile has no register with the mode, and executes Thumb only.
#[test]
fn exceptions_of_the_m_profile_change_no_other_registers() {
    let guest = Guest::new(BareMachine::named("arm"));
    std::fs::write(guest.file("m.S"), include_str!("programs/modes-cortex-m.S")).expect("written");
    for (program, arguments) in [
        ("clang", "--target=thumbv7m-none-eabi -c m.S -o m.o"),
        ("ld.lld", "-Ttext=0 -e start m.o -o m.elf"),
    ] {
        good(
            tool(program)
                .args(arguments.split(' '))
                .current_dir(guest.directory.path()),
        );
    }
    let arguments = "-M mps2-an385 -display none -monitor none -serial none -nodefaults -icount shift=0 -kernel";
    let mut qemu = vec!["qemu-system-arm".to_owned()];
    qemu.extend(arguments.split(' ').map(str::to_owned));
    qemu.push(guest.file("m.elf").display().to_string());
    let lines = codes_name_all_that_change(&guest, &qemu);
    for line in [" R r7 ", " R xpsr ", " f24040d2 T svc : movw r0, #0x4d2"] {
        assert_many(&lines, line);
    }
}

#[track_caller]
fn assert_many(lines: &[String], part: &str) {
    let found = lines.iter().filter(|line| line.contains(part));
    assert!(found.count() > 500, "{part}");
}

/// A run of QEMU with both has the same lines, those of an instruction in any order. Returns them.
#[track_caller]
fn codes_name_all_that_change(guest: &Guest, qemu: &[String]) -> Vec<String> {
    let traces = ["written", "all"].map(|compare| {
        let out = guest.file(compare);
        let mut command = Command::new(&qemu[0]);
        command.args(&qemu[1..]).arg("-plugin").arg(format!(
            "{},out={},limit=40000,compare={compare}",
            qemu_plugin().display(),
            out.display()
        ));
        good(&mut command);
        let text = std::fs::read_to_string(&out).expect("a trace");
        // Devices request interrupts at any time.
        let lines = text.lines().filter(|line| !line.contains(" R cause "));
        let mut lines: Vec<_> = lines.map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    });
    let [written, all] = traces;
    let differs = written.iter().zip(&all).find(|(one, other)| one != other);
    assert_eq!(differs, None, "{}", guest.machine.name);
    assert_eq!(written.len(), all.len(), "{}", guest.machine.name);
    all
}

/// The output before QEMU is killed is a valid trace.
#[test]
fn a_killed_guest_leaves_a_good_trace() {
    let guest = Guest::new(BareMachine::named("riscv64"));
    let kills = chosen_by("TRACEWIRE_QEMU_KILLS", 2) as usize;
    for round in 0..kills {
        let out = guest.file(["killed", "killed.zst"][round % 2]);
        let mut command = Command::new(&guest.qemu()[0]);
        let mut qemu = command
            .args(&guest.qemu()[1..])
            .arg("-plugin")
            .arg(format!("{},out={}", qemu_plugin().display(), out.display()))
            .spawn()
            .expect("QEMU starts");
        // At some moment after the first flush: a kill may cut a write at any page. By then a whole block of zstd is there, which
        // has at most 128 KiB.
        let least = (256 << 10) + chosen(7, round) % 100_000;
        while out.metadata().map_or(0, |metadata| metadata.len()) < least {
            assert!(qemu.try_wait().expect("QEMU").is_none(), "QEMU runs");
            std::thread::yield_now();
        }
        qemu.kill().expect("QEMU is there");
        qemu.wait().expect("QEMU ends");
        let output = tracewire(&["check", "--json"])
            .arg(&out)
            .output()
            .expect("the program runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        // The end may be cut; all before it is whole.
        let faults: Vec<_> = text.lines().collect();
        assert!(faults.len() <= 1, "{text}");
        let shown = guest.shown(&out, &["--instruction=0..3"]);
        assert_eq!(shown.len(), 3);
    }
}

/// The files of a recording have each instruction once. Each has the state from its beginning on.
#[test]
fn a_trace_is_split_into_files_with_their_state() {
    for (machine, extension) in [("riscv64", "trace"), ("arm", "trace.zst")] {
        let guest = Guest::new(BareMachine::named(machine));
        let whole = guest.record("whole.trace", &["--limit=3000"]);
        // A file knows only the memory that its own accesses show, and counts its instructions from 0.
        let states = |trace: &Path| {
            let shown = guest.shown(trace, &["--instruction=0.."]);
            let state = |of: &serde_json::Value| (of["address"].clone(), of["registers"].clone());
            shown.iter().map(state).collect::<Vec<_>>()
        };
        let expected = states(&whole);
        let name = format!("split.{extension}");
        let options = ["--limit=3000", "--split=64KiB"];
        let output = guest.command(&guest.file(&name), &options).output();
        let output = output.expect("QEMU runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let part = |number: usize| match number {
            1 => guest.file(&name),
            number => guest.file(&format!("split.{number}.{extension}")),
        };
        let parts = (1..).take_while(|number| part(*number).exists()).count();
        assert!(parts > 2, "{parts} files: {said}");
        assert!(
            said.contains(&format!("and {} more files", parts - 1)),
            "{said}"
        );
        let mut all = Vec::new();
        for number in 1..=parts {
            let path = part(number);
            good(tracewire(&["check"]).arg(&path));
            all.extend(states(&path));
        }
        assert_eq!(all.len(), expected.len());
        for (state, expected) in all.iter().zip(&expected) {
            assert_eq!(state, expected, "{machine}");
        }
    }
}

#[test]
fn a_trace_is_for_its_owner() {
    let guest = Guest::new(BareMachine::named("riscv64"));
    // In a folder to which all can write, another user may have put the link.
    let folder = guest.file("of-all");
    std::fs::create_dir(&folder).expect("a folder");
    std::fs::set_permissions(&folder, Permissions::from_mode(0o777)).expect("for all");
    for name in ["a.trace", "a.trace.zst"] {
        let out = folder.join(name);
        good(&mut guest.command(&out, &["--limit=100"]));
        let mode = out.metadata().expect("a trace").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");

        let (link, other) = (folder.join("link"), folder.join("other"));
        let link = link.with_extension(name);
        std::fs::write(&other, "another's").expect("a file");
        std::os::unix::fs::symlink(&other, &link).expect("a link");
        let refused = guest.command(&link, &["--limit=100"]).output();
        let refused = refused.expect("the program runs");
        assert!(!refused.status.success());
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(
            said.contains("a link in a folder that others can write to"),
            "{said}"
        );
        assert_eq!(std::fs::read(&other).expect("a file"), b"another's");
    }
}

#[test]
fn what_cannot_be_done_is_said() {
    let guest = Guest::new(BareMachine::named("riscv64"));
    let fails = |options: &[&str], message: &str| {
        let output = guest.command(&guest.file("none"), options).output();
        let output = output.expect("the program runs");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(errors.contains(message), "{errors}");
    };
    fails(
        &["--plugin=/nowhere/plugin.so"],
        "the plugin /nowhere/plugin.so",
    );
    fails(&["--function=nothing"], "no function \"nothing\"");
    fails(&["--start=nothing"], "no function \"nothing\"");
    fails(&["--range=7..3"], "the first address is above the last");
    let output = tracewire(&["qemu", "--", "/nowhere/qemu"])
        .env("TRACEWIRE_QEMU_PLUGIN", qemu_plugin())
        .output()
        .expect("the program runs");
    assert_eq!(output.status.code(), Some(2));
}

/// Only the instructions of a function, with the registers as they are when it begins again.
#[test]
fn a_function_is_recorded_with_its_registers() {
    for name in ["riscv64", "aarch64", "ppc"] {
        let guest = Guest::new(BareMachine::named(name));
        let whole = guest.record("whole", &["--start=_start", "--limit=3000"]);
        let part = guest.record(
            "part",
            &["--start=_start", "--function=work", "--limit=500"],
        );
        let whole = guest.shown(&whole, &["--instruction=0.."]);
        let part = guest.shown(&part, &["--instruction=0.."]);
        let addresses: Vec<_> = part.iter().map(|one| number(&one["pc"])).collect();
        let (Some(first), Some(last)) = (addresses.iter().min(), addresses.iter().max()) else {
            panic!("{name}: nothing was recorded");
        };
        let inside = whole
            .iter()
            .filter(|one| (first..=last).contains(&&number(&one["pc"])));
        let both: Vec<_> = part.iter().zip(inside).collect();
        assert_eq!(both.len(), part.len());
        for (one, other) in both {
            assert_eq!(one["pc"], other["pc"], "{name}");
            assert_eq!(one["registers"], other["registers"], "{name}: {one}");
            assert_eq!(one["accesses"], other["accesses"], "{name}: {one}");
        }
    }
}

/// QEMU has the wrong number for cpus on one thread, which is the case with `-icount`.
#[test]
fn cpus_on_one_thread_are_reported() {
    let guest = Guest::new(BareMachine::named("aarch64"));
    let out = guest.file("trace");
    // Long enough for the second cpu to run.
    let output =
        good((guest.command(&out, &["--limit=1000000", "--registers=off"])).args(["-smp", "2"]));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("on one thread"), "{errors}");
}

//! Stock GDB at the example emulator.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use tracewire_test_support::{Gdb, tool};

const PROGRAM: &str = r#"
char stack[4096] __attribute__((aligned(16)));
int table[4] = {10, 20, 30, 40};
int total, rounds;
__attribute__((noinline)) int work(int n) {
    total += table[n & 3];
    return total;
}
__attribute__((noinline)) void round_done(int round) { rounds = round; }
void run(void) {
    for (int round = 1;; round++) {
        for (int n = 0; n < 8; n++)
            work(n);
        round_done(round);
    }
}
__attribute__((naked)) void _start(void) { __asm__("lla sp, stack+4096\n call run"); }
"#;

/// The program that the emulator executes.
fn build(directory: &Path) -> PathBuf {
    std::fs::write(directory.join("program.c"), PROGRAM).expect("the directory can be written");
    let output = tool("clang")
        .args([
            "--target=riscv32-none-elf",
            "-march=rv32i",
            "-mabi=ilp32",
            "-mno-relax",
        ])
        .args([
            "-ffreestanding",
            "-gdwarf-4",
            "-O0",
            "-fuse-ld=lld",
            "-nostdlib",
        ])
        .args([
            "-Wl,-Ttext=0x80000000",
            "-Wl,-e,_start",
            "-o",
            "program.elf",
            "program.c",
        ])
        .current_dir(directory)
        .output()
        .expect("clang runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    directory.join("program.elf")
}

/// The emulator, and its output.
struct Emulator(Child, BufReader<ChildStdout>);

impl Emulator {
    fn start(elf: &Path) -> (Self, String) {
        // Cargo builds the examples with the tests, beside them.
        let test = std::env::current_exe().expect("this test's file");
        let built = test.parent().and_then(Path::parent).expect("a directory");
        let mut child = Command::new(built.join("examples/emulator"))
            .args([elf.as_os_str(), "127.0.0.1:0".as_ref()])
            .current_dir(elf.parent().expect("a directory"))
            .stdout(Stdio::piped())
            .spawn()
            .expect("the example is built");
        let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut line = String::new();
        output.read_line(&mut line).expect("the address");
        let address = line.trim_end().rsplit(' ').next().expect("an address");
        let address = address.to_owned();
        (Self(child, output), address)
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn gdb(elf: &Path, script: &str) -> String {
    let file = elf.with_extension("gdb");
    std::fs::write(&file, script).expect("the directory can be written");
    let run = Gdb::multiarch()
        .program(elf)
        .command("set confirm off")
        .script(&file)
        .run();
    run.all()
}

#[test]
fn gdb_traces_on_an_emulator_that_has_no_tracepoints() {
    let directory = tempfile::tempdir().expect("a directory");
    let elf = build(directory.path());
    let (mut emulator, address) = Emulator::start(&elf);
    let script = format!(
        "target remote {address}\n\
         tvariable $hits = 100\n\
         trace work if n == 5 && total > 0\n\
         actions\n\
         collect n, total, table[n & 3], $regs\n\
         teval $hits = $hits + 1\n\
         while-stepping 3\n\
         collect $pc\n\
         end\n\
         end\n\
         trace round_done\n\
         actions\n\
         collect round, $hits\n\
         end\n\
         passcount 3\n\
         break round_done if round == 5\n\
         tstart\n\
         continue\n\
         tstatus\n\
         tfind 0\n\
         printf \"first: n %d, total %d, entry %d\\n\", n, total, table[n & 3]\n\
         tfind\n\
         printf \"step: %d\\n\", $trace_frame\n\
         tfind tracepoint 2\n\
         printf \"round %d, hits %d\\n\", round, $hits\n\
         tfind tracepoint 2\n\
         printf \"round %d, hits %d\\n\", round, $hits\n\
         tsave {0}/here.tf\n\
         tsave -r there.tf\n\
         tfind none\n\
         print rounds\n\
         delete\n\
         stepi\n\
         info tvariables\n\
         detach\n",
        directory.path().display()
    );
    let printed = gdb(&elf, &script);
    for expected in [
        "first: n 5, total 110, entry 20",
        "Found trace frame 1, tracepoint 1",
        "round 1, hits 101",
        "round 2, hits 102",
        "= 4",
    ] {
        assert!(printed.contains(expected), "{expected}: {printed}");
    }
    let mut rest = String::new();
    emulator
        .1
        .read_line(&mut rest)
        .expect("the emulator's last words");
    assert_eq!(rest, "the debugger has gone: Disconnect\n");
    assert!(emulator.0.wait().expect("the emulator ends").success());

    // Both files have the same frames: the third pass of the second tracepoint ended the run.
    let frames = |name: &str| {
        let path = directory.path().join(name);
        let target = format!(
            "target tfile {}\ntfind end\ntfind tracepoint 2\nprintf \"round %d\\n\", round\ntfind tracepoint 2\ntfind tracepoint 2\n",
            path.display()
        );
        let printed = gdb(&elf, &target);
        assert!(printed.contains("round 1"), "{printed}");
        printed.matches("Found trace frame").count()
    };
    assert_eq!(frames("here.tf"), 3);
    assert_eq!(frames("there.tf"), 3);
}

/// Lines with code.
fn lines(file: &str) -> usize {
    let is_code = |line: &&str| !line.is_empty() && !line.starts_with("//");
    file.lines().map(str::trim).filter(is_code).count()
}

#[test]
fn tracepoints_cost_an_emulator_less_than_100_lines() {
    let own = include_str!("../examples/emulator/main.rs");
    assert!(lines(own) < 100, "{}", lines(own));
    // The emulator's own files contain nothing about them.
    let machine = include_str!("../examples/emulator/machine.rs");
    let stub = include_str!("../examples/emulator/stub.rs");
    for file in [machine, stub] {
        assert!(!file.contains("tracewire") && !file.contains("Tracepoint"));
    }
}

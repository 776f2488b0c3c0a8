//! Recordings of control flow only: the text of `perf script`, by a writer of this test, of a program that GDB stepped through.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tracewire_test_support::{Cc, Gdb};

use super::{run, trace};

const PROGRAM: &str = "\
int total;
__attribute__((noinline)) int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
__attribute__((noinline)) void add(int n) { total += n; }
int main(void) {
    for (int i = 0; i < 8; i++)
        add(fib(i));
    return total;
}
";

/// Steps to the end of main, and writes each instruction: address, function, its address, code.
const STEPS: &str = "\
import gdb
gdb.execute('break main')
gdb.execute('run')
inferior = gdb.selected_inferior()
with open(PATH, 'w') as file:
    while True:
        pc = int(gdb.parse_and_eval('(unsigned long) $pc'))
        block = gdb.block_for_pc(pc)
        while block is not None and block.function is None:
            block = block.superblock
        if block is None or block.function.name not in ('main', 'fib', 'add'):
            break
        frame = gdb.selected_frame()
        length = frame.architecture().disassemble(pc)[0]['length']
        code = bytes(inferior.read_memory(pc, length)).hex(' ')
        file.write(f'{pc} {block.function.name} {block.start} {code}\\n')
        gdb.execute('stepi', to_string=True)
";

struct Step {
    pc: u64,
    function: String,
    start: u64,
    code: String,
}

impl Step {
    fn size(&self) -> u64 {
        self.code.len().div_ceil(3) as u64
    }

    fn place(&self) -> String {
        let offset = self.pc - self.start;
        format!(
            "{:16x} {}+{offset:#x} (/tmp/program)",
            self.pc, self.function
        )
    }
}

/// The program, which may be loaded anywhere, and its instructions from main's first to its last.
fn stepped(folder: &TempDir) -> (PathBuf, Vec<Step>) {
    let program = Cc::new()
        .options(&["-g", "-O1", "-fcf-protection=none", "-pie", "-fPIE"])
        .text(PROGRAM)
        .build(folder.path(), "program");
    let (script, steps) = (folder.path().join("steps.py"), folder.path().join("steps"));
    let path = format!("PATH = {:?}\n", steps.to_str().unwrap());
    std::fs::write(&script, path + STEPS).unwrap();
    let said = Gdb::new().program(&program).script(&script).run();
    let steps = std::fs::read_to_string(&steps).unwrap_or_else(|_| panic!("{}", said.all()));
    let steps: Vec<Step> = (steps.lines())
        .map(|line| {
            let mut words = line.splitn(4, ' ');
            let mut word = || words.next().unwrap();
            Step {
                pc: word().parse().unwrap(),
                function: word().to_owned(),
                start: word().parse().unwrap(),
                code: word().to_owned(),
            }
        })
        .collect();
    assert!(steps.len() >= 500, "{} steps: {}", steps.len(), said.all());
    (program, steps)
}

/// `perf script --insn-trace` of threads that take turns.
fn instructions(steps: &[Step], threads: &[u32]) -> String {
    let mut text = String::new();
    for (number, step) in steps.iter().enumerate() {
        for (cpu, thread) in threads.iter().enumerate() {
            let place = step.place();
            writeln!(
                text,
                "{:>16} {thread:>5} [{cpu:03}] 17.{number:09}: {place} insn: {}",
                "a program", step.code
            )
            .unwrap();
        }
    }
    text
}

/// `perf script --itrace=b -F +insn`.
fn branches(steps: &[Step]) -> String {
    let mut text = String::new();
    for (number, pair) in steps.windows(2).enumerate() {
        let [from, to] = pair else { continue };
        if to.pc != from.pc + from.size() {
            let (source, target) = (from.place(), to.place());
            writeln!(
                text,
                "program    77 17.{number:06}:          1 branches:u:  {source} => {target} insn: {}",
                from.code
            )
            .unwrap();
        }
    }
    text
}

/// How often each function was entered, and how many instructions it executed itself.
fn expected(steps: &[Step]) -> BTreeMap<String, (u64, u64)> {
    let mut functions = BTreeMap::new();
    for step in steps {
        let (calls, own) = functions.entry(step.function.clone()).or_insert((0, 0));
        *calls += u64::from(step.pc == step.start);
        *own += 1;
    }
    functions
}

fn profile(trace: &Path, program: &Path) -> BTreeMap<String, (u64, u64)> {
    let profile = run(
        trace,
        &format!("profile @ --json --elf {}", program.display()),
    );
    (profile.code(0).json().iter())
        .map(|row| {
            let number = |name: &str| row[name].as_u64().unwrap();
            (
                row["function"].as_str().unwrap().to_owned(),
                (number("calls"), number("own")),
            )
        })
        .collect()
}

#[test]
fn calls_are_those_that_gdb_saw() {
    let folder = tempfile::tempdir().unwrap();
    let (program, steps) = stepped(&folder);
    let expected = expected(&steps);
    let path = trace(&folder, &instructions(&steps, &[77]));
    assert_eq!(profile(&path, &program), expected);
    let info = run(&path, "info --json @").code(0).json();
    assert_eq!(info[0]["content"], "control-flow");
    assert_eq!(info[0]["architecture"], "x86_64");
    assert_eq!(info[0]["instructions"], steps.len());
    // Each instruction, where GDB saw it.
    let shown = run(&path, "show --json @").code(0).json();
    for (object, step) in shown.iter().zip(&steps) {
        assert_eq!(object["pc"], format!("{:#x}", step.pc));
        assert_eq!(object["opcode"], step.code.replace(' ', ""));
    }
    let elf = program.display();
    let coverage = run(&path, &format!("coverage @ --json --elf {elf}"))
        .code(0)
        .json();
    let counted: u64 = coverage
        .iter()
        .map(|row| row["count"].as_u64().unwrap())
        .sum();
    assert_eq!(counted, steps.len() as u64);

    // Two threads side by side have stacks of their own.
    let both = trace(&folder, &instructions(&steps, &[77, 78]));
    let twice = expected
        .iter()
        .map(|(name, (calls, own))| (name.clone(), (calls * 2, own * 2)));
    assert_eq!(profile(&both, &program), twice.collect());

    // Of the branches alone calls are known, and not what lies between.
    let text = branches(&steps);
    let path = trace(&folder, &text);
    let calls = |functions: BTreeMap<String, (u64, u64)>| -> BTreeMap<String, u64> {
        functions
            .into_iter()
            .map(|(name, (calls, _))| (name, calls))
            .collect()
    };
    assert_eq!(calls(profile(&path, &program)), calls(expected));
    let refused = run(&path, &format!("coverage @ --elf {elf}")).code(2);
    assert!(
        refused
            .stderr
            .contains("branches only: what was executed between"),
        "{}",
        refused.stderr
    );
    let without: String = text
        .lines()
        .map(|line| line.split(" insn:").next().unwrap().to_owned() + "\n")
        .collect();
    let refused = run(&trace(&folder, &without), &format!("calls @ --elf {elf}")).code(2);
    assert!(refused.stderr.contains("-F +insn"), "{}", refused.stderr);
}

#[test]
fn another_run_is_compared_by_its_threads() {
    let folder = tempfile::tempdir().unwrap();
    let (_, steps) = stepped(&folder);
    let (left, right) = (folder.path().join("left"), folder.path().join("right"));
    std::fs::write(&left, instructions(&steps, &[77, 78])).unwrap();
    std::fs::write(&right, instructions(&steps, &[1077, 1078])).unwrap();
    run(&left, &format!("diff @ {}", right.display())).code(0);
    std::fs::write(
        &right,
        instructions(&steps[..steps.len() - 1], &[1077, 1078]),
    )
    .unwrap();
    let _ = std::fs::remove_file(folder.path().join("right.twindex"));
    let found = run(&left, &format!("diff @ {}", right.display())).code(1);
    assert!(found.stdout.contains("ends here"), "{}", found.stdout);
}

#[test]
fn what_needs_state_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let line = |address: u64, code: &str| {
        format!(
            "program 77 [000] 17.000001000: {address:16x} main+0x0 (/tmp/program) insn: {code}\n"
        )
    };
    let path = trace(&folder, &(line(0x401000, "90") + &line(0x401001, "c3")));
    for words in [
        "memory @ 0x404000,4 --writes",
        "memory @ --register rax",
        "find @ --writes 0x404000",
        "find @ --reads 0x404000,8",
        "find @ --register rax",
    ] {
        let refused = run(&path, words).code(2).stderr;
        assert!(
            refused.contains("records control flow only: it has no"),
            "{words}: {refused}"
        );
        assert!(refused.contains("tracewire record"), "{words}: {refused}");
    }
    let shown = run(&path, "show @ --instruction 1 --memory 0x404000,2 --json")
        .code(0)
        .json();
    assert_eq!(shown[0]["memory"][0]["bytes"], "????");
    assert_eq!(shown[0]["register_writes"].as_array().unwrap().len(), 0);
    assert!(
        run(&path, "info @")
            .code(0)
            .stdout
            .contains("control flow only")
    );

    // A log of Spike without what instructions did is of the same kind.
    let spike = "core   0: 0x0000000080000004 (0x34202f73) csrr    t5, mcause\n";
    let refused = run(&trace(&folder, spike), "find @ --register t5")
        .code(2)
        .stderr;
    assert!(refused.contains("--log-commits"), "{refused}");

    // Samples have addresses of accesses, and no way from one to the next.
    let sample = "program 77 [000] 17.000001:   30 cpu/mem-loads/P:     7ffd1234abcd         68100142 |OP LOAD|LVL L1 hit|SNP None|TLB N/A                7           401009 main+0x9 (/tmp/program)\n";
    let path = trace(&folder, sample);
    assert_eq!(
        run(&path, "find @ --reads 0x7ffd1234abcd").code(0).stdout,
        "0\n"
    );
    let refused = run(&path, "calls @ --architecture x86_64").code(2).stderr;
    assert!(
        refused.contains("samples only") && refused.contains("--insn-trace"),
        "{refused}"
    );
}

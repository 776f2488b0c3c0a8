//! Tracepoints by jumps: the same frames as by traps, and programs that nothing harms.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::{Built, ran, tracewire, value};
use tracewire_test_support::{assert_clean_but, is_unreadable};

const KINDS: &str = r#"
#include <stdio.h>
#include <string.h>
struct point { int x, y; double weight; };
static struct point points[3] = { { 1, 2, 0.5 }, { 3, 4, 1.5 }, { -5, 6, 2.5 } };
long total;
__attribute__ ((noinline)) long leaf (long a, long b, const char *name, struct point *point)
{
  long local = a * b;
  total += local + point->x + name[0];
  return total;
}
__attribute__ ((noinline)) double scale (double value, int times)
{
  while (times-- > 0)
    value = value * 1.25 + 0.5;
  return value;
}
int main (int argc, char **argv)
{
  double sum = 0;
  for (int i = 0; i < 60; i++)
    {
      leaf (i, i - 30, i % 2 ? "odd" : "even", &points[i % 3]);
      sum += scale (i, i % 4);
    }
  printf ("%ld %.3f\n", total, sum);
  return 0;
}
"#;

const SCRIPT: &str = "tvariable $hits = 5
trace leaf if a * b > -200 && point->x != 3
actions
collect a, b, *point, name, *name@4, total, $hits
collect/s name
teval $hits = $hits + 1
end
trace scale
actions
collect $regs, value, times
end
trace leaf
actions
collect points[a % 3].weight, $hits, *(char *) 8
end
passcount 50 3
";

/// Records by a mechanism, at addresses that are the same each time; the frames without what differs from run to run.
fn frames(built: &Built, mechanism: &str) -> Vec<Value> {
    std::fs::write(built.path("script.gdb"), SCRIPT).expect("written");
    let file = format!("{mechanism}.tf");
    let output = Command::new("setarch")
        .args(["-R", env!("CARGO_BIN_EXE_tracewire")])
        .current_dir(built.folder.path())
        .args(["record", "-x", "script.gdb", "--mechanism", mechanism])
        .args(["-o", &file, "--"])
        .arg(&built.program)
        .stdin(Stdio::null())
        .output()
        .expect("tracewire runs");
    let done = ran(output).code(0);
    assert!(
        done.stderr.contains(&format!("by {mechanism}"))
            || mechanism == "jump" && done.stderr.contains("jump"),
        "{}",
        done.stderr
    );
    // The pointers that are followed are wild.
    assert_clean_but(&built.path(&file), is_unreadable);
    let shown = ran(tracewire()
        .current_dir(built.folder.path())
        .args(["show", "--json", &file])
        .output()
        .expect("tracewire runs"))
    .code(0);
    let mut frames = shown.json();
    assert!(frames.len() > 100, "{}", frames.len());
    for frame in &mut frames {
        let frame = frame.as_object_mut().expect("an object");
        for field in ["time_us", "time_ns", "thread", "cpu", "values"] {
            frame.remove(field);
        }
        if let Some(Value::Object(variables)) = frame.get_mut("variables") {
            variables.retain(|name, _| !name.starts_with("$trace_") && !name.starts_with("trace_"));
        }
    }
    frames
}

#[test]
fn a_jump_collects_what_a_trap_collects() {
    for (compiler, flags) in [
        ("cc", &["-O0", "-no-pie"][..]),
        ("cc", &["-O2"]),
        ("cc", &["-O1", "-static"]),
        ("musl-gcc", &["-O2", "-static"]),
    ] {
        let built = Built::new(KINDS, &[]);
        let status = Command::new(compiler)
            .current_dir(built.folder.path())
            .args(["-g", "-o", "program", "program.c"])
            .args(flags)
            .status();
        assert!(status.expect("the compiler runs").success());
        let (jumped, trapped) = (frames(&built, "jump"), frames(&built, "trap"));
        for (jump, trap) in jumped.iter().zip(&trapped) {
            assert_eq!(jump, trap, "{compiler} {flags:?}");
        }
        assert_eq!(jumped.len(), trapped.len());
    }
}

const WILD: &str = r#"
#include <stdio.h>
#include <stdlib.h>
unsigned long state = SEED;
__attribute__ ((noinline)) long look (const char *wild, long n) { __asm__ volatile (""); return n + ((unsigned long) wild & 1); }
int main (void)
{
  long sum = 0;
  for (long i = 0; i < 1000; i++)
    {
      state = state * 6364136223846793005ul + 1442695040888963407ul;
      unsigned long wild = state;
      switch (i % 4)
        {
        case 0: wild &= 0x7ffffffffffful; break;
        case 1: wild &= 0xffff; break;
        case 2: wild |= 0xffff800000000000ul; break;
        }
      sum += look ((const char *) wild, i) - (wild & 1);
    }
  printf ("%ld\n", sum);
  return 0;
}
"#;

/// A thousand invalid pointers are collected without an effect on the program; in a condition the first ends the run.
#[test]
fn bad_pointers_harm_nobody() {
    let seed = std::env::var("TRACEWIRE_WILD_SEED").unwrap_or_else(|_| "88172645463325252".into());
    let built = Built::new(WILD, &["-O1", &format!("-DSEED={seed}ul")]);
    let record = |tracepoint: &str| {
        ran(tracewire()
            .current_dir(built.folder.path())
            .args(["record", "--mechanism", "jump", "-o", "out.tf"])
            .args(["-t", tracepoint, "--"])
            .arg(&built.program)
            .output()
            .expect("tracewire runs"))
    };
    let done = record("look : collect *wild@8, wild, $_ret, *(long *) wild").code(0);
    assert_eq!(done.stdout, "499500\n");
    assert!(
        done.stderr.contains("values could not be read"),
        "{}",
        done.stderr
    );
    let info = built.info();
    assert_eq!(info["frames"], 1000, "{}", done.stderr);
    let done = record("look if *wild == 7 || *wild == 8").code(1);
    assert_eq!(done.stdout, "499500\n");
    let info = built.info();
    let status = &info["status"];
    assert_eq!(status["stop_reason"], "terror", "{status}");
    assert!(
        status["stop_text"]
            .as_str()
            .unwrap_or("")
            .contains("memory"),
        "{status}"
    );
}

/// Calls a function ten times where the stack ends just below, at an unmapped page, and five times where it does not.
const CRAMPED: &str = r#"
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/mman.h>
__attribute__ ((noinline, used)) long leaf (long n) { return n * 2 + 1; }
static long leaf_on (char *top, long n)
{
  long result;
  __asm__ volatile ("mov %%rsp, %%rbx\n\tmov %2, %%rsp\n\tcall leaf\n\tmov %%rbx, %%rsp"
                    : "=a" (result) : "D" (n), "r" (top)
                    : "rbx", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "memory", "cc");
  return result;
}
int main (void)
{
  long sum = 0;
  char *pages = mmap (0, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  mprotect (pages, 4096, PROT_NONE);
  for (int i = 0; i < 10; i++)
    sum += leaf_on (pages + 4096 + 64, i);
  for (int i = 0; i < 5; i++)
    sum += leaf_on (pages + 3 * 4096 - 64, i);
  printf ("%ld\n", sum);
  return 0;
}
"#;

/// A hit at the end of a stack is lost and reported, and the program goes on.
#[test]
fn a_thread_without_stack_loses_its_hits() {
    let built = Built::new(CRAMPED, &["-O1"]);
    let done = ran(tracewire()
        .current_dir(built.folder.path())
        .args(["record", "--mechanism", "jump", "-o", "out.tf"])
        .args(["-t", "leaf : collect n", "--"])
        .arg(&built.program)
        .output()
        .expect("tracewire runs"))
    .code(0)
    .says(&["10 frames lost: their threads had no stack left"]);
    assert_eq!(done.stdout, "125\n");
    assert_eq!(built.info()["frames"], 5, "{}", done.stderr);
}

/// Prints how often its thread has given up the processor during hits.
const STOPS: &str = r#"
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/resource.h>
static long total;
__attribute__ ((noinline)) void site (long n) { total += n; }
static long stops (void) { struct rusage own; getrusage (RUSAGE_THREAD, &own); return own.ru_nvcsw; }
int main (void)
{
  long before = stops ();
  for (long n = 0; n < 2000; n++)
    site (n);
  printf ("%ld\n", stops () - before);
  return 0;
}
"#;

#[test]
fn a_jump_stops_nothing_and_a_trap_stops_once() {
    const HITS: u64 = 2000;
    let built = Built::new(STOPS, &["-O1"]);
    let stops = |mechanism: &str| -> u64 {
        let specification = ["-t", "site if n >= 0 : n, total"];
        let done = ran(tracewire()
            .current_dir(built.folder.path())
            .args(["record", "--mechanism", mechanism, "-o", "out.tf"])
            .args(specification)
            .args(["--", "./program"])
            .output()
            .expect("tracewire runs"))
        .code(0);
        assert_eq!(built.info()["frames"], HITS, "{}", done.stderr);
        done.stdout.trim().parse().expect("a number")
    };
    // A page of the rings that is used for the first time may be waited for.
    let by_jumps = stops("jump");
    assert!(by_jumps < HITS / 20, "{by_jumps} stops by jumps");
    let by_traps = stops("trap");
    assert!(
        (HITS..HITS + HITS / 20).contains(&by_traps),
        "{by_traps} stops by traps"
    );
}

/// Threads without the C library's memory at their `fs` base, each of which logs its number by the argument. The first argument is
/// the number of the way: no base, a base in other memory, or also a thread whose memory says that it is that of the first one.
const FOREIGN_BASES: &str = r#"
__asm__ (
  ".globl _start\n_start: xor %ebp, %ebp\n mov 16(%rsp), %rdi\n and $-16, %rsp\n call first\n"
  "mov %eax, %edi\n mov $231, %eax\n syscall\n"
  /* clone: flags, stack, -, -, fs base; the new thread calls `other`. */
  ".globl begin\nbegin: mov %rdx, %r8\n xor %edx, %edx\n xor %r10d, %r10d\n mov $56, %eax\n syscall\n"
  "test %eax, %eax\n jz 1f\n ret\n1: call other\n mov $60, %eax\n xor %edi, %edi\n syscall");
long begin (long flags, void *stack, void *base);
static long call (long number, long a, long b)
{
  long result;
  __asm__ volatile ("syscall" : "=a" (result) : "a" (number), "D" (a), "S" (b) : "rcx", "r11", "memory");
  return result;
}
static long words[8], others[8];
static volatile int has_ended;
static char stack[1 << 16] __attribute__ ((aligned (16)));
__attribute__ ((noinline)) long work (long thread, long count)
{
  __asm__ volatile ("nop; nop; nop; nop; nop" : "+r" (thread));
  return thread + count;
}
static long rounds (void)
{
  long sum = 0;
  for (int i = 0; i < 100; i++)
    sum += work (call (186, 0, 0), i);
  return sum;
}
void other (void)
{
  rounds ();
  has_ended = 1;
}
int first (const char *way)
{
  rounds ();
  if (*way < '1')
    return 0;
  /* ARCH_SET_FS */
  call (158, 0x1002, (long) words);
  words[0] = *way < '2' ? 0 : (long) words;
  rounds ();
  if (*way < '2')
    return 0;
  others[0] = (long) words;
  /* VM, FS, FILES, SIGHAND, THREAD, SYSVSEM, SETTLS */
  begin (0x100 | 0x200 | 0x400 | 0x800 | 0x10000 | 0x40000 | 0x80000, stack + sizeof stack - 64, others);
  rounds ();
  while (!has_ended)
    ;
  return 0;
}
"#;

#[test]
fn threads_have_their_own_numbers_whatever_their_memory_begins_with() {
    let options = ["-O1", "-static", "-nostdlib", "-fno-stack-protector"];
    let built = Built::new(FOREIGN_BASES, &options);
    for (way, hits, threads) in [("0", 100, 1), ("1", 200, 1), ("2", 400, 2)] {
        for mechanism in ["jump", "trap"] {
            let output = tracewire()
                .current_dir(built.folder.path())
                .args(["record", "-o", "out.tf", "--mechanism", mechanism])
                .args(["-t", "work : thread, count", "--"])
                .args([&built.program])
                .arg(way)
                .output();
            ran(output.expect("tracewire runs")).code(0);
            let frames = built.frames();
            assert_eq!(frames.len(), hits, "{way}, {mechanism}");
            let mut all = std::collections::BTreeSet::new();
            for frame in &frames {
                let thread = frame["variables"]["trace_thread"].to_string();
                assert_eq!(value(frame, "thread"), Some(thread.as_str()), "{frame}");
                all.insert(thread);
            }
            assert_eq!(all.len(), threads, "{way}, {mechanism}");
        }
    }
}

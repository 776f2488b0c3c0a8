//! The state of a thread at a tracepoint: registers, memory, time, cpu; and steps from there.

mod support;

use std::collections::HashMap;

use support::{Program, piece, run_to_end, trace};
use tracewire_arch::X86Registers;
use tracewire_experiment::{Hit, HitHandler, MemoryRead, Outcome, StoppedThread};
use tracewire_model::RegisterNumber;
use tracewire_target_linux::{Event, Process, Settings};

/// Calls a closure at each hit.
struct At<F>(F);

impl<F: FnMut(Hit, &mut dyn StoppedThread) -> bool> HitHandler for At<F> {
    fn hit(&mut self, hit: Hit, thread: &mut dyn StoppedThread) -> Outcome {
        Outcome {
            step: (self.0)(hit, thread),
            run_ended: false,
        }
    }
}

/// Loads a different value into every register.
const REGISTERS: &str = r#"
    .intel_syntax noprefix
    .globl main, place
    .data
    .balign 64
words: .irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
    .irp q,0,1,2,3,4,5,6,7
    .quad 0x5a00000000000000 + \n * 256 + \q
    .endr
    .endr
one:  .double 1.5
two:  .double -2.25
mxcsr: .long 0x1f80 + 0x8000
saved: .quad 0
    .text
main:
    mov saved[rip], rsp
    push rbx
    push rbp
    fninit
    fld qword ptr one[rip]
    fld qword ptr two[rip]
    fldz
    ldmxcsr mxcsr[rip]
    lea rax, words[rip]
    .irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
    LOAD
    .endr
    mov rbx, 0x1111111111111111
    mov rcx, 0x2222222222222222
    mov rdx, 0x3333333333333333
    mov rsi, 0x4444444444444444
    mov rdi, 0x5555555555555555
    mov rbp, 0x6666666666666666
    mov r8, 0x8888888888888888
    mov r9, 0x9999999999999999
    mov r15, 0xffffffffffffffff
    xor eax, eax
    stc
place:
    nop
    pop rbp
    pop rbx
    xor eax, eax
    ret
    .section .note.GNU-stack,"",@progbits
"#;

#[test]
fn every_register_of_the_widest_set_is_true() {
    let features = std::fs::read_to_string("/proc/cpuinfo").unwrap();
    let (set, load) = if features.contains(" avx512f") {
        (X86Registers::Avx512, "vmovdqa64 zmm\\n, [rax + \\n * 64]")
    } else if features.contains(" avx") {
        (X86Registers::Avx, "vmovdqa ymm\\n, [rax + \\n * 64]")
    } else {
        (X86Registers::Sse, "movdqa xmm\\n, [rax + \\n * 64]")
    };
    let mut source = REGISTERS.replace("LOAD", load);
    if set == X86Registers::Avx512 {
        let high = (16..32)
            .map(|n| format!("vmovdqa64 zmm{n}, [rax + {n} * 64]\n"))
            .collect::<String>();
        let masks = "mov ecx, 0x1234567\nkmovd k3, ecx\n";
        source = source.replace(
            "    mov rbx, 0x1111",
            &format!("{high}{masks}    mov rbx, 0x1111"),
        );
    }
    let program = Program::build_with("cc", "registers.S", &source, &["-mavx512f"]);
    let settings = Settings {
        registers: set,
        ..Settings::default()
    };
    let mut process = Process::spawn(&program.path, &program.arguments(), settings).unwrap();
    let place = trace(&mut process, &program, "place");
    let layout = set.layout_64();
    let mut seen = 0;
    let event = run_to_end(
        &mut process,
        &mut At(|_, thread: &mut dyn StoppedThread| {
            seen += 1;
            let block = thread.register_block().unwrap().to_vec();
            assert_eq!(block.len(), layout.size() as usize);
            let bytes = |name: &str| {
                let register = layout.by_name(name).unwrap();
                block[register.offset as usize..(register.offset + register.size()) as usize]
                    .to_vec()
            };
            let number = |name: &str| {
                bytes(name)
                    .iter()
                    .rev()
                    .fold(0_u128, |number, byte| number << 8 | u128::from(*byte))
            };
            for (name, value) in [
                ("rax", 0),
                ("rbx", 0x1111_1111_1111_1111),
                ("rdi", 0x5555_5555_5555_5555),
                ("rbp", 0x6666_6666_6666_6666),
                ("r15", u128::from(u64::MAX)),
                ("rip", u128::from(place.0)),
                ("cs", 0x33),
                ("fctrl", 0x37f),
                // Three values on the stack: valid, valid, zero; the top is register 5.
                ("fstat", 5 << 11),
                ("ftag", 0b0000_0111_1111_1111 & !(0b11 << 10) | 0b01 << 10),
                ("mxcsr", 0x9f80),
            ] {
                assert_eq!(number(name), value, "{name}");
            }
            assert_eq!(number("eflags") & 1, 1);
            assert_ne!(number("fs_base"), 0);
            assert_eq!(number("gs_base"), 0);
            assert_eq!(number("orig_rax"), u128::from(u64::MAX));
            assert_eq!(bytes("st0"), [0; 10]);
            assert_eq!(bytes("st1"), [0, 0, 0, 0, 0, 0, 0, 0x90, 0, 0xc0]);
            assert_eq!(bytes("st2"), [0, 0, 0, 0, 0, 0, 0, 0xc0, 0xff, 0x3f]);
            let word = |n: u64, q: u64| 0x5a00_0000_0000_0000 + n * 256 + q;
            let pair = |n, q| u128::from(word(n, q)) | u128::from(word(n, q + 1)) << 64;
            let registers = if set == X86Registers::Avx512 { 32 } else { 16 };
            for n in 0..registers {
                assert_eq!(number(&format!("xmm{n}")), pair(n, 0), "xmm{n}");
                if set >= X86Registers::Avx {
                    assert_eq!(number(&format!("ymm{n}h")), pair(n, 2), "ymm{n}h");
                }
                if set >= X86Registers::Avx512 {
                    let high = bytes(&format!("zmm{n}h"));
                    let expected: Vec<u8> = (4..8).flat_map(|q| word(n, q).to_le_bytes()).collect();
                    assert_eq!(high, expected, "zmm{n}h");
                }
            }
            if set >= X86Registers::Avx512 {
                assert_eq!(number("k3"), 0x0123_4567);
            }
            // Read one by one they are the same: the lowest 64 bits of a 128-bit vector register, and nothing of longer
            // ones.
            for register in layout.registers() {
                let fits = register.size() <= 8 || register.name.starts_with("xmm");
                let expected = fits.then(|| number(&register.name) as u64);
                assert_eq!(
                    thread.register(register.number),
                    expected,
                    "{}",
                    register.name
                );
            }
            assert_eq!(thread.register(RegisterNumber(9999)), None);
            false
        }),
    );
    assert_eq!((event, seen), (Event::Exited(0), 1));
}

/// Has memory of every kind: readable, unreadable, unmapped.
const MEMORY: &str = r#"
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
char *pages;
__attribute__((noinline)) void place(void) { __asm__ volatile("" ::: "memory"); }
int main(int argc, char **argv) {
    pages = mmap(0, 5 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 5 * 4096; i++) pages[i] = i * 7 + i / 4096;
    mprotect(pages + 4096, 4096, PROT_NONE);
    munmap(pages + 3 * 4096, 4096);
    place();
    return 0;
}
"#;

#[test]
fn memory_is_read_as_far_as_it_goes() {
    let program = Program::build(MEMORY, &["-O1"]);
    let mut process = program.spawn();
    let place = trace(&mut process, &program, "place");
    let pointer = support::address(&process, &program, "pages");
    let mut seen = 0;
    let event = run_to_end(
        &mut process,
        &mut At(|_, thread: &mut dyn StoppedThread| {
            seen += 1;
            let mut first = [piece(pointer.0, 8)];
            thread.read_memory(&mut first);
            assert_eq!(first[0].filled, 8);
            let pages = u64::from_le_bytes(first[0].bytes.clone().try_into().unwrap());
            let expected = |offset: u64| (offset * 7 + offset / 4096) as u8;
            // The start, the length, and the readable part.
            let cases = [
                (0, 16, 16),
                (4, 8, 8),
                (4090, 12, 12),
                (4096 + 5, 3, 3),
                (2 * 4096 - 2, 4, 4),
                (3 * 4096 - 4, 16, 4),
                (3 * 4096, 8, 0),
                (3 * 4096 + 2000, 100, 0),
                (4 * 4096, 8, 8),
                (4 * 4096 - 8, 16, 0),
                (100, 2 * 4096, 2 * 4096),
                (4096 - 1, 2 * 4096 + 1 + 100, 2 * 4096 + 1),
                (8, 0, 0),
            ];
            let mut pieces: Vec<MemoryRead> = cases
                .iter()
                .map(|(offset, length, _)| piece(pages + offset, *length))
                .collect();
            // Invalid ones in between.
            pieces.insert(3, piece(0, 8));
            pieces.insert(1, piece(u64::MAX - 3, 8));
            pieces.insert(7, piece(0xdead_0000_0000_0000, 4));
            pieces.insert(9, piece(0x7fff_ffff_f000, 4));
            pieces.push(piece(place.0, 4));
            // The cpu is requested as well, which comes with the memory the second time.
            for _ in 0..2 {
                let _ = thread.cpu();
                for piece in &mut pieces {
                    piece.bytes.fill(0xee);
                    piece.filled = usize::MAX;
                }
                thread.read_memory(&mut pieces);
                let mut good = 0;
                for piece in &pieces {
                    let offset = piece.address.0.wrapping_sub(pages);
                    let case = cases
                        .iter()
                        .find(|case| case.0 == offset && case.1 == piece.bytes.len());
                    let Some((_, _, filled)) = case else { continue };
                    good += 1;
                    assert_eq!(piece.filled, *filled, "{case:?}");
                    for (index, byte) in piece.bytes[..piece.filled].iter().enumerate() {
                        assert_eq!(*byte, expected(offset + index as u64), "{case:?} {index}");
                    }
                }
                assert_eq!(good, cases.len());
                let wild = pieces.iter().filter(|piece| {
                    [0, u64::MAX - 3, 0xdead_0000_0000_0000, 0x7fff_ffff_f000]
                        .contains(&piece.address.0)
                });
                assert!(wild.into_iter().all(|piece| piece.filled == 0));
                let code = pieces.last().unwrap();
                assert_eq!(code.filled, 4);
                assert!(!code.bytes.contains(&0xcc), "{code:?}");
            }
            false
        }),
    );
    assert_eq!((event, seen), (Event::Exited(0), 1));
}

/// Runs on one cpu after the other, and records which.
const CPUS: &str = r#"
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
int cpu;
static long narrow;
__attribute__((noinline)) void place(void) { __asm__ volatile("" ::: "memory"); }
int main(int argc, char **argv) {
    cpu_set_t all, one, now;
    sched_getaffinity(0, sizeof all, &all);
    for (int round = 0; round < 20; round++)
        for (cpu = 0; cpu < CPU_SETSIZE; cpu++) {
            if (!CPU_ISSET(cpu, &all)) continue;
            CPU_ZERO(&one); CPU_SET(cpu, &one);
            sched_setaffinity(0, sizeof one, &one);
            for (int i = 0; i < 10; i++) place();
            sched_getaffinity(0, sizeof now, &now);
            narrow += !CPU_EQUAL(&now, &one);
        }
    sched_setaffinity(0, sizeof all, &all);
    cpu = -1;
    long passing = 0, children = 0;
    for (int i = 0; i < 2000; i++) {
        place(); sched_getaffinity(0, sizeof now, &now); passing += !CPU_EQUAL(&now, &all);
        if (i % 20) continue;
        pid_t pid = fork();
        if (!pid) { sched_getaffinity(0, sizeof now, &now); _exit(!CPU_EQUAL(&now, &all)); }
        int status; waitpid(pid, &status, 0); children += status != 0;
    }
    FILE *results = fopen(argv[1], "w"); fprintf(results, "wrong %ld\npassing %ld\nchildren %ld\n", narrow, passing, children); fclose(results);
    return 0;
}
"#;

#[test]
fn the_cpu_is_the_one_it_ran_on_and_its_affinity_is_its_own() {
    for (compiler, flags) in [("cc", &["-O1"][..]), ("musl-gcc", &["-O1", "-static"])] {
        if std::process::Command::new(compiler)
            .arg("--version")
            .output()
            .is_err()
        {
            continue;
        }
        let program = Program::build_with(compiler, "program.c", CPUS, flags);
        let mut process = program.spawn();
        trace(&mut process, &program, "place");
        let cpu = support::address(&process, &program, "cpu");
        let (mut seen, mut last) = (0, 0);
        let event = run_to_end(
            &mut process,
            &mut At(|_, thread: &mut dyn StoppedThread| {
                let mut pieces = [piece(cpu.0, 4)];
                thread.read_memory(&mut pieces);
                let wanted = i32::from_le_bytes(pieces[0].bytes.clone().try_into().unwrap());
                if let Ok(wanted) = u32::try_from(wanted) {
                    assert_eq!(thread.cpu(), wanted);
                    seen += 1;
                }
                let now = thread.timestamp();
                assert!(now >= last && now > 1_700_000_000_000_000);
                assert_eq!(thread.timestamp(), now);
                last = now;
                false
            }),
        );
        assert_eq!(event, Event::Exited(0));
        assert!(seen >= 200);
        let results = program.results();
        assert_eq!(
            (results["wrong"], results["children"]),
            (0, 0),
            "{compiler} {results:?}"
        );
        // How often the narrowed mask was seen depends on the scheduler and is not asserted.
    }
}

/// A function of a few instructions, with a system call and a call of a traced function.
const STEPPED: &str = r#"
#include <pthread.h>
#include <stdio.h>
static volatile long total;
static volatile int stop;
__attribute__((noinline)) long inner(long value) { return value + 1; }
__attribute__((noinline)) long place(long value) {
    long result;
    __asm__ volatile("mov $110, %%eax\nsyscall" : "=a"(result) : : "rcx", "r11", "memory");
    return inner(value) * 2;
}
static void *other(void *unused) { while (!stop) inner(1); return unused; }
int main(int argc, char **argv) {
    pthread_t thread;
    pthread_create(&thread, 0, other, 0);
    for (int i = 0; i < 20; i++) total += place(i);
    stop = 1;
    pthread_join(thread, 0);
    FILE *results = fopen(argv[1], "w"); fprintf(results, "total %ld\n", total); fclose(results);
    return 0;
}
"#;

const LOADS_FLAGS: &str = r#"
__attribute__((noinline)) int place(int n) {
    __asm__ volatile("pushfq\n popfq\n nop\n nop\n" ::: "memory", "cc");
    return n + 1;
}
int main(void) {
    int n = 0;
    for (int i = 0; i < 4; i++) n = place(n);
    return n;
}
"#;

/// The kernel takes the trap flag of steps after such an instruction for the program's.
#[test]
fn steps_over_an_instruction_that_loads_the_flags_leave_no_trap_flag() {
    let program = Program::build(LOADS_FLAGS, &["-O1", "-mno-red-zone"]);
    for steps in 1..=5 {
        let mut process = program.spawn();
        let place = trace(&mut process, &program, "place");
        let mut left = 0;
        let event = run_to_end(
            &mut process,
            &mut At(|hit, _: &mut dyn StoppedThread| {
                left = match hit {
                    Hit::Tracepoint(address) => {
                        assert_eq!(address, place);
                        steps
                    }
                    Hit::Step(_) => left - 1,
                    Hit::Write { .. } => panic!("nothing is watched"),
                };
                left > 0
            }),
        );
        assert_eq!(event, Event::Exited(4), "{steps} steps");
    }
}

#[test]
fn steps_follow_the_program_and_only_its_thread() {
    const STEPS: u32 = 12;
    const RIP: RegisterNumber = RegisterNumber(16);
    let program = Program::build(STEPPED, &["-O1"]);
    let mut process = program.spawn();
    let place = trace(&mut process, &program, "place");
    let inner = trace(&mut process, &program, "inner");
    let mut left: HashMap<u32, u32> = HashMap::new();
    let mut paths: Vec<Vec<u64>> = Vec::new();
    let mut inner_by_stepper = 0;
    let event = run_to_end(
        &mut process,
        &mut At(|hit, thread: &mut dyn StoppedThread| {
            let id = thread.id().0;
            let rip = thread.register(RIP).unwrap();
            match hit {
                Hit::Tracepoint(address) if address == place => {
                    left.insert(id, STEPS);
                    paths.push(vec![rip]);
                }
                Hit::Tracepoint(address) => {
                    assert_eq!(address, inner);
                    if left.get(&id).is_some_and(|left| *left > 0) {
                        inner_by_stepper += 1;
                        assert_eq!(paths.last().unwrap().last(), Some(&rip));
                    }
                }
                Hit::Step(_) => {
                    let left = left.get_mut(&id).unwrap();
                    *left -= 1;
                    paths.last_mut().unwrap().push(rip);
                }
                Hit::Write { .. } => panic!("nothing is watched"),
            }
            left.get(&id).is_some_and(|left| *left > 0)
        }),
    );
    assert_eq!(event, Event::Exited(0));
    assert_eq!(
        program.results()["total"],
        (0..20).map(|i| (i + 1) * 2).sum::<i64>()
    );
    assert_eq!(paths.len(), 20);
    assert_eq!(inner_by_stepper, 20);
    let first = &paths[0];
    assert_eq!(first.len(), STEPS as usize + 1);
    assert!(first.contains(&inner.0));
    assert!(paths.iter().all(|path| path == first), "{paths:x?}");
}

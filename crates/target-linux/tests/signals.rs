//! Signals reach the program as they would without a tracer, while its threads are hit.

mod support;

use support::{Counter, Program, run_to_end, trace};
use tracewire_experiment::{Hit, HitHandler, Outcome, StoppedThread};
use tracewire_target_linux::Event;

/// Loops over sites of each kind while a timer interrupts it as fast as it can. The handler checks that the interrupted
/// thread was in the program's own code and that the description of the signal is true.
const TIMER: &str = r#"
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
extern char __executable_start, etext;
static volatile long signals, strange, queued, wrong;
static char from[64] = "some text to be copied, again and again", to[64];
static timer_t timer;
/* One expiry at a time: on a busy machine a timer that goes on by itself would leave time for nothing else. */
static const struct itimerspec soon = { { 0, 0 }, { 0, 50000 } };
static void on_timer(int number, siginfo_t *info, void *context) {
    unsigned long rip = ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
    if (rip < (unsigned long)&__executable_start || rip >= (unsigned long)&etext) strange++;
    if (number != SIGRTMIN || info->si_signo != SIGRTMIN || info->si_code != SI_TIMER) wrong++;
    if (info->si_value.sival_int != 4711) wrong++;
    signals++;
    timer_settime(timer, 0, &soon, 0);
}
static void on_queued(int number, siginfo_t *info, void *context) {
    if (info->si_code != SI_QUEUE || info->si_value.sival_int != queued || info->si_pid != getpid()) wrong++;
    queued++;
}
__attribute__((noinline)) long callee(long value) { __asm__ volatile("" : "+r"(value)); return value + 1; }
int main(int argc, char **argv) {
    struct sigaction action = { .sa_sigaction = on_timer, .sa_flags = SA_SIGINFO | SA_RESTART };
    sigaction(SIGRTMIN, &action, 0);
    action.sa_sigaction = on_queued;
    sigaction(SIGRTMIN + 1, &action, 0);
    struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN, .sigev_value.sival_int = 4711 };
    timer_create(CLOCK_MONOTONIC, &event, &timer);
    timer_settime(timer, 0, &soon, 0);
    long sum = 0, rounds = 0, bad_return = 0;
    while (rounds < 3000) {
        long result, count = 40; char *source = from, *target = to;
        __asm__ volatile(".globl plain\nplain: addq $3, %0" : "+r"(sum));
        __asm__ volatile("mov $110, %%eax\n.globl kernel\nkernel: syscall" : "=a"(result) : : "rcx", "r11", "memory");
        if (result != getppid()) bad_return++;
        __asm__ volatile(".globl string\nstring: rep movsb" : "+c"(count), "+S"(source), "+D"(target) : : "memory");
        if (count || memcmp(from, to, 40)) bad_return++;
        result = rounds;
        __asm__ volatile("mov %0, %%rdi\nsub $128, %%rsp\n.globl calls\ncalls: call callee\nadd $128, %%rsp\nmov %%rax, %0" : "+r"(result) : : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "memory", "cc");
        if (result != rounds + 1) bad_return++;
        if (rounds % 100 == 0) { union sigval value = { .sival_int = (int)queued }; sigqueue(getpid(), SIGRTMIN + 1, value); }
        rounds++;
    }
    action.sa_handler = SIG_IGN;
    sigaction(SIGRTMIN, &action, 0);
    FILE *results = fopen(argv[1], "w");
    fprintf(results, "sum %ld\nrounds %ld\nsignals %ld\nstrange %ld\nwrong %ld\nbad %ld\nqueued %ld\n", sum, rounds, signals, strange, wrong, bad_return, queued);
    fclose(results);
    return 0;
}
"#;

#[test]
fn a_fast_timer_interrupts_hits_of_every_kind() {
    let program = Program::build(TIMER, &["-O1", "-static", "-no-pie"]);
    let mut process = program.spawn();
    let sites = ["plain", "kernel", "string", "calls", "callee"]
        .map(|name| (name, trace(&mut process, &program, name)));
    let mut counter = Counter::default();
    assert_eq!(run_to_end(&mut process, &mut counter), Event::Exited(0));
    let results = program.results();
    assert!(results["signals"] > 100, "{results:?}");
    for name in ["strange", "wrong", "bad"] {
        assert_eq!(results[name], 0, "{name}: {results:?}");
    }
    assert_eq!(results["sum"], 9000);
    assert_eq!(results["queued"], 30);
    for (name, site) in sites {
        assert_eq!(counter.at(site), 3000, "{name}");
    }
}

/// Each site faults the first time; the handler checks the description of the signal and repairs the cause.
const FAULTS: &str = r#"
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <ucontext.h>
extern char load, divide, undefined, calls, own;
static volatile long good, bad;
static char *page;
static unsigned long stack;
static void handler(int number, siginfo_t *info, void *context) {
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    char *rip = (char *)registers[REG_RIP];
    int right = 0;
    if (number == SIGSEGV && rip == &load) {
        right = info->si_addr == page + 8;
        mprotect(page, 4096, PROT_READ | PROT_WRITE);
    } else if (number == SIGSEGV && rip == &calls) {
        right = info->si_addr == (void *)16 && registers[REG_RSP] == (greg_t)stack;
        registers[REG_RIP] += 3;
    } else if (number == SIGFPE && rip == &divide) {
        right = info->si_addr == &divide;
        registers[REG_RCX] = 7;
    } else if (number == SIGILL && rip == &undefined) {
        right = info->si_addr == &undefined;
        registers[REG_RIP] += 2;
    } else if (number == SIGTRAP && rip == &own + 1) {
        right = info->si_code == SI_KERNEL;
    }
    if (right) good++; else bad++;
}
__attribute__((noinline)) static void trap(void) { __asm__ volatile(".globl own\nown: int3"); }
int main(int argc, char **argv) {
    page = mmap(0, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct sigaction action = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO };
    sigaction(SIGSEGV, &action, 0); sigaction(SIGFPE, &action, 0); sigaction(SIGILL, &action, 0); sigaction(SIGTRAP, &action, 0);
    long value, quotient;
    __asm__ volatile(".globl load\nload: mov 8(%1), %0" : "=r"(value) : "r"(page) : "memory");
    __asm__ volatile("mov $70, %%eax\nxor %%edx, %%edx\nxor %%ecx, %%ecx\n.globl divide\ndivide: div %%rcx" : "=a"(quotient) : : "rcx", "rdx");
    __asm__ volatile(".globl undefined\nundefined: ud2");
    __asm__ volatile("mov %%rsp, %0\nxor %%eax, %%eax\n.globl calls\ncalls: call *16(%%rax)" : "=m"(stack) : : "rax", "memory");
    for (int i = 0; i < 3; i++) trap();
    FILE *results = fopen(argv[1], "w");
    fprintf(results, "good %ld\nbad %ld\nquotient %ld\n", good, bad, quotient);
    fclose(results);
    return 0;
}
"#;

#[test]
fn a_fault_of_a_displaced_instruction_is_seen_where_it_belongs() {
    for flags in [&["-O1"][..], &["-O1", "-no-pie"]] {
        let program = Program::build(FAULTS, flags);
        let mut process = program.spawn();
        let sites = ["load", "divide", "undefined", "calls", "own"]
            .map(|name| trace(&mut process, &program, name));
        let mut counter = Counter::default();
        assert_eq!(run_to_end(&mut process, &mut counter), Event::Exited(0));
        let results = program.results();
        assert_eq!((results["good"], results["bad"]), (7, 0), "{results:?}");
        assert_eq!(results["quotient"], 10);
        // An instruction that is executed again after its fault reaches its tracepoint again.
        assert_eq!(sites.map(|site| counter.at(site)), [2, 2, 1, 1, 3]);
    }
}

#[test]
fn faults_are_the_same_while_stepping() {
    struct Stepper(u64);
    impl HitHandler for Stepper {
        fn hit(&mut self, hit: Hit, _: &mut dyn StoppedThread) -> Outcome {
            self.0 += u64::from(matches!(hit, Hit::Step(_)));
            Outcome {
                step: self.0 < 3000,
                run_ended: false,
            }
        }
    }
    let program = Program::build(FAULTS, &["-O1"]);
    let mut process = program.spawn();
    for name in ["main", "load", "divide", "undefined", "calls", "own"] {
        trace(&mut process, &program, name);
    }
    let mut stepper = Stepper(0);
    assert_eq!(run_to_end(&mut process, &mut stepper), Event::Exited(0));
    assert!(stepper.0 >= 3000);
    let results = program.results();
    assert_eq!((results["good"], results["bad"]), (7, 0), "{results:?}");
}

/// Reads from a pipe in its own system call instruction, with a tracepoint on it, interrupted by signals with and
/// without a restart.
const RESTARTS: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
static volatile long handled;
static int go[2], done[2];
static pthread_t reader;
static void handler(int number) { handled++; char c = 0; write(done[1], &c, 1); }
__attribute__((noinline)) static long own_read(int fd, char *to) {
    long result;
    __asm__ volatile(".globl kernel\nkernel: syscall" : "=a"(result) : "a"(0), "D"(fd), "S"(to), "d"(1) : "rcx", "r11", "memory");
    return result;
}
static void *sender(void *unused) {
    char c;
    for (int i = 0; i < 20; i++) {
        /* Wait until the reader sleeps in its read, then signal it, and wait until it has been handled. */
        char path[64], state; snprintf(path, sizeof path, "/proc/self/task/%d/stat", getpid());
        do { FILE *f = fopen(path, "r"); fscanf(f, "%*d (%*[^)]) %c", &state); fclose(f); } while (state != 'S');
        pthread_kill(reader, i % 2 ? SIGUSR1 : SIGUSR2);
        read(done[0], &c, 1);
    }
    write(go[1], "x", 1);
    return 0;
}
int main(int argc, char **argv) {
    pipe(go); pipe(done);
    reader = pthread_self();
    struct sigaction action = { .sa_handler = handler, .sa_flags = SA_RESTART };
    sigaction(SIGUSR1, &action, 0);
    action.sa_flags = 0;
    sigaction(SIGUSR2, &action, 0);
    pthread_t thread;
    pthread_create(&thread, 0, sender, 0);
    long interrupted = 0, result; char c = 0;
    while ((result = own_read(go[0], &c)) == -EINTR) interrupted++;
    pthread_join(thread, 0);
    FILE *results = fopen(argv[1], "w");
    fprintf(results, "handled %ld\ninterrupted %ld\nresult %ld\nbyte %d\n", handled, interrupted, result, c);
    fclose(results);
    return 0;
}
"#;

#[test]
fn a_traced_system_call_is_restarted_or_not_as_the_signal_wants() {
    let program = Program::build(RESTARTS, &["-O1"]);
    let mut process = program.spawn();
    let kernel = trace(&mut process, &program, "kernel");
    let mut counter = Counter::default();
    assert_eq!(run_to_end(&mut process, &mut counter), Event::Exited(0));
    let results = program.results();
    assert_eq!(results["handled"], 20);
    assert_eq!(results["interrupted"], 10);
    assert_eq!((results["result"], results["byte"]), (1, i64::from(b'x')));
    // Once for each call that the program makes, restarted ones not counted again.
    assert_eq!(counter.at(kernel), 11);
}

/// Waits in its own system call instruction until it gets a byte.
const WAITS: &str = r#"
#include <stdio.h>
#include <unistd.h>
__attribute__((noinline)) static long own_read(char *to) {
    long result;
    __asm__ volatile(".globl kernel\nkernel: syscall" : "=a"(result) : "a"(0), "D"(0), "S"(to), "d"(1) : "rcx", "r11", "memory");
    return result;
}
int main(int argc, char **argv) {
    char c = 0;
    puts("ready"); fflush(stdout);
    long result = own_read(&c);
    FILE *results = fopen(argv[1], "w");
    fprintf(results, "result %ld\nbyte %d\n", result, c);
    fclose(results);
    return 0;
}
"#;

#[test]
fn a_thread_that_waits_in_a_traced_system_call_is_left_waiting_there() {
    for detach_while_waiting in [true, false] {
        let program = Program::build(WAITS, &["-O1"]);
        let mut process = program.start();
        let mut ready = [0; 6];
        std::io::Read::read_exact(process.stdout.as_mut().unwrap(), &mut ready).unwrap();
        let id = tracewire_model::ThreadId(process.id());
        // Before it has reached its read, or while it is already there: both must work.
        let settings = tracewire_target_linux::Settings::default();
        let mut traced = tracewire_target_linux::Process::attach(id, settings).unwrap();
        let kernel = trace(&mut traced, &program, "kernel");
        let asleep = || {
            let path = format!("/proc/{}/syscall", id.0);
            std::fs::read_to_string(path).is_ok_and(|call| call.starts_with("0 0x0 "))
        };
        let interrupter = traced.interrupter();
        let mut counter = Counter::default();
        for _ in 0..3 {
            let event = std::thread::scope(|scope| {
                scope.spawn(|| {
                    while !asleep() {
                        std::thread::yield_now();
                    }
                    interrupter.interrupt();
                });
                loop {
                    match traced.run(&mut counter).unwrap() {
                        Event::LibrariesChanged => {}
                        event => break event,
                    }
                }
            });
            assert_eq!(event, Event::Interrupted);
            // The copy that it waits in is removed and made again.
            tracewire_experiment::Target::remove(&mut traced, kernel).unwrap();
            tracewire_experiment::Target::insert(&mut traced, kernel).unwrap();
        }
        let mut input = process.stdin.take().unwrap();
        if detach_while_waiting {
            traced.detach().unwrap();
            std::io::Write::write_all(&mut input, b"y").unwrap();
            assert!(process.wait().unwrap().success());
        } else {
            std::io::Write::write_all(&mut input, b"y").unwrap();
            assert_eq!(run_to_end(&mut traced, &mut counter), Event::Exited(0));
            // The tracer has already reaped it.
            let _ = process.wait();
        }
        assert_eq!(program.results()["result"], 1);
        assert_eq!(program.results()["byte"], i64::from(b'y'));
        assert!(counter.at(kernel) <= 1 + 3);
    }
}

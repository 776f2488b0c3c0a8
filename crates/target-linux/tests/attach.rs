//! Attaching to a running program, and leaving it unchanged.

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};

use support::pads::counting;
use support::watchdog::Watchdog;
use support::{Counter, Program, address, piece, run_to_end, trace};
use tracewire_experiment::{Hit, HitHandler, Outcome, StoppedThread, Target};
use tracewire_model::ThreadId;
use tracewire_target_linux::{Error, Event, Process, Settings};

fn attach(child: &Child) -> Process {
    Process::attach(ThreadId(child.id()), Settings::default()).unwrap()
}

/// Waits for a line of the child's output.
fn line(child: &mut Child) -> String {
    let mut line = Vec::new();
    let mut byte = [0];
    let output = child.stdout.as_mut().unwrap();
    while output.read(&mut byte).unwrap() == 1 && byte[0] != b'\n' {
        line.push(byte[0]);
    }
    String::from_utf8(line).unwrap()
}

/// Ends the run after this many hits.
struct EndAfter(u64);

impl HitHandler for EndAfter {
    fn hit(&mut self, _: Hit, _: &mut dyn StoppedThread) -> Outcome {
        self.0 = self.0.saturating_sub(1);
        Outcome {
            step: self.0 % 3 == 1,
            run_ended: self.0 == 0,
        }
    }
}

/// Four threads compute a checksum each, over a traced function, with signals now and then.
const BUSY: &str = r#"
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>
static volatile int stop;
static long alarms;
static char tables[4][64];
__attribute__((noinline)) unsigned long mix(unsigned long sum, unsigned long value) { return (sum ^ value) * 1099511628211ul; }
__attribute__((noinline)) unsigned long through(unsigned long sum, unsigned long value) { return mix(sum, value) + 1; }
static void on_alarm(int number) { alarms++; through(1, 2); }
struct result { unsigned long sum, rounds; };
static void *work(void *argument) {
    struct result *result = argument;
    do {
        for (int i = 0; i < 64; i++) result->sum = through(result->sum, result->rounds + i);
        result->rounds++;
    } while (!stop);
    return 0;
}
int main(int argc, char **argv) {
    pthread_t threads[4];
    struct result results[4] = { { 1 }, { 2 }, { 3 }, { 4 } };
    signal(SIGALRM, on_alarm);
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], 0, work, &results[i]);
    struct itimerval often = { { 0, 1000 }, { 0, 1000 } }, never = { { 0 } };
    setitimer(ITIMER_REAL, &often, 0);
    puts("ready"); fflush(stdout);
    char c;
    while (read(0, &c, 1) < 0) ;
    setitimer(ITIMER_REAL, &never, 0);
    stop = 1;
    long right = 0;
    for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
    for (int i = 0; i < 4; i++) {
        unsigned long sum = i + 1;
        for (unsigned long round = 0; round < results[i].rounds; round++)
            for (int j = 0; j < 64; j++) sum = through(sum, round + j);
        right += sum == results[i].sum;
    }
    FILE *file = fopen(argv[1], "w");
    fprintf(file, "right %ld\nalarms %ld\n", right, alarms);
    fclose(file);
    return 0;
}
"#;

#[test]
fn two_hundred_visits_leave_a_busy_program_right() {
    let program = Program::build(BUSY, &["-O1"]);
    let mut child = program.start();
    assert_eq!(line(&mut child), "ready");
    let maps = || {
        let text = std::fs::read_to_string(format!("/proc/{}/maps", child.id())).unwrap();
        // The heap of a thread may appear meanwhile; mappings with code may not.
        text.lines()
            .filter(|line| line.contains(" r-xp "))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let before = maps();
    for visit in 0..200 {
        let mut process = attach(&child);
        assert!(process.threads().count() >= 5);
        trace(&mut process, &program, "mix");
        if visit % 2 == 0 {
            trace(&mut process, &program, "through");
        }
        let event = process.run(&mut EndAfter(visit % 17 + 1)).unwrap();
        assert_eq!(event, Event::RunEnded);
        // Every other one is detached by a drop.
        if visit % 4 < 2 {
            process.detach().unwrap();
        }
    }
    assert_eq!(maps(), before);
    child.stdin.take().unwrap().write_all(b"x").unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(program.results()["right"], 4);
}

#[test]
fn an_interruption_from_another_thread_ends_the_run() {
    let program = Program::build(BUSY, &["-O1"]);
    let mut child = program.start();
    assert_eq!(line(&mut child), "ready");
    for round in 0..20 {
        let mut process = attach(&child);
        if round % 2 == 0 {
            trace(&mut process, &program, "mix");
        }
        let interrupter = process.interrupter();
        let event = std::thread::scope(|scope| {
            scope.spawn(move || interrupter.interrupt());
            process.run(&mut Counter::default()).unwrap()
        });
        assert_eq!(event, Event::Interrupted);
    }
    child.stdin.take().unwrap().write_all(b"x").unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(program.results()["right"], 4);
}

#[test]
fn tracepoints_come_and_go_while_threads_are_at_them() {
    let program = Program::build(BUSY, &["-O1"]);
    let mut child = program.start();
    assert_eq!(line(&mut child), "ready");
    let mut process = attach(&child);
    let mix = trace(&mut process, &program, "mix");
    let through = trace(&mut process, &program, "through");
    for round in 0..100 {
        assert_eq!(
            process.run(&mut EndAfter(round % 7 + 1)).unwrap(),
            Event::RunEnded
        );
        for place in [mix, through] {
            process.remove(place).unwrap();
        }
        if round % 3 == 0 {
            process.insert(through).unwrap();
        }
        process.insert(mix).unwrap();
        process.insert(through).unwrap();
    }
    process.detach().unwrap();
    child.stdin.take().unwrap().write_all(b"x").unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(program.results()["right"], 4);
}

/// One thread sleeps in each kind of wait, and counts how often that was interrupted.
const BLOCKED: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static long cut_short, failed;
static int pipes[8][2], word;
static pthread_barrier_t barrier;
static sigset_t wanted;
static int semaphore;
static void note(long result) { if (result < 0) { if (errno == EINTR) __sync_fetch_and_add(&cut_short, 1); else __sync_fetch_and_add(&failed, 1); } }
static void *reading(void *u) { char c; pthread_barrier_wait(&barrier); note(read(pipes[0][0], &c, 1)); return u; }
static void *polling(void *u) { struct pollfd fd = { pipes[1][0], POLLIN, 0 }; pthread_barrier_wait(&barrier); note(poll(&fd, 1, 100000)); return u; }
static void *selecting(void *u) { fd_set set; FD_ZERO(&set); FD_SET(pipes[2][0], &set); struct timespec t = { 100, 0 }; pthread_barrier_wait(&barrier); note(pselect(pipes[2][0] + 1, &set, 0, 0, &t, &wanted)); return u; }
static void *epolling(void *u) { int e = epoll_create1(0); struct epoll_event event = { .events = EPOLLIN }; epoll_ctl(e, EPOLL_CTL_ADD, pipes[3][0], &event); pthread_barrier_wait(&barrier); note(epoll_wait(e, &event, 1, 100000)); return u; }
static void *futexing(void *u) {
    struct timespec t = { 100, 0 };
    pthread_barrier_wait(&barrier);
    long result = syscall(SYS_futex, &word, FUTEX_WAIT, 0, &t, 0, 0);
    /* Let go, it waits again, unless the word has changed by then. */
    note(result < 0 && errno == EAGAIN && word ? 0 : result);
    return u;
}
static void *sleeping(void *u) { struct timespec t = { 0, 700000000 }; pthread_barrier_wait(&barrier); note(clock_nanosleep(CLOCK_MONOTONIC, 0, &t, 0) ? -1 : 0); return u; }
static void *waiting(void *u) { pthread_barrier_wait(&barrier); note(sigwaitinfo(&wanted, 0)); return u; }
static void *decrementing(void *u) { struct sembuf down = { 0, -1, 0 }; pthread_barrier_wait(&barrier); note(semop(semaphore, &down, 1)); return u; }
__attribute__((noinline)) void place(void) { __asm__ volatile("" ::: "memory"); }
int main(int argc, char **argv) {
    void *(*kinds[])(void *) = { reading, polling, selecting, epolling, futexing, sleeping, waiting, decrementing };
    int count = sizeof kinds / sizeof *kinds;
    pthread_t threads[16];
    sigemptyset(&wanted); sigaddset(&wanted, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &wanted, 0);
    semaphore = semget(IPC_PRIVATE, 1, 0600);
    for (int i = 0; i < 8; i++) pipe(pipes[i]);
    pthread_barrier_init(&barrier, 0, count + 1);
    for (int i = 0; i < count; i++) pthread_create(&threads[i], 0, kinds[i], 0);
    pthread_barrier_wait(&barrier);
    puts("ready"); fflush(stdout);
    char c;
    note(read(0, &c, 1));
    place();
    for (int i = 0; i < 8; i++) write(pipes[i][1], "x", 1);
    word = 1; syscall(SYS_futex, &word, FUTEX_WAKE, 1, 0, 0, 0);
    kill(getpid(), SIGUSR1);
    struct sembuf up = { 0, 1, 0 };
    semop(semaphore, &up, 1);
    for (int i = 0; i < count; i++) pthread_join(threads[i], 0);
    semctl(semaphore, 0, IPC_RMID);
    FILE *results = fopen(argv[1], "w"); fprintf(results, "short %ld\nfailed %ld\n", cut_short, failed); fclose(results);
    return 0;
}
"#;

/// Waits until all threads of the child sleep.
fn all_sleep(child: &Child) {
    let asleep = || {
        std::fs::read_dir(format!("/proc/{}/task", child.id()))
            .unwrap()
            .all(|task| {
                std::fs::read_to_string(task.unwrap().path().join("stat")).is_ok_and(|stat| {
                    stat.rsplit(')')
                        .next()
                        .unwrap()
                        .trim_start()
                        .starts_with('S')
                })
            })
    };
    while !asleep() {
        std::thread::yield_now();
    }
}

#[test]
fn a_program_that_waits_does_not_notice() {
    let program = Program::build(BLOCKED, &["-O1"]);
    let mut child = program.start();
    assert_eq!(line(&mut child), "ready");
    for visit in 0..10 {
        all_sleep(&child);
        let mut process = attach(&child);
        // Makes the process map memory, through one of the waiting threads.
        trace(&mut process, &program, "place");
        if visit % 2 == 0 {
            let interrupter = process.interrupter();
            interrupter.interrupt();
            assert_eq!(
                process.run(&mut Counter::default()).unwrap(),
                Event::Interrupted
            );
            let event = std::thread::scope(|scope| {
                scope.spawn(move || interrupter.interrupt());
                process.run(&mut Counter::default()).unwrap()
            });
            assert_eq!(event, Event::Interrupted);
        }
        process.detach().unwrap();
    }
    child.stdin.take().unwrap().write_all(b"x").unwrap();
    assert!(child.wait().unwrap().success());
    let results = program.results();
    assert_eq!((results["short"], results["failed"]), (0, 0), "{results:?}");
}

#[test]
fn a_forgotten_interruption_ends_no_run() {
    let program = Program::build(BLOCKED, &["-O1"]);
    let mut child = program.start();
    assert_eq!(line(&mut child), "ready");
    let mut process = attach(&child);
    process.interrupter().interrupt();
    process.forget_interruption();
    child.stdin.take().unwrap().write_all(b"x").unwrap();
    let event = process.run(&mut Counter::default()).unwrap();
    assert_eq!(event, Event::Exited(0));
}

/// SIGCONT follows each SIGSTOP at once, and the next pair of them when the program has gone on. Whatever the tracer does with a thread
/// that is about to stop, the program goes on.
#[test]
fn a_program_that_is_continued_as_soon_as_it_is_stopped_goes_on() {
    let _watchdog = Watchdog::start("a program that is stopped and continued");
    let program = Program::build(
        r#"
        #include <fcntl.h>
        #include <signal.h>
        #include <stdio.h>
        #include <sys/mman.h>
        #include <unistd.h>
        static volatile sig_atomic_t over;
        static void end(int signal) { over = 1; }
        __attribute__((noinline)) long next(long round) { return round + 1; }
        __attribute__((noinline)) long through(long round) { return next(round); }
        int main(int argc, char **argv) {
            int file = open(argv[1], O_RDWR | O_CREAT, 0600);
            if (ftruncate(file, 4096)) return 2;
            volatile long *round = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
            signal(SIGUSR1, end);
            puts("ready");
            fflush(stdout);
            while (!over) *round = through(*round);
            return 0;
        }
        "#,
        &["-O1"],
    );
    let mut child = program.start();
    assert_eq!(line(&mut child), "ready");
    let pid = nix::unistd::Pid::from_raw(child.id().cast_signed());
    let send = |signal| nix::sys::signal::kill(pid, signal).unwrap();
    let round = || {
        let bytes = std::fs::read(program.results_path()).unwrap();
        i64::from_ne_bytes(*bytes.first_chunk().unwrap())
    };
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Acquire) {
                send(nix::sys::signal::SIGSTOP);
                send(nix::sys::signal::SIGCONT);
                let before = round();
                while round() == before {
                    std::thread::yield_now();
                }
            }
        });
        for visit in 0..100 {
            let mut process = attach(&child);
            trace(&mut process, &program, "next");
            if visit % 2 == 0 {
                let memory = process.share_memory_of(4096).unwrap();
                let site = address(&process, &program, "through");
                process.insert_code(site, counting(&memory, 0)).unwrap();
            }
            let event = process.run(&mut EndAfter(20)).unwrap();
            assert_eq!(event, Event::RunEnded, "visit {visit}");
            process.detach().unwrap();
        }
        is_over.store(true, Ordering::Release);
    });
    send(nix::sys::signal::SIGUSR1);
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_stopped_program_stays_stopped_and_a_continued_one_goes_on() {
    let program = Program::build(BUSY, &["-O1"]);
    let mut child = program.start();
    assert_eq!(line(&mut child), "ready");
    let pid = nix::unistd::Pid::from_raw(child.id() as i32);
    let state = |pid: nix::unistd::Pid| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat.rsplit(')')
            .next()
            .unwrap()
            .trim_start()
            .chars()
            .next()
            .unwrap()
    };
    let wait_for_state = |wanted: char| {
        while state(pid) != wanted {
            std::thread::yield_now();
        }
    };
    nix::sys::signal::kill(pid, nix::sys::signal::SIGSTOP).unwrap();
    wait_for_state('T');
    // Stopped before, and left stopped.
    let mut process = attach(&child);
    trace(&mut process, &program, "mix");
    let interrupter = process.interrupter();
    let event = std::thread::scope(|scope| {
        scope.spawn(move || interrupter.interrupt());
        process.run(&mut Counter::default()).unwrap()
    });
    assert_eq!(event, Event::Interrupted);
    process.detach().unwrap();
    wait_for_state('T');
    // Continued while it is traced: hits come.
    let mut process = attach(&child);
    trace(&mut process, &program, "mix");
    let event = std::thread::scope(|scope| {
        scope.spawn(|| nix::sys::signal::kill(pid, nix::sys::signal::SIGCONT).unwrap());
        process.run(&mut EndAfter(100)).unwrap()
    });
    assert_eq!(event, Event::RunEnded);
    // Stopped while it is traced, it is left stopped.
    let interrupter = process.interrupter();
    let event = std::thread::scope(|scope| {
        scope.spawn(|| {
            nix::sys::signal::kill(pid, nix::sys::signal::SIGSTOP).unwrap();
            wait_for_state('t');
            interrupter.interrupt();
        });
        process.run(&mut Counter::default()).unwrap()
    });
    assert_eq!(event, Event::Interrupted);
    process.detach().unwrap();
    wait_for_state('T');
    nix::sys::signal::kill(pid, nix::sys::signal::SIGCONT).unwrap();
    child.stdin.take().unwrap().write_all(b"x").unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(program.results()["right"], 4);
}

#[test]
fn a_tracepoint_is_hit_in_a_program_attached_to() {
    let program = Program::build(BLOCKED, &["-O1", "-static"]);
    let mut child = program.start();
    assert_eq!(line(&mut child), "ready");
    let mut process = attach(&child);
    let place = trace(&mut process, &program, "place");
    child.stdin.take().unwrap().write_all(b"x").unwrap();
    let mut counter = Counter::default();
    assert_eq!(run_to_end(&mut process, &mut counter), Event::Exited(0));
    assert_eq!(counter.at(place), 1);
    // The tracer has already reaped it, so its parent has no end to wait for.
    assert_eq!(program.results()["short"], 0);
}

#[test]
fn what_cannot_be_attached_to_is_said() {
    let settings = Settings::default();
    let error = |pid: u32| Process::attach(ThreadId(pid), settings).unwrap_err();
    assert!(matches!(error(std::process::id()), Error::OwnProcess(_)));
    assert!(matches!(error(0), Error::NoSuchProcess(_)));
    assert!(matches!(error(u32::MAX), Error::NoSuchProcess(_)));
    // kthreadd, where /proc shows it.
    if std::fs::read_to_string("/proc/2/comm").is_ok_and(|name| name.trim() == "kthreadd") {
        assert!(matches!(error(2), Error::KernelThread(_)), "{}", error(2));
    }
    let mut ended = std::process::Command::new("true")
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // Its output ends when it does; it is not reaped before the attempt.
    let mut rest = String::new();
    BufReader::new(ended.stdout.take().unwrap())
        .read_line(&mut rest)
        .unwrap();
    while !std::fs::read_to_string(format!("/proc/{}/stat", ended.id()))
        .unwrap()
        .contains(") Z")
    {
        std::thread::yield_now();
    }
    assert!(
        matches!(error(ended.id()), Error::Zombie(_)),
        "{}",
        error(ended.id())
    );
    ended.wait().unwrap();
    assert!(matches!(error(ended.id()), Error::NoSuchProcess(_)));

    let program = Program::build(BLOCKED, &[]);
    let mut child = program.start();
    assert_eq!(line(&mut child), "ready");
    let process = attach(&child);
    let id = child.id();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let error = Process::attach(ThreadId(id), settings).unwrap_err();
            let Error::AlreadyTraced { tracer, .. } = error else {
                panic!("{error}")
            };
            assert_eq!(tracer, ThreadId(std::process::id()));
        });
    });
    drop(process);
    child.stdin.take().unwrap().write_all(b"x").unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(program.results()["short"], 0);
}

#[test]
fn a_process_at_rest_can_be_read_and_shows_no_breakpoints() {
    let program = Program::build(BUSY, &["-O1"]);
    let mut child = program.start();
    assert_eq!(line(&mut child), "ready");
    let mut process = attach(&child);
    let mix = support::address(&process, &program, "mix");
    let mut before = [piece(mix.0, 16)];
    process.read_memory(&mut before);
    process.insert(mix).unwrap();
    let mut after = [piece(mix.0 - 5, 21), piece(mix.0, 16), piece(mix.0, 1)];
    process.read_memory(&mut after);
    assert_eq!(after[0].bytes[5..], before[0].bytes);
    assert_eq!(after[1].bytes, before[0].bytes);
    assert_eq!(after[2].bytes, before[0].bytes[..1]);
    drop(process);
    child.stdin.take().unwrap().write_all(b"x").unwrap();
    assert!(child.wait().unwrap().success());
}

const ENDING: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static volatile int over;
static void *brief(void *argument) { return argument; }
static void *until_told(void *argument) { char c; ssize_t n = read(0, &c, 1); over = 1; return argument + (n < 0); }
int main(void) {
    puts("ready"); fflush(stdout);
    pthread_t waits; pthread_create(&waits, 0, until_told, 0);
    while (!over) {
        pthread_t threads[4];
        for (int i = 0; i < 4; i++) pthread_create(&threads[i], 0, brief, 0);
        for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
    }
    pthread_join(waits, 0);
    return 0;
}
"#;

/// A thread that has begun to end cannot be detached. Its process must end all the same, while the tracer still lives.
#[test]
fn a_program_that_was_left_while_threads_ended_ends() {
    let program = Program::build(ENDING, &["-O1"]);
    let mut child = program.start();
    assert_eq!(line(&mut child), "ready");
    for visit in 0..100 {
        let mut process = attach(&child);
        let brief = trace(&mut process, &program, "brief");
        let event = process.run(&mut EndAfter(visit % 5 + 1)).unwrap();
        assert_eq!(event, Event::RunEnded);
        process.remove(brief).unwrap();
        process.detach().unwrap();
    }
    child.stdin.take().unwrap().write_all(b"x").unwrap();
    assert!(child.wait().unwrap().success());
}

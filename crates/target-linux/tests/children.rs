//! Children, threads that start and end, and exec.

mod support;

use support::{Counter, Program, address, run_to_end, trace};
use tracewire_experiment::Target;
use tracewire_target_linux::{Event, Process, Settings};

/// Makes children of every kind, each of which calls the traced function. Their exit status shows that they were not
/// killed.
const FAMILY: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
static volatile long calls;
__attribute__((noinline)) void place(void) { calls++; __asm__ volatile("" ::: "memory"); }
static char stack[65536];
static int in_clone(void *unused) { place(); return 42; }
static void *in_thread(void *unused) { place(); return unused; }
/* Forks by a system call instruction that is traced itself. */
static long own_fork(void) {
    long result;
    __asm__ volatile(".globl kernel\nkernel: syscall" : "=a"(result) : "a"(57) : "rcx", "r11", "memory");
    return result;
}
static long good(int pid, int wanted, int flags) {
    int status;
    return waitpid(pid, &status, flags) == pid && WIFEXITED(status) && WEXITSTATUS(status) == wanted;
}
int main(int argc, char **argv) {
    long forked = 0, vforked = 0, cloned = 0, shared = 0, spawned = 0, owned = 0;
    for (int i = 0; i < 50; i++) {
        place();
        pid_t pid = fork();
        if (!pid) { for (int j = 0; j < 10; j++) place(); _exit(42); }
        forked += good(pid, 42, 0);
        pid = own_fork();
        if (!pid) { place(); _exit(42); }
        owned += good(pid, 42, 0);
        pid = clone(in_clone, stack + sizeof stack, 0, 0);
        cloned += good(pid, 42, __WALL);
        pid = clone(in_clone, stack + sizeof stack, CLONE_VM | SIGCHLD, 0);
        shared += good(pid, 42, 0);
        pid = vfork();
        if (!pid) { place(); execl("/bin/true", "true", (char *)0); _exit(1); }
        vforked += good(pid, 0, 0);
        char *arguments[] = { "true", 0 };
        if (!posix_spawn(&pid, "/bin/true", 0, 0, arguments, environ)) spawned += good(pid, 0, 0);
        pthread_t threads[5];
        for (int j = 0; j < 5; j++) pthread_create(&threads[j], 0, in_thread, 0);
        for (int j = 0; j < 5; j++) pthread_join(threads[j], 0);
    }
    FILE *results = fopen(argv[1], "w");
    fprintf(results, "calls %ld\nforked %ld\nvforked %ld\ncloned %ld\nshared %ld\nspawned %ld\nowned %ld\n", calls, forked, vforked, cloned, shared, spawned, owned);
    fclose(results);
    return 0;
}
"#;

#[test]
fn children_of_every_kind_are_none_the_worse() {
    let program = Program::build(FAMILY, &["-O1"]);
    let mut process = program.spawn();
    let place = trace(&mut process, &program, "place");
    let kernel = trace(&mut process, &program, "kernel");
    let mut counter = Counter::default();
    assert_eq!(run_to_end(&mut process, &mut counter), Event::Exited(0));
    let results = program.results();
    for name in ["forked", "vforked", "cloned", "shared", "spawned", "owned"] {
        assert_eq!(results[name], 50, "{name}: {results:?}");
    }
    // Those that share the memory: the threads, and the children by vfork and by clone with it.
    assert!(
        results["calls"] <= 50 * 8 && results["calls"] > 50 * 6,
        "{results:?}"
    );
    assert_eq!(counter.at(place), 50 * 8);
    assert_eq!(counter.at(kernel), 50);
}

/// Executes itself again, sometimes from another thread than the first.
const AGAIN: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static char **arguments;
__attribute__((noinline)) void place(void) { __asm__ volatile("" ::: "memory"); }
static void *forever(void *unused) { for (;;) place(); }
static void *again(void *unused) { execv("/proc/self/exe", arguments); abort(); }
int main(int argc, char **argv) {
    int left = argc > 2 ? atoi(argv[2]) : 6;
    place();
    if (!left) {
        FILE *results = fopen(argv[1], "w"); fprintf(results, "done 1\n"); fclose(results);
        return 9;
    }
    char number[16];
    sprintf(number, "%d", left - 1);
    arguments = (char *[]){ argv[0], argv[1], number, 0 };
    if (left % 2) again(0);
    pthread_t threads[4];
    for (int i = 0; i < 3; i++) pthread_create(&threads[i], 0, forever, 0);
    pthread_create(&threads[3], 0, again, 0);
    pthread_join(threads[3], 0);
}
"#;

#[test]
fn an_exec_by_any_thread_is_reported_and_the_new_program_can_be_traced() {
    for flags in [&["-O1"][..], &["-O1", "-static"]] {
        let program = Program::build(AGAIN, flags);
        let mut process = program.spawn();
        trace(&mut process, &program, "place");
        let mut execs = 0;
        loop {
            let mut counter = Counter::default();
            match process.run(&mut counter).unwrap() {
                Event::Exec => {
                    execs += 1;
                    trace(&mut process, &program, "place");
                }
                Event::LibrariesChanged => {}
                event => {
                    assert_eq!(event, Event::Exited(9));
                    assert_eq!(counter.hits.values().sum::<u64>(), 1);
                    break;
                }
            }
        }
        assert_eq!(execs, 6);
        assert_eq!(program.results()["done"], 1);
    }
}

/// The first thread ends before the others.
const ORPHANS: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
__attribute__((noinline)) void place(void) { __asm__ volatile("" ::: "memory"); }
static pthread_t first;
static char *file;
static void *work(void *unused) {
    pthread_join(first, 0);
    for (int i = 0; i < 100; i++) place();
    FILE *results = fopen(file, "w"); fprintf(results, "done 1\n"); fclose(results);
    exit(5);
}
int main(int argc, char **argv) {
    pthread_t thread;
    file = argv[1];
    first = pthread_self();
    pthread_create(&thread, 0, work, 0);
    pthread_exit(0);
}
"#;

#[test]
fn a_process_whose_first_thread_has_ended_goes_on_being_traced() {
    let program = Program::build(ORPHANS, &["-O1"]);
    let mut process = program.spawn();
    let place = trace(&mut process, &program, "place");
    let mut counter = Counter::default();
    // Stop in the middle, after the first thread has ended, and examine the process.
    struct EndAt(u64, Counter);
    impl tracewire_experiment::HitHandler for EndAt {
        fn hit(
            &mut self,
            hit: tracewire_experiment::Hit,
            thread: &mut dyn tracewire_experiment::StoppedThread,
        ) -> tracewire_experiment::Outcome {
            self.1.hit(hit, thread);
            self.0 -= 1;
            tracewire_experiment::Outcome {
                step: false,
                run_ended: self.0 == 0,
            }
        }
    }
    let mut handler = EndAt(40, Counter::default());
    while process.run(&mut handler).unwrap() == Event::LibrariesChanged {}
    assert!(process.modules().unwrap().len() >= 3);
    process.remove(place).unwrap();
    process.insert(place).unwrap();
    assert_eq!(run_to_end(&mut process, &mut counter), Event::Exited(5));
    assert_eq!(handler.1.at(place) + counter.at(place), 100);
    assert_eq!(program.results()["done"], 1);
}

#[test]
fn the_end_is_reported_as_it_was() {
    let killed = Program::build(
        "#include <signal.h>\n#include <unistd.h>\nvoid place(void) {} int main() { place(); kill(getpid(), SIGTERM); for (;;) pause(); }",
        &[],
    );
    let mut process = killed.spawn();
    trace(&mut process, &killed, "place");
    let mut counter = Counter::default();
    let event = run_to_end(&mut process, &mut counter);
    assert_eq!(
        event,
        Event::Killed {
            signal: 15,
            core_dumped: false
        }
    );
    // A request to a process that has ended returns, and does not hang.
    assert!(process.run(&mut counter).is_err());
    assert!(process.modules().is_err());
    process.detach().unwrap();

    // Threads that end during any operation.
    let racing = Program::build(
        r#"
        #include <pthread.h>
        #include <stdlib.h>
        __attribute__((noinline)) void place(void) { __asm__ volatile("" ::: "memory"); }
        static pthread_barrier_t barrier;
        static void *work(void *number) { pthread_barrier_wait(&barrier); for (int i = 0; i < 50 || number; i++) place(); exit(3); }
        int main() {
            pthread_t thread;
            pthread_barrier_init(&barrier, 0, 4);
            for (long i = 1; i < 4; i++) pthread_create(&thread, 0, work, (void *)i);
            work(0);
        }
        "#,
        &["-O1"],
    );
    for _ in 0..20 {
        let mut process = racing.spawn();
        trace(&mut process, &racing, "place");
        assert_eq!(
            run_to_end(&mut process, &mut Counter::default()),
            Event::Exited(3)
        );
    }
}

#[test]
fn a_core_dump_shows_the_program_without_breakpoints() {
    let program = Program::build(
        r#"
        #include <stdlib.h>
        #include <sys/resource.h>
        #include <unistd.h>
        __attribute__((noinline)) void place(void) { __asm__ volatile("" ::: "memory"); }
        int main(int argc, char **argv) {
            char *slash = argv[1];
            for (char *at = argv[1]; *at; at++) if (*at == '/') slash = at;
            *slash = 0;
            chdir(argv[1]);
            struct rlimit limit;
            getrlimit(RLIMIT_CORE, &limit);
            limit.rlim_cur = limit.rlim_max;
            setrlimit(RLIMIT_CORE, &limit);
            place();
            abort();
        }
        "#,
        &["-O1", "-no-pie", "-static"],
    );
    let mut process = program.spawn();
    let place = trace(&mut process, &program, "place");
    let event = run_to_end(&mut process, &mut Counter::default());
    let Event::Killed {
        signal: 6,
        core_dumped,
    } = event
    else {
        panic!("{event:?}")
    };
    let core = std::fs::read_dir(program.directory.path())
        .unwrap()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| {
            path.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("core"))
        });
    // Cores may be stored elsewhere; then there is nothing to check.
    if let (true, Some(core)) = (core_dumped, core) {
        use object::{Object, ObjectSegment};
        let bytes = std::fs::read(core).unwrap();
        let object = object::File::parse(bytes.as_slice()).unwrap();
        let text = object.segments().find_map(|segment| {
            let offset = place.0.checked_sub(segment.address())?;
            segment
                .data()
                .ok()?
                .get(offset as usize..offset as usize + 1)
        });
        assert!(text.is_none_or(|byte| byte != [0xcc]), "{text:?}");
    }
}

#[test]
fn what_cannot_be_started_is_said() {
    let start = |name: &str| {
        Process::spawn(name, &[], Settings::default())
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        start("/no/such/program"),
        "there is no program `/no/such/program`"
    );
    assert_eq!(
        start("no-such-program"),
        "there is no program `no-such-program` on the search path (PATH)"
    );
    assert!(start("/etc/passwd").contains("may not be executed"));
    assert!(start("/etc").contains("may not be executed"));
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("text");
    std::fs::write(&file, "no program").unwrap();
    std::process::Command::new("chmod")
        .arg("+x")
        .arg(&file)
        .status()
        .unwrap();
    assert!(
        start(file.to_str().unwrap()).contains("is not a program that this machine can execute")
    );
}

/// A child by vfork, made by a traced system call, that waits for a byte before it calls exec; its parent waits in the
/// kernel for it.
const SLOW_VFORK: &str = r#"
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
static char *arguments[] = { "true", 0 };
__attribute__((noinline)) void place(void) { __asm__ volatile("" ::: "memory"); }
/* The child leaves by exec and does not return from here, so that the parent finds its stack as it was. */
__attribute__((noinline)) static long own_vfork(void) {
    long result;
    char c;
    __asm__ volatile(".globl kernel\nkernel: syscall" : "=a"(result) : "a"(58) : "rcx", "r11", "memory");
    if (!result) { place(); write(1, "in\n", 3); read(0, &c, 1); place(); execv("/bin/true", arguments); _exit(1); }
    return result;
}
int main(int argc, char **argv) {
    int status = -1;
    pid_t pid = own_vfork();
    if (waitpid(pid, &status, 0) != pid) perror("waitpid");
    place();
    FILE *results = fopen(argv[1], "w"); fprintf(results, "status %d\npid %d\n", status, pid); fclose(results);
    return 0;
}
"#;

#[test]
fn a_slow_vfork_hangs_neither_a_halt_nor_a_detach() {
    use std::io::{Read, Write};
    let program = Program::build(SLOW_VFORK, &["-O1"]);
    for detach in [false, true] {
        // Held by a stop until it is traced.
        let mut child = std::process::Command::new("/bin/sh")
            .args(["-c", "kill -STOP $$; exec \"$0\" \"$1\""])
            .arg(&program.path)
            .args(program.arguments())
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let pid = nix::unistd::Pid::from_raw(child.id() as i32);
        let stopped = || {
            std::fs::read_to_string(format!("/proc/{pid}/stat"))
                .unwrap()
                .contains(") T ")
        };
        while !stopped() {
            std::thread::yield_now();
        }
        let id = tracewire_model::ThreadId(child.id());
        let mut process = Process::attach(id, Settings::default()).unwrap();
        nix::sys::signal::kill(pid, nix::sys::signal::SIGCONT).unwrap();
        while process.run(&mut Counter::default()).unwrap() != Event::Exec {}
        let place = trace(&mut process, &program, "place");
        let kernel = trace(&mut process, &program, "kernel");
        let mut counter = Counter::default();
        let interrupter = process.interrupter();
        let mut output = child.stdout.take().unwrap();
        let mut input = child.stdin.take().unwrap();
        let event = std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut word = [0; 3];
                output.read_exact(&mut word).unwrap();
                interrupter.interrupt();
            });
            loop {
                let event = process.run(&mut counter).unwrap();
                if event != Event::LibrariesChanged {
                    break event;
                }
            }
        });
        assert_eq!(event, Event::Interrupted);
        process.remove(place).unwrap();
        process.insert(place).unwrap();
        if detach {
            std::thread::scope(|scope| {
                scope.spawn(|| input.write_all(b"x").unwrap());
                process.detach().unwrap();
            });
            assert!(child.wait().unwrap().success());
        } else {
            input.write_all(b"x").unwrap();
            assert_eq!(run_to_end(&mut process, &mut counter), Event::Exited(0));
            assert_eq!(counter.at(place), 3);
            let _ = child.wait();
        }
        assert_eq!(counter.at(kernel), 1);
        assert_eq!(
            program.results()["status"],
            0,
            "{detach} {:?}",
            program.results()
        );
    }
}

/// As in a debugger: its child requests to be traced by it and calls exec. Another thread calls `place` all the time.
const DEBUGGER: &str = r#"
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile int over;
static long calls[2];
__attribute__((noinline)) long place(long x) { __asm__ volatile("" ::: "memory"); return x * 3 + 1; }
static long call(int who, long x) { calls[who]++; return place(x) - x * 3 - 1; }
static void *forever(void *unused) {
    for (long x = 0; !over; x++) if (call(1, x)) return forever;
    return 0;
}
int main(int argc, char **argv) {
    pthread_t thread;
    long traced = 0;
    pthread_create(&thread, 0, forever, 0);
    for (int round = 0; round < 25; round++) {
        int status;
        pid_t child = vfork();
        if (child == 0) {
            if (call(0, round)) _exit(9);
            if (ptrace(PTRACE_TRACEME, 0, 0, 0)) _exit(8);
            if (place(round) != round * 3 + 1) _exit(7);
            execl("/bin/true", "true", (char *)0);
            _exit(6);
        }
        if (waitpid(child, &status, 0) != child) return 2;
        if (!WIFSTOPPED(status) || WSTOPSIG(status) != SIGTRAP) return 3;
        if (ptrace(PTRACE_CONT, child, 0, 0)) return 4;
        if (waitpid(child, &status, 0) != child || status) return 5;
        traced++;
        if (call(0, round)) return 6;
    }
    void *wrong;
    over = 1;
    pthread_join(thread, &wrong);
    FILE *results = fopen(argv[1], "w");
    fprintf(results, "traced %ld\ncalls %ld\nwrong %d\n", traced, calls[0] + calls[1], wrong != 0);
    fclose(results);
    return 0;
}
"#;

#[test]
fn a_child_by_vfork_can_be_traced_by_its_parent() {
    let program = Program::build(DEBUGGER, &["-O1"]);
    for jumps in [true, false] {
        let mut process = program.spawn();
        let mut counter = Counter::default();
        let place = address(&process, &program, "place");
        let memory = process.share_memory_of(4096).unwrap();
        if jumps {
            let code = support::pads::counting(&memory, 0);
            process.insert_code(place, code).unwrap();
        } else {
            process.insert(place).unwrap();
        }
        assert_eq!(run_to_end(&mut process, &mut counter), Event::Exited(0));
        let results = program.results();
        let hits = counter.at(place) + support::pads::count(&memory, 0);
        assert_eq!((results["traced"], results["wrong"]), (25, 0), "{jumps}");
        // Calls of a child after its request belong to its tracer; no other call is lost.
        assert_eq!(hits.cast_signed(), results["calls"], "{jumps}");
    }
}

/// Makes a child that shares its memory. The child waits for a byte before it reaches `place`.
const SHARER: &str = r#"
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
__attribute__((noinline)) void place(void) { __asm__ volatile("" ::: "memory"); }
static char stack[65536];
static int child(void *unused) {
    char c;
    char number[16];
    write(1, number, sprintf(number, "%d\n", getpid()));
    read(0, &c, 1);
    for (int i = 0; i < 10; i++) place();
    _exit(42);
}
int main(int argc, char **argv) {
    int status = -1;
    int vforks = argv[2][0] == 'v';
    pid_t pid = vforks ? vfork() : clone(child, stack + sizeof stack, CLONE_VM | SIGCHLD, 0);
    if (!pid) child(0);
    waitpid(pid, &status, 0);
    place();
    FILE *results = fopen(argv[1], "w"); fprintf(results, "exit %d\nsignal %d\n", WEXITSTATUS(status), WTERMSIG(status)); fclose(results);
    return 0;
}
"#;

/// Starts it. Returns its child's number.
fn start_sharer(program: &Program, how: &str) -> (std::process::Child, i32) {
    use std::io::BufRead;
    let mut parent = std::process::Command::new(&program.path)
        .args(program.arguments())
        .arg(how)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    std::io::BufReader::new(parent.stdout.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    (parent, line.trim().parse().unwrap())
}

#[test]
fn a_process_that_shares_the_memory_at_attaching_is_traced() {
    use std::io::Write;
    let program = Program::build(SHARER, &["-O1"]);
    for how in ["clone", "vfork"] {
        for detaches in [false, true] {
            let (mut parent, _) = start_sharer(&program, how);
            let id = tracewire_model::ThreadId(parent.id());
            let mut input = parent.stdin.take().unwrap();
            let trace_it = || {
                let mut process = Process::attach(id, Settings::default()).unwrap();
                let place = trace(&mut process, &program, "place");
                if detaches {
                    return process.detach().unwrap();
                }
                input.write_all(b"x").unwrap();
                let mut counter = Counter::default();
                assert_eq!(run_to_end(&mut process, &mut counter), Event::Exited(0));
                assert_eq!(counter.at(place), 11, "{how}");
            };
            // A thread in vfork is detached when it has stopped, or when its tracer ends.
            std::thread::scope(|scope| scope.spawn(trace_it).join().unwrap());
            if detaches {
                input.write_all(b"x").unwrap();
                assert!(parent.wait().unwrap().success());
            }
            let results = program.results();
            assert_eq!(
                (results["exit"], results["signal"]),
                (42, 0),
                "{how}, detaches: {detaches}"
            );
        }
    }
}

#[test]
fn a_process_whose_memory_is_shared_with_one_that_cannot_be_traced_is_refused() {
    use std::io::Write;
    let program = Program::build(SHARER, &["-O1"]);
    let (mut parent, child) = start_sharer(&program, "clone");
    let id = tracewire_model::ThreadId(parent.id());
    // To the kernel, each thread is a tracer.
    std::thread::scope(|scope| {
        let (seized, is_seized) = std::sync::mpsc::channel();
        let (refused, is_refused) = std::sync::mpsc::channel::<()>();
        scope.spawn(move || {
            // SAFETY: PTRACE_SEIZE takes plain numbers.
            let result = unsafe { libc::ptrace(libc::PTRACE_SEIZE, child, 0, 0) };
            seized.send(result).unwrap();
            // It is detached at the end of this thread.
            let _ = is_refused.recv();
        });
        assert_eq!(is_seized.recv().unwrap(), 0);
        let error = Process::attach(id, Settings::default()).unwrap_err();
        let expected = format!(
            "process {id} shares its memory with process {child}: process {child} is already traced by process {} (",
            std::process::id()
        );
        assert!(error.to_string().starts_with(&expected), "{error}");
        drop(refused);
    });
    parent.stdin.take().unwrap().write_all(b"x").unwrap();
    assert!(parent.wait().unwrap().success());
    assert_eq!(program.results()["exit"], 42);
}

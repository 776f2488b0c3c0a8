//! Programs that wait in system calls, or have them dispatched to themselves, while the tracer attaches and detaches.

mod support;

use std::io::{Read, Write};

use support::{Counter, Program, trace};
use tracewire_experiment::Target;
use tracewire_model::ThreadId;
use tracewire_target_linux::{Event, Process};

/// Socket calls with a timeout, which fail with EINTR after a mere stop: none of them does for the tracer's stops.
#[test]
fn socket_calls_with_timeouts_go_on() {
    const CALLS: i64 = 10;
    let program = Program::build(
        r#"
        #define _GNU_SOURCE
        #include <errno.h>
        #include <pthread.h>
        #include <stdio.h>
        #include <string.h>
        #include <sys/socket.h>
        #include <sys/time.h>
        #include <sys/uio.h>
        #include <sys/un.h>
        #include <unistd.h>
        enum { CALLS = 10, LARGE = 1 << 22 };
        static int ends[CALLS][2], failed[CALLS];
        static struct sockaddr_un name;
        static socklen_t length;
        static char large[LARGE];
        static void *call(void *argument) {
            long which = (long)argument;
            int end = ends[which][0];
            char byte[1];
            struct iovec piece = { byte, 1 };
            struct msghdr one = { .msg_iov = &piece, .msg_iovlen = 1 };
            struct mmsghdr several = { .msg_hdr = one };
            long got = 0;
            write(1, "r", 1);
            switch (which) {
            case 0: got = recv(end, byte, 1, 0); break;
            case 1: got = recvmsg(end, &one, 0); break;
            case 2: got = recvmmsg(end, &several, 1, 0, 0); break;
            case 3: got = read(end, byte, 1); break;
            case 4: got = readv(end, &piece, 1); break;
            case 5: got = accept(end, 0, 0); break;
            case 6: got = accept4(end, 0, 0, 0); break;
            case 7: got = connect(end, (struct sockaddr *)&name, length); break;
            case 8: got = send(end, byte, 1, 0); break;
            case 9: got = sendmsg(end, &one, 0); break;
            }
            failed[which] = got < 0 ? errno : 0;
            return 0;
        }
        static int listener(int backlog) {
            int made = socket(AF_UNIX, SOCK_STREAM, 0);
            struct sockaddr_un own = { AF_UNIX };
            length = sizeof own;
            bind(made, (struct sockaddr *)&own, sizeof(sa_family_t));
            listen(made, backlog);
            getsockname(made, (struct sockaddr *)&name, &length);
            return made;
        }
        int main(int argc, char **argv) {
            struct timeval minute = { 60 };
            pthread_t threads[CALLS];
            int full = -1, fillers[2];
            for (long which = 0; which < CALLS; which++) {
                int *pair = ends[which];
                if (which == 5 || which == 6) {
                    pair[0] = listener(8);
                    memcpy(large + which * 4096, &name, sizeof name);
                } else if (which == 7) {
                    full = listener(0);
                    // One waits in the backlog; the next one has to wait for room.
                    fillers[0] = socket(AF_UNIX, SOCK_STREAM, 0);
                    connect(fillers[0], (struct sockaddr *)&name, length);
                    pair[0] = socket(AF_UNIX, SOCK_STREAM, 0);
                } else {
                    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
                    // No room is left for what is to be sent.
                    while (which > 7 && send(pair[0], large, 4096, MSG_DONTWAIT) > 0);
                }
                setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &minute, sizeof minute);
                setsockopt(pair[0], SOL_SOCKET, SO_SNDTIMEO, &minute, sizeof minute);
            }
            for (long which = 0; which < CALLS; which++) pthread_create(threads + which, 0, call, (void *)which);
            char byte;
            read(0, &byte, 1);
            for (long which = 0; which < 5; which++) write(ends[which][1], "x", 1);
            for (long which = 5; which < 7; which++) {
                int made = socket(AF_UNIX, SOCK_STREAM, 0);
                connect(made, (struct sockaddr *)(large + which * 4096), length);
            }
            accept(full, 0, 0);
            for (long which = 8; which < CALLS; which++) {
                while (recv(ends[which][1], large, LARGE, MSG_DONTWAIT) > 0);
            }
            for (long which = 0; which < CALLS; which++) pthread_join(threads[which], 0);
            FILE *f = fopen(argv[1], "w");
            for (long which = 0; which < CALLS; which++) fprintf(f, "call%ld %d\n", which, failed[which]);
            fclose(f);
            return 0;
        }
        "#,
        &["-O1"],
    );
    let mut child = program.start();
    let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut ready = [0; CALLS as usize];
    stdout.read_exact(&mut ready).unwrap();
    // Each is about to make its call; it is there once it sleeps.
    while running(child.id()) > 0 {
        std::thread::yield_now();
    }
    for _ in 0..5 {
        let process = Process::attach(ThreadId(child.id()), Default::default()).unwrap();
        process.detach().unwrap();
        while running(child.id()) > 0 {
            std::thread::yield_now();
        }
    }
    stdin.write_all(b"x").unwrap();
    assert!(child.wait().unwrap().success());
    let results = program.results();
    for call in 0..CALLS {
        assert_eq!(results[&format!("call{call}")], 0, "call {call}");
    }
}

/// How many threads of a process do not sleep.
fn running(process: u32) -> usize {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    tasks
        .filter(|task| {
            let stat = task.as_ref().unwrap().path().join("stat");
            std::fs::read_to_string(stat).is_ok_and(|stat| {
                !stat
                    .rsplit_once(')')
                    .is_some_and(|(_, rest)| rest.trim_start().starts_with('S'))
            })
        })
        .count()
}

/// A program that has its system calls dispatched to itself sees none of the tracer's.
#[test]
fn a_program_that_gets_its_own_system_calls_gets_none_of_ours() {
    let program = Program::build(
        r#"
        #define _GNU_SOURCE
        #include <signal.h>
        #include <stdio.h>
        #include <string.h>
        #include <sys/prctl.h>
        #include <unistd.h>
        static volatile char selector;
        static volatile long seen, total;
        static volatile sig_atomic_t over;
        static void dispatched(int signal) { selector = 0; seen++; }
        static void end(int signal) { over = 1; selector = 0; }
        __attribute__((noinline)) void site(long x) { total += x; __asm__ volatile("" ::: "memory"); }
        int main(int argc, char **argv) {
            struct sigaction action = { .sa_handler = dispatched }, ending = { .sa_handler = end };
            sigaction(SIGSYS, &action, 0);
            sigaction(SIGUSR1, &ending, 0);
            if (prctl(59, 1, 0, 0, &selector)) return 77;
            write(1, "r", 1);
            selector = 1;
            while (!over) site(1);
            FILE *f = fopen(argv[1], "w");
            fprintf(f, "seen %ld\nhit %d\n", seen, total > 0);
            fclose(f);
            return 0;
        }
        "#,
        &["-O1"],
    );
    let mut child = program.start();
    let mut byte = [0];
    child.stdout.take().unwrap().read_exact(&mut byte).unwrap();
    for _ in 0..5 {
        let mut process = Process::attach(ThreadId(child.id()), Default::default()).unwrap();
        let site = trace(&mut process, &program, "site");
        let interrupter = process.interrupter();
        let mut hits = Counter::default();
        std::thread::scope(|scope| {
            scope.spawn(move || interrupter.interrupt());
            assert_eq!(process.run(&mut hits).unwrap(), Event::Interrupted);
        });
        process.remove(site).unwrap();
        process.detach().unwrap();
    }
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(child.id().cast_signed()),
        nix::sys::signal::Signal::SIGUSR1,
    )
    .unwrap();
    let status = child.wait().unwrap();
    assert!(status.success(), "{status}");
    let results = program.results();
    assert_eq!((results["seen"], results["hit"]), (0, 1));
}

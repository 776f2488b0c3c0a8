//! Programs that are killed during an operation.

mod support;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use support::pads::counting;
use support::watchdog::Watchdog;
use support::{Counter, Program, address};
use tracewire_target_linux::{Event, Process};

const THREADS: u64 = 64;

/// A thread may be killed between its creation and the report of its maker.
#[test]
fn a_program_killed_while_it_makes_threads_is_seen_to_end() {
    const ROUNDS: u64 = 48;
    let program = Program::build(
        r#"
        #include <pthread.h>
        #include <stdlib.h>
        __attribute__((noinline)) void site(void) { __asm__ volatile("" ::: "memory"); }
        static void *work(void *p) { for (int i = 0; i < 2000; i++) site(); return p; }
        int main(void) {
            pthread_attr_t small;
            pthread_attr_init(&small);
            pthread_attr_setstacksize(&small, 65536);
            for (;;) {
                pthread_t threads[64];
                for (int i = 0; i < 64; i++) if (pthread_create(threads + i, &small, work, 0)) abort();
                for (int i = 0; i < 64; i++) pthread_join(threads[i], 0);
            }
        }
        "#,
        &["-O1"],
    );
    let _watchdog = Watchdog::start("the run of a program that was killed");
    for round in 0..ROUNDS {
        let mut process = program.spawn();
        let memory = process.share_memory_of(4096).unwrap();
        let site = address(&process, &program, "site");
        process.insert_code(site, counting(&memory, 0)).unwrap();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let id = process.id().0.cast_signed();
            let counts = memory.clone();
            let over = &over;
            scope.spawn(move || {
                // After some hits of the thread of this number.
                let hits = round * THREADS / ROUNDS * 2000 + 1;
                // SAFETY: within the mapping, aligned, and accessed as an atomic only.
                let counter = unsafe { counts.as_ptr().cast::<AtomicU64>().as_ref() };
                while counter.load(Ordering::Relaxed) < hits && !over.load(Ordering::Acquire) {
                    std::thread::yield_now();
                }
                // SAFETY: kill takes plain numbers; the process is not reaped before the run has ended.
                unsafe { libc::kill(id, libc::SIGKILL) };
            });
            let event = run(&mut process);
            over.store(true, Ordering::Release);
            assert_eq!(
                event,
                Event::Killed {
                    signal: libc::SIGKILL,
                    core_dumped: false
                },
                "round {round}"
            );
        });
        process.detach().unwrap();
    }
}

fn run(process: &mut Process) -> Event {
    support::run_to_end(process, &mut Counter::default())
}

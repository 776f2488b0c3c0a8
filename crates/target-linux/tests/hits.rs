//! Hits are reported exactly, with the state that the thread sees.

mod support;

use support::{Counter, Program, run_to_end, trace};
use tracewire_target_linux::Event;

const FOUR_THREADS: &str = r#"
#include <pthread.h>
#include <stdio.h>
static long counts[4];
__attribute__((noinline)) void place(long thread, long i) { counts[thread] += i & 1 ? 1 : 1; __asm__ volatile("" ::: "memory"); }
static void *work(void *argument) {
    for (long i = 0; i < 2500; i++) place((long)argument, i);
    return 0;
}
int main(int argc, char **argv) {
    pthread_t threads[4];
    for (long i = 0; i < 4; i++) pthread_create(&threads[i], 0, work, (void *)i);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
    FILE *results = fopen(argv[1], "w");
    fprintf(results, "count %ld\n", counts[0] + counts[1] + counts[2] + counts[3]);
    fclose(results);
    return 7;
}
"#;

#[test]
fn four_threads_at_one_tracepoint_are_all_counted() {
    for flags in [
        &["-O0"][..],
        &["-O2", "-no-pie"],
        &["-O2", "-static"],
        &["-O2", "-static-pie"],
    ] {
        let program = Program::build(FOUR_THREADS, flags);
        let mut process = program.spawn();
        let place = trace(&mut process, &program, "place");
        let mut counter = Counter::default();
        assert_eq!(
            run_to_end(&mut process, &mut counter),
            Event::Exited(7),
            "{flags:?}"
        );
        assert_eq!(program.results()["count"], 10_000);
        assert_eq!(counter.at(place), 10_000, "{flags:?}");
        assert_eq!(counter.by_thread.len(), 4);
        assert!(counter.by_thread.values().all(|count| *count == 2500));
        // Every thread's end is reported, the first one's too.
        assert_eq!(counter.ended.len(), 5);
        assert!(
            counter
                .by_thread
                .keys()
                .all(|thread| counter.ended.contains(thread))
        );
    }
}

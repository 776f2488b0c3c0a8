//! Runtimes that divide the address space among themselves, and end the program if something else is mapped.

mod support;

use support::pads::{count, counting};
use support::{Counter, Program, address, run_to_end};
use tracewire_target_linux::{Event, Mechanism};

const SOURCE: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
long total;
/* Leaks cannot be looked for in a program that is traced. */
const char *__asan_default_options(void) { return "detect_leaks=0"; }
__attribute__((noinline)) void site(long x) { total += x; __asm__ volatile("" ::: "memory"); }
void *work(void *p) {
    for (int i = 0; i < 100; i++) { char *m = malloc(100 + i); m[3] = i; free(m); }
    return p;
}
int main(int argc, char **argv) {
    pthread_t thread;
    pthread_create(&thread, 0, work, 0);
    pthread_join(thread, 0);
    for (long i = 0; i < 1000; i++) site(i);
    FILE *f = fopen(argv[1], "w");
    fprintf(f, "total %ld\n", total);
    fclose(f);
    return 0;
}
"#;

/// Memory that is mapped in a program before it begins is where its sanitizer allows it.
#[test]
fn sanitizers_allow_what_is_mapped() {
    for (compiler, sanitizer) in [("cc", "thread"), ("cc", "address"), ("clang", "memory")] {
        let flag = format!("-fsanitize={sanitizer}");
        let program = Program::build_with(compiler, "program.c", SOURCE, &["-O1", &flag]);
        let mut process = program.spawn();
        let memory = process.share_memory_of(64 << 20).unwrap();
        let site = address(&process, &program, "site");
        let mechanism = process.insert_code(site, counting(&memory, 0)).unwrap();
        assert!(matches!(mechanism, Mechanism::Jump(_)));
        let ended = run_to_end(&mut process, &mut Counter::default());
        assert_eq!(ended, Event::Exited(0), "{compiler} {flag}");
        assert_eq!(program.results()["total"], 499_500);
        assert_eq!(count(&memory, 0), 1000, "{compiler} {flag}");
    }
}

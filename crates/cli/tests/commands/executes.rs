//! Programs that execute themselves again and again.

use crate::support::Built;

/// Writes the resident memory of its tracer, in KiB, after ten rounds and at the end.
const AGAIN: &str = r#"
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    #include <unistd.h>
    __attribute__((noinline)) long site(long x) { __asm__ volatile("" ::: "memory"); return x + 1; }
    static long field(const char *process, const char *name) {
        char path[64], line[256];
        long value = -1;
        snprintf(path, sizeof path, "/proc/%s/status", process);
        FILE *file = fopen(path, "r");
        if (!file) return -1;
        while (fgets(line, sizeof line, file))
            if (!strncmp(line, name, strlen(name))) value = atol(line + strlen(name) + 1);
        fclose(file);
        return value;
    }
    int main(int count, char **arguments) {
        long round = count > 1 ? atol(arguments[1]) : 0;
        site(round);
        if (round == 10 || round == 40) {
            char tracer[32];
            snprintf(tracer, sizeof tracer, "%ld", field("self", "TracerPid"));
            printf("%ld\n", field(tracer, "VmRSS"));
            fflush(stdout);
        }
        if (round == 40) return 0;
        char next[32];
        snprintf(next, sizeof next, "%ld", round + 1);
        execl("/proc/self/exe", arguments[0], next, (char *)0);
        return 1;
    }
"#;

#[test]
fn a_program_that_executes_itself_does_not_grow_tracewire() {
    /// The most memory that 30 rounds may add, in KiB. The symbols of its modules are more than 2 MiB.
    const GROWTH: i64 = 8 << 10;
    let built = Built::new(AGAIN, &["-O1"]);
    let done = built
        .run(&[
            "record",
            "-t",
            "site : x",
            "-o",
            "out.tf",
            "--",
            "./program",
        ])
        .code(0)
        .says(&["41 frames in out.tf"]);
    let resident: Vec<i64> = done
        .stdout
        .lines()
        .map(|line| line.parse().expect("a number"))
        .collect();
    let [before, after] = resident[..] else {
        panic!("{resident:?}");
    };
    assert!(before > 0 && after - before < GROWTH, "{resident:?}");
}

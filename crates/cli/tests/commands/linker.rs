//! Programs that load and unload libraries, and start others, while Tracewire is killed.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::support::{Built, tracewire};

/// Writes a line after every ten rounds: a library loaded, called and unloaded, and another program run by vfork.
const LOADING: &str = r#"
    #include <dlfcn.h>
    #include <stdio.h>
    #include <sys/wait.h>
    #include <unistd.h>
    __attribute__((noinline)) long site(long x) { __asm__ volatile("" ::: "memory"); return x * 3 + 1; }
    int main(int count, char **arguments) {
        if (count > 2) return 7;
        for (long round = 1;; round++) {
            void *library = dlopen(arguments[1], RTLD_NOW);
            if (!library) return 2;
            long (*plug)(long) = (long (*)(long))dlsym(library, "plug");
            if (plug(round) != round * 5 + 2 || site(round) != round * 3 + 1) return 3;
            if (dlclose(library)) return 4;
            pid_t child = vfork();
            if (child == 0) {
                site(3);
                execl("/proc/self/exe", arguments[0], "a", "child", (char *)0);
                _exit(99);
            }
            int status;
            if (waitpid(child, &status, 0) != child || status != 7 << 8) return 5;
            if (round % 10 == 0) {
                printf("%ld\n", round);
                fflush(stdout);
            }
        }
    }
"#;
const LIBRARY: &str = "long plug(long x) { return x * 5 + 2; }";

#[test]
fn programs_that_load_libraries_outlive_a_killed_tracewire() {
    const ROUNDS: usize = 4;
    let built = Built::new(LOADING, &["-O1"]);
    let source = built.path("plug.c");
    std::fs::write(&source, LIBRARY).expect("written");
    let library = built.path("libplug.so");
    let compiled = Command::new("cc")
        .args(["-g", "-O1", "-shared", "-fPIC", "-o"])
        .args([&library, &source])
        .status();
    assert!(compiled.expect("the compiler runs").success());
    for round in 0..ROUNDS {
        let mut program = Command::new(&built.program)
            .arg(&library)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program runs");
        let mut reported = BufReader::new(program.stdout.take().expect("stdout"));
        let mut rounds_on = |which: &str| {
            for _ in 0..3 {
                let mut line = String::new();
                reported.read_line(&mut line).expect("text");
                assert!(!line.is_empty(), "round {round}: dead {which}");
            }
        };
        rounds_on("before");
        let mut recorder = tracewire()
            .current_dir(built.folder.path())
            .args(["record", "--pending", "-o", "out.tf"])
            .args(["-p", &program.id().to_string()])
            .args(["-t", "plug : x", "-t", "site : x"])
            .stderr(Stdio::piped())
            .spawn()
            .expect("tracewire runs");
        // At its first output, or once the run has begun.
        let mut said = BufReader::new(recorder.stderr.take().expect("stderr"))
            .lines()
            .map_while(Result::ok);
        let line = if round % 2 == 0 {
            said.next()
        } else {
            said.find(|line| line.contains("by jump") || line.contains("by punned"))
        };
        assert!(line.is_some(), "round {round}: no jump");
        if round % 2 != 0 {
            rounds_on("under Tracewire");
        }
        recorder.kill().expect("killed");
        recorder.wait().expect("ended");
        rounds_on("after Tracewire");
        program.kill().expect("alive");
        program.wait().expect("ended");
    }
}

//! The modules of a process, and libraries that are loaded and unloaded.

mod support;

use std::ffi::OsString;
use std::process::Command;

use support::{Counter, Program, run_to_end, symbol_in, trace};
use tracewire_experiment::Target;
use tracewire_model::Address;
use tracewire_target_linux::{Event, Module, ModuleKind, Process, Settings};

const LOADS: &str = r#"
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char **argv) {
    long sum = 0;
    for (int i = 0; i < 3; i++) {
        void *library = dlopen(argv[2], RTLD_NOW);
        int (*answer)(void) = (int (*)(void))dlsym(library, "answer");
        sum += answer();
        dlclose(library);
    }
    FILE *results = fopen(argv[1], "w"); fprintf(results, "sum %ld\n", sum); fclose(results);
    return 0;
}
"#;

const LIBRARY: &str = r#"
static int value;
__attribute__((constructor)) void construct(void) { value = 14; }
__attribute__((destructor)) void destruct(void) { value = 0; }
int answer(void) { return value; }
"#;

fn find<'a>(modules: &'a [Module], name: &str) -> Option<&'a Module> {
    modules
        .iter()
        .find(|module| module.path.to_string_lossy().contains(name))
}

fn loads_and_unloads(compiler: &str, library_compiler: &str) {
    let program = Program::build_with(compiler, "program.c", LOADS, &["-O1"]);
    let library = program.directory.path().join("libanswer.so");
    let source = program.directory.path().join("answer.c");
    std::fs::write(&source, LIBRARY).unwrap();
    let status = Command::new(library_compiler)
        .args(["-shared", "-fPIC", "-g", "-o"])
        .args([&library, &source])
        .status()
        .unwrap();
    assert!(status.success());
    let arguments: Vec<OsString> = vec![
        program.results_path().into_os_string(),
        library.clone().into_os_string(),
    ];
    let mut process = Process::spawn(&program.path, &arguments, Settings::default()).unwrap();

    // Before anything has been executed.
    let modules = process.modules().unwrap();
    assert_eq!(modules[0].kind, ModuleKind::Executable);
    assert!(
        modules
            .iter()
            .any(|module| module.kind == ModuleKind::Interpreter)
    );
    assert!(modules.iter().any(|module| module.kind == ModuleKind::Vdso));
    assert!(
        modules
            .iter()
            .all(|module| module.kind != ModuleKind::Library)
    );
    let main = trace(&mut process, &program, "main");

    let mut counter = Counter::default();
    let (mut appeared, mut vanished, mut constructors) = (0, 0, 0);
    let mut inside: Vec<Address> = Vec::new();
    let event = loop {
        let event = process.run(&mut counter).unwrap();
        if event != Event::LibrariesChanged {
            break event;
        }
        let modules = process.modules().unwrap();
        for module in &modules {
            assert!(module.start < module.end, "{module:?}");
            assert!(
                module.kind == ModuleKind::Vdso || module.file.exists(),
                "{module:?}"
            );
        }
        match find(&modules, "libanswer") {
            Some(module) if inside.is_empty() => {
                appeared += 1;
                assert_eq!(module.kind, ModuleKind::Library);
                for name in ["construct", "answer", "destruct"] {
                    let address = Address(module.load_bias + symbol_in(&library, name));
                    assert!(module.start <= address && address < module.end);
                    process.insert(address).unwrap();
                    inside.push(address);
                }
            }
            None if !inside.is_empty() => {
                vanished += 1;
                for address in inside.drain(..) {
                    constructors += counter.at(address);
                    counter.hits.remove(&address);
                    process.remove(address).unwrap();
                }
            }
            _ => {}
        }
    };
    assert_eq!(event, Event::Exited(0));
    assert_eq!(program.results()["sum"], 42);
    assert_eq!(counter.at(main), 1);
    if compiler == "cc" {
        // Each time all three of its functions, the first before dlopen returned.
        assert_eq!((appeared, vanished, constructors), (3, 3, 9));
    } else {
        // musl never unloads, and runs destructors at exit only.
        assert_eq!((appeared, vanished), (1, 0));
        assert_eq!(
            inside
                .iter()
                .map(|address| counter.at(*address))
                .sum::<u64>(),
            5
        );
    }
}

#[test]
fn libraries_are_reported_before_they_run() {
    loads_and_unloads("cc", "cc");
}

#[test]
fn libraries_of_musl_too() {
    if Command::new("musl-gcc")
        .arg("--version")
        .output()
        .is_ok_and(|output| output.status.success())
    {
        loads_and_unloads("musl-gcc", "musl-gcc");
    }
}

#[test]
fn static_programs_have_no_libraries_and_are_found_all_the_same() {
    let source = "int counted; __attribute__((noinline)) void place(void) { counted++; } int main() { for (int i = 0; i < 5; i++) place(); return counted; }";
    let mut builds = vec![
        ("cc", &["-static"][..]),
        ("cc", &["-static-pie"]),
        ("cc", &["-no-pie"]),
    ];
    if Command::new("musl-gcc")
        .arg("--version")
        .output()
        .is_ok_and(|output| output.status.success())
    {
        builds.extend([("musl-gcc", &["-static"][..]), ("musl-gcc", &["-O1"])]);
    }
    for (compiler, flags) in builds {
        let program = Program::build_with(compiler, "program.c", source, flags);
        let mut process = program.spawn();
        let modules = process.modules().unwrap();
        let is_static = flags[0].starts_with("-static");
        assert_eq!(
            modules
                .iter()
                .any(|module| module.kind == ModuleKind::Interpreter),
            !is_static
        );
        let place = trace(&mut process, &program, "place");
        let mut counter = Counter::default();
        assert_eq!(
            run_to_end(&mut process, &mut counter),
            Event::Exited(5),
            "{compiler} {flags:?}"
        );
        assert_eq!(counter.at(place), 5, "{compiler} {flags:?}");
    }
}

#[test]
fn a_place_that_is_no_code_is_refused() {
    let program = Program::build("int data = 3; int main() { return 0; }", &[]);
    let mut process = program.spawn();
    let data = support::address(&process, &program, "data");
    let refusal = |process: &mut Process, address| process.insert(address).unwrap_err().to_string();
    assert!(refusal(&mut process, data).contains("not executable"));
    assert!(refusal(&mut process, Address(8)).contains("no memory is mapped there"));
    assert!(refusal(&mut process, Address(u64::MAX)).contains("no memory is mapped there"));
    process.remove(Address(8)).unwrap();
    assert_eq!(
        run_to_end(&mut process, &mut Counter::default()),
        Event::Exited(0)
    );
}

/// A program that is not permitted new system calls makes none.
#[test]
fn a_filtered_program_is_stepped_in_place() {
    let program = Program::build(
        r#"
        #include <linux/filter.h>
        #include <linux/seccomp.h>
        #include <pthread.h>
        #include <stddef.h>
        #include <stdio.h>
        #include <stdlib.h>
        #include <sys/prctl.h>
        #include <sys/syscall.h>
        #include <unistd.h>
        static long counts[2];
        __attribute__((noinline)) void place(long i) { counts[i]++; __asm__ volatile("" ::: "memory"); }
        static void *work(void *number) { for (int i = 0; i < 500; i++) place((long)number); return 0; }
        __attribute__((noinline)) void filtered(void) { __asm__ volatile("" ::: "memory"); }
        int main(int argc, char **argv) {
            FILE *results = fopen(argv[1], "w");
            setbuf(results, malloc(BUFSIZ));
            struct sock_filter code[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 3),
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
                BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 4, 0, 1),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
            };
            struct sock_fprog filter = { sizeof code / sizeof *code, code };
            prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
            if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)) return 77;
            filtered();
            /* Until we are traced again, which the test says by a file. */
            while (access(argv[1], X_OK)) ;
            pthread_t thread;
            pthread_create(&thread, 0, work, (void *)1);
            work(0);
            pthread_join(thread, 0);
            fprintf(results, "count %ld\n", counts[0] + counts[1]);
            fclose(results);
            return 0;
        }
        "#,
        &["-O1", "-static"],
    );
    struct AtFilter;
    impl tracewire_experiment::HitHandler for AtFilter {
        fn hit(
            &mut self,
            _: tracewire_experiment::Hit,
            _: &mut dyn tracewire_experiment::StoppedThread,
        ) -> tracewire_experiment::Outcome {
            tracewire_experiment::Outcome {
                step: false,
                run_ended: true,
            }
        }
    }
    // Attached to after the filter is set, so that no page was mapped before.
    let mut process = program.spawn();
    let filtered = trace(&mut process, &program, "filtered");
    match process.run(&mut AtFilter).unwrap() {
        Event::RunEnded => {}
        // Kernels without seccomp.
        event => return assert_eq!(event, Event::Exited(77)),
    }
    process.remove(filtered).unwrap();
    let id = process.id();
    process.detach().unwrap();
    let mut process = Process::attach(id, Settings::default()).unwrap();
    let place = trace(&mut process, &program, "place");
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(program.results_path(), executable).unwrap();
    let mut counter = Counter::default();
    assert_eq!(run_to_end(&mut process, &mut counter), Event::Exited(0));
    assert_eq!(program.results()["count"], 1000);
    assert_eq!(counter.at(place), 1000);
}

//! Jumps in real programs: they run as without jumps.

mod support;

use std::collections::HashMap;

use iced_x86::{Decoder, DecoderOptions};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use support::pads::{count, counting, counting_slowly};
use support::{Counter, Program, address, piece, run_to_end};
use tracewire_experiment::Target;
use tracewire_model::Address;
use tracewire_target_linux::{Event, Mechanism, Process};

/// The addresses of all instructions of a function.
fn instructions(process: &mut Process, start: Address, length: usize) -> Vec<Address> {
    let mut pieces = [piece(start.0, length)];
    process.read_memory(&mut pieces);
    let decoder = Decoder::with_ip(64, &pieces[0].bytes, start.0, DecoderOptions::NONE);
    decoder
        .into_iter()
        .map(|instruction| Address(instruction.ip()))
        .collect()
}

const SORT: &str = r#"
#include <stdio.h>
#include <stdlib.h>
static int numbers[100];
__attribute__((noinline)) int partition(int *a, int n) {
    int pivot = a[(n - 1) / 2], i = -1, j = n;
    for (;;) {
        do i++; while (a[i] < pivot);
        do j--; while (a[j] > pivot);
        if (i >= j) return j + 1;
        int t = a[i]; a[i] = a[j]; a[j] = t;
    }
}
__attribute__((noinline)) void sort(int *a, int n) {
    if (n < 2) return;
    int k = partition(a, n);
    sort(a, k);
    sort(a + k, n - k);
}
int main(int argc, char **argv) {
    unsigned x = 12345;
    for (int i = 0; i < 100; i++) { x = x * 1103515245 + 12345; numbers[i] = x >> 8; }
    sort(numbers, 100);
    long sum = 0, ordered = 1;
    for (int i = 0; i < 100; i++) { sum = sum * 31 + numbers[i]; if (i && numbers[i-1] > numbers[i]) ordered = 0; }
    FILE *f = fopen(argv[1], "w");
    fprintf(f, "sum %ld\nordered %ld\n", sum, ordered);
    fclose(f);
    return 0;
}
"#;

/// A jump on every instruction of two functions counts what breakpoints count, and the program does the same.
#[test]
fn jumps_on_every_instruction_count_what_breakpoints_count() {
    let mut ways = HashMap::new();
    for flags in [
        &["-O0", "-no-pie"][..],
        &["-O2", "-pie", "-fPIE"],
        &["-O1", "-static"],
        &["-Os", "-static-pie"],
    ] {
        let program = Program::build(SORT, flags);
        let size = |name| support::size_of_symbol(&program.path, name) as usize;
        let functions = [("partition", size("partition")), ("sort", size("sort"))];

        let mut process = program.spawn();
        let mut sites = Vec::new();
        for (name, length) in functions {
            let start = address(&process, &program, name);
            sites.extend(instructions(&mut process, start, length));
        }
        for site in &sites {
            process.insert(*site).unwrap();
        }
        let mut trapped = Counter::default();
        assert_eq!(run_to_end(&mut process, &mut trapped), Event::Exited(0));
        let expected = program.results();
        assert_eq!(expected["ordered"], 1);

        let mut process = program.spawn();
        let base = address(&process, &program, "partition").0;
        let first = sites[0].0;
        let sites: Vec<Address> = sites
            .iter()
            .map(|site| Address(site.0.wrapping_sub(first).wrapping_add(base)))
            .collect();
        let before = code(&mut process, &sites);
        let memory = process.share_memory_of(1 << 16).unwrap();
        // From the last to the first, from the first to the last, every third: all orders must work.
        let count_of = sites.len();
        let orders: [Vec<usize>; 3] = [
            (0..count_of).rev().collect(),
            (0..count_of).collect(),
            (0..3)
                .flat_map(|start| (start..count_of).step_by(3))
                .collect(),
        ];
        for (round, order) in orders.iter().enumerate() {
            for place in order {
                let site = sites[*place];
                let code = counting(&memory, *place);
                match process.insert_code(site, code) {
                    Ok(_) => {}
                    Err(_) => process.insert(site).unwrap(),
                }
            }
            assert_eq!(code(&mut process, &sites), before, "what a debugger reads");
            if round + 1 < orders.len() {
                for site in &sites {
                    process.remove(*site).unwrap();
                }
                assert_eq!(code(&mut process, &sites), before);
            }
        }
        for site in &sites {
            *ways
                .entry(format!("{:?}", process.mechanism(*site).unwrap()))
                .or_insert(0) += 1;
        }
        let mut rest = Counter::default();
        assert_eq!(run_to_end(&mut process, &mut rest), Event::Exited(0));
        assert_eq!(program.results(), expected, "{flags:?}");
        for (place, site) in sites.iter().enumerate() {
            let old = Address(site.0.wrapping_sub(base).wrapping_add(first));
            assert_eq!(
                count(&memory, place) + rest.at(*site),
                trapped.at(old),
                "{flags:?}: {site} by {:?}",
                process.mechanism(*site)
            );
        }
    }
    eprintln!("{ways:?}");
    assert!(ways.keys().any(|way| way.contains("Whole")));
    assert!(ways.keys().any(|way| way.contains("Punned")));
}

fn code(process: &mut Process, sites: &[Address]) -> Vec<u8> {
    let first = sites.iter().min().unwrap().0;
    let last = sites.iter().max().unwrap().0;
    let mut pieces = [piece(first, (last - first) as usize + 15)];
    process.read_memory(&mut pieces);
    pieces[0].bytes.clone()
}

/// No code of the program comes back to a pad after a signal without a handler, so its memory is unmapped as usual.
#[test]
fn a_signal_without_a_handler_leaves_no_pad_behind() {
    let program = Program::build(
        r#"
        #include <signal.h>
        #include <stdio.h>
        static volatile sig_atomic_t over;
        static void end(int signal) { over = 1; }
        __attribute__((noinline)) int work(int x) { __asm__ volatile(""); return x * 3 + 1; }
        int main(int argc, char **argv) {
            signal(SIGUSR1, SIG_IGN);
            signal(SIGUSR2, end);
            volatile long sum = 0;
            putchar('r');
            fflush(stdout);
            while (!over) sum += work(1);
            return 0;
        }
        "#,
        &["-O1"],
    );
    for signals in [
        &[Signal::SIGCHLD][..],
        &[Signal::SIGCONT],
        &[Signal::SIGURG],
        &[Signal::SIGWINCH],
        &[Signal::SIGUSR1],
        &[Signal::SIGSTOP, Signal::SIGCONT],
    ] {
        let mut child = program.start();
        let id = child.id();
        let send = move |signal| kill(Pid::from_raw(id.cast_signed()), signal).unwrap();
        let stdout = child.stdout.as_mut().unwrap();
        std::io::Read::read_exact(stdout, &mut [0]).unwrap();
        let mut process =
            Process::attach(tracewire_model::ThreadId(id), Default::default()).unwrap();
        let site = address(&process, &program, "work");
        let memory = process.share_memory_of(4096).unwrap();
        let way = process.insert_code(site, counting_slowly(&memory, 0));
        assert!(matches!(way, Ok(Mechanism::Jump(_))), "{way:?}");
        let interrupter = process.interrupter();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // Most of the times it is in the pad.
                for _ in 0..20 {
                    for signal in signals {
                        send(*signal);
                        while *signal == Signal::SIGSTOP && !is_stopped(id) {
                            std::thread::yield_now();
                        }
                    }
                    let before = count(&memory, 0);
                    while count(&memory, 0) < before + 2 {
                        std::thread::yield_now();
                    }
                }
                interrupter.interrupt();
            });
            let event = process.run(&mut Counter::default());
            assert_eq!(event.unwrap(), Event::Interrupted);
        });
        process.detach().unwrap();
        let maps = std::fs::read_to_string(format!("/proc/{id}/maps")).unwrap();
        assert!(!maps.contains("tracewire"), "{signals:?}: {maps}");
        send(Signal::SIGUSR2);
        assert!(child.wait().unwrap().success());
    }
}

/// Whether a process is stopped, by a signal or by its tracer.
fn is_stopped(process: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let state = stat.rsplit_once(')').unwrap().1.trim_start();
    state.starts_with(['T', 't'])
}

/// The bytes in the process itself are restored, and the program runs on after detach.
#[test]
fn a_program_that_is_let_go_has_its_own_bytes() {
    let program = Program::build(
        r#"
        #include <stdio.h>
        #include <unistd.h>
        #include <string.h>
        __attribute__((noinline)) int work(int x) { __asm__ volatile(""); return x * 3 + 1; }
        static unsigned char before[64];
        int main(int argc, char **argv) {
            memcpy(before, (void *)work, 64);
            char c;
            write(1, "r", 1);
            long sum = 0;
            int rounds = 0;
            // Until the pipe is closed.
            while (read(0, &c, 1) == 1) { for (int i = 0; i < 1000; i++) sum += work(i); rounds++; write(1, "r", 1); }
            FILE *f = fopen(argv[1], "w");
            fprintf(f, "same %d\nsum %ld\nrounds %d\n", !memcmp(before, (void *)work, 64), sum, rounds);
            fclose(f);
            return 0;
        }
        "#,
        &["-O1"],
    );
    let mut child = program.start();
    let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut byte = [0];
    use std::io::{Read, Write};
    stdout.read_exact(&mut byte).unwrap();
    let mut process =
        Process::attach(tracewire_model::ThreadId(child.id()), Default::default()).unwrap();
    let site = address(&process, &program, "work");
    let memory = process.share_memory_of(4096).unwrap();
    let way = process.insert_code(site, counting(&memory, 0)).unwrap();
    assert!(matches!(way, Mechanism::Jump(_)));
    stdin.write_all(b"x").unwrap();
    let interrupter = process.interrupter();
    let reader = std::thread::spawn(move || {
        stdout.read_exact(&mut byte).unwrap();
        interrupter.interrupt();
        stdout
    });
    assert_eq!(
        process.run(&mut Counter::default()).unwrap(),
        Event::Interrupted
    );
    let mut stdout = reader.join().unwrap();
    assert_eq!(count(&memory, 0), 1000);
    process.detach().unwrap();
    stdin.write_all(b"x").unwrap();
    stdout.read_exact(&mut byte).unwrap();
    assert_eq!(count(&memory, 0), 1000);
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", child.id())).unwrap();
    assert!(!maps.contains("tracewire"), "{maps}");
    drop(stdin);
    assert!(child.wait().unwrap().success());
    let results = program.results();
    assert_eq!((results["same"], results["rounds"]), (1, 2));
}

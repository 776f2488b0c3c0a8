//! Tracewire is killed at random moments while it inserts tracepoints, while it records, and while it removes them.
//!
//! `TRACEWIRE_KILL_TIMES` is the number of kills for each mechanism, `TRACEWIRE_KILL_SEED` the seed of the moments
//! (`cargo xtask torture jumps`).

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fastrand::Rng;
use nix::sys::signal::{Signal, kill as kill_process};
use nix::unistd::Pid;
use tracewire_test_support::{Cc, setting};

use crate::support::{Built, tracewire};
use crate::working::{self, Working};

/// The length of a recording that ends by itself.
const SHORT: Duration = Duration::from_millis(20);

fn recorder(built: &Built, program: &Working, mechanism: &str, options: &[&str]) -> Child {
    tracewire()
        .current_dir(built.folder.path())
        .args(["record", "-o", "out.tf", "--mechanism", mechanism])
        .args(["-p", &program.id().to_string()])
        .args(["-t", "mix if state % 16 == 0 : state, *salt@4"])
        .args(options)
        .stderr(Stdio::piped())
        .spawn()
        .expect("tracewire runs")
}

/// How long it takes until the tracepoint is in.
fn installing(built: &Built, program: &Working, mechanism: &str) -> Duration {
    let begun = Instant::now();
    let mut recorder = recorder(built, program, mechanism, &["--duration", "0.001"]);
    let said = BufReader::new(recorder.stderr.take().expect("stderr"));
    let mut said = said.lines().map_while(Result::ok);
    assert!(said.any(|line| line.contains("by ")));
    let aim = begun.elapsed();
    said.for_each(drop);
    // In so short a time there may be no hit.
    let code = recorder.wait().expect("ended").code();
    assert!(matches!(code, Some(0 | 1)), "{code:?}");
    aim
}

/// Kills Tracewire this often, and returns how many programs have died with it. Survivors must have worked right.
fn kill(mechanism: &str, survives: bool) {
    let times = setting("TRACEWIRE_KILL_TIMES", 12);
    let mut random = Rng::with_seed(setting("TRACEWIRE_KILL_SEED", 1));
    let built = working::build(2, 200);
    let mut program = Working::start(&built);
    let mut aim = installing(&built, &program, mechanism);
    let (mut kills, mut lost, mut late, mut on_this) = ([0_u64; 3], 0, 0, 0);
    while on_this > 0 || kills.iter().sum::<u64>() < times {
        let phase = (kills.iter().sum::<u64>() + late) as usize % 3;
        let wait = match phase {
            0 => aim.mul_f64(random.f64()),
            1 => aim + Duration::from_millis(40).mul_f64(random.f64()),
            _ => aim + SHORT.mul_f64(0.9) + aim.min(SHORT).mul_f64(random.f64()),
        };
        let options: &[&str] = if phase == 2 {
            &["--duration", "0.02"]
        } else {
            &[]
        };
        let mut recorder = recorder(&built, &program, mechanism, options);
        std::thread::sleep(wait);
        // One that had done before does not count.
        if recorder.try_wait().expect("asked").is_some() {
            late += 1;
        } else {
            kills[phase] += 1;
            on_this += 1;
        }
        recorder.kill().expect("killed");
        recorder.wait().expect("ended");
        let dead = program.ended();
        if dead.is_none() && on_this < 4 {
            continue;
        }
        // Several recordings and kills of one program, then another one.
        let next = Working::start(&built);
        let before = std::mem::replace(&mut program, next);
        if let Err(status) = before.finish() {
            assert!(!survives, "{status} after kills {kills:?}, {wait:?}");
            assert_eq!(status.signal(), Some(libc::SIGTRAP), "{status}");
            lost += 1;
        }
        aim = installing(&built, &program, mechanism);
        on_this = 0;
    }
    program.finish().expect("alive");
    let _ = writeln!(
        std::io::stderr(),
        "{mechanism}: killed {kills:?} times while installing, running, removing; {lost} programs lost"
    );
}

#[test]
fn jumps_that_a_killed_tracewire_leaves_do_no_harm() {
    kill("jump", true);
}

/// A breakpoint that is left kills the program that hits it, by SIGTRAP. The other parts of a trap are harmless.
#[test]
fn traps_that_a_killed_tracewire_leaves_are_traps() {
    kill("trap", false);
}

/// The thread that makes system calls for a tracer does not get to run before the next one comes.
#[test]
fn a_stopped_program_outlives_tracers_that_are_killed_one_after_the_other() {
    const POINTS: [&str; 6] = [
        "call/led",
        "call/signals-blocked",
        "call/entered",
        "call/made",
        "call/signals-let",
        "call/led-back",
    ];
    const THREADS: usize = 2;
    let built = working::build(THREADS, 200);
    let mut random = Rng::with_seed(setting("TRACEWIRE_KILL_SEED", 1));
    for round in 0..setting("TRACEWIRE_KILL_TIMES", 12) {
        let mut program = Working::start(&built);
        program.wait_for_work(THREADS);
        let id = Pid::from_raw(program.id().cast_signed());
        let record = |fail_point: Option<&str>| {
            let ran = tracewire()
                .current_dir(built.folder.path())
                .args(["record", "-o", "out.tf", "--duration", "0.02"])
                .args(["-p", &id.to_string(), "--mechanism", "jump"])
                .args(["-t", "mix if state % 16 == 0 : state, *salt@4"])
                .envs(fail_point.map(|point| ("TRACEWIRE_FAIL_POINT", point)))
                .output();
            ran.expect("tracewire runs").status
        };
        // The kernel drops a signal that a killed tracer has received and not delivered yet.
        program.stop();
        let mut killed_at = Vec::new();
        for _ in 0..2 + round % 3 {
            // A tracer makes twenty calls, the first ones before its tracepoint is in, the last ones when it is out.
            let point = POINTS[random.usize(..POINTS.len())];
            let point = format!("{point}:{}", random.u32(1..20));
            let status = record(Some(&point));
            assert_eq!(status.signal(), Some(libc::SIGKILL), "{point}: {status}");
            killed_at.push(point);
        }
        // A stopped program has no hits.
        assert_eq!(record(None).code(), Some(1));
        kill_process(id, Signal::SIGCONT).expect("it is there");
        let ended = program.finish();
        assert!(ended.is_ok(), "{ended:?} after kills at {killed_at:?}");
    }
}

/// It is had before the tracepoints are known. Nothing of the program leads to it then.
#[test]
fn memory_that_a_killed_tracewire_has_prepared_is_unmapped_by_the_next() {
    let built = working::build(2, 200);
    let program = Working::start(&built);
    let record = |settings: &[(&str, &str)]| {
        let ran = tracewire()
            .current_dir(built.folder.path())
            .args(["record", "-o", "out.tf", "--duration", "0.02"])
            .args(["-p", &program.id().to_string()])
            .args(["-t", "mix if state % 16 == 0 : state"])
            .envs(settings.iter().copied())
            .output();
        ran.expect("tracewire runs").status
    };
    // That of the dynamic linker's hook, which stays with its jump, is smaller.
    let prepared = || {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", program.id()));
        let maps = maps.expect("it runs");
        let of_pads = maps.lines().filter(|line| {
            let range = line.split_whitespace().next();
            let ends = range.and_then(|range| range.split_once('-'));
            let (start, end) = ends.expect("a range");
            let number = |text| u64::from_str_radix(text, 16).expect("an address");
            line.contains("/memfd:tracewire") && number(end) - number(start) > 100 << 20
        });
        of_pads.count()
    };
    let killed = record(&[("TRACEWIRE_FAIL_POINT", "share/prepared:1")]);
    assert_eq!(killed.signal(), Some(libc::SIGKILL), "{killed}");
    assert_eq!(prepared(), 1);
    let whole = record(&[]);
    assert!(matches!(whole.code(), Some(0 | 1)), "{whole}");
    assert_eq!(prepared(), 0);
    program.finish().expect("unharmed");
}

/// A thread that serves the faults of another one: `site` gets memory that is not there yet. The first argument is a file for the number of rounds.
const PROVIDED: &str = r#"
    #define _GNU_SOURCE
    #include <fcntl.h>
    #include <linux/userfaultfd.h>
    #include <pthread.h>
    #include <signal.h>
    #include <string.h>
    #include <sys/ioctl.h>
    #include <sys/mman.h>
    #include <sys/prctl.h>
    #include <sys/syscall.h>
    #include <unistd.h>
    enum { PAGES = 4, SIZE = PAGES * 4096 };
    static int faults;
    static volatile int over;
    static void end(int signal) { over = 1; }
    static void *serve(void *p) {
        static char page[4096] = "page";
        struct uffd_msg message;
        for (;;) {
            if (read(faults, &message, sizeof message) != sizeof message) continue;
            if (message.event != UFFD_EVENT_PAGEFAULT) continue;
            struct uffdio_copy copy = {
                .dst = message.arg.pagefault.address & ~4095ULL, .src = (unsigned long)page, .len = 4096 };
            ioctl(faults, UFFDIO_COPY, &copy);
        }
    }
    __attribute__((noinline)) int site(const char *memory) {
        __asm__ volatile("nop; nop; nop; nop; nop");
        return memory[0] == 'p' && memory[3] == 'e';
    }
    int main(int count, char **arguments) {
        prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
        int file = open(arguments[1], O_RDWR | O_CREAT, 0600);
        if (ftruncate(file, 4096)) return 2;
        volatile long *rounds = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        char *memory = mmap(0, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        struct uffdio_api api = { .api = UFFD_API };
        faults = syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
        if (faults < 0 || ioctl(faults, UFFDIO_API, &api)) return 4;
        struct uffdio_register all = {
            .range = { (unsigned long)memory, SIZE }, .mode = UFFDIO_REGISTER_MODE_MISSING };
        if (ioctl(faults, UFFDIO_REGISTER, &all)) return 5;
        signal(SIGTERM, end);
        pthread_t server;
        pthread_create(&server, 0, serve, 0);
        while (!over) {
            if (*rounds % PAGES == 0) madvise(memory, SIZE, MADV_DONTNEED);
            if (!site(memory + *rounds % PAGES * 4096)) return 6;
            ++*rounds;
        }
        return 0;
    }
"#;

/// Tracer and program wait for a page together, and the tracer is killed.
#[test]
fn a_program_whose_thread_provides_its_memory_outlives_a_kill() {
    let folder = tempfile::tempdir().expect("a directory");
    let place = |name: &str| folder.path().join(name);
    let built = Cc::new()
        .option("-O1")
        .option("-g")
        .option("-pthread")
        .text(PROVIDED);
    let program = built.build(folder.path(), "provided");
    let counts = place("rounds");
    let mut child = Command::new(program)
        .arg(&counts)
        .spawn()
        .expect("it starts");
    let id = child.id().to_string();
    let rounds = || {
        let bytes = std::fs::read(&counts).unwrap_or_default();
        bytes
            .first_chunk()
            .map_or(0, |first| i64::from_ne_bytes(*first))
    };
    let after = |child: &mut Child, wanted: i64| {
        while rounds() < wanted {
            let ended = child.try_wait().expect("asked");
            assert!(ended.is_none(), "the program has ended: {ended:?}");
            std::thread::yield_now();
        }
    };
    after(&mut child, 1);
    let mut random = Rng::with_seed(14);
    let mut left = 0;
    for round in 0..12 {
        let name = place(&format!("{round}.tf"));
        let mut recorder = tracewire()
            .args(["record", "-p", &id, "--mechanism", "jump", "-o"])
            .arg(&name)
            .args(["-t", "site : memory[0], /s memory"])
            .stderr(Stdio::null())
            .spawn()
            .expect("tracewire runs");
        let growing = name.with_extension("tf.recording");
        while !growing.exists() {
            let ended = recorder.try_wait().expect("asked");
            assert!(ended.is_none(), "the recording has ended: {ended:?}");
            std::thread::yield_now();
        }
        // From the first rounds on, in which the tracepoint may not be in yet.
        let more = random.i64(0..400);
        let now = rounds();
        after(&mut child, now + more);
        match round % 4 {
            // An orderly end is none the worse.
            3 => {
                let recorder_id = Pid::from_raw(recorder.id().cast_signed());
                kill_process(recorder_id, Signal::SIGINT).expect("it is there");
                let status = recorder.wait().expect("ended");
                assert!(matches!(status.code(), Some(0 | 1)), "{status}");
            }
            _ => {
                recorder.kill().expect("killed");
                recorder.wait().expect("ended");
                let now = rounds();
                after(&mut child, now + 50);
                let rescued = tracewire()
                    .args(["rescue", "-p", &id, "-o"])
                    .arg(place("rest.tf"))
                    .output()
                    .expect("tracewire runs");
                assert!(matches!(rescued.status.code(), Some(0 | 1)), "{rescued:?}");
                left += u32::from(rescued.status.success());
            }
        }
        let now = rounds();
        after(&mut child, now + 50);
    }
    assert!(left > 0, "no kill has left anything in the program");
    kill_process(Pid::from_raw(child.id().cast_signed()), Signal::SIGTERM).expect("it is there");
    let status = child.wait().expect("ended");
    assert!(status.success(), "{status}");
}

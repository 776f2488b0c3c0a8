//! Threads that wait in the kernel for another thread of the program, which the tracer holds: each wait of the tracer
//! ends.

mod support;

use std::io::Read;

use support::pads::count;
use support::watchdog::Watchdog;
use support::{Counter, Program, address};
use tracewire_experiment::{
    Fault, FaultKind, Hit, HitHandler, Outcome, PadCode, StoppedThread, Target,
};
use tracewire_model::ThreadId;
use tracewire_target_linux::{Event, Process, Settings, SharedMemory, await_end};

/// The first thread repeatedly calls `site` with memory that is not there yet; another thread provides it, after a
/// delay. The work of the program until SIGTERM is in its results. Arguments after the file of results: `filter` for a
/// seccomp filter that allows everything, `events` for waiting for that thread in `madvise`, too, and `files` for
/// memory of a file that another process serves by FUSE. That is sometimes late, as over a stalled network: no signal
/// ends the wait for it.
const PROGRAM: &str = r#"
    #define _GNU_SOURCE
    #include <fcntl.h>
    #include <errno.h>
    #include <linux/filter.h>
    #include <linux/fuse.h>
    #include <linux/seccomp.h>
    #include <linux/userfaultfd.h>
    #include <pthread.h>
    #include <sched.h>
    #include <signal.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    #include <sys/ioctl.h>
    #include <sys/mman.h>
    #include <sys/mount.h>
    #include <sys/prctl.h>
    #include <sys/stat.h>
    #include <sys/syscall.h>
    #include <time.h>
    #include <unistd.h>
    enum { PAGES = 4, SIZE = PAGES * 4096 };
    static int faults;
    static volatile int over;
    static long served;
    static void end(int signal) { over = 1; }
    static void *serve(void *p) {
        static char page[4096] = "page";
        struct uffd_msg message;
        for (;;) {
            if (read(faults, &message, sizeof message) != sizeof message) continue;
            nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, 0);
            if (message.event != UFFD_EVENT_PAGEFAULT) continue;
            struct uffdio_copy copy = {
                .dst = message.arg.pagefault.address & ~4095ULL, .src = (unsigned long)page, .len = 4096 };
            ioctl(faults, UFFDIO_COPY, &copy);
            served++;
        }
    }
    static void answer(unsigned long unique, int error, const void *data, unsigned length) {
        static char out[SIZE + 64];
        struct fuse_out_header header = { .len = sizeof header + length, .error = error, .unique = unique };
        memcpy(out, &header, sizeof header);
        if (length) memcpy(out + sizeof header, data, length);
        write(faults, out, header.len);
    }
    static struct fuse_attr attributes(unsigned long node) {
        return (struct fuse_attr){ .ino = node, .size = SIZE, .nlink = 1,
            .mode = node == 1 ? S_IFDIR | 0755 : S_IFREG | 0644 };
    }
    static void serve_files(void) {
        static char in[1 << 20], data[SIZE];
        for (int i = 0; i < SIZE; i += 4096) strcpy(data + i, "page");
        while (read(faults, in, sizeof in) > 0) {
            struct fuse_in_header *header = (void *)in;
            struct fuse_init_out init = { .major = FUSE_KERNEL_VERSION, .minor = 31, .max_write = 4096 };
            struct fuse_entry_out entry = { .nodeid = 2, .attr = attributes(2) };
            struct fuse_attr_out attr = { .attr = attributes(header->nodeid) };
            struct fuse_open_out open = { .fh = 1 };
            struct fuse_read_in *piece = (void *)(header + 1);
            switch (header->opcode) {
            case FUSE_INIT: answer(header->unique, 0, &init, sizeof init); break;
            case FUSE_LOOKUP: answer(header->unique, 0, &entry, sizeof entry); break;
            case FUSE_GETATTR: answer(header->unique, 0, &attr, sizeof attr); break;
            case FUSE_OPEN: answer(header->unique, 0, &open, sizeof open); break;
            case FUSE_READ:
                nanosleep(&(struct timespec){ .tv_nsec = served++ % 8 ? 1000000 : 400000000 }, 0);
                if (piece->offset >= SIZE) answer(header->unique, 0, 0, 0);
                else answer(header->unique, 0, data + piece->offset,
                            piece->size < SIZE - piece->offset ? piece->size : SIZE - piece->offset);
                break;
            case FUSE_FORGET: case FUSE_BATCH_FORGET: case FUSE_INTERRUPT: break;
            default: answer(header->unique, -ENOSYS, 0, 0);
            }
        }
    }
    static void become_root(void) {
        if (!geteuid()) return;
        char map[64];
        snprintf(map, sizeof map, "0 %d 1", geteuid());
        if (unshare(CLONE_NEWUSER)) return;
        int file = open("/proc/self/uid_map", O_WRONLY);
        write(file, map, strlen(map));
        close(file);
    }
    /// A file of a file system of its own, which a child serves until this program ends.
    static int served_file(const char *results) {
        char place[4096], options[128];
        snprintf(place, sizeof place, "%s.files", results);
        mkdir(place, 0700);
        become_root();
        if (unshare(CLONE_NEWNS) || mount("none", "/", 0, MS_REC | MS_PRIVATE, 0)) return -1;
        faults = open("/dev/fuse", O_RDWR | O_CLOEXEC);
        snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=0,group_id=0", faults);
        if (mount("served", place, "fuse", MS_NOSUID | MS_NODEV, options)) return -1;
        if (!fork()) {
            prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
            serve_files();
            _exit(0);
        }
        close(faults);
        strcat(place, "/pages");
        return open(place, O_RDONLY | O_CLOEXEC);
    }
    __asm__(".text\n.globl site\n.type site, @function\nsite: movq (%rdi), %rax\n movq %rax, %rcx\n ret\n.size site, .-site\n");
    long site(char *);
    int main(int count, char **arguments) {
        struct uffdio_api api = { .api = UFFD_API };
        char *memory;
        int file = -1;
        signal(SIGTERM, end);
        for (int i = 2; i < count; i++) {
            if (!strcmp(arguments[i], "files")) {
                file = served_file(arguments[1]);
                if (file < 0) return 7;
                memory = mmap(0, SIZE, PROT_READ, MAP_PRIVATE, file, 0);
                if (memory == MAP_FAILED) return 8;
            }
            if (!strcmp(arguments[i], "events")) api.features = UFFD_FEATURE_EVENT_REMOVE;
            if (!strcmp(arguments[i], "filter")) {
                struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
                struct sock_fprog filter = { 1, &allow };
                prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
                if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)) return 3;
            }
        }
        if (file < 0) {
            faults = syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
            if (faults < 0 || ioctl(faults, UFFDIO_API, &api)) return 4;
            memory = mmap(0, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            struct uffdio_register all = {
                .range = { (unsigned long)memory, SIZE }, .mode = UFFDIO_REGISTER_MODE_MISSING };
            if (ioctl(faults, UFFDIO_REGISTER, &all)) return 5;
            pthread_t thread;
            pthread_create(&thread, 0, serve, 0);
        }
        if (count > 2 && !strcmp(arguments[2], "filter")) write(1, "r", 1);
        long calls = 0;
        while (!over) {
            for (int i = 0; i < PAGES; i++) {
                long value = site(memory + i * 4096);
                if (memcmp(&value, "page\0\0\0\0", 8)) return 6;
                calls++;
            }
            madvise(memory, SIZE, MADV_DONTNEED);
            if (file >= 0) posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
        }
        FILE *results = fopen(arguments[1], "w");
        fprintf(results, "calls %ld\nserved %ld\n", calls, served);
        fclose(results);
        return 0;
    }
"#;

fn spawn(program: &Program, options: &[&str]) -> Process {
    let mut arguments = program.arguments();
    arguments.extend(options.iter().map(Into::into));
    Process::spawn(&program.path, &arguments, Default::default()).unwrap()
}

/// Runs until the counter has increased by some.
fn run_for_hits(process: &mut Process, memory: &SharedMemory) {
    let before = count(memory, 0);
    run_until(process, &mut Counter::default(), || {
        count(memory, 0) >= before + 3
    });
}

fn run_until(process: &mut Process, handler: &mut dyn HitHandler, over: impl Fn() -> bool + Send) {
    let interrupter = process.interrupter();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            while !over() {
                std::thread::yield_now();
            }
            interrupter.interrupt();
        });
        loop {
            match process.run(handler).unwrap() {
                Event::LibrariesChanged => {}
                event => return assert_eq!(event, Event::Interrupted),
            }
        }
    });
}

/// Lets the program end, and returns how many calls it has made, all of them right.
fn calls_of(program: &Program, process: Process) -> i64 {
    let id = process.id();
    process.detach().unwrap();
    // SAFETY: kill takes plain numbers; the process has not been waited for.
    unsafe { libc::kill(id.0.cast_signed(), libc::SIGTERM) };
    await_end(id);
    let results = program.results();
    assert!(
        results.contains_key("calls"),
        "the program has not come to its end"
    );
    results["calls"]
}

/// Counts in shared memory, then reads at the address in `rdi`.
fn reading(memory: &SharedMemory) -> PadCode {
    let counter = memory.address().0;
    // lea rsp, [rsp-128]; pushfq; push rax; mov rax, counter; lock inc qword ptr [rax]
    let count = [
        &[0x48, 0x8d, 0x64, 0x24, 0x80, 0x9c, 0x50, 0x48, 0xb8][..],
        &counter.to_le_bytes(),
        &[0xf0, 0x48, 0xff, 0x00],
    ]
    .concat();
    let at = count.len() as u32;
    // mov rax, [rdi]; pop rax; popfq; lea rsp, [rsp+128]
    let read = [
        0x48, 0x8b, 0x07, 0x58, 0x9d, 0x48, 0x8d, 0xa4, 0x24, 0x80, 0, 0, 0,
    ];
    PadCode {
        code: [&count[..], &read].concat(),
        faults: vec![Fault {
            at,
            resume: at + 3,
            kind: FaultKind::Memory,
        }],
    }
}

/// Ends the run after this many hits.
struct Ended<'a>(&'a mut Counter, u64);
impl HitHandler for Ended<'_> {
    fn hit(&mut self, hit: Hit, thread: &mut dyn StoppedThread) -> Outcome {
        let mut outcome = self.0.hit(hit, thread);
        self.1 -= 1;
        outcome.run_ended = self.1 == 0;
        outcome
    }
}

#[test]
fn a_thread_that_waits_in_a_pad_for_another_one_is_left_in_time() {
    let _watchdog = Watchdog::start("leaving a pad that waits for another thread");
    let program = Program::build(PROGRAM, &["-O1"]);
    for _ in 0..4 {
        let mut process = spawn(&program, &[]);
        let memory = process.share_memory_of(4096).unwrap();
        let site = address(&process, &program, "site");
        process.insert_code(site, reading(&memory)).unwrap();
        run_for_hits(&mut process, &memory);
        run_for_hits(&mut process, &memory);
        assert!(calls_of(&program, process) > 0);
    }
}

#[test]
fn a_thread_that_waits_for_a_file_that_comes_late_is_left_in_time() {
    let _watchdog = Watchdog::start("leaving a pad that waits for a file");
    let program = Program::build(PROGRAM, &["-O1"]);
    for _ in 0..2 {
        let mut process = spawn(&program, &["files"]);
        let memory = process.share_memory_of(4096).unwrap();
        let site = address(&process, &program, "site");
        process.insert_code(site, reading(&memory)).unwrap();
        for _ in 0..4 {
            run_for_hits(&mut process, &memory);
        }
        process.remove(site).unwrap();
        process.insert(site).unwrap();
        let mut hits = Counter::default();
        let event = support::run_to_end(&mut process, &mut Ended(&mut hits, 8));
        assert_eq!((event, hits.at(site)), (Event::RunEnded, 8));
        assert!(calls_of(&program, process) > 0);
    }
}

#[test]
fn a_thread_that_waits_at_an_instruction_in_its_place_for_another_one_goes_on() {
    const HITS: u64 = 12;
    let _watchdog = Watchdog::start("an instruction in its place that waits for another thread");
    let program = Program::build(PROGRAM, &["-O1"]);
    let mut child = std::process::Command::new(&program.path)
        .args(program.arguments())
        .arg("filter")
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut ready = [0];
    child.stdout.take().unwrap().read_exact(&mut ready).unwrap();
    let mut process = Process::attach(ThreadId(child.id()), Settings::default()).unwrap();
    let site = address(&process, &program, "site");
    process.insert(site).unwrap();
    let mut hits = Counter::default();
    let event = support::run_to_end(&mut process, &mut Ended(&mut hits, HITS));
    assert_eq!((event, hits.at(site)), (Event::RunEnded, HITS));
    process.detach().unwrap();
    // SAFETY: kill takes plain numbers; the process has not been waited for.
    unsafe { libc::kill(child.id().cast_signed(), libc::SIGTERM) };
    assert!(child.wait().unwrap().success());
    assert!(program.results()["calls"] >= HITS as i64 - 1);
}

#[test]
fn a_thread_that_sleeps_where_nothing_stops_it_holds_nobody_up() {
    let _watchdog = Watchdog::start("stopping a thread that sleeps in the kernel");
    let program = Program::build(PROGRAM, &["-O1"]);
    for _ in 0..4 {
        let mut process = spawn(&program, &["events"]);
        let memory = process.share_memory_of(4096).unwrap();
        let site = address(&process, &program, "site");
        process.insert_code(site, reading(&memory)).unwrap();
        for _ in 0..4 {
            run_for_hits(&mut process, &memory);
        }
        assert!(calls_of(&program, process) > 0);
    }
}

/// Is in vfork most of the time. A child calls `site` before it calls exec.
const FORKING: &str = r#"
    #include <signal.h>
    #include <stdio.h>
    #include <sys/wait.h>
    #include <unistd.h>
    static volatile int over;
    static void end(int signal) { over = 1; }
    __attribute__((noinline)) long site(long x) { __asm__ volatile("" ::: "memory"); return x * 3 + 1; }
    int main(int count, char **arguments) {
        long children = 0;
        signal(SIGTERM, end);
        write(1, "r", 1);
        while (!over) {
            pid_t child = vfork();
            if (child == 0) {
                for (long i = 0; i < 2000; i++) if (site(i) != i * 3 + 1) _exit(9);
                execl("/bin/true", "true", (char *)0);
                _exit(8);
            }
            int status;
            if (waitpid(child, &status, 0) != child || status) return 3;
            children++;
        }
        FILE *results = fopen(arguments[1], "w");
        fprintf(results, "calls %ld\n", children);
        fclose(results);
        return 0;
    }
"#;

#[test]
fn a_jump_is_put_in_while_the_program_waits_in_vfork() {
    const ROUNDS: u32 = 30;
    let _watchdog = Watchdog::start("jumps in a program that is in vfork");
    let program = Program::build(FORKING, &["-O1"]);
    let mut child = program.start();
    let mut ready = [0];
    child.stdout.take().unwrap().read_exact(&mut ready).unwrap();
    for round in 0..ROUNDS {
        let mut process = Process::attach(ThreadId(child.id()), Settings::default()).unwrap();
        let site = address(&process, &program, "site");
        process.insert(site).unwrap();
        // Until a child is in the middle of its calls, and has this thread's memory.
        let mut hits = Counter::default();
        struct Stopped<'a>(&'a mut Counter);
        impl HitHandler for Stopped<'_> {
            fn hit(&mut self, hit: Hit, thread: &mut dyn StoppedThread) -> Outcome {
                let mut outcome = self.0.hit(hit, thread);
                outcome.run_ended = true;
                outcome
            }
        }
        let event = support::run_to_end(&mut process, &mut Stopped(&mut hits));
        assert_eq!((event, hits.at(site)), (Event::RunEnded, 1), "{round}");
        process.remove(site).unwrap();
        let memory = process.share_memory_of(4096).unwrap();
        process
            .insert_code(site, support::pads::counting(&memory, 0))
            .unwrap();
        run_for_hits(&mut process, &memory);
        process.detach().unwrap();
    }
    // SAFETY: kill takes plain numbers; the process has not been waited for.
    unsafe { libc::kill(child.id().cast_signed(), libc::SIGTERM) };
    assert!(child.wait().unwrap().success());
    assert!(program.results()["calls"] > 0);
}

#[test]
fn a_program_that_begins_and_ends_vforks_has_jumps_at_any_moment() {
    const ROUNDS: u32 = 40;
    let _watchdog = Watchdog::start("jumps in a program that begins and ends vforks");
    let program = Program::build(FORKING, &["-O1"]);
    let mut child = program.start();
    let mut ready = [0];
    child.stdout.take().unwrap().read_exact(&mut ready).unwrap();
    for round in 0..ROUNDS {
        let mut process = Process::attach(ThreadId(child.id()), Settings::default()).unwrap();
        let site = address(&process, &program, "site");
        let interrupter = process.interrupter();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                // At any moment of a round of the program.
                for _ in 0..round * 37 {
                    std::thread::yield_now();
                }
                interrupter.interrupt();
            });
            while process.run(&mut Counter::default()).unwrap() != Event::Interrupted {}
        });
        let memory = process
            .share_memory_of(4096)
            .unwrap_or_else(|reason| panic!("{round}: {reason}"));
        process
            .insert_code(site, support::pads::counting(&memory, 0))
            .unwrap();
        run_for_hits(&mut process, &memory);
        process.detach().unwrap();
    }
    // SAFETY: kill takes plain numbers; the process has not been waited for.
    unsafe { libc::kill(child.id().cast_signed(), libc::SIGTERM) };
    assert!(child.wait().unwrap().success());
}

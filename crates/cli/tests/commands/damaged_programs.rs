//! `record` on programs whose symbols, sections and debug information are damaged. It reports what it cannot read, records the
//! rest, and neither panics, nor hangs, nor uses memory without bound.
//!
//! `TRACEWIRE_ELF_TIMES` is the number of programs, `TRACEWIRE_ELF_SEED` the seed of the damages (`cargo xtask torture elf`). Only
//! parts that are not loaded are damaged: the execution of random code is not tested.

use std::ops::Range;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fastrand::Rng;
use object::{Object as _, ObjectSection as _};
use tracewire_test_support::{setting, write_program};

use crate::support::Built;

const PROGRAM: &str = r#"
#include <unistd.h>
struct pair { int first; const char *second; };
enum kind { NONE, SOME = 5 };
volatile int calls;
static __attribute__ ((noinline)) int
tick (int n, struct pair *pair, enum kind kind)
{
  int local = n * 2;
  calls += local + pair->first + kind;
  return local;
}
int main (void)
{
  struct pair pair = { 1, "one" };
  for (int i = 0; i < 5; i++)
    pair.first = tick (i, &pair, SOME);
  return 0;
}
#ifdef ALONE
__asm__ (".globl _start\n_start: xor %ebp, %ebp\n and $-16, %rsp\n call main\n mov %eax, %edi\n mov $231, %eax\n syscall");
#endif
"#;

/// Without the C library, whose names take most of the time, and with it.
const KINDS: [&[&str]; 2] = [
    &[
        "-O1",
        "-static",
        "-nostdlib",
        "-fno-stack-protector",
        "-DALONE",
    ],
    &["-O1", "-static"],
];

/// Every so many programs are of the second kind.
const LARGE: u64 = 16;

/// The limits of a run's time and memory, in KiB: many times the usual.
const LIMIT: Duration = Duration::from_secs(30);
/// The exit status of `timeout` where the limit has passed and the program has obeyed its SIGTERM.
const TIMED_OUT: i32 = 124;
const MEMORY: u64 = 4 << 20;

/// How many programs are recorded at a time.
const THREADS: usize = 4;

/// After how many programs there is a line.
const REPORTED: u64 = 5000;

const TRACEPOINTS: [&str; 6] = [
    "tick : n, *pair, local, kind",
    "tick if n > 2 : $args, $locals, calls",
    "program.c:9 : local, /s pair->second",
    "return tick : $retval",
    "t* : n",
    "main : $regs, pair",
];

/// The ranges of a file that may be damaged: the reference to the section headers, the headers, and sections that are not loaded.
fn not_loaded(bytes: &[u8]) -> Vec<Range<usize>> {
    let file = object::File::parse(bytes).expect("an ELF file");
    let read = |at: usize, size: usize| {
        bytes[at..at + size]
            .iter()
            .rev()
            .fold(0_usize, |number, byte| number << 8 | usize::from(*byte))
    };
    let (headers, count) = (read(0x28, 8), read(0x3c, 2));
    let mut ranges = vec![0x28..0x30, 0x3a..0x40, headers..headers + count * 64];
    for section in file.sections() {
        let is_loaded = section.address() != 0;
        let unwinds = section.name() == Ok(".eh_frame");
        if let Some((start, size)) = section.file_range()
            && (!is_loaded || unwinds)
            && size > 0
        {
            // Each counts as often as the others, however long.
            ranges.push(start as usize..(start + size) as usize);
        }
    }
    ranges
}

fn damage(bytes: &mut [u8], ranges: &[Range<usize>], random: &mut Rng) {
    for _ in 0..=random.usize(..8) {
        let range = ranges[random.usize(..ranges.len())].clone();
        let at = range.start + random.usize(..range.len().max(1));
        let end = (at + 1 + random.usize(..8)).min(range.end);
        match random.usize(..4) {
            0 => bytes[at] ^= 1 << random.usize(..8),
            1 => bytes[at..end].fill([0, 0xff, 0x7f, 0x80][random.usize(..4)]),
            2 => bytes[at] = random.u8(..),
            _ => {
                let from = range.start + random.usize(..range.len().max(1));
                let length = (end - at).min(range.end - from);
                bytes.copy_within(from..from + length, at);
            }
        }
    }
}

/// The file of a program, and the ranges of it that may be damaged.
struct Whole {
    bytes: Vec<u8>,
    ranges: Vec<Range<usize>>,
}

impl Whole {
    fn new(options: &[&str]) -> Self {
        let program = Built::new(PROGRAM, options);
        let bytes = std::fs::read(&program.program).expect("read");
        let ranges = not_loaded(&bytes);
        Self { bytes, ranges }
    }
}

/// How many programs ended in each way.
#[derive(Default)]
struct Endings {
    recorded: u64,
    without_frame: u64,
    refused: u64,
    endless: u64,
}

impl Endings {
    fn all(&self) -> u64 {
        self.recorded + self.without_frame + self.refused + self.endless
    }
}

/// Records the damaged program of a number in a folder.
fn record(number: u64, seed: u64, wholes: &[Whole; 2], folder: &Path, endings: &Mutex<Endings>) {
    let mut random = Rng::with_seed(seed.wrapping_add(number << 32));
    let whole = &wholes[usize::from(number % LARGE == LARGE - 1)];
    let mut bytes = whole.bytes.clone();
    damage(&mut bytes, &whole.ranges, &mut random);
    let program = folder.join("damaged");
    // The file of a program that is still ending cannot be overwritten.
    let _ = std::fs::remove_file(&program);
    write_program(&program, &bytes);
    let tracepoint = TRACEPOINTS[random.usize(..TRACEPOINTS.len())];
    let line = format!(
        "ulimit -v {MEMORY}; exec timeout --kill-after 1 {} {} record -t '{tracepoint}' -o damaged.tf -- ./damaged",
        LIMIT.as_secs(),
        env!("CARGO_BIN_EXE_tracewire"),
    );
    let output = Command::new("sh")
        .args(["-c", &line])
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .expect("sh runs");
    let said = String::from_utf8_lossy(&output.stderr);
    let code = output.status.code();
    // Messages about a place in the program have the word, too.
    let lacked_memory = ["out of memory", "no memory for", "memory allocation"]
        .iter()
        .any(|words| said.contains(words));
    // A damaged symbol may be in the middle of an instruction, which a tracepoint there changes: that program may never end.
    // Then the signal ends its recording, as it should.
    let has_ended = matches!(code, Some(0..=2))
        || code == Some(TIMED_OUT) && said.contains("tracewire: the run was ended by SIGTERM");
    if !has_ended || said.contains("panicked") || lacked_memory {
        let kept = std::env::temp_dir().join(format!("damaged-{number}.elf"));
        std::fs::write(&kept, &bytes).expect("written");
        panic!(
            "{tracepoint}, {code:?}, signal {:?}; the program is {}\n{said}",
            output.status.signal(),
            kept.display()
        );
    }
    let control = |c: char| c.is_control() && c != '\n';
    assert!(!said.contains(control), "{said:?}");
    let mut endings = endings.lock().unwrap();
    match code {
        Some(0) => endings.recorded += 1,
        Some(1) => endings.without_frame += 1,
        Some(2) => endings.refused += 1,
        _ => endings.endless += 1,
    }
    if endings.all().is_multiple_of(REPORTED) {
        eprintln!("{} damaged programs", endings.all());
    }
}

#[test]
fn damaged_programs_do_no_harm() {
    let times = setting("TRACEWIRE_ELF_TIMES", 25);
    let seed = setting("TRACEWIRE_ELF_SEED", 1);
    let wholes = KINDS.map(Whole::new);
    let endings = Mutex::new(Endings::default());
    let next = AtomicU64::new(0);
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let folder = tempfile::tempdir().expect("a folder");
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= times {
                        break;
                    }
                    record(number, seed, &wholes, folder.path(), &endings);
                }
            });
        }
    });
    let endings = endings.into_inner().unwrap();
    assert_eq!(endings.all(), times);
    eprintln!(
        "{times} damaged programs in {:.1} s: {} recorded, {} without a frame, {} refused, {} without an end",
        begun.elapsed().as_secs_f64(),
        endings.recorded,
        endings.without_frame,
        endings.refused,
        endings.endless
    );
}

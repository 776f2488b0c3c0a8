//! One pad in many threads at once, with signals that hit it again while it works, and a reader that keeps up.
//!
//! `TRACEWIRE_JUMP_PAD_SECONDS` is the duration.

#[path = "support/machine.rs"]
mod machine;
#[path = "support/tracepoints.rs"]
mod tracepoints;

use std::cell::UnsafeCell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use machine::{Code, Setting, callable};
use tracepoints::{expression, pointed_to, tracepoint};
use tracewire_experiment::Writers;
use tracewire_jump_pad::{Drained, RingReader, SharedSizes, WhenFull};

fn seconds() -> Duration {
    let seconds = std::env::var("TRACEWIRE_JUMP_PAD_SECONDS");
    Duration::from_millis(seconds.map_or(2000, |text| 1000 * text.parse::<u64>().unwrap()))
}

fn sizes(when_full: WhenFull) -> SharedSizes {
    SharedSizes {
        cpus: 4,
        ring_bytes: 1 << 16,
        frame_limit: 2048,
        tracepoints: 1,
        variables: 1,
        hold_bytes: 64 << 20,
        count_bytes: 0,
        when_full,
    }
}

/// A thread's data for the pad: its number, the number of its hits, a text whose length follows the count.
#[repr(C)]
struct Shown {
    thread: u64,
    count: u64,
    text: [u8; 64],
}

thread_local! {
    /// The data of a thread's signal handler.
    static HANDLER: UnsafeCell<Shown> = const { UnsafeCell::new(Shown { thread: 0, count: 0, text: [0; 64] }) };
}

impl Shown {
    fn new(thread: u64) -> Self {
        Self {
            thread,
            count: 0,
            text: [0; 64],
        }
    }

    fn next(&mut self) {
        self.count += 1;
        let length = (self.count % 60) as usize;
        self.text.fill(b'a' + (self.thread % 26) as u8);
        self.text[length] = 0;
    }
}

const THREADS: u64 = 5;

type Hit = extern "C" fn(*const Shown);

static PAD: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());
static SIGNALS: AtomicU64 = AtomicU64::new(0);
/// Threads outside of handlers count from here on.
const IN_HANDLER: u64 = 1000;

extern "C" fn again(_: i32) {
    let pad = PAD.load(Ordering::Acquire);
    if pad.is_null() {
        return;
    }
    // SAFETY: it is the pad.
    let pad: Hit = unsafe { std::mem::transmute(pad) };
    HANDLER.with(|shown| {
        // SAFETY: this handler does not interrupt itself.
        let shown = unsafe { &mut *shown.get() };
        if shown.thread > 0 {
            shown.next();
            pad(shown);
            SIGNALS.fetch_add(1, Ordering::Relaxed);
        }
    });
}

fn on_signal(signal: i32, handler: extern "C" fn(i32)) {
    // SAFETY: the handler touches only its thread's own data.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        assert_eq!(libc::sigaction(signal, &action, std::ptr::null_mut()), 0);
    }
}

/// The frames that were read, and what is wrong with them.
#[derive(Default)]
struct Seen {
    frames: u64,
    /// The last count of each thread, and the last time.
    counts: BTreeMap<u64, u64>,
    last_time: u64,
    disorder: u64,
    gaps: u64,
}

impl Seen {
    fn take(&mut self, bytes: &[u8], time: u64) {
        self.frames += 1;
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        let stamps = 6 + 4 * 13;
        let size = u32::from_le_bytes(bytes[2..6].try_into().unwrap());
        assert_eq!(size as usize + 6, bytes.len());
        assert_eq!(bytes[stamps], b'M');
        let (thread, count) = (word(stamps + 11), word(stamps + 19));
        let text = &bytes[stamps + 27 + 11..];
        let length = (count % 60) as usize;
        assert_eq!(text.len(), length + 1, "thread {thread}, {count}");
        assert!(
            text[..length]
                .iter()
                .all(|byte| *byte == b'a' + (thread % 26) as u8)
        );
        let last = self.counts.insert(thread, count).unwrap_or(0);
        assert!(count > last, "thread {thread}: {count} after {last}");
        self.gaps += count - last - 1;
        self.disorder += u64::from(time < self.last_time);
        self.last_time = time;
    }
}

/// Ends the threads of a test when it is dropped.
struct EndThreads<'a>(&'a AtomicBool);

impl Drop for EndThreads<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn stress(when_full: WhenFull, signals: bool) {
    let length = seconds();
    let mut setting = Setting::new(sizes(when_full));
    setting.stamp = true;
    let definition = tracepoint(
        1,
        vec![
            pointed_to(5, 16),
            expression("reg 5\nconst8 16\nadd\nconst8 64\ntracenz\nend"),
            expression("getv 4\nconst8 1\nadd\nsetv 4\nend"),
        ],
    );
    let code = Code::new(1 << 16);
    let pad = setting.compile(&[definition]).unwrap();
    let hit = callable(&code, 0, &pad);
    PAD.store(hit as *mut (), Ordering::Release);
    // SAFETY: the pad preserves all registers.
    let hit: Hit = unsafe { std::mem::transmute(hit) };
    if signals {
        on_signal(libc::SIGUSR1, again);
    }
    SIGNALS.store(0, Ordering::Relaxed);

    let over = AtomicBool::new(false);
    let hits = AtomicU64::new(0);
    let mut seen = Seen::default();
    let mut torn = 0;
    let shared = &setting.shared;
    let mut reader = RingReader::new(shared);
    let (number, numbers) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        for thread in 1..=THREADS {
            let (over, hits, number) = (&over, &hits, number.clone());
            scope.spawn(move || {
                machine::handle_faults();
                // SAFETY: no argument.
                number.send(unsafe { libc::gettid() }).unwrap();
                HANDLER.with(|shown| {
                    // SAFETY: the handler does nothing before the thread has a number.
                    unsafe { (*shown.get()).thread = IN_HANDLER + thread };
                });
                let mut shown = Shown::new(thread);
                while !over.load(Ordering::Relaxed) {
                    shown.next();
                    hit(&shown);
                    if shown.count.is_multiple_of(512) {
                        // Lets the reader run on a machine with few cpus.
                        std::thread::yield_now();
                    }
                }
                hits.fetch_add(shown.count, Ordering::Relaxed);
                HANDLER.with(|shown| {
                    // SAFETY: as above.
                    unsafe { (*shown.get()).thread = 0 };
                });
            });
        }
        // The threads end when this scope does, also when an assertion fails in it.
        let over = EndThreads(&over);
        let known: Vec<_> = (0..THREADS).map(|_| numbers.recv().unwrap()).collect();
        let own = std::process::id().cast_signed();
        let start = Instant::now();
        let mut enabled = 0;
        while start.elapsed() < length {
            if signals {
                for thread in &known {
                    // SAFETY: the threads end only below.
                    unsafe { libc::syscall(libc::SYS_tgkill, own, *thread, libc::SIGUSR1) };
                }
            }
            let drained: Drained = reader.drain(shared, Writers::Running, &mut |frame| {
                seen.take(frame.bytes, frame.time)
            });
            torn += drained.torn;
            enabled += 1;
        }
        assert!(enabled > 10, "read only {enabled} times");
        drop(over);
    });
    let drained = reader.finish(shared, &mut |frame| seen.take(frame.bytes, frame.time));
    torn += drained.torn;
    PAD.store(std::ptr::null_mut(), Ordering::Release);

    let losses = shared.losses();
    let made = hits.load(Ordering::Relaxed) + SIGNALS.load(Ordering::Relaxed);
    println!(
        "{when_full:?}: {made} hits, {} in handlers, {} frames, {losses:?}, {} too early",
        SIGNALS.load(Ordering::Relaxed),
        seen.frames,
        seen.disorder
    );
    assert_eq!(torn, 0);
    assert_eq!(losses.too_long, 0);
    assert_eq!(seen.frames + losses.lost + losses.dropped, made);
    // A frame that was stepped over is lost, but its hit has its other effects.
    let lost_before = match when_full {
        WhenFull::Overwrite | WhenFull::WaitThenOverwrite => 0..=losses.lost,
        WhenFull::Stop | WhenFull::Wait => losses.lost..=losses.lost,
    };
    let counted = shared.variable(0).unwrap().cast_unsigned();
    assert!(lost_before.contains(&(made - counted)), "{counted}");
    if matches!(when_full, WhenFull::Wait | WhenFull::WaitThenOverwrite) {
        // Only counted frames are missing.
        assert!(seen.gaps <= losses.lost + losses.dropped);
    }
    if when_full == WhenFull::WaitThenOverwrite {
        // Nearly all wait for the reader: those of a ring that does not are given up nearly all.
        assert!(seen.frames > losses.dropped);
    }
    assert_eq!(seen.disorder, 0);
}

#[test]
fn every_frame_of_every_thread_is_read_or_counted() {
    // One after the other: they share a handler.
    stress(WhenFull::Wait, true);
    stress(WhenFull::Overwrite, true);
    stress(WhenFull::WaitThenOverwrite, true);
    stress(WhenFull::Wait, false);
}

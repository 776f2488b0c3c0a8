//! The cost of a pad in nanoseconds a hit, and the least possible cost.
//!
//! `cargo run --release -p tracewire-jump-pad --example pad_cost [KIB_OF_A_RING]`

#[path = "../tests/support/machine.rs"]
mod machine;

use std::hint::black_box;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use machine::{Code, Memory, PAGE, Setting, callable};
use tracewire_agent_expr::assemble;
use tracewire_experiment::HitCost;
use tracewire_jump_pad::{RingReader, SharedSizes, WhenFull, counter};
use tracewire_model::{
    Action, RegisterMask, TracepointDefinition, TracepointKind, TracepointNumber,
};

const HITS: u32 = 200_000;
const ROUNDS: usize = 15;

/// The size of a ring: the first argument, in KiB.
fn ring_bytes() -> u64 {
    std::env::args().nth(1).map_or(1 << 20, |kilobytes| {
        1024 * kilobytes.parse::<u64>().unwrap()
    })
}

fn sizes(tracepoints: u32) -> SharedSizes {
    SharedSizes {
        cpus: 4,
        ring_bytes: ring_bytes(),
        frame_limit: 8192,
        tracepoints,
        variables: 4,
        hold_bytes: 0,
        count_bytes: 0,
        when_full: WhenFull::Overwrite,
    }
}

fn tracepoint(condition: Option<&str>, actions: Vec<Action>) -> TracepointDefinition {
    TracepointDefinition {
        number: TracepointNumber(1),
        address: machine::SITE,
        enabled: true,
        kind: TracepointKind::Trap,
        step_count: 0,
        pass_count: 0,
        condition: condition.map(|text| assemble(text).unwrap()),
        actions,
        step_actions: vec![],
        counting: tracewire_model::Counting::default(),
        withholds_registers: false,
        free_stack: None,
        source: Default::default(),
    }
}

/// The least of some rounds, for other programs run too.
fn nanoseconds(mut what: impl FnMut()) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        for _ in 0..HITS {
            what();
        }
        best = best.min(start.elapsed().as_secs_f64() * 1e9 / f64::from(HITS));
    }
    best
}

struct Pads {
    setting: Setting,
    /// The most that a hit of the last pad costs, by the pad's own estimate.
    said: HitCost,
    code: Code,
    used: usize,
}

impl Pads {
    fn new(registers: bool, stamp: bool) -> Self {
        let mut setting = Setting::new(sizes(1));
        setting.always_registers = registers;
        setting.stamp = stamp;
        setting.goes_on = false;
        Self {
            setting,
            said: HitCost::default(),
            code: Code::new(16 * PAGE),
            used: 0,
        }
    }

    fn pad(&mut self, definition: &TracepointDefinition) -> extern "C" fn() {
        let pad = self
            .setting
            .compile(std::slice::from_ref(definition))
            .unwrap();
        eprintln!("  {} bytes of code, {} of stack", pad.code.len(), pad.stack);
        self.said = pad.costs[0];
        let function = callable(&self.code, self.used, &pad);
        self.used += (pad.code.len() + 1).next_multiple_of(64);
        function
    }

    /// The bytes of a frame, header included.
    fn frame_length(&self) -> usize {
        let mut length = 0;
        RingReader::new(&self.setting.shared).finish(&self.setting.shared, &mut |frame| {
            length = frame.bytes.len();
        });
        length
    }
}

/// The cost of copying a frame of this length into a ring after its time.
fn floor(length: usize) -> f64 {
    let from = vec![1_u8; length];
    let mut ring = vec![0_u8; (1 << 20) + 8 + length];
    let mut at = 0;
    nanoseconds(|| {
        let room = &mut ring[at..at + 8 + length];
        room[..8].copy_from_slice(&counter().to_le_bytes());
        room[8..].copy_from_slice(black_box(&from));
        black_box(room);
        at = (at + 8 + length) & ((1 << 20) - 1);
    })
}

fn main() {
    machine::handle_faults();
    let mut memory = Memory::new(1);
    memory.bytes()[..8].copy_from_slice(b"a string");
    let value = |offset: u64, length| Action::Memory {
        base: None,
        offset: memory.start + offset,
        length,
    };
    let two = vec![value(16, 4), value(32, 8)];

    extern "C" fn nothing() {}
    println!(
        "a call              {:>7.2}",
        nanoseconds(|| black_box(nothing as extern "C" fn())())
    );

    let false_condition = format!(
        "const64 {}\nref32\next 32\nconst8 0\nless_signed\nend",
        memory.start + 64
    );
    for (name, registers, stamp, condition, actions) in [
        ("no action, frame of nothing", false, false, None, vec![]),
        ("two values", false, false, None, two.clone()),
        ("two values, stamps", false, true, None, two.clone()),
        (
            "two values, registers, stamps (record)",
            true,
            true,
            None,
            two.clone(),
        ),
        (
            "registers",
            false,
            false,
            None,
            vec![Action::Registers(RegisterMask::default())],
        ),
        (
            "a string of 8",
            false,
            false,
            None,
            vec![Action::Expression(
                assemble(&format!(
                    "const64 {}\nconst8 200\ntracenz\nend",
                    memory.start
                ))
                .unwrap(),
            )],
        ),
        (
            "a count",
            false,
            false,
            None,
            vec![Action::Expression(
                assemble("getv 4\nconst8 1\nadd\nsetv 4\nend").unwrap(),
            )],
        ),
        (
            "a false condition",
            false,
            false,
            Some(false_condition.as_str()),
            two.clone(),
        ),
    ] {
        let mut pads = Pads::new(registers, stamp);
        let pad = pads.pad(&tracepoint(condition, actions));
        let cost = nanoseconds(|| pad());
        let length = pads.frame_length();
        let said = match name.contains("false") {
            true => pads.said.unmet.unwrap(),
            false => pads.said.hit,
        };
        println!(
            "{name:<40} {cost:>7.2} ns, at most {said:?}, frame {length}, floor {:.2}",
            floor(length)
        );
    }
    // A budget that has room for all, and one that has none.
    for (name, factor, condition) in [
        ("two values, charged", 0, None),
        ("two values, skipped", 1 << 40, None),
        (
            "a false condition, charged",
            0,
            Some(false_condition.as_str()),
        ),
    ] {
        let mut pads = Pads::new(true, true);
        pads.setting.has_budget = true;
        pads.setting
            .shared
            .set_budget(factor, Duration::from_millis(50));
        let pad = pads.pad(&tracepoint(condition, two.clone()));
        let cost = nanoseconds(|| pad());
        println!("{name:<40} {cost:>7.2} ns, at most {:?}", pads.said);
    }
    let mut definition = tracepoint(None, two.clone());
    definition.enabled = false;
    let mut pads = Pads::new(false, false);
    let pad = pads.pad(&definition);
    println!("{:<40} {:>7.2} ns", "disabled", nanoseconds(|| pad()));

    // The tracer's side.
    let mut pads = Pads::new(true, true);
    let definition = tracepoint(None, two.clone());
    let start = Instant::now();
    for _ in 0..500 {
        black_box(
            pads.setting
                .compile(std::slice::from_ref(&definition))
                .unwrap(),
        );
    }
    println!(
        "compiling a pad: {:.1} µs",
        start.elapsed().as_secs_f64() * 1e6 / 500.0
    );
    let pad = pads.pad(&definition);
    let mut reader = RingReader::new(&pads.setting.shared);
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        for _ in 0..2000 {
            pad();
        }
        let start = Instant::now();
        let drained = reader.finish(&pads.setting.shared, &mut |frame| {
            black_box(frame.bytes);
        });
        best = best.min(start.elapsed().as_secs_f64() * 1e9 / drained.frames as f64);
    }
    println!("reading a frame: {best:.1} ns");

    // Two threads at once.
    for (name, registers, stamp) in [("two values", false, false), ("record", true, true)] {
        let mut pads = Pads::new(registers, stamp);
        let pad = pads.pad(&tracepoint(None, two.clone()));
        let mut ratios: Vec<f64> = (0..9)
            .map(|_| {
                let [one, both] = [1, 2].map(|threads| together(threads, pad));
                both / one
            })
            .collect();
        ratios.sort_by(f64::total_cmp);
        println!(
            "{name}: two threads {:.2} times one ({:.2} to {:.2})",
            ratios[4], ratios[0], ratios[8]
        );
    }
}

/// Hits a second of so many threads.
fn together(threads: usize, pad: extern "C" fn()) -> f64 {
    const EACH: u32 = 2_000_000;
    let barrier = Barrier::new(threads + 1);
    std::thread::scope(|scope| {
        for cpu in 0..threads {
            let barrier = &barrier;
            scope.spawn(move || {
                // SAFETY: a set of this size.
                unsafe {
                    let mut set: libc::cpu_set_t = std::mem::zeroed();
                    libc::CPU_SET(cpu, &mut set);
                    libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set);
                }
                barrier.wait();
                for _ in 0..EACH {
                    pad();
                }
                barrier.wait();
            });
        }
        barrier.wait();
        let start = Instant::now();
        barrier.wait();
        threads as f64 * f64::from(EACH) / start.elapsed().as_secs_f64()
    })
}

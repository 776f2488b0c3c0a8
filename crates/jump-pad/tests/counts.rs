//! Aggregates of one pad in eight threads, with signals that hit it again while it works, and a reader meanwhile.

#[path = "support/machine.rs"]
mod machine;
#[path = "support/tracepoints.rs"]
mod tracepoints;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

use machine::{Code, Setting, callable};
use tracepoints::{code, tracepoint};
use tracewire_jump_pad::{CountTable, SharedSizes, WhenFull};
use tracewire_model::{
    Aggregate, AggregateCell, AggregateFunction, AggregateTable, Buckets, Counted, Counting, Key,
    KeyKind, Operand,
};

const THREADS: u64 = 8;
const HITS: u64 = 20_000;
const KEYS: u64 = 5;

type Hit = extern "C" fn(u64);

static PAD: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());
static SIGNALS: AtomicU64 = AtomicU64::new(0);

/// Hits with a number that no thread hits with.
extern "C" fn again(_: i32) {
    let pad = PAD.load(Ordering::Acquire);
    if !pad.is_null() {
        // SAFETY: it is the pad.
        let pad: Hit = unsafe { std::mem::transmute(pad) };
        pad(KEYS);
        SIGNALS.fetch_add(1, Ordering::Relaxed);
    }
}

/// An aggregate of the first argument, by its remainder.
fn counted(index: u16, function: AggregateFunction) -> Counted {
    let number = Operand::Number(code("reg 5\nend"));
    let key = format!("reg 5\nconst8 {}\nrem_unsigned\nend", KEYS + 1);
    Counted {
        aggregate: Aggregate {
            index,
            text: "an aggregate".to_owned(),
            function,
            is_unsigned: true,
            is_time: false,
            keys: vec![KeyKind::Unsigned],
        },
        keys: vec![Operand::Number(code(&key))],
        value: function.has_value().then_some(number),
    }
}

/// How many hits of a key there were and their sum, by each aggregate that has it. No hit may be half counted.
fn check(tables: &[(Counted, AggregateTable)], is_over: bool) -> BTreeMap<u64, u64> {
    let mut hits = BTreeMap::new();
    for (counted, table) in tables {
        assert_eq!((table.without_room, table.unreadable), (0, 0));
        for (keys, cell) in &table.cells {
            let [Key::Number(key)] = keys[..] else {
                panic!("{keys:?}")
            };
            let known = match cell {
                AggregateCell::Number(sum)
                    if counted.aggregate.function == AggregateFunction::Sum =>
                {
                    assert_eq!(sum % key.max(1), 0);
                    continue;
                }
                AggregateCell::Number(count) => *count,
                AggregateCell::Average(sum, count) => {
                    // All hits of a key have the same value.
                    assert_eq!(*sum, key * count);
                    *count
                }
                AggregateCell::Extreme(value) => {
                    assert_eq!(*value, key);
                    continue;
                }
                AggregateCell::Histogram(buckets) => buckets.values().sum(),
            };
            let other = *hits.entry(key).or_insert(known);
            assert!(!is_over || other == known, "{key}: {other} and {known}");
        }
    }
    hits
}

#[test]
fn no_hit_is_lost_and_none_is_read_by_halves() {
    let mut setting = Setting::new(SharedSizes {
        cpus: 4,
        ring_bytes: 1 << 16,
        frame_limit: 2048,
        tracepoints: 1,
        variables: 0,
        hold_bytes: 0,
        count_bytes: 16 << 20,
        when_full: WhenFull::Wait,
    });
    let functions = [
        AggregateFunction::Count,
        AggregateFunction::Average,
        AggregateFunction::Sum,
        AggregateFunction::Minimum,
        AggregateFunction::Maximum,
        AggregateFunction::Histogram(Buckets::Powers),
    ];
    let all: Vec<Counted> = (0..)
        .zip(functions)
        .map(|(index, function)| counted(index, function))
        .collect();
    let (mut next, end) = setting.shared.layout().counts().unwrap();
    for counted in &all {
        let function = counted.aggregate.function;
        let table = CountTable::new(function, counted.key_words(), 4, next);
        next += table.bytes();
        assert!(next <= end);
        setting.tables.push(table);
    }
    let mut definition = tracepoint(1, vec![]);
    definition.source.counts = all
        .iter()
        .map(|counted| counted.aggregate.to_string())
        .collect();
    definition.counting = Counting {
        aggregates: all.clone(),
        ..Counting::default()
    };
    let code = Code::new(1 << 16);
    let pad = setting.compile(&[definition]).unwrap();
    let hit = callable(&code, 0, &pad);
    PAD.store(hit as *mut (), Ordering::Release);
    // SAFETY: the pad preserves all registers.
    let hit: Hit = unsafe { std::mem::transmute(hit) };
    // SAFETY: the handler touches only atomics.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = again as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        assert_eq!(
            libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()),
            0
        );
    }
    let read = || -> Vec<(Counted, AggregateTable)> {
        let tables = all.iter().zip(&setting.tables);
        let tables = tables.map(|(counted, table)| {
            (
                counted.clone(),
                setting.shared.aggregate(&counted.aggregate, table),
            )
        });
        tables.collect()
    };
    let over = AtomicBool::new(false);
    let (number, numbers) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                let (over, number) = (&over, number.clone());
                scope.spawn(move || {
                    // SAFETY: no argument.
                    number.send(unsafe { libc::gettid() }).unwrap();
                    for turn in 0..HITS {
                        hit(turn % KEYS);
                    }
                    // It must get signals until all are sent.
                    while !over.load(Ordering::Relaxed) {
                        std::thread::yield_now();
                    }
                })
            })
            .collect();
        let known: Vec<_> = (0..THREADS).map(|_| numbers.recv().unwrap()).collect();
        let own = std::process::id().cast_signed();
        let mut last = BTreeMap::new();
        loop {
            for thread in &known {
                // SAFETY: the threads end only below.
                unsafe { libc::syscall(libc::SYS_tgkill, own, *thread, libc::SIGUSR1) };
            }
            let now = check(&read(), false);
            for (key, hits) in &last {
                assert!(
                    now.get(key).is_some_and(|now| now >= hits),
                    "{last:?} {now:?}"
                );
            }
            let all: u64 = now
                .iter()
                .filter(|(key, _)| **key < KEYS)
                .map(|(_, hits)| hits)
                .sum();
            last = now;
            if all == THREADS * HITS {
                break;
            }
        }
        over.store(true, Ordering::Relaxed);
        drop(threads);
    });
    PAD.store(std::ptr::null_mut(), Ordering::Release);
    let mut wanted: BTreeMap<u64, u64> =
        (0..KEYS).map(|key| (key, THREADS * HITS / KEYS)).collect();
    wanted.insert(KEYS, SIGNALS.load(Ordering::Relaxed));
    assert_eq!(check(&read(), true), wanted);
    setting.free();
}

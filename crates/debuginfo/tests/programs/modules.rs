// The parts of Rust programs: modules, generics, closures, enums, traits.
use std::collections::HashMap;

pub mod store {
    #[derive(Debug, Clone)]
    pub enum Entry {
        Empty,
        Number(i64),
        Text { text: String, count: u32 },
    }

    #[derive(Debug, Clone, Copy, PartialEq)]
    pub enum Level {
        Low = 1,
        High = 9,
    }

    pub static COUNTER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(3);

    pub struct Shelf {
        pub entries: Vec<Entry>,
        pub name: &'static str,
        pub level: Level,
    }

    impl Shelf {
        #[inline(never)]
        pub fn add(&mut self, entry: Entry) -> usize {
            let before = self.entries.len();
            self.entries.push(entry);
            before + 1
        }
    }

    #[inline(never)]
    pub fn largest<T: PartialOrd + Copy>(values: &[T]) -> T {
        let mut best = values[0];
        for &value in values {
            if value > best {
                best = value;
            }
        }
        best
    }

    #[inline]
    pub fn twice(value: i64) -> i64 {
        let result = value * 2;
        result + 1
    }
}

pub trait Weigh {
    fn weigh(&self, factor: u32) -> u32;
}

impl Weigh for store::Shelf {
    #[inline(never)]
    fn weigh(&self, factor: u32) -> u32 {
        let count = self.entries.len() as u32;
        count * factor
    }
}

#[inline(never)]
fn option(value: i32) -> Option<i32> {
    if value > 1 { Some(value) } else { None }
}

#[inline(never)]
fn work(rounds: u32) -> i64 {
    let mut shelf = store::Shelf { entries: Vec::new(), name: "shelf", level: store::Level::High };
    let mut total = 0;
    for round in 0..rounds {
        let entry = match round % 3 {
            0 => store::Entry::Empty,
            1 => store::Entry::Number(i64::from(round)),
            _ => store::Entry::Text { text: format!("{round}"), count: round },
        };
        total += shelf.add(entry) as i64;
    }
    let add = |by: i64| -> i64 {
        let sum = total + by;
        sum * 2
    };
    add(store::twice(i64::from(shelf.weigh(2)))) + i64::from(option(3).unwrap_or(0))
}

fn main() {
    let mut table = HashMap::new();
    table.insert("a", store::largest(&[1, 3, 2]));
    let largest = store::largest(&[1.5, 0.5]);
    let total = work(5);
    store::COUNTER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    println!("{total} {largest} {:?}", table.get("a"));
}

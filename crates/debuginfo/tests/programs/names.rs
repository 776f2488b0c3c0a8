// Names of Rust as `nm -C` and backtraces print them.
use std::fmt;

pub trait Area {
    fn area(&self) -> u64;
    fn double(&self) -> u64 {
        self.area() * 2
    }
}

pub struct Shape {
    side: u64,
}

pub struct Pair<T>(T, T);

impl Shape {
    #[inline(never)]
    pub fn new(side: u64) -> Self {
        println!("new {side}");
        Self { side }
    }
}

impl Area for Shape {
    #[inline(never)]
    fn area(&self) -> u64 {
        self.side * self.side
    }
}

impl<T: Copy + Into<u64>> Area for Pair<T> {
    #[inline(never)]
    fn area(&self) -> u64 {
        self.0.into() * self.1.into()
    }
}

impl<'a> Area for &'a [u64] {
    #[inline(never)]
    fn area(&self) -> u64 {
        self.iter().sum()
    }
}

impl fmt::Display for Shape {
    #[inline(never)]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.side)
    }
}

mod store {
    #[inline(never)]
    pub fn apply(with: &dyn Fn(u64) -> u64, value: u64) -> u64 {
        with(value)
    }

    #[inline(always)]
    pub fn always(value: u64) -> u64 {
        value.rotate_left(3) ^ std::process::id() as u64
    }
}

fn main() {
    let shape = Shape::new(std::env::args().count() as u64);
    let by = shape.side;
    let sum = store::apply(&|value| value + by, 3) + store::apply(&|value| value * by, 3);
    let pair = Pair(2u32, 3u32);
    let list: &[u64] = &[1, 2, by];
    println!("{shape} {} {} {} {}", shape.double(), pair.area(), list.area(), sum + store::always(by));
}

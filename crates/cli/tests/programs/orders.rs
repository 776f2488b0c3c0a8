// Rust as programs use it: structs, enums with data, tuples, slices, strings, options, generics.
use std::hint::black_box;

#[derive(Clone, Debug)]
struct Order {
    id: u32,
    customer: String,
    lines: Vec<Line>,
    status: Status,
    discount: Option<f64>,
}

#[derive(Clone, Copy, Debug)]
struct Line {
    article: u16,
    quantity: i64,
}

#[derive(Clone, Debug)]
enum Status {
    Open,
    Paid(u64),
    Shipped { parcels: u8, express: bool },
}

struct Pair(i32, char);

#[inline(never)]
fn price(order: &Order, table: &[u32], name: &str, pair: (u8, i16)) -> u64 {
    let mut sum: u64 = 0;
    for line in &order.lines {
        let each = u64::from(table[usize::from(line.article) % table.len()]);
        sum += each * line.quantity.unsigned_abs();
    }
    let letter = name.chars().next().unwrap_or('?');
    black_box((letter, pair));
    sum
}

#[inline(never)]
fn describe(status: &Status, last: Pair, done: bool) -> usize {
    let code = match status {
        Status::Open => 0,
        Status::Paid(when) => *when as usize,
        Status::Shipped { parcels, express } => usize::from(*parcels) + usize::from(*express),
    };
    black_box(&last);
    code + last.0 as usize + usize::from(done)
}

#[inline(never)]
fn largest<T: PartialOrd + Copy>(first: T, second: T) -> T {
    if first > second { first } else { second }
}

fn main() {
    let table = [5, 10, 15, 20];
    let mut total = 0;
    for id in 0..6u32 {
        let order = Order {
            id,
            customer: format!("customer {id}"),
            lines: (0..id)
                .map(|i| Line { article: i as u16, quantity: i64::from(i) - 2 })
                .collect(),
            status: match id % 3 {
                0 => Status::Open,
                1 => Status::Paid(u64::from(id) * 100),
                _ => Status::Shipped { parcels: id as u8, express: id > 2 },
            },
            discount: (id % 2 == 0).then_some(f64::from(id) / 4.0),
        };
        total += price(&order, &table, &order.customer, (id as u8, -(id as i16)));
        total += describe(&order.status, Pair(id as i32, 'p'), order.discount.is_some()) as u64;
    }
    total += u64::from(largest(1u8, 2)) + largest(3u64, 2);
    println!("{total} {}", largest(1.5, 2.5));
}

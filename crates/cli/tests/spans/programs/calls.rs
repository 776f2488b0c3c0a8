// Calls that end by return and by panic, with return values of Rust's kinds.
use std::hint::black_box;
use std::sync::Mutex;

static NOTES: Mutex<Vec<(i32, char, &str, i64)>> = Mutex::new(Vec::new());

unsafe extern "C" {
    fn gettid() -> i32;
}

#[inline(never)]
fn note(kind: char, name: &'static str, value: i64) {
    // SAFETY: it has no conditions.
    let thread = unsafe { gettid() };
    NOTES.lock().unwrap().push((thread, kind, name, value));
}

#[inline(never)]
fn t_number(n: i64) -> i64 {
    note('E', "t_number", n);
    note('R', "t_number", n * 2);
    black_box(n) * 2
}

#[inline(never)]
fn t_pair(n: i64) -> (u32, u64) {
    note('E', "t_pair", n);
    note('R', "t_pair", 0);
    (black_box(n) as u32, black_box(n) as u64 + 1)
}

#[inline(never)]
fn t_floats(n: i64) -> (f64, u64) {
    note('E', "t_floats", n);
    note('R', "t_floats", 0);
    (black_box(n) as f64 + 0.5, black_box(n) as u64)
}

#[inline(never)]
fn t_option(n: i64) -> Option<u64> {
    note('E', "t_option", n);
    note('R', "t_option", 0);
    (black_box(n) % 2 == 0).then_some(n as u64)
}

#[inline(never)]
fn t_text(n: i64) -> String {
    note('E', "t_text", n);
    note('R', "t_text", 0);
    format!("number {}", black_box(n))
}

#[inline(never)]
fn t_bool(n: i64) -> bool {
    note('E', "t_bool", n);
    note('R', "t_bool", 0);
    black_box(n) % 2 == 1
}

#[inline(never)]
fn t_panic(n: i64) -> i64 {
    note('E', "t_panic", n);
    if n == 0 {
        std::panic::resume_unwind(Box::new(0));
    }
    let value = t_panic(n - 1) + 1;
    note('R', "t_panic", value);
    black_box(value)
}

#[inline(never)]
fn t_catch(n: i64) -> i64 {
    note('E', "t_catch", n);
    if std::panic::catch_unwind(|| t_panic(n)).is_err() {
        note('X', "t_catch", 0);
    }
    note('R', "t_catch", n);
    black_box(n)
}

#[inline(never)]
fn t_round(n: i64) -> i64 {
    note('E', "t_round", n);
    black_box(t_number(n));
    black_box(t_pair(n));
    black_box(t_floats(n));
    black_box(t_option(n));
    black_box(t_text(n));
    black_box(t_bool(n));
    black_box(t_catch(n % 4));
    note('R', "t_round", n);
    black_box(n)
}

fn main() {
    let n: i64 = std::env::args().nth(1).map_or(3, |n| n.parse().unwrap());
    let threads: Vec<_> = (0..3)
        .map(|_| std::thread::spawn(move || (0..n).for_each(|n| _ = black_box(t_round(n)))))
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    black_box(t_round(n));
    for (thread, kind, name, value) in NOTES.lock().unwrap().iter() {
        println!("{thread} {kind} {name} {value}");
    }
}

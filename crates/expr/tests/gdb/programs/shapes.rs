use std::collections::HashMap;

#[derive(Clone, Copy, PartialEq)]
pub enum Color {
    Red,
    Green = 5,
    Blue,
}

pub enum Shape {
    Circle { radius: f64 },
    Square(u32),
    Nothing,
}

pub struct Point {
    x: i32,
    y: i32,
}

pub struct Pair(i64, u8);

pub struct Unit;

pub struct Generic<T> {
    item: T,
    more: Vec<T>,
}

pub union Either {
    integer: u32,
    float: f32,
}

pub trait Area {
    fn area(&self) -> f64;
}

impl Area for Point {
    fn area(&self) -> f64 {
        f64::from(self.x * self.y)
    }
}

static LIMIT: u32 = 40;
static NAMES: [&str; 2] = ["one", "two"];

#[inline(never)]
fn look<T>(value: &T) {
    std::hint::black_box(value);
}

fn add(a: i32, b: i32) -> i32 {
    a + b
}

fn main() {
    let byte: u8 = 97;
    let signed: i8 = -3;
    let short: i16 = -300;
    let int: i32 = -70000;
    let long: i64 = 1 << 40;
    let wide: i128 = -(1 << 100);
    let unsigned: u64 = u64::MAX;
    let size: usize = 12;
    let yes = true;
    let letter = 'a';
    let accent = 'é';
    let newline = '\n';
    let float = 1.5_f32;
    let double = 0.1_f64;
    let unit = ();
    let text = "hello \"world\"";
    let unicode = "grün";
    let empty = "";
    let string = String::from("owned");
    let slice: &[i32] = &[1, 2, 3];
    let none_slice: &[i32] = &[];
    let array = [1_u8, 2, 3];
    let zeros = [0_i32; 20];
    let bytes = b"raw";
    let tuple = (1, 2.5, 'x');
    let nested = ((1, 2), [3, 4]);
    let pair = Pair(-1, 200);
    let point = Point { x: 3, y: -4 };
    let reference = &point;
    let double_reference = &reference;
    let int_reference = &int;
    let boxed = Box::new(Point { x: 7, y: 8 });
    let marker = Unit;
    let color = Color::Green;
    let circle = Shape::Circle { radius: 2.5 };
    let square = Shape::Square(9);
    let nothing = Shape::Nothing;
    let some = Some(5_i32);
    let none: Option<i32> = None;
    let some_reference = Some(&point);
    let no_reference: Option<&Point> = None;
    let good: Result<u8, &str> = Ok(1);
    let bad: Result<u8, &str> = Err("why");
    let generic = Generic { item: 4_u16, more: vec![1, 2] };
    let either = Either { float: 1.0 };
    let function: fn(i32, i32) -> i32 = add;
    let pointer: *const Point = &point;
    let vector = vec![10, 20, 30];
    let map: HashMap<u32, u32> = HashMap::new();
    let names = &NAMES;
    look(&byte);
    look(&(signed, short, int, long, wide, unsigned, size, yes, letter, accent, newline, float, double));
    look(&(unit, text, unicode, empty, &string, slice, none_slice, array, zeros, bytes, tuple, nested)); /* stop */
    look(&(&pair, double_reference, int_reference, &boxed, &marker, color == Color::Red, &circle, &square));
    look(&(&nothing, some, none, some_reference, no_reference, good, bad, &generic, &either.clone_bits()));
    look(&(function(1, 2), pointer, &vector, map.len(), names, LIMIT, point.area(), color as u8));
    look(&(pair.0, pair.1, generic.item, generic.more, Color::Blue as u8));
}

impl Either {
    fn clone_bits(&self) -> u32 {
        unsafe { self.integer }
    }
}

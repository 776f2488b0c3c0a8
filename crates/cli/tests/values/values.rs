//! Shows values of many types to `see_at`, which prints each as `{:?}`, after the line that it is in.

#![allow(dead_code)]

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, LinkedList, VecDeque};
use std::fmt::Debug;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

#[derive(Debug, Clone)]
enum Op {
    Put { key: String, val: Vec<u8> },
    Get(String),
    Pair(i32, u8),
    Nop,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Color {
    Red,
    Green = 7,
}

#[derive(Debug)]
struct Unit;

#[derive(Debug, Clone)]
struct Meters(f64);

#[derive(Debug)]
struct Job {
    id: u32,
    name: String,
    op: Op,
    tags: Vec<String>,
    next: Option<Box<Job>>,
    score: f32,
    letter: char,
    nothing: (),
    pair: (i32, String),
    text: &'static str,
    array: [u16; 3],
    color: Color,
}

fn job(n: u32) -> Job {
    Job {
        id: n,
        name: format!("job \"{n}\""),
        op: op(n),
        tags: (0..n).map(|k| format!("t{k}")).collect(),
        next: if n > 1 { Some(Box::new(job(n - 1))) } else { None },
        score: n as f32 * 1.5,
        letter: 'é',
        nothing: (),
        pair: (-1, "x".into()),
        text: "static",
        array: [1, 2, n as u16],
        color: if n == 1 { Color::Red } else { Color::Green },
    }
}

fn op(n: u32) -> Op {
    match n % 4 {
        0 => Op::Nop,
        1 => Op::Get(format!("k{n}")),
        2 => Op::Pair(-1, n as u8),
        _ => Op::Put { key: "k0".into(), val: vec![0, 1, n as u8] },
    }
}

#[inline(never)]
fn see_at<T: Debug>(line: u32, value: &T) {
    println!("{line}\t{value:?}");
    std::hint::black_box(value);
}

#[track_caller]
#[inline(always)]
fn see<T: Debug>(value: &T) {
    see_at(std::panic::Location::caller().line(), value);
}

trait Area: Debug {
    fn area(&self) -> f64;
}

#[derive(Debug)]
struct Circle {
    radius: f64,
}

#[derive(Debug)]
struct Polygon {
    name: String,
    sides: Vec<u32>,
}

impl Area for Circle {
    fn area(&self) -> f64 {
        self.radius
    }
}

impl Area for Polygon {
    fn area(&self) -> f64 {
        self.sides.len() as f64
    }
}

/// An element type in each container.
fn in_containers<T: Debug + Clone>(a: T, b: T) {
    see(&vec![a.clone(), b.clone()]);
    see(&[a.clone(), b.clone(), a.clone()]);
    see(&VecDeque::from([b.clone(), a.clone()]));
    see(&LinkedList::from([a.clone(), b.clone()]));
    see(&Some(a.clone()));
    see(&Ok::<T, String>(b.clone()));
    see(&Box::new(a.clone()));
    see(&Rc::new(b.clone()));
    see(&Arc::new(a.clone()));
    see(&RefCell::new(b.clone()));
    see(&Mutex::new(a.clone()));
    see(&(1_u8, a.clone(), 'x'));
    see(&BTreeMap::from([(1, a.clone()), (2, b.clone())]));
    see(&HashMap::from([("key".to_owned(), b.clone())]));
    see(&vec![Some(a.clone()), None]);
    see(&vec![vec![a.clone()], vec![], vec![b.clone(), a.clone()]]);
}

fn main() {
    for n in 0..4_u32 {
        see(&n);
        see(&-1_i64);
        see(&(u64::MAX - u64::from(n)));
        see(&(n == 1));
        see(&'x');
        see(&'\n');
        see(&(1.5 * f64::from(n)));
        see(&0.1_f32);
        see(&());
        see(&Unit);
        see(&Meters(2.0));
        see(&(n, "tuple"));
        see(&(n,));
        see(&String::new());
        see(&format!("string {n}"));
        see(&"tab\t \"quote\" 'single' \\ \n \u{1} é €".to_owned());
        see(&"a str");
        see(&&"a string that is not so short"[..n as usize * 5]);
        see(&Vec::<u32>::new());
        see(&(0..n).collect::<Vec<u32>>());
        see(&vec![n as u8; 5]);
        see(&vec![1.0, 2.5]);
        see(&vec!["a".to_owned(), format!("b{n}")]);
        see(&vec!["x", "yz"]);
        see(&vec![vec![1, n], vec![]]);
        see(&vec![(1, 'c'), (2, 'd')]);
        see(&vec![op(n), op(n + 1), op(n + 2), op(n + 3)]);
        see(&vec![Some(n), None]);
        see(&[1, 2, n]);
        see(&["one", "two"]);
        see(&&[1_u16, n as u16][..]);
        see(&&[op(n), op(n + 1)][..]);
        see(&None::<u32>);
        see(&Some(n));
        see(&Some("text"));
        see(&Some(format!("s{n}")).filter(|_| n != 1));
        see(&Some(Box::new(n)));
        see(&Some(Some(n)).filter(|_| n > 1));
        see(&Some(true));
        see(&Some(Color::Red));
        see(&Ok::<u8, String>(n as u8));
        see(&Err::<u8, String>("bad".into()));
        see(&if n % 2 == 0 { Ok("fine") } else { Err(n) });
        see(&Color::Red);
        see(&Color::Green);
        see(&op(n));
        see(&Box::new(n));
        see(&Box::new(format!("boxed {n}")));
        see(&format!("boxed str {n}").into_boxed_str());
        see(&vec![1, n].into_boxed_slice());
        see(&Rc::new(n));
        see(&Rc::new(format!("rc {n}")));
        see(&Arc::new(vec![1, n]));
        see(&Cell::new(n));
        see(&RefCell::new(format!("cell {n}")));
        see(&&n);
        see(&&&n);
        see(&job(n % 3));
        see(&Some(job(1)));
        let mut ring: VecDeque<u32> = VecDeque::with_capacity(4);
        ring.extend([1, 2, 3, 4]);
        ring.pop_front();
        ring.pop_front();
        ring.push_back(n);
        see(&ring);
        see(&VecDeque::from(["d".to_owned(), format!("d{n}")]));
        see(&std::path::PathBuf::from("/tmp/x"));
        see(&std::ffi::OsString::from("os"));
        see(&Mutex::new(vec![n]));
        see(&(0..n).map(|k| (format!("k{k}"), k)).collect::<HashMap<_, _>>());
        see(&(0..u64::from(n)).collect::<HashSet<_>>());
        see(&(0..n * 10).map(|k| (k, format!("v{k}"))).collect::<BTreeMap<_, _>>());
        see(&(0..n * 5).map(|k| format!("k{k}")).collect::<BTreeSet<_>>());
        see(&(0..n).collect::<LinkedList<_>>());
        see(&std::time::Duration::from_millis(1500 * u64::from(n)));
        see(&std::time::Duration::from_nanos(u64::from(n)));
        let circle = Circle { radius: f64::from(n) };
        let polygon = Polygon { name: format!("p{n}"), sides: vec![1, n] };
        see(&(&circle as &dyn Area));
        see(&(&polygon as &dyn Area));
        see(&(Box::new(polygon) as Box<dyn Area>));
        see(&(Rc::new(Circle { radius: 0.5 }) as Rc<dyn Area>));
        see(&(Arc::new(Polygon { name: "arc".into(), sides: vec![n; 3] }) as Arc<dyn Area>));
        see(&vec![Box::new(Circle { radius: 2.0 }) as Box<dyn Area>]);
    }
    in_containers(7_u8, 255);
    in_containers(-1_i32, 1 << 30);
    in_containers(u64::MAX, 0);
    in_containers(1.5_f64, -0.25);
    in_containers(true, false);
    in_containers('a', '€');
    in_containers("text", "");
    in_containers("owned".to_owned(), "another string, a longer one".to_owned());
    in_containers((1_i16, "pair".to_owned()), (-1, String::new()));
    in_containers(Op::Get("key".into()), Op::Put { key: "k".into(), val: vec![1, 2] });
}

//! A small file cannot make the reader take much memory.

#[path = "support/touch.rs"]
mod touch;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use tracewire_arch::RegisterLayout;
use tracewire_tracefile::TraceFile;

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);
static ALL: AtomicUsize = AtomicUsize::new(0);

/// One test at a time counts.
static TURN: Mutex<()> = Mutex::new(());

struct Counting;

// SAFETY: everything is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(now, Ordering::Relaxed);
        ALL.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's layout is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the pointer came from `alloc` above, with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const HEADER: &str = "\u{7f}TRACE0\n";

#[test]
fn a_hundred_bytes_take_less_than_16_mib() {
    let _turn = TURN.lock();
    let frames = b"\n\x01\x00\xff\xff\xff\xffM\0\0\0\0\0\0\0\0\xff\xff";
    for description in [
        "R ffffffff\n",
        "R 4294967295\ntdesc <target><reg name='a' bitsize='524288'/><reg name='b' bitsize='524288'/>",
        "R 1\ntp T1:1:E:ffffffffffffffff:0:Xffffffffffffffff,00\n",
        "R 1\ntp T1:1:E:0:0\ntp A1:1:Xffffffff,2a\ntp Z1:1:cmd:0:ffffffff:2a\n",
        "R 1\ntp T1:1:E:0:0\ntp A1:1:Rffffffffffffffffffffffffffffffffffffffffffffffffff\n",
        "R 1\ntsv ffffffff:0:0:00\nmodule 0:0:ffffffffffffffff:0:0:00:00\n",
        "tdesc <!DOCTYPE t [<!ENTITY a \"aaaaaaaa\"><!ENTITY b \"&a;&a;&a;&a;&a;\">]><target>&b;</target>\n",
    ] {
        let bytes = [HEADER.as_bytes(), description.as_bytes(), frames].concat();
        let before = NOW.load(Ordering::Relaxed);
        MOST.store(before, Ordering::Relaxed);
        let file = TraceFile::from_bytes(bytes).unwrap();
        touch::everything(&file);
        let most = MOST.load(Ordering::Relaxed) - before;
        assert!(most < 16 << 20, "{description}: {most} bytes");
    }
}

/// Entities that are replaced by entities that are replaced by entities.
#[test]
fn a_small_description_cannot_grow_large() {
    let _turn = TURN.lock();
    let mut xml = String::from("<!DOCTYPE target [<!ENTITY e0 \"0123456789\">");
    for level in 1..12 {
        let inner = format!("&e{};", level - 1).repeat(10);
        xml += &format!("<!ENTITY e{level} \"{inner}\">");
    }
    xml += "]><target>&e11;</target>";
    let before = NOW.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    assert!(RegisterLayout::parse(&xml).is_err());
    assert!(RegisterLayout::parse(&"<target>".repeat(100_000)).is_err());
    assert!(RegisterLayout::parse(&"<target ".repeat(100_000)).is_err());
    let most = MOST.load(Ordering::Relaxed) - before;
    assert!(most < 16 << 20, "{most} bytes");
}

/// What is made again at every line, of all lines before, is as much as their number squared.
#[test]
fn a_string_in_many_parts_is_put_together_once() {
    let _turn = TURN.lock();
    let mut description = String::from("R 1\ntp T1:1:E:0:0\n");
    let part = "61".repeat(100);
    for start in (0..4000).map(|part| part * 100) {
        description += &format!("tp Z1:1:cmd:{start:x}:{:x}:{part}\n", 400_000);
    }
    let bytes = [HEADER, &description, "\n\0\0"].concat().into_bytes();
    let size = bytes.len();
    let before = ALL.load(Ordering::Relaxed);
    let file = TraceFile::from_bytes(bytes).unwrap();
    let allocated = ALL.load(Ordering::Relaxed) - before;
    let commands = &file.description().tracepoints()[0]
        .definition
        .source
        .commands;
    assert_eq!(commands, &["a".repeat(400_000)]);
    assert!(
        allocated < 16 * size,
        "{allocated} bytes for a file of {size}"
    );
}

/// The line's text is each tracepoint's that the line names.
#[test]
fn what_served_many_tracepoints_is_cut() {
    let _turn = TURN.lock();
    let mut description = String::from("R 1\n");
    let mut keys = Vec::new();
    for address in 0..2000 {
        description += &format!("tp T1:{address:x}:E:0:0\n");
        keys.push(format!("1:{address:x}"));
    }
    let text = "c3a9".repeat(100_000);
    description += &format!("served {text}:{text}:{}\n\n", keys.join(","));
    let bytes = [HEADER, &description].concat().into_bytes();
    let before = NOW.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    let file = TraceFile::from_bytes(bytes).unwrap();
    let most = MOST.load(Ordering::Relaxed) - before;
    let tracepoints = file.description().tracepoints();
    let served = tracepoints[1999].served.as_ref().unwrap();
    assert_eq!(served.mechanism, "é".repeat(62));
    assert_eq!(served.reason.as_ref(), Some(&served.mechanism));
    assert!(most < 16 << 20, "{most} bytes");
}

/// A field of two bytes takes fifty in memory.
#[test]
fn a_status_line_of_countless_fields_is_a_problem_of_its_line() {
    let _turn = TURN.lock();
    let description = format!("R 1\nstatus 0{}\n\n", ";".repeat(500_000));
    let bytes = [HEADER, &description].concat().into_bytes();
    let before = NOW.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    let file = TraceFile::from_bytes(bytes).unwrap();
    let most = MOST.load(Ordering::Relaxed) - before;
    assert!(most < 4 << 20, "{most} bytes");
    let problems = file.description().problems();
    let reported = problems[0].to_string();
    assert!(
        reported.starts_with("line 3: expected at most 1000 fields at byte 0 of `0;;;"),
        "{reported}"
    );
    assert!(file.description().status().is_none());
}

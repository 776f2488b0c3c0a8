//! Memory is what its pager says, in whatever order and by how many threads it is read.
#![cfg(target_os = "linux")]

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tracewire_demand_paging::{PagedMemory, Pager};

/// The lengths of extents: they do not end with pages.
const EXTENT: usize = 300_007;

/// More than is there at a time.
const LENGTH: usize = 700_000_001;

fn byte(place: usize) -> u8 {
    (place.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u8
}

struct Bytes {
    asked: Arc<AtomicUsize>,
}

impl Pager for Bytes {
    fn extent(&mut self, place: usize) -> Range<usize> {
        let start = place - place % EXTENT;
        start..start + EXTENT
    }

    fn read(&mut self, place: usize, bytes: &mut [u8]) {
        assert!(place + bytes.len() <= LENGTH);
        self.asked.fetch_add(bytes.len(), Ordering::Relaxed);
        for (place, into) in (place..).zip(bytes) {
            *into = byte(place);
        }
    }
}

fn memory() -> (PagedMemory, Arc<AtomicUsize>) {
    let asked = Arc::default();
    let bytes = Bytes {
        asked: Arc::clone(&asked),
    };
    let memory = PagedMemory::new(LENGTH, bytes).expect("the kernel reports page faults");
    (memory, asked)
}

#[test]
fn a_walk_makes_each_page_once() {
    let (memory, asked) = memory();
    assert_eq!(memory.len(), LENGTH);
    for (place, found) in memory.iter().enumerate() {
        if *found != byte(place) {
            panic!("{found:#x} at {place}");
        }
    }
    assert_eq!(asked.load(Ordering::Relaxed), LENGTH);
}

#[test]
fn threads_read_anywhere() {
    let (memory, _) = memory();
    let memory = &memory;
    std::thread::scope(|scope| {
        for thread in 0..8_usize {
            scope.spawn(move || {
                let mut place = thread * 7919;
                for _ in 0..2_000 {
                    place = place
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(97);
                    let at = (place >> 20) % (LENGTH - 9_000);
                    let length = 1 + (place >> 10) % 9_000;
                    for (place, found) in (at..).zip(&memory[at..at + length]) {
                        assert_eq!(*found, byte(place), "at {place}");
                    }
                }
            });
        }
    });
}

#[test]
fn memory_that_nobody_reads_ends() {
    for _ in 0..100 {
        let (memory, asked) = memory();
        drop(memory);
        assert_eq!(asked.load(Ordering::Relaxed), 0);
    }
}

#[test]
fn no_bytes_are_refused() {
    let bytes = Bytes {
        asked: Arc::default(),
    };
    let error = PagedMemory::new(0, bytes).expect_err("there is no page");
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
}

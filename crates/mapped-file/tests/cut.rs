//! Files that are cut while they are mapped.

use std::fs::File;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Command;

use tracewire_mapped_file::{MappedFile, verify};

const LENGTH: usize = 100_000;

/// One test in one process: [`verify`] is about all files of the process.
#[test]
fn cuts_are_seen_and_read_as_zeros() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name);
    for name in ["cut", "whole", "recorded"] {
        std::fs::write(path(name), vec![9; LENGTH]).expect("a file");
    }
    let cut = MappedFile::open(path("cut")).expect("maps");
    let whole = MappedFile::open(path("whole")).expect("maps");
    let recorded = MappedFile::open(path("recorded")).expect("maps");
    recorded.need(5000);
    let truncate = |name: &str, length| {
        File::options()
            .write(true)
            .open(path(name))
            .and_then(|file| file.set_len(length))
            .expect("truncates");
    };
    truncate("recorded", 6000);
    assert_eq!(verify(), Ok(()));

    // From several threads at once, each page the first time.
    truncate("cut", 10_000);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let nines = cut.iter().filter(|byte| **byte == 9).count();
                assert_eq!(nines, 10_000);
            });
        }
    });
    assert_eq!(whole.iter().filter(|byte| **byte == 9).count(), LENGTH);
    let found = cut.cut().expect("the cut is seen");
    assert_eq!((found.length, found.expected), (10_000, LENGTH as u64));
    assert_eq!(found.path, path("cut"));
    assert_eq!(whole.cut(), None);
    assert_eq!(verify(), Err(found.clone()));

    // It is still reported after the map is dropped, and a reused region belongs to the new map.
    drop(cut);
    assert_eq!(verify(), Err(found));
    let again = MappedFile::open(path("whole")).expect("maps");
    assert_eq!(again.iter().filter(|byte| **byte == 9).count(), LENGTH);
    let empty = path("empty");
    std::fs::write(&empty, "").expect("a file");
    assert!(MappedFile::open(empty).expect("maps").is_empty());
}

/// A fault outside of the mapped files ends the program by the signal, as usual.
#[test]
fn other_faults_end_the_program() {
    if let Some(path) = std::env::var_os("TRACEWIRE_FAULT") {
        let ours = MappedFile::open(&path).expect("maps");
        assert_eq!(ours[0], 1);
        let file = File::options().write(true).open(&path).expect("opens");
        let readable = File::open(&path).expect("opens");
        // SAFETY: the test expects that reading it faults.
        let other = unsafe { memmap2::Mmap::map(&readable) }.expect("maps");
        file.set_len(0).expect("truncates");
        println!("{}", other[0]);
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("file");
    std::fs::write(&path, [1; 4096]).expect("a file");
    let status = Command::new(std::env::current_exe().expect("our path"))
        .args(["other_faults_end_the_program", "--exact"])
        .env("TRACEWIRE_FAULT", &path)
        .status()
        .expect("runs");
    assert_eq!(status.signal(), Some(libc::SIGBUS));
}

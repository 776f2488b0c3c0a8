//! The index of a large file, kept from run to run.

mod support;

use std::fs::{self, File, FileTimes};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use support::{description, frame};
use tracewire_arch::{RegisterLayout, X86Registers};
use tracewire_model::{Address, ByteOrder, FrameNumber};
use tracewire_tracefile::{IndexCache, Search, TraceFile, TraceFileWriter};

const SET: X86Registers = X86Registers::Core;

/// The frame's program counter, which tells its number.
fn address(number: u64) -> Address {
    Address(0x401000 + number * 7)
}

/// A file of more than 16 MiB; its frames are of different sizes, and every tenth has no registers.
fn write(path: &Path, frames: u64) {
    let layout = SET.layout_64();
    let mut writer = TraceFileWriter::create(path, &description(SET, frames)).unwrap();
    let mut block = vec![0; layout.size() as usize];
    let counter = layout.program_counter().unwrap().offset as usize;
    for number in 0..frames {
        block[counter..counter + 8].copy_from_slice(&address(number).0.to_le_bytes());
        let build = |f: &mut tracewire_tracefile::FrameEncoder<'_>| {
            if number % 10 != 9 {
                f.registers(&block).unwrap();
            }
            f.memory(
                Address(0x1000),
                &vec![number as u8; 40_000 + number as usize],
            );
        };
        writer
            .append(&frame(ByteOrder::Little, build, layout.size()))
            .unwrap();
    }
    writer.finish().unwrap();
}

/// What a file says by the index, however it was found.
fn told(file: &TraceFile) -> Vec<String> {
    let mut told = vec![format!("{:?} {:?}", file.ending(), file.byte_order())];
    for frame in file.frames() {
        let numbers = (
            frame.number(),
            frame.tracepoint(),
            frame.offset(),
            frame.data().len(),
        );
        told.push(format!("{numbers:?} {:?}", frame.program_counter()));
    }
    for search in [
        Search::ProgramCounter(address(33)),
        Search::ProgramCounter(Address(0x401000)),
        Search::Range {
            start: address(50),
            end: address(60),
        },
        Search::Outside {
            start: address(2),
            end: address(10_000),
        },
        Search::Tracepoint(tracewire_model::TracepointNumber(1)),
    ] {
        let found = file
            .find_all(search, Some(FrameNumber(3)))
            .map(|frame| frame.number().0);
        told.push(format!("{search:?} {:?}", found.collect::<Vec<_>>()));
    }
    told
}

struct Place {
    folder: tempfile::TempDir,
    path: PathBuf,
    cache: IndexCache,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("large.tf");
        let cache = IndexCache::new(folder.path().join("cache/indexes"));
        Self {
            folder,
            path,
            cache,
        }
    }

    fn index(&self) -> Option<PathBuf> {
        let entries = fs::read_dir(self.folder.path().join("cache/indexes")).ok()?;
        let paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        assert!(paths.len() <= 1, "{paths:?}");
        paths.into_iter().next()
    }

    /// Opens by the cache and without it, and compares.
    fn compare(&self) {
        let plain = told(&TraceFile::open(&self.path).unwrap());
        assert_eq!(
            told(&TraceFile::open_cached(&self.path, &self.cache).unwrap()),
            plain
        );
    }
}

#[test]
fn an_index_from_an_earlier_run_tells_the_same() {
    let place = Place::new();
    write(&place.path, 450);
    place.compare();
    let index = place.index().expect("the first run leaves an index");
    assert!(
        fs::metadata(&index).unwrap().len() <= 16 * 450,
        "at most 16 bytes a frame"
    );
    let made = fs::metadata(&index).unwrap().modified().unwrap();
    place.compare();
    assert_eq!(
        fs::metadata(&index).unwrap().modified().unwrap(),
        made,
        "and the second uses it"
    );
}

#[test]
fn an_index_of_what_the_file_was_is_made_anew() {
    let place = Place::new();
    write(&place.path, 450);
    place.compare();
    let then = fs::metadata(&place.path).unwrap().modified().unwrap();
    // Another file of another length, another file of the same length, the same time both.
    for change in [
        |path: &Path| write(path, 460),
        |path: &Path| {
            let mut bytes = fs::read(path).unwrap();
            let status = bytes
                .windows(7)
                .position(|bytes| bytes == b"tframes")
                .unwrap();
            bytes[status + 1] = b'x';
            fs::write(path, bytes).unwrap();
        },
    ] {
        change(&place.path);
        let times = FileTimes::new().set_modified(then);
        File::options()
            .write(true)
            .open(&place.path)
            .unwrap()
            .set_times(times)
            .unwrap();
        place.compare();
        place.compare();
    }
    // The same but for its time.
    let times = FileTimes::new().set_modified(SystemTime::now() - Duration::from_secs(1000));
    File::options()
        .write(true)
        .open(&place.path)
        .unwrap()
        .set_times(times)
        .unwrap();
    place.compare();
}

#[test]
fn a_damaged_index_does_no_harm() {
    let place = Place::new();
    write(&place.path, 450);
    place.compare();
    let index = place.index().unwrap();
    let good = fs::read(&index).unwrap();
    for length in [0, 8, 87, 88, 100, good.len() - 1] {
        fs::write(&index, &good[..length]).unwrap();
        place.compare();
        assert_eq!(
            fs::read(&index).unwrap().len(),
            good.len(),
            "it is made again"
        );
    }
    for step in 1..60 {
        let mut bad = good.clone();
        bad.iter_mut()
            .step_by(step * 7)
            .for_each(|byte| *byte ^= 0x5a);
        bad[..8].copy_from_slice(&good[..8]);
        fs::write(&index, &bad).unwrap();
        let _ = told(&TraceFile::open_cached(&place.path, &place.cache).unwrap());
    }
    let mut bad = good.clone();
    bad[88..].fill(0xff);
    fs::write(&index, &bad).unwrap();
    let _ = told(&TraceFile::open_cached(&place.path, &place.cache).unwrap());
}

#[test]
fn no_place_for_an_index_is_no_error() {
    let place = Place::new();
    write(&place.path, 450);
    // A file stands where the folder should be.
    fs::write(place.folder.path().join("cache"), "in the way").unwrap();
    place.compare();
    place.compare();
}

#[test]
fn a_small_file_has_no_index() {
    let place = Place::new();
    write(&place.path, 5);
    place.compare();
    assert_eq!(place.index(), None);
}

#[test]
fn another_layout_gives_other_addresses() {
    let place = Place::new();
    write(&place.path, 450);
    place.compare();
    let mut file = TraceFile::open_cached(&place.path, &place.cache).unwrap();
    // The program counter where the first register is.
    let layout = RegisterLayout::parse(
        "<target><reg name='pc' bitsize='64'/><reg name='rest' bitsize='2144'/></target>",
    );
    file.set_layout(layout.unwrap());
    assert!(
        file.find(Search::ProgramCounter(address(33)), None)
            .is_none()
    );
    assert_eq!(
        file.find_all(Search::ProgramCounter(Address(0)), None)
            .count(),
        405
    );
}

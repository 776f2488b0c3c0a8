//! The index of a large file, kept from run to run.

mod support;

use std::fs::{self, File, FileTimes};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use support::{description, frame, stopped, tracepoint};
use tracewire_arch::{RegisterLayout, X86Registers};
use tracewire_model::{
    Address, ByteOrder, FrameNumber, TracepointNumber, VariableDefinition, VariableNumber,
};
use tracewire_tracefile::{
    Description, DescriptionParts, Frame, FrameEncoder, FrameFormat, IndexCache, Search, Selection,
    TraceFile, TraceFileWriter,
};

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
fn reported(file: &TraceFile) -> Vec<String> {
    let mut reported = vec![format!("{:?} {:?}", file.ending(), file.byte_order())];
    for frame in file.frames() {
        let numbers = (
            frame.number(),
            frame.tracepoint(),
            frame.offset(),
            frame.data().len(),
        );
        reported.push(format!("{numbers:?} {:?}", frame.program_counter()));
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
        reported.push(format!("{search:?} {:?}", found.collect::<Vec<_>>()));
    }
    reported
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
        let plain = reported(&TraceFile::open(&self.path).unwrap());
        assert_eq!(
            reported(&TraceFile::open_cached(&self.path, &self.cache).unwrap()),
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
fn an_index_of_an_older_file_is_rebuilt() {
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
        let _ = reported(&TraceFile::open_cached(&place.path, &place.cache).unwrap());
    }
    let mut bad = good.clone();
    bad[88..].fill(0xff);
    fs::write(&index, &bad).unwrap();
    let _ = reported(&TraceFile::open_cached(&place.path, &place.cache).unwrap());
}

#[test]
fn no_place_for_an_index_is_no_error() {
    let place = Place::new();
    write(&place.path, 450);
    // A file is where the folder should be.
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

/// Frames of three tracepoints, most of them with a time, which does not always rise.
fn write_timed(path: &Path, frames: u64) {
    let layout = SET.layout_64();
    let time = VariableNumber(5);
    let description = Description::build(&DescriptionParts {
        register_block_size: layout.size(),
        target_xml: Some(SET.target_xml_64()),
        status: Some(stopped(frames)),
        tracepoints: (1..=3)
            .map(|number| tracepoint(number, 0x40_0000))
            .collect(),
        variables: vec![VariableDefinition {
            number: time,
            initial: 0,
            builtin: true,
            name: "trace_timestamp".to_owned(),
        }],
        ..DescriptionParts::default()
    });
    let mut writer = TraceFileWriter::create(path, &description.unwrap()).unwrap();
    let format = FrameFormat {
        byte_order: ByteOrder::Little,
        register_block_size: layout.size(),
    };
    let mut block = vec![0; layout.size() as usize];
    let counter = layout.program_counter().unwrap().offset as usize;
    for number in 0..frames {
        let address = 0x40_0000 + number % 5;
        block[counter..counter + 8].copy_from_slice(&address.to_le_bytes());
        let mut frame = Vec::new();
        let tracepoint = TracepointNumber((number % 3) as i32 + 1);
        let mut encoder = FrameEncoder::begin(&mut frame, format, tracepoint).unwrap();
        if number % 10 != 9 {
            encoder.registers(&block).unwrap();
        }
        encoder.memory(Address(0x1000), &vec![0; 40_000]);
        // No frame of the fourth group has a time.
        if number / 32 != 3 && number % 7 != 6 {
            encoder.variable(time, (number * 10 + number % 4 * 15) as i64);
        }
        encoder.finish().unwrap();
        writer.append(&frame).unwrap();
    }
    writer.finish().unwrap();
}

/// A tracepoint, an address, and times.
#[derive(Clone, Copy, Debug)]
struct Wanted(Option<i32>, Option<u64>, Option<(u64, u64)>);

impl Wanted {
    fn is(&self, frame: &Frame<'_>) -> bool {
        let Self(tracepoint, address, times) = self;
        tracepoint.is_none_or(|number| frame.tracepoint().0 == number)
            && address.is_none_or(|address| frame.program_counter() == Some(Address(address)))
            && times.is_none_or(|(first, last)| {
                frame
                    .timestamp()
                    .is_some_and(|time| (first..=last).contains(&time))
            })
    }
}

impl Selection for Wanted {
    fn tracepoint(&self, number: TracepointNumber) -> bool {
        self.0.is_none_or(|wanted| wanted == number.0)
    }

    fn address(&self, address: Address) -> bool {
        self.1.is_none_or(|wanted| wanted == address.0)
    }

    fn times(&self, first: u64, last: u64) -> bool {
        let overlaps = |(start, end)| first <= end && start <= last;
        self.2.is_none_or(overlaps)
    }
}

#[test]
fn frames_that_are_selected_have_all_that_match() {
    let place = Place::new();
    write_timed(&place.path, 430);
    let built = TraceFile::open_cached(&place.path, &place.cache).unwrap();
    let cached = TraceFile::open_cached(&place.path, &place.cache).unwrap();
    assert_eq!((built.representatives(), built.frame_count()), (None, 430));
    for wanted in [
        Wanted(None, None, None),
        Wanted(Some(2), None, None),
        Wanted(None, Some(0x40_0003), None),
        Wanted(Some(9), None, None),
        Wanted(None, None, Some((1000, 1400))),
        Wanted(None, None, Some((0, 0))),
        Wanted(None, None, Some((9000, 10_000))),
        Wanted(Some(1), Some(0x40_0001), Some((2000, 3000))),
    ] {
        for (start, end) in [
            (0, 430),
            (0, 1),
            (31, 33),
            (100, 299),
            (50, 50),
            (400, 9999),
        ] {
            let (start, end) = (FrameNumber(start), FrameNumber(end));
            let matching: Vec<FrameNumber> = (cached.frames())
                .filter(|frame| (start..end).contains(&frame.number()) && wanted.is(frame))
                .map(|frame| frame.number())
                .collect();
            for file in [&built, &cached] {
                let selected = file.selected(start, end, &wanted);
                assert!(
                    selected.is_sorted() && selected.iter().all(|one| (start..end).contains(one))
                );
                assert!(
                    matching.iter().all(|one| selected.contains(one)),
                    "{wanted:?}"
                );
            }
            // An address that the index does not have is known of the frame.
            let most = matching.len() + 43 + 64;
            assert!(cached.selected(start, end, &wanted).len() <= most || wanted.1.is_none());
        }
    }
    let few = cached.selected(
        FrameNumber(0),
        FrameNumber(430),
        &Wanted(None, None, Some((1000, 1400))),
    );
    assert!(few.len() <= 96, "{}", few.len());

    let found = cached.representatives().expect("an index");
    let key = |frame: Frame<'_>| (frame.tracepoint(), frame.program_counter());
    let mut all: Vec<_> = cached.frames().map(key).collect();
    let mut of_found: Vec<_> = found
        .iter()
        .map(|number| key(cached.frame(*number).unwrap()))
        .collect();
    for keys in [&mut all, &mut of_found] {
        keys.sort_unstable();
        keys.dedup();
    }
    assert_eq!(of_found, all);
    assert!(found.len() < 100, "{}", found.len());
}

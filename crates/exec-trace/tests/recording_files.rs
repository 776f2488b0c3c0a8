//! Where indexes are kept, and what becomes of those that are of no use any more.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use tracewire_exec_trace::record::{CpuNumber, InstructionNumber};
use tracewire_exec_trace::recording::{OpenError, OpenOptions, ReadError, Recording, Search, What};
use tracewire_model::Address;
use tracewire_sample_machine::{DATA, Options, Trace};

fn trace(seed: u32) -> Vec<u8> {
    let options = Options {
        footprint: 1 << 16,
        seed,
        ..Options::default()
    };
    let mut text = Vec::new();
    Trace::new(&options).write(&mut text, 600_000).unwrap();
    text
}

/// Some of everything that a recording can be asked.
fn answers(recording: &Recording) -> Result<Vec<String>, ReadError> {
    let mut answers = vec![format!("{:?}", recording.summary().lines)];
    for n in (0..=recording.len()).step_by(701) {
        let n = InstructionNumber(n);
        answers.push(format!("{:?}", recording.registers_at(CpuNumber(0), n)?));
        let mut bytes = [None; 64];
        let address = u64::from(DATA) + n.0 * 8 % 5000;
        recording.memory_at(n, Address(address), &mut bytes)?;
        answers.push(format!("{bytes:?}"));
        answers.push(format!("{:?}", recording.instruction(n)?));
        let search = Search::new(What::Write, address..=address + 40);
        answers.push(format!("{:?}", recording.find_last(&search, n)?));
    }
    answers.push(format!("{:?}", recording.contradictions()?));
    Ok(answers)
}

struct Traces {
    folder: tempfile::TempDir,
    trace: PathBuf,
    index: PathBuf,
    right: Vec<String>,
}

fn traces() -> Traces {
    let folder = tempfile::tempdir().unwrap();
    let trace_path = folder.path().join("x.trace");
    fs::write(&trace_path, trace(1)).unwrap();
    let recording = Recording::open(&trace_path, &OpenOptions::default()).unwrap();
    Traces {
        index: folder.path().join("x.trace.twindex"),
        right: answers(&recording).unwrap(),
        trace: trace_path,
        folder,
    }
}

/// Opens, and says whether an index was made.
fn open(path: &Path, cache: Option<&Path>) -> (Recording, bool) {
    let done = AtomicU64::new(0);
    let progress = |at: tracewire_exec_trace::recording::Progress| {
        done.store(at.done, Ordering::Relaxed);
    };
    let options = OpenOptions {
        cache: cache.map(Path::to_owned),
        progress: Some(&progress),
        ..OpenOptions::default()
    };
    let recording = Recording::open(path, &options).unwrap();
    (recording, done.load(Ordering::Relaxed) > 0)
}

#[test]
fn an_index_is_made_once_and_again_when_the_trace_changed() {
    let traces = traces();
    assert!(traces.index.exists());
    let (recording, made) = open(&traces.trace, None);
    assert!(!made);
    assert_eq!(answers(&recording).unwrap(), traces.right);
    // Nothing else is left behind.
    assert_eq!(fs::read_dir(traces.folder.path()).unwrap().count(), 2);

    fs::write(&traces.trace, trace(2)).unwrap();
    let (recording, made) = open(&traces.trace, None);
    assert!(made);
    assert_ne!(answers(&recording).unwrap(), traces.right);
}

#[test]
fn an_index_of_something_else_is_not_used() {
    let traces = traces();
    let good = fs::read(&traces.index).unwrap();
    // Another trace's, another version's, none at all, every kind of cut.
    let other = Recording::of_text(&trace(2), &OpenOptions::default()).unwrap();
    let mut wrong = vec![other.compact(), Vec::new(), b"no index".to_vec()];
    let mut version = good.clone();
    let at = version.len() - 20;
    version[at] += 1;
    wrong.push(version);
    wrong.extend(
        (0..good.len())
            .step_by(good.len() / 7)
            .map(|end| good[..end].to_vec()),
    );
    for index in wrong {
        fs::write(&traces.index, index).unwrap();
        let (recording, made) = open(&traces.trace, None);
        assert!(made);
        assert_eq!(answers(&recording).unwrap(), traces.right);
        assert!(!open(&traces.trace, None).1);
    }
}

#[test]
fn a_damaged_index_is_rebuilt_wherever_the_damage_is() {
    let traces = traces();
    let good = fs::read(&traces.index).unwrap();
    let mut rebuilt = 0;
    for round in 0..60 {
        let mut bad = good.clone();
        let at = round * 7919 * 7919 % bad.len();
        let end = (at + 1 + round % 50).min(bad.len());
        bad[at..end].iter_mut().for_each(|byte| *byte ^= 0x5a);
        fs::write(&traces.index, bad).unwrap();
        let (recording, _) = open(&traces.trace, None);
        assert_eq!(answers(&recording).unwrap(), traces.right, "damage at {at}");
        rebuilt += usize::from(fs::read(&traces.index).unwrap() == good);
    }
    assert!(rebuilt > 10, "{rebuilt} were made again");
}

#[test]
fn a_damaged_compact_form_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.twx");
    let recording = Recording::of_text(&trace(1), &OpenOptions::default()).unwrap();
    let right = answers(&recording).unwrap();
    recording.save_compact(&path).unwrap();
    let good = fs::read(&path).unwrap();
    let (recording, made) = open(&path, None);
    assert!(!made);
    assert_eq!(answers(&recording).unwrap(), right);
    let mut text = Vec::new();
    recording.write_text(&mut text).unwrap();
    assert_eq!(text, trace(1));

    let mut found = 0;
    for round in 0..60 {
        let mut bad = good.clone();
        let at = 8 + round * 7919 * 7919 % (bad.len() - 8);
        bad[at] ^= 0x5a;
        fs::write(&path, bad).unwrap();
        match Recording::open(&path, &OpenOptions::default()) {
            Err(OpenError::Damaged { .. } | OpenError::Version { .. }) => found += 1,
            Err(error) => panic!("{error}"),
            Ok(recording) => match answers(&recording) {
                Err(ReadError::Damaged { .. }) => found += 1,
                Err(error) => panic!("{error}"),
                // The damage is where nothing was asked.
                Ok(answers) => assert_eq!(answers, right),
            },
        }
    }
    assert!(found > 10, "{found}");
    fs::write(&path, &good[..good.len() - 1]).unwrap();
    let error = Recording::open(&path, &OpenOptions::default()).unwrap_err();
    assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
}

#[test]
fn where_no_index_can_stand_it_stands_elsewhere() {
    let traces = traces();
    // A folder of its name is in the way.
    fs::remove_file(&traces.index).unwrap();
    fs::create_dir_all(traces.index.join("full")).unwrap();
    let cache = traces.folder.path().join("cache/of/traces");
    let (recording, made) = open(&traces.trace, Some(&cache));
    assert!(made);
    assert_eq!(answers(&recording).unwrap(), traces.right);
    assert!(!open(&traces.trace, Some(&cache)).1);
    assert_eq!(fs::read_dir(&cache).unwrap().count(), 1);
    // And without a cache.
    let (recording, made) = open(&traces.trace, None);
    assert!(made);
    assert_eq!(answers(&recording).unwrap(), traces.right);
}

#[test]
fn compressed_traces_and_pipes_are_the_same() {
    let traces = traces();
    let text = trace(1);
    let gzip = traces.folder.path().join("x.trace.gz");
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(&text[..100_000]).unwrap();
    let mut packed = encoder.finish().unwrap();
    // Members one behind the other, as `cat a.gz b.gz` makes them.
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(&text[100_000..]).unwrap();
    packed.extend(encoder.finish().unwrap());
    fs::write(&gzip, packed).unwrap();
    let zstd = traces.folder.path().join("x.trace.zst");
    fs::write(&zstd, zstd::encode_all(&text[..], 1).unwrap()).unwrap();
    for path in [&gzip, &zstd] {
        for expected in [true, false] {
            let (recording, made) = open(path, None);
            assert_eq!(made, expected);
            assert_eq!(answers(&recording).unwrap(), traces.right);
        }
    }

    // Cut data give what is before the cut.
    for path in [&gzip, &zstd] {
        let whole = fs::read(path).unwrap();
        fs::write(path, &whole[..whole.len() - 5000]).unwrap();
        let (recording, _) = open(path, None);
        assert!(recording.summary().cut.is_some());
        let lines = recording.summary().lines as usize;
        let all = text.iter().filter(|byte| **byte == b'\n').count();
        assert!((all / 2..all).contains(&lines), "{lines} of {all}");
        let mut front = Vec::new();
        recording.write_text(&mut front).unwrap();
        assert!(text.starts_with(&front));
        fs::write(path, whole).unwrap();
    }
    assert_eq!(open(&zstd, None).0.summary().cut, None);

    let pipe = traces.folder.path().join("pipe");
    let status = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(status.unwrap().success());
    for content in [&traces.trace, &gzip, &zstd] {
        let content = fs::read(content).unwrap();
        let writer = std::thread::spawn({
            let pipe = pipe.clone();
            move || File::create(pipe).unwrap().write_all(&content).unwrap()
        });
        let (recording, made) = open(&pipe, Some(traces.folder.path()));
        writer.join().unwrap();
        assert!(made);
        assert_eq!(answers(&recording).unwrap(), traces.right);
    }
}

#[test]
fn what_is_no_trace_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x");
    for content in [&b""[..], b"\n\n\n", b"hello\nworld\n", &[0; 5000]] {
        fs::write(&path, content).unwrap();
        let error = Recording::open(&path, &OpenOptions::default()).unwrap_err();
        assert!(matches!(error, OpenError::NotATrace { .. }), "{error}");
    }
    assert!(matches!(
        Recording::open(&folder.path().join("none"), &OpenOptions::default()),
        Err(OpenError::Io { .. })
    ));
    assert!(Recording::open(folder.path(), &OpenOptions::default()).is_err());
}

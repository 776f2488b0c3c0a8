//! Circular buffers that programs fill as fast as they can: the newest frames are kept, without a gap except for counted ones, even
//! if a thread lost the cpu in a hit or left it by `siglongjmp`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::statvfs::statvfs;
use tempfile::TempDir;
use tracewire_test_support::{Cc, assert_clean};
use tracewire_tracefile::TraceFile;

const TRACEWIRE: &str = env!("CARGO_BIN_EXE_tracewire");

fn build(folder: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/circular/rings.c");
    let cc = Cc::new().options(&["-O1", "-pthread"]);
    cc.source(source).build_in(folder)
}

/// A folder on a file system in memory, if there is one with room for the largest buffer and its successors.
fn in_memory() -> Option<TempDir> {
    let memory = Path::new("/dev/shm");
    let about = statvfs(memory).ok()?;
    let free = u128::from(about.blocks_available()) * u128::from(about.fragment_size());
    (free > 256 << 20).then(|| tempfile::tempdir_in(memory).ok())?
}

/// The hits of a thread.
#[derive(Clone, Copy, Debug)]
struct Own {
    begun: u64,
    done: u64,
}

/// The results of a run.
struct Run {
    /// By thread.
    own: BTreeMap<u64, Own>,
    /// How many hits were left by `siglongjmp`, or the loop around them.
    left: u64,
    /// The numbers of the hits that were kept, by thread.
    kept: BTreeMap<u64, Vec<u64>>,
    /// Frames that were made, those given up for newer ones among them.
    created: u64,
    hits: u64,
    /// Frames that were lost or never finished.
    lost: u64,
    said: String,
}

/// The number before a word in a text.
fn number_before(text: &str, word: &str) -> Option<u64> {
    let before = text[..text.find(word)?].trim_end();
    before.rsplit(' ').next()?.parse().ok()
}

/// In KiB, as the shell's `ulimit -v` has it.
const GIBIBYTE: u64 = 1 << 20;

/// Into a circular buffer of a size; without one, into the file.
fn record(threads: u64, hits: u64, size: Option<&str>, how: &[&str]) -> Run {
    record_within(None, threads, hits, size, how)
}

/// As [`record`], with a limit of addresses for the tracer and the program, in KiB.
fn record_within(
    addresses: Option<u64>,
    threads: u64,
    hits: u64,
    size: Option<&str>,
    how: &[&str],
) -> Run {
    let folder = tempfile::tempdir().unwrap();
    let program = build(folder.path());
    // A disk that other programs keep busy for two seconds costs frames in the middle: here, pads and their reader are tested.
    let output_folder = in_memory().unwrap_or_else(|| tempfile::tempdir().unwrap());
    let file = output_folder.path().join("rings.tf");
    let addresses = addresses.map_or("unlimited".to_owned(), |most| most.to_string());
    let output = Command::new("sh")
        .args([
            "-c",
            r#"ulimit -v "$0" && exec timeout 120 "$@""#,
            &addresses,
        ])
        .args([TRACEWIRE, "record", "--mechanism", "jump"])
        .args(
            size.iter()
                .flat_map(|size| ["--circular", "--buffer-size", size]),
        )
        .args(["-t", "hit : *shown"])
        .arg("-o")
        .args([&file, Path::new("--"), &program])
        .args([threads.to_string(), hits.to_string()])
        .args(how)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    assert_clean(&file);

    let mut own = BTreeMap::new();
    let mut left = 0;
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let words: Vec<_> = line.split(' ').collect();
        match words[..] {
            ["left", count] => left = count.parse().unwrap(),
            [thread, begun, done] => {
                let [begun, done] = [begun, done].map(|count| count.parse().unwrap());
                own.insert(thread.parse().unwrap(), Own { begun, done });
            }
            _ => panic!("{line}"),
        }
    }
    assert_eq!(own.len() as u64, threads);

    let trace = TraceFile::open(&file).unwrap();
    let mut kept: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for frame in trace.frames() {
        let (_, shown) = frame
            .memory_blocks()
            .find(|(_, bytes)| bytes.len() == 24)
            .expect("what was collected");
        let (words, _) = shown.as_chunks::<8>();
        let [thread, number, check] = [0, 1, 2].map(|word| u64::from_le_bytes(words[word]));
        assert_eq!(
            check,
            (thread * 1_000_003) ^ (number * 7919),
            "a whole frame"
        );
        kept.entry(thread).or_default().push(number);
    }
    let frames = trace.frames().count() as u64;
    let summary = said.lines().find(|line| line.contains("; hits: "));
    let created = summary.and_then(|line| number_before(line, " in "));
    let lost = said
        .lines()
        .filter(|line| line.contains(" lost: "))
        .map(|line| number_before(line, " frame").unwrap())
        .sum();
    let hits = summary.and_then(|line| {
        let (_, hits) = line.rsplit_once(' ')?;
        hits.parse().ok()
    });
    Run {
        own,
        left,
        kept,
        created: created.unwrap_or(frames),
        hits: hits.expect("the hits of tracepoint 1"),
        lost,
        said,
    }
}

impl Run {
    fn kept(&self) -> u64 {
        self.kept.values().map(|numbers| numbers.len() as u64).sum()
    }

    /// The newest frames are there: in each thread, those missing after the first kept one were counted. Apart from these only hits
    /// that their thread left have no frame.
    fn newest_are_there(&self) {
        let (missing, counted) = (self.missing(), self.lost + self.left);
        assert!(missing <= counted, "{missing} of {counted}: {}", self.said);
    }

    /// How many hits behind the first one that was kept have no frame, of all threads.
    fn missing(&self) -> u64 {
        let mut missing = 0;
        for (thread, numbers) in &self.kept {
            assert!(
                numbers.is_sorted_by(|one, next| one < next),
                "thread {thread}: {}",
                self.said
            );
            let behind_first = self.own[thread].begun - numbers[0] + 1;
            missing += behind_first - numbers.len() as u64;
        }
        missing
    }

    /// Kept, given up and lost are all that the program did.
    fn adds_up(&self) {
        let (begun, done) = self
            .own
            .values()
            .fold((0, 0), |sum, own| (sum.0 + own.begun, sum.1 + own.done));
        let all = self.created + self.lost;
        assert!(
            (done..=begun).contains(&all),
            "{all} of {done} to {begun}: {}",
            self.said
        );
        eprintln!(
            "{begun} begun, {done} done, {} left, {} kept, {} made, {} lost, {} hits",
            self.left,
            self.kept(),
            self.created,
            self.lost,
            self.hits
        );
    }
}

#[test]
fn threads_at_full_speed_lose_their_oldest_frames() {
    for (threads, hits, size) in [(8, 150_000, "2MiB"), (64, 20_000, "1MiB")] {
        let run = record(threads, hits, Some(size), &[]);
        run.adds_up();
        run.newest_are_there();
        // A thread that lost the cpu in the middle of a hit has lost that one at most, each time.
        assert!(run.lost * 100 < threads * hits, "{}", run.said);
        assert_eq!(run.hits, threads * hits, "{}", run.said);
    }
}

#[test]
fn a_hit_that_a_signal_handler_left_holds_up_nothing() {
    for (threads, hits) in [(1, 1_500_000), (4, 500_000)] {
        let run = record(threads, hits, Some("2MiB"), &["leave"]);
        assert!(run.left > 100, "{}", run.left);
        run.adds_up();
        run.newest_are_there();
        assert!(run.lost <= run.left + threads * hits / 100, "{}", run.said);
    }
}

/// Where addresses have a limit, the rings are smaller than the buffer: a hit waits for the reader, but for no hit that was left.
#[test]
fn a_buffer_larger_than_the_rings_keeps_the_newest() {
    for (threads, hits, how) in [(8, 40_000, &[][..]), (1, 200_000, &["leave"][..])] {
        let run = record_within(Some(GIBIBYTE), threads, hits, Some("96MiB"), how);
        run.adds_up();
        run.newest_are_there();
        assert!(run.lost <= run.left + threads * hits / 100, "{}", run.said);
    }
}

/// The rings hold more than such buffers, too, where the machine has the memory, and no hit waits.
#[test]
fn a_large_buffer_keeps_the_newest() {
    for (threads, hits, size, how) in [
        (8, 100_000, "40MiB", &[][..]),
        (64, 10_000, "48MiB", &[][..]),
        (1, 600_000, "40MiB", &["leave"][..]),
        (4, 200_000, "64MiB", &["leave"][..]),
    ] {
        let run = record(threads, hits, Some(size), how);
        run.adds_up();
        run.newest_are_there();
        assert!(run.created > run.kept(), "some made room: {}", run.said);
        assert!(run.lost <= run.left + threads * hits / 100, "{}", run.said);
    }
}

/// The rings of few cpus hold more than this buffer, so that no hit waits. Those of many cpus are smaller.
#[test]
fn a_buffer_of_some_mebibytes_keeps_the_newest() {
    for (threads, hits, how) in [(8, 40_000, &[][..]), (1, 200_000, &["leave"][..])] {
        let run = record(threads, hits, Some("16MiB"), how);
        run.adds_up();
        run.newest_are_there();
        assert!(run.lost <= run.left + threads * hits / 100, "{}", run.said);
    }
}

/// A linear buffer has its frames in order, so it waits for a hit that was abandoned. The wait has a limit, even if signals
/// interrupt the waiting thread again and again.
#[test]
fn a_thread_that_signals_take_out_of_a_wait_comes_to_its_end() {
    let run = record(1, 200_000, None, &["leave"]);
    let [own] = run.own.values().copied().collect::<Vec<_>>()[..] else {
        panic!("{:?}", run.own)
    };
    // A hit that was left in its wait has no frame, and is not counted as lost.
    assert!(run.kept() + run.lost <= own.begun, "{}", run.said);
    assert!(
        run.kept() + run.lost + run.left >= own.begun,
        "{}",
        run.said
    );
}

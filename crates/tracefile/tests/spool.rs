//! The file that a recording streams into: good at every moment, also when the recorder is killed.
#![cfg(target_os = "linux")]

mod support;

use std::fs;
use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use support::{description, frame, stopped, tracepoint};
use tracewire_arch::X86Registers;
use tracewire_model::{Address, ByteOrder, FrameNumber, TracepointUsage};
use tracewire_test_support::Gdb;
use tracewire_tracefile::{
    CircularSpool, Description, Ending, GrowingFile, Module, Spool, TraceFile, lean::LeanSpool,
};

const SET: X86Registers = X86Registers::Core;

/// A frame that tells its own number, of about `size` bytes.
fn numbered(number: u64, size: usize) -> Vec<u8> {
    let block = SET.layout_64().size();
    let build = |f: &mut tracewire_tracefile::FrameEncoder<'_>| {
        f.memory(Address(0x1000), &number.to_le_bytes());
        f.memory(Address(0x10_0000), &vec![number as u8; size]);
    };
    frame(ByteOrder::Little, build, block)
}

/// Every frame is there, whole and in order.
fn check_numbered(file: &TraceFile, size: usize) {
    assert!(
        file.description().problems().is_empty(),
        "{:?}",
        file.description().problems()
    );
    assert!(file.layout().is_some(), "{:?}", file.layout_error());
    for frame in file.frames() {
        let number = frame.number().0;
        assert_eq!(
            frame.memory(Address(0x1000), 8),
            Some(number.to_le_bytes().to_vec())
        );
        assert_eq!(
            frame.memory(Address(0x10_0000), size),
            Some(vec![number as u8; size])
        );
    }
}

/// More tracepoints than there were when the run began, and a module.
fn grown(frames: u64, tracepoints: i32) -> Description {
    let mut parts = description(SET, frames).parts();
    parts.tracepoints = (1..=tracepoints)
        .map(|n| tracepoint(n, 0x401000 + n as u64))
        .collect();
    parts.modules = vec![Module {
        bias: 0x5555_5555_4000,
        path: b"/tmp/a program".to_vec(),
        ..Module::default()
    }];
    Description::build(&parts).unwrap()
}

#[test]
fn a_finished_spool_is_a_trace_file_of_exactly_its_frames() {
    let folder = tempfile::tempdir().unwrap();
    // Small: copied. Large, with frames larger than a window: left in place. Outgrown: copied again.
    for (frames, size, tracepoints) in [(50u64, 100, 3), (12, 1_500_000, 3), (3, 9_000_000, 2000)] {
        let path = folder.path().join(format!("{frames}.tf"));
        let mut spool = Spool::create(&path, &description(SET, 0)).unwrap();
        let mut bytes = 0;
        for number in 0..frames {
            let frame = numbered(number, size);
            bytes += frame.len() as u64;
            spool.append(&frame).unwrap();
            assert_eq!(spool.frame_bytes(), bytes);
        }
        let growing = TraceFile::open(spool.temporary_path()).unwrap();
        assert_eq!(
            growing.frame_count(),
            frames,
            "it reads well before it is finished"
        );
        assert!(!path.exists());
        let temporary = spool.temporary_path().to_owned();
        let last = grown(frames, tracepoints);
        assert_eq!(spool.describe(&last).unwrap(), tracepoints == 3);
        spool.finish(&last).unwrap();
        assert!(!temporary.exists());

        let file = TraceFile::open(&path).unwrap();
        assert_eq!(file.frame_count(), frames);
        assert_eq!(file.description().tracepoints().len(), tracepoints as usize);
        assert_eq!(file.description().tracepoints(), last.tracepoints());
        assert_eq!(file.description().modules(), last.modules());
        assert_eq!(file.description().status(), last.status());
        let end = file.frames_start() + bytes;
        assert_eq!(
            file.ending(),
            Ending::Marker {
                offset: end,
                trailing: 2,
                zero: true
            }
        );
        check_numbered(&file, size);
        let commands = [
            format!("target tfile {}", path.display()),
            "tfind 2".into(),
            "tstatus".into(),
        ];
        let said = Gdb::new().commands(&commands).run().all();
        assert!(
            said.contains("Created tracepoint 3 for target's tracepoint 3 at"),
            "{said}"
        );
        assert!(said.contains("Found trace frame 2, tracepoint 1"), "{said}");
        assert!(
            said.contains(&format!("Collected {frames} trace frames")),
            "{said}"
        );
        let warnings: Vec<_> = said
            .lines()
            .filter(|line| line.contains("arning"))
            .collect();
        assert_eq!(warnings.len(), 1, "only the one about our own line: {said}");
        assert!(
            warnings[0].contains("Ignoring trace file definition \"module "),
            "{said}"
        );
    }
}

/// A description may be cut off at any page when the process is killed while writing it. With any mix of
/// new and old pages, every frame is read, and every line is a whole one.
#[test]
fn a_description_written_halfway_is_still_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("half.tf");
    let mut spool = Spool::create(&path, &description(SET, 0)).unwrap();
    spool.append(&numbered(0, 10)).unwrap();
    let before = fs::read(spool.temporary_path()).unwrap();
    assert!(spool.describe(&grown(1, 100)).unwrap());
    let after = fs::read(spool.temporary_path()).unwrap();
    assert!(before != after);
    for cut in (0..before.len().min(100_000)).step_by(4096) {
        let mixed = [&after[..cut], &before[cut..]].concat();
        let file = TraceFile::from_bytes(mixed).unwrap();
        assert_eq!(file.frame_count(), 1);
        check_numbered(&file, 10);
    }
}

#[test]
fn there_is_room_for_the_hits_of_all_tracepoints() {
    let folder = tempfile::tempdir().unwrap();
    let mut parts = grown(0, 5000).parts();
    let mut described = |usage| {
        for one in &mut parts.tracepoints {
            one.usage = usage;
        }
        Description::build(&parts).unwrap()
    };
    let path = folder.path().join("run.tf");
    let mut spool = Spool::create(path, &described(None)).unwrap();
    let most = TracepointUsage {
        hits: u64::MAX,
        bytes: u64::MAX,
    };
    let ended = described(Some(most));
    assert!(spool.describe(&ended).unwrap());
    let file = TraceFile::open(spool.temporary_path()).unwrap();
    let reported = file.description().tracepoints().iter();
    assert_eq!(reported.filter(|one| one.usage.is_some()).count(), 5000);
}

#[test]
fn an_unfinished_spool_is_left_as_a_good_file_beside_the_old_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kept.tf");
    fs::write(&path, "older").unwrap();
    fs::write(folder.path().join("kept.tf.recording"), "left by a crash").unwrap();
    let mut spool = Spool::create(&path, &description(SET, 0)).unwrap();
    spool.append(&numbered(0, 10)).unwrap();
    let temporary = spool.temporary_path().to_owned();
    drop(spool);
    assert_eq!(fs::read(&path).unwrap(), b"older");
    let file = TraceFile::open(&temporary).unwrap();
    assert_eq!(file.frame_count(), 1);
    assert!(
        fs::metadata(&temporary).unwrap().len() < 100_000,
        "what was reserved is given back"
    );
}

#[test]
fn what_is_no_frame_or_cannot_be_written_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let description = description(SET, 0);
    let mut spool = Spool::create(folder.path().join("a.tf"), &description).unwrap();
    assert!(spool.append(&[]).is_err());
    assert!(spool.append(&[0; 20]).is_err());
    spool.finish(&description).unwrap();
    let error = Spool::create(folder.path().join("no/such/a.tf"), &description).unwrap_err();
    assert!(
        error.to_string().contains("no/such/a.tf.recording"),
        "{error}"
    );
    assert!(Spool::create("/", &description).is_err());
}

/// A full disk is an error; the frames before it stay, and the file can be finished.
#[test]
fn a_full_disk_is_an_error_and_the_file_stays_good() {
    // A file system of 3 MiB needs its own mount namespace, which not every machine gives.
    let folder = tempfile::tempdir().unwrap();
    let run = run_self("fill_the_disk", folder.path(), |command, me| {
        let script = "mount -t tmpfs -o size=3m none \"$TRACEWIRE_TEST_FOLDER\" && exec \"$@\"";
        command
            .args(["--map-root-user", "--mount", "sh", "-c", script, "sh"])
            .arg(me);
    });
    let Some(mut child) = run else { return };
    let output = BufReader::new(child.stdout.take().unwrap()).lines();
    let lines: Vec<_> = output.map_while(Result::ok).collect();
    let status = child.wait().unwrap();
    if !lines.iter().any(|line| line.contains("disk is mounted")) {
        eprintln!("no tmpfs can be mounted here: not tested");
        return;
    }
    assert!(
        status.success() && lines.iter().any(|line| line.contains("finished")),
        "{lines:?}"
    );
}

#[test]
fn fill_the_disk() {
    let Some(folder) = std::env::var_os("TRACEWIRE_TEST_FOLDER") else {
        return;
    };
    println!("disk is mounted");
    let path = Path::new(&folder).join("full.tf");
    let mut spool = Spool::create(&path, &description(SET, 0)).unwrap();
    let mut frames = 0;
    let error = loop {
        match spool.append(&numbered(frames, 50_000)) {
            Ok(()) => frames += 1,
            Err(error) => break error,
        }
    };
    assert!(error.is_full(), "{error}");
    assert!(frames > 30, "most of the disk is used: {frames}");
    spool.finish(&description(SET, frames)).unwrap();
    let file = TraceFile::open(&path).unwrap();
    assert_eq!(file.frame_count(), frames);
    assert_eq!(file.description().parts().status, Some(stopped(frames)));
    check_numbered(&file, 50_000);
    println!("finished");
}

/// Killed with SIGKILL at some moment, it leaves every frame that it had reported. After the end marker there may be what there is
/// of the frame that was being written.
#[test]
fn a_killed_recorder_leaves_every_finished_frame() {
    for wanted in [1u64, 500, 40_000] {
        let folder = tempfile::tempdir().unwrap();
        let mut child = run_self("record_until_killed", folder.path(), |_, _| {}).unwrap();
        let mut reported = 0;
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        while reported < wanted {
            let line = lines.next().unwrap().unwrap();
            if let Some(number) = line.strip_prefix("frames ") {
                reported = number.parse().unwrap();
            }
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let file = TraceFile::open(folder.path().join("killed.tf.recording")).unwrap();
        assert!(
            file.frame_count() >= reported,
            "{} of {reported}",
            file.frame_count()
        );
        assert!(
            matches!(file.ending(), Ending::Marker { .. }),
            "{:?}",
            file.ending()
        );
        check_numbered(&file, 300);
        assert!(file.frame(FrameNumber(file.frame_count())).is_none());
    }
}

#[test]
fn record_until_killed() {
    let Some(folder) = std::env::var_os("TRACEWIRE_TEST_FOLDER") else {
        return;
    };
    let path = Path::new(&folder).join("killed.tf");
    let mut spool = Spool::create(&path, &description(SET, 0)).unwrap();
    let mut frames = 0;
    // Single frames are put into the mapping, many at once are written.
    for at_once in (0..100).map(|_| 1).chain([150, 100, 300]).cycle() {
        let all: Vec<u8> = (frames..frames + at_once)
            .flat_map(|number| numbered(number, 300))
            .collect();
        spool.append(&all).unwrap();
        frames += at_once;
        if frames % 50 == 0 {
            println!("frames {frames}");
            spool.describe(&grown(frames, 100)).unwrap();
        }
    }
}

/// Runs one test of this very program in another process.
fn run_self(
    test: &str,
    folder: &Path,
    wrap: impl FnOnce(&mut Command, &Path),
) -> Option<std::process::Child> {
    let me = std::env::current_exe().unwrap();
    let mut command = Command::new("unshare");
    wrap(&mut command, &me);
    if command.get_args().len() == 0 {
        command = Command::new(&me);
    }
    command
        .args(["--exact", test, "--nocapture"])
        .env("TRACEWIRE_TEST_FOLDER", folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()
}

/// As a recorder that is killed at any moment of its beginning leaves it.
#[test]
fn a_recording_is_whole_as_soon_as_it_has_a_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.tf");
    let begin: [&(dyn Fn() + Sync); 3] = [
        &|| drop(Spool::create(&path, &description(SET, 0)).unwrap()),
        &|| drop(CircularSpool::create(&path, 1 << 20, &description(SET, 0)).unwrap()),
        &|| drop(LeanSpool::create(&path, &description(SET, 0)).unwrap()),
    ];
    for begin in begin {
        std::thread::scope(|scope| {
            let recorder = scope.spawn(|| {
                for _ in 0..300 {
                    begin();
                }
            });
            let mut seen = 0;
            let mut is_last = false;
            while !is_last {
                is_last = recorder.is_finished();
                for file in fs::read_dir(folder.path()).unwrap() {
                    let file = file.unwrap().path();
                    assert!(
                        TraceFile::open(&file).is_ok_and(|file| file.frame_count() == 0),
                        "{} is no trace file",
                        file.display()
                    );
                    seen += 1;
                    fs::remove_file(file).unwrap();
                }
            }
            assert!(seen > 0);
        });
    }
}

/// A recorder makes its file, locks it, and writes the description, where its file system has no files without names.
#[test]
fn a_reader_that_comes_before_the_description_waits_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.tf");
    let whole = folder.path().join("whole.tf");
    let spool = Spool::create(&whole, &description(SET, 0)).unwrap();
    let front = fs::read(spool.temporary_path()).unwrap();
    let growing = folder.path().join("out.tf.recording");
    let file = fs::File::create_new(&growing).unwrap();
    file.lock().unwrap();
    let opened = || {
        let descriptors = fs::read_dir("/proc/self/fd").unwrap();
        let links =
            descriptors.filter_map(|descriptor| fs::read_link(descriptor.unwrap().path()).ok());
        links.filter(|link| *link == growing).count()
    };
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| GrowingFile::open(&path).map(|found| found.is_some()));
        while opened() < 2 && !reader.is_finished() {
            std::thread::yield_now();
        }
        for part in front.chunks(front.len() / 2 + 1) {
            (&file).write_all(part).unwrap();
        }
        assert!(reader.join().unwrap().unwrap());
    });
}

#[test]
fn a_file_without_a_name_gets_one_when_it_is_finished() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("saved.tf");
    fs::write(&path, "what stood there").unwrap();
    let mut spool = Spool::create_unnamed(folder.path(), &description(SET, 0)).unwrap();
    for number in 0..1000 {
        spool.append(&numbered(number, 5000)).unwrap();
    }
    // Until then there is nothing to be seen.
    assert_eq!(fs::read(&path).unwrap(), b"what stood there");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    assert!(spool.finish_as(&path, &grown(1000, 3)).unwrap());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    let file = TraceFile::open(&path).unwrap();
    assert_eq!(file.frame_count(), 1000);
    assert!(matches!(file.ending(), Ending::Marker { .. }));
    check_numbered(&file, 5000);

    // A description that has outgrown its room leaves nothing behind.
    let spool = Spool::create_unnamed(folder.path(), &description(SET, 0)).unwrap();
    let other = folder.path().join("other.tf");
    assert!(!spool.finish_as(&other, &grown(0, 3000)).unwrap());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_name_that_is_no_file_s_is_taken_over_only_where_it_can_be() {
    let folder = tempfile::tempdir().unwrap();
    let spool = || Spool::create_unnamed(folder.path(), &description(SET, 0)).unwrap();
    let inner = folder.path().join("inner");
    fs::create_dir(&inner).unwrap();
    fs::write(inner.join("kept"), "kept").unwrap();
    assert!(spool().finish_as(&inner, &grown(0, 3)).is_err());
    assert_eq!(fs::read(inner.join("kept")).unwrap(), b"kept");

    // Of a link, the link goes.
    let link = folder.path().join("link.tf");
    std::os::unix::fs::symlink(inner.join("kept"), &link).unwrap();
    assert!(spool().finish_as(&link, &grown(0, 3)).unwrap());
    assert_eq!(TraceFile::open(&link).unwrap().frame_count(), 0);
    assert_eq!(fs::read(inner.join("kept")).unwrap(), b"kept");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
}

/// The file that keeps the newest frames is another one now and then, and at every moment has all that are kept.
#[test]
fn a_circular_spool_has_the_newest_frames_at_every_moment() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("run.tf");
    let growing = folder.path().join("run.tf.recording");
    for (size, frames) in [(1_u64, 10), (20_000, 40_000), (5 << 20, 40_000)] {
        let first = description(SET, 0);
        let mut spool = CircularSpool::create(&path, size, &first).expect("made");
        assert_eq!(spool.temporary_path(), growing);
        let (mut kept, mut turns) = (std::collections::VecDeque::new(), 0);
        for number in 0..frames {
            let frame = numbered(number, 600 + (number * 7919 % 1500) as usize);
            let fits = frame.len() as u64 <= size;
            assert_eq!(spool.append(&frame).expect("written"), fits);
            if fits {
                kept.push_back((number, frame.len() as u64));
            }
            while kept.iter().map(|(_, length)| length).sum::<u64>() > size {
                kept.pop_front();
            }
            assert_eq!(spool.frames(), kept.len() as u64);
            if number % 1000 == 500 {
                spool.describe(&grown(number, 5)).expect("described");
            }
            let is_due = spool.is_due();
            if is_due && number % 3 == 0 {
                turns += u32::from(spool.turn(|_| ()).expect("turned"));
            }
            // A kill at this moment leaves this.
            if number % 1777 == 0 || is_due && number % 11 == 0 {
                let file = TraceFile::open(&growing).expect("a trace file");
                let found: Vec<u64> = file.frames().map(|frame| own_number(&frame)).collect();
                let newest: Vec<u64> = kept.iter().map(|(number, _)| *number).collect();
                assert!(found.ends_with(&newest), "{number}: {found:?}");
                assert!(file.description().problems().is_empty());
            }
            assert_eq!(fs::read_dir(folder.path()).expect("read").count(), 1);
        }
        assert_eq!(turns > 1, size > 1, "{size}: {turns} turns");
        let newest: Vec<u64> = kept.iter().map(|(number, _)| *number).collect();
        spool
            .finish(&description(SET, newest.len() as u64))
            .expect("finished");
        let file = TraceFile::open(&path).expect("a trace file");
        let found: Vec<u64> = file.frames().map(|frame| own_number(&frame)).collect();
        assert_eq!(found, newest);
        assert_eq!(fs::read_dir(folder.path()).expect("read").count(), 1);
        fs::remove_file(&path).expect("removed");
    }
    let spool = CircularSpool::create(&path, 100, &description(SET, 0)).expect("made");
    spool.discard();
    assert_eq!(fs::read_dir(folder.path()).expect("read").count(), 0);
}

/// The number that a frame tells.
fn own_number(frame: &tracewire_tracefile::Frame<'_>) -> u64 {
    let bytes = frame.memory(Address(0x1000), 8).expect("collected");
    u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
}

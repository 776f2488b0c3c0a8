//! Real files, cut and damaged anywhere: nothing panics, `check` reports it, and `repair` saves every whole frame outside of the
//! damage. Its output passes `check` and opens in GDB.
//!
//! `check` reports every cut, and every damage to a file with a checksum: our own, or one that `seal` has added. In other files of
//! GDB's a changed value cannot be recognized.
//!
//! `TRACEWIRE_REPAIR_TIMES` is the number of rounds, `TRACEWIRE_REPAIR_SEED` the seed (`cargo xtask torture`).

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fastrand::Rng;
use tracewire_arch::Architecture;
use tracewire_convert::part;
use tracewire_diagnose::Severity;
use tracewire_tracefile::{Ending, TraceFile};
use tracewire_views::{Info, Program, Viewer};

use crate::generated::{Described, smallest, write};
use crate::support::Built;
use tracewire_test_support::{sample, setting};

/// How many of the repaired files GDB opens.
const IN_GDB: u64 = 60;

/// A good file.
struct Original {
    machine: Machine,
    file: TraceFile,
    /// Where the frames are.
    frames: Vec<Range<usize>>,
    /// Where the end marker is.
    end: usize,
}

impl Original {
    fn open(path: &Path, machine: Machine) -> Self {
        let file = TraceFile::open(path).expect("a trace file");
        let Ending::Marker { offset: end, .. } = file.ending() else {
            panic!("{}: {:?}", path.display(), file.ending());
        };
        let place = |frame: tracewire_tracefile::Frame<'_>| {
            let start = frame.offset() as usize;
            start..start + 6 + frame.data().len()
        };
        let frames: Vec<_> = file.frames().map(place).collect();
        assert!(!frames.is_empty());
        assert!(tracewire_diagnose::check(&file).is_good());
        Self {
            machine,
            end: end as usize,
            frames,
            file,
        }
    }
}

const X86: Machine = ("i386:x86-64", "little");

/// The settings that GDB needs if the file's own description is lost: architecture and byte order.
type Machine = (&'static str, &'static str);

/// A file of GDB's `tsave` and one of GDB's own test suite: unchanged, sealed, and as we write them. Then one of ours of a program
/// with threads, and generated ones of big-endian machines.
fn originals(folder: &Path) -> Vec<Original> {
    let fixture = |name: &str| Original::open(&sample(name), X86);
    let rewritten = |name: &str| {
        let path = folder.join(format!("rewritten-{name}"));
        let file = TraceFile::open(sample(name)).expect("a trace file");
        let mut out = fs::File::create(&path).expect("made");
        let all = part::frames_in(&file, 0..u64::MAX);
        part::write(&file, all, &mut out).expect("written");
        Original::open(&path, X86)
    };
    let generated = |machine: Architecture, said| {
        let path = folder.join(format!("{machine}.tf"));
        write(&path, &smallest(machine), Described::Registers, 40);
        Original::open(&path, said)
    };
    let sealed = |original: &Original| {
        let name = original.file.path().and_then(Path::file_name);
        let name = name.expect("a name").to_string_lossy().into_owned();
        let path = folder.join(format!("sealed-{name}"));
        fs::write(&path, original.file.as_bytes()).expect("written");
        let copy = TraceFile::open(&path).expect("a trace file");
        tracewire_diagnose::seal(&copy).expect("sealed");
        Original::open(&path, original.machine)
    };
    let built = Built::named(
        "workers",
        include_str!("../programs/workers.c"),
        &["-pthread"],
    );
    built
        .record(include_str!("../gdb_agreement/workers.script"), &[])
        .code(0);
    let of_gdb = ["sample.tf", "tfile-basic.tf", "without_actions.tf"].map(fixture);
    let of_ours = [
        rewritten("sample.tf"),
        rewritten("tfile-basic.tf"),
        Original::open(&built.path("out.tf"), X86),
        generated(Architecture::Mips, ("mips", "big")),
        generated(Architecture::PowerPc, ("powerpc:common", "big")),
    ];
    let sealed = of_gdb.each_ref().map(sealed);
    of_gdb.into_iter().chain(sealed).chain(of_ours).collect()
}

/// The counts of the results.
#[derive(Default)]
struct Score {
    /// How many files were not changed by what was done to them.
    unchanged: u64,
    /// How many others had a checksum before.
    sealed: u64,
    /// Those that are no trace file any more, or for which `check` reports something.
    sealed_named: u64,
    /// The same of files without a checksum.
    unsealed: u64,
    named: u64,
    saved: u64,
    lost: u64,
    kept: Vec<Kept>,
}

/// A repaired file for GDB.
struct Kept {
    machine: Machine,
    frames: u64,
    path: PathBuf,
}

/// Looks at a damaged file and repairs it. `touched` are the bytes of the original that are damaged or missing.
fn look(
    original: &Original,
    damaged: &[u8],
    touched: &Range<usize>,
    cut: bool,
    path: &Path,
    score: &mut Score,
) -> Result<u64, String> {
    let salvage = tracewire_diagnose::repair::Salvage::of(damaged);
    let written = salvage.frames().count() as u64;
    salvage.write(path).map_err(|error| error.to_string())?;
    let named = match TraceFile::from_bytes(damaged.to_vec()) {
        Err(_) => true,
        Ok(file) => {
            let report = tracewire_diagnose::check(&file);
            if cut && report.errors == 0 {
                return Err("a cut is no error".to_owned());
            }
            assert!(Info::of(&file).json().contains("frames"));
            let program = Program::default();
            let viewer = Viewer::new(&file, &program);
            for frame in file.frames().take(3).chain(file.frames().next_back()) {
                assert_eq!(viewer.view(frame).frame, frame.number().0);
            }
            !report.findings.is_empty()
        }
    };
    let sealed = original.file.checksum().is_some();
    if damaged == original.file.as_bytes() {
        // Zeros over zeros.
        score.unchanged += 1;
    } else if sealed {
        score.sealed += 1;
        score.sealed_named += u64::from(named);
        if !named {
            return Err("check does not name it".to_owned());
        }
    } else {
        score.unsealed += 1;
        score.named += u64::from(named);
    }
    let repaired = TraceFile::open(path).map_err(|error| error.to_string())?;
    let mut report = tracewire_diagnose::check(&repaired);
    if !report.is_good() {
        let is_error =
            |finding: &tracewire_diagnose::Finding| finding.severity() == Severity::Error;
        report.findings.retain(is_error);
        return Err(format!(
            "{:?} after {:?}",
            report.findings,
            salvage.changes()
        ));
    }
    assert_eq!(repaired.frame_count(), written);
    let mut found = repaired.frames().map(|frame| frame.data());
    for frame in &original.frames {
        if touched.start < frame.end && frame.start < touched.end {
            score.lost += 1;
            continue;
        }
        let data = &original.file.as_bytes()[frame.start + 6..frame.end];
        if !found.any(|found| found == data) {
            return Err(format!(
                "the frame at {} is lost: {:?}",
                frame.start,
                salvage.changes()
            ));
        }
        score.saved += 1;
    }
    Ok(written)
}

fn torture(what: &str, cut: bool) {
    let folder = tempfile::tempdir().expect("a folder");
    let originals = originals(folder.path());
    let times = setting("TRACEWIRE_REPAIR_TIMES", IN_GDB);
    let seed = setting("TRACEWIRE_REPAIR_SEED", 1);
    let mut random = Rng::with_seed(seed ^ u64::from(cut) << 63);
    let mut score = Score::default();
    let in_gdb = setting("TRACEWIRE_REPAIR_GDB", IN_GDB).max(1);
    let in_gdb = times.div_ceil(in_gdb).max(1);
    for time in 0..times {
        let original = &originals[random.usize(..originals.len())];
        let mut bytes = original.file.as_bytes().to_vec();
        let touched = if cut {
            let at = random.usize(..original.end);
            bytes.truncate(at);
            at..usize::MAX
        } else {
            damage(&mut bytes, &mut random)
        };
        let path = folder.path().join(format!("{time}.tf"));
        match look(original, &bytes, &touched, cut, &path, &mut score) {
            Ok(frames) if time.is_multiple_of(in_gdb) => score.kept.push(Kept {
                machine: original.machine,
                frames,
                path,
            }),
            Ok(_) => fs::remove_file(&path).expect("removed"),
            Err(problem) => {
                let damaged = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("damaged.tf");
                fs::write(&damaged, &bytes).expect("written");
                panic!(
                    "damage at {touched:?}: {problem}\nsee {}",
                    damaged.display()
                );
            }
        }
    }
    open_in_gdb(&score.kept, folder.path());
    eprintln!(
        "{times} {what}, {} of which change nothing: check names {} of {} with a checksum, {} of {} without; frames saved {}, touched {}; \
         {} opened in GDB",
        score.unchanged,
        score.sealed_named,
        score.sealed,
        score.named,
        score.unsealed,
        score.saved,
        score.lost,
        score.kept.len()
    );
}

/// Other bytes instead of some, or bytes taken out and others put in.
fn damage(bytes: &mut Vec<u8>, random: &mut Rng) -> Range<usize> {
    let start = random.usize(..bytes.len());
    let removed = |random: &mut Rng, most| start..bytes.len().min(start + 1 + random.usize(..most));
    match random.usize(..3) {
        0 => {
            let touched = removed(random, 200);
            let inserted = random.usize(..200);
            bytes.splice(
                touched.clone(),
                std::iter::repeat_with(|| random.u8(..)).take(inserted),
            );
            touched
        }
        1 => {
            let touched = removed(random, 512);
            bytes[touched.clone()].fill(0);
            touched
        }
        _ => {
            let touched = removed(random, 30);
            random.fill(&mut bytes[touched.clone()]);
            touched
        }
    }
}

/// Opens each file in a GDB, one for each machine, and selects its last frame and the one after that.
fn open_in_gdb(files: &[Kept], folder: &Path) {
    let mut machines: Vec<_> = files.iter().map(|kept| kept.machine).collect();
    machines.sort_unstable();
    machines.dedup();
    for machine in machines {
        let files: Vec<_> = files
            .iter()
            .filter(|kept| kept.machine == machine)
            .collect();
        let mut list = format!("{}\n{}\n", machine.0, machine.1);
        for kept in &files {
            list.push_str(&format!("{} {}\n", kept.frames, kept.path.display()));
        }
        fs::write(folder.join("list"), list).expect("written");
        fs::write(folder.join("open.py"), include_str!("open_each.py")).expect("written");
        let output = Command::new("gdb-multiarch")
            .args(["-nx", "-q", "-batch", "-x", "open.py"])
            .current_dir(folder)
            .env("DEBUGINFOD_URLS", "")
            .stdin(Stdio::null())
            .output()
            .expect("gdb-multiarch runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let said = text(&output.stdout);
        let expected = format!("{} files, {} opened", files.len(), files.len());
        if said.lines().any(|line| line == expected) {
            continue;
        }
        let place = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("not-opened");
        drop(fs::remove_dir_all(&place));
        fs::create_dir_all(&place).expect("made");
        for kept in files {
            fs::copy(
                &kept.path,
                place.join(kept.path.file_name().expect("a name")),
            )
            .expect("copied");
        }
        let complained = text(&output.stderr);
        panic!(
            "{machine:?}: {said}\n{complained}\nthe files are in {}",
            place.display()
        );
    }
}

#[test]
fn files_cut_anywhere_are_repaired() {
    torture("cuts", true);
}

#[test]
fn files_damaged_anywhere_are_repaired() {
    torture("damages", false);
}

//! Tracewire is killed at random moments while it inserts tracepoints, while it records, and while it removes them.
//!
//! `TRACEWIRE_KILL_TIMES` is the number of kills for each mechanism, `TRACEWIRE_KILL_SEED` the seed of the moments
//! (`cargo xtask torture jumps`).

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use fastrand::Rng;
use tracewire_test_support::setting;

use crate::support::{Built, tracewire};
use crate::working::{self, Working};

/// The length of a recording that ends by itself.
const SHORT: Duration = Duration::from_millis(20);

fn recorder(built: &Built, program: &Working, mechanism: &str, options: &[&str]) -> Child {
    tracewire()
        .current_dir(built.folder.path())
        .args(["record", "-o", "out.tf", "--mechanism", mechanism])
        .args(["-p", &program.id().to_string()])
        .args(["-t", "mix if state % 16 == 0 : state, *salt@4"])
        .args(options)
        .stderr(Stdio::piped())
        .spawn()
        .expect("tracewire runs")
}

/// How long it takes until the tracepoint is in.
fn installing(built: &Built, program: &Working, mechanism: &str) -> Duration {
    let begun = Instant::now();
    let mut recorder = recorder(built, program, mechanism, &["--duration", "0.001"]);
    let said = BufReader::new(recorder.stderr.take().expect("stderr"));
    let mut said = said.lines().map_while(Result::ok);
    assert!(said.any(|line| line.contains("by ")));
    let aim = begun.elapsed();
    said.for_each(drop);
    // In so short a time there may be no hit.
    let code = recorder.wait().expect("ended").code();
    assert!(matches!(code, Some(0 | 1)), "{code:?}");
    aim
}

/// Kills Tracewire this often, and returns how many programs have died with it. Survivors must have worked right.
fn kill(mechanism: &str, survives: bool) {
    let times = setting("TRACEWIRE_KILL_TIMES", 12);
    let mut random = Rng::with_seed(setting("TRACEWIRE_KILL_SEED", 1));
    let built = working::build(2, 200);
    let mut program = Working::start(&built);
    let mut aim = installing(&built, &program, mechanism);
    let (mut kills, mut lost, mut late, mut on_this) = ([0_u64; 3], 0, 0, 0);
    while on_this > 0 || kills.iter().sum::<u64>() < times {
        let phase = (kills.iter().sum::<u64>() + late) as usize % 3;
        let wait = match phase {
            0 => aim.mul_f64(random.f64()),
            1 => aim + Duration::from_millis(40).mul_f64(random.f64()),
            _ => aim + SHORT.mul_f64(0.9) + aim.min(SHORT).mul_f64(random.f64()),
        };
        let options: &[&str] = if phase == 2 {
            &["--duration", "0.02"]
        } else {
            &[]
        };
        let mut recorder = recorder(&built, &program, mechanism, options);
        std::thread::sleep(wait);
        // One that had done before does not count.
        if recorder.try_wait().expect("asked").is_some() {
            late += 1;
        } else {
            kills[phase] += 1;
            on_this += 1;
        }
        recorder.kill().expect("killed");
        recorder.wait().expect("ended");
        let dead = program.ended();
        if dead.is_none() && on_this < 4 {
            continue;
        }
        // Several recordings and kills of one program, then another one.
        let next = Working::start(&built);
        let before = std::mem::replace(&mut program, next);
        if let Err(status) = before.finish() {
            assert!(!survives, "{status} after kills {kills:?}, {wait:?}");
            assert_eq!(status.signal(), Some(libc::SIGTRAP), "{status}");
            lost += 1;
        }
        aim = installing(&built, &program, mechanism);
        on_this = 0;
    }
    program.finish().expect("alive");
    let _ = writeln!(
        std::io::stderr(),
        "{mechanism}: killed {kills:?} times while installing, running, removing; {lost} programs lost"
    );
}

#[test]
fn jumps_that_a_killed_tracewire_leaves_do_no_harm() {
    kill("jump", true);
}

/// A breakpoint that is left kills the program that hits it, by SIGTRAP. The other parts of a trap are harmless.
#[test]
fn traps_that_a_killed_tracewire_leaves_are_traps() {
    kill("trap", false);
}

/// It is had before the tracepoints are known. Nothing of the program leads to it then.
#[test]
fn memory_that_a_killed_tracewire_has_prepared_is_unmapped_by_the_next() {
    let built = working::build(2, 200);
    let program = Working::start(&built);
    let record = |settings: &[(&str, &str)]| {
        let ran = tracewire()
            .current_dir(built.folder.path())
            .args(["record", "-o", "out.tf", "--duration", "0.02"])
            .args(["-p", &program.id().to_string()])
            .args(["-t", "mix if state % 16 == 0 : state"])
            .envs(settings.iter().copied())
            .output();
        ran.expect("tracewire runs").status
    };
    // That of the dynamic linker's hook, which stays with its jump, is smaller.
    let prepared = || {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", program.id()));
        let maps = maps.expect("it runs");
        let of_pads = maps.lines().filter(|line| {
            let range = line.split_whitespace().next();
            let ends = range.and_then(|range| range.split_once('-'));
            let (start, end) = ends.expect("a range");
            let number = |text| u64::from_str_radix(text, 16).expect("an address");
            line.contains("/memfd:tracewire") && number(end) - number(start) > 100 << 20
        });
        of_pads.count()
    };
    let killed = record(&[("TRACEWIRE_FAIL_POINT", "share/prepared:1")]);
    assert_eq!(killed.signal(), Some(libc::SIGKILL), "{killed}");
    assert_eq!(prepared(), 1);
    let whole = record(&[]);
    assert!(matches!(whole.code(), Some(0 | 1)), "{whole}");
    assert_eq!(prepared(), 0);
    program.finish().expect("unharmed");
}

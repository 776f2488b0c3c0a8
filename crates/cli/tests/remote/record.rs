//! `record --upstream`, without a debugger.

use tracewire_test_support::{BARE_MACHINES, TWO_CPUS, assert_clean, need};

use crate::support::{SCRIPT, gdbserver, linux_program, run, shown, tracewire, value};

/// The state of the bare-metal program before the call of `work` in which `n` is 3, for the round of this number from 0.
fn expected(round: usize) -> (i64, [i64; 3], usize) {
    const TABLE: [i64; 8] = [1, 2, 3, 5, 8, 13, 21, 34];
    let mut ids = [1, 2, 3];
    let (mut total, mut item) = (0, 0);
    for call in 0..round * 10 + 3 {
        let n = call % 10;
        total += n as i64;
        ids[item] += TABLE[n & 7];
        item = (item + 1) % 3;
    }
    (total, ids, item)
}

#[test]
fn every_machine_of_qemu_is_recorded() {
    need!("clang", "ld.lld");
    for machine in BARE_MACHINES {
        need!(machine.qemu);
        let folder = tempfile::tempdir().expect("a directory");
        let elf = machine.build(folder.path());
        let qemu = machine.start(&elf, folder.path());
        let (script, output) = (folder.path().join("s.gdb"), folder.path().join("out.tf"));
        std::fs::write(&script, SCRIPT).expect("the directory can be written");
        let word = |path: &std::path::Path| path.to_str().expect("UTF-8").to_owned();
        let upstream = format!("unix:{}", qemu.socket.display());
        run(&[
            "record",
            "-x",
            &word(&script),
            "-o",
            &word(&output),
            "--upstream",
            &upstream,
            "--elf",
            &word(&elf),
        ]);
        assert_clean(&output);
        let frames = shown(&output, None);
        assert_eq!(frames.len(), 12, "{}: {frames:#?}", machine.name);
        for (place, frame) in frames.iter().enumerate() {
            let name = machine.name;
            assert_eq!(frame["stepping"], place % 3 > 0, "{name}: {frame:#}");
            if place % 3 > 0 {
                continue;
            }
            let (total, ids, item) = expected(place / 3);
            assert_eq!(value(frame, "n"), Some("3"), "{name}: {frame:#}");
            let total = total.to_string();
            assert_eq!(value(frame, "total"), Some(total.as_str()), "{name}");
            let start = format!("{{id = {},", ids[item]);
            let shown = value(frame, "*item").unwrap_or_default();
            assert!(shown.starts_with(&start), "{name}: {shown}, not {start}");
            let text = ["\"one\"", "\"two\"", "\"three\""][item];
            let shown = value(frame, "item->name").unwrap_or_default();
            assert!(shown.ends_with(text), "{name}: {shown}, not {text}");
        }
    }
}

#[test]
fn threads_of_a_program_behind_gdbserver_are_recorded() {
    need!("cc", "gdbserver");
    let folder = tempfile::tempdir().expect("a directory");
    let program = linux_program(folder.path());
    let stub = gdbserver(&program);
    let output = folder.path().join("out.tf");
    let file = output.to_str().expect("UTF-8");
    // gdbserver names the program, and its load address.
    let ended = run(&[
        "record",
        "-t",
        "work if n % 100 >= 10 : n, calls, /s pair.name",
        "-t",
        "finish : total",
        "-o",
        file,
        "--upstream",
        &stub.address(),
    ]);
    let errors = String::from_utf8_lossy(&ended.stderr);
    assert!(
        errors.contains("the program exited with code 3"),
        "{errors}"
    );
    assert_clean(&output);
    let frames = shown(&output, None);
    let of = |tracepoint: u64| {
        frames
            .iter()
            .filter(move |frame| frame["tracepoint"] == tracepoint)
    };
    let mut threads: Vec<_> = of(1).map(|frame| frame["thread"].to_string()).collect();
    threads.sort();
    threads.dedup();
    assert_eq!((of(1).count(), threads.len()), (30, 3), "{frames:#?}");
    // Each of the threads has its own ten calls, in order.
    for thread in 0..3 {
        let calls = of(1).filter_map(|frame| value(frame, "n")?.parse::<i64>().ok());
        let calls: Vec<i64> = calls.filter(|n| n / 100 == thread).collect();
        let expected: Vec<i64> = (10..20).map(|n| n + thread * 100).collect();
        assert_eq!(calls, expected);
    }
    let end: Vec<_> = of(2).map(|frame| value(frame, "total")).collect();
    assert_eq!(end, [Some("6570")], "{frames:#?}");
}

/// Behind a stub each hit is a stop; a skipped one is not read there, and is still counted.
#[test]
fn hits_behind_a_stub_keep_to_a_rate() {
    need!("cc", "gdbserver");
    let folder = tempfile::tempdir().expect("a directory");
    let program = linux_program(folder.path());
    let stub = gdbserver(&program);
    let output = folder.path().join("out.tf");
    let ended = run(&[
        "record",
        "--rate",
        "3/h:1",
        "-t",
        "work : n",
        "-t",
        "finish : total",
        "-o",
        output.to_str().expect("UTF-8"),
        "--upstream",
        &stub.address(),
    ]);
    let errors = String::from_utf8_lossy(&ended.stderr);
    let skipped = "tracepoint 1: 57 of 60 hits were skipped, for --rate or --budget";
    assert!(errors.contains(skipped), "{errors}");
    assert_clean(&output);
    let frames = shown(&output, None);
    let of = |tracepoint: u64| {
        let frames = frames.iter();
        frames.filter(move |frame| frame["tracepoint"] == tracepoint)
    };
    assert_eq!((of(1).count(), of(2).count()), (3, 1), "{frames:#?}");
}

#[test]
fn a_stub_that_is_not_there_is_named() {
    let folder = tempfile::tempdir().expect("a directory");
    let output = folder.path().join("out.tf");
    let socket = folder.path().join("none");
    let upstream = format!("unix:{}", socket.display());
    let arguments = [
        "record",
        "-t",
        "main",
        "-o",
        output.to_str().expect("UTF-8"),
        "--upstream",
        &upstream,
    ];
    let ended = tracewire(&arguments).output().expect("tracewire runs");
    let errors = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(2), "{errors}");
    assert!(errors.contains("cannot connect to the stub at"), "{errors}");
    assert!(!output.exists());
}

/// All cpus stop at each hit, and each has its own calls in order.
#[test]
fn two_cpus_behind_a_stub_are_recorded() {
    need!("clang", "ld.lld", "qemu-system-aarch64");
    let folder = tempfile::tempdir().expect("a directory");
    let elf = TWO_CPUS.build(folder.path());
    let qemu = TWO_CPUS.start(&elf, folder.path());
    let place = |name: &str| folder.path().join(name);
    let script = "trace work\nactions\n collect n\n while-stepping 2\n  collect $sp\n end\nend\n\
                  trace round_done\nactions\n collect round\nend\npasscount 20\n";
    std::fs::write(place("s.gdb"), script).expect("written");
    let word = |path: &std::path::Path| path.to_str().expect("UTF-8").to_owned();
    run(&[
        "record",
        "-x",
        &word(&place("s.gdb")),
        "-o",
        &word(&place("out.tf")),
        "--upstream",
        &format!("unix:{}", qemu.socket.display()),
        "--elf",
        &word(&elf),
    ]);
    let output = place("out.tf");
    assert_clean(&output);
    let frames = shown(&output, None);
    for thread in 1..3 {
        let own = frames.iter().filter(|frame| frame["thread"] == thread);
        let of_work: Vec<_> = own.filter(|frame| frame["tracepoint"] == 1).collect();
        assert!(of_work.len() > 30, "thread {thread}: {}", of_work.len());
        let hits = of_work.chunks(3).filter(|frames| frames.len() == 3);
        for (number, frames) in hits.enumerate() {
            let n = (number % 10).to_string();
            assert_eq!(value(frames[0], "n"), Some(n.as_str()), "{:#}", frames[0]);
            for (step, frame) in frames.iter().enumerate() {
                assert_eq!(frame["stepping"], step > 0, "{frame:#}");
            }
        }
    }
}

//! Files with a program's memory are accessible only to their owner. Tracewire writes through no link, and trusts no file, that
//! another user can have put there.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::{Command, Output, Stdio};

#[allow(dead_code, reason = "the other tests use the rest")]
mod wire;

use tracewire_test_support::{assert_clean, sample};
use wire::build;

const TRACEWIRE: &str = env!("CARGO_BIN_EXE_tracewire");

/// A user of no files.
const NOBODY: u32 = 65534;

const EXECUTION: &str = "1 clk 0 IT (1) 00401000 90909090 A svc_ns : nop\n\
                         2 clk 0 IT (2) 00401004 90909090 A svc_ns : nop\n";

/// Runs Tracewire where files are made for all by default.
fn tracewire(folder: &Path, words: &str) -> Output {
    Command::new("sh")
        .current_dir(folder)
        .env("XDG_CACHE_HOME", folder.join("cache"))
        .args(["-c", &format!("umask 000; exec \"$0\" {words}"), TRACEWIRE])
        .output()
        .unwrap()
}

fn mode(path: &Path) -> u32 {
    let metadata = std::fs::metadata(path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    metadata.permissions().mode() & 0o777
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn files_of_a_program_s_memory_are_for_their_owner() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    build(folder, "ticks.c");
    build(folder, sample("sample.c"));
    std::fs::copy(sample("sample.tf"), folder.join("sample.tf")).unwrap();
    std::fs::write(folder.join("x.trace"), EXECUTION).unwrap();
    for (words, made) in [
        ("record -t handle -o out.tf -- ./sample", "out.tf"),
        ("convert sample.tf sample.jsonl", "sample.jsonl"),
        ("convert sample.jsonl again.tf", "again.tf"),
        ("convert sample.tf sample.ctf --to ctf", "sample.ctf"),
        ("convert sample.tf sample.csv --column pc", "sample.csv"),
        ("convert sample.tf sample.chrome.json", "sample.chrome.json"),
        ("convert sample.tf sample.perfetto", "sample.perfetto"),
        ("convert sample.tf sample.otlp.json", "sample.otlp.json"),
        (
            "convert sample.tf sample.firefox.json",
            "sample.firefox.json",
        ),
        ("report sample.tf -o sample.html", "sample.html"),
        ("record -t handle -o out.twr -- ./sample", "out.twr"),
        (
            "record -t handle --circular -o ring.tf -- ./sample",
            "ring.tf",
        ),
        (
            "record -t handle --audit audit.log -o logged.tf -- ./sample",
            "audit.log",
        ),
        ("repair sample.tf -o repaired.tf", "repaired.tf"),
        ("info x.trace --architecture x86_64", "x.trace.twindex"),
        ("convert x.trace x.twx --architecture x86_64", "x.twx"),
        ("convert x.trace x.vcd --architecture x86_64", "x.vcd"),
        (
            "collect -t '*0x401000 : $pc' -o collected.tf --elf sample x.trace",
            "collected.tf",
        ),
    ] {
        let output = tracewire(folder, words);
        assert!(output.status.success(), "{words}: {}", said(&output));
        let path = folder.join(made);
        let wanted = if path.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode(&path), wanted, "{words}");
        if made.ends_with(".tf") {
            assert_clean(&path);
        }
    }

    // While it is recorded, too; and a log of packets.
    let mut server = Command::new("sh")
        .current_dir(folder)
        .args([
            "-c",
            "umask 000; exec \"$0\" gdbserver --debug-log log.txt 127.0.0.1:0 ./ticks",
            TRACEWIRE,
        ])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(server.stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().starts_with("Listening")));
    assert_eq!(mode(&folder.join("log.txt")), 0o600);
    server.kill().unwrap();
    server.wait().unwrap();
    let mut program = Command::new(folder.join("ticks")).spawn().unwrap();
    let words = format!("record -t tick -o live.tf -p {}", program.id());
    let mut record = Command::new("sh")
        .current_dir(folder)
        .args(["-c", &format!("umask 000; exec \"$0\" {words}"), TRACEWIRE])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let growing = folder.join("live.tf.recording");
    while !growing.exists() {
        assert!(record.try_wait().unwrap().is_none(), "record ends");
        std::thread::yield_now();
    }
    assert_eq!(mode(&growing), 0o600);
    program.kill().unwrap();
    program.wait().unwrap();
    // It may not even have attached by then.
    record.wait().unwrap();
}

#[test]
fn a_link_in_a_folder_of_all_is_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    build(folder, "ticks.c");
    build(folder, sample("sample.c"));
    std::fs::copy(sample("sample.tf"), folder.join("sample.tf")).unwrap();
    std::fs::write(folder.join("x.trace"), EXECUTION).unwrap();
    let (victim, all) = (folder.join("victim"), folder.join("all"));
    std::fs::write(&victim, "mine").unwrap();
    std::fs::create_dir(&all).unwrap();
    std::fs::set_permissions(&all, std::fs::Permissions::from_mode(0o1777)).unwrap();
    symlink(&victim, all.join("link")).unwrap();
    symlink(folder.join("nothing"), all.join("dangling")).unwrap();
    for out in ["all/link", "all/dangling"] {
        for words in [
            "record -t handle -o OUT -- ./sample",
            "convert sample.tf OUT --to jsonl",
            "convert x.trace OUT --to vcd --architecture x86_64",
            "repair sample.tf -o OUT",
            "collect -t '*0x401000 : $pc' -o OUT --elf sample x.trace",
            "gdbserver --debug-log OUT --once 127.0.0.1:0 ./ticks",
            "serve --debug-log OUT --once 127.0.0.1:0 sample.tf",
        ] {
            let words = words.replace("OUT", out);
            let output = tracewire(folder, &words);
            assert_eq!(output.status.code(), Some(2), "{words}: {}", said(&output));
            assert!(said(&output).contains("link"), "{words}: {}", said(&output));
            assert_eq!(std::fs::read_to_string(&victim).unwrap(), "mine", "{words}");
            assert!(!folder.join("nothing").exists(), "{words}");
        }
    }
    // In the user's own directory the link is followed.
    std::fs::set_permissions(&all, std::fs::Permissions::from_mode(0o755)).unwrap();
    let output = tracewire(folder, "convert sample.tf all/link --to jsonl");
    assert!(output.status.success(), "{}", said(&output));
    assert!(std::fs::read_to_string(&victim).unwrap().starts_with('{'));
    assert!(
        std::fs::symlink_metadata(all.join("link"))
            .unwrap()
            .is_symlink()
    );
}

#[test]
fn an_index_of_another_user_is_not_believed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let index = folder.join("x.trace.twindex");
    std::fs::write(folder.join("x.trace"), EXECUTION).unwrap();
    let words = "info x.trace --architecture x86_64";
    assert!(tracewire(folder, words).status.success());
    if chown(&index, Some(NOBODY), Some(NOBODY)).is_err() {
        eprintln!("not tried with another user's file: only root can make one");
        return;
    }
    let before = std::fs::read(&index).unwrap();
    let output = tracewire(folder, words);
    assert!(output.status.success(), "{}", said(&output));
    assert!(String::from_utf8_lossy(&output.stdout).contains("instructions     2"));
    // Our index is in our cache, and theirs is unchanged.
    assert_eq!(std::fs::read(&index).unwrap(), before);
    assert_eq!(std::fs::metadata(&index).unwrap().uid(), NOBODY);
    let cached: Vec<_> = std::fs::read_dir(folder.join("cache/tracewire"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "twindex"))
        .collect();
    assert_eq!(cached.len(), 1, "{cached:?}");
    assert_eq!(mode(&cached[0]), 0o600);
}

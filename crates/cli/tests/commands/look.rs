//! `info`, `show`, `find`, `completions` and `man` on the sample files.

use std::io::Read;
use std::process::Stdio;

use crate::support::{ran, run, tracewire, value};
use tracewire_test_support::{sample, samples};

#[test]
fn info_tells_how_the_run_went() {
    let info = run("info --json sample.tf").code(0).json().remove(0);
    assert_eq!(info["kind"], "trace-file");
    assert_eq!(info["frames"], 24);
    assert_eq!(info["register_block_size"], 2416);
    assert_eq!(info["byte_order"], "little");
    assert_eq!(info["architecture"], "x86_64");
    let status = &info["status"];
    assert_eq!(status["running"], false);
    assert_eq!(status["stop_reason"], "tstop");
    assert_eq!(status["stop_text"], "stopping now");
    assert_eq!(status["created"], 24);
    assert_eq!(status["buffer_size"], 1_000_000);
    assert_eq!(status["circular"], true);
    assert_eq!(status["notes"], "first run");
    assert_eq!(status["user"], "alice");
    assert_eq!(status["start_us"], 0x575a_50ce_u64);
    let tracepoints = info["tracepoints"].as_array().expect("tracepoints");
    assert_eq!(tracepoints.len(), 3);
    let handle = tracepoints
        .iter()
        .find(|t| t["number"] == 2)
        .expect("tracepoint 2");
    assert_eq!(handle["address"], "0x555555555158");
    assert_eq!(handle["kind"], "trap");
    assert_eq!(handle["hits"], 7);
    assert_eq!(handle["condition"], "26000622100222d416080219162022031427");
    assert_eq!(handle["source"]["at"], "handle");
    assert_eq!(handle["source"]["cond"], "depth < 3");
    assert_eq!(handle["source"]["cmds"][4], "while-stepping 2");
    assert_eq!(info["variables"][1]["name"], "hits");

    let text = run("info sample.tf").code(0).stdout;
    for words in [
        "24 frames",
        "stopped: stopping now",
        "handle if depth < 3 passcount 100",
        "alice",
    ] {
        assert!(text.contains(words), "{words} in:\n{text}");
    }
    assert!(!text.contains('\u{1b}'), "colours are for terminals");
    let text = run("info tfile-error.tf").code(0).stdout;
    assert!(
        text.contains("error in tracepoint 1: made-up error"),
        "{text}"
    );
}

#[test]
fn show_gives_every_value_with_the_program_at_hand() {
    let frames = run("show --json --elf sample sample.tf").code(0).json();
    assert_eq!(frames.len(), 24);
    let first = &frames[0];
    assert_eq!(first["frame"], 0);
    assert_eq!(first["tracepoint"], 2);
    assert_eq!(first["pc"], "0x555555555158");
    assert_eq!(first["stepping"], false);
    assert_eq!(first["function"], "handle");
    assert_eq!(first["line"], 11);
    assert_eq!(first["registers"]["rip"], "0x555555555158");
    assert_eq!(value(first, "depth"), Some("0"));
    assert_eq!(value(first, "$hits"), Some("1"));
    assert_eq!(
        value(first, "*j"),
        Some("{id = 1, name = 0x555555556012 \"alpha\", weight = 0.5}")
    );
    assert_eq!(frames[1]["stepping"], true);
    let names: Vec<_> = frames
        .iter()
        .filter(|frame| frame["tracepoint"] == 3)
        .filter_map(|frame| value(frame, "j->name"))
        .collect();
    assert_eq!(
        names,
        [
            "0x555555556018 \"beta\"",
            "0x55555555601d \"gamma\"",
            "0x55555555601d \"gamma\""
        ]
    );
    assert_eq!(frames[6]["time_us"], 1_465_540_656);
}

#[test]
fn show_chooses_frames() {
    let numbers = |arguments: &str| -> Vec<u64> {
        run(arguments)
            .code(0)
            .json()
            .iter()
            .filter_map(|frame| frame["frame"].as_u64())
            .collect()
    };
    assert_eq!(numbers("show --json sample.tf --frame 3"), [3]);
    assert_eq!(numbers("show --json sample.tf --frame 3..5"), [3, 4]);
    assert_eq!(numbers("show --json sample.tf --frame 3..=5"), [3, 4, 5]);
    assert_eq!(numbers("show --json sample.tf --frame 22.."), [22, 23]);
    assert_eq!(numbers("show --json sample.tf --tracepoint 3"), [6, 13, 17]);
    let one = run("show sample.tf --elf sample --frame 6").code(0).stdout;
    for words in [
        "frame 6, tracepoint 3",
        "sample.c:14",
        "log_buffer = \"job 1 alpha\"",
        "rip",
    ] {
        assert!(one.contains(words), "{words} in:\n{one}");
    }
    run("show sample.tf --frame 24")
        .code(2)
        .says(&["no frame 24", "0 to 23"]);
    run("show sample.tf --tracepoint 9").code(1);
    run("show tfile-error.tf")
        .code(0)
        .says(&["the file holds 0"]);
    let basic = run("show --json tfile-basic.tf").code(0).json().remove(0);
    assert_eq!(basic["pc"], "0x401331");
    assert_eq!(basic["memory"][0]["address"], "0x404048");
    assert_eq!(basic["memory"][0]["bytes"], "b77a0000");
    assert_eq!(basic["memory"][2]["bytes"], "250400");
}

#[test]
fn find_answers_with_frame_numbers() {
    let found = |arguments: &str| run(arguments).code(0).stdout;
    assert_eq!(found("find sample.tf --pc 0x555555555183"), "6\n13\n17\n");
    assert_eq!(found("find sample.tf --tracepoint 3 --first"), "6\n");
    assert_eq!(
        found("find sample.tf --tracepoint 3 --from 7 --first"),
        "13\n"
    );
    assert_eq!(
        found("find sample.tf --range 0x555555555180 0x555555555190"),
        "6\n13\n17\n"
    );
    assert_eq!(
        found("find sample.tf --outside 0x555555555158 0x55555555515e"),
        "6\n13\n17\n"
    );
    assert_eq!(
        found("find sample.tf --elf sample --line sample.c:14"),
        "6\n13\n17\n"
    );
    let condition = [
        "find",
        "sample.tf",
        "--elf",
        "sample",
        "--where",
        "j->id == 2 && depth == 0",
    ];
    let output = tracewire().args(condition).current_dir(samples()).output();
    assert_eq!(ran(output.expect("runs")).code(0).stdout, "7\n");
    let json = run("find sample.tf --elf sample --tracepoint 3 --first --json")
        .code(0)
        .json();
    assert_eq!(json[0]["frame"], 6);
    assert_eq!(json[0]["line"], 14);
    run("find sample.tf --pc 0x1234").code(1);
    run("find sample.tf --elf sample --where nonsense")
        .code(1)
        .says(&["none of the frames looked at", "nonsense"]);
    let never = run("find sample.tf --elf sample --where depth==99").code(1);
    assert_eq!(never.stderr, "");
    run("find sample.tf --elf sample --where depth==")
        .code(2)
        .says(&["--where", "depth=="]);
    run("find sample.tf --line sample.c:14")
        .code(2)
        .says(&["--elf"]);
    run("find sample.tf --elf sample --line simple.c:14")
        .code(2)
        .says(&["simple.c"]);
    run("find sample.tf --line 14").code(2).says(&["FILE:N"]);
    run("find sample.tf --range 5 3")
        .code(2)
        .says(&["lower address first"]);
    run("find sample.tf --pc here").code(2).says(&["--elf"]);
    let handle = run("find sample.tf --pc 0x555555555158").code(0).stdout;
    for place in ["handle", "*0x555555555158", "93824992235864"] {
        let found = run(&format!("find sample.tf --elf sample --pc {place}"));
        assert_eq!(found.code(0).stdout, handle, "{place}");
    }
    let line = run("find sample.tf --elf sample --pc sample.c:14")
        .code(0)
        .stdout;
    assert_eq!(line, run("find sample.tf --tracepoint 3").code(0).stdout);
    run("find sample.tf --elf sample --pc handel")
        .code(2)
        .says(&["--pc handel", "did you mean handle?"]);
    run("find sample.tf --pc 555555555158")
        .code(1)
        .says(&["did you mean 0x555555555158?"]);
    run("find sample.tf --pc 55555555515c")
        .code(2)
        .says(&["0x55555555515c"]);
}

#[test]
fn files_that_cannot_be_used_are_named() {
    run("info nosuch.tf")
        .code(2)
        .says(&["nosuch.tf", "No such file"]);
    run("show sample")
        .code(2)
        .says(&["sample", "no trace file", "no execution trace"]);
    run("show .").code(2).says(&["folder"]);
    run("show sample.tf --elf sample.tf")
        .code(2)
        .says(&["sample.tf"]);
    run("show sample.tf --elf nosuch").code(2).says(&["nosuch"]);
    run("nosuchcommand").code(2);
    run("show").code(2);
    run("show sample.tf --frame x")
        .code(2)
        .says(&["frame number"]);
}

#[test]
fn a_cut_file_gives_every_whole_frame() {
    let bytes = std::fs::read(sample("sample.tf")).expect("the sample");
    let folder = tempfile::tempdir().expect("a folder");
    let cut = folder.path().join("cut.tf");
    std::fs::write(&cut, &bytes[..bytes.len() - 1000]).expect("written");
    let shown = ran(tracewire()
        .arg("show")
        .arg("--json")
        .arg(&cut)
        .output()
        .expect("runs"))
    .code(0);
    assert_eq!(shown.json().len(), 23);
    let info = ran(tracewire().arg("info").arg(&cut).output().expect("runs")).code(0);
    assert!(info.stdout.contains("cut off at offset"), "{}", info.stdout);
}

#[test]
fn a_reader_that_has_heard_enough_ends_it_quietly() {
    let mut child = tracewire()
        .args(["show", "--json", "sample.tf"])
        .current_dir(samples())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("tracewire runs");
    drop(child.stdout.take());
    let mut reported = String::new();
    let stderr = child.stderr.as_mut().expect("stderr");
    stderr.read_to_string(&mut reported).expect("text");
    let status = child.wait().expect("ended");
    assert!(status.success(), "{status:?} {reported}");
    assert!(!reported.contains("roken pipe"), "{reported}");
}

#[test]
fn shells_and_man_know_the_commands() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = run(&format!("completions {shell}")).code(0).stdout;
        assert!(
            script.contains("record") && script.contains("buffer-size"),
            "{shell}"
        );
    }
    let folder = tempfile::tempdir().expect("a folder");
    let pages = folder.path().join("made");
    ran(tracewire().arg("man").arg(&pages).output().expect("runs")).code(0);
    let page = std::fs::read_to_string(pages.join("tracewire-record.1")).expect("a page");
    assert!(page.contains("circular"), "{page}");
    assert!(pages.join("tracewire.1").exists());
}

#[test]
fn help_teaches() {
    let help = run("record --help").code(0).stdout;
    for words in [
        "while-stepping",
        "LOCATION [if COND] [PICK] [: LIST]",
        "Examples:",
    ] {
        assert!(help.contains(words), "{words} in:\n{help}");
    }
    let version = run("--version").code(0).stdout;
    assert!(version.starts_with("tracewire "), "{version}");
}

/// A damaged or malicious file must not control the terminal, nor GDB.
#[test]
fn text_of_a_file_does_not_reach_the_terminal_as_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.tf");
    let module = "module 0:1000:2000:0:0::2f78 0a 7368656c6c206c73 1b5d303b74".replace(' ', "");
    let module = module.replacen("module", "module ", 1);
    let text = format!(
        "\x7fTRACE0\nR 4\nstatus 0;tstop::0\ntp T1:1000:E:0:0\ntp \x1b[31mred\x1b]0;title\x07\n{module}\n\n\0\0\0\0"
    );
    std::fs::write(&path, text).expect("written");
    let path = path.to_str().expect("a name");
    let checked = run(&format!("check {path}")).code(1);
    let red = r"\u{1b}[31mred\u{1b}]0;title\u{7}";
    assert!(checked.stdout.contains(red), "{}", checked.stdout);
    run(&format!("show {path}")).says(&[r"/x\nshell ls\u{1b}]0;t"]);
    let commands = run(&format!("show --gdb {path}")).code(0).stdout;
    assert!(!commands.contains("\nshell"), "{commands}");
    let lines = folder.path().join("x.jsonl");
    std::fs::write(&lines, r#"{"kind":"\u001b[31mred"}"#).expect("written");
    let lines = lines.to_str().expect("a name");
    run(&format!("convert {lines} {lines}.tf"))
        .code(2)
        .says(&[r"`\u{1b}[31mred`"]);
}

//! `convert`: every form, and back.

use std::process::Command;

use serde_json::Value;
use tracewire_test_support::assert_clean;

use super::{run, sample, support, trace};

#[test]
fn the_compact_form_gives_the_text_back() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _, _, _) = sample(&folder, 2, 300_000);
    let out = folder.path().join("s.twx");
    run(&path, &format!("convert @ {}", out.display())).code(0);
    let text = std::fs::read(&path).unwrap();
    let size = std::fs::metadata(&out).unwrap().len();
    assert!(size * 8 < text.len() as u64, "{size} of {}", text.len());
    let back = folder.path().join("back.trace");
    run(&out, &format!("convert @ {}", back.display())).code(0);
    assert_eq!(std::fs::read(&back).unwrap(), text);
    // And it is looked at as the text is.
    for words in [
        "info --json @",
        "show --json @ --instruction 1000..1010",
        "find @ --register sp",
        "check @",
    ] {
        let (of_text, of_compact) = (run(&path, words), run(&out, words));
        assert_eq!(of_text.code, of_compact.code);
        if !words.starts_with("info") {
            assert_eq!(of_text.stdout, of_compact.stdout, "{words}");
        }
    }
    run(
        &path,
        &format!("convert @ {}", folder.path().join("x.unknown").display()),
    )
    .code(2)
    .says(&["the name shows no format"]);
}

#[test]
fn text_forms_tell_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _, _, _) = sample(&folder, 2, 200_000);
    for form in ["qemu4v", "microtesk", "tarmac"] {
        let out = folder.path().join(format!("out.{form}"));
        run(&path, &format!("convert @ {}", out.display())).code(0);
        let info = run(&out, "info --json @").code(0).json();
        assert_eq!(info[0]["format"], form);
        assert_eq!(info[0]["architecture"], "mips");
        run(&path, &format!("diff @ {}", out.display()))
            .code(0)
            .says(&["no difference"]);
        run(&out, "check @").code(0);
        if form == "qemu4v" {
            assert_eq!(std::fs::read(&out).unwrap(), std::fs::read(&path).unwrap());
        }
    }
    // What a form cannot say.
    let partly = trace(
        &folder,
        "1 clk cpu0 IT (1) 00008000 d503201f O EL1h_ns : NOP\n1 clk cpu0 R X1 --------00000001\n\
         2 clk cpu0 IT (2) 00008004 d503201f O EL1h_ns : NOP\n2 clk cpu0 R X1 0000000000000000\n\
         3 clk cpu0 IT (3) 00008008 d503201f O EL1h_ns : NOP\n3 clk cpu0 R X1<31:0> 00000005\n",
    );
    let ran = run(&partly, "convert @ - --to qemu4v").code(0);
    assert!(
        ran.stdout.ends_with("3 clk R x1 0000000000000005\n"),
        "{}",
        ran.stdout
    );
    ran.says(&["1 records are left out"]);
}

#[test]
fn signals_time_lines_and_objects() {
    let folder = tempfile::tempdir().unwrap();
    let (path, elf, count, _) = sample(&folder, 1, 200_000);
    let vcd = run(&path, "convert @ - --to vcd --instruction 0..100")
        .code(0)
        .stdout;
    assert!(
        vcd.contains("$timescale 1 ns $end") && vcd.contains("$var wire 32 ! pc $end"),
        "{vcd:.500}"
    );
    let times = vcd.lines().filter(|line| line.starts_with('#')).count();
    assert_eq!(times, 100);
    // The first write: `lui sp`.
    let id = vcd
        .lines()
        .find(|line| line.ends_with(" r29 $end"))
        .unwrap()
        .split(' ')
        .nth(3)
        .unwrap();
    let behind = vcd.lines().skip_while(|line| *line != "#0").skip(1);
    let first: Vec<&str> = behind.take_while(|line| !line.starts_with('#')).collect();
    let is_write = |line: &&str| line.starts_with("b1000") && line.ends_with(&format!(" {id}"));
    assert!(first.iter().any(is_write), "{first:?}");

    let elf = elf.display();
    let chrome = run(&path, &format!("convert @ - --to chrome --elf {elf}"))
        .code(0)
        .stdout;
    let parsed: serde_json::Value = serde_json::from_str(&chrome).unwrap();
    let events = parsed["traceEvents"].as_array().unwrap();
    let (mut depth, mut deepest) = (0i32, 0);
    for event in events {
        match event["ph"].as_str().unwrap() {
            "B" => depth += 1,
            "E" => depth -= 1,
            _ => {}
        }
        assert!(depth >= 0);
        deepest = deepest.max(depth);
    }
    assert_eq!(depth, 0);
    assert!(deepest >= 4 && events.iter().any(|event| event["name"] == "mix"));

    let timed = run(
        &path,
        "convert @ - --to vcd --timestamps --instruction 5..7",
    );
    assert!(timed.code(0).stdout.contains("\n#6\n"));
    run(&path, "convert @ - --to jsonl --timestamps")
        .code(2)
        .says(&["--timestamps is for vcd"]);

    let lines = run(&path, "convert @ - --to jsonl").code(0).json();
    assert_eq!(lines.len() as u64, count);
    assert_eq!(lines[0]["disassembly"], "lui sp,0x8021");
}

#[test]
fn what_comes_before_the_first_instruction_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = trace(
        &folder,
        "0 clk cpu0 R X2 0000000000000007\n0 clk cpu0 MW4 0000000000004000 00000005\n\
         1 clk cpu0 IT (1) 0000000000008000 d503201f O EL1h_ns : NOP\n",
    );
    for form in ["tarmac", "qemu4v", "microtesk"] {
        let out = folder.path().join(format!("out.{form}"));
        run(&path, &format!("convert @ {}", out.display())).code(0);
        let shown = run(&out, "show @ --json --instruction 0 --memory 0x4000,4")
            .code(0)
            .json();
        assert_eq!(shown[0]["registers"]["x2"], "0x0000000000000007", "{form}");
        assert_eq!(shown[0]["memory"][0]["bytes"], "05000000", "{form}");
    }
    let objects = run(&path, "convert @ - --to jsonl").code(0).json();
    assert_eq!(objects.len(), 3);
    assert_eq!(objects[0]["start"], true);
    assert_eq!(objects[0]["register_writes"][0]["register"], "X2");
    assert_eq!(objects[1]["accesses"][0]["data"], "00000005");
    assert!(objects[2].get("start").is_none());
}

#[test]
fn gdb_opens_the_trace_file() {
    let folder = tempfile::tempdir().unwrap();
    let (path, elf, _, _) = sample(&folder, 1, 100_000);
    let out = folder.path().join("out.tf");
    run(
        &path,
        &format!("convert @ {} --instruction 100..200", out.display()),
    )
    .code(0);
    assert_clean(&out);
    let info = run(&out, "info --json @").code(0).json();
    assert_eq!(
        (&info[0]["kind"], &info[0]["frames"]),
        (&"trace-file".into(), &100.into())
    );
    let expected = run(&path, "show --json @ --instruction 150")
        .code(0)
        .json()
        .remove(0);
    let said = Command::new("gdb-multiarch")
        .args(["-nx", "-batch", "-ex", "set endian big"])
        .args(["-ex", &format!("target tfile {}", out.display())])
        .args([
            "-ex",
            "tfind 50",
            "-ex",
            "p/x $pc",
            "-ex",
            "p/x $sp",
            "-ex",
            "p $trace_timestamp",
        ])
        .arg(elf)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let value = |name: &str| {
        let text = expected["registers"][name].as_str().unwrap();
        format!("= {:#x}", u64::from_str_radix(&text[2..], 16).unwrap())
    };
    assert!(
        said.contains(&value("pc")) && said.contains(&value("r29")),
        "{said}"
    );
    assert!(said.contains("= 151"), "{said}");
}

/// The instructions are a hit and its steps: `check` has nothing to say, and GDB finds all of them.
#[test]
fn a_trace_file_of_an_execution_is_clean() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _, _, _) = sample(&folder, 2, 100_000);
    // A loop comes back to the first instruction.
    let lines: String = (0..30)
        .map(|at| {
            let pc = 0x8000 + 4 * (at % 3);
            format!(
                "{at} clk IT ({at}) {pc:08x} d503201f O EL1h_ns : NOP\n{at} clk R X1 {at:016x}\n"
            )
        })
        .collect();
    let looped = trace(&folder, &lines);
    for (from, range) in [
        (&path, ""),
        (&path, " --instruction 700..1300"),
        (&path, " --instruction 5..6"),
        (&path, " --instruction 5..5"),
        (&looped, ""),
    ] {
        let out = folder.path().join("out.tf");
        run(from, &format!("convert @ {}{range}", out.display())).code(0);
        assert_clean(&out);
    }
    let out = folder.path().join("out.tf");
    let steps = |object: &Value| object["stepping"].as_bool().unwrap();
    let frames = run(&out, "show --json @").code(0).json();
    assert_eq!(frames.len(), 30);
    assert!(!steps(&frames[0]) && frames[1..].iter().all(steps));
    let said = Command::new("gdb-multiarch")
        .args([
            "-nx",
            "-batch",
            "-ex",
            &format!("target tfile {}", out.display()),
        ])
        .args(["-ex", "tfind 29", "-ex", "p $x1", "-ex", "tdump"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(
        said.contains("Found trace frame 29, tracepoint 1"),
        "{said}"
    );
    assert!(said.contains("$1 = 28"), "{said}");
}

/// What QEMU4V has no form for is written as the nearest that it has, or left out, and said.
#[test]
fn tarmac_becomes_qemu4v_without_fault() {
    let folder = tempfile::tempdir().unwrap();
    let modes = [
        ("EL0t_ns", "usr"),
        ("EL1h_s", "svc"),
        ("EL2h_ns", "svc"),
        ("EL3h_s", "mon"),
        ("hyp", "svc"),
        ("svc_s", "svc"),
        ("Thread", "usr"),
        ("und", "und"),
    ];
    let sets = [
        ("A", "A"),
        ("T", "T"),
        ("T16", "T"),
        ("T32", "T"),
        ("O", "A"),
    ];
    let mut text = String::new();
    let mut expected = Vec::new();
    let mut at = 0;
    for (mode, _) in modes {
        for (set, _) in sets {
            at += 1;
            text += &format!(
                "{at} clk IT ({at}) {:08x} e320f000 {set} {mode} : NOP\n",
                0x8000 + 4 * at
            );
            expected.push((mode, set));
        }
    }
    text += &format!(
        "{at} clk R R13 (SVC) 00001000\n{at} clk R CPSR 000001d3\n{at} clk E 00008000 00000000 CoreEvent_RESET\n"
    );
    text += &format!(
        "{at} clk MW12 00002000 0102030405060708090a0b0c\n{at} clk MR4X 00002000 090a0b0c\n"
    );
    text += &format!("{at} clk EXC [16] SVC\n");
    text += &format!(
        "{} clk IT ({}) 00009000 e320f000 A svc : NOP\n",
        at + 1,
        at + 1
    );
    let path = trace(&folder, &text);
    let out = folder.path().join("out.qemu4v");
    run(
        &path,
        &format!("convert @ {} --architecture arm", out.display()),
    )
    .code(0)
    .says(&[
        "2 lines of exceptions and other events are left out",
        "5 instructions in the mode EL2h: qemu4v has none of that name, svc takes its place",
        "5 instructions in the mode Thread: qemu4v has none of that name, usr takes its place",
    ]);
    let checked = run(&out, "check @ --architecture arm");
    let faults: Vec<&str> = checked
        .stdout
        .lines()
        .filter(|line| !line.contains("jump"))
        .collect();
    assert!(faults.is_empty(), "{faults:?}");
    let shown = run(&out, "show --json @ --architecture arm").code(0).json();
    for (object, (mode, set)) in shown.iter().zip(&expected) {
        let of = |list: &[(&str, &'static str)], name: &str| {
            list.iter().find(|one| one.0 == name).unwrap().1
        };
        assert_eq!(object["mode"], of(&modes, mode));
        assert_eq!(object["set"], of(&sets, set));
    }
    let last = &shown[at - 1];
    let names: Vec<&Value> = last["register_writes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["register"])
        .collect();
    assert_eq!(names, ["r13_svc", "cpsr"]);
    let sizes: Vec<&Value> = last["accesses"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["size"])
        .collect();
    assert_eq!(sizes, [8, 4, 4]);
    // Memory is the same; an exclusive access is none of a privileged mode's.
    assert!(!std::fs::read_to_string(&out).unwrap().contains("MR4X"));
    let memory = |file: &std::path::Path| {
        let words =
            format!("show --json @ --architecture arm --instruction {at} --memory 0x2000,12");
        run(file, &words).code(0).json()[0]["memory"].clone()
    };
    assert_eq!(memory(&out), memory(&path));
}

#[test]
fn pipes_and_compression() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _, count, _) = sample(&folder, 1, 60_000);
    let text = std::fs::read(&path).unwrap();
    let gz = folder.path().join("s.gz");
    let gzip = Command::new("gzip").arg("-c").arg(&path).output().unwrap();
    std::fs::write(&gz, &gzip.stdout).unwrap();
    for file in [&path, &gz] {
        let ran = support::tracewire()
            .args(["info", "--json", "-"])
            .stdin(std::fs::File::open(file).unwrap())
            .output()
            .unwrap();
        let ran = support::ran(ran).code(0);
        assert_eq!(ran.json()[0]["instructions"], count);
    }
    let info = run(&gz, "info --json @").code(0).json();
    assert_eq!(info[0]["instructions"], count);
    assert_eq!(info[0]["text_size"], text.len());
    // Half of it.
    std::fs::write(&gz, &gzip.stdout[..gzip.stdout.len() / 2]).unwrap();
    run(&gz, "check @").code(1);
}

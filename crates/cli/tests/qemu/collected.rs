//! The same tracepoints over the same calls: by jumps and by traps in a live program, and by `collect` over what QEMU recorded.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tracewire_test_support::{
    BareMachine, assert_clean, assert_clean_but, is_unreadable, qemu_plugin, tool,
};

use crate::{good, tracewire};

const CALLS: &str = include_str!("programs/calls.c");

const WITHOUT_SYSTEM: &str = "\
char stack[4096] __attribute__((aligned(16)));
void calls(void);
__attribute__((noinline)) void ended(void) { __asm__ volatile(\"\"); }
void run(void) { calls(); for (;;) ended(); }
";

const HOSTED: &str = "void calls(void); int main(void) { calls(); return 0; }";

/// Spans, stacks in both ways, a condition, counts and picks.
const TRACEPOINTS: [&str; 8] = [
    "span middle : depth, item->id, $retval",
    "leaf : item->weight, depth, $stack",
    "leaf if depth > 3 : depth, $stack_fp(4)",
    "leaf : $stack_fp",
    "leaf : $stack(2)",
    "middle if depth % 2 == 1 : count() by item->id",
    "leaf first 2 by depth : depth, item->weight",
    "span middle if depth > 1 sample 1/3 : depth, $retval",
];

/// What `show` says of a trace file, as far as it must not depend on who carried the tracepoints out.
fn facts(file: &Path) -> Vec<Value> {
    let shown = good(tracewire(&["show", "--json"]).arg(file));
    let shown = String::from_utf8(shown.stdout).expect("JSON is UTF-8");
    let frames = shown.lines().map(|line| {
        let frame: Value = serde_json::from_str(line).expect("a line is an object");
        let mut facts = serde_json::Map::new();
        for key in [
            "frame",
            "tracepoint",
            "kind",
            "ended",
            "parent",
            "function",
            "line",
            "values",
            "aggregate",
            "key",
            "value",
        ] {
            facts.insert(key.to_owned(), frame[key].clone());
        }
        if let Some(stack) = frame["stack"].as_array() {
            let entries = stack.iter().map(|entry| {
                let of_entry = ["function", "line", "inlined"].map(|key| entry[key].clone());
                Value::from(of_entry.to_vec())
            });
            // Each program has its own callers of the calls.
            let whole: Vec<Value> = entries.collect();
            let own = whole.iter().position(|entry| entry[0] == "calls");
            let known = own.map_or(whole.len(), |last| last + 1);
            facts.insert("stack".to_owned(), whole[..known].to_vec().into());
            let end = own.is_none().then(|| frame["stack_end"].clone());
            facts.insert("stack_end".to_owned(), end.into());
        }
        Value::Object(facts)
    });
    frames.collect()
}

#[test]
fn tracepoints_over_a_recording_make_the_frames_of_the_live_program() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    let machine = BareMachine::named("x86_64");
    // A loader of Linux passes over the call frame information of the machine's sections.
    let options = ["-fno-omit-frame-pointer", "-fno-asynchronous-unwind-tables"];
    let sources = [("calls", CALLS), ("bare", WITHOUT_SYSTEM)];
    let elf = machine.build_of(path, &sources, &options);
    std::fs::write(path.join("hosted.c"), HOSTED).expect("the directory can be written");
    let program = path.join("hosted");
    let mut linked = tool("cc");
    linked.args(["-g", "-no-pie", "hosted.c", "calls.o", "-o"]);
    good(linked.arg(&program).current_dir(path));

    let recording = path.join("run.trace");
    let mut qemu = tracewire(&["qemu", "--start=_start", "--stop=ended", "-o"]);
    qemu.env("TRACEWIRE_QEMU_PLUGIN", qemu_plugin())
        .arg(&recording)
        .arg(format!("--elf={}", elf.display()))
        .args(["--", machine.qemu])
        .args(machine.arguments(&elf));
    good(&mut qemu);

    let tracepoints = |command: &mut Command, file: &Path| {
        for tracepoint in TRACEPOINTS {
            command.args(["-t", tracepoint]);
        }
        command.arg("-o").arg(file);
    };
    let mut live = Vec::new();
    for mechanism in ["jump", "trap"] {
        let file = path.join(format!("{mechanism}.tf"));
        let mut record = tracewire(&["record", "--mechanism", mechanism]);
        tracepoints(&mut record, &file);
        good(record.arg("--").arg(&program));
        assert_clean(&file);
        live.push(facts(&file));
    }
    let file = path.join("collected.tf");
    let mut collect = tracewire(&["collect", "--elf"]);
    collect.arg(&elf);
    tracepoints(&mut collect, &file);
    good(collect.arg(&recording));
    // A recording does not say where its stack ends.
    assert_clean_but(&file, is_unreadable);
    let collected = facts(&file);

    let of_kind = |kind: &str, tracepoint: u64| {
        let all = collected.iter();
        all.filter(|one| one["kind"] == kind && one["tracepoint"] == tracepoint)
            .count()
    };
    let depths = (0..12).map(|turn| turn % 5);
    let spans: usize = depths.clone().map(|depth| depth + 1).sum();
    assert_eq!(of_kind("span", 1), spans);
    let deep: usize = depths.clone().map(|depth| usize::max(depth, 1) - 1).sum();
    assert_eq!(of_kind("span", 8), deep.div_ceil(3));
    let counted = depths.filter(|depth| *depth > 0).count();
    assert_eq!(of_kind("aggregate", 6), counted);
    let whole = |one: &&Value| {
        let stack = one["stack"].as_array();
        stack.is_some_and(|stack| stack.last().is_some_and(|last| last[0] == "calls"))
    };
    assert!(collected.iter().filter(whole).count() >= 24);
    for (facts, mechanism) in live.iter().zip(["jump", "trap"]) {
        assert_eq!(facts.len(), collected.len(), "{mechanism}");
        for (live, recorded) in facts.iter().zip(&collected) {
            assert_eq!(live, recorded, "{mechanism}");
        }
    }
}

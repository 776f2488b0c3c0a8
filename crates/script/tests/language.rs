//! The language: the contents of scripts, and the errors of wrong ones.

use tracewire_script::{BufferSize, Script, ScriptActionKind, ScriptTracepointKind};

fn read(text: &str) -> Script {
    let mut script = Script::new();
    script
        .read_text("t.gdb", text)
        .unwrap_or_else(|error| panic!("{error}"));
    script
}

fn wrong(text: &str) -> String {
    let mut script = Script::new();
    let error = script.read_text("t.gdb", text).expect_err("wrong");
    error.to_string()
}

fn specification(text: &str) -> Script {
    let mut script = Script::new();
    script
        .read_specification(text)
        .unwrap_or_else(|error| panic!("{error}"));
    script
}

#[test]
fn a_session_of_gdb_gives_its_own_numbers() {
    let script = read(
        "set pagination off\nset sysroot\ntarget remote | gdbserver --once - ./sample\nbreak main\ncontinue\n\
         tvariable $hits = 0\nset trace-notes first run\nset trace-user alice\nset trace-stop-notes enough\n\
         set circular-trace-buffer on\nset trace-buffer-size 1000000\nset disconnected-tracing on\n\
         trace handle if depth < 3\nactions\n  collect $regs\n  while-stepping 2\n    collect $regs, score\n  end\n\
         end\npasscount 100\ntrace sample.c:14\ntrace sample.c:11\ndisable $bpnum\ninfo tracepoints\ntstart\n\
         tfind pc 0x555555555183\nprint $hits\ntsave sample.tf\n",
    );
    let numbers: Vec<_> = script
        .tracepoints
        .iter()
        .map(|t| (t.number.0, t.enabled))
        .collect();
    assert_eq!(numbers, [(2, true), (3, true), (4, false)]);
    assert_eq!(script.tracepoints[0].pass_count, 100);
    assert_eq!(script.settings.notes.as_deref(), Some("first run"));
    assert_eq!(script.settings.user.as_deref(), Some("alice"));
    assert_eq!(script.settings.stop_notes.as_deref(), Some("enough"));
    assert_eq!(script.settings.circular, Some(true));
    assert_eq!(script.settings.disconnected, Some(true));
    assert_eq!(
        script.settings.buffer_size,
        Some(BufferSize::Bytes(1_000_000))
    );
    let ignored: Vec<_> = script
        .ignored
        .iter()
        .map(|i| i.command.word_text())
        .collect();
    assert_eq!(
        ignored,
        [
            "target", "break", "continue", "info", "tstart", "tfind", "print", "tsave"
        ]
    );
}

#[test]
fn abbreviations_and_numbers() {
    let script = read(
        "tr a\ntp b\nftrace c\nstrace -m prov/mark\nactions 1\n col a, b\n te $x = 1\n ws 0x10\n  coll $regs\n end\n\
         end\npass 5 1\npasscount 7 2-3\ncond 1 a > 1\ncond $tpnum z\ndis 2\ndis 1.2-3\nen 1.3\n\
         tvar $x=1<<4\ntvar $y\ndelete tvar $y\ndelete 3\nset trace-buffer-size unlimited",
    );
    let shown: Vec<_> = script
        .tracepoints
        .iter()
        .map(|t| {
            let condition = t.condition.as_ref().map_or("", |c| c.text());
            (
                t.number.0,
                t.kind,
                t.location.text(),
                condition,
                t.pass_count,
                t.enabled,
            )
        })
        .collect();
    use ScriptTracepointKind::{Marker, Trap};
    assert_eq!(
        shown,
        [
            (1, Trap, "a", "a > 1", 5, true),
            (2, Trap, "b", "", 7, false),
            (4, Marker, "prov/mark", "z", 0, true),
        ]
    );
    let first = &script.tracepoints[0];
    assert_eq!(
        first.disabled_locations.iter().copied().collect::<Vec<_>>(),
        [2]
    );
    assert_eq!(first.step_count(), 16);
    assert_eq!(
        first.command_lines(),
        ["col a, b", "te $x = 1", "ws 0x10", "coll $regs", "end"]
    );
    assert_eq!(script.variables.len(), 1);
    assert_eq!(script.variables[0].initial, 16);
    assert_eq!(script.settings.buffer_size, Some(BufferSize::Unlimited));
}

#[test]
fn the_one_line_form() {
    let script = specification(
        "ns::Type<a, b>::run(int) if x == ':' && y ? z : 1 : collect/s80 j->name, f(a, b)",
    );
    let tracepoint = &script.tracepoints[0];
    assert_eq!(tracepoint.location.text(), "ns::Type<a, b>::run(int)");
    assert_eq!(
        tracepoint.condition.as_ref().map(|c| c.text()),
        Some("x == ':' && y ? z : 1")
    );
    let ScriptActionKind::Collect {
        string_limit,
        items,
        ..
    } = &tracepoint.actions[0].kind
    else {
        panic!("{script:?}")
    };
    assert_eq!(*string_limit, Some(80));
    let items: Vec<_> = items.iter().map(|item| item.text()).collect();
    assert_eq!(items, ["j->name", "f(a, b)"]);
    assert_eq!(tracepoint.command_lines(), ["collect/s80 j->name, f(a, b)"]);

    let script = specification("sample.c:14: /s j->name");
    assert_eq!(script.tracepoints[0].location.text(), "sample.c:14");
    assert_eq!(script.tracepoints[0].command_lines(), ["collect/s j->name"]);

    let script = specification("sample.c:14 : $regs, total");
    assert_eq!(
        script.tracepoints[0].command_lines(),
        ["collect $regs, total"]
    );

    let script = specification("  *0x401000  ");
    assert_eq!(script.tracepoints[0].location.text(), "*0x401000");
    assert!(script.tracepoints[0].actions.is_empty());
}

#[test]
fn errors_point_at_the_words() {
    assert_eq!(
        wrong("trace main\nactions\n  colect $regs\nend\n"),
        "t.gdb:3:3: `colect` is no tracepoint action; did you mean `collect`?\n 3 |   colect $regs\n   |   ^^^^^^"
    );
    assert_eq!(
        wrong("tracee main"),
        "t.gdb:1:1: `tracee` is no tracepoint command; did you mean `trace`?\n 1 | tracee main\n   | ^^^^^^"
    );
    for (text, expected) in [
        ("trace", "a location expected"),
        ("trace main if", "a condition after `if` expected"),
        ("trace main thread 1", "cannot be limited to a thread"),
        ("trace main\nactions\ncollect", "an expression expected"),
        (
            "trace main\nactions\ncollect a,,b\nend",
            "an expression expected",
        ),
        ("trace main\nactions\ncollect a", "`end` is missing"),
        (
            "trace main\nactions\nwhile-stepping 2\ncollect a\nend",
            "`end` is missing",
        ),
        ("trace main\nactions\nws\n", "a count of steps"),
        ("trace main\nactions\nws 0\n", "a count of steps"),
        (
            "trace main\nactions\nws 1\nws 2\nend\nend\nend",
            "inside while-stepping",
        ),
        (
            "trace main\nactions\nws 1\nend\nws 2\nend\nend",
            "only once",
        ),
        ("ftrace main\nactions\nws 1\nend\nend", "fast tracepoints"),
        ("trace main\nactions\ncollect/x a\nend", "only `/s`"),
        (
            "trace main\nactions\ncollect a, /s b\nend",
            "before the whole list",
        ),
        ("trace main\nactions\nprint a\nend", "no tracepoint action"),
        ("actions\nend", "no tracepoint has been set"),
        ("trace main\nactions 7\nend", "no tracepoint number 7"),
        ("passcount 5", "no tracepoint has been set"),
        ("trace main\npasscount x", "a count of hits"),
        ("trace main\npasscount 1 9", "no tracepoint number 9"),
        ("trace main\ndisable 4", "no tracepoint number 4"),
        ("tvariable hits", "the name of a trace state variable"),
        ("tvariable $12", "the name of a trace state variable"),
        ("tvariable $x 5", "`= VALUE` expected"),
        ("tvariable $x = total", "a constant number expected"),
        ("delete tvariable $x", "no trace state variable $x"),
        ("set trace-buffer-size big", "a size in bytes"),
        ("set circular-trace-buffer maybe", "`on` or `off`"),
        (
            "set trace-note hello\nset trace-nots x",
            "did you mean `trace-notes`?",
        ),
        ("set $x = 1", "tvariable"),
        ("set frobnicate on", "no setting of a trace run"),
        ("collect a", "`actions` before this line"),
        ("frobnicate", "no tracepoint command"),
        (
            "source /nonexistent/x.gdb",
            "cannot read the script /nonexistent/x.gdb",
        ),
        ("t main", "is ambiguous"),
        ("\u{1f980} main", "no tracepoint command"),
    ] {
        let error = wrong(text);
        assert!(error.contains(expected), "{text:?}: {error}");
        assert!(error.starts_with("t.gdb:"), "{error}");
    }
}

#[test]
fn files_read_files_but_not_forever() {
    let directory = tempfile::tempdir().expect("a directory");
    let inner = directory.path().join("inner.gdb");
    let outer = directory.path().join("outer.gdb");
    std::fs::write(&inner, "trace a \\\n  if b\n").expect("written");
    std::fs::write(&outer, format!("source {}\npasscount 2\n", inner.display())).expect("written");
    let mut script = Script::new();
    script.read_file(&outer).expect("right");
    assert_eq!(script.tracepoints[0].pass_count, 2);
    assert_eq!(
        script.tracepoints[0].condition.as_ref().map(|c| c.text()),
        Some("b")
    );

    std::fs::write(&inner, format!("source {}\n", inner.display())).expect("written");
    let error = Script::new().read_file(&inner).expect_err("endless");
    assert!(error.to_string().contains("nested deeper"), "{error}");
}

#[test]
fn hostile_text_is_an_error_or_nothing_but_never_a_panic() {
    use std::fmt::Write as _;
    for text in [
        "trace '",
        "trace \"",
        "trace )",
        "trace a if '",
        "tvariable $",
        "tvariable $é",
        "tvariable é",
        "é",
        "/",
        "trace é if é",
        "disable 99999999999999999999",
        "disable 1-999999999",
        "disable .",
        "disable 1.",
        "passcount",
        "condition",
        "condition 0",
        "enable 0.0",
        "delete 0-0",
        "actions 0\nend",
        "set",
        "set ",
        "set é",
        "\\",
        "\\\n\\\n\\",
        "trace a\nactions\ncollect /sé\nend",
        "trace a\nactions\n/\nend",
        "trace a\nactions\ncollect/s99999999999 x\nend",
        "trace a : b",
        "\u{0}",
        "trace a\ncondition $bpnum",
    ] {
        let mut script = Script::new();
        if let Err(error) = script.read_text("t", text) {
            let mut shown = String::new();
            write!(shown, "{error}").expect("shown");
        }
        let _ = Script::new().read_specification(text);
    }
}

#[test]
fn backtrace_collects_the_stack() {
    let script = read("trace f\nactions\n  collect a\n  backtrace\n  bt 32\nend\n");
    let lines = script.tracepoints[0].command_lines();
    assert_eq!(lines, ["collect a", "collect $stack", "collect $stack(32)"]);
    let script =
        read("trace f\nactions\n  bt by frame-pointer\n  backtrace 4 by frame-pointer\nend\n");
    let lines = script.tracepoints[0].command_lines();
    assert_eq!(lines, ["collect $stack_fp", "collect $stack_fp(4)"]);
    let error = wrong("trace f\nactions\n  backtrace 4 by frame\nend\n");
    assert!(error.contains("`by frame-pointer`"), "{error}");
    let error = wrong("trace f\nactions\n  backtrace full\nend\n");
    assert!(error.contains("a count of call frames"), "{error}");
    let error = wrong("trace f\nbacktrace\nactions\n");
    assert!(error.contains("`end` is missing"), "{error}");
}

//! Scripts looked up in a real program.

use std::path::{Path, PathBuf};
use std::process::Command;

use tracewire_debuginfo::Symbols;
use tracewire_model::{Action, Address};
use tracewire_script::{Resolution, Resolver, Script};

/// Builds a C program or library.
fn build(directory: &Path, name: &str, source: &Path, options: &[&str]) -> PathBuf {
    let program = directory.join(name);
    let built = Command::new("cc")
        .arg("-g")
        .args(options)
        .arg("-o")
        .arg(&program)
        .arg(source)
        .status()
        .expect("cc runs");
    assert!(built.success());
    program
}

fn sample() -> PathBuf {
    tracewire_test_support::sample("sample.c")
}

fn resolver(text: &str) -> Resolver {
    let mut script = Script::new();
    script
        .read_text("t.gdb", text)
        .unwrap_or_else(|error| panic!("{error}"));
    Resolver::new(script)
}

fn resolve(text: &str, options: &[&str]) -> (Resolution, Symbols) {
    let directory = tempfile::tempdir().expect("a directory");
    let program = build(directory.path(), "sample", &sample(), options);
    let mut symbols = Symbols::new();
    symbols.add_module(&program, 0).expect("a program");
    let resolution = resolver(text).resolve(&symbols);
    (resolution, symbols)
}

#[test]
fn everything_is_compiled() {
    let (resolution, _) = resolve(
        "tvariable $hits = 3\ntrace handle if depth < 3\nactions\n  collect $args, total\n  collect/s j->name\n  \
         teval $hits = $hits + 1\n  collect $hits\n  while-stepping 2\n    collect $regs, score\n  end\nend\n\
         passcount 100\ntrace sample.c:14\nactions\ncollect log_buffer\nend\ndisable\nset default-collect depth\n",
        &["-O0"],
    );
    assert!(resolution.problems.is_empty(), "{:?}", resolution.problems);
    assert!(resolution.pending.is_empty());
    let [handle, line] = &resolution.placed[..] else {
        panic!("{:?}", resolution.placed)
    };
    let definition = &handle.definition;
    assert_eq!(definition.number.0, 1);
    assert_eq!(definition.pass_count, 100);
    assert_eq!(definition.step_count, 2);
    assert!(definition.condition.is_some());
    assert!(!definition.step_actions.is_empty());
    assert_eq!(definition.source.at.as_deref(), Some("handle"));
    assert_eq!(definition.source.condition.as_deref(), Some("depth < 3"));
    assert_eq!(
        definition.source.commands,
        [
            "collect depth",
            "collect $args, total",
            // GDB takes no /s from a file: it gets the line without.
            "# collect/s j->name",
            "collect j->name",
            "teval $hits = $hits + 1",
            "collect $hits",
            "while-stepping 2",
            "collect $regs, score",
            "end",
        ]
    );
    assert_eq!(handle.location.function.as_deref(), Some("handle"));
    assert_eq!(handle.location.line, 11);
    assert_eq!(line.location.line, 14);
    assert!(!line.definition.enabled);
    let whole = |action: &Action| matches!(action, Action::Memory { length: 64, .. });
    assert!(
        line.definition.actions.iter().any(whole),
        "{:?}",
        line.definition.actions
    );
}

#[test]
fn what_is_wrong_is_underlined() {
    let (resolution, _) = resolve(
        "trace handle if dept < 3\ntrace handle\nactions\n  collect total, *jj\nend\ntrace sample.c:999\n\
         trace handle if depth <\n",
        &["-O0"],
    );
    let shown: Vec<_> = resolution
        .problems
        .iter()
        .map(ToString::to_string)
        .collect();
    let [condition, item, line, syntax] = &shown[..] else {
        panic!("{shown:#?}")
    };
    assert!(
        condition.starts_with("t.gdb:1:17: No symbol \"dept\" in current context."),
        "{condition}"
    );
    assert!(condition.contains("\"depth\""), "{condition}");
    assert!(
        condition.ends_with(" 1 | trace handle if dept < 3\n   |                 ^^^^"),
        "{condition}"
    );
    assert!(item.starts_with("t.gdb:4:19: No symbol \"jj\""), "{item}");
    assert!(line.contains("sample.c") && line.contains("999"), "{line}");
    assert!(syntax.starts_with("t.gdb:7:"), "{syntax}");
}

#[test]
fn a_name_that_is_not_there_waits() {
    let (resolution, _) = resolve("trace hanlde\ntrace plugin_work\n", &["-O0"]);
    assert!(resolution.problems.is_empty());
    let [slip, later] = &resolution.pending[..] else {
        panic!("{:?}", resolution.pending)
    };
    assert!(slip.reason.contains("handle"), "{slip:?}");
    assert!(slip.is_unknown && later.is_unknown, "{slip:?} {later:?}");
    assert!(slip.as_error().to_string().contains("hanlde"));
}

#[test]
fn a_library_that_comes_and_goes_gives_its_locations_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let program = build(directory.path(), "sample", &sample(), &["-O0"]);
    let source = directory.path().join("plugin.c");
    std::fs::write(&source, "int plugin_work (int n) { return n + 1; }\n").expect("written");
    let library = build(
        directory.path(),
        "plugin.so",
        &source,
        &["-shared", "-fPIC"],
    );
    let mut symbols = Symbols::new();
    symbols.add_module(&program, 0).expect("a program");
    let mut resolver =
        resolver("trace handle\ntrace plugin_work if n > 1\nactions\ncollect n\nend\n");
    let first = resolver.resolve(&symbols);
    assert_eq!(first.placed.len(), 1);
    assert_eq!(first.pending.len(), 1);

    let bias = 0x7f00_0000_0000;
    let module = symbols.add_module(&library, bias).expect("a library");
    let second = resolver.resolve(&symbols);
    assert!(
        second.pending.is_empty() && second.problems.is_empty(),
        "{second:?}"
    );
    let [placed] = &second.placed[..] else {
        panic!("{second:?}")
    };
    assert!(placed.definition.address.0 > bias);
    assert!(resolver.resolve(&symbols).placed.is_empty());

    symbols.remove_module(module);
    resolver.forget(Address(bias), Address(bias + 0x10_0000));
    assert_eq!(resolver.resolve(&symbols).pending.len(), 1);
    symbols
        .add_module(&library, bias + 0x1000)
        .expect("a library");
    let again = resolver.resolve(&symbols);
    assert_eq!(again.placed.len(), 1);
}

/// A library may have a function of the same name, with other arguments: a warning names where the script does not fit.
#[test]
fn a_condition_for_one_location_only_leaves_the_other_out() {
    let directory = tempfile::tempdir().expect("a directory");
    let program = build(directory.path(), "sample", &sample(), &["-O0"]);
    let source = directory.path().join("other.c");
    std::fs::write(&source, "int handle (int n) { return n + 1; }\n").expect("written");
    let library = build(directory.path(), "other.so", &source, &["-shared", "-fPIC"]);
    let mut symbols = Symbols::new();
    symbols.add_module(&program, 0).expect("a program");
    let mut resolver = resolver("trace handle if depth < 3\n");
    assert!(resolver.resolve(&symbols).problems.is_empty());
    symbols
        .add_module(&library, 0x7f00_0000_0000)
        .expect("a library");
    let resolution = resolver.resolve(&symbols);
    assert!(resolution.problems.is_empty(), "{resolution:?}");
    let [warning] = &resolution.warnings[..] else {
        panic!("{resolution:?}")
    };
    let shown = warning.to_string();
    let start = "t.gdb:1:17: tracepoint 1 is not set in handle (";
    assert!(shown.starts_with(start), "{shown}");
    let end = "other.c:1): No symbol \"depth\" in current context. (at 0x7f0000001";
    assert!(shown.contains(end), "{shown}");
    // Reported once.
    let again = resolver.resolve(&symbols);
    assert!(again.warnings.is_empty(), "{again:?}");
    // If it fits nowhere it is an error, which names one of the places.
    let mut nowhere = self::resolver("trace handle if dpeth < 3\n");
    let problems = nowhere.resolve(&symbols).problems;
    assert!(
        problems[0].to_string().contains("in handle ("),
        "{problems:?}"
    );
}

#[test]
fn what_is_optimized_out_is_left_out_and_said() {
    let directory = tempfile::tempdir().expect("a directory");
    let source = directory.path().join("o.c");
    std::fs::write(
        &source,
        "#include <stdio.h>\n__attribute__((noipa)) int used (int n) { return n * 2; }\n\
         int main (int argc, char **argv)\n{\n  int unused = argc * 3;\n  int twice = used (argc);\n  \
         printf (\"%d\\n\", twice);\n  return 0;\n}\n",
    )
    .expect("written");
    let program = build(directory.path(), "o", &source, &["-O2"]);
    let mut symbols = Symbols::new();
    symbols.add_module(&program, 0).expect("a program");
    let resolution = resolver("trace o.c:7\nactions\ncollect twice, argv\nend\n").resolve(&symbols);
    assert!(resolution.problems.is_empty(), "{:?}", resolution.problems);
    let warned: Vec<_> = resolution
        .warnings
        .iter()
        .map(ToString::to_string)
        .collect();
    assert!(
        warned
            .iter()
            .any(|w| w.contains("argv") && w.starts_with("t.gdb:3:")),
        "{warned:?}"
    );
}

//! A tracepoint on a function goes to its first instruction where arguments are lost past its prologue.

use std::process::Command;

use tracewire_debuginfo::{FunctionPlace, Symbols, VariableLocation};

const PROGRAM: &str = "
int other(int);
volatile int sink;
__attribute__((noinline)) int late(int first, int second)
{
  sink = first;
  int sum = other(second);
  return sum * 3;
}
__attribute__((noinline)) int other(int number) { return number + 1; }
int main(int argc, char **argv) { return late(argc, 4); }
";

/// Code of a compiler that takes the prologue of `late` to end at its last line, after the call: by then `first` is lost.
fn with_a_late_end(assembly: &str) -> String {
    let mut lines: Vec<String> = assembly.lines().map(str::to_owned).collect();
    let start = lines.iter().position(|line| line.starts_with("late:"));
    let start = start.expect("the function");
    let within = |lines: &[String], text: &str| {
        let at = lines[start..].iter().position(|line| line.contains(text));
        start + at.expect(text)
    };
    let end = within(&lines, " prologue_end");
    lines[end] = lines[end].replace(" prologue_end", "");
    let call = within(&lines, "callq\tother");
    let after = lines[call..]
        .iter()
        .position(|line| line.contains("\t.loc\t"));
    let after = call + after.expect("a line after the call");
    // Before the comment.
    let (code, comment) = lines[after].split_once('#').unwrap_or((&lines[after], ""));
    lines[after] = format!("{} prologue_end #{comment}", code.trim_end());
    lines.join("\n") + "\n"
}

fn clang(directory: &std::path::Path, arguments: &[&str]) {
    let output = Command::new("clang")
        .current_dir(directory)
        .args(arguments)
        .output()
        .expect("clang is installed");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}

#[test]
fn the_first_instruction_has_what_is_lost_later() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name);
    std::fs::write(path("late.c"), PROGRAM).expect("the source is written");
    clang(directory.path(), &["-g", "-O1", "-S", "late.c"]);
    let assembly = std::fs::read_to_string(path("late.s")).expect("the code is there");
    std::fs::write(path("late.s"), with_a_late_end(&assembly)).expect("the code is written");
    clang(directory.path(), &["-no-pie", "-o", "late", "late.s"]);
    let mut symbols = Symbols::new();
    symbols
        .add_module(&path("late"), 0)
        .expect("the program is read");
    let at = |place| {
        symbols
            .resolve_at("late", None, place)
            .expect("late is there")[0]
            .clone()
    };
    let entry = at(FunctionPlace::Entry);
    let after = at(FunctionPlace::AfterPrologue);
    assert!(entry.address < after.address, "{entry} {after}");
    assert!(entry.elsewhere_in_gdb && !after.elsewhere_in_gdb);
    let first = |scope| {
        let first = symbols
            .lookup_variable(Some(scope), "first")
            .expect("an argument");
        matches!(first.location, VariableLocation::Expression(_))
    };
    assert!(first(entry.scope()));
    let value = symbols.nearest_value(after.scope(), "first");
    assert!(value.is_some_and(|value| value.address < after.address));
    // Nothing is lost at the first instruction.
    assert_eq!(at(FunctionPlace::Arguments).address, entry.address);
    // Where nothing is lost past the prologue, it is past the prologue.
    let main = |place| symbols.resolve_at("main", None, place).expect("main")[0].address;
    assert_eq!(
        main(FunctionPlace::Arguments),
        main(FunctionPlace::AfterPrologue)
    );
}

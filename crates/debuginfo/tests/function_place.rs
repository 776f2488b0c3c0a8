//! A tracepoint on a function goes to its first instruction if arguments are lost after its prologue.

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

/// Code of a compiler that takes the prologue of a function to end at the first line after an instruction.
fn with_a_late_end(assembly: &str, function: &str, instruction: &str) -> String {
    let mut lines: Vec<String> = assembly.lines().map(str::to_owned).collect();
    let label = format!("{function}:");
    let start = lines.iter().position(|line| line.starts_with(&label));
    let start = start.expect("the function");
    let within = |lines: &[String], text: &str| {
        let at = lines[start..].iter().position(|line| line.contains(text));
        start + at.expect(text)
    };
    let end = within(&lines, " prologue_end");
    lines[end] = lines[end].replace(" prologue_end", "");
    let before = within(&lines, instruction);
    let after = lines[before..]
        .iter()
        .position(|line| line.contains("\t.loc\t"));
    let after = before + after.expect("a line after the instruction");
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
    // By then `first` is lost.
    let assembly = with_a_late_end(&assembly, "late", "callq\tother");
    std::fs::write(path("late.s"), assembly).expect("the code is written");
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

const COPY: &str = "
int other(int);
volatile int sink;
static inline __attribute__((always_inline)) int inner(int number) { sink = number; return number * 3; }
__attribute__((noinline)) int outer(int first)
{
  int tripled = inner(first);
  return other(tripled);
}
__attribute__((noinline)) int other(int number) { return number + 1; }
int main(int argc, char **argv) { return outer(argc); }
";

/// Where the prologue of a function is taken to end past a copy that begins with the function, the copy is at its first
/// instruction: past the prologue its arguments are not known.
#[test]
fn a_copy_within_a_prologue_is_at_its_first_instruction() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name);
    std::fs::write(path("copy.c"), COPY).expect("the source is written");
    clang(directory.path(), &["-g", "-O2", "-S", "copy.c"]);
    let assembly = std::fs::read_to_string(path("copy.s")).expect("the code is there");
    let assembly = with_a_late_end(&assembly, "outer", "leal\t");
    std::fs::write(path("copy.s"), assembly).expect("the code is written");
    clang(directory.path(), &["-no-pie", "-o", "copy", "copy.s"]);
    let mut symbols = Symbols::new();
    symbols
        .add_module(&path("copy"), 0)
        .expect("the program is read");
    let places = |name: &str| symbols.resolve(name, None).expect("it is there");
    let (outer, inner) = (places("outer"), places("inner"));
    let entry = symbols.function_at(outer[0].address).expect("outer").entry;
    assert!(entry < outer[0].address, "{outer:?}");
    assert_eq!(inner.len(), 1, "{inner:?}");
    assert_eq!(inner[0].address, entry);
    assert!(inner[0].elsewhere_in_gdb && !outer[0].elsewhere_in_gdb);
    let arguments = symbols.variables_at(inner[0].scope()).arguments;
    let names: Vec<&str> = arguments.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["number"]);
    let arguments = symbols.variables_at(outer[0].scope()).arguments;
    assert_eq!(arguments[0].name, "first");
}

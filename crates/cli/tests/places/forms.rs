//! Debug information in all its forms: each value is GDB's, or a message names the file that is not read.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::programs::{build, record};
use crate::support::{Ran, ran, tracewire};
use tracewire_test_support::Gdb;

const PROGRAM: &str = r#"
#include <stdio.h>
enum color { RED, GREEN = 7 };
struct inner { short a; char b; };
struct item { int id; double weight; struct inner in; enum color color; int numbers[3]; unsigned flags : 3; };
long total = 5;
__attribute__((noinline)) int work(struct item *it, int n, unsigned char letter)
{
  total += it->numbers[n % 3] + letter;
  it->id += n;
  return it->id + (int)total;
}
int main(void)
{
  struct item item = { 3, 0.5, { -2, 'b' }, GREEN, { 4, 5, 6 }, 5 };
  int sum = 0;
  for (int i = 10; i < 14; i++)
    sum += work(&item, i, 'x');
  printf("%d\n", sum);
  return 0;
}
"#;

pub const EXPRESSIONS: [&str; 6] = ["*it", "n", "letter", "total", "it->in.b", "it->color"];

pub fn program(directory: &Path, compiler: &str, options: &[&str]) -> PathBuf {
    let source = directory.join("forms.c");
    std::fs::write(&source, PROGRAM).unwrap();
    build(
        directory,
        compiler,
        &[&["-O1", "-no-pie"], options].concat(),
        &[&source],
    )
}

fn recorded(program: &Path) -> Ran {
    record(
        program,
        &[&format!("work : {}", EXPRESSIONS.join(", "))],
        &[],
    )
}

pub fn gdb_values(program: &Path) -> Vec<String> {
    let gdb = Gdb::new().program(program).commands(["break work", "run"]);
    let prints = EXPRESSIONS.map(|expression| format!("print {expression}"));
    let said = gdb.commands(prints).run().output;
    let values = said.lines().filter(|line| line.starts_with('$'));
    let values = values.filter_map(|line| Some(line.split_once(" = ")?.1.to_owned()));
    values.collect()
}

fn our_values(directory: &Path) -> Vec<String> {
    let show = tracewire()
        .current_dir(directory)
        .args(["show", "--json", "--frame", "0", "out.tf"])
        .output();
    values_of(ran(show.expect("tracewire runs")))
}

/// The values of the first frame that `show --json` prints.
pub fn values_of(shown: Ran) -> Vec<String> {
    let frames = shown.code(0).json();
    let values = frames[0]["values"].as_array().expect("values");
    let values = values.iter().map(|value| value["value"].as_str().unwrap());
    values.map(str::to_owned).collect()
}

/// The values of the first hit are GDB's, and there is no message about unread debug information.
#[track_caller]
fn values_are_gdbs(directory: &Path, program: &Path, what: &str) {
    values_are(&gdb_values(program), directory, program, what);
}

/// The values of the first hit are these, and there is no message about unread debug information.
#[track_caller]
fn values_are(expected: &[String], directory: &Path, program: &Path, what: &str) {
    assert_eq!(expected.len(), EXPRESSIONS.len(), "{what}: {expected:?}");
    let said = recorded(program).code(0).stderr;
    assert!(
        !said.contains("cannot read the debug information"),
        "{what}: {said}"
    );
    for (ours, theirs) in our_values(directory).iter().zip(expected) {
        // GDB 13 does not find a split unit's lists of locations in DWARF 5.
        let unknown = theirs == "<optimized out>" && what.contains("-gdwarf-5");
        assert!(
            ours == theirs || unknown && ours == "10",
            "{what}: {ours}, GDB {theirs}: {said}"
        );
    }
}

fn run(directory: &Path, command: &str, arguments: &[&str]) {
    let done = Command::new(command)
        .current_dir(directory)
        .args(arguments)
        .status();
    assert!(
        done.unwrap_or_else(|error| panic!("{command}: {error}"))
            .success()
    );
}

#[test]
fn forms_of_one_file() {
    let forms: [&[&str]; 4] = [
        &["-gdwarf-5", "-gz"],
        &["-gdwarf-4", "-fdebug-types-section"],
        &["-gdwarf-5", "-gpubnames"],
        &["-gdwarf-5", "-flto"],
    ];
    for compiler in ["gcc", "clang"] {
        for form in forms {
            // LLVM's bytecode takes LLVM's linker.
            let thin = compiler == "clang" && form.contains(&"-flto");
            let linker: &[&str] = if thin { &["-fuse-ld=lld"] } else { &[] };
            if thin && !has("ld.lld") {
                continue;
            }
            let directory = tempfile::tempdir().unwrap();
            let program = program(directory.path(), compiler, &[form, linker].concat());
            values_are_gdbs(directory.path(), &program, &format!("{compiler} {form:?}"));
        }
    }
}

fn has(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok()
}

#[test]
fn split_units() {
    for compiler in ["gcc", "clang"] {
        for version in ["-gdwarf-4", "-gdwarf-5"] {
            let directory = tempfile::tempdir().unwrap();
            let program = program(directory.path(), compiler, &[version, "-gsplit-dwarf"]);
            values_are_gdbs(directory.path(), &program, &format!("{compiler} {version}"));
            for entry in std::fs::read_dir(directory.path()).unwrap() {
                let path = entry.unwrap().path();
                if path.extension().is_some_and(|extension| extension == "dwo") {
                    std::fs::remove_file(path).unwrap();
                }
            }
            recorded(&program).code(2).says(&[
                "warning",
                "cannot read the debug information in",
                "forms.dwo",
            ]);
        }
    }
}

/// A unit before the tested one: in a package the latter is not at the beginning of any section.
const BEFORE: &str = r#"
struct pair { short left; long right[2]; };
static struct pair pair;
long before(struct pair *it, int n)
{
  it->right[n & 1] += n;
  pair = *it;
  return pair.left + n;
}
"#;

/// `dwp` of binutils packs DWARF 4, that of LLVM DWARF 5 too.
#[test]
fn split_units_in_a_package() {
    let tools = [
        ("-gdwarf-4", "dwp"),
        ("-gdwarf-4", "llvm-dwp"),
        ("-gdwarf-5", "llvm-dwp"),
    ];
    for compiler in ["gcc", "clang"] {
        // GDB 13 does not read packages of DWARF 5, nor all units of types in them.
        let directory = tempfile::tempdir().unwrap();
        let expected = gdb_values(&program(directory.path(), compiler, &["-gdwarf-5"]));
        for (version, tool) in tools {
            for types in ["-fno-debug-types-section", "-fdebug-types-section"] {
                let directory = tempfile::tempdir().unwrap();
                let path = |name: &str| directory.path().join(name);
                std::fs::write(path("before.c"), BEFORE).unwrap();
                std::fs::write(path("forms.c"), PROGRAM).unwrap();
                let options = ["-O1", "-no-pie", version, "-gsplit-dwarf", types];
                let sources = [path("before.c"), path("forms.c")];
                let sources = sources.each_ref().map(PathBuf::as_path);
                let program = build(directory.path(), compiler, &options, &sources);
                let arguments = ["-e", "program", "-o", "program.dwp"];
                run(directory.path(), tool, &arguments);
                for entry in std::fs::read_dir(directory.path()).unwrap() {
                    let path = entry.unwrap().path();
                    if path.extension().is_some_and(|extension| extension == "dwo") {
                        std::fs::remove_file(path).unwrap();
                    }
                }
                let what = format!("{compiler} {version} {types} in a package of {tool}");
                values_are(&expected, directory.path(), &program, &what);
            }
        }
    }
}

/// Types in separate units, which split units refer to by their signatures.
#[test]
fn split_type_units() {
    for compiler in ["gcc", "clang"] {
        for version in ["-gdwarf-4", "-gdwarf-5"] {
            let directory = tempfile::tempdir().unwrap();
            // GDB 13 does not read those of gcc in DWARF 5.
            let whole = program(directory.path(), compiler, &[version]);
            let expected = gdb_values(&whole);
            let flags = [version, "-gsplit-dwarf", "-fdebug-types-section"];
            let program = program(directory.path(), compiler, &flags);
            let what = format!("{compiler} {flags:?}");
            values_are(&expected, directory.path(), &program, &what);
        }
    }
}

/// The common parts of several programs are in a separate file.
#[test]
fn a_file_for_several_programs() {
    for version in ["-gdwarf-4", "-gdwarf-5"] {
        let directory = tempfile::tempdir().unwrap();
        let program = program(directory.path(), "gcc", &[version]);
        run(directory.path(), "cp", &["program", "other"]);
        run(
            directory.path(),
            "dwz",
            &["-m", "common.dwz", "program", "other"],
        );
        assert!(directory.path().join("common.dwz").exists());
        values_are_gdbs(directory.path(), &program, version);
        std::fs::remove_file(directory.path().join("common.dwz")).unwrap();
        let ran = recorded(&program).code(2);
        assert!(!ran.stderr.contains("non-pointer value"), "{}", ran.stderr);
        ran.says(&[
            "warning",
            "cannot read the debug information in common.dwz",
            "type in debug information that cannot be read",
        ]);
    }
}

/// A stripped program whose debug information is in a file that its `.gnu_debuglink` names, beside it or in `.debug`.
#[test]
fn a_file_of_its_own() {
    for folder in ["", ".debug"] {
        let directory = tempfile::tempdir().unwrap();
        let program = program(directory.path(), "gcc", &["-g"]);
        let expected = gdb_values(&program);
        run(
            directory.path(),
            "objcopy",
            &["--only-keep-debug", "program", "program.debug"],
        );
        let link = [
            "--strip-all",
            "--add-gnu-debuglink=program.debug",
            "program",
        ];
        run(directory.path(), "objcopy", &link);
        let kept = directory.path().join(folder);
        std::fs::create_dir_all(&kept).unwrap();
        std::fs::rename(
            directory.path().join("program.debug"),
            kept.join("program.debug"),
        )
        .unwrap();
        values_are(&expected, directory.path(), &program, folder);
        // Another program's file is not taken for it.
        std::fs::write(
            kept.join("program.debug"),
            std::fs::read("/bin/true").unwrap(),
        )
        .unwrap();
        recorded(&program).code(2).says(&["work"]);
    }
}

/// The symbols that a distribution leaves in a stripped program: its functions are found, and hit as often.
#[test]
fn symbols_within_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let program = program(directory.path(), "gcc", &["-g"]);
    run(
        directory.path(),
        "objcopy",
        &["--strip-debug", "program", "mini"],
    );
    run(directory.path(), "xz", &["mini"]);
    let add = [
        "--strip-all",
        "--add-section=.gnu_debugdata=mini.xz",
        "program",
    ];
    run(directory.path(), "objcopy", &add);
    record(&program, &["work : $rsi"], &[]).code(0);
    let show = tracewire()
        .current_dir(directory.path())
        .args(["show", "--json", "out.tf"])
        .output();
    let frames = ran(show.expect("tracewire runs")).code(0).json();
    let values: Vec<_> = (frames.iter())
        .map(|frame| frame["values"][0]["value"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(values, ["10", "11", "12", "13"]);
}

/// A library's debug file in the folder of build ids, where `libc6-dbg` has that of libc.
#[test]
fn a_file_by_its_build_id() {
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("ids.c");
    std::fs::write(
        &source,
        "#include <stdlib.h>\nint main(void) { return getenv(\"TRACEWIRE_FORMS\") != 0; }\n",
    )
    .unwrap();
    let program = build(directory.path(), "gcc", &["-g"], &[&source]);
    record(&program, &["libc:getenv if (long) name != 0 : name"], &[]).code(0);
    let show = tracewire()
        .current_dir(directory.path())
        .args(["show", "--json", "out.tf"])
        .output();
    let frames = ran(show.expect("tracewire runs")).code(0).json();
    let last = frames.last().expect("a frame");
    let value = last["values"][0]["value"].as_str().unwrap_or_default();
    assert!(value.contains("TRACEWIRE_FORMS"), "{last}");
}

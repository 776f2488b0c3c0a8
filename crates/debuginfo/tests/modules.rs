//! Where debug information comes from, and modules at their load biases.

mod support;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use support::Build;
use tracewire_debuginfo::{
    LocationError, ModuleId, Symbols, ThreadLocalOffset, VariableKind, VariableLocation,
};
use tracewire_model::Address;
use tracewire_test_support::tool;

const SHAPES: Build = Build {
    compiler: "cc",
    source: "shapes.c",
    options: &["-g", "-O0", "-Wl,--build-id=sha1"],
};

/// Runs a tool of the binutils.
fn run(name: &str, arguments: &[&Path]) {
    let status = tool(name).args(arguments).status().expect(name);
    assert!(status.success(), "{name} {arguments:?}");
}

fn load(program: &Path, bias: u64) -> Symbols {
    let mut symbols = Symbols::new();
    symbols
        .add_module(program, bias)
        .expect("the program is read");
    symbols
}

fn address(symbols: &Symbols, location: &str) -> u64 {
    let found = symbols.resolve(location, None).expect(location);
    assert_eq!(found.len(), 1, "{found:?}");
    found[0].address.0
}

#[test]
fn stripped_program_is_read_with_its_debug_file() {
    let directory = tempfile::tempdir().expect("a directory");
    let program = SHAPES.run(directory.path());
    let wanted = load(&program, 0);
    let debug = directory.path().join("apart.debug");
    let stripped = directory.path().join("stripped");
    let link = format!("--add-gnu-debuglink={}", debug.display());
    run(
        "objcopy",
        &[Path::new("--only-keep-debug"), &program, &debug],
    );
    run(
        "objcopy",
        &[
            Path::new("--strip-all"),
            Path::new(&link),
            &program,
            &stripped,
        ],
    );
    let symbols = load(&stripped, 0);
    let module = symbols.modules()[0].clone();
    assert_eq!(
        module.debug_file.as_deref(),
        std::fs::canonicalize(&debug).ok().as_deref()
    );
    assert!(module.has_debug_information && module.build_id.is_some());
    for location in ["main", "helper", "shapes.c:40", "recursive"] {
        assert_eq!(
            address(&symbols, location),
            address(&wanted, location),
            "{location}"
        );
    }
    let pc = Address(address(&symbols, "helper"));
    let names: Vec<String> = symbols
        .variables_at(pc)
        .arguments
        .into_iter()
        .map(|variable| variable.name)
        .collect();
    assert_eq!(names, ["job", "by"]);
    assert!(symbols.cfa(pc).is_some());

    // A debug file that does not belong to the program is not used.
    std::fs::write(&debug, b"\x7fELF something else").expect("the file is written");
    let symbols = load(&stripped, 0);
    assert_eq!(symbols.modules()[0].debug_file, None);
    assert!(matches!(
        symbols.resolve("helper", None),
        Err(LocationError::NoFunction { .. })
    ));
}

/// The symbols that distributions leave in a stripped program, compressed by xz.
#[test]
fn symbols_are_read_from_a_file_within_the_file() {
    let directory = tempfile::tempdir().expect("a directory");
    let program = SHAPES.run(directory.path());
    let wanted = load(&program, 0);
    let bare = directory.path().join("bare");
    let inner = directory.path().join("inner");
    run("objcopy", &["--strip-all".as_ref(), &program, &bare]);
    run("objcopy", &["--strip-debug".as_ref(), &program, &inner]);
    let function = |symbols: &Symbols, name: &str| {
        let places = symbols.resolve(name, None).ok()?;
        symbols
            .function_at(places.first()?.address)
            .map(|found| found.entry)
    };
    assert_eq!(function(&load(&bare, 0), "helper"), None);
    let damaged = directory.path().join("damaged.xz");
    run("xz", &["--keep".as_ref(), &inner]);
    let compressed = directory.path().join("inner.xz");
    let mut bytes = std::fs::read(&compressed).expect("it is compressed");
    let middle = bytes.len() / 2;
    bytes[middle..middle + 64].fill(0xff);
    std::fs::write(&damaged, bytes).expect("written");
    for (section, is_good) in [(compressed, true), (damaged, false)] {
        let whole = directory.path().join("whole");
        let section = format!(".gnu_debugdata={}", section.display());
        run(
            "objcopy",
            &["--add-section".as_ref(), section.as_ref(), &bare, &whole],
        );
        let symbols = load(&whole, 0);
        for name in ["helper", "sum", "main"] {
            let expected = function(&wanted, name).filter(|_| is_good);
            assert_eq!(function(&symbols, name), expected, "{name}");
        }
    }
}

#[test]
fn compressed_sections_say_the_same() {
    let directory = tempfile::tempdir().expect("a directory");
    let program = SHAPES.run(directory.path());
    let wanted = load(&program, 0);
    for kind in ["zlib", "zlib-gnu", "zstd"] {
        let compressed = directory.path().join(kind);
        let option = format!("--compress-debug-sections={kind}");
        let made = tool("objcopy")
            .arg(option)
            .args([&program, &compressed])
            .status();
        assert!(made.expect("objcopy runs").success(), "{kind}");
        let symbols = load(&compressed, 0);
        assert_eq!(
            address(&symbols, "shapes.c:40"),
            address(&wanted, "shapes.c:40"),
            "{kind}"
        );
    }
}

#[test]
fn library_is_read_at_its_bias_and_taken_out_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let library = Build {
        options: &["-g", "-O0", "-shared", "-fPIC"],
        ..SHAPES
    };
    let (library, program) = (
        library.run(directory.path()),
        Build {
            source: "small.cpp",
            compiler: "g++",
            ..SHAPES
        }
        .run(directory.path()),
    );
    let at_zero = load(&library, 0);
    let bias = 0x7f00_0000_0000;
    let mut symbols = load(&program, 0x5555_5555_4000);
    assert!(
        symbols
            .resolve("helper", None)
            .is_err_and(|error| error.may_come_later())
    );
    let id = symbols
        .add_module(&library, bias)
        .expect("the library is read");
    let pc = address(&symbols, "helper");
    assert_eq!(pc, address(&at_zero, "helper") + bias);
    assert_eq!(
        address(&symbols, "shapes.c:40"),
        address(&at_zero, "shapes.c:40") + bias
    );
    let place = symbols.place(Address(pc)).expect("a place");
    assert_eq!(place.function.as_deref(), Some("helper"));
    assert_eq!(place.module, id);
    // Its thread-local variables have no place that is known beforehand; the program's have.
    let of_library = |name: &str| {
        symbols
            .lookup_variable(Some(Address(pc).into()), name)
            .expect(name)
            .location
    };
    assert!(matches!(
        of_library("per_thread"),
        VariableLocation::ThreadLocal(ThreadLocalOffset::InLibrary(_))
    ));
    let VariableLocation::Static(counter) = of_library("counter") else {
        panic!("a global variable has one address");
    };
    assert!(counter.0 > bias);
    // Functions of the program itself are still there, and only its own.
    assert_eq!(
        symbols.resolve("main", None).expect("both have one").len(),
        2
    );
    assert!(symbols.remove_module(id));
    assert!(!symbols.remove_module(id));
    assert!(symbols.resolve("helper", None).is_err());
    assert_eq!(symbols.place(Address(pc)), None);
}

#[test]
fn a_module_that_comes_back_is_read_once_and_last_in_the_order() {
    let directory = tempfile::tempdir().expect("a directory");
    let library = Build {
        options: &["-g", "-O0", "-shared", "-fPIC"],
        ..SHAPES
    };
    let (library, program) = (
        library.run(directory.path()),
        Build {
            source: "small.cpp",
            compiler: "g++",
            ..SHAPES
        }
        .run(directory.path()),
    );
    let mut symbols = Symbols::new();
    let order = |symbols: &Symbols| -> Vec<ModuleId> {
        symbols.modules().iter().map(|module| module.id).collect()
    };
    let add = |symbols: &mut Symbols, path: &Path, bias| {
        symbols.add_module(path, bias).expect("it is added")
    };
    let first = add(&mut symbols, &program, 0x1_0000);
    let second = add(&mut symbols, &library, 0x100_0000);
    // At its old place it is the module that it was; twice at once it is two.
    assert!(symbols.remove_module(first));
    assert_eq!(add(&mut symbols, &program, 0x1_0000), first);
    assert_eq!(order(&symbols), [second, first]);
    let twice = add(&mut symbols, &program, 0x1_0000);
    assert_ne!(twice, first);
    assert!(symbols.remove_module(twice));
    // At another address it is another module, of the same file.
    assert!(symbols.remove_module(first));
    let elsewhere = add(&mut symbols, &program, 0x2_0000);
    assert!(elsewhere != first && elsewhere != twice);
    // A file of that name that was changed is read again.
    assert!(symbols.remove_module(elsewhere));
    assert!(symbols.remove_module(second));
    std::fs::copy(&library, &program).expect("it is replaced");
    let replaced = add(&mut symbols, &program, 0x1_0000);
    assert_ne!(replaced, first);
    assert!(symbols.symbol_address(replaced, "helper").is_some());
}

#[test]
fn text_and_constants_are_read_from_the_file() {
    let directory = tempfile::tempdir().expect("a directory");
    let program = SHAPES.run(directory.path());
    let symbols = load(&program, 0x1_0000);
    let main = symbols
        .function_at(Address(address(&symbols, "main")))
        .expect("main");
    let mut code = [0; 1];
    assert!(symbols.read_only_memory(main.entry, &mut code));
    assert_eq!(code, [0x55], "push %rbp");
    let VariableLocation::Static(counter) = symbols
        .lookup_variable(None, "counter")
        .expect("it")
        .location
    else {
        panic!("a global variable has one address");
    };
    let mut bytes = [0; 4];
    assert!(
        !symbols.read_only_memory(counter, &mut bytes),
        "the program may change it"
    );
    assert!(!symbols.read_only_memory(Address(u64::MAX - 1), &mut bytes));
}

#[test]
fn thread_local_variables_are_where_the_program_has_them() {
    let directory = tempfile::tempdir().expect("a directory");
    let source = directory.path().join("threads.c");
    std::fs::write(
        &source,
        "#include <stdio.h>\n_Thread_local char first[3]; _Thread_local long second __attribute__((aligned(64)));\n\
         static _Thread_local int third = 3;\n\
         #define TELL(x) printf(#x \" %td\\n\", (char *)&x - (char *)__builtin_thread_pointer())\n\
         int main(void) { TELL(first); TELL(second); TELL(third); return third - 3; }\n",
    )
    .expect("the source is written");
    for options in [
        &["-g"][..],
        &["-g", "-static"],
        &["-g", "-m32"],
        &["-g", "-O2", "-gdwarf-4"],
    ] {
        let program = directory.path().join("threads");
        let built = tool("cc")
            .args(options)
            .arg("-o")
            .args([&program, &source])
            .status();
        assert!(built.expect("cc runs").success(), "{options:?}");
        let output = Command::new(&program).output().expect("it runs");
        let symbols = load(&program, 0);
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            let (name, offset) = line.split_once(' ').expect("a name and a number");
            let wanted = ThreadLocalOffset::FromThreadPointer(offset.parse().expect("a number"));
            let variable = symbols.lookup_variable(None, name).expect(name);
            assert!(
                matches!(variable.location, VariableLocation::ThreadLocal(found) if found == wanted),
                "{options:?} {name}: {:?}, in truth {wanted:?}",
                variable.location
            );
        }
    }
}

#[test]
fn names_are_found_from_where_they_are_seen() {
    let directory = tempfile::tempdir().expect("a directory");
    let program = SHAPES.run(directory.path());
    let symbols = load(&program, 0);
    let line = 1 + include_str!("programs/shapes.c")
        .lines()
        .position(|line| line.contains("job->where.y -= by;"))
        .expect("it is there");
    let inner = Address(address(&symbols, &format!("shapes.c:{line}")));
    let seen = |name: &str| symbols.lookup_variable(Some(inner.into()), name);
    // Inside the inner braces `by` is the local one, and the argument of that name is shadowed.
    let by = seen("by").expect("by");
    assert_eq!((by.kind, by.depth), (VariableKind::Local, 0));
    let scope = symbols.variables_at(inner);
    let shadowed: Vec<(&str, bool)> = scope
        .arguments
        .iter()
        .chain(&scope.locals)
        .map(|variable| (variable.name.as_str(), variable.shadowed))
        .collect();
    assert_eq!(
        shadowed,
        [
            ("job", false),
            ("by", true),
            ("by", false),
            ("square", false),
            ("i", false),
            ("calls", false)
        ]
    );
    let VariableLocation::Static(calls) = seen("calls").expect("calls").location else {
        panic!("a static variable has one address");
    };
    let from_outside = symbols
        .lookup_variable(None, "helper::calls")
        .expect("helper::calls");
    assert!(matches!(from_outside.location, VariableLocation::Static(found) if found == calls));
    assert!(symbols.lookup_variable(None, "calls").is_none());
    assert_eq!(
        seen("origin").expect("origin").kind,
        VariableKind::FileStatic
    );
    assert_eq!(seen("counter").expect("counter").kind, VariableKind::Global);
    assert!(
        symbols
            .lookup_variable(None, "'shapes.c'::origin")
            .is_some()
    );
    assert!(symbols.lookup_variable(None, "'other.c'::origin").is_none());
    let green = seen("GREEN").expect("an enumerator");
    assert!(
        matches!(&green.location, VariableLocation::Constant(bytes) if bytes[..] == [5, 0, 0, 0])
    );
    assert_eq!(
        seen("_IO_stdin_used").map(|found| found.kind),
        Some(VariableKind::Symbol)
    );
    assert!(seen("nonsense").is_none());
    let (entry, _) = symbols
        .lookup_function(None, "recursive")
        .expect("a function");
    assert_eq!(symbols.function_at(entry).expect("it").name, "recursive");
}

#[test]
fn markers_are_found_by_name() {
    let directory = tempfile::tempdir().expect("a directory");
    let source = directory.path().join("marked.c");
    // The expansion of sys/sdt.h's DTRACE_PROBE2 (app, start, a, b).
    std::fs::write(
        &source,
        r#"
unsigned short app_start_semaphore __attribute__((section(".probes")));
#define MARK(name, semaphore) __asm__ volatile ( \
    "990: nop\n" \
    ".pushsection .note.stapsdt,\"?\",\"note\"\n.balign 4\n.4byte 992f-991f,994f-993f,3\n" \
    "991: .asciz \"stapsdt\"\n992: .balign 4\n" \
    "993: .8byte 990b\n.8byte _.stapsdt.base\n.8byte " semaphore "\n.asciz \"app\"\n.asciz \"" name "\"\n.asciz \"-4@%0 8@%1\"\n" \
    "994: .balign 4\n.popsection\n" \
    ".ifndef _.stapsdt.base\n.pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n" \
    ".weak _.stapsdt.base\n.hidden _.stapsdt.base\n_.stapsdt.base: .space 1\n.size _.stapsdt.base,1\n.popsection\n.endif\n" \
    :: "r"(a), "r"(b))
int main(int a, char **b) { MARK("start", "app_start_semaphore"); MARK("end", "0"); return a - 1; }
"#,
    )
    .expect("the source is written");
    let program = directory.path().join("marked");
    let built = tool("cc")
        .arg("-g")
        .arg("-o")
        .args([&program, &source])
        .status();
    assert!(built.expect("cc runs").success());
    let bias = 0x5555_0000_0000;
    let symbols = load(&program, bias);
    let start = symbols
        .resolve("-probe-stap app:start", None)
        .expect("the marker");
    let marker = start[0].marker.clone().expect("it is a marker");
    assert_eq!(
        (marker.provider.as_str(), marker.name.as_str()),
        ("app", "start")
    );
    assert!(marker.arguments.starts_with("-4@%"));
    let VariableLocation::Static(semaphore) = symbols
        .lookup_variable(None, "app_start_semaphore")
        .expect("it")
        .location
    else {
        panic!("a global variable has one address");
    };
    assert_eq!(marker.semaphore, Some(semaphore));
    assert_eq!(start[0].function.as_deref(), Some("main"));
    let mut nop = [0];
    assert!(symbols.read_only_memory(start[0].address, &mut nop));
    assert_eq!(nop, [0x90]);
    let end = symbols.resolve("-m end", None).expect("the marker");
    assert_eq!(
        end[0].marker.as_ref().expect("it is a marker").semaphore,
        None
    );
    let error = symbols
        .resolve("-m app:stard", None)
        .expect_err("there is none");
    assert!(
        error.to_string().contains("did you mean app:start?"),
        "{error}"
    );
    let output = support::gdb(
        &program,
        directory.path(),
        "import gdb\ngdb.execute('info probes stap')\n",
    );
    let wanted = format!("{:#018x}", start[0].address.0 - bias);
    assert!(output.contains(&wanted), "{wanted} is not in {output}");
}

#[test]
fn errors_say_what_was_looked_for_and_what_is_near() {
    let directory = tempfile::tempdir().expect("a directory");
    let program = SHAPES.run(directory.path());
    let symbols = load(&program, 0);
    let error = |location: &str| symbols.resolve(location, None).expect_err(location);
    let wrong_name = error("recursiv");
    assert!(wrong_name.may_come_later());
    let text = wrong_name.to_string();
    assert!(
        text.starts_with("function \"recursiv\" is not defined in "),
        "{text}"
    );
    assert!(text.ends_with("; did you mean recursive?"), "{text}");
    assert!(
        error("shape.c:3")
            .to_string()
            .ends_with("did you mean shapes.c?")
    );
    assert_eq!(
        error("shapes.c:9999").to_string(),
        "no line 9999 in file \"shapes.c\""
    );
    assert!(!error("shapes.c:9999").may_come_later());
    assert!(
        error("shapes.c:helpr")
            .to_string()
            .contains("did you mean helper?")
    );
    assert_eq!(
        symbols
            .default_file()
            .as_deref()
            .map(|file| file.ends_with("shapes.c")),
        Some(true)
    );
    assert_eq!(address(&symbols, "40"), address(&symbols, "shapes.c:40"));

    let mut nothing = Symbols::new();
    assert!(
        nothing
            .resolve("main", None)
            .is_err_and(|error| error.may_come_later())
    );
    for wrong in ["/nonexistent", "/tmp", "/dev/null", "/proc/self/environ"] {
        let error = nothing.add_module(Path::new(wrong), 0).expect_err(wrong);
        assert!(error.to_string().contains(wrong), "{error}");
    }
}

#[test]
fn symbols_may_go_to_another_thread() {
    fn goes<T: Send>(_: T) {}
    goes(Symbols::new());
}

/// Data read from large debug information is kept: the answers are the same with it.
#[test]
fn kept_names_change_no_answer() {
    let options: &[&str] = &["-g", "-O1", "-Wl,--build-id=sha1"];
    kept_changes_no_answer(options, &["index", "names"]);
    let options = &[
        "-g",
        "-gz=zlib",
        "-fno-eliminate-unused-debug-types",
        "-include",
        "bits/stdc++.h",
        "-Wl,--build-id=sha1",
    ];
    kept_changes_no_answer(options, &["index", "names", "sections"]);
}

fn kept_changes_no_answer(options: &'static [&'static str], expected: &[&str]) {
    let directory = tempfile::tempdir().expect("a directory");
    let build = Build {
        compiler: "g++",
        source: "names.cpp",
        options,
    };
    let program = build.run(directory.path());
    let cache = directory.path().join("cache");
    let answers = |cache: Option<&Path>| -> Vec<String> {
        let locations = [
            "shop::label(Label const&)",
            "shop::*",
            "names.cpp:60",
            "names.cpp:twice",
            "nowhere.cpp:1",
            "nowhere",
            "shop::nowhere",
            "largest<int>",
            "_ZN4shop7checkedEi",
            "main",
            "60",
        ];
        let answer = |location: &&str| {
            let mut symbols = Symbols::new();
            if let Some(cache) = cache {
                symbols.keep_names_in(cache);
            }
            symbols
                .add_module(&program, 0)
                .expect("the program is read");
            format!("{location}: {:?}", symbols.resolve(location, None))
        };
        locations.iter().map(answer).collect()
    };
    let wanted = answers(None);
    let files = || {
        let files = std::fs::read_dir(&cache).expect("the cache is made");
        files
            .map(|file| file.expect("a file").path())
            .collect::<Vec<_>>()
    };
    assert_eq!(answers(Some(&cache)), wanted);
    let kinds = |files: Vec<PathBuf>| {
        let kind = |file: PathBuf| Some(file.extension()?.to_string_lossy().into_owned());
        files.into_iter().filter_map(kind).collect::<BTreeSet<_>>()
    };
    let expected: BTreeSet<String> = expected.iter().map(|kind| (*kind).to_owned()).collect();
    assert_eq!(kinds(files()), expected);
    assert_eq!(answers(Some(&cache)), wanted);
    // A damaged file is made again.
    for file in files() {
        let whole = std::fs::read(&file).expect("read");
        std::fs::write(&file, &whole[..whole.len() / 2]).expect("written");
        assert_eq!(answers(Some(&cache)), wanted);
        assert_eq!(std::fs::read(&file).expect("read"), whole);
    }
}

/// Symbols of large tables are kept: the answers are the same with them.
#[test]
fn kept_symbols_change_no_answer() {
    let directory = tempfile::tempdir().expect("a directory");
    let library = Command::new("g++")
        .arg("-print-file-name=libstdc++.so.6")
        .output()
        .expect("g++ runs");
    let library = PathBuf::from(String::from_utf8_lossy(&library.stdout).trim());
    let library = library.canonicalize().expect("libstdc++ is there");
    let cache = directory.path().join("cache");
    let answers = |cache: Option<&Path>| {
        let mut symbols = Symbols::new();
        if let Some(cache) = cache {
            symbols.keep_names_in(cache);
        }
        let module = symbols.add_module(&library, 0).expect("it is read");
        let resolve = |location: &str| format!("{:?}", symbols.resolve(location, None));
        let functions = symbols.functions();
        let places: Vec<_> = functions
            .iter()
            .step_by(50)
            .map(|function| symbols.symbol_at(function.entry))
            .collect();
        (
            [
                "std::terminate()",
                "_ZSt9terminatev",
                "std::ios_base::*",
                "nowhere",
            ]
            .map(resolve),
            symbols.symbol_address(module, "_ZSt9terminatev"),
            functions.len(),
            places,
        )
    };
    let wanted = answers(None);
    assert!(wanted.2 > 1000);
    assert_eq!(answers(Some(&cache)), wanted);
    let files: Vec<PathBuf> = std::fs::read_dir(&cache)
        .expect("the cache is made")
        .map(|file| file.expect("a file").path())
        .filter(|file| file.extension().is_some_and(|kind| kind == "symbols"))
        .collect();
    assert_eq!(files.len(), 1, "{files:?}");
    let whole = std::fs::read(&files[0]).expect("read");
    assert_eq!(answers(Some(&cache)), wanted);
    std::fs::write(&files[0], &whole[..whole.len() - 1]).expect("written");
    assert_eq!(answers(Some(&cache)), wanted);
    assert_eq!(std::fs::read(&files[0]).expect("read"), whole);
}

//! The messages of `record`, and those that it leaves out.

use tracewire_test_support::write_program;

use crate::support::{Built, Ran};

/// So many functions, each called once.
fn functions(count: usize) -> Built {
    let each = |words: fn(usize) -> String| (0..count).map(words).collect::<String>();
    let source = format!(
        "{}int main (void) {{ int sum = 0;\n{}return sum < 0; }}\n",
        each(|at| format!(
            "__attribute__ ((noinline)) int f{at} (int x) {{ asm (\"\"); return x + {at}; }}\n"
        )),
        each(|at| format!("sum += f{at} ({at});\n")),
    );
    Built::new(&source, &["-O1"])
}

fn script(places: impl Iterator<Item = String>) -> String {
    places.map(|place| format!("trace {place}\n")).collect()
}

/// The messages, without the parts that differ in each run.
fn lines(ran: &Ran) -> Vec<String> {
    ran.stderr.lines().map(str::to_owned).collect()
}

#[test]
fn of_many_tracepoints_a_few_are_told() {
    let built = functions(300);
    let all = script(
        (0..300)
            .map(|at| format!("f{at}"))
            .chain((0..300).map(|at| format!("f{at}"))),
    );
    let done = built.record(&all, &[]).code(0);
    let reported = lines(&done);
    assert!(reported.len() < 50, "{}", done.stderr);
    assert!(
        reported.iter().all(|line| line.len() < 300),
        "{}",
        done.stderr
    );
    let done = done.says(&[
        " in f19 (/",
        "580 more tracepoints are set; --verbose names them\n",
        " locations by ",
        "600 frames in out.tf; hits: 600 of 600 of 600 tracepoints, most of tracepoint 1 1, tracepoint 2 1, tracepoint 3 1 \
         (`tracewire info out.tf` has all)\n",
        "GDB takes tracepoint 303 for tracepoint 3",
        "so it does with 297 more; `tracewire show out.tf --gdb` names them\n",
    ]);
    assert!(!done.stderr.contains("tracepoint 304"), "{}", done.stderr);

    std::fs::write(built.path("script.gdb"), all).expect("written");
    built
        .run(&[
            "record",
            "--verbose",
            "-x",
            "script.gdb",
            "-o",
            "out.tf",
            "--",
            "./program",
        ])
        .code(0)
        .says(&[
            "tracepoint 600 at 0x",
            "tracepoint 600 by ",
            "GDB takes tracepoint 600 for tracepoint 300",
            "tracepoint 600 1",
        ]);
}

#[test]
fn what_is_the_same_at_many_places_is_said_once() {
    let built = Built::new(
        "static inline __attribute__ ((always_inline)) int own_step (int n) { int twice; asm (\"nop\"); return n; }\n\
         int main (int argc, char **argv) { int sum = 0; \n\
         sum += own_step (argc); sum += own_step (argc + 1); sum += own_step (argc + 2); sum += own_step (argc + 3);\n return sum < 0; }\n",
        &["-O2"],
    );
    let done = built
        .run(&[
            "record",
            "-t",
            "own_step : twice",
            "-o",
            "out.tf",
            "--",
            "./program",
        ])
        .code(0);
    let warnings: Vec<_> = lines(&done)
        .into_iter()
        .filter(|line| line.contains("warning"))
        .collect();
    assert_eq!(warnings.len(), 1, "{}", done.stderr);
    assert!(
        warnings[0].contains("-t:1:12: twice: ") && warnings[0].contains(" and 3 more locations)"),
        "{warnings:?}"
    );
}

#[test]
fn problems_are_told_up_to_a_limit() {
    let built = functions(1);
    let done = built
        .record(&script((0..30).map(|at| format!("g{at}"))), &[])
        .code(2);
    let done = done.says(&[
        "\"g19\"",
        "10 more problems; --verbose prints all\n",
        "waited for with --pending\n",
    ]);
    assert!(!done.stderr.contains("\"g20\""), "{}", done.stderr);
}

#[test]
fn a_tracepoint_that_cannot_be_set_is_left_out_if_that_is_wanted() {
    let built = functions(3);
    let bad =
        "trace f0\ntrace *0x10\ntrace nosuch\ntrace f1\nactions\n  collect nosuch\nend\ntrace f2\n";
    let only_address = "trace f0\ntrace *0x10\n";
    let run = |script: &str, options: &[&str]| {
        std::fs::write(built.path("script.gdb"), script).expect("written");
        let arguments = [
            &["record"][..],
            options,
            &["-x", "script.gdb", "-o", "out.tf", "--", "./program"],
        ]
        .concat();
        built.run(&arguments)
    };
    // Before the program runs, by its name.
    run(bad, &[]).code(2).says(&["No symbol \"nosuch\""]);
    run(only_address, &[])
        .code(2)
        .says(&["tracepoint 2", "0x10"]);
    assert!(!built.path("out.tf").exists());
    let done = run(bad, &["--keep-going"]).code(0);
    done.says(&[
        "warning",
        "0x10",
        "\"nosuch\" is not defined",
        "No symbol \"nosuch\"",
        "2 frames in out.tf",
    ]);
    let seen: Vec<_> = built
        .frames()
        .iter()
        .map(|frame| frame["tracepoint"].as_i64())
        .collect();
    assert_eq!(seen, [Some(1), Some(5)]);
    // Nothing is left.
    std::fs::remove_file(built.path("out.tf")).expect("removed");
    run("trace *0x10\n", &["--keep-going"])
        .code(2)
        .says(&["0x10"]);
    run("trace nosuch\n", &["--keep-going"])
        .code(2)
        .says(&["nosuch"]);
    assert!(!built.path("out.tf").exists());
}

#[test]
fn no_frame_is_no() {
    let built = functions(1);
    built
        .record("trace f0 if x == 7\n", &[])
        .code(1)
        .says(&["0 frames in out.tf"]);
    assert!(built.path("out.tf").exists());
    built.record("trace f0\n", &[]).code(0);
}

/// A script for KGTP needs features that only KGTP has, by the names of its variables.
#[test]
fn a_variable_with_a_meaning_elsewhere_is_warned_of() {
    let built = functions(1);
    let script = "tvariable $kret\ntvariable $hits\ntvariable $bt = 1\ntrace f0\nactions\n  teval $kret = 0\n  \
                  collect $hits\nend\n";
    let done = built.record(script, &[]).code(0).says(&[
        "warning: $kret is a plain variable here, with no effect; to KGTP it puts the tracepoint at the function's return\n",
        "warning: $bt is a plain variable here, with no effect; to KGTP it collects the stack\n",
    ]);
    assert!(!done.stderr.contains("$hits"), "{}", done.stderr);
    let undefined = "trace f0\nactions\n  teval $kret = 0\nend\n";
    built
        .record(undefined, &[])
        .code(2)
        .says(&["$kret is not a trace state variable"]);
}

/// LeakSanitizer ends a traced program with an error. A warning comes before the program runs; without LeakSanitizer it ends as
/// usual.
#[test]
fn a_program_with_leaksanitizer_is_warned_of() {
    const WARNING: &str = "the program has LeakSanitizer, which works under no tracer";
    let source = "#include <stdlib.h>\n\
                  __attribute__ ((noinline)) int work (int x) { asm (\"\"); return x; }\n\
                  int main (void) { free (malloc (8)); return work (3); }\n";
    let built = Built::new(source, &["-fsanitize=address"]);
    let ran = |options: &str| {
        let output = built
            .recorder("trace work\nactions\ncollect x\nend\n", &[])
            .env("ASAN_OPTIONS", options)
            .output()
            .expect("tracewire runs");
        crate::support::ran(output).code(0)
    };
    ran("detect_leaks=1").says(&[WARNING, "exited with code 1"]);
    ran("detect_leaks=0").says(&["exited with code 3"]);
    let plain = Built::new(source, &[]);
    let done = plain.record("trace work\n", &[]).code(0);
    assert!(!done.stderr.contains(WARNING), "{}", done.stderr);
}

/// Names in debug information are hostile, too: they neither control the terminal nor imitate a message.
#[test]
fn names_of_a_program_do_not_reach_the_terminal_as_they_are() {
    let source = r#"
__attribute__ ((noinline)) int other (void) { asm volatile (""); return 7; }
__attribute__ ((noinline)) int length_name (int seen) {
    int lostXname = other ();
    asm volatile ("" : : "r" (lostXname));
    seen += other ();
    return seen + other ();
}
int main (void) { return length_name (1) == 0; }
"#;
    let built = Built::new(source, &["-O2"]);
    let program = built.path("program");
    let mut bytes = std::fs::read(&program).expect("the program");
    let rename = |bytes: &mut [u8], old: &[u8], new: &[u8]| {
        assert_eq!(old.len(), new.len());
        let places = (0..bytes.len() - old.len()).filter(|at| bytes[*at..].starts_with(old));
        let places: Vec<usize> = places.collect();
        assert!(!places.is_empty());
        for at in places {
            bytes[at..at + new.len()].copy_from_slice(new);
        }
    };
    rename(&mut bytes, b"lostXname", b"l\n\x1b[31m\rs");
    rename(&mut bytes, b"length_name", b"f\n\x1b[31m\rok\x08");
    write_program(&program, &bytes);
    let done = built
        .run(&[
            "record",
            "-t",
            "program.c:7: $locals",
            "-o",
            "out.tf",
            "--",
            "./program",
        ])
        .code(0);
    assert_plain(&done);
    done.says(&[r"l\n\u{1b}[31m\rs: optimized out"]);
    for looked in [
        "show out.tf",
        "info out.tf",
        "list ./program",
        "find out.tf --where seen==1",
    ] {
        let arguments: Vec<&str> = looked.split(' ').collect();
        assert_plain(&built.run(&arguments));
    }
}

fn assert_plain(ran: &Ran) {
    for text in [&ran.stdout, &ran.stderr] {
        let other = text.chars().find(|one| one.is_control() && *one != '\n');
        assert_eq!(other, None, "{text:?}");
        for line in text.lines() {
            assert!(!line.starts_with(r"\u{1b}"), "{text}");
        }
    }
}

/// The address of a C string is no text: the message has the way to it.
#[test]
fn text_that_is_not_collected_is_told() {
    let built = Built::new(
        "struct job { const char *name; unsigned char *data; };\n\
         __attribute__ ((noipa)) int work (struct job *job, char *note) { return job->name[0] + *note; }\n\
         int main (void) { char note[] = \"n\"; struct job job = { \"alpha\", 0 }; return work (&job, note) < 0; }\n",
        &["-O1"],
    );
    let hint = |item: &str| {
        format!("{item}: the address is collected; `/s {item}` collects the text, too")
    };
    let done = built.record(
        "trace work\nactions\ncollect job->name, note, job->data\nend\n",
        &[],
    );
    let done = done.code(0).says(&[&hint("job->name"), &hint("note")]);
    assert!(!done.stderr.contains("data:"), "{}", done.stderr);
    let done = built.record(
        "trace work\nactions\ncollect/s job->name, note\ncollect $args, (long) note\nend\n",
        &[],
    );
    assert!(!done.code(0).stderr.contains("collects the text"));
}

/// GDB shows no counts, and is not named for them.
#[test]
fn a_run_of_counts_is_told_as_one() {
    let built = functions(1);
    let ran = built.run(&[
        "record",
        "-t",
        "f0 : count() by x",
        "-o",
        "out.tf",
        "--",
        "./program",
    ]);
    let done = ran
        .code(0)
        .says(&["counts in out.tf; hits: tracepoint 1 1"]);
    assert!(!done.stderr.contains("gdb"), "{}", done.stderr);
}

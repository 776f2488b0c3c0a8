//! `watch`: the writers of a value, compared with the program's own log of its writes.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use serde_json::Value;
use tracewire_test_support::Gdb;

use crate::support::{Built, Ran, ran, tracewire, value};

/// Threads that write to four objects, by turns of a lock, and log each write: the thread, the object, the value. `free` is written to
/// without a lock. `work` is there to have a tracepoint on code beside.
const WRITERS: &str = r#"
    #define _GNU_SOURCE
    #include <pthread.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <unistd.h>
    #include <sys/syscall.h>
    enum color { RED, GREEN, BLUE };
    struct pair { short low; short high; };
    int count = -7;
    struct { char before[8]; double mean; } table;
    struct pair pair;
    enum color color;
    unsigned long free_for_all;
    struct written { long thread; int object; double value; } log_of_writes[1 << 20];
    int logged;
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static int rounds;
    __attribute__((noinline)) long work(long n) { __asm__ volatile (".byte 0x0f, 0x1f, 0x44, 0, 0" : "+r" (n)); return n; }
    __attribute__((noinline)) static void write_one(int object, int value) {
        switch (object) {
        case 0: count = value; break;
        case 1: table.mean = value / 4.0; break;
        case 2: pair.high = (short) value; break;
        default: color = (unsigned) value % 3; break;
        }
        log_of_writes[logged].thread = syscall(SYS_gettid);
        log_of_writes[logged].object = object;
        log_of_writes[logged++].value = object == 1 ? value / 4.0 : object == 3 ? (double) ((unsigned) value % 3) : value;
    }
    static void *writer(void *seed) {
        unsigned state = (unsigned) (long) seed;
        for (int n = 0; n < rounds; n++) {
            state = state * 1103515245 + 12345;
            pthread_mutex_lock(&lock);
            write_one(state >> 16 & 3, (int) (state >> 4 & 0xfff) - 0x800);
            pthread_mutex_unlock(&lock);
            work(n);
        }
        return 0;
    }
    static void *free_writer(void *unused) {
        for (int n = 0; n < rounds; n++) __atomic_add_fetch(&free_for_all, 1, __ATOMIC_RELAXED);
        return unused;
    }
    int main(int number, char **words) {
        pthread_t all[8];
        rounds = atoi(words[1]);
        if (number > 2 && getchar() == EOF) return 1;
        for (long n = 0; n < 8; n++) pthread_create(&all[n], 0, words[1][0] == '+' ? free_writer : writer, (void *) (n + 1));
        for (int n = 0; n < 8; n++) pthread_join(all[n], 0);
        for (int n = 0; n < logged; n++)
            printf("%ld %d %g\n", log_of_writes[n].thread, log_of_writes[n].object, log_of_writes[n].value);
        printf("%lu\n", free_for_all);
        return 0;
    }
"#;

const OBJECTS: [&str; 4] = ["count", "table.mean", "pair.high", "color"];

/// The number for a value in the program's log.
fn number(text: &str) -> f64 {
    let names = ["RED", "GREEN", "BLUE"];
    match names.iter().position(|name| *name == text) {
        Some(number) => number as f64,
        None => text
            .parse()
            .unwrap_or_else(|error| panic!("{error}: {text}")),
    }
}

/// The writes to each object that a program has logged: which thread, which value.
fn logged(done: &Ran) -> BTreeMap<usize, Vec<(u64, f64)>> {
    let mut all: BTreeMap<usize, Vec<(u64, f64)>> = BTreeMap::new();
    for line in done.stdout.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        if let [thread, object, value] = words[..] {
            let object = object.parse().expect("a number");
            let thread = thread.parse().expect("a thread");
            all.entry(object).or_default().push((thread, number(value)));
        }
    }
    all
}

fn value_of<'a>(frame: &'a Value, expression: &str) -> &'a str {
    value(frame, expression).unwrap_or_else(|| panic!("{expression} in {frame}"))
}

/// Compares frames with the log: the same writes of each object, by the same threads, each from the value before.
fn compare(built: &Built, done: &Ran, initial: [f64; 4]) {
    let frames = built.frames();
    for (object, writes) in logged(done) {
        let own = frames
            .iter()
            .filter(|frame| frame["tracepoint"] == object as u64 + 1);
        let mut before = initial[object];
        let mut number_of_writes = 0;
        for (frame, (thread, value)) in own.zip(&writes) {
            assert_eq!(frame["thread"], *thread, "{frame}");
            assert_eq!(number(value_of(frame, OBJECTS[object])), *value, "{frame}");
            assert_eq!(number(value_of(frame, "$old")), before, "{frame}");
            assert_eq!(frame["function"], "write_one", "{frame}");
            before = *value;
            number_of_writes += 1;
        }
        assert_eq!(number_of_writes, writes.len(), "{}", OBJECTS[object]);
    }
}

#[test]
fn every_write_of_eight_threads_to_four_objects_is_recorded() {
    let built = Built::new(WRITERS, &["-O1", "-pthread"]);
    for mechanism in ["jump", "trap"] {
        for circular in [false, true] {
            let mut words = vec!["record", "-o", "out.tf", "--mechanism", mechanism];
            if circular {
                words.push("--circular");
            }
            let watched = OBJECTS.map(|object| format!("watch {object}"));
            for one in &watched {
                words.extend(["-t", one]);
            }
            // Hits in code beside those of memory.
            words.extend(["-t", "work : n", "--", "./program", "25"]);
            let done = built.run(&words).code(0);
            done.stdout.lines().last().expect("a count");
            compare(&built, &done, [-7.0, 0.0, 0.0, 0.0]);
            let frames = built.frames();
            let works = frames.iter().filter(|frame| frame["tracepoint"] == 5);
            assert_eq!(works.count(), 8 * 25, "{mechanism}, {circular}");
        }
    }
}

/// Two watches of one object, one of which is a part of the other, and a count instead of frames.
#[test]
fn writes_without_a_lock_are_all_counted() {
    let built = Built::new(WRITERS, &["-O1", "-pthread"]);
    let counted = "watch free_for_all : count(), count() by $_thread_is_no_variable";
    built
        .run(&[
            "record",
            "-o",
            "out.tf",
            "-t",
            counted,
            "--",
            "./program",
            "+9",
        ])
        .code(2)
        .says(&["$_thread_is_no_variable"]);
    let done = built
        .run(&[
            "record",
            "-o",
            "out.tf",
            "-t",
            "watch free_for_all : count()",
            "-t",
            "watch *(unsigned *) &free_for_all",
            "--",
            "./program",
            "+500",
        ])
        .code(0);
    assert_eq!(done.stdout.trim(), "4000");
    done.says(&["hits: tracepoint 1 4000, tracepoint 2 4000"]);
    let frames = built.frames();
    // A write that comes before the value of another one is read shows the newer value.
    let values: Vec<u64> = frames
        .iter()
        .filter(|row| row["kind"] == "hit")
        .map(|frame| {
            let value = value_of(frame, "*(unsigned *) &free_for_all");
            value.parse().expect("a number")
        })
        .collect();
    assert_eq!(values.len(), 4000);
    assert!(values.is_sorted());
    assert_eq!(values.last(), Some(&4000));
}

/// Conditions see the value and the previous one, also in a program that is attached to.
#[test]
fn a_condition_is_about_the_change() {
    const SPECIFICATION: &str = "watch count if count < $old";
    let built = Built::new(WRITERS, &["-O1", "-pthread"]);
    let mut program = Command::new(&built.program)
        .args(["100", "waits"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut recorder = tracewire()
        .current_dir(built.folder.path())
        .args(["record", "-o", "out.tf", "-t", SPECIFICATION, "-p"])
        .arg(program.id().to_string())
        .stderr(Stdio::piped())
        .spawn()
        .expect("tracewire runs");
    let said = BufReader::new(recorder.stderr.take().expect("stderr"));
    let mut said = said.lines().map_while(Result::ok);
    assert!(said.any(|line| line.contains("tracepoint 1 by watchpoint")));
    let mut input = program.stdin.take().expect("stdin");
    input.write_all(b"x").expect("written");
    let done = ran(program.wait_with_output().expect("it ends"));
    drop(said.by_ref().last());
    assert!(recorder.wait().expect("it ends").success());
    check_falls(&built, &done.code(0));
    let words = [
        "record",
        "-o",
        "out.tf",
        "-t",
        SPECIFICATION,
        "--",
        "./program",
        "100",
    ];
    check_falls(&built, &built.run(&words).code(0));
}

/// The frames are those of the writes that made `count` smaller.
fn check_falls(built: &Built, done: &Ran) {
    let writes = logged(done).remove(&0).expect("writes");
    let mut before = -7.0;
    let mut falls = Vec::new();
    for (_, value) in writes {
        if value < before {
            falls.push((before, value));
        }
        before = value;
    }
    let frames = built.frames();
    let shown = frames.iter().map(|frame| {
        let [before, value] = ["$old", "count"].map(|name| number(value_of(frame, name)));
        (before, value)
    });
    assert_eq!(shown.collect::<Vec<_>>(), falls);
}

#[test]
fn what_cannot_be_watched_is_refused_before_the_program_runs() {
    let built = Built::new(
        "#include <stdio.h>\n\
         struct { char bytes[40]; } large; long one, two, three, four, five; char *password; static __thread int own;\n\
         int get (int *argument) { int local = *argument; own = local; return local; }\n\
         int main (void) { int n = 3; puts (\"ran\"); *large.bytes = 1; one = get (&n); return password != 0; }\n",
        &["-O0"],
    );
    for (watch, words) in [
        ("watch nothing", "No symbol \"nothing\""),
        ("watch main", "This is code"),
        ("watch one + 1", "This is a value"),
        (
            "watch large",
            "40 bytes are more than debug registers can watch",
        ),
        ("watch own", "stays at one address"),
        ("watch local", "No symbol \"local\""),
        ("watch password", "redacted"),
        ("watch large.bytes : $old", "up to 8 bytes"),
        ("watch *large.bytes", ""),
    ] {
        let done = built.run(&["record", "-o", "out.tf", "-t", watch, "--", "./program"]);
        if words.is_empty() {
            done.code(0);
            continue;
        }
        assert_eq!(done.stdout, "", "{watch}");
        done.code(2).says(&[words]);
    }
    let all: Vec<String> = ["one", "two", "three", "four", "five"]
        .map(|name| format!("watch {name}"))
        .into();
    let mut words = vec!["record", "-o", "out.tf"];
    all.iter().for_each(|watch| words.extend(["-t", watch]));
    words.extend(["--", "./program"]);
    let done = built.run(&words).code(2);
    assert_eq!(done.stdout, "");
    done.says(&["all debug registers are in use"]);
}

#[test]
fn stock_gdb_shows_the_same_values() {
    let built = Built::new(WRITERS, &["-O1", "-pthread"]);
    built
        .run(&[
            "record",
            "-o",
            "out.tf",
            "-t",
            "watch count",
            "-t",
            "watch table.mean",
            "--",
            "./program",
            "20",
        ])
        .code(0);
    let script = built.run(&["show", "out.tf", "--gdb"]).code(0).stdout;
    std::fs::write(built.path("open.gdb"), script).expect("written");
    let frames = built.frames();
    let mut commands = vec!["source open.gdb".to_owned()];
    for frame in &frames {
        let number = frame["frame"].as_u64().expect("a number");
        let object = match frame["tracepoint"].as_u64() {
            Some(1) => "count",
            _ => "table.mean",
        };
        commands.push(format!("tfind {number}"));
        commands.push(format!(
            "printf \"%d|%g|%d\\n\", $trace_frame, (double) {object}, $tracepoint"
        ));
    }
    let gdb = Gdb::new().directory(built.folder.path());
    let shown = gdb.commands(&commands).run().output;
    let lines: Vec<&str> = shown.lines().filter(|line| line.contains('|')).collect();
    assert_eq!(lines.len(), frames.len(), "{shown}");
    for (line, frame) in lines.iter().zip(&frames) {
        let words: Vec<&str> = line.split('|').collect();
        let object = if words[2] == "1" {
            "count"
        } else {
            "table.mean"
        };
        assert_eq!(words[0], frame["frame"].to_string());
        assert_eq!(number(words[1]), number(value_of(frame, object)), "{line}");
    }
}

//! `--rate`: the kept and skipped hits are those of the program's own count.

use serde_json::Value;

use crate::limits::counts;
use crate::rescue::of_a_killed_recording;
use crate::support::{Built, Ran};

/// A rate of three frames, as no test takes an hour.
const THREE: &str = "3/h";

const MECHANISMS: [&str; 2] = ["jump", "trap"];

/// The hits of a tracepoint in the file, and how many of them were skipped.
fn reported(info: &Value, number: u64) -> (u64, u64) {
    let all = info["tracepoints"].as_array().expect("a list");
    let own = all.iter().filter(|one| one["number"] == number);
    own.fold((0, 0), |(hits, skipped), one| {
        // A field that does not apply is left out.
        (
            hits + one["hits"].as_u64().expect("a number"),
            skipped
                + one
                    .get("skipped")
                    .map_or(0, |n| n.as_u64().expect("a number")),
        )
    })
}

/// How many frames of a tracepoint the file has.
fn frames_of(built: &Built, number: u64) -> u64 {
    let frames = built.frames();
    frames
        .iter()
        .filter(|frame| frame["tracepoint"] == number)
        .count() as u64
}

fn record(built: &Built, options: &[&str], program: &[&str]) -> Ran {
    let mut words = vec!["record", "-o", "out.tf"];
    words.extend(options);
    words.extend(["--", "./program"]);
    words.extend(program);
    built.run(&words)
}

/// The program's own count.
fn own_count(done: &Ran) -> u64 {
    done.stdout.trim().parse().expect("the program's own count")
}

#[test]
fn what_is_kept_and_what_is_skipped_is_all_there_was() {
    let built = counts();
    for mechanism in MECHANISMS {
        for (threads, calls) in [("1", "3000"), ("8", "1500")] {
            for buffer in [&[][..], &["--circular"]] {
                let mut options = vec!["--mechanism", mechanism, "--rate", THREE, "-t", "work : n"];
                options.extend(buffer);
                let done = record(&built, &options, &[threads, calls]).code(0);
                let count = own_count(&done);
                let line = format!(
                    "tracepoint 1: {} of {count} hits were skipped, for --rate or --budget",
                    count - 3
                );
                done.says(&[&line]);
                let info = built.info();
                assert_eq!(
                    reported(&info, 1),
                    (count, count - 3),
                    "{options:?}, {threads}"
                );
                assert_eq!(info["skipped"], count - 3);
                assert_eq!(frames_of(&built, 1), 3);
            }
        }
    }
}

/// A rate lets this many frames through in any interval of the run, and spreads them over it.
#[test]
fn there_are_no_more_frames_than_the_rate_allows() {
    let built = counts();
    for (mechanism, calls, rate) in [("jump", "400000", 20_000), ("trap", "1500", 200)] {
        for threads in ["1", "8"] {
            let text = format!("{rate}/s");
            let options = ["--mechanism", mechanism, "--rate", &text, "-t", "work : n"];
            let count = own_count(&record(&built, &options, &[threads, calls]).code(0));
            let frames = built.frames();
            let kept = frames.len() as u64;
            let (hits, skipped) = reported(&built.info(), 1);
            assert_eq!((hits, kept + skipped), (count, count));
            let times: Vec<u64> = frames
                .iter()
                .map(|frame| frame["time_us"].as_u64().expect("a number"))
                .collect();
            let burst = (rate / 10).max(10);
            // With several threads, one may be stopped between the decision and the frame for as long as the run.
            if threads == "1" {
                for (place, to) in times.iter().enumerate().step_by(50) {
                    for (first, from) in times.iter().enumerate().take(place).step_by(50) {
                        let between = place - first;
                        // Clocks are read at different moments, and one may be set.
                        let most = burst + 1 + (to - from + 10_000) * rate / 1_000_000;
                        assert!(
                            between as u64 <= most,
                            "{mechanism}: {between} in {} µs",
                            to - from
                        );
                    }
                }
            }
            assert!(kept >= burst.min(count), "{mechanism}, {threads}: {kept}");
        }
    }
}

#[test]
fn each_tracepoint_has_its_own_rate_for_all_of_its_places() {
    let built = Built::new(
        "#include <stdio.h>\n\
         #define F(name) __attribute__ ((noinline)) long name (long n) \\\n\
         { __asm__ volatile (\".byte 0x0f, 0x1f, 0x44, 0, 0\" : : \"r\" (n) : \"memory\"); return n; }\n\
         F (part_one) F (part_two) F (other)\n\
         int main (void)\n\
         { long n; for (n = 0; n < 1000; n++) { part_one (n); part_two (n); other (n); }\n\
           printf (\"%ld\\n\", n); return 0; }\n",
        &["-O1"],
    );
    for mechanism in MECHANISMS {
        let options = [
            "--mechanism",
            mechanism,
            "--rate",
            THREE,
            "--rate",
            "1/h:2,4",
            "--rate",
            "1000000/s:3",
            "-t",
            "part_* : n",
            "-t",
            "other : n",
            "-t",
            "other",
            "-t",
            "part_one if n >= 500 : n",
        ];
        let done = record(&built, &options, &[]).code(0);
        assert_eq!(own_count(&done), 1000);
        let info = built.info();
        assert_eq!(reported(&info, 1), (2000, 1997), "{mechanism}");
        assert_eq!(reported(&info, 2), (1000, 999), "{mechanism}");
        // Hits are those with a true condition.
        assert_eq!(reported(&info, 4), (500, 499), "{mechanism}");
        let (hits, skipped) = reported(&info, 3);
        assert_eq!(
            (hits, frames_of(&built, 3) + skipped),
            (1000, 1000),
            "{mechanism}"
        );
        assert_eq!([1, 2, 4].map(|number| frames_of(&built, number)), [3, 1, 1]);
        // The commands that show frames report how many were skipped.
        let skipped = [
            "tracewire: tracepoint 1: 1997 of 2000 hits were skipped, for --rate or --budget",
            "tracewire: tracepoint 2: 999 of 1000 hits were skipped, for --rate or --budget",
            "tracewire: tracepoint 4: 499 of 500 hits were skipped, for --rate or --budget",
        ];
        built.run(&["show", "out.tf"]).code(0).says(&skipped);
        let of_one = built.run(&["show", "--tracepoint", "2", "out.tf"]).code(0);
        assert!(!of_one.stderr.contains("tracepoint 1"), "{}", of_one.stderr);
        of_one.says(&[skipped[1]]);
        let frame = built.run(&["show", "--frame", "0", "out.tf"]).code(0);
        assert!(!frame.stderr.contains("skipped"), "{}", frame.stderr);
        let text = built.run(&["info", "out.tf"]).code(0).stdout;
        assert!(
            text.contains("499 hits skipped: the run limited its frames"),
            "{text}"
        );
    }
}

/// A hit without a frame is a hit: it is counted by aggregates, and for the pass count.
#[test]
fn skipped_hits_are_hits() {
    let built = counts();
    for mechanism in MECHANISMS {
        let options = [
            "--mechanism",
            mechanism,
            "--rate",
            THREE,
            "-t",
            "work : n, count(), max(n)",
        ];
        let done = record(&built, &options, &["8", "300"]).code(0);
        assert_eq!(own_count(&done), 2400);
        assert_eq!(reported(&built.info(), 1), (2400, 2397), "{mechanism}");
        let tables = built
            .run(&["show", "out.tf", "--aggregates", "--json"])
            .code(0)
            .json();
        let values: Vec<_> = tables.iter().map(|row| row["value"].clone()).collect();
        assert_eq!(values, [2400, 299], "{mechanism}: {tables:?}");

        std::fs::write(
            built.path("passes.gdb"),
            "trace work\nactions\ncollect n\nend\npasscount 700\n",
        )
        .expect("written");
        let options = [
            "--mechanism",
            mechanism,
            "--rate",
            THREE,
            "-x",
            "passes.gdb",
        ];
        record(&built, &options, &["8", "300"]).code(0);
        assert_eq!(reported(&built.info(), 1), (700, 697), "{mechanism}");
        assert_eq!(frames_of(&built, 1), 3);
    }
}

#[test]
fn a_skipped_hit_makes_no_steps() {
    let built = counts();
    std::fs::write(
        built.path("steps.gdb"),
        "trace work\nactions\ncollect n\nwhile-stepping 2\ncollect $rip\nend\nend\n",
    )
    .expect("written");
    record(&built, &["--rate", THREE, "-x", "steps.gdb"], &["2", "500"]).code(0);
    assert_eq!(reported(&built.info(), 1), (1000, 997));
    assert_eq!(built.frames().len(), 9);
}

/// Each process has a separate rate, and the summary adds the skipped hits.
#[test]
fn processes_have_the_rate_each_for_itself() {
    let built = counts();
    for mechanism in MECHANISMS {
        let done = built
            .run(&[
                "record",
                "--mechanism",
                mechanism,
                "--rate",
                THREE,
                "-t",
                "work : n",
                "--follow-forks",
                "--pending",
                "-o",
                mechanism,
                "--",
                "/bin/sh",
                "-c",
                "./program 2 300 & ./program 1 500; wait",
            ])
            .code(0);
        done.says(&[
            "6 frames of ",
            "tracepoint 1: 597 of 600 hits were skipped, for --rate or --budget",
            "tracepoint 1: 497 of 500 hits were skipped, for --rate or --budget",
        ]);
        built
            .run(&["show", mechanism])
            .code(0)
            .says(&["tracepoint 1: 1094 of 1100 hits were skipped, for --rate or --budget"]);
    }
}

#[test]
fn rates_that_cannot_be_are_refused_before_the_program_runs() {
    let built = counts();
    for (options, words) in [
        (
            &["--rate", "10/s", "-t", "work : n", "-t", "span work : n"][..],
            "tracepoint 2 measures calls",
        ),
        (
            &["--rate", "10/s:7", "-t", "work : n"],
            "a rate is for tracepoint 7",
        ),
        (
            &["--rate", "10", "-t", "work : n"],
            "expected a number of frames and a time",
        ),
    ] {
        let done = record(&built, options, &["1", "1"]).code(2).says(&[words]);
        assert_eq!(done.stdout, "");
    }
    let options = ["--rate", "1/h:1", "-t", "work : n", "-t", "span work : n"];
    record(&built, &options, &["1", "10"]).code(0);
    assert_eq!(reported(&built.info(), 1), (10, 9));
}

/// One location of the tracepoint has a jump. The other has a trap: its first instruction is short, a jump leads to the next one,
/// and the following bytes would make a punned jump lead into the program.
#[test]
fn a_jump_and_a_trap_share_the_rate_of_their_tracepoint() {
    let built = Built::new(
        "#include <stdio.h>\n\
         __attribute__ ((noinline)) long part_one (long n)\n\
         { __asm__ volatile (\".byte 0x0f, 0x1f, 0x44, 0, 0\" : : \"r\" (n) : \"memory\"); return n; }\n\
         __asm__ (\".text\\n.globl part_two\\n.type part_two, @function\\npart_two: nop\\n1: .byte 0, 0, 0, 0\\n\"\n\
                  \"dec %edi\\njns 1b\\nret\\n.size part_two, . - part_two\\n\");\n\
         int main (void)\n\
         { static char touched[16]; long n;\n\
           for (n = 0; n < 1000; n++)\n\
             { part_one (n);\n\
               __asm__ volatile (\"xor %%edi, %%edi\\n\\tcall part_two\" : : \"a\" (touched) : \"rdi\", \"memory\", \"cc\"); }\n\
           printf (\"%ld\\n\", n); return 0; }\n",
        &["-O1", "-mno-red-zone"],
    );
    let done = record(&built, &["--rate", THREE, "-t", "part_*"], &[]).code(0);
    assert_eq!(own_count(&done), 1000);
    let info = built.info();
    let all = info["tracepoints"].as_array().expect("a list");
    let is_trap: Vec<bool> = all.iter().map(|one| one["mechanism"] == "trap").collect();
    assert!(
        is_trap.contains(&true) && is_trap.contains(&false),
        "{all:?}"
    );
    assert!(all.iter().all(|one| one["hits"] == 1000), "{all:?}");
    assert_eq!(reported(&info, 1), (2000, 1997));
    assert_eq!(frames_of(&built, 1), 3);
}

/// The counts of a location remain when its library is closed.
#[test]
fn hits_in_a_library_that_is_closed_stay_counted() {
    let built = Built::new(
        "#include <dlfcn.h>\n#include <stdio.h>\n\
         int main (void)\n\
         { long count = 0;\n\
           for (int round = 0; round < 3; round++)\n\
             { void *library = dlopen (\"./part.so\", RTLD_NOW);\n\
               long (*part) (long) = (long (*) (long)) dlsym (library, \"part\");\n\
               for (long n = 0; n < 200; n++, count++) part (n);\n\
               dlclose (library); }\n\
           printf (\"%ld\\n\", count); return 0; }\n",
        &["-O1", "-ldl"],
    );
    built.compile(
        "part.so",
        "__attribute__ ((noinline)) long part (long n)\n\
         { __asm__ volatile (\".byte 0x0f, 0x1f, 0x44, 0, 0\" : : \"r\" (n) : \"memory\"); return n; }\n",
        &["-O1", "-shared", "-fPIC"],
    );
    for mechanism in MECHANISMS {
        let options = [
            "--mechanism",
            mechanism,
            "--rate",
            THREE,
            "--pending",
            "-t",
            "part : n",
        ];
        let done = record(&built, &options, &[]).code(0);
        assert_eq!(own_count(&done), 600);
        assert_eq!(reported(&built.info(), 1), (600, 597), "{mechanism}");
        assert_eq!(frames_of(&built, 1), 3);
    }
}

/// The counts are in the memory of the program, and outlive a Tracewire that is killed.
#[test]
fn a_rescue_knows_what_a_killed_recording_has_skipped() {
    let (_, rescued) = of_a_killed_recording(5000, &["--rate", THREE]);
    rescued.says(&["4997 hits skipped, for a pick, --rate or --budget"]);
}

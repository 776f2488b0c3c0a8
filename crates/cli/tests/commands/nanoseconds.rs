//! `time_ns`: by jumps and by traps, in the order of the frames, and close to the program's own clock.

use serde_json::Value;

use crate::support::Built;

const PROGRAM: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <time.h>

static volatile int sink;

static long now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000 + time.tv_nsec;
}

__attribute__((noinline)) void begin(int turn, long time) { sink = turn + (int)time; }
__attribute__((noinline)) void end(int turn, long time) { sink = turn - (int)time; }

static void *work(void *argument)
{
    for (int turn = 0; turn < 100; turn++) {
        begin(turn, now());
        for (volatile int wait = 0; wait < 100 * (turn % 10 + 1); wait++) { }
        end(turn, now());
    }
    return argument;
}

int main(void)
{
    pthread_t other;
    pthread_create(&other, 0, work, 0);
    work(0);
    pthread_join(other, 0);
}
"#;

fn number(frame: &Value, name: &str) -> i64 {
    let value = crate::support::value(frame, name).expect("a value");
    value.parse().expect("a number")
}

fn check(mechanism: &str, within: u64) {
    let built = Built::new(PROGRAM, &["-O1", "-pthread"]);
    let program = built.program.display().to_string();
    built
        .run(&[
            "record",
            "--mechanism",
            mechanism,
            "-t",
            "begin : turn, time",
            "-t",
            "end : turn, time",
            "-o",
            "out.tf",
            "--",
            &program,
        ])
        .code(0);
    let frames = built.frames();
    assert_eq!(frames.len(), 400);
    let mut last = 0;
    let mut begun = std::collections::HashMap::new();
    let mut wrong = Vec::new();
    for frame in &frames {
        let time = frame["time_ns"].as_u64().expect("nanoseconds");
        assert_eq!(Some(time / 1000), frame["time_us"].as_u64());
        assert!(time >= last, "{time} after {last}");
        last = time;
        let (thread, own) = (frame["thread"].as_u64(), number(frame, "time"));
        if frame["tracepoint"] == 1 {
            begun.insert(thread, (time, own));
        } else if let Some((begin, own_begin)) = begun.remove(&thread) {
            // Each clock is read right before its hit, so the cost of a hit is in both alike.
            wrong.push((time - begin).abs_diff((own - own_begin).cast_unsigned()));
        }
    }
    wrong.sort_unstable();
    assert_eq!(wrong.len(), 200);
    assert!(wrong[100] <= within, "{} ns at the median", wrong[100]);
    // Microseconds would end in three zeros.
    let whole = frames.iter().filter(|frame| {
        frame["time_ns"]
            .as_u64()
            .is_some_and(|time| time % 1000 == 0)
    });
    assert!(whole.count() < 40);
}

#[test]
fn nanoseconds_of_jumps() {
    check("jump", 500);
}

#[test]
fn nanoseconds_of_traps() {
    check("trap", 50_000);
}

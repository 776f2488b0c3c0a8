//! The variables of inlined calls under separate names, and values that are lost at a place.

use std::path::Path;

use crate::programs::{build, record};
use crate::support::{Ran, ran, tracewire};

const PROGRAM: &str = r#"
#include <stdio.h>
static volatile int sink;
static inline __attribute__ ((always_inline)) int scaled (int count, int factor)
{
  sink = count;
  return count * factor;
}
__attribute__ ((noinline)) int handle (int job, int retries) { return scaled (job, 7) + retries; }
__attribute__ ((noinline)) int passed (int first, int second)
{
  int sum = printf ("%d\n", first);
  sink = sum; /* passed */
  return sum + second;
}
__attribute__ ((noinline)) int lost (int first, int second)
{
  int twice = first * 2; /* whole */
  sink = twice;
  for (int i = 0; i < second; i++)
    sink = printf ("%d\n", i);
  return sink; /* lost */
}
int (*volatile by_pointer) (int, int) = lost;
int main (void)
{
  int sum = 0;
  for (int i = 1; i < 4; i++)
    sum += handle (i, i * 2) + passed (i, 5) + by_pointer (i, 2);
  return sum == 0;
}
"#;

fn line(mark: &str) -> usize {
    let at = PROGRAM.lines().position(|line| line.contains(mark));
    at.expect("the mark is there") + 1
}

fn recorded(directory: &Path, specifications: &[&str]) -> Ran {
    let source = directory.join("inlined.c");
    std::fs::write(&source, PROGRAM).unwrap();
    let program = build(directory, "gcc", &["-g", "-O2"], &[&source]);
    record(&program, specifications, &[]).code(0)
}

/// The values of each frame, as `NAME = VALUE`.
fn shown(directory: &Path) -> Vec<Vec<String>> {
    let show = tracewire()
        .current_dir(directory)
        .args(["show", "--json", "out.tf"])
        .output();
    let frames = ran(show.expect("tracewire runs")).code(0).json();
    let text = |value: &serde_json::Value| {
        let part = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
        format!("{} = {}", part("expression"), part("value"))
    };
    frames
        .iter()
        .map(|frame| {
            let values = frame["values"].as_array();
            values.into_iter().flatten().map(text).collect()
        })
        .collect()
}

#[test]
fn inlined_calls_have_names() {
    let directory = tempfile::tempdir().unwrap();
    let ran = recorded(
        directory.path(),
        &[
            "handle : $args, $inlined",
            "handle if scaled::count == 2 : scaled::factor, job",
            "passed : $inlined",
        ],
    );
    // The function's own line, and not that of the copy that it begins with.
    let own = format!("in handle (inlined.c:{})", line("int handle"));
    let said = ran
        .stderr
        .replace(&format!("{}/", directory.path().display()), "");
    assert!(said.contains(&own), "{said}");
    assert!(
        said.contains("$inlined: no function is inlined at the address"),
        "{said}"
    );
    let frames = shown(directory.path());
    let mut first = frames[0].clone();
    first.sort();
    assert_eq!(
        first,
        [
            "job = 1",
            "retries = 2",
            "scaled::count = 1",
            "scaled::factor = 7"
        ]
    );
    let of_condition = ["scaled::factor = 7", "job = 2"];
    assert!(
        frames.iter().any(|frame| frame[..] == of_condition),
        "{frames:?}"
    );
}

#[test]
fn what_the_caller_passed_is_shown() {
    let directory = tempfile::tempdir().unwrap();
    let place = format!("inlined.c:{} : first, second", line("/* passed */"));
    let ran = recorded(directory.path(), &[&place]);
    let expected: Vec<Vec<String>> = (1..4)
        .map(|first| vec![format!("first = {first}"), "second = 5".to_owned()])
        .collect();
    assert_eq!(shown(directory.path()), expected, "{}", ran.stderr);
}

#[test]
fn a_lost_value_has_a_place_nearby() {
    let directory = tempfile::tempdir().unwrap();
    let place = format!("inlined.c:{} : first", line("/* lost */"));
    let ran = recorded(directory.path(), &[&place]);
    let nearby = ran.stderr.lines().find_map(|line| {
        let (_, place) = line.split_once("; it is kept at inlined.c:")?;
        place.split(' ').next()?.parse::<usize>().ok()
    });
    let nearby = nearby.unwrap_or_else(|| panic!("{}", ran.stderr));
    // There it can be had.
    let place = format!("inlined.c:{nearby} : first");
    recorded(directory.path(), &[&place]);
    assert_eq!(
        shown(directory.path()),
        [["first = 1"], ["first = 2"], ["first = 3"]]
    );
}

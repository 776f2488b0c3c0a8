//! Tracepoints on what is not there yet.

use crate::support::{Built, value};

/// Opens `plugin.so` twice, and calls its function with 0 and 1.
const OPENS: &str = r#"
#include <dlfcn.h>
#include <stdio.h>
int main (void)
{
  int sum = 0;
  for (int i = 0; i < 2; i++)
    {
      void *library = dlopen ("./plugin.so", RTLD_NOW);
      if (!library)
        return 1;
      int (*f) (int) = dlsym (library, "plugin_work");
      sum += f (i);
      dlclose (library);
    }
  printf ("%d\n", sum);
  return 0;
}
"#;

fn opens_a_library() -> Built {
    let built = Built::new(OPENS, &["-O0", "-ldl"]);
    built.compile(
        "plugin.so",
        "int plugin_work (int n) { return n + 40; }\n",
        &["-O0", "-shared", "-fPIC"],
    );
    built
}

fn values_of_n(built: &Built) -> Vec<String> {
    let frames = built.frames();
    let values = frames.iter().filter_map(|frame| value(frame, "n"));
    values.map(str::to_owned).collect()
}

#[test]
fn a_library_that_is_opened_later_is_waited_for() {
    let built = opens_a_library();
    let done = built
        .record("trace plugin_work\nactions\ncollect n\nend\n", &[])
        .code(0);
    assert_eq!(done.stdout, "81\n");
    done.says(&["tracepoint 1 waits", "plugin_work", "plugin.so.c:1"]);
    assert_eq!(values_of_n(&built), ["0", "1"]);
    let frames = built.frames();
    assert!(
        frames
            .iter()
            .all(|frame| frame["function"] == "plugin_work")
    );

    let done = built.record("trace never_there\n", &[]).code(1);
    assert_eq!(done.stdout, "81\n");
    done.says(&["tracepoint 1 was never set", "never_there"]);
}

#[test]
fn the_script_says_what_becomes_of_a_name_that_is_not_found() {
    let built = opens_a_library();
    let with = |setting: &str, name: &str| {
        let actions = "actions\ncollect $regs\nend\n";
        built.record(&format!("{setting}\ntrace {name}\n{actions}"), &[])
    };
    // Off: an error before the program has run.
    let done = with("set breakpoint pending off", "plugin_work").code(2);
    assert_eq!(done.stdout, "");
    done.says(&["plugin_work"]);
    // Auto: a slip of the pen is an error, and it is told how it is waited for all the same.
    let done = with("set breakpoint pending auto", "mian").code(2);
    assert_eq!(done.stdout, "");
    done.says(&["mian", "main", "set breakpoint pending on"]);
    // On: waited for, whatever it looks like.
    let done = with("set breakpoint pending on", "mian").code(1);
    assert_eq!(done.stdout, "81\n");
    done.says(&["tracepoint 1 was never set", "mian"]);
    let done = with("set breakpoint pending on", "plugin_work").code(0);
    assert_eq!(done.stdout, "81\n");
    assert_eq!(built.frames().len(), 2);
}

#[test]
fn frames_have_room_for_the_registers_that_what_waits_names() {
    let built = opens_a_library();
    let size = |registers: &str| {
        let script = format!("trace plugin_work\nactions\ncollect n, {registers}\nend\n");
        let done = built.record(&script, &[]).code(0);
        assert!(!done.stderr.contains("no room"), "{}", done.stderr);
        assert_eq!(values_of_n(&built), ["0", "1"]);
        built.info()["register_block_size"].as_u64()
    };
    assert_eq!(size("$rip"), Some(560));
    assert_eq!(size("$ymm0h"), Some(816));
    assert_eq!(size("$k1, $rip"), Some(2416));
}

//! Tracepoints on places that do not exist yet.

use std::process::Command;

use crate::support::{Built, Ran, value};

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

impl Built {
    /// `record --pending` into `out.tf`, with a script.
    fn waiting(&self, script: &str) -> Ran {
        std::fs::write(self.path("script.gdb"), script).expect("written");
        self.run(&[
            "record",
            "--pending",
            "-x",
            "script.gdb",
            "-o",
            "out.tf",
            "--",
            "./program",
        ])
    }
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
        .waiting("trace plugin_work\nactions\ncollect n\nend\n")
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

    let done = built.waiting("trace never_there\n").code(1);
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
    // Auto, and without it: an error too, which explains how to wait.
    for (setting, name) in [
        ("set breakpoint pending auto", "mian"),
        ("", "mian"),
        ("", "plugin_work"),
        ("", "nosuch.c:12"),
    ] {
        let done = with(setting, name).code(2);
        assert_eq!(done.stdout, "", "{name}");
        done.says(&[name, "--pending"]);
        assert!(!built.path("out.tf").exists());
        assert!(!built.path("out.tf.recording").exists());
    }
    with("", "mian").says(&["did you mean main?"]);
    // As for a process that is attached to: it runs on.
    let mut program = Command::new("sleep")
        .arg("1000")
        .spawn()
        .expect("sleep runs");
    let id = program.id().to_string();
    built
        .run(&["record", "-t", "mian_loop", "-o", "x.tf", "-p", &id])
        .code(2)
        .says(&["mian_loop", "--pending"]);
    assert!(program.try_wait().expect("waited").is_none());
    program.kill().expect("killed");
    program.wait().expect("ended");
    // On: waited for, with any name.
    let done = with("set breakpoint pending on", "mian").code(1);
    assert_eq!(done.stdout, "81\n");
    done.says(&["tracepoint 1 was never set", "mian"]);
    let done = with("set breakpoint pending on", "plugin_work").code(0);
    assert_eq!(done.stdout, "81\n");
    assert_eq!(built.frames().len(), 2);
}

#[test]
fn frames_have_room_for_what_a_tracepoint_collects_that_waits() {
    let built = opens_a_library();
    let script = "trace plugin_work\nactions\ncollect n, $xmm0, $fs_base\nend\n";
    let done = built.waiting(script).code(0);
    assert!(!done.stderr.contains("no room"), "{}", done.stderr);
    assert_eq!(values_of_n(&built), ["0", "1"]);
    assert_eq!(built.info()["register_block_size"], 560);
}

#[test]
fn a_register_that_is_found_to_be_needed_too_late_is_named() {
    let built = Built::new(
        "#include <unistd.h>\nint step (int n) { return n; }\nint main (void)\n{\n  step (1);\n  \
         execl (\"./other\", \"./other\", (char *) 0);\n  return 1;\n}\n",
        &["-O0"],
    );
    built.compile(
        "other",
        "__attribute__ ((noinline, noclone)) double step (double n) { return n / 2; }\n\
         int main (int argc, char **argv) { return step (argc + 2) != 1.5; }\n",
        &["-O2"],
    );
    // The program that it becomes has the same argument in a register of another kind.
    let done = built.record("trace step\nactions\ncollect n\nend\n", &[]);
    done.code(0)
        .says(&["warning", "tracepoint 1", "no room for $xmm0"]);
    assert_eq!(values_of_n(&built), ["1", "<unavailable>"]);
    let done = built.record("trace step\nactions\ncollect n, $xmm0\nend\n", &[]);
    let done = done.code(0);
    assert!(!done.stderr.contains("no room"), "{}", done.stderr);
    assert_eq!(values_of_n(&built), ["1", "3"]);
}

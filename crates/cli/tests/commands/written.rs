//! `check` accepts every written trace file.
//!
//! Files that servers save (`tsave`, QTSave) are checked where they are saved (`session`, `gdbserver`, `kept_registers`). Those of
//! `rescue` and `collect` are checked wherever these run.

use std::path::{Path, PathBuf};

use tracewire_test_support::assert_clean;

use crate::support::Built;

const SOURCE: &str = "\
#include <pthread.h>
long total;
__attribute__ ((noinline)) void leaf (long by) { total += by; }
__attribute__ ((noinline)) void work (long n) { for (long i = 0; i < n; i++) leaf (i); }
static void *run (void *start) { for (int i = 0; i < 40; i++) work (i % 5); return start; }
int main (void)
{
  pthread_t thread;
  pthread_create (&thread, 0, run, 0);
  run (0);
  pthread_join (thread, 0);
  return 0;
}
";

const SCRIPT: &str = "\
tvariable $n = 3
trace leaf if by != 2
actions
  collect by, total, $n
  teval $n = $n + 1
end
trace work
actions
  collect $regs, n
  while-stepping 7
    collect $rip, total
  end
end
passcount 30
";

/// The trace files in a directory.
fn trace_files(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).expect("a directory");
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|end| end == "tf"))
        .collect();
    files.sort();
    files
}

#[test]
fn every_way_to_write_a_trace_file_leaves_nothing_for_check() {
    let built = Built::new(SOURCE, &["-O1", "-pthread"]);
    std::fs::write(built.path("x.gdb"), SCRIPT).expect("written");
    let run = |words: &str| built.run(&words.split(' ').collect::<Vec<_>>()).code(0);
    run("record -x x.gdb -o linear.tf -- ./program");
    run("record -x x.gdb --mechanism trap -o trap.tf -- ./program");
    run("record -x x.gdb --circular --buffer-size 4KiB -o circular.tf -- ./program");
    run("record -x x.gdb --buffer-size 4KiB -o full.tf -- ./program");
    run("record -t leaf -t work --circular --buffer-size 4KiB -o plain.tf -- ./program");
    for name in ["linear", "trap", "circular", "full", "plain"] {
        run(&format!("convert {name}.tf {name}.jsonl"));
        run(&format!("convert {name}.jsonl {name}-back.tf"));
        run(&format!("convert {name}.tf {name}-cut.tf --frame 5..30"));
        run(&format!("convert {name}.tf {name}-by.tf --split-by thread"));
        run(&format!(
            "convert {name}.tf {name}-of.tf --split-by tracepoint"
        ));
        run(&format!("repair {name}.tf -o {name}-repaired.tf"));
        let bytes = std::fs::read(built.path(&format!("{name}.tf"))).expect("the file");
        std::fs::write(built.path("damaged"), &bytes[..bytes.len() * 2 / 3]).expect("written");
        run(&format!("repair damaged -o {name}-saved.tf"));
    }
    run("convert linear.tf trap.tf merged.tf");
    run("convert circular.tf linear-cut.tf merged-parts.tf");
    let files = trace_files(built.folder.path());
    assert!(files.len() > 40, "{files:?}");
    for file in &files {
        assert_clean(file);
    }
}

//! Times: each line of a trace has its own.

use super::{run, shown, trace};

/// The lines of the format's own page.
const DOCUMENTED: &str = "1 clk 0 IT (1) 00000004 3c080001 A svc : lui t0,0x1\n\
                          10 clk MR8 00103fc4 0010400000000000\n\
                          14 clk R r8 00000000\n";

#[test]
fn lines_of_other_times_keep_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = trace(&folder, DOCUMENTED);
    let converted = run(&path, "convert @ - --to qemu4v").code(0).stdout;
    assert_eq!(converted, DOCUMENTED);
    let executed = &shown(DOCUMENTED)[0];
    assert_eq!(executed["time"], 1);
    assert_eq!(executed["accesses"][0]["time"], 10);
    assert_eq!(executed["register_writes"][0]["time"], 14);
    // A time that is the instruction's is not repeated.
    let usual = &shown("1 clk 0 IT (1) 00000004 3c080001 A svc : x\n1 clk R r8 00000000\n")[0];
    assert!(usual["register_writes"][0].get("time").is_none());
    let info = run(&path, "info @").code(0).stdout;
    assert!(info.contains("1 clk to 14 clk"), "{info}");
    for time in ["0", "1", "10", "12", "14"] {
        let found = run(&path, &format!("show @ --json --time {time}"));
        assert_eq!(found.code(0).json()[0]["instruction"], 0, "{time}");
    }
    run(&path, "show @ --time 15")
        .code(2)
        .says(&["no instruction is at time 15 or later"]);
}

#[test]
fn the_instruction_of_a_time_comes_before_those_that_did_something_then() {
    let folder = tempfile::tempdir().unwrap();
    // The load's register is written when the next but one executes; nothing executes at 7 ns and a half.
    let path = trace(
        &folder,
        "5.0 ns IT (1) 00008000 f9400020 O EL1h_ns : LDR x0,[x1]\n\
         6.0 ns IT (2) 00008004 d503201f O EL1h_ns : NOP\n\
         7.0 ns IT (3) 00008008 d503201f O EL1h_ns : NOP\n\
         7.5 ns R X0 0000000000000005\n\
         8.0 ns IT (4) 0000800c d503201f O EL1h_ns : NOP\n",
    );
    for (time, number) in [("5", 0), ("6.0", 1), ("6.5", 2), ("7.5", 2), ("7.6", 3)] {
        let found = run(&path, &format!("show @ --json --time {time}"));
        assert_eq!(found.code(0).json()[0]["instruction"], number, "{time}");
    }
}

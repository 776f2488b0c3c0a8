//! The parts of the target `simulator_logs`: a format each, so that it gets all the inputs.
//!
//! The fuzz target includes this file.

/// The environment variable that names the part to run.
pub const VARIABLE: &str = "TRACEWIRE_FUZZ_PART";

/// The name of each part, and with what its texts begin: the format is recognised by that. An input chooses one of them.
pub const PARTS: [(&str, &[&str]); 11] = [
    (
        "spike",
        &[
            "core   0: 0x0000000080000000 (0x00893683) ld      a3, 8(s2)\n",
            "core   0: 3 0x0000000080000000 (0x638c) x11 0x0000000000000001 mem 0x0000000080002000\n",
        ],
    ),
    (
        "gem5",
        &["1000: system.cpu: A0 T0 : 0x1000 @main+4    : nop\n"],
    ),
    (
        "rvfi",
        &[
            "Time\tCycle\tPC\tInsn\tDecoded instruction\tRegister and memory contents\n",
            "142 ns 67 00000150 04812083 M lw x1, 72(x2) x1=0x00000001 x2:0x00001000 PA:0x00001048\n",
        ],
    ),
    ("execlog", &["0, 0x1000, 0x90, \"nop\"\n"]),
    (
        "qemu4v",
        &["5 clk 0 IT (1) 00001000 e320f000 A svc : nop\n"],
    ),
    (
        "tarmac",
        &[
            "6 ns ES (00001000:4770) T thread: bx lr\n",
            "6 ns IT (00001000:1) e320f000 A svc : nop\n",
            "6 clk cpu1 IT (1) 00001000 e320f000 A svc_ns : nop\n",
        ],
    ),
    (
        "microtesk",
        &["0 clk 0 IT (0) 0000000000001000 e320f000 A svc_ns : nop\n"],
    ),
    ("control-flow", &["# transcript of a control flow trace\n"]),
    (
        "qemu-log",
        &[
            "# transcript of a QEMU log\n",
            "IN: \n0x1000:  90  nop\n\nTrace 0: 0x7f10 [00000000/0000000000001000/00000000/ff000000] \n",
        ],
    ),
    ("nios2", &["version 2\n", "version 3\nnumThreads 1\n"]),
    (
        "perf",
        &[
            "# transcript of perf script: branches\n",
            "# transcript of perf script: samples\n",
            "ls 7 [001] 9.000001:            401009 main+0x9 (/bin/ls) insn: e8 12 00 00 00\n",
            "ls 7/8 9.000001:  1 branches:uH:            401009 main+0x9 (/bin/ls) =>            401020 f+0x0 (/bin/ls)\n",
            "ls 7 9.000001:  100000 cpu-clock:            401009 main+0x9 (/bin/ls)\n",
            "ls 7 9.000001:  100000 cpu-clock:            401009 main+0x9 (/bin/ls) 0x401020/0x401028/P/-/-/1\n",
        ],
    ),
];

/// The names of the parts, as a sentence lists them.
pub fn names() -> String {
    PARTS.map(|(name, _)| name).join(", ")
}

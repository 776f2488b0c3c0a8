//! What cannot be used is refused for what it is.

use super::{run, support, trace};

/// A file that is not there, is empty or is cut, with options of the one kind of trace or of the other.
#[test]
fn files_that_tell_no_kind() {
    let folder = tempfile::tempdir().unwrap();
    let good = trace(
        &folder,
        "1 clk cpu0 IT (1) 0000000000008000 d503201f O EL1h_ns : NOP\n",
    );
    let missing = folder.path().join("missing");
    let empty = folder.path().join("empty");
    std::fs::write(&empty, "").unwrap();
    let cut = folder.path().join("cut.zst");
    let packed = zstd::encode_all(&std::fs::read(&good).unwrap()[..], 1).unwrap();
    std::fs::write(&cut, &packed[..8]).unwrap();
    let other = folder.path().join("other");
    std::fs::write(&other, "nothing of ours\n").unwrap();
    let elf = "--elf /bin/true";
    for (file, reason) in [
        (&missing, "No such file or directory"),
        (&empty, "it is empty"),
        (&cut, "the compressed data are cut"),
        (&other, "no execution trace"),
    ] {
        for words in [
            format!("info @ {elf}"),
            "show @ --instruction 1".to_owned(),
            "show @ --tracepoint 1".to_owned(),
            "find @ --register sp".to_owned(),
            "find @ --pc 8038".to_owned(),
            format!("calls @ {elf}"),
            "coverage @".to_owned(),
            "memory @ 0x1000,4".to_owned(),
        ] {
            let ran = run(file, &words).code(2).says(&[reason]);
            assert!(
                !ran.stderr.contains("this is a trace file"),
                "{words}: {}",
                ran.stderr
            );
        }
    }
    // An option for the other kind, of a file that is of one.
    run(&good, "show @ --tracepoint 1")
        .code(2)
        .says(&["--tracepoint is for trace files"]);
    // A program that is not there.
    run(&good, "show @ --elf /nonexistent")
        .code(2)
        .says(&["/nonexistent", "No such file"]);
}

/// A machine that is known in the other byte order only is not taken for that.
#[test]
fn machines_in_the_other_byte_order() {
    let folder = tempfile::tempdir().unwrap();
    let good = trace(
        &folder,
        "1 clk cpu0 IT (1) 0000000000008000 d503201f O EL1h_ns : NOP\n",
    );
    let ran = run(&good, "show @ --architecture aarch64_be").code(2);
    let ran = ran.says(&["aarch64_be: big-endian AArch64 is not known"]);
    assert!(!ran.stderr.contains("similar"), "{}", ran.stderr);
    run(&good, "show @ --architecture sparc")
        .code(2)
        .says(&["possible values", "nios2"]);
    // The header of a program, and nothing else.
    let elf = folder.path().join("x");
    let mut header = b"\x7fELF\x02\x02\x01".to_vec();
    header.resize(16, 0);
    // An executable, AArch64, version 1.
    header.extend([0, 2, 0, 183, 0, 0, 0, 1]);
    header.resize(52, 0);
    header.extend([0, 64, 0, 56]);
    header.resize(64, 0);
    std::fs::write(&elf, header).unwrap();
    run(&good, &format!("show @ --elf {}", elf.display()))
        .code(2)
        .says(&["programs for big-endian Aarch64 are not known"]);
    let help = support::tracewire()
        .args(["show", "--help"])
        .output()
        .unwrap();
    let help = support::ran(help).stdout;
    assert!(help.contains("nios2") && help.contains("riscv64"), "{help}");
}

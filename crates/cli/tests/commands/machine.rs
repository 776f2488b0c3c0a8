//! Files of every machine, with and without a target description: `--architecture`, and the results without it.

use std::path::Path;

use tracewire_arch::{Architecture, StandardRegisters};
use tracewire_model::ByteOrder;

use crate::generated::{COUNTER, Described, SITES, smallest, value, write};
use crate::support::{Built, Ran, run};

/// A directory with `bare.tf`, `described.tf` and `named.tf`: without a target description, with one, and with one that only names the
/// machine, 12 frames.
fn files(set: &StandardRegisters) -> Built {
    let folder = Built::at(tempfile::tempdir().expect("a folder"));
    write(&folder.path("bare.tf"), set, Described::Nothing, 12);
    write(&folder.path("described.tf"), set, Described::Registers, 12);
    write(&folder.path("named.tf"), set, Described::Machine, 12);
    folder
}

#[test]
fn every_machine_shows_its_registers_and_memory() {
    for machine in Architecture::ALL {
        let set = smallest(*machine);
        let layout = set.layout();
        let folder = files(&set);
        let order = machine.byte_order();
        let files = [
            ("described.tf", None),
            ("named.tf", None),
            ("bare.tf", Some(machine.name())),
        ];
        for (name, said) in files {
            let with = |arguments: &[&str]| {
                let mut arguments = arguments.to_vec();
                arguments.extend(said.iter().flat_map(|name| ["--architecture", name]));
                folder.run(&arguments).code(0)
            };
            let info = with(&["info", name, "--json"]).json().remove(0);
            assert_eq!(info["architecture"], machine.name(), "{name}");
            assert_eq!(info["byte_order"], order.to_string(), "{machine} {name}");
            assert_eq!(info["frames"], 12, "{machine} {name}");
            let frames = with(&["show", name, "--json"]).json();
            assert_eq!(frames.len(), 12);
            for (number, frame) in (0_u64..).zip(&frames) {
                let pc = format!("{:#x}", SITES[number as usize % 2]);
                assert_eq!(frame["pc"], pc, "{machine} {name}");
                assert_eq!(frame["tracepoint"], 1 + number % 2);
                assert_eq!(frame["time_us"], 1000 + 10 * number);
                assert_eq!(frame["thread"], 100 + number % 3);
                assert_eq!(frame["cpu"], number % 2);
                let shown = frame["registers"].as_object().expect("registers");
                assert_eq!(shown.len(), layout.registers().len(), "{machine} {name}");
                for (register, shown) in shown {
                    let expected = value(&layout, register, number);
                    assert_eq!(*shown, format!("{expected:#x}"), "{machine} {register}");
                }
                let counter = match order {
                    ByteOrder::Little => format!("{number:02x}000000"),
                    ByteOrder::Big => format!("000000{number:02x}"),
                };
                assert_eq!(frame["memory"][0]["address"], format!("{COUNTER:#x}"));
                assert_eq!(frame["memory"][0]["bytes"], counter, "{machine} {name}");
                assert_eq!(frame["variables"]["trace_thread"], 100 + number % 3);
            }
            assert_eq!(with(&["check", name]).stdout, "", "{machine} {name}");
        }
    }
}

#[test]
fn find_by_time_thread_cpu_and_values_of_any_machine() {
    for (machine, register) in [
        (Architecture::Mips, "r5"),
        (Architecture::PowerPc, "r5"),
        (Architecture::Nios2, "r5"),
        (Architecture::ArmBig, "sp"),
        (Architecture::X86_64, "rdi"),
    ] {
        let set = smallest(machine);
        let folder = files(&set);
        let find = |arguments: &[&str]| -> Ran {
            let mut all = vec!["find", "bare.tf", "--architecture", machine.name()];
            all.extend(arguments);
            folder.run(&all)
        };
        let found = |arguments: &[&str]| find(arguments).code(0).stdout.replace('\n', " ");
        assert_eq!(
            found(&["--time", "1020..1050"]),
            "2 3 4 5 ",
            "both included"
        );
        assert_eq!(found(&["--time", "1105.."]), "11 ");
        assert_eq!(found(&["--time", "..1000"]), "0 ");
        assert_eq!(found(&["--thread", "101"]), "1 4 7 10 ");
        assert_eq!(found(&["--cpu", "1", "--thread", "101"]), "1 7 ");
        assert_eq!(found(&["--cpu", "1", "--from", "6", "--first"]), "7 ");
        assert_eq!(found(&["--pc", "0x402000", "--time", "..1040"]), "1 3 ");
        assert_eq!(found(&["--tracepoint", "2", "--cpu", "1", "--first"]), "1 ");
        let counter = format!("*(int *) {COUNTER:#x} == 7");
        assert_eq!(found(&["--where", &counter]), "7 ", "{machine}");
        let registers = format!("${register} == {}", value(&set.layout(), register, 9));
        assert_eq!(found(&["--where", &registers]), "9 ", "{machine}");
        let several = format!(
            "$trace_cpu == 1 && $trace_thread > 100 && $pc == {}",
            SITES[1]
        );
        assert_eq!(found(&["--where", &several]), "1 5 7 11 ", "{machine}");
        find(&["--thread", "7"]).code(1);
        find(&["--time", "9..5"])
            .code(2)
            .says(&["ends before it starts"]);
        find(&["--time", "soon"]).code(2).says(&["A..B"]);
        // As JSON: the frames, as `show` gives them.
        let frames = find(&["--json", "--thread", "102", "--first"])
            .code(0)
            .json();
        assert_eq!(frames[0]["frame"], 2);
        assert_eq!(
            frames[0]["registers"][register],
            format!("{:#x}", value(&set.layout(), register, 2))
        );
    }
    run("find sample.tf --thread 1")
        .code(1)
        .says(&["$trace_thread", "not collected"]);
    run("find sample.tf --cpu 1")
        .code(1)
        .says(&["$trace_cpu", "not collected"]);
    assert_eq!(
        run("find sample.tf --time 1465540657..").code(0).stdout,
        "13\n17\n"
    );
}

#[test]
fn the_machine_is_told_by_the_size_of_its_registers_or_by_the_program() {
    // No other machine of this byte order has register blocks of this size.
    let folder = files(&smallest(Architecture::Nios2));
    let info = folder
        .run(&["info", "bare.tf", "--json"])
        .code(0)
        .json()
        .remove(0);
    assert_eq!(info["architecture"], "nios2");
    assert_eq!(
        folder
            .run(&["find", "bare.tf", "--where", "$r5 > 0", "--first"])
            .code(0)
            .stdout,
        "0\n"
    );

    // RISC-V has this size twice: as 64 bits, and as 32 bits with floating point.
    let folder = files(&smallest(Architecture::Riscv64));
    let info = folder
        .run(&["info", "bare.tf", "--json"])
        .code(0)
        .json()
        .remove(0);
    assert!(info.get("architecture").is_none(), "{info}");
    let frame = &folder.run(&["show", "bare.tf", "--json"]).code(0).json()[0];
    assert!(frame.get("registers").is_none(), "{frame}");
    assert_eq!(frame["pc"], "0x401000", "where the tracepoint is");
    write_elf(&folder.path("program"));
    let frame = &folder
        .run(&["show", "bare.tf", "--json", "--elf", "program"])
        .code(0)
        .json()[0];
    assert_eq!(frame["registers"]["pc"], "0x401000");
    // The user's option has priority over the program.
    let said = [
        "show",
        "bare.tf",
        "--json",
        "--elf",
        "program",
        "--architecture",
        "riscv32",
    ];
    let frame = &folder.run(&said).code(0).json()[0];
    assert!(frame["registers"]["ft0"].is_string(), "{frame}");
}

/// Only the header of a 64-bit RISC-V program.
fn write_elf(path: &Path) {
    let mut header = vec![0; 64];
    header[..7].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1, 1]);
    for (offset, value) in [(16, 2_u8), (18, 243), (20, 1), (52, 64), (54, 56), (58, 64)] {
        header[offset] = value;
    }
    std::fs::write(path, header).expect("written");
}

#[test]
fn a_machine_that_cannot_be_is_refused() {
    run("info sample.tf --architecture mips")
        .code(2)
        .says(&["sample.tf", "x86_64", "mips"]);
    run("serve - sample.tf --architecture mips")
        .code(2)
        .says(&["x86_64"]);
    run("show sample.tf --architecture vax")
        .code(2)
        .says(&["possible values", "nios2"]);
    run("info sample.tf --architecture x86_64").code(0);
    let folder = files(&smallest(Architecture::Riscv64));
    folder
        .run(&["info", "named.tf", "--architecture", "mips"])
        .code(2)
        .says(&["named.tf", "riscv64", "mips"]);
    // A file without a description, whose registers are of no such machine.
    run("show --json tfile-basic.tf --architecture nios2 --frame 0")
        .code(0)
        .says(&["no registers are shown", "nios2"]);
}

/// As GDB shows them: a block may end before the last registers.
#[test]
fn a_named_machine_s_block_may_be_short() {
    let name = "<target><architecture>i386</architecture></target>";
    let mut bytes = format!(
        "\x7fTRACE0\nR 40\ntdesc {name}\nstatus 0;tstop::0;tframes:1\ntp T1:20202020:E:0:0\n\n"
    )
    .into_bytes();
    bytes.extend(b"\x01\0\x41\0\0\0R");
    bytes.extend([b' '; 64]);
    bytes.extend([0; 4]);
    let folder = Built::at(tempfile::tempdir().expect("a folder"));
    std::fs::write(folder.path("short.tf"), bytes).expect("a file");
    let frame = folder.run(&["show", "short.tf", "--json"]).code(0).json();
    assert_eq!(frame[0]["registers"]["eip"], "0x20202020");
    assert_eq!(frame[0]["registers"]["gs"], "0x20202020");
    assert_eq!(frame[0]["registers"]["st0"], serde_json::Value::Null);
    let check = folder.run(&["check", "short.tf"]).code(0);
    assert_eq!(check.stdout, "");
}

#[test]
fn other_formats_of_a_big_endian_file_without_a_description() {
    let folder = files(&smallest(Architecture::Mips));
    let convert = |arguments: &[&str]| {
        let mut all = vec!["convert", "--architecture", "mips"];
        all.extend(arguments);
        folder.run(&all).code(0)
    };
    convert(&["bare.tf", "run.jsonl"]);
    convert(&["run.jsonl", "back.tf"]);
    let read = |name: &str| std::fs::read(folder.path(name)).expect("a file");
    assert!(read("back.tf") == read("bare.tf"));
    // Without naming the machine, too.
    folder.run(&["convert", "bare.tf", "plain.jsonl"]).code(0);
    folder.run(&["convert", "plain.jsonl", "plain.tf"]).code(0);
    assert!(read("plain.tf") == read("bare.tf"));

    let layout = smallest(Architecture::Mips).layout();
    let column = [
        "--column", "frame", "--column", "$r5", "--column", "0x1000@4",
    ];
    let table = convert(&[&["bare.tf", "-", "--to", "csv"], &column[..]].concat()).stdout;
    let rows: Vec<_> = table.lines().skip(1).collect();
    assert_eq!(rows.len(), 12);
    let r5 = value(&layout, "r5", 3);
    assert!(
        rows[3] == format!("3,{r5:#x},00000003") || rows[3] == format!("3,{r5},00000003"),
        "{table}"
    );

    convert(&["bare.tf", "one.tf", "--frame", "..5"]);
    convert(&["bare.tf", "two.tf", "--time", "1050.."]);
    convert(&["one.tf", "two.tf", "both.tf"]);
    let show = |name: &str| {
        folder
            .run(&["show", name, "--json", "--architecture", "mips"])
            .code(0)
            .stdout
    };
    assert_eq!(show("both.tf"), show("bare.tf"));
    folder
        .run(&["check", "both.tf", "--architecture", "mips"])
        .code(0);
    convert(&["both.tf", "part.tf", "--split-by", "thread"]);
    let frames = |name: &str| show(name).lines().count();
    assert_eq!(
        [
            "part-thread-100.tf",
            "part-thread-101.tf",
            "part-thread-102.tf"
        ]
        .map(frames),
        [4, 4, 4]
    );
}

/// The frames show their byte order: a machine with a name for one order only is read in theirs, and the name of another order is
/// refused.
#[test]
fn the_byte_order_of_frames_comes_before_that_of_the_name() {
    let folder = Built::at(tempfile::tempdir().expect("a folder"));
    let mut big = b"\x7fTRACE0\nR c4\nstatus 0;tstop::0;tframes:1;tcreated:1\n\
                    tp T1:2000:E:0:0\ntp A1:2000:R1FFFFFFFF\n\n"
        .to_vec();
    let mut block: Vec<u8> = (0..49u32)
        .flat_map(|at| (0x100 + at).to_be_bytes())
        .collect();
    block[32 * 4..33 * 4].copy_from_slice(&0x2000u32.to_be_bytes());
    big.extend([0, 1]);
    big.extend((1 + block.len() as u32).to_be_bytes());
    big.push(b'R');
    big.extend(&block);
    big.extend([0; 4]);
    std::fs::write(folder.path("big.tf"), big).expect("written");
    let show = |name: &str| folder.run(&["show", "big.tf", "--json", "--architecture", name]);
    let frame = &show("nios2").code(0).json()[0];
    assert_eq!(frame["pc"], "0x2000");
    assert_eq!(frame["registers"]["r5"], "0x105");
    assert_eq!(frame["registers"]["sp"], "0x11b");
    show("mipsel")
        .code(2)
        .says(&["big.tf", "of mips;", "mipsel"]);
    folder
        .run(&["serve", "-", "big.tf", "--architecture", "armeb"])
        .code(0);
    folder
        .run(&["serve", "-", "big.tf", "--architecture", "arm"])
        .code(2)
        .says(&["armeb"]);
}

//! Each field that `show --json` gives is that of the text.

use serde_json::{Value, json};

use super::{run, shown, trace};

fn field<'a>(object: &'a Value, name: &str) -> &'a Value {
    object.get(name).unwrap_or(&Value::Null)
}

#[test]
fn the_documentation_s_own_records() {
    let objects = shown(
        "1 clk 0 IT (1) 00000004 3c080001 A svc : lui t0,0x1\n\
         1 clk MR8 00103fc4 0010400000000000\n\
         1 clk R r8 00000000\n",
    );
    let [one] = &objects[..] else {
        panic!("{objects:?}")
    };
    for (name, value) in [
        ("instruction", json!(0)),
        ("time", json!(1)),
        ("scale", json!("clk")),
        ("cpu", json!(0)),
        ("id", json!(1)),
        ("pc", json!("0x4")),
        ("opcode", json!("3c080001")),
        ("taken", json!(true)),
        ("set", json!("A")),
        ("mode", json!("svc")),
        ("security", Value::Null),
        ("disassembly", json!("lui t0,0x1")),
        (
            "register_writes",
            json!([{ "register": "r8", "value": "0x00000000" }]),
        ),
        (
            "accesses",
            json!([{ "kind": "read", "address": "0x103fc4", "size": 8, "data": "0010400000000000" }]),
        ),
    ] {
        assert_eq!(field(one, name), &value, "{name}");
    }
}

#[test]
fn every_combination_of_fields() {
    let mut text = String::new();
    let mut expected = Vec::new();
    let mut time = 0;
    for mode in ["svc", "irq", "fiq", "usr", "mon", "sys", "abt", "und"] {
        for security in ["s", "ns", ""] {
            for (set, flag) in [("A", "IT"), ("T", "IS"), ("X", "IT")] {
                for opcode in ["bf00", "e1a00000", "0123456789abcdef"] {
                    for attribute in ["", "X", "T"] {
                        time += 3;
                        let cpu = time % 4;
                        let suffix = match security {
                            "" => String::new(),
                            _ => format!("_{security}"),
                        };
                        let address = 0x1000 + time * 16;
                        text += &format!(
                            "{time} ns {cpu} {flag} ({time}) {address:016x} {opcode} {set} {mode}{suffix} : op r{cpu}, [{time}]\n\
                             {time} ns MW4{attribute} {address:08x} 0000{time:04x}\n\
                             {time} ns R r{cpu} 00000000{time:08x}\n"
                        );
                        let mut access = json!({ "kind": "write", "address": format!("{address:#x}"), "size": 4 });
                        if !attribute.is_empty() {
                            access["attribute"] = attribute.into();
                        }
                        access["data"] = format!("0000{time:04x}").into();
                        expected.push(json!({
                            "time": time, "scale": "ns", "cpu": cpu, "id": time, "pc": format!("{address:#x}"),
                            "opcode": opcode, "taken": flag == "IT", "set": set, "mode": mode,
                            "security": if security.is_empty() { Value::Null } else { security.into() },
                            "disassembly": format!("op r{cpu}, [{time}]"),
                            "register_writes": [{ "register": format!("r{cpu}"), "value": format!("0x00000000{time:08x}") }],
                            "accesses": [access],
                        }));
                    }
                }
            }
        }
    }
    let objects = shown(&text);
    assert_eq!(objects.len(), expected.len());
    for (number, (object, expected)) in objects.iter().zip(&expected).enumerate() {
        assert_eq!(field(object, "instruction"), &json!(number));
        for (name, value) in expected.as_object().unwrap() {
            assert_eq!(field(object, name), value, "{name} of {number}");
        }
    }
}

#[test]
fn microtesk_and_tarmac_and_nios2() {
    let objects = shown(
        "0 clk 0 IT (0) ffffffffa0002000 3c080001 A svc_ns : lui t0, 0x1\n\
         0 clk MW3 ffffffffa0002000 ABCDEF\n",
    );
    assert_eq!(objects[0]["pc"], "0xffffffffa0002000");
    assert_eq!(objects[0]["id"], 0);
    let access = &objects[0]["accesses"][0];
    assert_eq!(
        (&access["size"], &access["data"]),
        (&json!(3), &json!("abcdef"))
    );

    let objects = shown(
        "12.5 ns cpu1 IS (1a) 00008000:0000000000018000_NS d503201f O EL1h_ns :   NOP\n\
         12.5 ns cpu1 R V0<127:64> 0011223344556677\n\
         12.5 ns cpu1 R X1 ----------------\n\
         12.5 ns cpu1 ST 00000100 11...... ..##.... ........ ......33\n",
    );
    let one = &objects[0];
    for (name, value) in [
        ("time", json!(12.5)),
        ("cpu", json!(1)),
        ("id", json!(26)),
        ("pc", json!("0x8000")),
        ("opcode", json!("d503201f")),
        ("taken", json!(false)),
        ("set", json!("O")),
        ("mode", json!("EL1h")),
        ("security", json!("ns")),
        ("disassembly", json!("NOP")),
        (
            "register_writes",
            json!([
                { "register": "V0", "high": 127, "low": 64, "value": "0x0011223344556677" },
                { "register": "X1", "value": "0x????????????????" },
            ]),
        ),
        (
            "accesses",
            json!([
                { "kind": "write", "address": "0x100", "size": 1, "data": "33" },
                { "kind": "write", "address": "0x10a", "size": 1, "data": "??" },
                { "kind": "write", "address": "0x10f", "size": 1, "data": "11" },
            ]),
        ),
    ] {
        assert_eq!(field(one, name), &value, "{name}");
    }

    let objects = shown(
        "version 2\nnumThreads 1\n\
         20 ns: 0,20,0,0,0,800144,1,2,5,0,0,0,0,0,1,0,0,0,0,0\n\
         30 ns: 0,24,0,0,0,800085,0,0,0,102,5050505,4,0,0,1,0,0,0,0,0\n",
    );
    assert_eq!(objects.len(), 2);
    assert_eq!(objects[0]["pc"], "0x20");
    assert_eq!(
        objects[0]["register_writes"][0],
        json!({ "register": "r2", "value": "0x00000005" })
    );
    assert_eq!(
        objects[1]["accesses"],
        json!([{ "kind": "write", "address": "0x102", "size": 1, "data": "05" }])
    );
    assert_eq!(objects[1]["registers"]["r2"], "0x00000005");
}

#[test]
fn what_info_counts() {
    let folder = tempfile::tempdir().unwrap();
    let path = trace(
        &folder,
        "5 clk 0 IT (1) 00000004 3c080001 A svc : lui t0,0x1\n5 clk R r8 00010000\nnonsense\n\
         9 clk 3 IT (2) 00000004 8d090000 A svc : lw t1,0(t0)\n9 clk MR4 00010000 00000001\n9 clk R r9 00000001\n",
    );
    let info = run(&path, "info --json @").code(0).json().remove(0);
    for (name, value) in [
        ("kind", json!("execution-trace")),
        ("format", json!("qemu4v")),
        ("architecture", json!("mips")),
        ("instructions", json!(2)),
        ("memory_accesses", json!(1)),
        ("register_writes", json!(2)),
        ("cpus", json!(2)),
        ("cpu_numbers", json!([0, 3])),
        ("first_time", json!(5)),
        ("last_time", json!(9)),
        ("unparsed_lines", json!(1)),
    ] {
        assert_eq!(field(&info, name), &value, "{name}");
    }
    let forced = run(&path, "info --json @ --architecture mips64el")
        .code(0)
        .json();
    assert_eq!(forced[0]["architecture"], "mips64el");
}

/// What a trace says of itself must not drive the terminal.
#[test]
fn control_characters_are_shown() {
    let folder = tempfile::tempdir().unwrap();
    let text = "1 clk 0 IT (1) 00000004 3c080001 A svc : lui \x1b[31mt0,0x1\n";
    let path = trace(&folder, text);
    for command in ["show @", "show --instruction 0 @", "coverage @"] {
        let shown = run(&path, command).code(0).stdout;
        assert!(
            shown.contains(r"lui \u{1b}[31mt0,0x1"),
            "{command}: {shown}"
        );
    }
}

/// A register has one name, GDB's; names of which several are one register to GDB are all there.
#[test]
fn registers_have_one_name() {
    let shown = shown(
        "1 clk cpu0 IT (1) 0000000000008000 d503201f O EL1h_ns : NOP\n\
         1 clk cpu0 R X0 0000000000000001\n1 clk cpu0 R cpsr 600003c5\n1 clk cpu0 R SCTLR_EL1 0000000000000007\n\
         1 clk cpu0 R SP_EL0 0000000000000100\n1 clk cpu0 R SP_EL1 0000000000000200\n\
         2 clk cpu0 IT (2) 0000000000008004 d503201f O EL1h_ns : NOP\n",
    );
    let registers = shown[1]["registers"].as_object().unwrap();
    let mut names: Vec<&str> = registers.keys().map(String::as_str).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        ["SCTLR_EL1", "SP_EL0", "SP_EL1", "cpsr", "pc", "sp", "x0"]
    );
    assert_eq!(registers["x0"], "0x0000000000000001");
}

/// A file that is not there, one that is empty, and one whose compressed data are cut: each has its own words, whatever
/// is asked of it.
#[test]
fn files_with_nothing_in_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let text = "1 clk 0 IT (1) 00000004 3c080001 A svc : lui t0,0x1\n".repeat(100);
    let packed = zstd::encode_all(text.as_bytes(), 3).unwrap();
    let missing = folder.path().join("missing.trace");
    let files = [
        (missing, "No such file"),
        (path("empty.trace", b""), "it is empty"),
        (
            path("cut.trace.zst", &packed[..10]),
            "compressed data are cut",
        ),
    ];
    for (file, words) in files {
        for command in [
            "info @",
            "show @ --instruction 0",
            "show @ --elf @",
            "check @",
            "find @ --pc 4",
            "serve - @",
        ] {
            let ran = run(&file, command).code(2);
            let name = file.file_name().unwrap().to_str().unwrap();
            ran.says(&[words, name]);
        }
    }
}

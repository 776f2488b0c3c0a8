//! The tables of machines: GDB takes every description, and every name finds its register.

use std::process::Command;

use tracewire_arch::{
    Architecture, LayoutError, Machine, RegisterLayout, StandardRegisters, TargetDescription,
    UpperBits, dwarf_register, gdb_register,
};
use tracewire_model::RegisterNumber;

#[test]
fn gdb_takes_every_target_description() {
    let folder = tempfile::tempdir().unwrap();
    for architecture in Architecture::ALL {
        let machine = Machine::of(*architecture);
        let path = folder.path().join(format!("{architecture}.xml"));
        std::fs::write(&path, machine.target_xml()).unwrap();
        let said = Command::new("gdb-multiarch")
            .args(["-nx", "-batch"])
            .args(["-ex", &format!("set endian {}", machine.byte_order())])
            .args(["-ex", &format!("set tdesc filename {}", path.display())])
            .args(["-ex", "show architecture", "-ex", "maint print registers"])
            .output()
            .unwrap();
        let complaints = String::from_utf8_lossy(&said.stderr).to_lowercase();
        if complaints.contains("unknown architecture") || complaints.contains("not recognized") {
            eprintln!("{architecture}: this GDB does not know it: {complaints}");
            assert_eq!(*architecture, Architecture::Nios2, "{complaints}");
            continue;
        }
        assert!(
            !complaints.contains("warning") && !complaints.contains("error"),
            "{architecture}: {complaints}"
        );
        let said = String::from_utf8_lossy(&said.stdout);
        assert!(said.contains("(currently \""), "{architecture}: {said}");
        let known: Vec<&str> = said
            .lines()
            .filter_map(|line| line.split_whitespace().next())
            .collect();
        for register in machine.layout().registers() {
            // GDB has other names for the numbered registers of the description.
            let renamed = matches!(
                architecture,
                Architecture::Mips
                    | Architecture::MipsLittle
                    | Architecture::Mips64
                    | Architecture::Mips64Little
            );
            assert!(
                renamed || known.contains(&register.name.as_str()),
                "{architecture}: {} is not among {known:?}",
                register.name
            );
        }
    }
}

#[test]
fn names_find_registers() {
    use Architecture::{
        Aarch64, Arm, I386, Mips, Mips64, Nios2, PowerPc, Riscv32, Riscv64, X86_64,
    };
    // Machine, name, register, lowest bit, bits, rest.
    for (architecture, name, register, bit, bits, rest) in [
        (Mips, "t0", "r8", 0, 32, UpperBits::Zero),
        (Mips, "r8", "r8", 0, 32, UpperBits::Zero),
        (Mips, "$sp", "r29", 0, 32, UpperBits::Zero),
        (Mips, "$29", "r29", 0, 32, UpperBits::Zero),
        (Mips, "s8", "r30", 0, 32, UpperBits::Zero),
        (Mips, "hi", "hi", 0, 32, UpperBits::Zero),
        (Mips64, "a4", "r8", 0, 64, UpperBits::Zero),
        (Riscv64, "t0", "t0", 0, 64, UpperBits::Zero),
        (Riscv64, "x5", "t0", 0, 64, UpperBits::Zero),
        (Riscv32, "s0", "fp", 0, 32, UpperBits::Zero),
        (Riscv32, "x8", "fp", 0, 32, UpperBits::Zero),
        (Riscv64, "f10", "fa0", 0, 64, UpperBits::Zero),
        (Riscv64, "f27", "fs11", 0, 64, UpperBits::Zero),
        (Riscv64, "f28", "ft8", 0, 64, UpperBits::Zero),
        (Arm, "R13", "sp", 0, 32, UpperBits::Zero),
        (Arm, "SP_SVC", "sp", 0, 32, UpperBits::Zero),
        (Arm, "r14_irq", "lr", 0, 32, UpperBits::Zero),
        (Arm, "R1 (USR)", "r1", 0, 32, UpperBits::Zero),
        (Arm, "ip", "r12", 0, 32, UpperBits::Zero),
        (Arm, "s3", "d1", 32, 32, UpperBits::Kept),
        (Aarch64, "W3", "x3", 0, 32, UpperBits::Zero),
        (Aarch64, "LR", "x30", 0, 64, UpperBits::Zero),
        (Aarch64, "SP_EL1", "sp", 0, 64, UpperBits::Zero),
        (Aarch64, "D7", "v7", 0, 64, UpperBits::Zero),
        (Aarch64, "Q7", "v7", 0, 128, UpperBits::Zero),
        (X86_64, "%eax", "rax", 0, 32, UpperBits::Zero),
        (X86_64, "ah", "rax", 8, 8, UpperBits::Kept),
        (X86_64, "sil", "rsi", 0, 8, UpperBits::Kept),
        (X86_64, "r9w", "r9", 0, 16, UpperBits::Kept),
        (X86_64, "rflags", "eflags", 0, 32, UpperBits::Zero),
        (I386, "bx", "ebx", 0, 16, UpperBits::Kept),
        (PowerPc, "gpr31", "r31", 0, 32, UpperBits::Zero),
        (PowerPc, "cr0", "cr", 28, 4, UpperBits::Kept),
        (PowerPc, "cr7", "cr", 0, 4, UpperBits::Kept),
        (Nios2, "r27", "sp", 0, 32, UpperBits::Zero),
        (Nios2, "ctl4", "ipending", 0, 32, UpperBits::Zero),
    ] {
        let machine = Machine::of(architecture);
        let parts = machine.locate(name.as_bytes());
        let [part] = parts.unwrap_or_else(|| panic!("{architecture} {name}")) else {
            panic!("{architecture} {name}: one part");
        };
        let found = machine.layout().by_number(part.register).unwrap();
        assert_eq!(
            (
                found.name.as_str(),
                part.register_bit,
                part.bits,
                part.upper,
                part.value_bit
            ),
            (register, bit, bits, rest, 0),
            "{architecture} {name}"
        );
    }
    let quad = Machine::of(Arm).locate(b"q1").unwrap();
    let names: Vec<_> = quad
        .iter()
        .map(|part| {
            (
                &Machine::of(Arm)
                    .layout()
                    .by_number(part.register)
                    .unwrap()
                    .name[..],
                part.value_bit,
            )
        })
        .collect();
    assert_eq!(names, [("d2", 0), ("d3", 64)]);
    assert_eq!(Machine::of(X86_64).locate(b"ymm3").unwrap().len(), 2);
    assert!(Machine::of(Mips).locate(b"x5").is_none());
    assert!(Machine::of(Mips).locate(b"\xff").is_none());
}

#[test]
fn every_machine_has_the_registers_that_calls_need() {
    for architecture in Architecture::ALL {
        let machine = Machine::of(*architecture);
        let name = |number| machine.layout().by_number(number).unwrap().name.clone();
        let pointers = machine.pointer_size();
        let stack = machine.layout().by_number(machine.stack_pointer()).unwrap();
        assert_eq!(stack.size(), u32::from(pointers), "{architecture}");
        assert_eq!(
            machine.program_counter().size(),
            u32::from(pointers),
            "{architecture}"
        );
        let expected = match architecture {
            Architecture::X86_64 => ("rsp", None),
            Architecture::I386 => ("esp", None),
            Architecture::Mips
            | Architecture::MipsLittle
            | Architecture::Mips64
            | Architecture::Mips64Little => ("r29", Some("r31")),
            Architecture::Aarch64 => ("sp", Some("x30")),
            Architecture::PowerPc | Architecture::PowerPc64 | Architecture::PowerPc64Little => {
                ("r1", Some("lr"))
            }
            Architecture::Arm | Architecture::ArmBig => ("sp", Some("lr")),
            _ => ("sp", Some("ra")),
        };
        assert_eq!(name(machine.stack_pointer()), expected.0, "{architecture}");
        assert_eq!(
            machine.return_address().map(name).as_deref(),
            expected.1,
            "{architecture}"
        );
    }
}

#[test]
fn registers_have_gdbs_numbers() {
    for (machine, pairs) in [
        (
            Architecture::Mips,
            &[(31, 31), (64, 34), (65, 33), (32, 38)][..],
        ),
        (Architecture::Arm, &[(13, 13), (256, 26)]),
        (Architecture::Aarch64, &[(31, 31), (64, 34)]),
        (Architecture::Riscv32, &[(2, 2), (32, 33)]),
        (Architecture::PowerPc, &[(1, 1), (65, 67), (109, 68)]),
        (Architecture::Nios2, &[(27, 27), (32, 32)]),
    ] {
        for &(dwarf, gdb) in pairs {
            assert_eq!(
                gdb_register(machine, dwarf),
                Some(RegisterNumber(gdb)),
                "{machine}"
            );
            assert!(dwarf_register(machine, RegisterNumber(gdb)).is_some());
        }
    }
}

#[test]
fn a_feature_at_the_root_of_a_description_names_the_machine() {
    let folder = tempfile::tempdir().unwrap();
    for architecture in Architecture::ALL {
        for set in StandardRegisters::all(*architecture) {
            let xml = set.target_xml();
            let (start, end) = (xml.find("<feature"), xml.find("</feature>"));
            let feature = &xml[start.unwrap()..end.unwrap() + "</feature>".len()];
            let named = match TargetDescription::parse(feature) {
                Ok(TargetDescription::Architecture(bfd)) => {
                    Architecture::of_bfd_name(&bfd, false, architecture.byte_order())
                }
                _ => None,
            };
            assert_eq!(named, Some(*architecture), "{feature}");
        }
    }
    // GDB accepts it, and reads nothing from it.
    let path = folder.path().join("feature.xml");
    let feature =
        r#"<feature name="org.gnu.gdb.riscv.cpu"><reg name="zero" bitsize="32"/></feature>"#;
    std::fs::write(&path, feature).unwrap();
    let read = Command::new("gdb-multiarch")
        .args(["-nx", "-batch"])
        .args(["-ex", &format!("set tdesc filename {}", path.display())])
        .args(["-ex", "maint print xml-tdesc"])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&read.stderr), "");
    let read = String::from_utf8_lossy(&read.stdout);
    assert!(
        read.contains("<target>") && !read.contains("<reg"),
        "{read}"
    );
    // This one's machine is unknown.
    let unknown = r#"<feature name="cpu"><reg name="a" bitsize="32"/></feature>"#;
    assert!(matches!(
        RegisterLayout::parse(unknown),
        Err(LayoutError::Root(name)) if name == "feature"
    ));
}

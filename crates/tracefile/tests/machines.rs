//! Files of every machine there are register sets for, in both byte orders, read by GDB too.

mod support;

use support::{stopped, tracepoint};
use tracewire_arch::{Architecture, Register, RegisterLayout, StandardRegisters};
use tracewire_model::{Address, ByteOrder, FrameNumber, TracepointNumber, VariableNumber};
use tracewire_test_support::Gdb;
use tracewire_tracefile::{
    Description, DescriptionParts, FrameEncoder, FrameFormat, TraceFile, TraceFileWriter,
};

/// The value of a register: no byte of it zero, no register with that of another.
fn value(register: &Register) -> Vec<u8> {
    (0..register.size())
        .map(|i| (register.offset + i * 3) as u8 & 0x7f | 1)
        .collect()
}

fn block(layout: &RegisterLayout) -> Vec<u8> {
    layout.registers().iter().flat_map(value).collect()
}

fn write(path: &std::path::Path, set: &StandardRegisters, with_xml: bool) {
    write_in(path, set, with_xml, set.architecture().byte_order());
}

fn write_in(path: &std::path::Path, set: &StandardRegisters, with_xml: bool, order: ByteOrder) {
    let description = Description::build(&DescriptionParts {
        register_block_size: set.size(),
        target_xml: with_xml.then(|| set.target_xml()),
        status: Some(stopped(2)),
        tracepoints: vec![tracepoint(1, 0x401000)],
        ..DescriptionParts::default()
    })
    .unwrap();
    let format = FrameFormat {
        byte_order: order,
        register_block_size: set.size(),
    };
    let mut frame = Vec::new();
    let mut encoder = FrameEncoder::begin(&mut frame, format, TracepointNumber(1)).unwrap();
    encoder.registers(&block(&set.layout())).unwrap();
    encoder.memory(Address(0x1000), &[1, 2, 3, 4]);
    encoder.variable(VariableNumber(1), -77);
    encoder.finish().unwrap();
    let mut writer = TraceFileWriter::create(path, &description).unwrap();
    writer.append(&frame).unwrap();
    writer.append(&frame).unwrap();
    writer.finish().unwrap();
}

/// How GDB is asked for the lowest 32 bits of a register, where it shows them plainly.
fn plain(register: &Register) -> bool {
    let kind = register.type_name.as_str();
    let whole = matches!(
        kind,
        "int" | "int32" | "int64" | "uint32" | "uint64" | "data_ptr" | "code_ptr"
    );
    // GDB shows the constant zero, and has its own ideas of half an x87 unit.
    whole && register.name != "zero"
}

/// The GDB that knows the machine. Debian's does not know Nios II: `cargo xtask gdb nios2-elf` builds one that does,
/// and says how to name it here.
fn debugger(architecture: Architecture) -> Gdb {
    match std::env::var("TRACEWIRE_NIOS2_GDB") {
        Ok(own) if architecture == Architecture::Nios2 => Gdb::at(&own),
        _ => Gdb::multiarch(),
    }
}

#[test]
fn every_machine_is_read_as_gdb_reads_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut sizes = Vec::new();
    for architecture in Architecture::ALL {
        let order = architecture.byte_order();
        let sets = StandardRegisters::all(*architecture);
        assert!(!sets.is_empty());
        for set in sets {
            let layout = set.layout();
            assert_eq!(layout.size(), set.size());
            assert!(!sizes.contains(&(*architecture, set.size())), "{set:?}");
            sizes.push((*architecture, set.size()));
            let parsed = RegisterLayout::parse(&set.target_xml()).unwrap();
            assert_eq!(parsed.registers(), layout.registers(), "{set:?}");
            let counter = layout.program_counter().unwrap();
            assert_eq!(
                counter.size(),
                u32::from(architecture.pointer_size()),
                "{set:?}"
            );

            let path = folder
                .path()
                .join(format!("{architecture}-{}.tf", set.size()));
            write(&path, &set, true);
            let file = TraceFile::open(&path).unwrap();
            assert_eq!(
                (file.byte_order(), file.frame_count()),
                (order, 2),
                "{set:?}"
            );
            let frame = file.frame(FrameNumber(1)).unwrap();
            let pc = order.unsigned(&value(counter)).map(Address);
            assert_eq!(frame.program_counter(), pc, "{set:?}");

            let mut commands = vec![
                format!("set endian {order}"),
                format!("target tfile {}", path.display()),
                "tfind 1".into(),
                "output/x *(unsigned char *)0x1003".into(),
            ];
            let asked: Vec<_> = layout.registers().iter().filter(|one| plain(one)).collect();
            for register in &asked {
                commands.push(format!("echo \\n{} is \\ ", register.name));
                commands.push(format!("output/x (unsigned)${}", register.name));
            }
            let said = debugger(*architecture).commands(&commands).run().all();
            if said.contains("unknown architecture") {
                eprintln!("{architecture}: this GDB does not know it");
                continue;
            }
            let said = said + "\n";
            assert!(
                said.contains("Found trace frame 1, tracepoint 1"),
                "{set:?}: {said}"
            );
            assert!(said.contains("0x4\n"), "{set:?}: {said}");
            for register in asked {
                let bytes = value(register);
                let low = match order {
                    ByteOrder::Little => &bytes[..4],
                    ByteOrder::Big => &bytes[bytes.len() - 4..],
                };
                let number = order.unsigned(low).unwrap();
                let line = format!("{} is {number:#x}\n", register.name);
                assert!(said.contains(&line), "{set:?}: expected {line}in {said}");
            }
        }
    }
    assert!(sizes.len() > 40);
}

#[test]
fn a_file_without_a_description_is_read_by_its_size() {
    let folder = tempfile::tempdir().unwrap();
    for architecture in Architecture::ALL {
        for set in StandardRegisters::all(*architecture) {
            let path = folder.path().join("bare.tf");
            write(&path, &set, false);
            let mut file = TraceFile::open(&path).unwrap();
            assert_eq!(file.byte_order(), architecture.byte_order());
            assert!(file.layout().is_none());
            assert!(file.set_architecture(*architecture));
            assert_eq!(file.layout().unwrap().registers(), set.layout().registers());
            assert_eq!(file.frame_count(), 2);
            if let Some(only) = StandardRegisters::only_of_size(file.byte_order(), set.size()) {
                assert_eq!(only.architecture(), *architecture);
            }
        }
    }
    let only =
        |order, size| StandardRegisters::only_of_size(order, size).map(|set| set.architecture());
    assert_eq!(only(ByteOrder::Little, 196), Some(Architecture::Nios2));
    assert_eq!(only(ByteOrder::Little, 560), Some(Architecture::X86_64));
    assert_eq!(only(ByteOrder::Big, 412), Some(Architecture::PowerPc));
    assert_eq!(
        only(ByteOrder::Little, 264),
        None,
        "RISC-V of 64 bits, and of 32 with floats"
    );
    assert_eq!(only(ByteOrder::Little, 5), None);
}

/// The name settles the byte order where the frames do not show one.
#[test]
fn the_machine_settles_the_byte_order_of_a_file_without_frames() {
    let text = b"\x7fTRACE0\nR 5\n\n";
    let mut file = TraceFile::from_bytes(text.to_vec()).unwrap();
    assert_eq!(file.byte_order(), ByteOrder::Little);
    assert!(!file.set_architecture(Architecture::Mips));
    assert_eq!(file.byte_order(), ByteOrder::Big);
}

/// A file is read in the order of its frames, with any name of the machine: every machine in both orders, with a
/// description and without.
#[test]
fn frames_settle_the_byte_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("order.tf");
    for architecture in Architecture::ALL {
        for set in StandardRegisters::all(*architecture) {
            for order in [ByteOrder::Little, ByteOrder::Big] {
                write_in(&path, &set, false, order);
                let mut file = TraceFile::open(&path).unwrap();
                assert_eq!(file.byte_order_of_frames(), Some(order), "{set:?}");
                assert!(file.set_architecture(*architecture), "{set:?}");
                assert_eq!(file.byte_order(), order, "{set:?}");
                assert_eq!(file.frame_count(), 2, "{set:?}");
                let frame = file.frame(FrameNumber(0)).unwrap();
                for register in set.layout().registers() {
                    let reported = frame.register_value(register.number);
                    assert_eq!(reported, order.unsigned(&value(register)), "{set:?}");
                }
                assert_eq!(
                    architecture.in_order(order).is_none(),
                    architecture.byte_order() != order && !has_both(*architecture)
                );
            }
        }
    }
}

/// Whether there is a name for either byte order.
fn has_both(architecture: Architecture) -> bool {
    let name = architecture.name();
    name.starts_with("mips") || ["arm", "armeb", "ppc64", "ppc64le"].contains(&name)
}

//! Files that this crate writes, opened by GDB itself.

mod support;

use support::{description, frame, gdb, stopped, tracepoint};
use tracewire_tracefile::{
    Address, ByteOrder, Description, DescriptionParts, RegisterLayout, TraceFileWriter,
    X86Registers,
};

/// A byte for every place of a register block, none of them equal to its neighbours.
fn pattern(size: u32) -> Vec<u8> {
    (0..size).map(|i| (i * 7 + i / 251) as u8).collect()
}

fn expected(layout: &RegisterLayout, block: &[u8], name: &str) -> u64 {
    let register = layout.by_name(name).unwrap();
    let bytes = &block[register.offset as usize..][..register.size().min(8) as usize];
    ByteOrder::Little.unsigned(bytes).unwrap()
}

/// GDB takes every register set, the smallest too, and shows each register where the layout has it.
#[test]
fn every_x86_register_set_is_one_that_gdb_reads() {
    let folder = tempfile::tempdir().unwrap();
    for set in X86Registers::ALL {
        for wide in [true, false] {
            let (layout, xml) = if wide {
                (set.layout_64(), set.target_xml_64())
            } else {
                (set.layout_32(), set.target_xml_32())
            };
            let parsed = RegisterLayout::parse(&xml).unwrap();
            assert_eq!(parsed.registers(), layout.registers());
            let description = Description::build(&DescriptionParts {
                register_block_size: layout.size(),
                target_xml: Some(xml),
                status: Some(stopped(1)),
                tracepoints: vec![tracepoint(1, 0x401000)],
                ..DescriptionParts::default()
            })
            .unwrap();
            let block = pattern(layout.size());
            let path = folder.path().join(format!("{set:?}-{wide}.tf"));
            let mut writer = TraceFileWriter::create(&path, &description).unwrap();
            let one = frame(
                ByteOrder::Little,
                |f| f.registers(&block).unwrap(),
                layout.size(),
            );
            writer.append(&one).unwrap();
            writer.finish().unwrap();

            // Each register and the expression with which GDB shows its lowest bytes.
            let mut asked = Vec::new();
            for register in layout.registers() {
                let name = register.name.as_str();
                let (expression, of) = match name.strip_suffix('h') {
                    Some(half) if half.starts_with("ymm") => (format!("${half}.v4_int64[2]"), name),
                    Some(half) if half.starts_with("zmm") => (format!("${half}.v8_int64[4]"), name),
                    _ if name.starts_with("xmm") => (format!("${name}.v2_int64[0]"), name),
                    // GDB shows a floating-point number, whose bytes are compared elsewhere.
                    _ if name.starts_with("st") => continue,
                    _ => (format!("${name}"), name),
                };
                asked.push((expression, expected(&layout, &block, of)));
            }
            let mut commands = vec![format!("target tfile {}", path.display()), "tfind 0".into()];
            for (expression, _) in &asked {
                commands.push(format!("echo {expression} is \\ "));
                commands.push(format!("output/x {expression}"));
                commands.push("echo \\n".into());
            }
            commands.push("info registers float".into());
            let Some(output) = gdb("gdb", &commands) else {
                return;
            };
            assert!(!output.contains("arning"), "{set:?} {wide}: {output}");
            assert!(!output.contains("rror"), "{set:?} {wide}: {output}");
            for (expression, value) in asked {
                let line = format!("{expression} is {value:#x}\n");
                assert!(
                    output.contains(&line),
                    "{set:?} {wide}: expected {line}in {output}"
                );
            }
            let st3 = &layout.by_name("st3").unwrap();
            let raw: String = block[st3.offset as usize..][..10]
                .iter()
                .rev()
                .map(|byte| format!("{byte:02x}"))
                .collect();
            assert!(
                output.contains(&format!("(raw 0x{raw})")),
                "{set:?} {wide}: {output}"
            );
        }
    }
}

//! What is refused, and what is said about it; what odd files mean.

mod support;

use support::{description, frame, tracepoint};
use tracewire_arch::{LayoutError, RegisterLayout, X86Registers};
use tracewire_model::{
    Action, Address, ByteOrder, DefinitionRecord, FrameNumber, RegisterNumber, Status,
    TracepointNumber, VariableNumber,
};
use tracewire_tracefile::{
    Block, Description, DescriptionParts, EncodeError, Ending, FrameEncoder, FrameFormat, Module,
    OpenError, TraceFile, TraceFileWriter,
};

const HEADER: &[u8] = b"\x7fTRACE0\n";

fn read(description: &str, frames: &[u8]) -> TraceFile {
    TraceFile::from_bytes([HEADER, description.as_bytes(), frames].concat()).unwrap()
}

#[test]
fn the_limits_of_the_format_are_refused_with_the_reason() {
    let format = FrameFormat {
        byte_order: ByteOrder::Big,
        register_block_size: 4,
    };
    let mut bytes = b"before".to_vec();
    for number in [0, -1, 32768, i32::MAX, i32::MIN] {
        let error = FrameEncoder::begin(&mut bytes, format, TracepointNumber(number)).unwrap_err();
        assert!(
            error.to_string().contains("must be from 1 to 32767"),
            "{error}"
        );
    }
    let mut encoder = FrameEncoder::begin(&mut bytes, format, TracepointNumber(32767)).unwrap();
    let expected = EncodeError::RegisterBlock {
        expected: 4,
        actual: 5,
    };
    assert_eq!(encoder.registers(&[0; 5]), Err(expected));
    assert_eq!(
        encoder.static_data(&[0; 65536]),
        Err(EncodeError::StaticData(65536))
    );
    encoder.memory(Address(u64::MAX), &[1, 2]);
    drop(encoder);
    assert_eq!(bytes, b"before", "a frame that is given up is taken back");
}

#[test]
fn a_long_range_is_several_blocks() {
    let memory: Vec<u8> = (0..200_000u32).map(|i| i as u8).collect();
    let one = frame(
        ByteOrder::Little,
        |f| f.memory(Address(u64::MAX - 65_600), &memory),
        1,
    );
    let file = read("R 1\n\n", &one);
    let first = file.frame(FrameNumber(0)).unwrap();
    let lengths: Vec<_> = first
        .memory_blocks()
        .map(|(_, bytes)| bytes.len())
        .collect();
    assert_eq!(lengths, [65535, 65535, 65535, 3395]);
    assert_eq!(
        first.memory(Address(u64::MAX - 65_600), 200_000),
        Some(memory)
    );
}

#[test]
fn what_gdb_could_not_read_is_not_written() {
    let refused = |change: &dyn Fn(&mut DescriptionParts)| {
        let mut parts = DescriptionParts {
            register_block_size: 8,
            tracepoints: vec![tracepoint(12, 0x401000)],
            ..DescriptionParts::default()
        };
        change(&mut parts);
        Description::build(&parts).unwrap_err().to_string()
    };
    let condition = |size| {
        move |parts: &mut DescriptionParts| {
            parts.tracepoints[0].definition.condition = Some(vec![0x27; size]);
        }
    };
    let mut fits = DescriptionParts::default();
    fits.tracepoints.push(tracepoint(12, 0x401000));
    condition(480)(&mut fits);
    assert!(Description::build(&fits).is_ok());
    assert_eq!(
        refused(&condition(500)),
        "the condition, compiled, of tracepoint 12 takes a line of 1024 bytes; \
         GDB reads lines of at most 999"
    );
    let error = refused(&|parts| {
        parts.tracepoints[0].definition.actions = vec![Action::Expression(vec![0x27; 500])];
    });
    assert!(
        error.starts_with("a collected expression, compiled, of tracepoint 12"),
        "{error}"
    );
    let error = refused(&|parts| {
        parts.tracepoints[0].definition.source.condition = Some("x".repeat(500));
    });
    assert!(
        error.starts_with("the condition of tracepoint 12"),
        "{error}"
    );
    let error = refused(&|parts| parts.target_xml = Some("x".repeat(1000)));
    assert!(
        error.starts_with("a word of the target description"),
        "{error}"
    );
}

#[test]
fn long_lines_of_xml_are_folded_and_long_paths_go_on() {
    let registers: String = (0..100)
        .map(|n| format!("<reg name='r{n}' bitsize='32'/> "))
        .collect();
    let parts = DescriptionParts {
        register_block_size: 400,
        target_xml: Some(format!(
            "<target><feature name='f'>{registers}</feature></target>\n"
        )),
        modules: vec![Module {
            path: vec![b'p'; 3000],
            ..Module::default()
        }],
        ..DescriptionParts::default()
    };
    let description = Description::build(&parts).unwrap();
    assert!(description.lines().all(|line| line.text.len() < 1000));
    assert_eq!(description.modules(), parts.modules);
    let layout = RegisterLayout::parse(description.target_xml().unwrap()).unwrap();
    assert_eq!((layout.registers().len(), layout.size()), (100, 400));
}

/// The manual says decimal, GDB hexadecimal: the frames decide.
#[test]
fn the_size_of_register_blocks_is_the_one_with_which_frames_parse() {
    for size in [100, 256] {
        let build = |f: &mut FrameEncoder<'_>| {
            f.registers(&vec![0; size]).unwrap();
            f.variable(VariableNumber(1), -1);
        };
        let one = frame(ByteOrder::Little, build, size as u32);
        let file = read("R 100\n\n", &[one.clone(), one, vec![0; 4]].concat());
        assert_eq!(file.register_block_size(), Some(size as u32));
        assert_eq!(
            file.frames()
                .filter_map(|f| f.variable(VariableNumber(1)))
                .count(),
            2
        );
    }
    // No frame tells: as GDB.
    assert_eq!(read("R 100\n\n", &[0; 4]).register_block_size(), Some(256));
    assert_eq!(read("R 1f4\n\n", &[0; 4]).register_block_size(), Some(500));
    // No line tells: as the target description has it.
    let xml = "tdesc <target><reg name='a' bitsize='12'/></target>\n\n";
    assert_eq!(read(xml, &[0; 4]).register_block_size(), Some(2));
}

#[test]
fn unknown_blocks_and_lines_are_kept() {
    let mut one = frame(ByteOrder::Big, |f| f.variable(VariableNumber(3), 4), 1);
    one.extend(b"Q what is this");
    one[5] += 14;
    let next = frame(ByteOrder::Big, |f| f.variable(VariableNumber(3), 5), 1);
    let text = "R 1\nfuture thing\nstatus 2;\ntp T1:\ntp T1:10:E:0:0\ntp A2:10:L\n\n";
    let file = read(text, &[one, next].concat());
    assert_eq!(file.byte_order(), ByteOrder::Big);
    let blocks: Vec<_> = file.frame(FrameNumber(0)).unwrap().blocks().collect();
    let number = VariableNumber(3);
    let variable = Block::Variable { number, value: 4 };
    assert_eq!(blocks, [variable, Block::Unknown(b"Q what is this")]);
    assert_eq!(
        file.frame(FrameNumber(1)).unwrap().variable(number),
        Some(5)
    );

    let description = file.description();
    assert_eq!(
        description
            .unknown_lines()
            .map(|line| line.text)
            .collect::<Vec<_>>(),
        [b"future thing"]
    );
    assert_eq!(description.as_bytes(), &text.as_bytes()[..text.len() - 1]);
    let problems: Vec<_> = description
        .problems()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        problems,
        [
            "line 4: expected 1 (running) or 0 (not running) at byte 0 of `2;`",
            "line 5: expected a hexadecimal number at byte 3 of `T1:`",
            "line 7: tracepoint 2 at 0x10 has no definition (T) before this",
        ]
    );
    assert_eq!(description.problems()[0].offset, 25);
    assert_eq!(description.tracepoints().len(), 1);
}

#[test]
fn a_file_that_ends_anywhere_says_where() {
    let one = frame(ByteOrder::Little, |f| f.variable(VariableNumber(3), 4), 1);
    let ending = |bytes: &[u8]| read("R 1\ntp T1:10:E:0:0\n\n", bytes).ending();
    let start = 8 + 20;
    let end = start + one.len() as u64;
    assert_eq!(ending(&one), Ending::Missing { offset: end });
    assert_eq!(
        ending(&[&one[..], &[0]].concat()),
        Ending::Cut {
            offset: end,
            present: 1,
            expected: None
        }
    );
    let marked = [&one[..], &[0; 5]].concat();
    assert_eq!(
        ending(&marked),
        Ending::Marker {
            offset: end,
            trailing: 3,
            zero: true
        }
    );
    let more = [&marked[..], b"more"].concat();
    assert_eq!(
        ending(&more),
        Ending::Marker {
            offset: end,
            trailing: 7,
            zero: false
        }
    );
    assert_eq!(
        ending(&one[..10]),
        Ending::Cut {
            offset: start,
            present: 10,
            expected: Some(19)
        }
    );
    assert_eq!(read("R 1\nstat", b"").ending(), Ending::CutInDescription);
    assert_eq!(read("", b"").frame_count(), 0);
    assert_eq!(read("\n", &one).frame_count(), 1);
    assert!(matches!(
        TraceFile::from_bytes(b"\x7fTRACE1\n\n".to_vec()),
        Err(OpenError::Version { found }) if found == "1"
    ));
    for other in [
        "",
        "\x7fTRACE",
        "\x7fTRACE0",
        "\x7fTRACE0 \n\n",
        "TRACE0\n\n",
    ] {
        let opened = TraceFile::from_bytes(other.as_bytes().to_vec());
        let expected = matches!(opened, Err(OpenError::Header))
            || matches!(&opened, Err(OpenError::Version { found }) if found == "0 ");
        assert!(expected, "{other:?}: {opened:?}");
    }
    let missing = TraceFile::open("/no/such/file.tf").unwrap_err();
    assert_eq!(missing.to_string(), "cannot read /no/such/file.tf");
}

#[test]
fn registers_stand_in_the_order_of_their_numbers() {
    let layout = RegisterLayout::parse(
        "<?xml version='1.0'?><!DOCTYPE target SYSTEM 'gdb-target.dtd'>
         <target version='1.0'><architecture> mips </architecture>
         <feature name='a'><feature name='nested'>
           <reg name='late' bitsize='64' regnum='70'/><reg name='later' bitsize='1'/>
         </feature>
         <enum id='e' size='4'><evalue name='x' value='1'/></enum>
         <struct id='s' size='4'><field name='f' start='0' end='3'/></struct>
         <reg name='first' bitsize='24' regnum='1' type='s'/><reg name='pc' bitsize='32' regnum='37'/>
         </feature></target>",
    )
    .unwrap();
    let places: Vec<_> = layout
        .registers()
        .iter()
        .map(|r| (r.name.as_str(), r.number.0, r.offset))
        .collect();
    assert_eq!(
        places,
        [
            ("first", 1, 0),
            ("pc", 37, 3),
            ("late", 70, 7),
            ("later", 71, 15)
        ]
    );
    assert_eq!(layout.size(), 16);
    assert_eq!(layout.program_counter().unwrap().name, "pc");
    assert_eq!(layout.by_number(RegisterNumber(2)), None);
    assert_eq!(
        (layout.architecture(), layout.byte_order()),
        (Some("mips"), None)
    );

    let error = |xml: &str| RegisterLayout::parse(xml).unwrap_err();
    assert!(matches!(error("<feature/>"), LayoutError::Root(name) if name == "feature"));
    assert!(matches!(error("<target"), LayoutError::Xml(_)));
    assert!(matches!(error("<target/>"), LayoutError::Empty));
    let include = "<target><xi:include xmlns:xi='http://x' href='core.xml'/></target>";
    assert!(matches!(error(include), LayoutError::Include(name) if name == "core.xml"));
    // As GDB's own and QEMU's have it: the prefix is declared by the document type.
    let include =
        "<!DOCTYPE target SYSTEM 'gdb-target.dtd'><target><xi:include href='core.xml'/></target>";
    assert!(matches!(error(include), LayoutError::Include(name) if name == "core.xml"));
    let error = error("<target>\n<reg name='a'/>\n</target>").to_string();
    assert_eq!(
        error,
        "line 2 of the target description: expected a register with a bitsize from 1 to 524288"
    );
    let twice = "<target><reg name='a' bitsize='8' regnum='1'/><reg name='b' bitsize='8' regnum='1'/></target>";
    assert!(matches!(
        RegisterLayout::parse(twice),
        Err(LayoutError::Twice { .. })
    ));
    let last =
        "<target><reg name='a' bitsize='8' regnum='65535'/><reg name='b' bitsize='8'/></target>";
    assert!(matches!(
        RegisterLayout::parse(last),
        Err(LayoutError::Register { .. })
    ));
}

#[test]
fn the_smallest_register_set_that_covers_is_found() {
    let sizes = X86Registers::ALL.map(|set| (set.layout_64().size(), set.layout_32().size()));
    assert_eq!(
        sizes,
        [(164, 64), (276, 176), (560, 312), (816, 440), (2416, 760)]
    );
    let covering =
        |numbers: &[u16]| X86Registers::covering_64(numbers.iter().copied().map(RegisterNumber));
    assert_eq!(covering(&[]), Some(X86Registers::General));
    assert_eq!(covering(&[0, 16, 23]), Some(X86Registers::General));
    assert_eq!(covering(&[24]), Some(X86Registers::Core));
    assert_eq!(covering(&[16, 39]), Some(X86Registers::Core));
    assert_eq!(covering(&[40]), Some(X86Registers::Sse));
    assert_eq!(covering(&[59, 2]), Some(X86Registers::Sse));
    assert_eq!(covering(&[60]), Some(X86Registers::Avx));
    assert_eq!(covering(&[3, 147, 60]), Some(X86Registers::Avx512));
    assert_eq!(covering(&[148]), None);
}

/// What GDB and gdbserver really write, and older forms.
#[test]
fn pieces_and_states_are_read_in_all_their_forms() {
    let actions = Action::parse_list(
        "R40M-1,555555558040,40MF,fffffffffffffff8,8X0000000F,26000622100222d816080222080c27L",
    )
    .unwrap();
    let printed: Vec<_> = actions.iter().map(ToString::to_string).collect();
    assert_eq!(
        printed,
        [
            "R40",
            "M-1,555555558040,40",
            "Mf,fffffffffffffff8,8",
            "Xf,26000622100222d816080222080c27",
            "L"
        ]
    );
    for bad in [
        "R",
        "M-2,1,1",
        "M1,1",
        "X2,aa",
        "X1,a",
        "X1,zz",
        "Q",
        "M10000,0,1",
        "-",
    ] {
        assert!(Action::parse_list(bad).is_err(), "{bad}");
    }
    for text in [
        "T2:555555555158:E:2:64:X12,26000622100222d416080219162022031427",
        "T2:555555555158:D:0:0:F5",
        "T2:555555555158:D:0:0:S",
        "Z2:10:later:0:1:61",
        "V2:10:7:52150",
    ] {
        assert_eq!(
            DefinitionRecord::parse(text.as_bytes())
                .unwrap()
                .to_string(),
            text
        );
    }
    let same = |a: &str, b: &str| {
        assert_eq!(
            DefinitionRecord::parse(a.as_bytes()).unwrap(),
            DefinitionRecord::parse(b.as_bytes()).unwrap()
        );
    };
    same("T2:0010:E:0:0:X1,27:F5-", "T2:10:E:0:0:F5:X1,27");
    same("A2:10:R1-", "A2:10:R01");
    same("V2:10:7:52150:more", "V2:10:7:52150");
    let fields = |text: &str| Status::parse(text.as_bytes()).unwrap().fields;
    assert_eq!(fields("0;tstop:0"), fields("0;tstop::0"));
    assert_eq!(
        fields("0;tstop:zz:0").other,
        [("tstop".to_owned(), "zz:0".to_owned())]
    );
    assert!(fields("1").running);
}

#[test]
fn strings_in_parts_are_joined() {
    let file = read(
        "R 1\ntp T1:10:E:0:0\ntp Z1:10:cmd:0:4:6162\ntp Z1:10:cmd:2:4:63c3\ntp Z1:10:cmd:4:5:a9\n\
         tp Z1:10:cond:0:1:78\ntp Z1:10:cmd:0:1:79\ntp Z1:10:cmd:7:9:79\n\n",
        &[0; 4],
    );
    let source = &file.description().tracepoints()[0].definition.source;
    assert_eq!(source.commands, ["abcé", "y"]);
    assert_eq!(source.condition.as_deref(), Some("x"));
    assert_eq!(file.description().problems().len(), 1);
}

#[test]
fn a_part_of_another_tracepoint_s_string_is_not_joined() {
    let file = read(
        "R 1\ntp T1:10:E:0:0\ntp T2:20:E:0:0\ntp Z1:10:cmd:0:8:61616161\n\
         tp Z2:20:cmd:0:8:62626262\ntp Z1:10:cmd:4:8:63636363\ntp Z2:20:cmd:4:8:64646464\n\n",
        &[0; 4],
    );
    let description = file.description();
    let commands = |index: usize| &description.tracepoints()[index].definition.source.commands;
    assert_eq!(
        (&commands(0)[..], &commands(1)[..]),
        (&["aaaa".to_owned()][..], &["bbbbdddd".to_owned()][..])
    );
    let [problem] = description.problems() else {
        panic!("{:?}", description.problems())
    };
    assert_eq!(
        problem.to_string(),
        "line 7: the part of a string that starts at byte 4 does not follow the part before"
    );
}

#[test]
fn a_writer_leaves_what_was_there_until_it_is_done() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tf");
    std::fs::write(&path, "older").unwrap();
    let description = description(X86Registers::Core, 0);
    let mut writer = TraceFileWriter::create(&path, &description).unwrap();
    assert!(writer.append(b"\0\0\0\0\0\0\0\0").is_err());
    drop(writer);
    assert_eq!(std::fs::read(&path).unwrap(), b"older");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    let error = TraceFileWriter::create(folder.path().join("no/a.tf"), &description).unwrap_err();
    assert!(error.to_string().starts_with("cannot create "), "{error}");
}

/// A reader that has the older file open goes on reading that.
#[test]
fn a_writer_that_is_done_takes_the_place_of_what_was_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tf");
    let description = description(X86Registers::Core, 1);
    let number = |number| {
        let value = |f: &mut FrameEncoder<'_>| f.variable(VariableNumber(1), number);
        let mut writer = TraceFileWriter::create(&path, &description).unwrap();
        writer
            .append(&frame(ByteOrder::Little, value, 276))
            .unwrap();
        writer.finish().unwrap();
        TraceFile::open(&path).unwrap()
    };
    let reported = |file: &TraceFile| {
        file.frames()
            .find_map(|frame| frame.variable(VariableNumber(1)))
    };
    let (older, newer) = (number(1), number(2));
    assert_eq!((reported(&older), reported(&newer)), (Some(1), Some(2)));
    let names = std::fs::read_dir(folder.path()).unwrap();
    assert_eq!(
        names.map(|entry| entry.unwrap().path()).collect::<Vec<_>>(),
        [path]
    );
}

//! Files with very many of something: what looks for each of them among all others would not come to an end here.

#[path = "../../tracefile/tests/support/mod.rs"]
mod support;

use std::fmt::Write as _;

use support::frame;
use tracewire_arch::{LayoutError, RegisterLayout};
use tracewire_diagnose::{Fault, Place, check_structure};
use tracewire_model::{Address, ByteOrder, FrameNumber, TracepointNumber, VariableNumber};
use tracewire_tracefile::{Description, FrameEncoder, TraceFile};

fn read(description: &str, frames: &[u8]) -> TraceFile {
    let description = Description::parse(description.as_bytes().to_vec());
    TraceFile::in_memory(&description, &[frames]).unwrap()
}

fn faults(file: &TraceFile) -> Vec<Fault> {
    let mut faults = Vec::new();
    check_structure(file, &mut |finding| faults.push(finding.fault));
    faults
}

fn one_frame(build: impl FnOnce(&mut FrameEncoder<'_>), block: u32) -> Vec<u8> {
    frame(ByteOrder::Little, build, block)
}

#[test]
fn each_frame_finds_its_tracepoint() {
    const MANY: u16 = 32_000;
    let mut description = String::from("R 8\nstatus 0;tstop::0\n");
    let mut frames = Vec::new();
    for number in 1..=MANY {
        writeln!(
            description,
            "tp T{number:x}:{:x}:E:2:0",
            0x1000 + u64::from(number)
        )
        .unwrap();
        for _ in 0..4 {
            let mut frame = one_frame(|f| f.variable(VariableNumber(1), 1), 8);
            frame[..2].copy_from_slice(&number.to_le_bytes());
            frames.extend(frame);
        }
    }
    let file = read(&description, &frames);
    assert_eq!(faults(&file), []);
    let number = TracepointNumber(i32::from(MANY));
    assert_eq!(
        file.tracepoint_address(number),
        Some(Address(0x1000 + u64::from(MANY)))
    );
    assert!(
        file.frames()
            .all(|frame| frame.is_step().is_none() && frame.program_counter().is_none())
    );
}

#[test]
fn a_tracepoint_of_many_locations_tells_hits_from_steps() {
    let mut description = String::from(
        "R 8\nstatus 0;tstop::0\ntdesc <target><architecture>i386</architecture>\n\
         tdesc <reg name='pc' bitsize='64'/></target>\n",
    );
    let mut frames = Vec::new();
    for address in (0..40_000u64).map(|index| 0x1000 + 2 * index) {
        writeln!(description, "tp T1:{address:x}:E:1:0").unwrap();
        for at in [address, address + 1] {
            let registers = |f: &mut FrameEncoder<'_>| f.registers(&at.to_le_bytes()).unwrap();
            frames.extend(one_frame(registers, 8));
        }
    }
    let file = read(&description, &frames);
    assert_eq!(faults(&file), []);
    assert!(
        file.frames()
            .all(|frame| frame.is_step() == Some(frame.number().0 % 2 == 1))
    );
    assert_eq!(file.tracepoint_address(TracepointNumber(1)), None);
}

#[test]
fn a_variable_that_is_defined_again_keeps_its_place() {
    let mut description = String::new();
    for name in ["61", "62"] {
        for number in 0..300_000 {
            writeln!(description, "tsv {number:x}:0:0:{name}").unwrap();
        }
    }
    let description = Description::parse(description.into_bytes());
    let variables = description.variables();
    assert_eq!(variables.len(), 300_000);
    let good = |(at, one): (usize, &tracewire_model::VariableDefinition)| {
        one.number.0 as usize == at && one.name == "b"
    };
    assert!(variables.iter().enumerate().all(good));
}

#[test]
fn memory_in_many_pieces_is_read_in_one() {
    const MANY: usize = 150_000;
    let description = format!(
        "R 8\nstatus 0;tstop::0\ntp T1:10:E:0:0\ntp A1:10:M-1,1000,{MANY:x}M-1,1000,{:x}\n",
        MANY + 1
    );
    let memory: Vec<u8> = (0..MANY).map(|index| index as u8).collect();
    let pieces = |f: &mut FrameEncoder<'_>| {
        for (index, byte) in memory.iter().enumerate() {
            f.memory(Address(0x1000 + index as u64), &[*byte]);
        }
    };
    let file = read(&description, &one_frame(pieces, 8));
    let found = faults(&file);
    let [Fault::NotCollected(wanted)] = &found[..] else {
        panic!("{found:?}")
    };
    assert_eq!(
        wanted.to_string(),
        format!("memory of {} bytes at 0x1000", MANY + 1)
    );
    let frame = file.frame(FrameNumber(0)).unwrap();
    assert_eq!(frame.memory(Address(0x1000), MANY), Some(memory));
}

/// A thousand actions, each of which searches a register in a frame of 60,000 bytes.
#[test]
fn many_actions_are_not_held_against_many_frames() {
    let mut description = String::from("R 8\nstatus 0;tstop::0\ntp T1:10:E:0:0\n");
    description += &format!("tp A1:10:{}\n", "M1,10,4".repeat(100)).repeat(10);
    let one = one_frame(|f| f.memory(Address(0x10), &[1; 60_000]), 8);
    let reported = |frames| {
        let mut found = Vec::new();
        let file = read(&description, &one.repeat(frames));
        check_structure(&file, &mut |finding| found.push(finding));
        found
    };
    assert_eq!(reported(10), []);
    let found = reported(100);
    let [reported] = &found[..] else {
        panic!("{found:?}")
    };
    assert_eq!(reported.fault, Fault::NotLookedFor);
    let Place::Frame(frame, _) = reported.place else {
        panic!("{reported:?}")
    };
    assert!((20..40).contains(&frame.0), "{frame}");
}

#[test]
fn registers_that_are_not_known_are_reported_by_all_masks_together() {
    const REGISTERS: u32 = 6_000;
    let mut description =
        format!("R {REGISTERS:x}\nstatus 0;tstop::0\ntp T1:10:E:0:0\ntdesc <target>\n");
    for number in 0..REGISTERS {
        writeln!(description, "tdesc <reg name='{number}' bitsize='8'/>").unwrap();
    }
    description += "tdesc </target>\n";
    let masks = |f: &mut FrameEncoder<'_>| {
        f.registers(&vec![7; REGISTERS as usize]).unwrap();
        for mask in 0..200_000 {
            f.variable(VariableNumber(i32::MIN), 1 << (mask % 3));
            f.variable(VariableNumber(i32::MIN + 2), i64::MIN);
        }
    };
    let file = read(&description, &one_frame(masks, REGISTERS));
    let frame = file.frame(FrameNumber(0)).unwrap();
    let unknown = [0, 1, 2, 191];
    let known = frame.known_register_block().unwrap();
    let places = known.iter().enumerate().filter(|(_, byte)| byte.is_none());
    assert_eq!(places.map(|(at, _)| at).collect::<Vec<_>>(), unknown);
    let registers = frame
        .registers()
        .enumerate()
        .filter(|(_, (_, bytes))| bytes.is_none());
    assert_eq!(registers.map(|(at, _)| at).collect::<Vec<_>>(), unknown);
    assert_eq!(frame.register_value_named("191"), None);
    assert_eq!(frame.register_value_named("190"), Some(7));
}

/// The XML library compares each attribute of an element with all others.
#[test]
fn a_target_description_that_nobody_has_is_not_read() {
    let attributes: String = (0..30_000).map(|number| format!(" a{number}=''")).collect();
    let error = RegisterLayout::parse(&format!("<target{attributes}/>")).unwrap_err();
    assert!(matches!(error, LayoutError::TooLong(_)));
    assert!(
        error.to_string().ends_with("at most 262144 are read"),
        "{error}"
    );
}
